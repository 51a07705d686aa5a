//! Both classes in both orders, and the three forms of relocation tables: they all say the same.

use crate::support::arch::{DELTA32, MARK, WORD32, WORD64};
use crate::support::builder::{Builder, FORMATS, Record, Sym, numbers};
use crate::support::tool::llvm_mc;
use crate::support::{Shown, block, edges, edges_of, place, read, section, symbol};
use clinch_graph::{Addressable, EdgeKind, Prot, Scope, SymbolFlags};
use clinch_object::elf::raw::{Format, shf};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Rel,
    Rela,
    Crel { addends: bool, shift: u32 },
}

const FORMS: [Form; 5] = [
    Form::Rel,
    Form::Rela,
    Form::Crel {
        addends: true,
        shift: 0,
    },
    Form::Crel {
        addends: true,
        shift: 3,
    },
    Form::Crel {
        addends: false,
        shift: 2,
    },
];

/// Records of every kind, also backwards and far apart; symbols 1 to 3.
const RECORDS: [Record; 7] = [
    (0, 1, 1, 5),
    (8, 3, 2, -4),
    (16, 1, 3, 0x7654_3210),
    (1024, 2, 1, -1),
    (512, 2, 2, i32::MIN as i64),
    (520, 3, 4, 0),
    (2040, 1, 3, 9),
];

fn object(format: Format, form: Form) -> Vec<u8> {
    let mut content = vec![0; 2048];
    if matches!(form, Form::Rel | Form::Crel { addends: false, .. }) {
        for (place, _, kind, addend) in RECORDS {
            let width = match kind {
                3 => 8,
                4 => 0,
                _ => 4,
            };
            let mut value = addend.cast_unsigned();
            if width == 4 {
                value &= 0xffff_ffff;
            }
            let place = usize::try_from(place).unwrap();
            content[place..place + width].copy_from_slice(&numbers(format, width, &[value]));
        }
    }
    let mut builder = Builder::new(format);
    let text = builder.data(".text", shf::ALLOC | shf::EXECINSTR, &content);
    builder.symbol(Sym {
        name: "local",
        section: text,
        value: 16,
        ..Sym::default()
    });
    builder.global("near", text, 1024);
    builder.global("far", 0, 0);
    match form {
        Form::Rel => builder.rel(text, &RECORDS),
        Form::Rela => builder.rela(text, &RECORDS),
        Form::Crel { addends, shift } => builder.crel(text, &RECORDS, addends, shift),
    };
    builder.build().bytes
}

fn expected() -> Vec<Shown> {
    [
        (0, WORD32, "local", 5),
        (8, DELTA32, "far", 0),
        (16, WORD64, "local", 0x7654_3210),
        (1024, WORD32, "near", -1),
        (512, DELTA32, "near", i64::from(i32::MIN) + 4),
        (520, MARK, "far", 0),
        (2040, WORD64, "local", 9),
    ]
    .map(|(offset, kind, name, addend)| (offset, kind, name.to_owned(), addend))
    .to_vec()
}

#[test]
fn every_form_gives_the_same_edges_in_every_class_and_order() {
    for format in FORMATS {
        for form in FORMS {
            let graph = read(&object(format, form));
            assert_eq!(edges(&graph, ".text"), expected(), "{format:?} {form:?}");
            let target = graph.target();
            assert_eq!(usize::from(target.pointer_size), format.word_size());
            assert_eq!(target.endian, format.endian);
        }
    }
}

#[test]
fn headers_and_symbols_in_every_class_and_order() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text", shf::ALLOC | shf::EXECINSTR, &[1, 2, 3, 4, 5]);
        builder.data(".data", shf::ALLOC | shf::WRITE, &[6; 7]);
        let (name, info) = ("f", 1 << 4 | 2);
        builder.symbol(Sym {
            name,
            info,
            other: 2,
            section: text,
            value: 1,
            size: 3,
            ..Sym::default()
        });
        builder.symbol(Sym {
            name: "abs",
            info: 1 << 4,
            special: Some(0xfff1),
            value: 0x8765_4321,
            ..Sym::default()
        });
        let graph = read(&builder.build().bytes);
        assert_eq!(section(&graph, ".text").prot, Prot::RX);
        assert_eq!(
            graph.content(block(&graph, ".text")).bytes(),
            [1, 2, 3, 4, 5]
        );
        assert_eq!(section(&graph, ".data").prot, Prot::RW);
        let f = symbol(&graph, "f");
        assert_eq!(place(&graph, &f), (".text".to_owned(), 1));
        assert_eq!((f.size, f.scope()), (3, Scope::Hidden));
        assert!(f.flags.contains(SymbolFlags::CALLABLE));
        assert_eq!(
            symbol(&graph, "abs").base,
            Addressable::Absolute(0x8765_4321)
        );
    }
}

