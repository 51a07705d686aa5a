//! What an edit touches, saved before it is touched, and put back when the edit fails.
//!
//! Everything the edit makes lies behind the lengths that columns and tables had before, so it
//! is cut off. Of what existed, records are saved when an operation first names them, contents
//! and lists of edges when one may change them.

use super::op::Op;
use crate::block::{BlockFlags, BlockRecord};
use crate::edge::Edge;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::index::int::{usize_of, usize_of_u64};
use crate::index::map::Set;
use crate::index::set::IdSet;
use crate::origin::Entity;
use crate::section::SectionRecord;
use crate::symbol::{SymbolFlags, SymbolRecord, Wide};

struct SavedSection {
    id: SectionId,
    record: SectionRecord,
    ordinal: Option<u32>,
    changed: Option<u32>,
}

struct SavedBlock {
    id: BlockId,
    record: BlockRecord,
    align_offset: Option<u64>,
    changed: Option<u32>,
}

struct SavedSymbol {
    id: SymbolId,
    record: SymbolRecord,
    flags: SymbolFlags,
    wide: Option<Wide>,
    changed: Option<u32>,
}

/// The state from before an edit, as far as the edit touched it.
pub(super) struct Undo {
    n_sections: usize,
    n_blocks: usize,
    n_symbols: usize,
    n_comdats: usize,
    n_names: usize,
    n_contents: usize,
    n_edge_lists: usize,
    n_associations: usize,
    n_steps: usize,
    sections: Vec<SavedSection>,
    blocks: Vec<SavedBlock>,
    symbols: Vec<SavedSymbol>,
    contents: Vec<(usize, Vec<u8>)>,
    edge_lists: Vec<(usize, Vec<Edge>)>,
    /// All associations, once one may go away.
    associations: Option<Vec<(BlockId, BlockId)>>,
    seen_sections: IdSet<SectionId>,
    seen_blocks: IdSet<BlockId>,
    seen_symbols: IdSet<SymbolId>,
    seen_contents: Set<usize>,
    seen_edge_lists: Set<usize>,
    resized: IdSet<BlockId>,
    removed: IdSet<SymbolId>,
}

impl Undo {
    pub(super) fn new(graph: &LinkGraph) -> Self {
        Self {
            n_sections: graph.n_sections(),
            n_blocks: graph.n_blocks(),
            n_symbols: graph.n_symbols(),
            n_comdats: graph.comdats.len(),
            n_names: graph.names.len(),
            n_contents: graph.contents.len(),
            n_edge_lists: graph.edge_lists.len(),
            n_associations: graph.associations.len(),
            n_steps: graph.provenance.n_steps(),
            sections: Vec::new(),
            blocks: Vec::new(),
            symbols: Vec::new(),
            contents: Vec::new(),
            edge_lists: Vec::new(),
            associations: None,
            seen_sections: IdSet::default(),
            seen_blocks: IdSet::default(),
            seen_symbols: IdSet::default(),
            seen_contents: Set::default(),
            seen_edge_lists: Set::default(),
            resized: IdSet::default(),
            removed: IdSet::default(),
        }
    }

