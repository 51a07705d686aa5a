//! Names interned while objects are read: equal names have one id, whoever read them first.

use crate::support::arch;
use crate::support::builder::{Builder, FORMATS, Sym};
use clinch_graph::index::map::Map;
use clinch_graph::{Id, InputName, LinkGraph, NameId, Names, Workers};
use clinch_object::{ReadOptions, add_objects_with};

/// Objects that name 300 of 2,000 names each. Each has 1 MiB of data, so that there is enough to
/// read for threads to be started.
fn objects() -> Vec<(InputName, bytes::Bytes)> {
    let names: Vec<&'static str> = (0..2_000_u32)
        .map(|n| &*format!("name_{}_{n}", n.wrapping_mul(0x9e37_79b1)).leak())
        .collect();
    let mut next = 1_usize;
    let mut make = |number: usize| {
        let mut builder = Builder::new(FORMATS[0]);
        builder.data(".data", 3, &vec![0; 1 << 20]);
        for _ in 0..300 {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            builder.symbol(Sym {
                name: names[(next >> 33) % names.len()],
                info: 1 << 4,
                ..Sym::default()
            });
        }
        let name = InputName::file(&format!("{number}.o"));
        (name, builder.build().bytes.into())
    };
    (0..48).map(&mut make).collect()
}

fn read(objects: &[(InputName, bytes::Bytes)], n_threads: usize) -> (LinkGraph, Names) {
    let target = arch::target("toy64").unwrap();
    let mut graph = LinkGraph::new("test", target);
    let mut names = Names::new();
    let workers = Workers::new(n_threads);
    let options = ReadOptions { metadata: true };
    // In two parts, since the second must leave the first one's ids alone.
    let (first, second) = objects.split_at(objects.len() / 3);
    for part in [first, second] {
        add_objects_with(
            &mut graph,
            &mut names,
            &workers,
            part.to_vec(),
            options,
            arch::find,
        )
        .unwrap();
        if n_threads > 1 && part.len() == second.len() {
            assert!(workers.threads(part.iter().map(|(_, bytes)| bytes.len() / 8).sum()) > 1);
        }
    }
    (graph, names)
}

#[test]
fn equal_names_have_one_id_for_any_number_of_threads() {
    let objects = objects();
    let ids = |n_threads| {
        let (graph, names) = read(&objects, n_threads);
        let mut by_name: Map<Vec<u8>, NameId> = Map::default();
        let mut of_symbols = Vec::new();
        for symbol in graph.symbols() {
            let id = names.of(symbol);
            assert_eq!(id.is_some(), graph.symbol_flags(symbol).is_global());
            if let Some(id) = id {
                let name = graph.symbol_name(symbol);
                assert_eq!(names.name(&graph, id), name);
                assert_eq!(names.find(&graph, name), Some(id));
                assert!(id.index() < names.bound());
                assert_eq!(*by_name.entry(name.to_vec()).or_insert(id), id);
            }
            of_symbols.push(id);
        }
        assert_eq!(by_name.len(), names.len());
        assert_eq!(names.ids().count(), names.len());
        of_symbols
    };
    let expected = ids(1);
    assert_eq!(expected.iter().flatten().count(), 48 * 300);
    for n_threads in [2, 7] {
        assert_eq!(ids(n_threads), expected);
    }
}
