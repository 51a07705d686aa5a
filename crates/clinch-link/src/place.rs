//! How messages name a place in an input: `a.o:(.text+0x15)` and the function it is in.

use clinch_graph::{Addressable, BlockId, LinkGraph, SymbolFlags};
use std::fmt;

/// A place in a block, ready to be printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The input's name.
    pub input: String,
    /// The section's name.
    pub section: String,
    /// Offset in the section (in the block, for a section that was split).
    pub offset: u64,
    /// The mangled name of the function that holds the place.
    pub function: Option<String>,
}

impl Place {
    /// Describes an offset in a block. Walks the symbols of the block's input, so it is for
    /// messages only.
    pub fn of(graph: &LinkGraph, block: BlockId, offset: u64) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let input = graph.input(graph.block_input(block));
        let function = input
            .symbols()
            .iter()
            .filter(|&id| graph.symbol_flags(id).contains(SymbolFlags::CALLABLE))
            .rfind(|&id| match graph.addressable(id) {
                Addressable::Block {
                    block: holder,
                    offset: start,
                } if holder == block => {
                    let size = graph.symbol_size(id).max(1);
                    start <= offset && offset - start < size
                }
                _ => false,
            });
        Self {
            input: input.name.to_string(),
            section: text(graph.section_name(graph.block_section(block))),
            offset,
            function: function.map(|id| text(graph.symbol_name(id))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:({}+{:#x})", self.input, self.section, self.offset)
    }
}
