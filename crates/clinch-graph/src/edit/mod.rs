//! Edits: changes to a graph from outside a pass, as one transaction. A plugin stages operations
//! in an [`Edit`]; [`Edit::commit`] applies all of them or none, and raises the graph's
//! generation by one.
//!
//! An edit is made for a graph as it is at that moment. Ids of what the edit will make are given
//! out while it is staged, and can be used by later operations of it; they name the entities
//! once it is published. Committing to a graph that was published to or grew in between is
//! refused ([`EditError::Stale`]).
//!
//! How it works: the operations are the ones every pass uses, applied in the order they were
//! staged. Before each, what it may touch is saved (`undo.rs`). Afterwards everything touched is
//! verified, and what may hang on it. When an operation or the verifier refuses, the saved state
//! is put back: no name, no byte and no id of the edit stays behind. The cost is in proportion
//! to what the edit touches; only removing symbols looks at the edges of the whole graph, and
//! only resizing blocks at all symbols.

use crate::block::NewBlock;
use crate::comdat::Comdat;
use crate::edge::Edge;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, ComdatId, SectionId, SymbolId};
use crate::index::id::{Id, IdRange};
use crate::ops::GraphError;
use crate::section::{Lifetime, NewSection, Prot};
use crate::symbol::{Addressable, Linkage, NewSymbol, Scope, SymbolFlags};
use crate::verify::{Stage, Violation};
use op::Op;
use std::sync::Arc;
use thiserror::Error;
use undo::Undo;

mod check;
mod op;
mod undo;

#[cfg(test)]
mod tests;

/// Why an edit was not published. The graph is as it was.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum EditError {
    /// The graph is not what the edit was made for.
    #[error("the edit was made for generation {made_for} of the graph, which has changed since")]
    Stale {
        /// The generation the edit was made for.
        made_for: u64,
    },
    /// An operation was refused.
    #[error("operation {index} ({name}): {source}")]
    Refused {
        /// Which one, counted from 0.
        index: usize,
        /// What it would have done.
        name: &'static str,
        /// Why it was refused.
        source: GraphError,
    },
    /// All operations together would leave an unsound graph.
    #[error("the edit leaves an unsound graph: {}", first(.0))]
    Unsound(Vec<Violation>),
}

fn first(violations: &[Violation]) -> String {
    match violations {
        [] => String::new(),
        [only] => only.to_string(),
        [first, others @ ..] => format!("{first}, and {} more", others.len()),
    }
}

/// What a published edit made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// The graph's generation from now on.
    pub generation: u64,
    /// Sections it made.
    pub sections: IdRange<SectionId>,
    /// Blocks it made.
    pub blocks: IdRange<BlockId>,
    /// Symbols it made.
    pub symbols: IdRange<SymbolId>,
}

/// How many ids of each kind were given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counts {
    sections: usize,
    blocks: usize,
    symbols: usize,
    comdats: usize,
}

impl Counts {
    fn of(graph: &LinkGraph) -> Self {
        Self {
            sections: graph.n_sections(),
            blocks: graph.n_blocks(),
            symbols: graph.n_symbols(),
            comdats: graph.comdats().len(),
        }
    }
}

/// Operations to be applied to a graph together. Each method stages one; it says of the
/// operation of the same name of [`LinkGraph`] what it does and when it is refused, which shows
/// only when the edit is committed.
#[derive(Debug)]
pub struct Edit {
    generation: u64,
    before: Counts,
    next: Counts,
    stage: Stage,
    step: &'static str,
    plugin: Option<Arc<str>>,
    ops: Vec<Op>,
}

impl Edit {
    /// An edit without operations, for the graph as it is now.
    pub fn new(graph: &LinkGraph) -> Self {
        let counts = Counts::of(graph);
        Self {
            generation: graph.generation(),
            before: counts,
            next: counts,
            stage: Stage::Read,
            step: "edit",
            plugin: None,
            ops: Vec::new(),
        }
    }

    /// Says who edits, and in which step, for the provenance of what the edit touches.
    #[must_use]
    pub fn made_by(mut self, step: &'static str, plugin: Option<Arc<str>>) -> Self {
        (self.step, self.plugin) = (step, plugin);
        self
    }

