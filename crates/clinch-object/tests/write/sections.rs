//! What section headers say: types, flags, entry sizes, links, groups.

use super::{graph, header, headers, round_trip, write};
use crate::support::arch::{LARGE, UNWIND};
use crate::support::builder::{Builder, FORMATS, Section};
use crate::support::tool::{gnu_as, llvm_mc};
use crate::support::{edges, read, section, symbol};
use clinch_graph::{SectionFlags, SectionKind};
use clinch_object::elf::raw::{SectionHeader, shf, sht};

/// Type, flags and entry size of a section of the one graph.
#[track_caller]
fn of(text: &str) -> (u32, u64, u64) {
    let written = write(&graph(&format!(
        "section s1 {text}\n block b1 size 8 align 8\n bytes 01 02 03 04 05 06 07 08\n"
    )));
    let (_, header) = &headers(&written)[1];
    (header.kind, header.flags, header.entry_size)
}

/// gABI, "Sections": `sh_type` and `sh_flags`.
#[test]
fn types_and_flags() {
    for (text, expected) in [
        ("\".text\" r-x", (1, 0x6, 0)),
        ("\".data\" rw-", (1, 0x3, 0)),
        ("\".rodata\" r--", (1, 0x2, 0)),
        (
            "\".init_array\" rw- kind init-array retain relro",
            (14, 0x3, 8),
        ),
        (
            "\".fini_array.5\" rw- kind fini-array retain relro",
            (15, 0x3, 8),
        ),
        (
            "\".preinit_array\" rw- kind preinit-array retain relro",
            (16, 0x3, 8),
        ),
        ("\".ctors\" rw- kind ctors retain relro", (1, 0x3, 0)),
        ("\".note.x\" r-- kind note", (7, 0x2, 0)),
        ("\".eh_frame\" r-- kind eh-frame", (0x7000_0001, 0x2, 0)),
        (
            "\".comment\" r-- lifetime noalloc entry 1 merge strings",
            (1, 0x30, 1),
        ),
        ("\".rodata.cst16\" r-- entry 16 merge", (1, 0x12, 16)),
        ("\".tdata\" rw- tls", (1, 0x403, 0)),
        ("\".kept\" r-- retain", (1, 0x20_0002, 0)),
        // Nothing more is to be said of what is always kept.
        ("\".init\" r-x retain", (1, 0x6, 0)),
        ("\".ldata\" rw- large", (1, 0x1000_0003, 0)),
        ("\".out\" r-- lifetime noalloc exclude", (1, 0x8000_0000, 0)),
        ("\".debug_info\" r-- lifetime noalloc kind debug", (1, 0, 0)),
        // What only memory is saved by has no word, nor has what the linker made.
        ("\".temporary\" rwx lifetime finalize", (1, 0x7, 0)),
        ("\"$__GOT\" rw- kind got relro", (1, 0x3, 0)),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn zero_fill_takes_no_room() {
    let written = write(&graph(
        "section s1 \".bss\" rw-\n block b1 size 0x1000000 align 4096 zero\n
         section s2 \".tbss\" rw- tls\n block b2 size 64 align 8 zero\n
         section s3 \".init_array\" rw- kind init-array retain relro\n block b3 size 8 align 8 zero\n",
    ));
    let bss = header(&written, ".bss").1;
    assert_eq!(
        (bss.kind, bss.size, bss.align),
        (sht::NOBITS, 1 << 24, 4096)
    );
    assert_eq!(header(&written, ".tbss").1.kind, sht::NOBITS);
    // An array of a type of its own cannot be without content.
    let array = header(&written, ".init_array").1;
    assert_eq!(array.kind, sht::INIT_ARRAY);
    let content = array.data(&written, "array").unwrap();
    assert_eq!(content, [0; 8]);
    assert!(written.len() < 4096);
}

/// gABI, "Section Groups": members carry the flag, and the section with the records is a member.
#[test]
fn groups() {
    let written = write(&graph(
        "comdat c1 $1 any\ncomdat c2 $2 all\n
         section s1 \".text.f\" r-x comdat c1\n block b1 size 8 align 1\n bytes 00 00 00 00 00 00 00 00\n edge +0 Delta32 $2\n
         section s2 \".data.f\" rw- comdat c1\n block b2 size 1 align 1\n bytes 09\n
         section s3 \".data.g\" rw- comdat c2\n block b3 size 1 align 1\n bytes 0a\n
         symbol $1 \"f\" b1+0 weak callable\nsymbol $2 \"g\" b3+0\n",
    ));
    let all = headers(&written);
    let words = |header: &SectionHeader| -> Vec<u32> {
        let data = header.data(&written, "group").unwrap();
        let words = data.chunks_exact(4);
        words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    };
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "",
            ".group",
            ".group",
            ".text.f",
            ".rela.text.f",
            ".data.f",
            ".data.g",
            ".symtab",
            ".strtab",
            ".shstrtab"
        ]
    );
    assert_eq!(words(&all[1].1), [1, 3, 4, 5]);
    assert_eq!(words(&all[2].1), [0, 6]);
    for (name, header) in &all[3..7] {
        assert_ne!(header.flags & shf::GROUP, 0, "{name}");
    }
    // Symbols 1 and 2: none is local.
    assert_eq!([all[1].1.info, all[2].1.info], [1, 2]);
    assert_eq!([all[1].1.link, all[4].1.link, all[4].1.info], [7, 7, 3]);
    assert_eq!(all[4].1.flags, shf::INFO_LINK | shf::GROUP);
    assert_eq!((all[4].1.entry_size, all[4].1.align), (24, 8));
    assert_eq!(
        (all[7].1.info, all[7].1.link, all[7].1.entry_size),
        (1, 8, 24)
    );
}

