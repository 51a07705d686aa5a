//! The named places of a finished link: functions, variables, and the stubs that the linker made.

use clinch_graph::index::map::Map;
use clinch_graph::{Addressable, BlockId, LinkGraph, SectionKind, SymbolFlags, SymbolId};
use clinch_link::layout::Layout;

/// A name for a range of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The mangled name.
    pub name: Vec<u8>,
    /// Its address.
    pub address: u64,
    /// How many bytes it names, 0 where that is not known.
    pub size: u64,
    /// Which segment of the layout it is in.
    pub segment: usize,
    /// Whether it is code.
    pub is_function: bool,
    /// Whether other inputs know the name.
    pub is_global: bool,
}

/// Names of what is in memory, in the order of symbols; stubs behind them. A definition that
/// another one of its name prevails over has none.
pub(crate) fn all(graph: &LinkGraph, layout: &Layout) -> Vec<Named> {
    let segments = segments_of(layout);
    let mut names = Vec::new();
    for symbol in graph.symbols() {
        let flags = graph.symbol_flags(symbol);
        let Addressable::Block { block, offset } = graph.addressable(symbol) else {
            continue;
        };
        let (Some(base), Some(&segment)) = (layout.block(block), segments.get(&block)) else {
            continue;
        };
        let address = base.wrapping_add(offset);
        let name = graph.symbol_name(symbol);
        if name.is_empty()
            || flags.intersects(SymbolFlags::TLS | SymbolFlags::SECTION)
            || (flags.is_global() && layout.symbol(symbol) != address)
        {
            continue;
        }
        names.push(Named {
            name: name.to_vec(),
            address,
            // What the object says may be more than there is.
            size: graph
                .symbol_size(symbol)
                .min(graph.block_size(block).saturating_sub(offset)),
            segment,
            is_function: flags.contains(SymbolFlags::CALLABLE),
            is_global: flags.is_global(),
        });
    }
    names.extend(stubs(graph, layout, &segments));
    names
}

/// The code among them, one name per address, ascending. A function ends where the next one begins
/// at the latest, so that all together are no longer than the code; one without size there, or
/// where its segment's content ends.
pub(crate) fn functions(layout: &Layout, names: &[Named]) -> Vec<Named> {
    let mut functions: Vec<Named> = names
        .iter()
        .filter(|named| named.is_function)
        .cloned()
        .collect();
    // Of several names for one place the one that is known outside, and that says how long it is.
    functions.sort_by_key(|named| (named.address, !named.is_global, named.size == 0));
    functions.dedup_by_key(|named| named.address);
    for index in 0..functions.len() {
        let Named {
            address,
            size,
            segment,
            ..
        } = functions[index];
        let (base, placed) = &layout.segments[segment];
        let end = base.wrapping_add(placed.content_size);
        let next = functions
            .get(index + 1)
            .map_or(end, |next| next.address.min(end));
        let room = next.saturating_sub(address);
        functions[index].size = if size == 0 { room } else { size.min(room) };
    }
    functions.retain(|named| named.size > 0);
    functions
}

fn segments_of(layout: &Layout) -> Map<BlockId, usize> {
    let mut segments = Map::default();
    for (number, (_, segment)) in layout.segments.iter().enumerate() {
        segments.extend(segment.blocks.iter().map(|&(block, _)| (block, number)));
    }
    segments
}

/// Stubs, called by what they jump to: `puts@plt`.
fn stubs(graph: &LinkGraph, layout: &Layout, segments: &Map<BlockId, usize>) -> Vec<Named> {
    let mut edges = Vec::new();
    let mut target = |block: BlockId| -> Option<SymbolId> {
        graph.edges(block, &mut edges).ok()?;
        Some(edges.first()?.target)
    };
    let mut stubs = Vec::new();
    for section in graph.sections() {
        if graph.section_kind(section) != SectionKind::Stubs {
            continue;
        }
        for block in graph.section_blocks(section) {
            let (Some(address), Some(&segment)) = (layout.block(block), segments.get(&block))
            else {
                continue;
            };
            let entry = target(block).and_then(|entry| graph.symbol_block(entry));
            let Some(function) = entry.and_then(&mut target) else {
                continue;
            };
            let name = graph.symbol_name(function);
            if name.is_empty() {
                continue;
            }
            stubs.push(Named {
                name: [name, b"@plt"].concat(),
                address,
                size: graph.block_size(block),
                segment,
                is_function: true,
                is_global: false,
            });
        }
    }
    stubs
}
