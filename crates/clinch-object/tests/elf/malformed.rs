//! Headers, symbols and sections that are wrong: each check of the reader has its test here,
//! with the error, the place and the message. Relocation tables are in `table.rs`.

use crate::support::builder::{Builder, Built, FORMATS, Field, Section, Sym};
use crate::support::{FILE, refuses, try_read};
use clinch_graph::Endian;
use clinch_object::elf::raw::{Format, shf, sht};
use clinch_object::{ElfObject, ReadErrorKind, ReadOptions};

const OPTIONS: ReadOptions = ReadOptions { metadata: true };

/// An object with a section and a symbol in it; the section is 1, the symbol too.
fn small(format: Format) -> Built {
    let mut builder = Builder::new(format);
    let text = builder.data(".text", shf::ALLOC, &[0; 16]);
    builder.global("f", text, 4);
    builder.build()
}

/// The object with a change, in every class and order.
fn each(change: impl Fn(&mut Built, Format)) {
    for format in FORMATS {
        let mut built = small(format);
        change(&mut built, format);
    }
}

#[test]
fn identification() {
    let good = small(FORMATS[0]);
    for (place, value, why) in [
        (0, 0x7e, "wrong magic number"),
        (3, b'f'.into(), "wrong magic number"),
        (4, 0, "unknown class"),
        (4, 3, "unknown class"),
        (5, 0, "unknown byte order"),
        (5, 3, "unknown byte order"),
        (6, 0, "unknown version"),
    ] {
        let mut bad = good.clone();
        bad.write(place, value, 1);
        refuses(&bad.bytes, None, 0, ReadErrorKind::NotElf(why));
    }
}

#[test]
fn truncated_header() {
    for format in FORMATS {
        let built = small(format);
        let size = if format.is_64 { 64 } else { 52 };
        for len in 0..size {
            let (what, have) = ("ELF header", len);
            let size = if len < 16 { 16 } else { size };
            let kind = ReadErrorKind::Truncated { what, size, have };
            refuses(&built.bytes[..usize::try_from(len).unwrap()], None, 0, kind);
        }
    }
}

