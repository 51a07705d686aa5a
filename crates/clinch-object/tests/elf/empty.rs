//! Objects that lack something which objects mostly have.

use crate::support::builder::{Builder, FORMATS, Sym, numbers};
use crate::support::tool::llvm_mc;
use crate::support::{block, input, read, refuses, section};
use clinch_graph::EdgeErrorKind;
use clinch_object::ReadErrorKind;
use clinch_object::elf::raw::shf;

#[test]
fn an_empty_source() {
    let Some(object) = llvm_mc("", &[]) else {
        return;
    };
    let graph = read(&object);
    assert_eq!(graph.block_size(block(&graph, ".text")), 0);
    assert!(graph.comdats().is_empty());
}

#[test]
fn a_header_alone() {
    for format in FORMATS {
        let built = Builder::new(format).build();
        let (size, table) = if format.is_64 { (64, 40) } else { (52, 32) };
        let mut bytes = built.bytes[..size].to_vec();
        // e_shoff is 0.
        let word = format.word_size();
        bytes[table..table + word].copy_from_slice(&numbers(format, word, &[0]));
        let graph = read(&bytes);
        assert_eq!((graph.n_blocks(), graph.n_symbols()), (0, 0));
        assert_eq!(graph.input(input()).bytes().len(), size);
    }
}

#[test]
fn no_symbol_table() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        builder.no_symbols = true;
        builder.data(".data", shf::ALLOC, &[1, 2]);
        let graph = read(&builder.build().bytes);
        assert_eq!(graph.n_symbols(), 0);
        assert_eq!(graph.content(block(&graph, ".data")).bytes(), [1, 2]);
    }
}

#[test]
fn records_without_a_symbol_table_refer_to_nothing() {
    let mut builder = Builder::new(FORMATS[0]);
    builder.no_symbols = true;
    let data = builder.data(".data", shf::ALLOC, &[0; 8]);
    builder.rela(data, &[(0, 0, 1, 0)]);
    let graph = crate::support::try_read(&builder.build().bytes).unwrap();
    let error = graph
        .edges(block(&graph, ".data"), &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.source.kind, EdgeErrorKind::NoSymbol(0));
}

#[test]
fn no_section_names() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let data = builder.data("", shf::ALLOC, &[1, 2]);
        builder.symbol(Sym {
            name: "s",
            section: data,
            ..Sym::default()
        });
        let mut built = builder.build();
        // e_shstrndx is SHN_UNDEF; names are then the empty one only.
        let place = if format.is_64 { 62 } else { 50 };
        built.write(place, 0, 2);
        for number in [built.symtab, built.strtab, built.shstrtab] {
            built.set(number, crate::support::builder::Field::Name, 0);
        }
        let graph = read(&built.bytes);
        assert_eq!(
            section(&graph, "").lifetime,
            clinch_graph::Lifetime::Standard
        );
        built.set(data, crate::support::builder::Field::Name, 5);
        let kind = ReadErrorKind::NameOutside {
            what: "section",
            offset: 5,
            size: 0,
        };
        refuses(&built.bytes, Some(""), built.header(data), kind);
    }
}

#[test]
fn an_empty_symbol_table() {
    for format in FORMATS {
        let mut built = Builder::new(format).build();
        let symtab = built.symtab;
        built.set(symtab, crate::support::builder::Field::Size, 0);
        let graph = read(&built.bytes);
        assert_eq!(graph.n_symbols(), 0);
    }
}

#[test]
fn a_section_header_table_of_no_length() {
    // e_shnum is 0 and so is sh_size of section header 0: no sections.
    for format in FORMATS {
        let mut built = Builder::new(format).build();
        let place = if format.is_64 { 60 } else { 48 };
        built.write(place, 0, 2);
        let graph = read(&built.bytes);
        assert_eq!((graph.n_sections(), graph.n_symbols()), (0, 0));
    }
}
