//! More sections than their numbers have room for in a symbol and in the file's header
//! (`SHN_XINDEX`, `e_shnum` 0).

use crate::support::builder::{Builder, FORMATS, Field, Sym, numbers};
use crate::support::tool::{llvm_mc, says};
use crate::support::{block, edges, place, read, refuses, symbol};
use clinch_graph::Addressable;
use clinch_object::ReadErrorKind;
use clinch_object::elf::raw::{Format, shf};

/// From here on a section's number does not fit.
const RESERVED: u32 = 0xff00;

/// An object of 66,000 sections: symbols before, at and behind the limit, a group, records.
fn object(format: Format) -> Builder {
    let mut builder = Builder::new(format);
    for _ in 0..RESERVED - 2 {
        builder.data("", shf::ALLOC, &[]);
    }
    for (name, section) in [
        ("last", RESERVED - 1),
        ("first", RESERVED),
        ("reserved", 0xfff1),
    ] {
        builder.symbol(Sym {
            name,
            info: 1 << 4,
            section,
            value: 1,
            ..Sym::default()
        });
    }
    let signature = builder.global("group", 65_999, 0);
    builder.symbol(Sym {
        name: "abs",
        info: 1 << 4,
        special: Some(0xfff1),
        value: 9,
        ..Sym::default()
    });
    builder.data(".low", shf::ALLOC, &[0; 4]);
    builder.data(".high", shf::ALLOC, &[0; 4]);
    for _ in RESERVED + 1..65_998 {
        builder.data(".more", shf::ALLOC, &[0; 4]);
    }
    let number = builder.group(signature, 1, &[65_999]);
    assert_eq!(number, 65_998);
    let member = builder.data(".member", shf::ALLOC | shf::GROUP, &[0; 16]);
    builder.rela(member, &[(8, 2, 1, 3)]);
    builder
}

#[test]
fn symbols_groups_and_tables_of_66_000_sections() {
    for format in [FORMATS[0], FORMATS[3]] {
        let graph = read(&object(format).build().bytes);
        for (name, section) in [("last", ".low"), ("first", ".high"), ("reserved", ".more")] {
            assert_eq!(
                place(&graph, &symbol(&graph, name)),
                (section.to_owned(), 1)
            );
        }
        assert_eq!(symbol(&graph, "abs").base, Addressable::Absolute(9));
        let member = graph.find_section(b".member").unwrap();
        assert_eq!(graph.section(member).comdat, graph.comdats().iter().next());
        assert_eq!(edges(&graph, ".member")[0].2, "first");
    }
}

#[test]
fn a_missing_section_number_is_refused() {
    let built = object(FORMATS[0]).build();
    let (kind, at) = (
        ReadErrorKind::BadSymbol {
            index: 2,
            why: "its section number is missing",
        },
        built.symbol(2),
    );
    // Too short, of another symbol table, zero.
    let table = built.strtab + 1;
    let mut short = built.clone();
    short.set(table, Field::Size, 8);
    refuses(&short.bytes, None, at, kind);
    let mut other = built.clone();
    other.set(table, Field::Link, 0);
    refuses(&other.bytes, None, at, kind);
    let mut zero = built.clone();
    zero.write(built.offset(table) + 8, 0, 4);
    refuses(&zero.bytes, None, at, kind);

    let mut far = built.clone();
    far.write(built.offset(table) + 8, 0xffff_ffff, 4);
    let count = u64::from(built.shstrtab) + 1;
    let kind = ReadErrorKind::NoSection {
        what: "symbol",
        index: 0xffff_ffff,
        count,
    };
    refuses(&far.bytes, None, at, kind);
}

#[test]
fn tables_of_section_numbers_are_checked() {
    let mut built = object(FORMATS[0]).build();
    let table = built.strtab + 1;
    let mut twice = built.clone();
    // A section that is nothing else becomes a second one.
    twice
        .set(1, Field::Kind, 18)
        .set(1, Field::Link, built.symtab.into());
    let kind = ReadErrorKind::Several("table of section numbers");
    refuses(
        &twice.bytes,
        Some(".symtab_shndx"),
        twice.header(table),
        kind,
    );

    let (offset, len) = (built.offset(table), built.len());
    built.set(table, Field::Size, 1 << 40);
    let what = "table of section numbers";
    let kind = ReadErrorKind::Truncated {
        what,
        size: offset + (1 << 40),
        have: len,
    };
    refuses(&built.bytes, Some(".symtab_shndx"), offset, kind);
}

#[test]
fn a_count_in_section_header_0_is_checked() {
    let built = object(FORMATS[0]).build();
    let mut huge = built.clone();
    huge.set(0, Field::Size, u64::MAX / 8);
    let at = built.header(0);
    refuses(
        &huge.bytes,
        None,
        at,
        ReadErrorKind::TooLarge("section header table"),
    );
    let mut more = built.clone();
    let count = u64::from(built.shstrtab) + 2;
    more.set(0, Field::Size, count);
    let (what, size) = ("section header table", at + count * 64);
    refuses(
        &more.bytes,
        None,
        at,
        ReadErrorKind::Truncated {
            what,
            size,
            have: built.len(),
        },
    );
    let mut names = built.clone();
    names.set(0, Field::Link, count);
    let kind = ReadErrorKind::NoSection {
        what: "section name table",
        index: count,
        count: count - 1,
    };
    refuses(&names.bytes, None, at, kind);
}

#[test]
fn an_assembler_with_as_many_sections() {
    let mut text = String::new();
    for n in 0..65_400 {
        text.push_str(&format!(".section s{n},\"a\"\nv{n}: .byte {}\n", n % 251));
    }
    text.push_str(".data\n.quad v0, v65399\n.globl v65000\n");
    let Some(object) = llvm_mc(&text, &[]) else {
        return;
    };
    let graph = read(&object);
    for n in [0, 1, 65_270, 65_280, 65_300, 65_399] {
        let (name, content) = (format!("s{n}"), [u8::try_from(n % 251).unwrap()]);
        assert_eq!(
            graph.content(block(&graph, &name)).bytes(),
            content,
            "{name}"
        );
    }
    assert_eq!(
        place(&graph, &symbol(&graph, "v65000")),
        ("s65000".to_owned(), 0)
    );
    let targets: Vec<String> = edges(&graph, ".data")
        .into_iter()
        .map(|edge| edge.2)
        .collect();
    assert_eq!(targets, ["s0", "s65399"]);
    let Some(header) = says("llvm-readelf-22", &["-h"], &object) else {
        return;
    };
    assert!(
        header.contains("Number of section headers:         0 ("),
        "{header}"
    );
    assert_eq!(numbers(FORMATS[0], 2, &[0]), object[60..62]);
}
