//! Pruning: which blocks are reachable from the roots over edges and associations.
//!
//! Reads: graph, resolution. Parallel: over parts of a list of work, each of which is walked for a
//! while; one thread walks while the list is short, so that a long chain costs nothing more. What
//! is reachable depends on no order.

use crate::resolve::Resolution;
use crate::start_stop::Bounds;
use clinch_graph::index::int::{u32_of, usize_of};
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, BlockEdgeError, BlockId, Edge, EdgeKind, Id, IdRange, IdSet, LinkGraph,
    SectionFlags, SharedIdSet, SymbolFlags, SymbolId, Workers,
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
    /// The reachable blocks that may ask for a table entry: all edges of the others write where
    /// other blocks are. `None` when that is not known.
    pub may_ask: Option<IdSet<BlockId>>,
}

/// How many blocks the list of work must hold for several threads to work on it.
const MANY: usize = 1024;
/// After how many blocks a thread gives back what it has not got to.
const TURN: usize = 4096;

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
    workers: &Workers,
) -> Result<Liveness, Vec<BlockEdgeError>> {
    /// Of a block, its edges and their targets; most blocks are small.
    const BYTES_PER_BLOCK: usize = 64;
    let cost = graph.n_blocks() * BYTES_PER_BLOCK;
    let walk = Walk::new(graph, arch, resolution, bounds);
    let mut work = walk.roots(workers, cost, roots);
    let mut found = Found::default();
    let alone = workers.threads(cost) == 1;
    loop {
        walk.visit(&mut work, &mut found, |work, _| alone || work < MANY);
        if work.is_empty() {
            break;
        }
        let runs = workers.cut(cost, work.len());
        let results = workers.map(cost, runs, |run| {
            let (mut work, mut found) = (work[run].to_vec(), Found::default());
            walk.visit(&mut work, &mut found, |_, visited| visited < TURN);
            (work, found)
        });
        work.clear();
        for (rest, more) in results {
            work.extend(rest);
            found.needs_low |= more.needs_low;
            found.errors.extend(more.errors);
        }
    }
    if found.errors.is_empty() {
        Ok(Liveness {
            blocks: walk.live.into_set(),
            externals: walk.external.into_set().iter().collect(),
            needs_low: found.needs_low,
            may_ask: Some(walk.may_ask.into_set()),
        })
    } else {
        found.errors.sort_by_key(|&(block, _)| block);
        Err(found.errors.into_iter().map(|(_, error)| error).collect())
    }
}

/// What a walk knows and marks. Several threads share it.
struct Walk<'a> {
    graph: &'a LinkGraph,
    resolution: &'a Resolution,
    bounds: &'a [Bounds],
    /// By symbol, the bounds that it is one of.
    of_bounds: Map<SymbolId, usize>,
    children: Children,
    /// What an edge's kind says, by its number.
    kinds: [Kind; 256],
    live: SharedIdSet<BlockId>,
    external: SharedIdSet<SymbolId>,
    may_ask: SharedIdSet<BlockId>,
}

#[derive(Clone, Copy, Default)]
struct Kind {
    /// Writes an address that only low memory has.
    low: bool,
    /// Asks for a table entry, or may.
    asks: bool,
}

/// What one thread finds.
#[derive(Default)]
struct Found {
    needs_low: bool,
    errors: Vec<(BlockId, BlockEdgeError)>,
    /// The edges of the block at hand.
    edges: Vec<Edge>,
}

