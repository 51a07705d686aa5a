//! More sections than their numbers have room for, and other large numbers, in all classes and
//! orders.

use super::{digest, graph, header, headers, write};
use crate::support::arch::MACHINE;
use crate::support::builder::{Builder, FORMATS, Section, Sym};
use crate::support::tool::says;
use crate::support::{place, read, symbol, try_read};
use clinch_graph::{Addressable, LinkGraph};
use clinch_object::elf::raw::{Header, shf, shn, sht};

/// An object of so many sections, each with a symbol, the last with a record and in a group.
fn object(format: clinch_object::elf::raw::Format, n_sections: u32) -> Vec<u8> {
    let mut builder = Builder::new(format);
    let mut last = 0;
    for number in 0..n_sections {
        last = builder.data(".d", shf::ALLOC, &[1; 8]);
        if number % 7 == 0 {
            builder.symbol(Sym {
                section: last,
                value: 3,
                ..Sym::default()
            });
        }
    }
    let name = builder.global("last", last, 5);
    builder.rela(last, &[(4, name, 1, -7)]);
    builder.group(name, 1, &[last]);
    builder.build().bytes
}

/// Reads, writes and reads an object: as [`super::round_trip`], without the text form, which takes
/// long for so many sections.
#[track_caller]
fn round_trip(object: &[u8]) -> (Vec<u8>, LinkGraph) {
    let graph = try_read(object).unwrap();
    let written = write(&graph);
    let again = try_read(&written).unwrap();
    assert_eq!(digest(&again), digest(&graph));
    (written, again)
}

#[test]
fn sections_around_and_beyond_the_reserved_numbers() {
    // With the group, the records and three tables the file has 7 more, or 8.
    for n_sections in [0xfef8_u32, 0xfef9, 0xfeff] {
        let (written, graph) = round_trip(&object(FORMATS[0], n_sections));
        let header = Header::parse(&written).unwrap();
        let all = headers(&written);
        assert_eq!(header.n_sections, u64::try_from(all.len()).unwrap());
        let first = &all[0].1;
        let is_many = all.len() >= usize::from(shn::LORESERVE);
        assert_eq!(first.size, if is_many { header.n_sections } else { 0 });
        let e_shnum = u16::from_le_bytes(written[60..62].try_into().unwrap());
        assert_eq!(e_shnum == 0, is_many);
        assert_eq!(place(&graph, &symbol(&graph, "last")), (".d".into(), 5));
        // The table is there when a symbol needs it.
        let extended = all.iter().any(|(name, _)| name == ".symtab_shndx");
        let section = all.iter().rposition(|(name, _)| name == ".d").unwrap();
        assert_eq!(extended, section >= usize::from(shn::LORESERVE));
    }
    for format in [FORMATS[0], FORMATS[3]] {
        round_trip(&object(format, 66_000));
    }
}

#[test]
fn a_peer_reads_66_000_sections() {
    let mut text = String::new();
    for number in 1..=66_000 {
        text +=
            &format!("section s{number} \"d\" r--\n block b{number} size 1 align 1\n bytes 07\n");
    }
    text += "symbol $1 \"last\" b66000+0\n";
    let written = write(&graph(&text));
    let Some(said) = says("llvm-readelf-22", &["-hsW"], &written) else {
        return;
    };
    assert!(said.contains("(66005)"), "{:.2000}", said);
    let line = said.lines().find(|line| line.ends_with(" last")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(3).collect();
    assert_eq!(words, ["NOTYPE", "GLOBAL", "DEFAULT", "66000", "last"]);
}

/// Both classes and orders: symbols, records, groups, tables.
#[test]
fn all_classes_and_orders() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text", shf::ALLOC | shf::EXECINSTR, &[0x11; 40]);
        let bss = builder.section(Section {
            name: ".bss",
            kind: sht::NOBITS,
            flags: shf::ALLOC | shf::WRITE,
            size: Some(0x1_0000),
            align: 64,
            ..Section::default()
        });
        for (info, section, value, size) in [(3, text, 0, 0), (2, text, 8, 4)] {
            builder.symbol(Sym {
                name: if info == 3 { "" } else { "local" },
                info,
                section,
                value,
                size,
                ..Sym::default()
            });
        }
        builder.symbol(Sym {
            name: "common",
            info: 1 << 4 | 1,
            special: Some(shn::COMMON),
            value: 32,
            size: 100,
            ..Sym::default()
        });
        builder.symbol(Sym {
            name: "absolute",
            info: 1 << 4,
            special: Some(shn::ABS),
            value: 0xffff_fffe,
            ..Sym::default()
        });
        builder.global("zero", bss, 0xffff);
        let outside = builder.global("outside", 0, 0);
        builder.rela(text, &[(0, outside, 1, -5), (8, 2, 2, 7), (16, 1, 0, 0)]);
        builder.group(outside, 0, &[text]);
        let written = super::round_trip(&builder.build().bytes);
        let header = Header::parse(&written).unwrap();
        assert_eq!((header.format, header.machine), (format, MACHINE));
    }
}

#[test]
fn values_of_64_bits() {
    let text = "section s1 \"b\" rw-\n block b1 size 0xfffffffffff0 align 0x10000000000 zero\n
        section s2 \".data\" rw-\n block b2 size 8 align 8\n bytes 00 00 00 00 00 00 00 00\n
        edge +0 Pointer64 $1 - 0x8000000000000000\n edge +0 Pointer64 $3 + 0x7fffffffffffffff\n
        symbol $1 \"far\" b1+0xffffffffff size 0xefffffffff00\n
        symbol $2 \"absolute\" absolute 0xffffffffffffffff\n
        symbol $3 \"common\" common align 0x40000000 size 0x1234567890a object\n";
    let graph = graph(text);
    let again = read(&write(&graph));
    assert_eq!(symbol(&again, "far").size, 0xefff_ffff_ff00);
    let absolute = symbol(&again, "absolute").base;
    assert_eq!(absolute, Addressable::Absolute(u64::MAX));
    let addends: Vec<i64> = crate::support::edges(&again, ".data")
        .iter()
        .map(|edge| edge.3)
        .collect();
    assert_eq!(addends, [i64::MIN, i64::MAX]);
    let (_, header) = header(&write(&graph), "b");
    assert_eq!((header.kind, header.size), (sht::NOBITS, 0xffff_ffff_fff0));
    assert_eq!(header.align, 1 << 40);
    // The text has no symbol 0, which any file has.
    assert_ne!(digest(&again), digest(&graph));
    assert_eq!(digest(&read(&write(&again))), digest(&again));
}
