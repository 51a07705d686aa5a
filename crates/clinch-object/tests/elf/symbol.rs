//! Symbols: what they point at, linkage, scope, flags.

use crate::support::builder::{Builder, FORMATS, Section, Sym};
use crate::support::tool::{gnu_as, llvm_mc};
use crate::support::{input, place, read, refuses, symbol, symbol_at};
use clinch_graph::{Addressable, Linkage, Scope, SymbolFlags};
use clinch_object::ReadErrorKind;
use clinch_object::elf::raw::{shf, sht};

const SYMBOLS: &str = "
    .file \"source.c\"\n .text\n
    .globl strong\n .type strong,@function\nstrong: nop\n nop\n .size strong, 2\n
    .weak weak\n .type weak,@object\nweak: nop\n .size weak, 1\n
    .globl hidden\n .hidden hidden\nhidden: nop\n
    .globl protected\n .protected protected\nprotected: nop\n
    .globl internal\n .internal internal\ninternal: nop\n
    local: nop\n
    .globl resolver\n .type resolver,@gnu_indirect_function\nresolver: ret\n
    .globl past\n .type past,@function\npast: nop\n .size past, 100\n
    .globl absolute\n .set absolute, 0x123456789abcdef0\n
    .comm common, 24, 16\n
    .weak maybe\n .quad maybe, outside\n
    .hidden hidden_outside\n .quad hidden_outside\n
    .section .tdata,\"awT\",@progbits\n .globl thread\n .type thread,@object\nthread: .long 7\n
    .size thread, 4\n
    .section .tbss,\"awT\",@nobits\n .type zero_thread,@object\nzero_thread: .zero 8\n
    .data\n .type unique,@gnu_unique_object\nunique: .long 1\n .size unique, 4\n";

#[test]
fn every_kind_by_two_assemblers() {
    for object in [llvm_mc(SYMBOLS, &[]), gnu_as(SYMBOLS)] {
        let Some(object) = object else { continue };
        let graph = read(&object);
        let of = |name: &str| symbol(&graph, name);
        let at = |name: &str| place(&graph, &of(name));
        let text = |offset| (".text".to_owned(), offset);

        let strong = of("strong");
        assert_eq!((at("strong"), strong.size), (text(0), 2));
        assert_eq!(
            (strong.linkage(), strong.scope()),
            (Linkage::Strong, Scope::Default)
        );
        assert!(strong.flags.contains(SymbolFlags::CALLABLE));
        let weak = of("weak");
        assert_eq!(
            (at("weak"), weak.linkage(), weak.scope()),
            (text(2), Linkage::Weak, Scope::Default)
        );
        assert!(weak.flags.contains(SymbolFlags::OBJECT));
        for (name, offset, scope) in [
            ("hidden", 3, Scope::Hidden),
            ("protected", 4, Scope::Protected),
            ("internal", 5, Scope::Hidden),
            ("local", 6, Scope::Local),
        ] {
            assert_eq!(
                (at(name), of(name).scope()),
                (text(offset), scope),
                "{name}"
            );
        }
        let ifunc = SymbolFlags::IFUNC | SymbolFlags::CALLABLE;
        assert!(of("resolver").flags.contains(ifunc));
        // Cut to its section's end.
        let size = graph.block_size(graph.symbol_block(of("past").id).unwrap());
        assert_eq!((at("past"), of("past").size), (text(8), size - 8));
        assert_eq!(
            of("absolute").base,
            Addressable::Absolute(0x1234_5678_9abc_def0)
        );
        assert_eq!(of("common").base, Addressable::Common { align: 16 });
        assert_eq!(of("common").size, 24);

        let (maybe, outside) = (of("maybe"), of("outside"));
        assert_eq!(
            (maybe.base, outside.base),
            (Addressable::External, Addressable::External)
        );
        assert!(maybe.flags.contains(SymbolFlags::WEAKLY_REFERENCED));
        assert_eq!(maybe.linkage(), Linkage::Strong);
        assert!(!outside.flags.contains(SymbolFlags::WEAKLY_REFERENCED));
        assert_eq!(of("hidden_outside").scope(), Scope::Hidden);

        let thread = of("thread");
        assert_eq!((at("thread"), thread.size), ((".tdata".to_owned(), 0), 4));
        assert!(
            thread
                .flags
                .contains(SymbolFlags::TLS | SymbolFlags::OBJECT)
        );
        assert_eq!(at("zero_thread"), (".tbss".to_owned(), 0));
        let unique = of("unique");
        assert!(unique.flags.contains(SymbolFlags::UNIQUE));
        assert_eq!(
            (unique.linkage(), unique.scope()),
            (Linkage::Weak, Scope::Default)
        );
        // The name of the source stands for no place.
        let file = symbol_at(&graph, 1);
        assert_eq!(
            (file.name, file.base),
            (&b"source.c"[..], Addressable::Absolute(0))
        );
        assert_eq!(file.scope(), Scope::Local);
        assert_eq!(graph.input(input()).symbols().len(), count(&object));
    }
}