/// A group without sections that another input's copy stands for is left out.
#[test]
fn groups_that_went() {
    use clinch_graph::{Comdat, InputName, LinkGraph, Names, Selection, Workers};
    use clinch_object::{ReadOptions, add_blocks, add_objects};
    let source = ".section .text.f,\"axG\",@progbits,f,comdat\n .weak f\nf: ret\n";
    let (Some(first), Some(second)) = (llvm_mc(source, &[]), gnu_as(source)) else {
        return;
    };
    let arch = clinch_target::arch_named("x86_64").unwrap();
    let mut graph = LinkGraph::new("t", &arch.graph);
    let (workers, mut names) = (Workers::new(1), Names::new());
    let inputs = [first, second].map(|object| (InputName::file("t.o"), object.into()));
    let options = ReadOptions { metadata: true };
    let added = add_objects(&mut graph, &mut names, &workers, inputs.into(), options).unwrap();
    let first = graph.comdats().get(0).unwrap();
    let keep = |comdat| comdat == first;
    add_blocks(
        &mut graph,
        &workers,
        added.inputs,
        added.objects,
        |_| true,
        keep,
    )
    .unwrap();
    let again = read(&write(&graph));
    assert_eq!(again.comdats().len(), 1);
    let Comdat { selection, .. } = again.comdat(again.comdats().get(0).unwrap());
    assert_eq!(selection, Selection::Any);
    assert_eq!(section(&again, ".text.f").comdat, again.comdats().get(0));
}

#[test]
fn order_follows_the_parent() {
    let text = "section s1 \".a\" r--\n block b1 size 1 align 1\n bytes 01\n
        section s2 \".text\" r-x\n block b2 size 1 align 1\n bytes 02\n
        associate b2 b1\n";
    let written = write(&graph(text));
    let (a, text) = (header(&written, ".a"), header(&written, ".text"));
    assert_eq!(a.1.flags, shf::ALLOC | shf::LINK_ORDER);
    assert_eq!((a.1.link, text.1.link), (text.0, 0));
    assert_eq!(read(&written).associations().len(), 1);
}