impl<'a> Walk<'a> {
    fn new(
        graph: &'a LinkGraph,
        arch: &Arch,
        resolution: &'a Resolution,
        bounds: &'a [Bounds],
    ) -> Self {
        let mut of_bounds: Map<SymbolId, usize> = Map::default();
        for (index, bounds) in bounds.iter().enumerate() {
            for symbol in [bounds.start, bounds.stop].into_iter().flatten() {
                of_bounds.insert(symbol, index);
            }
        }
        let mut kinds = [Kind::default(); 256];
        for (number, kind) in (0..=u8::MAX).zip(&mut kinds) {
            if let Some(info) = arch.edge(EdgeKind(number)) {
                kind.low = info.flags.contains(EdgeFlags::LOW);
                kind.asks = info.request.is_some() || info.flags.contains(EdgeFlags::TLS);
            }
        }
        Self {
            graph,
            resolution,
            bounds,
            of_bounds,
            children: Children::new(graph),
            kinds,
            live: SharedIdSet::with_len(graph.n_blocks()),
            external: SharedIdSet::with_len(graph.n_symbols()),
            may_ask: SharedIdSet::with_len(graph.n_blocks()),
        }
    }

    fn roots(
        &self,
        workers: &Workers,
        cost: usize,
        roots: impl IntoIterator<Item = SymbolId>,
    ) -> Vec<BlockId> {
        let graph = self.graph;
        let runs = workers.cut(cost, graph.n_blocks());
        let mut work = workers
            .map(cost, runs, |run| {
                let mut work = Vec::new();
                for block in run.map(BlockId::from_index) {
                    if graph.has_block(block) && is_root(graph, block) {
                        self.reach(&mut work, block);
                    }
                }
                work
            })
            .concat();
        let runs = workers.cut(cost, graph.n_symbols());
        let marked = workers.map(cost, runs, |run| {
            let run = IdRange::<SymbolId>::new(run.start, run.end);
            let flags = run.iter().zip(graph.flags_of(run));
            flags
                .filter(|(_, flags)| flags.contains(SymbolFlags::LIVE))
                .map(|(symbol, _)| symbol)
                .collect::<Vec<_>>()
        });
        for symbol in marked.into_iter().flatten().chain(roots) {
            let symbol = self.resolution.prevailing(symbol);
            match graph.symbol_block(symbol) {
                Some(block) => {
                    self.reach(&mut work, block);
                }
                None if graph.symbol_flags(symbol).is_external() => {
                    self.external.insert(symbol);
                }
                None => {}
            }
        }
        work
    }

    /// Adds a block to the work if it is there and was not reached before.
    #[inline]
    fn reach(&self, work: &mut Vec<BlockId>, block: BlockId) {
        if self.graph.has_block(block) && self.live.insert(block) {
            work.push(block);
        }
    }

    /// Visits blocks of the list, and those that they lead to, while there are some and `goes_on`
    /// says so. It is told how many are left to visit and how many were visited.
    fn visit(
        &self,
        work: &mut Vec<BlockId>,
        found: &mut Found,
        goes_on: impl Fn(usize, usize) -> bool,
    ) {
        let graph = self.graph;
        let mut visited = 0;
        while goes_on(work.len(), visited)
            && let Some(block) = work.pop()
        {
            visited += 1;
            for &child in self.children.of(block) {
                self.reach(work, child);
            }
            if graph.has_no_edges(block) {
                continue;
            }
            if let Err(error) = graph.edges(block, &mut found.edges) {
                found.errors.push((block, *error));
            }
            let mut may_ask = false;
            for edge in &found.edges {
                let target = self.resolution.prevailing(edge.target);
                let kind = self.kinds[usize::from(edge.kind.0)];
                may_ask |= kind.asks;
                if kind.low {
                    found.needs_low |=
                        !matches!(graph.addressable(target), Addressable::Absolute(_));
                }
                let flags = graph.symbol_flags(target);
                if let Some(block) = graph.symbol_block(target) {
                    may_ask |= flags.contains(SymbolFlags::IFUNC) || !graph.has_block(block);
                    self.reach(work, block);
                    continue;
                }
                may_ask = true;
                if let Some(&index) = self.of_bounds.get(&target) {
                    for &block in &self.bounds[index].blocks {
                        self.reach(work, block);
                    }
                } else if flags.is_external() {
                    self.external.insert(target);
                }
            }
            if may_ask {
                self.may_ask.insert(block);
            }
        }
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
