//! Address-significance tables.

use crate::support::builder::{Builder, FORMATS, SYMTAB, Section};
use crate::support::tool::llvm_mc;
use crate::support::{input, name_of, read};
use clinch_graph::{InputName, LinkGraph, SectionKind, Workers};
use clinch_object::elf::raw::sht;
use clinch_object::{
    ReadError, ReadErrorKind, ReadOptions, add_blocks, add_objects, address_significant,
};

const SOURCE: &str = "
    .globl f\nf: nop\n .globl g\ng: nop\nlocal: nop\n .quad far\n
    .addrsig\n .addrsig_sym g\n .addrsig_sym far\n .addrsig_sym local\n";

fn names(graph: &LinkGraph) -> Option<Vec<String>> {
    let found = address_significant(graph, input()).unwrap()?;
    Some(
        found
            .into_iter()
            .map(|symbol| name_of(graph, symbol))
            .collect(),
    )
}

#[test]
fn names_the_symbols() {
    let Some(object) = llvm_mc(SOURCE, &[]) else {
        return;
    };
    let graph = read(&object);
    let mut found = names(&graph).unwrap();
    found.sort();
    assert_eq!(found, ["far", "g", "local"]);
}

#[test]
fn without_a_table_nothing_is_known() {
    let Some(object) = llvm_mc("f: nop\n", &[]) else {
        return;
    };
    assert_eq!(names(&read(&object)), None);
    let Some(object) = llvm_mc("f: nop\n.addrsig\n", &[]) else {
        return;
    };
    assert_eq!(names(&read(&object)), Some(Vec::new()));
}

#[test]
fn a_table_is_metadata() {
    let Some(object) = llvm_mc(SOURCE, &[]) else {
        return;
    };
    let arch = clinch_target::arch_named("x86_64").unwrap();
    let mut graph = LinkGraph::new("t", &arch.graph);
    let (workers, name) = (Workers::new(1), InputName::file("t.o"));
    let options = ReadOptions { metadata: false };
    let inputs = vec![(name, object.into())];
    let added = add_objects(
        &mut graph,
        &mut clinch_graph::Names::new(),
        &workers,
        inputs,
        options,
    )
    .unwrap();
    let (inputs, objects) = (added.inputs, added.objects);
    add_blocks(&mut graph, &workers, inputs, objects, |_| true, |_| true).unwrap();
    assert_eq!(names(&graph), None);
    assert!(graph.find_section(b".llvm_addrsig").is_none());
}

/// An object with two symbols and these tables; the error's place counts from the last one.
fn tables(link: u32, tables: &[&[u8]]) -> (LinkGraph, u64) {
    let mut builder = Builder::new(FORMATS[1]);
    builder.global("a", 0, 0);
    builder.global("b", 0, 0);
    let (name, kind) = (".llvm_addrsig", sht::LLVM_ADDRSIG);
    let mut last = 0;
    for table in tables {
        let data = table.to_vec();
        last = builder.section(Section {
            name,
            kind,
            data,
            link,
            ..Section::default()
        });
    }
    let built = builder.build();
    (read(&built.bytes), built.offset(last))
}

#[test]
fn numbers_may_have_more_bytes_than_they_need() {
    let (graph, _) = tables(SYMTAB, &[&[2, 0x81, 0x80, 0]]);
    assert_eq!(names(&graph), Some(vec!["b".to_owned(), "a".to_owned()]));
}

#[test]
fn a_second_table_is_refused() {
    let (graph, start) = tables(SYMTAB, &[&[2], &[1]]);
    let kind = ReadErrorKind::Several("address-significance table");
    let error = address_significant(&graph, input()).unwrap_err();
    assert_eq!(error, ReadError::new(start, kind));
}

#[test]
fn a_table_without_a_symbol_table_is_stale() {
    let (graph, _) = tables(0, &[&[1, 2]]);
    assert_eq!(names(&graph), None);
    let kind = graph.section_kind(graph.find_section(b".llvm_addrsig").unwrap());
    assert_eq!(kind, SectionKind::Regular);
}

#[test]
fn damaged_tables_are_refused() {
    let what = "address-significance table";
    for (table, at, kind) in [
        (&[1, 0x80][..], 1, ReadErrorKind::UnendedNumber(what)),
        (
            &[1, 2, 3][..],
            2,
            ReadErrorKind::NoSymbol {
                what,
                index: 3,
                count: 3,
            },
        ),
        (
            &[0xff, 0xff, 3][..],
            0,
            ReadErrorKind::NoSymbol {
                what,
                index: 0xffff,
                count: 3,
            },
        ),
    ] {
        let (graph, start) = tables(SYMTAB, &[table]);
        let error = address_significant(&graph, input()).unwrap_err();
        assert_eq!(error, ReadError::new(start + at, kind));
    }
}
