//! What this crate's unit tests share: a small architecture, and graphs from text.

use crate::dump::parse;
use crate::edge::EdgeKind;
use crate::graph::LinkGraph;
use crate::target::{Endian, GraphTarget};

/// Writes the target's address: 8 bytes.
pub(crate) const POINTER64: EdgeKind = EdgeKind(2);
/// Writes target minus place: 4 bytes.
pub(crate) const DELTA32: EdgeKind = EdgeKind(3);
/// Writes the distance to the target's GOT entry: 4 bytes.
pub(crate) const REQUEST_GOT: EdgeKind = EdgeKind(4);
/// Marks an instruction and writes nothing.
pub(crate) const MARK: EdgeKind = EdgeKind(5);

/// An architecture for tests.
pub(crate) static TOY: GraphTarget = GraphTarget {
    name: "toy",
    pointer_size: 8,
    endian: Endian::Little,
    edge_kinds: &["Pointer64", "Delta32", "RequestGot", "Mark"],
    edge_width: |kind| match kind {
        POINTER64 => 8,
        DELTA32 | REQUEST_GOT => 4,
        _ => 0,
    },
    is_request: |kind| kind == REQUEST_GOT,
};

/// The graph of a text that has no header.
pub(crate) fn graph(text: &str) -> LinkGraph {
    let text = format!("graph \"test\" toy\n{text}");
    match parse(&text, |name| (name == TOY.name).then_some(&TOY)) {
        Ok(graph) => graph,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The graph's text without its header and empty lines.
pub(crate) fn text(graph: &LinkGraph) -> String {
    let text = graph.to_text().expect("edges can be decoded");
    let lines = text.lines().skip(1).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}
