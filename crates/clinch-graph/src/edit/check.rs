//! What must hold before an edit is published: everything it touched is sound, and so is what
//! hangs on that.

use super::undo::Undo;
use crate::graph::LinkGraph;
use crate::verify::{Stage, Verifier, Violation};

/// All violations that the edit brings, or leaves in what it touched.
pub(super) fn run(graph: &LinkGraph, stage: Stage, undo: &Undo) -> Vec<Violation> {
    let mut verifier = Verifier::new(graph, stage);
    // Groups are few and hang on symbols that may be removed.
    for id in graph.comdats().iter() {
        verifier.comdat(id);
    }
    for id in undo.touched_sections(graph) {
        verifier.section(id);
    }
    let blocks = undo.touched_blocks(graph);
    for &id in &blocks {
        verifier.block(id);
    }
    if !undo.removed_symbols().is_empty() {
        let mut edges = Vec::new();
        for id in graph.blocks() {
            if blocks.binary_search(&id).is_ok() {
                continue;
            }
            // A block that was not touched and cannot be decoded was so before: of its edges
            // nothing is known, but that no step can use them.
            let _ = graph.edges(id, &mut edges);
            for (n, edge) in edges.iter().enumerate() {
                if undo.removed_symbols().contains(edge.target) {
                    verifier.edge(id, n, edge);
                }
            }
        }
    }
    for id in undo.touched_symbols(graph) {
        verifier.symbol(id);
    }
    for index in undo.first_association()..graph.associations().len() {
        verifier.association(index);
    }
    verifier.violations
}
