//! Layout: which blocks lie in which segment, in what order, at what offset; and, once segments
//! have addresses, the address of every block and symbol.
//!
//! Reads: graph, liveness. A segment is what memory protects alike. Inside one, blocks lie in id
//! order, so in input order, but for sections that must stay together; content comes before
//! zero-fill. Parallel: over runs of symbols.

use crate::prune::Liveness;
use crate::resolve::Resolution;
use crate::start_stop::Bounds;
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, BlockId, Column, Id, Lifetime, LinkGraph, Prot, SectionFlags, SectionId,
    SectionKind, SymbolId, Workers,
};

/// What memory of a segment must allow, and for how long it is needed. The order is the one in
/// which a manager lays them out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SegmentKind {
    /// Constants.
    ReadOnly,
    /// Code.
    Code,
    /// The initial image of the thread-local block: read only.
    ThreadLocal,
    /// Written while linking, constant afterwards.
    ReadOnlyAfterRelocation,
    /// Variables.
    Data,
    /// Code that also writes to itself, or asks to.
    WritableCode,
}

impl SegmentKind {
    /// What memory must allow when the program runs.
    pub fn prot(self) -> Prot {
        match self {
            Self::ReadOnly | Self::ThreadLocal | Self::ReadOnlyAfterRelocation => Prot::R,
            Self::Code => Prot::RX,
            Self::Data => Prot::RW,
            Self::WritableCode => Prot::all(),
        }
    }
}

/// A segment before it has an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// What its memory must allow.
    pub kind: SegmentKind,
    /// For how long it is needed.
    pub lifetime: Lifetime,
    /// Alignment in bytes.
    pub align: u64,
    /// Size of what has content, in bytes from the start.
    pub content_size: u64,
    /// Size with zero-fill.
    pub size: u64,
    /// Its blocks with their offsets, ascending.
    pub blocks: Vec<(BlockId, u64)>,
}

/// Segments in the order of their kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The segments; none is empty of blocks.
    pub segments: Vec<Segment>,
}

impl Plan {
    /// The segments without their blocks: what memory is asked for.
    pub fn outline(&self) -> Self {
        let outline = |segment: &Segment| Segment {
            blocks: Vec::new(),
            ..*segment
        };
        Self {
            segments: self.segments.iter().map(outline).collect(),
        }
    }
}