    /// Saves what an operation may touch. What it names need not exist.
    pub(super) fn save(&mut self, graph: &LinkGraph, op: &Op) {
        match *op {
            Op::AddSection { .. }
            | Op::AddBlock(_)
            | Op::AddSymbol { .. }
            | Op::AddComdat(_)
            | Op::Associate { .. } => {}
            Op::SetSectionProt { section, .. }
            | Op::SetSectionLifetime { section, .. }
            | Op::SetSectionOrdinal { section, .. }
            | Op::RemoveSection(section) => self.section(graph, section),
            Op::MergeSections { to, from } => {
                self.section(graph, to);
                self.section(graph, from);
                // Removed blocks move, too.
                for (block, record) in graph.blocks.iter() {
                    if record.section == from {
                        self.block(graph, block);
                    }
                }
            }
            Op::TransferBlock { block, .. } | Op::SetBlockAlign { block, .. } => {
                self.block(graph, block);
            }
            Op::WriteContent { block, .. } => self.block_content(graph, block),
            Op::SetContent { block, .. } | Op::SetZeroFillSize { block, .. } => {
                self.block_content(graph, block);
                // An id that does not exist may be huge, and the operation is refused anyway.
                if graph.has_block(block) {
                    self.resized.insert(block);
                }
            }
            Op::SetEdges { block, .. } | Op::AddEdge { block, .. } => {
                self.block_edges(graph, block);
            }
            Op::RemoveBlock(block) => {
                self.block_content(graph, block);
                self.block_edges(graph, block);
                self.all_associations(graph);
            }
            Op::SplitBlock { block, .. } => {
                self.block_content(graph, block);
                self.block_edges(graph, block);
                for symbol in graph.symbols() {
                    if graph.symbol_block(symbol) == Some(block) {
                        self.symbol(graph, symbol);
                    }
                }
            }
            Op::RemoveSymbol(symbol) => {
                self.symbol(graph, symbol);
                if graph.check_symbol(symbol).is_ok() {
                    self.removed.insert(symbol);
                }
            }
            Op::MakeExternal(symbol)
            | Op::MakeAbsolute { symbol, .. }
            | Op::MakeDefined { symbol, .. }
            | Op::TransferSymbol { symbol, .. }
            | Op::SetSymbolName { symbol, .. }
            | Op::SetSymbolFlag { symbol, .. }
            | Op::SetSymbolScope { symbol, .. }
            | Op::SetSymbolLinkage { symbol, .. }
            | Op::SetSymbolSize { symbol, .. } => self.symbol(graph, symbol),
        }
    }

    fn section(&mut self, graph: &LinkGraph, id: SectionId) {
        if id.index() < self.n_sections && self.seen_sections.insert(id) {
            self.sections.push(SavedSection {
                id,
                record: graph.sections[id],
                ordinal: graph.ordinals.get(&id).copied(),
                changed: graph.provenance.change(Entity::Section(id)),
            });
        }
    }

    fn block(&mut self, graph: &LinkGraph, id: BlockId) {
        if id.index() < self.n_blocks && self.seen_blocks.insert(id) {
            self.blocks.push(SavedBlock {
                id,
                record: graph.blocks[id],
                align_offset: graph.align_offsets.get(&id).copied(),
                changed: graph.provenance.change(Entity::Block(id)),
            });
        }
    }

    fn block_content(&mut self, graph: &LinkGraph, id: BlockId) {
        self.block(graph, id);
        let Some(record) = graph.blocks.get(id) else {
            return;
        };
        let content = usize_of_u64(record.content);
        if record.flags.contains(BlockFlags::OWNED_CONTENT)
            && content < self.n_contents
            && self.seen_contents.insert(content)
        {
            let bytes = graph.contents[content].clone();
            self.contents.push((content, bytes));
        }
    }

    fn block_edges(&mut self, graph: &LinkGraph, id: BlockId) {
        self.block(graph, id);
        let Some(record) = graph.blocks.get(id) else {
            return;
        };
        let list = usize_of(record.edges);
        if record.flags.contains(BlockFlags::OWNED_EDGES)
            && list < self.n_edge_lists
            && self.seen_edge_lists.insert(list)
        {
            let edges = graph.edge_lists.get(list).to_vec();
            self.edge_lists.push((list, edges));
        }
    }

    fn symbol(&mut self, graph: &LinkGraph, id: SymbolId) {
        if id.index() < self.n_symbols && self.seen_symbols.insert(id) {
            self.symbols.push(SavedSymbol {
                id,
                record: graph.symbols[id],
                flags: graph.flags[id],
                wide: graph.wide.get(&id).copied(),
                changed: graph.provenance.change(Entity::Symbol(id)),
            });
        }
    }

    fn all_associations(&mut self, graph: &LinkGraph) {
        // Those the edit added are cut off when this is put back.
        self.associations
            .get_or_insert_with(|| graph.associations.clone());
    }

