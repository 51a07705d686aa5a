//! Relocation tables that are wrong. What a header shows is refused when the object is read; a
//! record is looked at when its block's edges are wanted.

use crate::support::builder::{Builder, Built, FORMATS, Field, Record, Sym, uleb};
use crate::support::{FILE, block, edges, read, refuses, try_read};
use clinch_graph::{EdgeErrorKind, Stage, verify};
use clinch_object::ReadErrorKind;
use clinch_object::elf::raw::{Format, shf, sht};

/// An object of 16 bytes of code with this table, which is section 2.
fn with(format: Format, add: impl Fn(&mut Builder, u32) -> u32) -> Built {
    let mut builder = Builder::new(format);
    let text = builder.data(".text", shf::ALLOC, &[0; 16]);
    builder.symbol(Sym {
        name: "f",
        info: 1 << 4,
        ..Sym::default()
    });
    add(&mut builder, text);
    builder.build()
}

#[test]
fn headers() {
    for format in FORMATS {
        let word = u64::try_from(format.word_size()).unwrap();
        for (kind, name, words) in [(sht::REL, ".rel", 2), (sht::RELA, ".rela", 3)] {
            let good = with(format, |builder, text| match kind {
                sht::REL => builder.rel(text, &[(0, 1, 1, 0)]),
                _ => builder.rela(text, &[(0, 1, 1, 0)]),
            });
            let about = Some(name);
            let (header, offset) = (good.header(2), good.offset(2));
            for found in [0, 1, word, word * words + 1] {
                let mut bad = good.clone();
                bad.set(2, Field::EntrySize, found);
                let what = "relocation table";
                let kind = ReadErrorKind::EntrySize {
                    what,
                    found,
                    want: word * words,
                };
                refuses(&bad.bytes, about, header, kind);
            }
            let mut bad = good.clone();
            bad.set(2, Field::Size, 1 << 30);
            let what = "relocation table";
            let kind = ReadErrorKind::Truncated {
                what,
                size: offset + (1 << 30),
                have: good.len(),
            };
            refuses(&bad.bytes, about, offset, kind);
            let mut bad = good.clone();
            bad.set(2, Field::Info, 6);
            let kind = ReadErrorKind::NoSection {
                what: "relocation section",
                index: 6,
                count: 6,
            };
            refuses(&bad.bytes, about, header, kind);
            let mut bad = good.clone();
            bad.set(2, Field::Info, 0);
            let what = "what a relocation section is for";
            let kind = ReadErrorKind::SectionType {
                what,
                index: 0,
                found: 0,
            };
            refuses(&bad.bytes, about, header, kind);
            // Without records the size of one says nothing.
            let mut empty = good.clone();
            empty.set(2, Field::EntrySize, 0).set(2, Field::Size, 0);
            assert_eq!(edges(&read(&empty.bytes), ".text"), []);
        }
    }
}

#[test]
fn two_tables_for_one_section() {
    for format in FORMATS {
        let built = with(format, |builder, text| {
            builder.rel(text, &[(0, 1, 1, 0)]);
            builder.raw_crel(text, &[0])
        });
        let kind = ReadErrorKind::Several("relocation section for one section");
        refuses(&built.bytes, Some(".crel"), built.header(3), kind);
    }
}

#[test]
fn one_table_for_many_sections() {
    // Each of 200 tables is the same 100 records: that is more than the file.
    let records: Vec<Record> = vec![(0, 1, 1, 0); 100];
    let mut builder = Builder::new(FORMATS[0]);
    builder.global("f", 0, 0);
    let first = builder.data(".text", shf::ALLOC, &[0; 16]);
    let table = builder.rela(first, &records);
    let mut tables = Vec::new();
    for _ in 0..200 {
        let text = builder.data(".text", shf::ALLOC, &[0; 16]);
        tables.push(builder.rela(text, &[]));
    }
    let mut built = builder.build();
    let offset = built.offset(table);
    for &copy in &tables {
        built
            .set(copy, Field::Offset, offset)
            .set(copy, Field::Size, 2400);
    }
    let n = usize::try_from(built.len() / 2400).unwrap();
    let at = built.header(tables[n - 1]);
    refuses(
        &built.bytes,
        Some(".rela"),
        at,
        ReadErrorKind::Overlap("relocation tables"),
    );
}

/// The block's edges cannot be decoded: the record at this offset of the table is wrong.
#[track_caller]
fn undecodable(built: &Built, at: u64, kind: EdgeErrorKind) {
    let graph = try_read(&built.bytes).unwrap();
    let error = graph
        .edges(block(&graph, ".text"), &mut Vec::new())
        .unwrap_err();
    let offset = built.offset(2) + at;
    assert_eq!(
        (error.source.offset, error.source.kind),
        (offset, kind),
        "{error}"
    );
    let message = format!("{FILE}:(.text): {kind} (record at file offset {offset:#x})");
    assert_eq!(error.to_string(), message);
    // The verifier says the same, and nothing else.
    let rules: Vec<_> = verify(&graph, Stage::Read)
        .iter()
        .map(|found| found.rule)
        .collect();
    assert_eq!(rules, ["edges-decode"]);
}

