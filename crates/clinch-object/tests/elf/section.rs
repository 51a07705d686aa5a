//! Sections: kinds, protections, flags, associations.

use crate::support::arch::{LARGE, UNWIND};
use crate::support::builder::{Builder, FORMATS, Section};
use crate::support::tool::{gnu_as, llvm_mc};
use crate::support::{block, read, section};
use clinch_graph::{Lifetime, Prot, SectionFlags, SectionKind};
use clinch_object::elf::raw::{shf, sht};

/// Sections with the one byte or word that each needs.
const SECTIONS: &[(&str, &str)] = &[
    (".text.x", "\"ax\",@progbits\n nop"),
    (".rodata.str1.1", "\"aMS\",@progbits,1\n .asciz \"abc\""),
    (".rodata.str4.4", "\"aMS\",@progbits,4\n .long 65, 0"),
    (".rodata.cst16", "\"aM\",@progbits,16\n .zero 16"),
    (".comment.x", "\"MS\",@progbits,1\n .asciz \"tool\""),
    (".preinit_array", "\"aw\",@preinit_array\n .quad 1"),
    (".init_array", "\"aw\",@init_array\n .quad 1"),
    (".init_array.00100", "\"aw\",@init_array\n .quad 1"),
    (".fini_array", "\"aw\",@fini_array\n .quad 1"),
    (".fini_array.65535", "\"aw\",@fini_array\n .quad 1"),
    (".ctors", "\"aw\",@progbits\n .quad 1"),
    (".ctors.65435", "\"aw\",@progbits\n .quad 1"),
    (".dtors", "\"aw\",@progbits\n .quad 1"),
    (".dtors.00001", "\"aw\",@progbits\n .quad 1"),
    (".ctorsish", "\"aw\",@progbits\n .quad 1"),
    (".init", "\"ax\",@progbits\n nop"),
    (".data.rel.ro", "\"aw\",@progbits\n .quad 1"),
    (".data.rel.ro.local", "\"aw\",@progbits\n .quad 1"),
    (".data.relish", "\"aw\",@progbits\n .quad 1"),
    (".note.x", "\"a\",@note\n .long 0, 0, 1"),
    (".tdata.x", "\"awT\",@progbits\n .quad 1"),
    (".tbss.x", "\"awT\",@nobits\n .zero 8"),
    (".bss.x", "\"aw\",@nobits\n .zero 300"),
    (".debug_x", "\"\",@progbits\n .byte 1"),
    (".excluded", "\"e\",@progbits\n .byte 1"),
    (".ldata", "\"awl\",@progbits\n .byte 1"),
    ("retained", "\"awR\",@progbits\n .byte 1"),
];

#[test]
fn kinds_protections_and_flags_by_two_assemblers() {
    let text: String = SECTIONS
        .iter()
        .map(|(name, rest)| format!(".section {name},{rest}\n"))
        .collect();
    for object in [llvm_mc(&text, &[]), gnu_as(&text)] {
        let Some(object) = object else { continue };
        let graph = read(&object);
        let of = |name: &str| section(&graph, name);
        let flags = |name: &str| of(name).flags;
        let none = SectionFlags::empty();

        let text = of(".text.x");
        assert_eq!(
            (text.prot, text.kind, text.flags),
            (Prot::RX, SectionKind::Regular, none)
        );
        let strings = SectionFlags::MERGE | SectionFlags::STRINGS;
        for (name, size) in [(".rodata.str1.1", 1), (".rodata.str4.4", 4)] {
            assert_eq!(
                (of(name).prot, flags(name), of(name).entry_size),
                (Prot::R, strings, size)
            );
        }
        let constants = of(".rodata.cst16");
        assert_eq!(
            (constants.flags, constants.entry_size),
            (SectionFlags::MERGE, 16)
        );
        let comment = of(".comment.x");
        assert_eq!(
            (comment.flags, comment.lifetime),
            (strings, Lifetime::NoAlloc)
        );

        let array = SectionFlags::RETAIN | SectionFlags::RELRO;
        for (name, kind) in [
            (".preinit_array", SectionKind::PreinitArray),
            (".init_array", SectionKind::InitArray),
            (".init_array.00100", SectionKind::InitArray),
            (".fini_array", SectionKind::FiniArray),
            (".fini_array.65535", SectionKind::FiniArray),
            (".ctors", SectionKind::Ctors),
            (".ctors.65435", SectionKind::Ctors),
            (".dtors", SectionKind::Dtors),
            (".dtors.00001", SectionKind::Dtors),
        ] {
            assert_eq!(
                (of(name).kind, of(name).prot, flags(name)),
                (kind, Prot::RW, array),
                "{name}"
            );
        }
        assert_eq!(
            (of(".ctorsish").kind, flags(".ctorsish")),
            (SectionKind::Regular, none)
        );
        assert_eq!(flags(".init"), SectionFlags::RETAIN);
        assert_eq!(flags(".data.rel.ro"), SectionFlags::RELRO);
        assert_eq!(flags(".data.rel.ro.local"), SectionFlags::RELRO);
        assert_eq!(flags(".data.relish"), none);
        assert_eq!(of(".note.x").kind, SectionKind::Note);
        assert_eq!(
            (flags(".tdata.x"), flags(".tbss.x")),
            (SectionFlags::TLS, SectionFlags::TLS)
        );
        assert!(!graph.is_zero_fill(block(&graph, ".tdata.x")));
        assert!(graph.is_zero_fill(block(&graph, ".tbss.x")));
        let bss = block(&graph, ".bss.x");
        assert_eq!(
            (graph.is_zero_fill(bss), graph.block_size(bss)),
            (true, 300)
        );
        let debug = of(".debug_x");
        assert_eq!(
            (debug.kind, debug.lifetime),
            (SectionKind::Debug, Lifetime::NoAlloc)
        );
        assert_eq!(flags(".excluded"), SectionFlags::EXCLUDE);
        assert_eq!(flags(".ldata"), SectionFlags::LARGE);
        assert_eq!(flags("retained"), SectionFlags::RETAIN);
    }
}