    /// Puts everything back.
    pub(super) fn restore(self, graph: &mut LinkGraph) {
        for saved in self.sections {
            graph.sections[saved.id] = saved.record;
            put(&mut graph.ordinals, saved.id, saved.ordinal);
            let entity = Entity::Section(saved.id);
            graph.provenance.set_change(entity, saved.changed);
        }
        for saved in self.blocks {
            graph.blocks[saved.id] = saved.record;
            put(&mut graph.align_offsets, saved.id, saved.align_offset);
            let entity = Entity::Block(saved.id);
            graph.provenance.set_change(entity, saved.changed);
        }
        for saved in self.symbols {
            graph.symbols[saved.id] = saved.record;
            graph.flags[saved.id] = saved.flags;
            put(&mut graph.wide, saved.id, saved.wide);
            let entity = Entity::Symbol(saved.id);
            graph.provenance.set_change(entity, saved.changed);
        }
        for (index, bytes) in self.contents {
            graph.contents[index] = bytes;
        }
        for (index, edges) in self.edge_lists {
            graph.edge_lists.set(index, &edges);
        }
        if let Some(associations) = self.associations {
            graph.associations = associations;
        }

        for id in new_ids(self.n_sections, graph.n_sections()) {
            graph.ordinals.remove(&id);
            graph.provenance.set_change(Entity::Section(id), None);
        }
        for id in new_ids(self.n_blocks, graph.n_blocks()) {
            graph.align_offsets.remove(&id);
            graph.provenance.set_change(Entity::Block(id), None);
        }
        for id in new_ids(self.n_symbols, graph.n_symbols()) {
            graph.wide.remove(&id);
            graph.provenance.set_change(Entity::Symbol(id), None);
        }
        graph.sections.truncate(self.n_sections);
        graph.blocks.truncate(self.n_blocks);
        graph.symbols.truncate(self.n_symbols);
        graph.flags.truncate(self.n_symbols);
        graph.comdats.truncate(self.n_comdats);
        graph.names.truncate(self.n_names);
        graph.contents.truncate(self.n_contents);
        graph.edge_lists.truncate(self.n_edge_lists);
        graph.associations.truncate(self.n_associations);
        graph.provenance.truncate_steps(self.n_steps);
    }

    // What to verify.

    /// Sections that were changed or made and still exist.
    pub(super) fn touched_sections(&self, graph: &LinkGraph) -> Vec<SectionId> {
        let new = new_ids(self.n_sections, graph.n_sections());
        let all = self.seen_sections.iter().chain(new);
        all.filter(|&id| graph.check_section(id).is_ok()).collect()
    }

    /// Blocks that were changed or made and still exist.
    pub(super) fn touched_blocks(&self, graph: &LinkGraph) -> Vec<BlockId> {
        let new = new_ids(self.n_blocks, graph.n_blocks());
        let all = self.seen_blocks.iter().chain(new);
        all.filter(|&id| graph.has_block(id)).collect()
    }

    /// Symbols that were changed or made, or lie in a block of changed size, and still exist.
    pub(super) fn touched_symbols(&self, graph: &LinkGraph) -> Vec<SymbolId> {
        if self.resized.is_empty() {
            let new = new_ids(self.n_symbols, graph.n_symbols());
            let all = self.seen_symbols.iter().chain(new);
            return all.filter(|&id| graph.check_symbol(id).is_ok()).collect();
        }
        let in_resized = |id| {
            let block = graph.symbol_block(id);
            block.is_some_and(|block| self.resized.contains(block))
        };
        let touched = |id: SymbolId| id.index() >= self.n_symbols || self.seen_symbols.contains(id);
        let all = graph.symbols();
        all.filter(|&id| touched(id) || in_resized(id)).collect()
    }

    /// Symbols that were removed.
    pub(super) fn removed_symbols(&self) -> &IdSet<SymbolId> {
        &self.removed
    }

    /// The first association that was added, or 0 when some went away.
    pub(super) fn first_association(&self) -> usize {
        match self.associations {
            Some(_) => 0,
            None => self.n_associations,
        }
    }
}

/// The ids given out since there were `from` of them.
fn new_ids<I: Id>(from: usize, to: usize) -> impl Iterator<Item = I> {
    (from..to).map(I::from_index)
}

/// Makes a side table say again what it said of `id`.
fn put<I: Id + std::hash::Hash, T>(
    table: &mut crate::index::map::Map<I, T>,
    id: I,
    value: Option<T>,
) {
    match value {
        Some(value) => table.insert(id, value),
        None => table.remove(&id),
    };
}