    /// Says how far the graph has come: what must hold when the edit is published.
    #[must_use]
    pub fn at_stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    /// How many operations are staged.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether no operation is staged.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Applies all operations, or none.
    ///
    /// # Errors
    /// The graph changed since the edit was made, an operation is refused, or the result would
    /// not be sound. Then the graph is as it was.
    pub fn commit(self, graph: &mut LinkGraph) -> Result<Published, EditError> {
        if graph.generation() != self.generation || Counts::of(graph) != self.before {
            return Err(EditError::Stale {
                made_for: self.generation,
            });
        }
        let resumed = graph.provenance.last_step();
        let mut undo = Undo::new(graph);
        graph.begin_step(self.step, self.plugin);
        for (index, op) in self.ops.into_iter().enumerate() {
            let name = op.name();
            undo.save(graph, &op);
            if let Err(source) = op.apply(graph) {
                undo.restore(graph);
                return Err(EditError::Refused {
                    index,
                    name,
                    source,
                });
            }
        }
        debug_assert_eq!(
            Counts::of(graph),
            self.next,
            "ids are as they were foretold"
        );
        let violations = check::run(graph, self.stage, &undo);
        if !violations.is_empty() {
            undo.restore(graph);
            return Err(EditError::Unsound(violations));
        }
        if let Some(step) = resumed {
            graph.begin_step(step.name, step.plugin);
        }
        graph.generation += 1;
        Ok(Published {
            generation: graph.generation(),
            sections: IdRange::new(self.before.sections, self.next.sections),
            blocks: IdRange::new(self.before.blocks, self.next.blocks),
            symbols: IdRange::new(self.before.symbols, self.next.symbols),
        })
    }

    // Making.

    /// Makes a section.
    pub fn add_section(&mut self, name: &[u8], new: NewSection) -> SectionId {
        let name = name.to_vec();
        self.ops.push(Op::AddSection { name, new });
        next_id(&mut self.next.sections)
    }

    /// Makes a block without edges.
    pub fn add_block(&mut self, new: NewBlock) -> BlockId {
        self.ops.push(Op::AddBlock(new));
        next_id(&mut self.next.blocks)
    }

    /// Makes a symbol.
    pub fn add_symbol(&mut self, new: NewSymbol<'_>) -> SymbolId {
        self.ops.push(Op::AddSymbol {
            name: new.name.to_vec(),
            base: new.base,
            size: new.size,
            flags: new.flags,
        });
        next_id(&mut self.next.symbols)
    }

    /// Makes a symbol that is defined elsewhere.
    pub fn add_external(&mut self, name: &[u8], weakly_referenced: bool) -> SymbolId {
        let weak = SymbolFlags::WEAKLY_REFERENCED;
        self.add_symbol(NewSymbol {
            name,
            base: Addressable::External,
            size: 0,
            flags: if weakly_referenced {
                weak
            } else {
                SymbolFlags::empty()
            },
        })
    }

    /// Makes a symbol with a name in a block, or an anonymous one when the name is empty.
    pub fn add_defined(
        &mut self,
        name: &[u8],
        block: BlockId,
        offset: u64,
        size: u64,
        flags: SymbolFlags,
    ) -> SymbolId {
        self.add_symbol(NewSymbol {
            name,
            base: Addressable::Block { block, offset },
            size,
            flags,
        })
    }

    /// Makes a COMDAT group.
    pub fn add_comdat(&mut self, comdat: Comdat) -> ComdatId {
        self.ops.push(Op::AddComdat(comdat));
        next_id(&mut self.next.comdats)
    }

    /// Makes `child` live exactly when `parent` does.
    pub fn associate(&mut self, parent: BlockId, child: BlockId) {
        self.ops.push(Op::Associate { parent, child });
    }

    // Sections.

    /// Changes what a section's memory must allow.
    pub fn set_section_prot(&mut self, section: SectionId, prot: Prot) {
        self.ops.push(Op::SetSectionProt { section, prot });
    }

    /// Changes how long a section's memory is needed.
    pub fn set_section_lifetime(&mut self, section: SectionId, lifetime: Lifetime) {
        self.ops.push(Op::SetSectionLifetime { section, lifetime });
    }

    /// Changes a section's place among the others in a layout.
    pub fn set_section_ordinal(&mut self, section: SectionId, ordinal: u32) {
        self.ops.push(Op::SetSectionOrdinal { section, ordinal });
    }

    /// Moves all blocks of `from` to `to` and removes `from`.
    pub fn merge_sections(&mut self, to: SectionId, from: SectionId) {
        self.ops.push(Op::MergeSections { to, from });
    }

    /// Removes a section without blocks.
    pub fn remove_section(&mut self, section: SectionId) {
        self.ops.push(Op::RemoveSection(section));
    }

    // Blocks.

