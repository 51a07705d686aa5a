//! Joining: several graphs, each resolved by itself, become one in which every name has one
//! symbol, as by a relocatable link. References between the graphs meet by name.
//!
//! Reads: graphs with their resolutions, and which of their blocks are wanted. Makes: a graph of
//! copies, which belong to the linker. True after: edges go to the definition that prevails;
//! a group is there only where all its sections are, since else whoever takes it for a whole copy
//! would miss something.
//!
//! Entities keep their order: first graph first, and in it by id.

use crate::place::Place;
use crate::resolve::{Duplicate, Resolution, definition_place};
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, BlockEdgeError, BlockId, Column, Comdat, ComdatId, Content, Edge, GraphError,
    GraphTarget, IdSet, Lifetime, LinkGraph, NewBlock, NewContent, NewSection, NewSymbol, Scope,
    SectionFlags, SectionId, SectionKind, Selection, SymbolFlags, SymbolId,
};
use thiserror::Error;

/// A graph to be joined with others.
pub struct Part<'a> {
    /// The graph.
    pub graph: &'a LinkGraph,
    /// Which of its definitions prevail in it.
    pub resolution: &'a Resolution,
    /// Whether a block is wanted. The others, and the symbols in them, are left out.
    pub wants: &'a dyn Fn(BlockId) -> bool,
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("graph", &self.graph)
            .finish_non_exhaustive()
    }
}

/// Why graphs cannot be joined.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Two strong definitions of one name.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// A reference to what is left out.
    #[error("{place}: refers to {symbol}, which is left out")]
    LeftOut {
        /// Where.
        place: Place,
        /// The symbol's name.
        symbol: String,
    },
    /// Relocation records that cannot be decoded.
    #[error(transparent)]
    Edges(#[from] Box<BlockEdgeError>),
    /// The graph refused a change.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Joins graphs of one architecture.
///
/// # Errors
/// Two strong definitions of a name; references to what is left out.
pub fn join(
    name: &str,
    target: &'static GraphTarget,
    parts: &[Part<'_>],
) -> Result<LinkGraph, JoinError> {
    let mut joined = LinkGraph::new(name, target);
    // First, as in any input: formats have a symbol for it at that place.
    let nothing = joined.add_symbol(NewSymbol {
        name: &[],
        base: Addressable::Absolute(0),
        size: 0,
        flags: SymbolFlags::empty(),
    })?;
    let mut joiner = Joiner {
        joined,
        by_name: Map::default(),
        nothing,
        tables: Map::default(),
    };
    let mut maps = Vec::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let mut map = PartMap::new(part);
        joiner.declare(parts, number, &mut map)?;
        maps.push(map);
    }
    for (part, map) in parts.iter().zip(&mut maps) {
        joiner.copy(part, map)?;
    }
    for (part, map) in parts.iter().zip(&mut maps) {
        joiner.connect(part, map)?;
    }
    Ok(joiner.joined)
}

/// What the entities of a part became.
struct PartMap {
    symbols: Column<SymbolId, Option<SymbolId>>,
    /// The global definitions that prevail over those of other parts.
    prevail: IdSet<SymbolId>,
    blocks: Column<BlockId, Option<BlockId>>,
}

impl PartMap {
    fn new(part: &Part<'_>) -> Self {
        Self {
            symbols: Column::filled(part.graph.n_symbols(), None),
            prevail: IdSet::default(),
            blocks: Column::filled(part.graph.n_blocks(), None),
        }
    }
}

/// The definition of a name, or what stands for references to it.
#[derive(Clone, Copy)]
struct Known {
    symbol: SymbolId,
    /// The part that defines it, by number, and its symbol there.
    definition: Option<(usize, SymbolId)>,
}

struct Joiner<'a> {
    joined: LinkGraph,
    by_name: Map<&'a [u8], Known>,
    /// The symbol of value 0.
    nothing: SymbolId,
    /// Sections of which there is one of a name.
    tables: Map<&'a [u8], SectionId>,
}