/// A second record that is wrong, in every form, class and order.
fn second(record: Record, kind: EdgeErrorKind) {
    for format in FORMATS {
        let word = u64::try_from(format.word_size()).unwrap();
        let records = [(0, 1, 1, 0), record];
        undecodable(
            &with(format, |builder, text| builder.rel(text, &records)),
            2 * word,
            kind,
        );
        undecodable(
            &with(format, |builder, text| builder.rela(text, &records)),
            3 * word,
            kind,
        );
        for addends in [false, true] {
            // The head is one byte; the first record has its symbol and its type: three.
            let built = with(format, |builder, text| {
                builder.crel(text, &records, addends, 0)
            });
            undecodable(&built, 4, kind);
        }
    }
}

#[test]
fn records() {
    second((0, 2, 1, 0), EdgeErrorKind::NoSymbol(2));
    second((0, 0xff_ffff, 1, 0), EdgeErrorKind::NoSymbol(0xff_ffff));
    second((0, 1, 77, 0), EdgeErrorKind::UnknownType(77));
    second((0, 1, 9, 0), EdgeErrorKind::NotForObjects(9, "R_TOY_COPY"));
    let outside = |place| EdgeErrorKind::OutsideBlock { place, size: 16 };
    second((16, 1, 1, 0), outside(16));
    second((17, 1, 4, 0), outside(17));
    second((13, 1, 1, 0), outside(13));
    second((9, 1, 3, 0), outside(9));
    second((0xffff_ffff, 1, 1, 0), outside(0xffff_ffff));
}

#[test]
fn records_of_64_bits() {
    for format in FORMATS.into_iter().filter(|format| format.is_64) {
        let outside = |place| EdgeErrorKind::OutsideBlock { place, size: 16 };
        for place in [1 << 32, u64::MAX, u64::MAX - 3] {
            let built = with(format, |builder, text| {
                builder.rela(text, &[(place, 1, 1, 0)])
            });
            undecodable(&built, 0, outside(place));
        }
        let symbol = u32::MAX;
        let built = with(format, |builder, text| {
            builder.rela(text, &[(0, symbol, 1, 0)])
        });
        undecodable(&built, 0, EdgeErrorKind::NoSymbol(symbol));
    }
}

#[test]
fn the_end_of_a_table() {
    for format in FORMATS {
        let word = u64::try_from(format.word_size()).unwrap();
        for (rela, words) in [(false, 2), (true, 3)] {
            let records = [(0, 1, 1, 0), (4, 1, 1, 0)];
            let mut built = with(format, |builder, text| match rela {
                true => builder.rela(text, &records),
                false => builder.rel(text, &records),
            });
            built.set(2, Field::Size, 2 * word * words - 1);
            undecodable(&built, word * words, EdgeErrorKind::Truncated);
        }
    }
}

#[test]
fn compact_tables_that_end_early() {
    for format in FORMATS {
        let crel = |bytes: &[u8], at| {
            let built = with(format, |builder, text| builder.raw_crel(text, bytes));
            undecodable(&built, at, EdgeErrorKind::Truncated);
        };
        crel(&[], 0);
        crel(&[0x80], 1);
        // One record with addend, cut after each of its parts.
        let whole = [1 << 3 | 4, 0x80 | 1 | 2 | 4, 0, 1, 1, 5];
        for len in 1..whole.len() {
            crel(&whole[..len], 1);
        }
        let built = with(format, |builder, text| builder.raw_crel(text, &whole));
        assert_eq!(edges(&read(&built.bytes), ".text").len(), 1);
        // Two of three records.
        crel(&[3 << 3, 1 | 2, 1, 1, 0], 5);
    }
}

#[test]
fn compact_tables_with_an_absurd_count() {
    for count in [1 << 20, 1 << 60, (1 << 61) - 1] {
        for (flags, n_symbols) in [(0, 0), (3, 1), (4, 2), (7, 1)] {
            let mut bytes = Vec::new();
            uleb(&mut bytes, count << 3 | flags);
            let head = u64::try_from(bytes.len()).unwrap();
            // Every record is one byte: all differences are zero.
            bytes.extend([0; 100]);
            let built = with(FORMATS[n_symbols], |builder, text| {
                builder.raw_crel(text, &bytes)
            });
            let graph = try_read(&built.bytes).unwrap();
            assert!(graph.n_edges(block(&graph, ".text")) <= bytes.len());
            undecodable(&built, head + 100, EdgeErrorKind::Truncated);
        }
    }
    // The count's bits above 64 do not count.
    let head = [
        0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0,
    ];
    let built = with(FORMATS[0], |builder, text| builder.raw_crel(text, &head));
    assert_eq!(edges(&read(&built.bytes), ".text").len(), 1);
}

#[test]
fn compact_places_wrap_around_as_their_class_does() {
    // 12, then 4: a difference of -8, in 64 and in 32 bits.
    for format in FORMATS {
        let mut bytes = vec![2 << 3, 12 << 2 | 1 | 2, 1, 1];
        let delta = if format.is_64 {
            8_u64.wrapping_neg()
        } else {
            0xffff_fff8
        };
        bytes.push(u8::try_from(delta & 31).unwrap() << 2 | 0x80);
        uleb(&mut bytes, delta >> 5);
        let built = with(format, |builder, text| builder.raw_crel(text, &bytes));
        let places: Vec<u32> = edges(&read(&built.bytes), ".text")
            .into_iter()
            .map(|edge| edge.0)
            .collect();
        assert_eq!(places, [12, 4], "{format:?}");
    }
}