    /// Moves a block to another section.
    pub fn transfer_block(&mut self, block: BlockId, section: SectionId) {
        self.ops.push(Op::TransferBlock { block, section });
    }

    /// Changes a block's alignment and its address modulo it.
    pub fn set_block_align(&mut self, block: BlockId, align: u64, offset: u64) {
        self.ops.push(Op::SetBlockAlign {
            block,
            align,
            offset,
        });
    }

    /// Gives a block new content and size.
    pub fn set_content(&mut self, block: BlockId, bytes: Vec<u8>) {
        self.ops.push(Op::SetContent { block, bytes });
    }

    /// Overwrites bytes of a block, which has to have them.
    pub fn write_content(&mut self, block: BlockId, offset: u64, bytes: Vec<u8>) {
        self.ops.push(Op::WriteContent {
            block,
            offset,
            bytes,
        });
    }

    /// Changes the size of a zero-fill block.
    pub fn set_zero_fill_size(&mut self, block: BlockId, size: u64) {
        self.ops.push(Op::SetZeroFillSize { block, size });
    }

    /// Removes a block that no symbol points at.
    pub fn remove_block(&mut self, block: BlockId) {
        self.ops.push(Op::RemoveBlock(block));
    }

    /// Splits a block at ascending offsets inside it. Answers all pieces, the block first.
    pub fn split_block(&mut self, block: BlockId, offsets: &[u64]) -> Vec<BlockId> {
        let offsets = offsets.to_vec();
        let new = offsets.iter().map(|_| next_id(&mut self.next.blocks));
        let pieces = std::iter::once(block).chain(new).collect();
        self.ops.push(Op::SplitBlock { block, offsets });
        pieces
    }

    /// Gives a block a list of edges.
    pub fn set_edges(&mut self, block: BlockId, edges: Vec<Edge>) {
        self.ops.push(Op::SetEdges { block, edges });
    }

    /// Adds an edge to a block.
    pub fn add_edge(&mut self, block: BlockId, edge: Edge) {
        self.ops.push(Op::AddEdge { block, edge });
    }

    // Symbols.

    /// Makes a symbol one that is defined elsewhere.
    pub fn make_external(&mut self, symbol: SymbolId) {
        self.ops.push(Op::MakeExternal(symbol));
    }

    /// Gives a symbol a fixed value.
    pub fn make_absolute(&mut self, symbol: SymbolId, value: u64) {
        self.ops.push(Op::MakeAbsolute { symbol, value });
    }

    /// Defines a symbol at a place in a block, wherever it was before.
    pub fn make_defined(&mut self, symbol: SymbolId, block: BlockId, offset: u64, size: u64) {
        self.ops.push(Op::MakeDefined {
            symbol,
            block,
            offset,
            size,
        });
    }

    /// Moves a defined symbol to another place.
    pub fn transfer_symbol(
        &mut self,
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: Option<u64>,
    ) {
        self.ops.push(Op::TransferSymbol {
            symbol,
            block,
            offset,
            size,
        });
    }

    /// Removes a symbol, which no edge may target afterwards.
    pub fn remove_symbol(&mut self, symbol: SymbolId) {
        self.ops.push(Op::RemoveSymbol(symbol));
    }

    /// Renames a symbol.
    pub fn set_symbol_name(&mut self, symbol: SymbolId, name: &[u8]) {
        let name = name.to_vec();
        self.ops.push(Op::SetSymbolName { symbol, name });
    }

    /// Sets or clears properties that are single bits.
    pub fn set_symbol_flag(&mut self, symbol: SymbolId, flag: SymbolFlags, on: bool) {
        self.ops.push(Op::SetSymbolFlag { symbol, flag, on });
    }

    /// Changes who can see a symbol.
    pub fn set_symbol_scope(&mut self, symbol: SymbolId, scope: Scope) {
        self.ops.push(Op::SetSymbolScope { symbol, scope });
    }

    /// Changes how definitions of a symbol's name clash.
    pub fn set_symbol_linkage(&mut self, symbol: SymbolId, linkage: Linkage) {
        self.ops.push(Op::SetSymbolLinkage { symbol, linkage });
    }

    /// Changes how many bytes a symbol names.
    pub fn set_symbol_size(&mut self, symbol: SymbolId, size: u64) {
        self.ops.push(Op::SetSymbolSize { symbol, size });
    }
}

/// The id that will be given out next.
fn next_id<I: Id>(count: &mut usize) -> I {
    let id = I::from_index(*count);
    *count += 1;
    id
}