/// Sorts the live blocks of sections that are in memory into segments.
pub fn plan(graph: &LinkGraph, liveness: &Liveness, bounds: &[Bounds]) -> Plan {
    // What must stay together: a group's number, 0 for none.
    let mut group_of: Map<BlockId, (u32, SegmentKind)> = Map::default();
    for (number, bounds) in (1..).zip(bounds) {
        let live = bounds
            .blocks
            .iter()
            .filter(|&&block| liveness.blocks.contains(block));
        let kind = live.clone().map(|&block| segment_of(graph, block)).max();
        for &block in live {
            group_of.insert(block, (number, kind.unwrap_or(SegmentKind::Data)));
        }
    }
    // Sorted by segment, then content before zero-fill, then groups, then ids. Ids ascend already,
    // and the other keys are few.
    let mut sorted: Vec<((SegmentKind, Lifetime, bool, u32), Vec<BlockId>)> = Vec::new();
    let mut by_key = Map::default();
    // Most blocks of a section are alike.
    let mut last: Column<SectionId, Option<(SectionFlags, bool, usize)>> =
        Column::filled(graph.n_sections(), None);
    for block in liveness.blocks.iter() {
        let section = graph.block_section(block);
        let (flags, lifetime) = (
            graph.block_section_flags(block),
            graph.section_lifetime(section),
        );
        let is_zero_fill = graph.is_zero_fill(block);
        if (group_of.is_empty() || !group_of.contains_key(&block))
            && let Some((last_flags, last_zero, index)) = last[section]
            && (last_flags, last_zero) == (flags, is_zero_fill)
            && graph.has_block(block)
        {
            sorted[index].1.push(block);
            continue;
        }
        if !graph.has_block(block)
            || lifetime == Lifetime::NoAlloc
            || flags.contains(SectionFlags::EXCLUDE)
        {
            continue;
        }
        let (group, kind) = match group_of.get(&block) {
            Some(&(group, kind)) => (group, kind),
            None if graph.section_kind(section) == SectionKind::EhFrame => {
                (u32::MAX, segment_of(graph, block))
            }
            None => (0, segment_of(graph, block)),
        };
        let zero = is_zero_fill && group == 0;
        let key = (kind, lifetime, zero, group);
        let index = *by_key.entry(key).or_insert_with(|| {
            sorted.push((key, Vec::new()));
            sorted.len() - 1
        });
        last[section] = Some((flags, is_zero_fill, index));
        sorted[index].1.push(block);
    }
    sorted.sort_unstable_by_key(|&(key, _)| key);
    let keyed = sorted
        .into_iter()
        .flat_map(|(key, blocks)| blocks.into_iter().map(move |block| (key, block)));

    let mut segments: Vec<Segment> = Vec::new();
    for ((kind, lifetime, zero, group), block) in keyed {
        let new = segments
            .last()
            .is_none_or(|last| (last.kind, last.lifetime) != (kind, lifetime));
        if new {
            segments.push(Segment {
                kind,
                lifetime,
                align: 1,
                content_size: 0,
                size: 0,
                blocks: Vec::new(),
            });
        }
        let Some(segment) = segments.last_mut() else {
            continue;
        };
        let (align, align_offset) = (graph.block_align(block), graph.block_align_offset(block));
        // The unwinder reads its records as one array; their order in memory begins aligned.
        let align = if group == u32::MAX && segment.size % 8 != 0 && is_first(segment, graph) {
            align.max(8)
        } else {
            align
        };
        let offset = align_to(segment.size, align, align_offset);
        segment.align = segment.align.max(align);
        segment.size = offset.saturating_add(graph.block_size(block));
        if !zero {
            segment.content_size = segment.size;
        }
        segment.blocks.push((block, offset));
    }
    Plan { segments }
}

/// Whether no call frame record is in the segment yet.
fn is_first(segment: &Segment, graph: &LinkGraph) -> bool {
    segment.blocks.last().is_none_or(|&(block, _)| {
        graph.section_kind(graph.block_section(block)) != SectionKind::EhFrame
    })
}

/// The next offset at or behind `offset` that is `align_offset` modulo `align`.
pub fn align_to(offset: u64, align: u64, align_offset: u64) -> u64 {
    let behind = offset.wrapping_sub(align_offset) & (align - 1);
    if behind == 0 {
        offset
    } else {
        offset.saturating_add(align - behind)
    }
}

fn segment_of(graph: &LinkGraph, block: BlockId) -> SegmentKind {
    let section = graph.block_section(block);
    let (flags, prot) = (
        graph.block_section_flags(block),
        graph.section_prot(section),
    );
    if flags.contains(SectionFlags::TLS) {
        return SegmentKind::ThreadLocal;
    }
    match (prot.contains(Prot::WRITE), prot.contains(Prot::EXEC)) {
        (true, true) => SegmentKind::WritableCode,
        (false, true) => SegmentKind::Code,
        (true, false) if flags.contains(SectionFlags::RELRO) => {
            SegmentKind::ReadOnlyAfterRelocation
        }
        (true, false) => SegmentKind::Data,
        (false, false) => SegmentKind::ReadOnly,
    }
}

/// Addresses of everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The segments, with their addresses.
    pub segments: Vec<(u64, Segment)>,
    /// Per block its address, 0 for those that are not placed.
    blocks: Column<BlockId, u64>,
    /// Per symbol its address, 0 for those without.
    symbols: Vec<u64>,
}

