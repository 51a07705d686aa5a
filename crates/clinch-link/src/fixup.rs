//! Fixing up: copies the contents of a layout's blocks to working memory and applies their
//! edges.
//!
//! Reads: graph, layout. Parallel: over runs of blocks, each with its own part of the memory.

use crate::layout::Layout;
use crate::place::Place;
use crate::resolve::Resolution;
use clinch_graph::index::int::usize_of_u64;
use clinch_graph::{BlockId, Edge, LinkGraph, SymbolId, Workers};
use clinch_target::{Arch, FixupContext, FixupError, FixupErrorKind, TlsBlock};
use thiserror::Error;

/// An edge that cannot be applied, with where and to what.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LinkFixupError {
    /// The edge's value does not fit.
    #[error(
        "{place}: {kind} to {target} ({to:#x}) {}: {why} (place {at:#x}, distance {distance})",
        verdict(.why)
    )]
    Edge {
        /// The place.
        place: Place,
        /// The edge's kind.
        kind: &'static str,
        /// The target's mangled name, or what it is.
        target: String,
        /// The target's address.
        to: u64,
        /// The place's address.
        at: u64,
        /// The edge's addend.
        addend: i64,
        /// From place to target in bytes.
        distance: i128,
        /// What is wrong.
        why: FixupErrorKind,
    },
    /// Relocation records that cannot be decoded.
    #[error(transparent)]
    Decode(#[from] clinch_graph::BlockEdgeError),
}

/// Fills the memory of one segment: contents copied, edges applied. `memory` is the segment's
/// working memory, as long as its content at least; what no block covers is left alone.
///
/// # Errors
/// All edges that cannot be applied, in the order of addresses, one per block at most.
pub fn apply(
    graph: &LinkGraph,
    arch: &Arch,
    resolution: &Resolution,
    layout: &Layout,
    segment: usize,
    memory: &mut [u8],
    got: u64,
    tls: Option<TlsBlock>,
    workers: &Workers,
) -> Result<(), Vec<LinkFixupError>> {
    let (base, segment) = &layout.segments[segment];
    let size_of = |symbol: SymbolId| graph.symbol_size(resolution.prevailing(symbol));
    let context = FixupContext {
        addresses: layout.symbols(),
        size_of: &size_of,
        got,
        tls,
    };

    // Runs of blocks of some hundred kilobytes each, with the memory they cover.
    const RUN: u64 = 256 << 10;
    let mut runs: Vec<(&[(BlockId, u64)], u64, &mut [u8])> = Vec::new();
    let content = segment.blocks.partition_point(|&(block, offset)| {
        offset + graph.block_size(block) <= segment.content_size
    });
    let mut blocks = &segment.blocks[..content];
    let (mut rest, mut at) = (memory, 0);
    while let Some(&(_, first)) = blocks.first() {
        let n = blocks
            .partition_point(|&(_, offset)| offset - first < RUN)
            .max(1);
        let (run, others) = blocks.split_at(n);
        let end = others
            .first()
            .map_or(segment.content_size, |&(_, offset)| offset);
        let (mine, tail) = rest.split_at_mut(usize_of_u64(end - at));
        runs.push((run, at, mine));
        (blocks, rest, at) = (others, tail, end);
    }
    let results = workers.map(
        usize_of_u64(segment.content_size),
        runs,
        |(run, start, memory)| {
            let mut errors = Vec::new();
            let mut edges = Vec::new();
            for &(block, offset) in run {
                let bytes = graph.content(block).bytes();
                let from = usize_of_u64(offset - start);
                let memory = &mut memory[from..from + bytes.len()];
                memory.copy_from_slice(bytes);
                if graph.has_no_edges(block) {
                    continue;
                }
                if let Err(error) = graph.edges(block, &mut edges) {
                    errors.push(LinkFixupError::Decode(*error));
                    continue;
                }
                let place = base + offset;
                if let Err(error) = (arch.apply)(&context, place, &edges, memory) {
                    errors.push(describe(
                        graph, arch, resolution, layout, block, place, error,
                    ));
                }
            }
            errors
        },
    );
    let errors: Vec<LinkFixupError> = results.into_iter().flatten().collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

fn describe(
    graph: &LinkGraph,
    arch: &Arch,
    resolution: &Resolution,
    layout: &Layout,
    block: BlockId,
    address: u64,
    error: FixupError,
) -> LinkFixupError {
    let Edge {
        offset,
        kind,
        target,
        addend,
    } = error.edge;
    let prevailing = resolution.prevailing(target);
    let name = String::from_utf8_lossy(graph.symbol_name(prevailing)).into_owned();
    let to = layout.symbol(target);
    let at = address + u64::from(offset);
    LinkFixupError::Edge {
        place: Place::of(graph, block, u64::from(offset)),
        kind: arch.graph.kind_name(kind),
        target: match (name.is_empty(), graph.symbol_block(prevailing)) {
            (false, _) => name,
            (true, Some(block)) => {
                let section = graph.section_name(graph.block_section(block));
                String::from_utf8_lossy(section).into_owned()
            }
            (true, None) => "an anonymous symbol".to_owned(),
        },
        to,
        at,
        addend,
        distance: i128::from(to) - i128::from(at),
        why: error.kind,
    }
}

fn verdict(why: &FixupErrorKind) -> &'static str {
    match why {
        FixupErrorKind::OutOfRange { .. } => "is out of range",
        _ => "cannot be applied",
    }
}
