//! Dense numbers for what exists: the ids without the holes that removed entities leave. The
//! text form and the digest speak of entities by these.

use crate::graph::LinkGraph;
use crate::ids::{BlockId, SectionId, SymbolId};
use crate::index::column::Column;
use crate::index::id::Id;

/// Numbers from 1 for the live ones among `I`, 0 for holes.
pub(crate) struct Dense<I> {
    numbers: Column<I, u32>,
    len: u32,
}

impl<I: Id> Dense<I> {
    fn new(n_ids: usize, live: impl Iterator<Item = I>) -> Self {
        let mut dense = Self {
            numbers: Column::filled(n_ids, 0),
            len: 0,
        };
        for id in live {
            dense.len += 1;
            dense.numbers[id] = dense.len;
        }
        dense
    }

    /// The number of an entity that exists.
    pub(crate) fn get(&self, id: I) -> Option<u32> {
        self.numbers.get(id).copied().filter(|&number| number != 0)
    }

    /// How many entities exist.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// The dense numbers of one graph.
pub(crate) struct Numbering {
    pub(crate) sections: Dense<SectionId>,
    pub(crate) blocks: Dense<BlockId>,
    pub(crate) symbols: Dense<SymbolId>,
}

impl Numbering {
    pub(crate) fn new(graph: &LinkGraph) -> Self {
        Self {
            sections: Dense::new(graph.n_sections(), graph.sections()),
            blocks: Dense::new(graph.n_blocks(), graph.blocks()),
            symbols: Dense::new(graph.n_symbols(), graph.symbols()),
        }
    }
}