/// How many symbols `llvm-readelf` sees.
fn count(object: &[u8]) -> usize {
    let header = clinch_object::elf::raw::Header::parse(object).unwrap();
    let sections = header.sections(object);
    let table = sections
        .iter()
        .find(|(_, section)| section.kind == sht::SYMTAB)
        .unwrap()
        .1;
    usize::try_from(table.size / 24).unwrap()
}

#[test]
fn section_symbols_are_anonymous_anchors() {
    let Some(object) = gnu_as(".data\n.zero 8\n.text\n.quad .data + 4\n") else {
        return;
    };
    let graph = read(&object);
    let anchor = graph.symbols().map(|id| graph.symbol(id)).find(|symbol| {
        symbol.flags.contains(SymbolFlags::SECTION) && place(&graph, symbol).0 == ".data"
    });
    let anchor = anchor.unwrap();
    assert_eq!(
        (anchor.name, anchor.scope(), place(&graph, &anchor).1),
        (&b""[..], Scope::Local, 0)
    );
}

#[test]
fn common_symbols_of_all_sorts() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let common = |name, info, special, value| Sym {
            name,
            info,
            special: Some(special),
            value,
            size: 40,
            ..Sym::default()
        };
        builder.symbol(common("none", 1 << 4, 0xfff2, 0));
        builder.symbol(common("most", 1 << 4 | 1, 0xfff2, 1 << 31));
        builder.symbol(common("thread", 1 << 4 | 6, 0xfff2, 8));
        builder.symbol(common("old", 1 << 4 | 5, 0xfff2, 4));
        builder.symbol(common("large", 1 << 4 | 1, 0xff02, 64));
        let graph = read(&builder.build().bytes);
        for (name, align) in [
            ("none", 1),
            ("most", 1 << 31),
            ("thread", 8),
            ("old", 4),
            ("large", 64),
        ] {
            let symbol = symbol(&graph, name);
            assert_eq!(
                (symbol.base, symbol.size),
                (Addressable::Common { align }, 40),
                "{name}"
            );
            assert!(symbol.flags.contains(SymbolFlags::OBJECT));
            assert_eq!(symbol.flags.contains(SymbolFlags::TLS), name == "thread");
        }
    }
}

#[test]
fn a_reference_to_a_unique_symbol_is_not_weak() {
    let mut builder = Builder::new(FORMATS[0]);
    builder.symbol(Sym {
        name: "u",
        info: 10 << 4 | 1,
        ..Sym::default()
    });
    let graph = read(&builder.build().bytes);
    let symbol = symbol(&graph, "u");
    assert_eq!(symbol.base, Addressable::External);
    assert!(!symbol.flags.contains(SymbolFlags::WEAKLY_REFERENCED));
}

#[test]
fn an_undefined_local_symbol_is_discarded() {
    let mut builder = Builder::new(FORMATS[0]);
    builder.symbol(Sym {
        name: "gone",
        ..Sym::default()
    });
    let graph = read(&builder.build().bytes);
    let symbol = symbol(&graph, "gone");
    assert_eq!(
        (symbol.base, symbol.scope()),
        (Addressable::Discarded, Scope::Local)
    );
}

#[test]
fn symbols_of_sections_that_are_not_read_are_discarded() {
    let mut builder = Builder::new(FORMATS[0]);
    let text = builder.data(".text", shf::ALLOC, &[0; 8]);
    let far = builder.global("far", 0, 0);
    let table = builder.rela(text, &[(0, far, 1, 0)]);
    builder.symbol(Sym {
        name: "in_table",
        section: table,
        value: 1 << 40,
        ..Sym::default()
    });
    let graph = read(&builder.build().bytes);
    assert_eq!(symbol(&graph, "in_table").base, Addressable::Discarded);
}