#[test]
fn every_truncation_is_refused_and_none_panics() {
    for format in FORMATS {
        let built = small(format);
        // The section headers come last.
        for len in 0..built.bytes.len() {
            assert!(try_read(&built.bytes[..len]).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn file_type_and_machine() {
    each(|built, _| {
        built.write(16, 3, 2);
        refuses(&built.bytes, None, 16, ReadErrorKind::NotRelocatable(3));
    });
    each(|built, _| {
        built.write(18, 0x1234, 2);
        refuses(
            &built.bytes,
            None,
            18,
            ReadErrorKind::UnknownMachine(0x1234),
        );
    });
    // Test architectures are not in the registry; that of x86-64 is in one class and order.
    let error = ElfObject::parse(&small(FORMATS[0]).bytes).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::UnknownMachine(0xfe42));
    for format in FORMATS {
        let mut built = small(format);
        built.write(18, 62, 2);
        let known = format.is_64 && format.endian == Endian::Little;
        assert_eq!(try_read(&built.bytes).is_ok(), known);
    }
}

#[test]
fn another_architecture_than_the_links() {
    use clinch_graph::{InputName, LinkGraph, Names, Workers};
    let arch = clinch_target::arch_named("x86_64").unwrap();
    let mut graph = LinkGraph::new(FILE, &arch.graph);
    let inputs = FORMATS.map(|format| (InputName::file(FILE), small(format).bytes.into()));
    let find = crate::support::arch::find;
    let errors = clinch_object::add_objects_with(
        &mut graph,
        &mut Names::new(),
        &Workers::new(2),
        inputs.to_vec(),
        OPTIONS,
        find,
    )
    .unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| error.source.kind).collect();
    let wrong = |found| ReadErrorKind::WrongArchitecture {
        found,
        want: "x86_64",
    };
    // Each once, in the order given.
    assert_eq!(found, ["toy64", "toy64be", "toy32", "toy32be"].map(wrong));
    assert_eq!(
        errors[0].to_string(),
        "t.o: is for toy64, but this link is for x86_64 (file offset 0x12)"
    );
}

#[test]
fn section_header_table() {
    each(|built, format| {
        let (size, place) = if format.is_64 { (64, 58) } else { (40, 46) };
        built.write(place, size + 8, 2);
        let kind = ReadErrorKind::EntrySize {
            what: "section header",
            found: size + 8,
            want: size,
        };
        refuses(&built.bytes, None, place, kind);
    });
    // Header 0 behind the end, the table across it, an offset that overflows.
    each(|built, format| {
        let (place, word) = if format.is_64 { (40, 8) } else { (32, 4) };
        let size = if format.is_64 { 64 } else { 40 };
        let have = built.len();
        built.write(place, have - 8, word);
        let what = "section header 0";
        let kind = ReadErrorKind::Truncated {
            what,
            size: have - 8 + size,
            have,
        };
        refuses(&built.bytes, None, have - 8, kind);

        built.write(place, have - 2 * size, word);
        let what = "section header table";
        let kind = ReadErrorKind::Truncated {
            what,
            size: have + 3 * size,
            have,
        };
        refuses(&built.bytes, None, have - 2 * size, kind);

        let far = if format.is_64 {
            u64::MAX - 8
        } else {
            u32::MAX.into()
        };
        built.write(place, far, word);
        let what = "section header 0";
        let kind = ReadErrorKind::Truncated {
            what,
            size: far.saturating_add(size),
            have,
        };
        refuses(&built.bytes, None, far, kind);
    });
}

#[test]
fn section_names() {
    each(|built, format| {
        let place = if format.is_64 { 62 } else { 50 };
        built.write(place, 5, 2);
        let kind = ReadErrorKind::NoSection {
            what: "section name table",
            index: 5,
            count: 5,
        };
        refuses(&built.bytes, None, built.header(0), kind);
        built.write(place, 1, 2);
        let kind = ReadErrorKind::SectionType {
            what: "string table",
            index: 1,
            found: 1,
        };
        refuses(&built.bytes, None, built.offset(1), kind);
    });
    each(|built, _| {
        let size = built.len() - built.header(0);
        built.set(1, Field::Name, size);
        let table = ".text..symtab..strtab..shstrtab.".len() + 1;
        let size_of_table = u64::try_from(table).unwrap();
        let kind = ReadErrorKind::NameOutside {
            what: "section",
            offset: size,
            size: size_of_table,
        };
        refuses(&built.bytes, Some(""), built.header(1), kind);
    });
}

#[test]
fn string_tables() {
    each(|built, _| {
        let (strtab, have) = (built.strtab, built.len());
        let offset = built.offset(strtab);
        built.set(strtab, Field::Size, 2);
        // It ends inside the name of `f`.
        let kind = ReadErrorKind::Unterminated("string table");
        refuses(&built.bytes, Some(".symtab"), offset, kind);
        built.set(strtab, Field::Size, have);
        let kind = ReadErrorKind::Truncated {
            what: "string table",
            size: offset + have,
            have,
        };
        refuses(&built.bytes, Some(".symtab"), offset, kind);
        built.set(strtab, Field::Kind, sht::PROGBITS.into());
        let index = strtab.into();
        let kind = ReadErrorKind::SectionType {
            what: "string table",
            index,
            found: 1,
        };
        refuses(&built.bytes, Some(".symtab"), offset, kind);
    });
    each(|built, _| {
        built.set(built.symtab, Field::Link, 77);
        let kind = ReadErrorKind::NoSection {
            what: "symbol table",
            index: 77,
            count: 5,
        };
        refuses(&built.bytes, Some(".symtab"), built.header(0), kind);
    });
    each(|built, _| {
        let shstrtab = built.shstrtab;
        let offset = built.offset(shstrtab);
        built.set(shstrtab, Field::Size, 3);
        refuses(
            &built.bytes,
            None,
            offset,
            ReadErrorKind::Unterminated("string table"),
        );
    });
}

#[test]
fn symbol_table() {
    each(|built, format| {
        let (symtab, want) = (built.symtab, u64::try_from(format.symbol_size()).unwrap());
        let offset = built.offset(symtab);
        let about = Some(".symtab");
        built.set(symtab, Field::EntrySize, 0);
        let kind = ReadErrorKind::EntrySize {
            what: "symbol table",
            found: 0,
            want,
        };
        refuses(&built.bytes, about, offset, kind);
        built
            .set(symtab, Field::EntrySize, want)
            .set(symtab, Field::Size, want + 1);
        let (what, size) = ("symbol table", want + 1);
        let kind = ReadErrorKind::UnevenTable {
            what,
            size,
            entry: want,
        };
        refuses(&built.bytes, about, offset, kind);
        // More symbols than the file has bytes.
        let size = want << 20;
        built.set(symtab, Field::Size, size);
        let kind = ReadErrorKind::Truncated {
            what,
            size: offset + size,
            have: built.len(),
        };
        refuses(&built.bytes, about, offset, kind);
        if format.is_64 {
            let size = u64::from(u32::MAX) * want;
            built.set(symtab, Field::Size, size);
            refuses(&built.bytes, about, offset, ReadErrorKind::TooLarge(what));
        }
    });
    each(|built, _| {
        built.set(1, Field::Kind, sht::SYMTAB.into());
        // The first of the two has been taken; its entry size is wrong.
        let want = if built.symbol(1) - built.symbol(0) == 24 {
            24
        } else {
            16
        };
        built.set(1, Field::EntrySize, want).set(1, Field::Size, 0);
        built.set(1, Field::Link, built.strtab.into());
        let kind = ReadErrorKind::Several("symbol table");
        refuses(
            &built.bytes,
            Some(".symtab"),
            built.header(built.symtab),
            kind,
        );
    });
}

#[test]
fn more_local_symbols_than_symbols() {
    each(|built, _| {
        built.set(built.symtab, Field::Info, 0xffff_ffff);
        let error = try_read(&built.bytes).map(drop).expect_err("refused");
        assert!(
            error.to_string().contains("end of local symbols"),
            "{error}"
        );
    });
}

/// The one symbol of an object is refused.
#[track_caller]
fn bad_symbol(format: Format, symbol: Sym, kind: ReadErrorKind) {
    let mut builder = Builder::new(format);
    builder.data(".text", shf::ALLOC, &[0; 16]);
    builder.symbol(symbol);
    let built = builder.build();
    refuses(&built.bytes, None, built.symbol(1), kind);
}

#[test]
fn symbols() {
    let why = |why| ReadErrorKind::BadSymbol { index: 1, why };
    for format in FORMATS {
        let f = Sym {
            name: "f",
            info: 1 << 4,
            section: 1,
            ..Sym::default()
        };
        for binding in [3, 9, 11, 15] {
            bad_symbol(
                format,
                Sym {
                    info: binding << 4,
                    ..f
                },
                why("unknown binding"),
            );
        }
        for special in [0xff00, 0xff01, 0xff03, 0xfff0, 0xfff3, 0xfffe] {
            let symbol = Sym {
                special: Some(special),
                ..f
            };
            bad_symbol(format, symbol, why("unknown special section number"));
        }
        let symbol = Sym {
            special: Some(0xffff),
            ..f
        };
        bad_symbol(format, symbol, why("its section number is missing"));
        for info in [1 << 4, 2 << 4, 10 << 4] {
            for section in [0, 1] {
                let symbol = Sym {
                    name: "",
                    info,
                    section,
                    ..f
                };
                bad_symbol(format, symbol, why("a global symbol has no name"));
            }
        }
        let kind = ReadErrorKind::NoSection {
            what: "symbol",
            index: 5,
            count: 5,
        };
        bad_symbol(format, Sym { section: 5, ..f }, kind);
        let common = Sym {
            special: Some(0xfff2),
            ..f
        };
        bad_symbol(
            format,
            Sym {
                value: 24,
                ..common
            },
            ReadErrorKind::Alignment(24),
        );
        if format.is_64 {
            let why = why("a common symbol's alignment is above 2 GiB");
            bad_symbol(
                format,
                Sym {
                    value: 1 << 32,
                    ..common
                },
                why,
            );
        }
        let kind = ReadErrorKind::SymbolOutside {
            index: 1,
            offset: 17,
            size: 16,
        };
        bad_symbol(format, Sym { value: 17, ..f }, kind);
        if format.is_64 {
            let offset = u64::MAX;
            let kind = ReadErrorKind::SymbolOutside {
                index: 1,
                offset,
                size: 16,
            };
            bad_symbol(
                format,
                Sym {
                    value: offset,
                    size: u64::MAX,
                    ..f
                },
                kind,
            );
        }
    }
    each(|built, _| {
        built.write(built.symbol(1), 3, 4);
        let kind = ReadErrorKind::NameOutside {
            what: "symbol",
            offset: 3,
            size: 3,
        };
        // A symbol that all see is not asked for its name's place first.
        let found = try_read(&built.bytes).unwrap_err().source;
        assert_eq!(found.kind, kind, "{found}");
        assert_eq!(found.offset, built.symbol(1));
    });
}

#[test]
fn sections() {
    each(|built, _| {
        let (offset, have) = (built.offset(1), built.len());
        built.set(1, Field::Size, have);
        let kind = ReadErrorKind::Truncated {
            what: "section",
            size: offset + have,
            have,
        };
        refuses(&built.bytes, Some(".text"), offset, kind);
        built.set(1, Field::Offset, have + 1).set(1, Field::Size, 0);
        let kind = ReadErrorKind::Truncated {
            what: "section",
            size: have + 1,
            have,
        };
        refuses(&built.bytes, Some(".text"), have + 1, kind);
    });
    each(|built, format| {
        if format.is_64 {
            built.set(1, Field::Size, u64::MAX);
            let kind = ReadErrorKind::Truncated {
                what: "section",
                size: u64::MAX,
                have: built.len(),
            };
            refuses(&built.bytes, Some(".text"), built.offset(1), kind);
        }
    });
    each(|built, _| {
        for align in [3, 6, 0xffff_ffff] {
            built.set(1, Field::Align, align);
            let kind = ReadErrorKind::Alignment(align);
            refuses(&built.bytes, Some(".text"), built.header(1), kind);
        }
    });
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let (name, kind, link) = ("meta", sht::PROGBITS, 99);
        let flags = shf::ALLOC | shf::LINK_ORDER;
        let meta = builder.section(Section {
            name,
            kind,
            flags,
            link,
            ..Section::default()
        });
        let built = builder.build();
        let kind = ReadErrorKind::NoSection {
            what: "SHF_LINK_ORDER",
            index: 99,
            count: 5,
        };
        refuses(&built.bytes, Some("meta"), built.header(meta), kind);
    }
}

/// An object with a group: sections 1 and 2, symbol 1, group 3.
fn grouped(format: Format) -> Built {
    let mut builder = Builder::new(format);
    builder.data(".text.a", shf::ALLOC | shf::GROUP, &[0; 4]);
    builder.data(".text.b", shf::ALLOC | shf::GROUP, &[0; 4]);
    let f = builder.global("f", 1, 0);
    builder.group(f, 1, &[1, 2]);
    builder.group(f, 1, &[]);
    builder.build()
}

#[test]
fn groups() {
    for format in FORMATS {
        let good = grouped(format);
        assert!(try_read(&good.bytes).is_ok());
        let (group, at) = (3, good.offset(3));
        let about = Some(".group");
        let what = "section group";
        for size in [0, 3, 5, 13] {
            let mut bad = good.clone();
            bad.set(group, Field::Size, size);
            let kind = ReadErrorKind::UnevenTable {
                what,
                size,
                entry: 4,
            };
            refuses(&bad.bytes, about, at, kind);
        }
        let mut bad = good.clone();
        bad.set(group, Field::Size, 4096);
        let kind = ReadErrorKind::Truncated {
            what,
            size: at + 4096,
            have: good.len(),
        };
        refuses(&bad.bytes, about, at, kind);
        let mut bad = good.clone();
        bad.set(group, Field::Info, 2);
        let kind = ReadErrorKind::NoSymbol {
            what,
            index: 2,
            count: 2,
        };
        refuses(&bad.bytes, about, at, kind);

        // Members: none such, the first section header, twice, of two groups.
        let mut bad = good.clone();
        bad.write(at + 8, 8, 4);
        let kind = ReadErrorKind::NoSection {
            what,
            index: 8,
            count: 8,
        };
        refuses(&bad.bytes, about, at + 4, kind);
        bad.write(at + 8, 0, 4);
        refuses(&bad.bytes, about, at + 4, ReadErrorKind::GroupMember(0));
        bad.write(at + 8, 1, 4);
        refuses(
            &bad.bytes,
            Some(".text.a"),
            at + 4,
            ReadErrorKind::TwoGroups(1),
        );
        let mut bad = good.clone();
        bad.set(4, Field::Offset, at).set(4, Field::Size, 12);
        refuses(
            &bad.bytes,
            Some(".text.a"),
            at + 4,
            ReadErrorKind::TwoGroups(1),
        );
    }
}

#[test]
fn errors_of_several_objects_come_in_the_order_given() {
    use clinch_graph::{InputName, LinkGraph, Workers};
    let arch = crate::support::arch::find(0xfe42, true, Endian::Little).unwrap();
    let mut inputs = Vec::new();
    for n in 0..40 {
        let mut built = small(FORMATS[0]);
        if n % 3 == 1 {
            // Symbols are read after all headers.
            built.write(built.symbol(1) + 4, 15 << 4, 1);
        }
        inputs.push((
            InputName::member("x.a".into(), &format!("{n}.o")),
            built.bytes.into(),
        ));
    }
    for n_threads in [1, 2, 7] {
        let mut graph = LinkGraph::new(FILE, &arch.graph);
        let workers = Workers::new(n_threads);
        let find = crate::support::arch::find;
        let errors = clinch_object::add_objects_with(
            &mut graph,
            &mut clinch_graph::Names::new(),
            &workers,
            inputs.clone(),
            OPTIONS,
            find,
        )
        .unwrap_err();
        let names: Vec<String> = errors.iter().map(|error| error.input.to_string()).collect();
        let expected: Vec<String> = (0..40)
            .filter(|n| n % 3 == 1)
            .map(|n| format!("x.a({n}.o)"))
            .collect();
        assert_eq!(names, expected);
    }
}
