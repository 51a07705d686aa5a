//! Pruning: which blocks are reachable from the roots over edges and associations.
//!
//! Reads: graph, resolution. Parallel: no; one walk with a list of work, so depth costs nothing.

use crate::resolve::Resolution;
use crate::start_stop::Bounds;
use clinch_graph::index::int::{u32_of, usize_of};
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, BlockEdgeError, BlockId, EdgeKind, Id, IdRange, IdSet, LinkGraph, SectionFlags,
    SymbolFlags, SymbolId,
};
use clinch_target::{Arch, EdgeFlags};

/// The blocks that are reachable, and the external symbols that reachable code refers to.
#[derive(Debug, Default)]
pub struct Liveness {
    /// Blocks.
    pub blocks: IdSet<BlockId>,
    /// Prevailing symbols that are external, in id order.
    pub externals: Vec<SymbolId>,
    /// Whether reachable code writes addresses that only low memory has.
    pub needs_low: bool,
}

/// Finds what is reachable from `roots`, from symbols that are marked as live, and from what the
/// sections' flags keep. Sections without memory (debug information) are not roots.
///
/// # Errors
/// Blocks whose relocation records cannot be decoded, each once, in id order.
pub fn prune(
    graph: &LinkGraph,
    arch: &Arch,
    resolution: &Resolution,
    bounds: &[Bounds],
    roots: impl IntoIterator<Item = SymbolId>,
) -> Result<Liveness, Vec<BlockEdgeError>> {
    let children = Children::new(graph);
    let mut of_bounds: Map<SymbolId, usize> = Map::default();
    for (index, bounds) in bounds.iter().enumerate() {
        for symbol in [bounds.start, bounds.stop].into_iter().flatten() {
            of_bounds.insert(symbol, index);
        }
    }
    let mut live = IdSet::with_len(graph.n_blocks());
    let mut external = IdSet::<SymbolId>::with_len(graph.n_symbols());
    let mut work: Vec<BlockId> = Vec::new();
    let reach = |live: &mut IdSet<BlockId>, work: &mut Vec<BlockId>, block: BlockId| {
        if graph.has_block(block) && live.insert(block) {
            work.push(block);
        }
    };

    for block in graph.blocks() {
        if is_root(graph, block) {
            reach(&mut live, &mut work, block);
        }
    }
    let all = IdRange::<SymbolId>::new(0, graph.n_symbols());
    let flags = graph.flags_of(all);
    let marked = all
        .iter()
        .zip(flags)
        .filter(|(_, flags)| flags.contains(SymbolFlags::LIVE));
    for symbol in marked.map(|(symbol, _)| symbol).chain(roots) {
        let symbol = resolution.prevailing(symbol);
        match graph.symbol_block(symbol) {
            Some(block) => reach(&mut live, &mut work, block),
            None if graph.symbol_flags(symbol).is_external() => drop(external.insert(symbol)),
            None => {}
        }
    }

    let is_low: Vec<bool> = arch
        .edges
        .iter()
        .map(|row| row.flags.contains(EdgeFlags::LOW))
        .collect();
    let mut needs_low = false;
    let mut edges = Vec::new();
    let mut errors: Vec<(BlockId, BlockEdgeError)> = Vec::new();
    while let Some(block) = work.pop() {
        for &child in children.of(block) {
            reach(&mut live, &mut work, child);
        }
        if let Err(error) = graph.edges(block, &mut edges) {
            errors.push((block, *error));
        }
        for edge in &edges {
            let target = resolution.prevailing(edge.target);
            let row = edge.kind.0.wrapping_sub(EdgeKind::FIRST_RELOCATION);
            if is_low.get(usize::from(row)) == Some(&true) {
                needs_low |= !matches!(graph.addressable(target), Addressable::Absolute(_));
            }
            if let Some(block) = graph.symbol_block(target) {
                reach(&mut live, &mut work, block);
            } else if let Some(&index) = of_bounds.get(&target) {
                for &block in &bounds[index].blocks {
                    reach(&mut live, &mut work, block);
                }
            } else if graph.symbol_flags(target).is_external() {
                external.insert(target);
            }
        }
    }
    if errors.is_empty() {
        Ok(Liveness {
            blocks: live,
            externals: external.iter().collect(),
            needs_low,
        })
    } else {
        errors.sort_by_key(|&(block, _)| block);
        Err(errors.into_iter().map(|(_, error)| error).collect())
    }
}

fn is_root(graph: &LinkGraph, block: BlockId) -> bool {
    let flags = graph.block_section_flags(block);
    flags.contains(SectionFlags::RETAIN) && !flags.contains(SectionFlags::EXCLUDE)
}

/// The associations, by parent.
struct Children {
    first: Vec<u32>,
    child: Vec<BlockId>,
}

impl Children {
    fn new(graph: &LinkGraph) -> Self {
        let pairs = graph.associations();
        if pairs.is_empty() {
            return Self {
                first: Vec::new(),
                child: Vec::new(),
            };
        }
        let mut first = vec![0_u32; graph.n_blocks() + 1];
        for &(parent, _) in pairs {
            first[parent.index() + 1] += 1;
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let mut next = first.clone();
        let mut child = vec![BlockId::from_index(0); pairs.len()];
        for &(parent, block) in pairs {
            let slot = &mut next[parent.index()];
            child[usize_of(*slot)] = block;
            *slot += 1;
        }
        debug_assert_eq!(
            u32_of(pairs.len()),
            first[first.len() - 1],
            "every pair has its place"
        );
        Self { first, child }
    }

    fn of(&self, parent: BlockId) -> &[BlockId] {
        match self.first.get(parent.index()..parent.index() + 2) {
            Some(&[from, to]) => &self.child[usize_of(from)..usize_of(to)],
            _ => &[],
        }
    }
}