#[test]
fn symbol_zero_is_the_value_zero() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text", shf::ALLOC, &[0; 8]);
        builder.rela(text, &[(0, 0, 1, 77)]);
        let graph = read(&builder.build().bytes);
        let mut found = Vec::new();
        graph.edges(block(&graph, ".text"), &mut found).unwrap();
        assert_eq!(graph.addressable(found[0].target), Addressable::Absolute(0));
        assert_eq!(found[0].addend, 77);
    }
}

#[test]
fn what_keeps_alive_may_be_anywhere() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text", shf::ALLOC, &[0; 8]);
        let far = builder.global("far", 0, 0);
        builder.rela(
            text,
            &[(0, far, 0, 0), (8, far, 0, 0), (0xffff_fff0, far, 0, 3)],
        );
        let graph = read(&builder.build().bytes);
        let alive = |offset, addend| (offset, EdgeKind::KEEP_ALIVE, "far".to_owned(), addend);
        assert_eq!(
            edges(&graph, ".text"),
            [alive(0, 0), alive(8, 0), alive(8, 3)]
        );
    }
}

#[test]
fn edges_may_end_with_their_section() {
    let mut builder = Builder::new(FORMATS[0]);
    let text = builder.data(".text", shf::ALLOC, &[0; 8]);
    let far = builder.global("far", 0, 0);
    builder.rela(text, &[(4, far, 1, 0), (0, far, 3, 0), (8, far, 4, 0)]);
    let graph = read(&builder.build().bytes);
    assert_eq!(edges(&graph, ".text").len(), 3);
}

#[test]
fn tables_for_sections_without_content_are_left_out() {
    let mut builder = Builder::new(FORMATS[0]);
    let (kind, flags, size) = (8, shf::ALLOC | shf::WRITE, Some(64));
    let bss = builder.section(crate::support::builder::Section {
        name: ".bss",
        kind,
        flags,
        size,
        ..Default::default()
    });
    let far = builder.global("far", 0, 0);
    builder.rela(bss, &[(0, far, 1, 0)]);
    let graph = read(&builder.build().bytes);
    assert!(graph.is_zero_fill(block(&graph, ".bss")));
    assert_eq!(edges(&graph, ".bss"), []);
}

#[test]
fn a_compiler_writes_the_same_with_crel() {
    let text = "
        .globl f\nf: call g@PLT\n movq v@GOTPCREL(%rip), %rax\n movq %fs:t@TPOFF, %rcx\n
        .zero 300\n leaq .L0(%rip), %rdx\n jmp f\n
        .L0: .quad f - 8, g + 0x123456789\n .long v - .\n .reloc ., R_X86_64_NONE, g\n
        .data\n .quad f, .L0, g\n
        .section .debug_x,\"\",@progbits\n .long .L0\n .quad .data + 4\n";
    let (Some(plain), Some(compact)) = (
        llvm_mc(text, &[]),
        llvm_mc(text, &["--crel", "--x86-relax-relocations=true"]),
    ) else {
        return;
    };
    let (plain, compact) = (read(&plain), read(&compact));
    let mut n_edges = 0;
    for (plain_block, compact_block) in plain.blocks().zip(compact.blocks()) {
        let of_plain = edges_of(&plain, plain_block);
        n_edges += of_plain.len();
        assert_eq!(of_plain, edges_of(&compact, compact_block));
    }
    assert!(n_edges >= 12, "{n_edges}");
    assert_eq!(plain.to_text(), compact.to_text());
}