#[test]
fn what_must_live_is_kept() {
    let text = "section s1 \".a\" r--\n block b1 size 1 align 1\n bytes 01\n
        symbol $1 \"f\" b1+0 live\n";
    let written = write(&graph(text));
    assert_eq!(header(&written, ".a").1.flags, shf::ALLOC | shf::GNU_RETAIN);
    // ELFOSABI_GNU, since the flag is GNU's.
    assert_eq!(written[7], 3);
    assert_eq!(write(&graph(&text.replace(" live", "")))[7], 0);
}

/// Sections of one name stay apart, in the order that a step gave them.
#[test]
fn sections_of_one_name() {
    let written = write(&graph(
        "section s1 \"x\" r-- ordinal 9\n block b1 size 1 align 1\n bytes 01\n
         section s2 \"x\" rw-\n block b2 size 1 align 1\n bytes 02\n
         section s3 \"empty\" r--\n",
    ));
    let all = headers(&written);
    let x: Vec<u64> = all
        .iter()
        .filter(|(name, _)| name == "x")
        .map(|(_, header)| header.flags)
        .collect();
    assert_eq!(x, [3, 2]);
    assert!(all.iter().all(|(name, _)| name != "empty"));
}

/// Decompressed content must not go by the name of compressed content.
#[test]
fn decompressed_sections() {
    let source =
        ".section .debug_str,\"MS\",@progbits,1\n .rept 400\n .asciz \"hello\"\n .endr\n .long f\n";
    for option in [
        "--compress-debug-sections=zlib",
        "--compress-debug-sections=zlib-gnu",
    ] {
        let words = ["--64", option, "{in}", "-o", "{out}"];
        let Some(object) = crate::support::tool::make("as", &words, "t.s", source) else {
            return;
        };
        let before = read(&object);
        let again = read(&write(&before));
        let id = again.find_section(b".debug_str").unwrap();
        assert_eq!(again.section_kind(id), SectionKind::Debug);
        assert_eq!(edges(&again, ".debug_str")[0].0, 2400);
        let block = again.section_blocks(id).next().unwrap();
        assert_eq!(&again.content(block).bytes()[..12], b"hello\0hello\0");
    }
}

/// Unwind information and large data where an architecture has a type and a flag for them.
#[test]
fn what_architectures_add() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        builder.section(Section {
            name: ".any",
            kind: UNWIND,
            flags: shf::ALLOC,
            data: vec![0; 4],
            ..Section::default()
        });
        builder.data(".large", shf::ALLOC | LARGE, &[1]);
        builder.data(".eh_frame", shf::ALLOC, &[0; 4]);
        let written = round_trip(&builder.build().bytes);
        assert_eq!(header(&written, ".any").1.kind, UNWIND);
        assert_eq!(header(&written, ".large").1.flags, shf::ALLOC | LARGE);
        let again = read(&written);
        assert_eq!(section(&again, ".eh_frame").kind, SectionKind::EhFrame);
        assert!(
            section(&again, ".large")
                .flags
                .contains(SectionFlags::LARGE)
        );
    }
}

/// Tables of significant symbols speak of the symbols' new numbers.
#[test]
fn significant_symbols_are_renumbered() {
    let source = ".globl f\nf: nop\nlocal: nop\n .globl g\ng: call far\n
        .addrsig\n .addrsig_sym g\n .addrsig_sym local\n";
    let Some(object) = llvm_mc(source, &[]) else {
        return;
    };
    let mut graph = read(&object);
    let f = symbol(&graph, "f").id;
    graph.remove_symbol(f).unwrap();
    let again = read(&write(&graph));
    let found = clinch_object::address_significant(&again, crate::support::input());
    let found = found.unwrap().unwrap();
    let mut names: Vec<String> = found
        .into_iter()
        .map(|symbol| crate::support::name_of(&again, symbol))
        .collect();
    names.sort();
    assert_eq!(names, ["g", "local"]);
}