impl<'a> Joiner<'a> {
    /// Makes symbols for the definitions of a part that are global. Those in blocks get their
    /// place when there are blocks.
    fn declare(
        &mut self,
        parts: &[Part<'a>],
        number: usize,
        map: &mut PartMap,
    ) -> Result<(), JoinError> {
        let part = &parts[number];
        let graph = part.graph;
        for id in graph.symbols() {
            let flags = graph.symbol_flags(id);
            let is_here = flags.is_global()
                && flags.is_definition()
                && part.resolution.prevailing(id) == id
                && part.has(id);
            if !is_here {
                continue;
            }
            let name = graph.symbol_name(id);
            if let Some(known) = self.by_name.get(name) {
                let (first, other) = known.definition.unwrap_or((number, id));
                let first = (parts[first].graph, other);
                let is_weak = |(graph, id): (&LinkGraph, _)| {
                    graph.symbol_flags(id).contains(SymbolFlags::WEAK)
                };
                if !is_weak(first) && !is_weak((graph, id)) {
                    return Err(JoinError::Duplicate(Duplicate {
                        name: String::from_utf8_lossy(name).into_owned(),
                        first: definition_place(first.0, first.1),
                        second: definition_place(graph, id),
                    }));
                }
                map.symbols[id] = Some(known.symbol);
                continue;
            }
            let symbol = self.add(graph, id)?;
            let definition = Some((number, id));
            self.by_name.insert(name, Known { symbol, definition });
            map.symbols[id] = Some(symbol);
            map.prevail.insert(id);
        }
        Ok(())
    }

    /// A symbol like one of a part, without a place if that is in a block.
    fn add(&mut self, graph: &LinkGraph, id: SymbolId) -> Result<SymbolId, GraphError> {
        let symbol = graph.symbol(id);
        let base = match symbol.base {
            Addressable::Block { .. } | Addressable::Discarded | Addressable::Null => {
                Addressable::Absolute(0)
            }
            base => base,
        };
        let mut flags = symbol.flags.difference(SymbolFlags::LIVE);
        if graph.symbol_block(id).is_none() {
            flags.remove(SymbolFlags::SECTION);
        }
        self.joined.add_symbol(NewSymbol {
            name: symbol.name,
            base,
            size: symbol.size,
            flags,
        })
    }

    /// Copies the wanted blocks of a part with their sections and groups, and gives symbols their
    /// places.
    fn copy(&mut self, part: &Part<'a>, map: &mut PartMap) -> Result<(), JoinError> {
        let graph = part.graph;
        let (mut some, mut missing) = (IdSet::<SectionId>::default(), IdSet::default());
        for block in graph.blocks() {
            let section = graph.block_section(block);
            if (part.wants)(block) {
                some.insert(section);
            } else {
                missing.insert(section);
            }
        }
        let comdats = self.groups(part, map, &some, &missing)?;
        let mut sections: Column<SectionId, Option<SectionId>> =
            Column::filled(graph.n_sections(), None);
        for id in some.iter() {
            let section = graph.section(id);
            let comdat = section.comdat;
            let new = NewSection {
                prot: section.prot,
                lifetime: section.lifetime,
                kind: section.kind,
                flags: section.flags,
                entry_size: section.entry_size,
                comdat: comdat.and_then(|comdat| comdats.get(&comdat).copied()),
            };
            sections[id] = Some(self.section(section.name, new));
        }
        for block in graph.blocks() {
            let Some(section) = sections[graph.block_section(block)] else {
                continue;
            };
            if !(part.wants)(block) {
                continue;
            }
            let content = match graph.content(block) {
                Content::Bytes(bytes) => NewContent::Owned(bytes.to_vec()),
                Content::Zero(size) => NewContent::Zero(size),
            };
            map.blocks[block] = Some(self.joined.add_block(NewBlock {
                section,
                content,
                align: graph.block_align(block),
                align_offset: graph.block_align_offset(block),
            })?);
        }

        for id in graph.symbols() {
            let Addressable::Block { block, offset } = graph.addressable(id) else {
                continue;
            };
            let Some(block) = map.blocks[block] else {
                continue;
            };
            let is_named_local =
                graph.symbol_flags(id).scope() == Scope::Local && !graph.symbol_name(id).is_empty();
            if map.symbols[id].is_none() && is_named_local {
                map.symbols[id] = Some(self.add(graph, id)?);
            }
            if let Some(symbol) = map.symbols[id]
                && (is_named_local || map.prevail.contains(id))
            {
                let size = graph.symbol_size(id);
                self.joined.make_defined(symbol, block, offset, size)?;
            }
        }
        Ok(())
    }

    /// A new section, but for call frame records and debug information: their readers want one
    /// section of a name.
    fn section(&mut self, name: &'a [u8], new: NewSection) -> SectionId {
        let is_one = matches!(new.kind, SectionKind::EhFrame | SectionKind::Debug);
        if !is_one || new.comdat.is_some() {
            return self.joined.add_section(name, new);
        }
        if let Some(&known) = self.tables.get(name) {
            let section = self.joined.section(known);
            let is_same = (
                section.prot,
                section.lifetime,
                section.kind,
                section.entry_size,
            ) == (new.prot, new.lifetime, new.kind, new.entry_size)
                && section.flags.difference(SectionFlags::OWNED_NAME)
                    == new.flags.difference(SectionFlags::OWNED_NAME);
            if is_same {
                return known;
            }
        }
        let section = self.joined.add_section(name, new);
        self.tables.insert(name, section);
        section
    }

    /// The groups of a part of which every block is wanted.
    fn groups(
        &mut self,
        part: &Part<'a>,
        map: &mut PartMap,
        some: &IdSet<SectionId>,
        missing: &IdSet<SectionId>,
    ) -> Result<Map<ComdatId, ComdatId>, JoinError> {
        let graph = part.graph;
        let (mut is_whole, mut is_part) = (IdSet::default(), IdSet::<ComdatId>::default());
        for id in graph.sections() {
            let Some(comdat) = graph.section(id).comdat else {
                continue;
            };
            if some.contains(id) {
                is_whole.insert(comdat);
            }
            if missing.contains(id) {
                is_part.insert(comdat);
            }
        }
        let mut comdats = Map::default();
        for id in is_whole.iter().filter(|&id| !is_part.contains(id)) {
            let comdat = graph.comdat(id);
            if comdat.selection == Selection::All {
                // It ties together what is all there.
                continue;
            }
            let symbol = comdat.signature;
            let is_local = graph.symbol_flags(symbol).scope() == Scope::Local;
            let signature = if !is_local {
                self.target(part, map, symbol)?
            } else if graph.symbol_name(symbol).is_empty() {
                None
            } else {
                let new = self.add(graph, symbol)?;
                // Without a block, only its name counts.
                if graph.symbol_block(symbol).is_some() {
                    map.symbols[symbol] = Some(new);
                }
                Some(new)
            };
            let Some(signature) = signature else {
                continue;
            };
            let new = self.joined.add_comdat(Comdat {
                signature,
                input: LinkGraph::linker_input(),
                selection: comdat.selection,
            });
            comdats.insert(id, new);
        }
        Ok(comdats)
    }

    /// Copies the edges and associations of a part.
    fn connect(&mut self, part: &Part<'a>, map: &mut PartMap) -> Result<(), JoinError> {
        let graph = part.graph;
        let mut edges = Vec::new();
        for block in graph.blocks() {
            let Some(new) = map.blocks[block] else {
                continue;
            };
            graph.edges(block, &mut edges)?;
            let mut copies = Vec::with_capacity(edges.len());
            for &edge in &edges {
                let section = graph.block_section(block);
                let copy = match self.target(part, map, edge.target)? {
                    Some(target) => Edge { target, ..edge },
                    None if graph.section_lifetime(section) == Lifetime::NoAlloc => {
                        // Debug information of what is not there says so by the value 0.
                        let target = self.nothing;
                        Edge {
                            target,
                            addend: 0,
                            ..edge
                        }
                    }
                    None => {
                        let name = graph.symbol_name(edge.target);
                        return Err(JoinError::LeftOut {
                            place: Place::of(graph, block, u64::from(edge.offset)),
                            symbol: if name.is_empty() {
                                "an anonymous symbol".to_owned()
                            } else {
                                String::from_utf8_lossy(name).into_owned()
                            },
                        });
                    }
                };
                copies.push(copy);
            }
            self.joined.set_edges(new, copies)?;
        }
        for &(parent, child) in graph.associations() {
            if let (Some(parent), Some(child)) = (map.blocks[parent], map.blocks[child]) {
                self.joined.associate(parent, child)?;
            }
        }
        Ok(())
    }

    /// What a symbol of a part is in the joined graph; `None` when it is left out.
    fn target(
        &mut self,
        part: &Part<'a>,
        map: &mut PartMap,
        symbol: SymbolId,
    ) -> Result<Option<SymbolId>, JoinError> {
        let graph = part.graph;
        let symbol = part.resolution.prevailing(symbol);
        if let Some(known) = map.symbols.get(symbol).copied().flatten() {
            self.refer(graph, symbol, known);
            return Ok(Some(known));
        }
        let new = match graph.addressable(symbol) {
            Addressable::External => self.external(graph, symbol)?,
            Addressable::Block { block, offset } => {
                let Some(block) = map.blocks[block] else {
                    return Ok(None);
                };
                let new = self.add(graph, symbol)?;
                let size = graph.symbol_size(symbol);
                self.joined.make_defined(new, block, offset, size)?;
                new
            }
            Addressable::Absolute(0) if graph.symbol_name(symbol).is_empty() => self.nothing,
            Addressable::Absolute(_) | Addressable::Common { .. } => self.add(graph, symbol)?,
            Addressable::Discarded | Addressable::Null => return Ok(None),
        };
        map.symbols[symbol] = Some(new);
        Ok(Some(new))
    }

    /// The one symbol that stands for all references to a name.
    fn external(&mut self, graph: &'a LinkGraph, symbol: SymbolId) -> Result<SymbolId, JoinError> {
        let name = graph.symbol_name(symbol);
        if let Some(known) = self.by_name.get(name).copied() {
            self.refer(graph, symbol, known.symbol);
            return Ok(known.symbol);
        }
        let symbol = self.add(graph, symbol)?;
        let definition = None;
        self.by_name.insert(name, Known { symbol, definition });
        Ok(symbol)
    }

    /// Another reference to a symbol: one that must be there, or that sees less of it, counts for
    /// all.
    fn refer(&mut self, graph: &LinkGraph, symbol: SymbolId, known: SymbolId) {
        let (flags, own) = (graph.symbol_flags(symbol), self.joined.symbol_flags(known));
        if !flags.is_external() {
            return;
        }
        if own.is_external() && !flags.contains(SymbolFlags::WEAKLY_REFERENCED) {
            self.joined
                .set_symbol_flag(known, SymbolFlags::WEAKLY_REFERENCED, false);
        }
        if flags.scope() > own.scope() && own.is_global() {
            // Cannot fail: a symbol that has been looked up by its name has one.
            let _ = self.joined.set_symbol_scope(known, flags.scope());
        }
    }
}

impl Part<'_> {
    /// Whether what a symbol is defined in is wanted.
    fn has(&self, symbol: SymbolId) -> bool {
        self.graph
            .symbol_block(symbol)
            .is_none_or(|block| self.graph.has_block(block) && (self.wants)(block))
    }
}

#[cfg(test)]
mod tests;
