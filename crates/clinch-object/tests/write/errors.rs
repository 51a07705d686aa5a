//! What ELF cannot say is told by name.

use super::{graph, try_write};
use crate::support::arch;
use crate::support::builder::{Builder, FORMATS, Field};
use clinch_graph::parse;
use clinch_object::elf::raw::shf;
use clinch_object::write_object;

#[track_caller]
fn refuses(text: &str, message: &str) {
    let error = try_write(&graph(text)).expect_err("ELF cannot say it");
    assert_eq!(error.to_string(), message);
}

#[test]
fn sections() {
    let block = "block b1 size 1 align 1\n bytes 01\n";
    for (section, why) in [
        ("\"x\" --x", "ELF has no sections that may not be read"),
        (
            "\".ctors\" rw- retain relro",
            "ELF tells what it is for by its name, which says something else",
        ),
        (
            "\"frames\" r-- kind ctors",
            "ELF tells what it is for by its name, which says something else",
        ),
        (
            "\".data.rel.ro\" rw-",
            "its name says that it is not written after relocation",
        ),
    ] {
        let name = section.split('"').nth(1).unwrap();
        refuses(
            &format!("section s1 {section}\n {block}"),
            &format!("section {name}: {why}"),
        );
    }
    refuses(
        &format!(
            "section s1 \"a\" r--\n {block} section s2 \"b\" r--\n {}
             section s3 \"c\" r--\n {} associate b1 b3\nassociate b2 b3\n",
            block.replace("b1", "b2"),
            block.replace("b1", "b3")
        ),
        "section c: its blocks go with blocks of several sections",
    );
}

#[test]
fn groups() {
    for rule in ["no-duplicates", "same-size", "exact-match", "largest"] {
        refuses(
            &format!("comdat c1 $1 {rule}\nsymbol $1 \"f\" external\n"),
            "group f: ELF has no rule to select one of its copies by",
        );
    }
}

#[test]
fn symbols() {
    refuses(
        "section s1 \"x\" r--\n block b1 size 1 align 1\n bytes 01\nsymbol $1 \"f\" b1+0 side-effects-only\n",
        "symbol f: ELF has no symbols that are there only to be looked up",
    );
    refuses(
        "symbol $1 \"u\" external unique weakly-referenced\n",
        "symbol u: ELF has no weak reference to a unique symbol",
    );
}

#[test]
fn edges() {
    refuses(
        "section s1 \"x\" r--\n block b1 size 8 align 1\n bytes 01 00 00 00 00 00 00 00\n edge +1 Delta32FromGOT $1\nsymbol $1 b1+3\n",
        "section x+0x1: edge Delta32FromGOT to without a name at x+0x3: ELF has no such relocation",
    );
}

#[test]
fn too_many_zeros() {
    refuses(
        "section s1 \"x\" rw-\n block b1 size 0x40000001 align 1 zero\n block b2 size 1 align 1\n bytes 01\n",
        "the space between blocks is too large for an ELF object",
    );
    refuses(
        "section s1 \"x\" rw-\n block b1 size 1 align 1\n bytes 01\n block b2 size 1 align 0x8000000000000000\n bytes 01\n",
        "the space between blocks is too large for an ELF object",
    );
    refuses(
        "section s1 \"x\" rw-\n block b1 size 0xffffffffffffffff align 1 zero\n block b2 size 1 align 1 zero\n",
        "a section is too large for an ELF object",
    );
}

#[test]
fn what_32_bits_do_not_hold() {
    let text = |edge: &str, symbol: &str| {
        format!(
            "graph \"t\" toy32\nsection s1 \"x\" r--\n block b1 size 8 align 1\n bytes 01 00 00 00 00 00 00 00\n {edge}\n{symbol}\n"
        )
    };
    for (edge, symbol, message) in [
        (
            "edge +1 Word32 $1 + 0x80000000",
            "symbol $1 \"f\" external",
            "section x+0x1: edge Word32 to f: its addend does not fit a record",
        ),
        (
            "",
            "symbol $1 \"f\" absolute 0x100000000",
            "symbol f: its value or size does not fit 32 bits",
        ),
    ] {
        let graph = parse(&text(edge, symbol), arch::target).unwrap();
        let error = try_write(&graph).expect_err("it does not fit");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn another_architecture() {
    let graph = parse("graph \"t\" toy32\n", arch::target).unwrap();
    let other = clinch_target::arch_named("x86_64").unwrap();
    assert_eq!(
        write_object(&graph, other).unwrap_err().to_string(),
        "a graph for toy32 cannot be written as an ELF object for x86_64"
    );
}

/// A small file whose sections all hold all of it must not become a large one.
#[test]
fn overlapping_sections() {
    let mut builder = Builder::new(FORMATS[0]);
    let sections: Vec<u32> = (0..40)
        .map(|_| builder.data("x", shf::ALLOC, &[7; 400]))
        .collect();
    let mut built = builder.build();
    for section in sections {
        built.set(section, Field::Offset, 0);
        built.set(section, Field::Size, 4000);
    }
    let graph = crate::support::read(&built.bytes);
    let error = try_write(&graph).expect_err("they overlap");
    assert_eq!(error.to_string(), "t.o: sections overlap");
}