#[test]
fn unwind_information_of_either_type() {
    let text = "f: .cfi_startproc\n nop\n .cfi_endproc\n";
    // GNU as writes SHT_PROGBITS, LLVM SHT_X86_64_UNWIND.
    for object in [llvm_mc(text, &[]), gnu_as(text)] {
        let Some(object) = object else { continue };
        let graph = read(&object);
        let eh_frame = section(&graph, ".eh_frame");
        assert_eq!(
            (eh_frame.kind, eh_frame.prot),
            (SectionKind::EhFrame, Prot::R)
        );
        assert!(!graph.has_no_edges(block(&graph, ".eh_frame")));
    }
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let data = vec![0; 4];
        let (kind, flags) = (UNWIND, shf::ALLOC);
        builder.section(Section {
            name: ".any",
            kind,
            flags,
            data: data.clone(),
            ..Section::default()
        });
        // Not in memory, so not for unwinding.
        builder.section(Section {
            name: ".not",
            kind,
            data,
            ..Section::default()
        });
        let graph = read(&builder.build().bytes);
        assert_eq!(section(&graph, ".any").kind, SectionKind::EhFrame);
        assert_eq!(section(&graph, ".not").kind, SectionKind::Regular);
    }
}

#[test]
fn link_order_ties_a_section_to_another() {
    let text = "
        .section .text.f,\"ax\",@progbits\nf: nop\n
        .section .text.g,\"ax\",@progbits\ng: nop\n
        .section meta,\"ao\",@progbits,.text.g\n .quad g\n
        .section meta,\"ao\",@progbits,.text.f,unique,1\n .quad f\n";
    let Some(object) = llvm_mc(text, &[]) else {
        return;
    };
    let graph = read(&object);
    let name = |block| {
        String::from_utf8_lossy(graph.section_name(graph.block_section(block))).into_owned()
    };
    let pairs: Vec<_> = graph
        .associations()
        .iter()
        .map(|&(parent, child)| (name(parent), name(child)))
        .collect();
    let pair = |parent: &str| (parent.to_owned(), "meta".to_owned());
    assert_eq!(pairs, [pair(".text.g"), pair(".text.f")]);
    // Metadata of the second kind goes with the second function.
    assert_ne!(graph.associations()[0].1, graph.associations()[1].1);
}

#[test]
fn link_order_without_a_section_says_nothing() {
    let mut builder = Builder::new(FORMATS[0]);
    builder.data("meta", shf::ALLOC | shf::LINK_ORDER, &[1]);
    let graph = read(&builder.build().bytes);
    assert!(graph.associations().is_empty());
}

#[test]
fn flags_mean_the_same_in_every_class_and_order() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let mut add = |name, kind, flags, entry_size| {
            let data = vec![0; 16];
            builder.section(Section {
                name,
                kind,
                flags,
                data,
                entry_size,
                align: 8,
                ..Section::default()
            });
        };
        let alloc = shf::ALLOC;
        add(
            "strings",
            sht::PROGBITS,
            alloc | shf::MERGE | shf::STRINGS,
            2,
        );
        add("init", sht::INIT_ARRAY, alloc | shf::WRITE, 8);
        add("retain", sht::PROGBITS, alloc | shf::GNU_RETAIN, 0);
        add("exclude", sht::PROGBITS, shf::EXCLUDE, 0);
        add("large", sht::PROGBITS, alloc | LARGE, 0);
        add("tls", sht::PROGBITS, alloc | shf::WRITE | shf::TLS, 0);
        add(".strings", sht::STRTAB, alloc, 0);
        add(".unloaded", sht::STRTAB, 0, 0);
        let graph = read(&builder.build().bytes);
        let strings = section(&graph, "strings");
        assert_eq!(strings.flags, SectionFlags::MERGE | SectionFlags::STRINGS);
        assert_eq!(strings.entry_size, 2);
        assert_eq!(section(&graph, "init").kind, SectionKind::InitArray);
        // Entries have a size only where they can be merged.
        assert_eq!(section(&graph, "init").entry_size, 0);
        assert_eq!(section(&graph, "retain").flags, SectionFlags::RETAIN);
        assert_eq!(section(&graph, "exclude").flags, SectionFlags::EXCLUDE);
        assert_eq!(section(&graph, "large").flags, SectionFlags::LARGE);
        assert_eq!(section(&graph, "tls").flags, SectionFlags::TLS);
        assert_eq!(graph.block_align(block(&graph, "tls")), 8);
        assert!(graph.find_section(b".strings").is_some());
        assert!(graph.find_section(b".unloaded").is_none());
    }
}

#[test]
fn alignments_up_to_the_largest() {
    for format in FORMATS {
        let most: u64 = if format.is_64 { 1 << 63 } else { 1 << 31 };
        for (align, meant) in [
            (0, 1),
            (1, 1),
            (4096, 4096),
            (1 << 20, 1 << 20),
            (most, most),
        ] {
            let mut builder = Builder::new(format);
            let (name, kind, flags) = (".data", sht::PROGBITS, shf::ALLOC);
            builder.section(Section {
                name,
                kind,
                flags,
                align,
                ..Section::default()
            });
            let graph = read(&builder.build().bytes);
            assert_eq!(graph.block_align(block(&graph, ".data")), meant);
        }
    }
}