#[test]
fn offsets_and_sizes_beyond_4_gib() {
    const GIB: u64 = 1 << 30;
    for format in FORMATS.into_iter().filter(|format| format.is_64) {
        let mut builder = Builder::new(format);
        let bss = builder.section(Section {
            name: ".bss",
            kind: sht::NOBITS,
            flags: shf::ALLOC | shf::WRITE,
            size: Some(10 * GIB),
            ..Section::default()
        });
        let mut at = |name, value, size| {
            builder.symbol(Sym {
                name,
                info: 1 << 4 | 1,
                section: bss,
                value,
                size,
                ..Sym::default()
            });
        };
        at("whole", 0, 10 * GIB);
        at("far", 9 * GIB, GIB);
        at("end", 10 * GIB, 0);
        at("cut", 8, 4 * GIB);
        at("cut_low", 9 * GIB + 1024, 0);
        builder.symbol(Sym {
            name: "abs",
            info: 1 << 4,
            special: Some(0xfff1),
            value: u64::MAX,
            size: 5 * GIB,
            ..Sym::default()
        });
        builder.symbol(Sym {
            name: "ext",
            info: 1 << 4,
            size: 6 * GIB,
            ..Sym::default()
        });
        builder.symbol(Sym {
            name: "common",
            info: 1 << 4,
            special: Some(0xfff2),
            value: 32,
            size: 7 * GIB,
            ..Sym::default()
        });
        let graph = read(&builder.build().bytes);
        let of = |name| {
            let symbol = symbol(&graph, name);
            (place(&graph, &symbol).1, symbol.size)
        };
        assert_eq!(of("whole"), (0, 10 * GIB));
        assert_eq!(of("far"), (9 * GIB, GIB));
        assert_eq!(of("end"), (10 * GIB, 0));
        assert_eq!(of("cut"), (8, 4 * GIB));
        assert_eq!(of("cut_low"), (9 * GIB + 1024, 0));
        let whole = |name| {
            let symbol = symbol(&graph, name);
            (symbol.base, symbol.size)
        };
        assert_eq!(whole("abs"), (Addressable::Absolute(u64::MAX), 5 * GIB));
        assert_eq!(whole("ext"), (Addressable::External, 6 * GIB));
        assert_eq!(
            whole("common"),
            (Addressable::Common { align: 32 }, 7 * GIB)
        );
    }
}

#[test]
fn a_size_that_stays_beyond_4_gib_is_not_cut() {
    // It would have to be changed in a table that all inputs share while they are read; no tool
    // writes such a size.
    let mut builder = Builder::new(FORMATS[0]);
    let bss = builder.section(Section {
        name: ".bss",
        kind: sht::NOBITS,
        flags: shf::ALLOC,
        size: Some(10 << 30),
        ..Section::default()
    });
    builder.symbol(Sym {
        name: "long",
        section: bss,
        value: 8,
        size: 10 << 30,
        ..Sym::default()
    });
    let built = builder.build();
    let kind = ReadErrorKind::SymbolOutside {
        index: 1,
        offset: 8,
        size: 10 << 30,
    };
    refuses(&built.bytes, None, built.symbol(1), kind);
}

#[test]
fn sizes_are_cut_at_the_sections_end() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text", shf::ALLOC, &[0; 16]);
        let info = 1 << 4;
        for (name, value, size) in [("a", 4, 13), ("b", 16, 1), ("c", 0, 0xffff_ffff)] {
            builder.symbol(Sym {
                name,
                info,
                section: text,
                value,
                size,
                ..Sym::default()
            });
        }
        if format.is_64 {
            builder.symbol(Sym {
                name: "d",
                info,
                section: text,
                value: 15,
                size: u64::MAX,
                ..Sym::default()
            });
        }
        let graph = read(&builder.build().bytes);
        assert_eq!(symbol(&graph, "a").size, 12);
        assert_eq!(symbol(&graph, "b").size, 0);
        assert_eq!(symbol(&graph, "c").size, 16);
        if format.is_64 {
            assert_eq!(symbol(&graph, "d").size, 1);
        }
    }
}
