//! Blocks: runs of bytes that stay together, with their edges.

use crate::ids::{InputId, SectionId};
use bitflags::bitflags;

bitflags! {
    /// Where a block's content and edges are, and whether it still exists.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct BlockFlags: u8 {
        /// No content: all zero.
        const ZERO = 1;
        /// Content is the graph's own; else it is the input's.
        const OWNED_CONTENT = 2;
        /// Edges are the graph's own; else the input's relocation records.
        const OWNED_EDGES = 4;
        /// An alignment offset is in the side table.
        const ALIGN_OFFSET = 8;
        /// A step removed it.
        const REMOVED = 16;
    }
}

/// One block's column values: 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockRecord {
    /// Offset in the input, or number of an owned content.
    pub(crate) content: u64,
    pub(crate) size: u64,
    pub(crate) section: SectionId,
    pub(crate) input: InputId,
    /// The input's word about its relocation records (0 for none), or number of an owned list.
    pub(crate) edges: u32,
    pub(crate) align_log2: u8,
    pub(crate) flags: BlockFlags,
}

/// A block's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'g> {
    /// These bytes.
    Bytes(&'g [u8]),
    /// So many zero bytes.
    Zero(u64),
}

impl<'g> Content<'g> {
    /// The bytes, empty for zero-fill.
    pub fn bytes(self) -> &'g [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Zero(_) => &[],
        }
    }
}

/// What a reader or a step gives to make a block.
#[derive(Clone, Debug)]
pub struct NewBlock {
    /// The section it belongs to.
    pub section: SectionId,
    /// Its bytes, or how many zero bytes.
    pub content: NewContent,
    /// Its address is a multiple of this, plus the alignment offset; a power of two.
    pub align: u64,
    /// Its address modulo `align`; below `align`.
    pub align_offset: u64,
}

/// A new block's content.
#[derive(Clone, Debug)]
pub enum NewContent {
    /// Bytes the graph takes over.
    Owned(Vec<u8>),
    /// So many zero bytes.
    Zero(u64),
}
