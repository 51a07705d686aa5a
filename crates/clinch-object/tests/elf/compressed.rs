//! Compressed debug sections: the graph holds what they decompress to, and edges and symbols are
//! those of the decompressed bytes.

use crate::support::arch::WORD32;
use crate::support::builder::{Builder, FORMATS, Field, Section, Sym, numbers};
use crate::support::tool::clang;
use crate::support::{block, edges, edges_of, place, read, refuses, section, symbol};
use clinch_graph::{Endian, SectionKind};
use clinch_object::ReadErrorKind;
use clinch_object::compressed::CompressedErrorKind;
use clinch_object::elf::raw::{Format, shf, sht};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

const SOURCE: &str = "
    struct Point { int x, y; long many[40]; };\n enum Color { RED, GREEN, BLUE };\n
    static enum Color color; struct Point point;\n
    int twice(struct Point *p) { int sum = p->x + p->y; color = GREEN; return sum * 2; }\n
    int thrice(struct Point *p, int n) { for (int i = 0; i < n; i++) n += twice(p); return n; }\n";

#[test]
fn what_a_compiler_compresses_is_what_it_does_not() {
    let Some(plain) = clang("t.c", SOURCE, &["-g", "-gz=none"]) else {
        return;
    };
    let plain = read(&plain);
    for option in ["-gz=zlib", "-gz=zstd"] {
        let object = clang("t.c", SOURCE, &["-g", option]).unwrap();
        let compressed = read(&object);
        let mut changed = 0;
        for (a, b) in plain.blocks().zip(compressed.blocks()) {
            let name = plain.section_name(plain.block_section(a));
            assert_eq!(name, compressed.section_name(compressed.block_section(b)));
            assert_eq!(
                plain.content(a),
                compressed.content(b),
                "{option} {}",
                name.escape_ascii()
            );
            assert_eq!(edges_of(&plain, a), edges_of(&compressed, b));
            assert_eq!(plain.block_align(a), compressed.block_align(b));
            // The graph's own content has no place in the file.
            changed += usize::from(compressed.content_file_offset(b).is_none());
        }
        assert!(changed > 2, "{option} compressed {changed} sections");
        assert_eq!(section(&compressed, ".debug_info").kind, SectionKind::Debug);
        assert_eq!(plain.n_symbols(), compressed.n_symbols());
    }
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A section with its compression header.
fn section_of(format: Format, method: u64, size: u64, align: u64, data: &[u8]) -> Vec<u8> {
    let mut out = numbers(format, 4, &[method]);
    if format.is_64 {
        out.extend([0; 4]);
    }
    out.extend(numbers(format, format.word_size(), &[size, align]));
    out.extend(data);
    out
}

/// 400 bytes with an addend of -3 at offset 300.
fn content(format: Format) -> Vec<u8> {
    let mut content = vec![7; 400];
    content[300..304].copy_from_slice(&numbers(format, 4, &[0xffff_fffd]));
    content
}

#[test]
fn edges_and_symbols_count_in_decompressed_bytes() {
    for format in FORMATS {
        let content = content(format);
        let mut builder = Builder::new(format);
        let (name, kind, flags) = (".debug_x", sht::PROGBITS, shf::COMPRESSED);
        let data = section_of(format, 1, 400, 16, &zlib(&content));
        let debug = builder.section(Section {
            name,
            kind,
            flags,
            data,
            align: 8,
            ..Section::default()
        });
        let inside = builder.symbol(Sym {
            name: "inside",
            section: debug,
            value: 399,
            size: 1,
            ..Sym::default()
        });
        // The addend stands in the decompressed bytes.
        builder.rel(debug, &[(300, inside, 1, 0)]);
        let graph = read(&builder.build().bytes);
        let id = block(&graph, ".debug_x");
        assert_eq!(graph.content(id).bytes(), content);
        assert_eq!(graph.block_align(id), 16);
        assert_eq!(
            place(&graph, &symbol(&graph, "inside")),
            (".debug_x".to_owned(), 399)
        );
        assert_eq!(
            edges(&graph, ".debug_x"),
            [(300, WORD32, "inside".to_owned(), -3)]
        );
    }
}

#[test]
fn the_old_form_is_known_by_its_name() {
    for format in FORMATS {
        let content = content(format);
        let mut data = b"ZLIB".to_vec();
        data.extend(400_u64.to_be_bytes());
        data.extend(zlib(&content));
        let mut builder = Builder::new(format);
        let (name, kind) = (".zdebug_info", sht::PROGBITS);
        let debug = builder.section(Section {
            name,
            kind,
            data,
            align: 4,
            ..Section::default()
        });
        builder.rela(debug, &[(396, 0, 1, 5)]);
        let graph = read(&builder.build().bytes);
        let id = block(&graph, ".zdebug_info");
        assert_eq!(graph.content(id).bytes(), content);
        assert_eq!(graph.block_align(id), 4);
        assert_eq!(section(&graph, ".zdebug_info").kind, SectionKind::Debug);
        assert_eq!(edges(&graph, ".zdebug_info").len(), 1);
    }
}

#[test]
fn damage_is_refused() {
    let format = Format {
        is_64: true,
        endian: Endian::Little,
    };
    let good = zlib(&[5; 1000]);
    let bad = |data: Vec<u8>, kind: CompressedErrorKind| {
        let mut builder = Builder::new(format);
        let (name, flags) = (".debug_x", shf::COMPRESSED);
        let number = builder.data(name, flags, &data);
        let built = builder.build();
        refuses(&built.bytes, Some(name), built.offset(number), kind.into());
    };
    let of = |method, size, data: &[u8]| section_of(format, method, size, 1, data);
    bad(vec![0; 23], CompressedErrorKind::Header);
    bad(of(9, 1000, &good), CompressedErrorKind::Type(9));
    bad(
        of(1, 999, &good),
        CompressedErrorKind::TooLong { declared: 999 },
    );
    bad(
        of(1, 1001, &good),
        CompressedErrorKind::TooShort {
            found: 1000,
            declared: 1001,
        },
    );
    bad(
        of(1, 1000, b"garbage"),
        CompressedErrorKind::Corrupt("zlib"),
    );
    bad(
        of(2, 1000, b"garbage"),
        CompressedErrorKind::Corrupt("Zstandard"),
    );
    let impossible = CompressedErrorKind::Impossible {
        compressed: 7,
        declared: u64::MAX,
    };
    bad(of(1, u64::MAX, b"garbage"), impossible);
    bad(of(2, u64::MAX, b"garbage"), impossible);
}

#[test]
fn alignments_in_the_compression_header_are_checked() {
    let format = FORMATS[0];
    for (align, meant) in [
        (0, Some(1)),
        (1, Some(1)),
        (1 << 40, Some(1 << 40)),
        (3, None),
        (u64::MAX, None),
    ] {
        let mut builder = Builder::new(format);
        let data = section_of(format, 1, 4, align, &zlib(&[1; 4]));
        let number = builder.data(".debug_x", shf::COMPRESSED, &data);
        let built = builder.build();
        match meant {
            Some(meant) => {
                let graph = read(&built.bytes);
                assert_eq!(graph.block_align(block(&graph, ".debug_x")), meant);
            }
            None => {
                let kind = ReadErrorKind::Alignment(align);
                refuses(&built.bytes, Some(".debug_x"), built.offset(number), kind);
            }
        }
    }
}

#[test]
fn the_same_bytes_are_not_decompressed_again_and_again() {
    let format = FORMATS[0];
    let content = vec![0; 1 << 20];
    let mut builder = Builder::new(format);
    let data = section_of(format, 1, 1 << 20, 1, &zlib(&content));
    let first = builder.data(".debug_a", shf::COMPRESSED, &data);
    let others: Vec<u32> = (0..64)
        .map(|_| builder.data(".debug_b", shf::COMPRESSED, &[]))
        .collect();
    let mut built = builder.build();
    let (offset, size) = (built.offset(first), u64::try_from(data.len()).unwrap());
    for &other in &others {
        built
            .set(other, Field::Offset, offset)
            .set(other, Field::Size, size);
    }
    // As many as fit into the file one beside the other are read.
    let n = built.len() / size;
    let refused = others[usize::try_from(n).unwrap() - 1];
    let at = built.header(refused);
    refuses(
        &built.bytes,
        Some(".debug_b"),
        at,
        ReadErrorKind::Overlap("compressed sections"),
    );
}