impl Layout {
    /// Gives every block of the plan its address: the n-th segment begins at the n-th of `bases`.
    pub fn new(graph: &LinkGraph, plan: Plan, bases: &[u64]) -> Self {
        let mut blocks = Column::filled(graph.n_blocks(), 0);
        let segments: Vec<(u64, Segment)> = bases.iter().copied().zip(plan.segments).collect();
        for (base, segment) in &segments {
            for &(block, offset) in &segment.blocks {
                blocks[block] = base + offset;
            }
        }
        Self {
            segments,
            blocks,
            symbols: Vec::new(),
        }
    }

    /// Gives every symbol its address. `external` answers those of symbols that the graph does
    /// not define.
    pub fn resolve_symbols(
        &mut self,
        graph: &LinkGraph,
        resolution: &Resolution,
        external: impl Fn(SymbolId) -> Option<u64> + Sync,
        workers: &Workers,
    ) {
        /// Of a symbol, its records and its block's address.
        const BYTES_PER_SYMBOL: usize = 32;
        let mut addresses = std::mem::take(&mut self.symbols);
        addresses.truncate(graph.n_symbols());
        let more = graph.n_symbols() - addresses.len();
        workers.extend(&mut addresses, more, 0);
        let address = |index| {
            let symbol = resolution.prevailing(SymbolId::from_index(index));
            match graph.addressable(symbol) {
                Addressable::Block { block, offset } => match self.block(block).unwrap_or(0) {
                    0 => 0,
                    base => base.wrapping_add(offset),
                },
                Addressable::Absolute(value) => value,
                Addressable::External => external(symbol).unwrap_or(0),
                _ => 0,
            }
        };
        let cost = addresses.len() * BYTES_PER_SYMBOL;
        workers.each_run(cost, &mut addresses, |run, mine| {
            for (index, to) in run.zip(mine) {
                *to = address(index);
            }
        });
        self.symbols = addresses;
    }

    /// A block's address; `None` when it is not placed.
    pub fn block(&self, block: BlockId) -> Option<u64> {
        self.blocks
            .get(block)
            .copied()
            .filter(|&address| address != 0)
    }

    /// A symbol's address, that of the prevailing definition; 0 when it has none.
    pub fn symbol(&self, symbol: SymbolId) -> u64 {
        self.symbols.get(symbol.index()).copied().unwrap_or(0)
    }

    /// The addresses of all symbols, by index.
    pub fn symbols(&self) -> &[u64] {
        &self.symbols
    }

    /// The placed blocks of one kind of section as address and size, from the first to the last.
    pub fn range_of(&self, graph: &LinkGraph, kind: SectionKind) -> Option<(u64, u64)> {
        let blocks = self.segments.iter().flat_map(|(base, segment)| {
            segment
                .blocks
                .iter()
                .map(move |&(block, offset)| (block, base + offset))
        });
        let (mut start, mut end) = (u64::MAX, 0);
        for (block, address) in blocks {
            if graph.section_kind(graph.block_section(block)) == kind {
                start = start.min(address);
                end = end.max(address + graph.block_size(block));
            }
        }
        (start < end).then(|| (start, end - start))
    }

    /// Start and end of the placed blocks among these.
    pub fn extent(&self, graph: &LinkGraph, blocks: &[BlockId]) -> Option<(u64, u64)> {
        blocks
            .iter()
            .filter_map(|&block| Some((self.block(block)?, graph.block_size(block))))
            .map(|(start, size)| (start, start + size))
            .reduce(|all, next| (all.0.min(next.0), all.1.max(next.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_aligned_with_their_offset() {
        assert_eq!(align_to(0, 16, 0), 0);
        assert_eq!(align_to(1, 16, 0), 16);
        assert_eq!(align_to(1, 8, 7), 7);
        assert_eq!(align_to(8, 8, 7), 15);
        assert_eq!(align_to(15, 8, 7), 15);
    }
}
