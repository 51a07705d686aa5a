//! Edges: references from a place in a block to a symbol. An untouched block's edges are its
//! input's relocation records, decoded a block at a time into a caller's buffer; only a block
//! that somebody changed has a list of its own.

use crate::ids::SymbolId;
use std::fmt;
use thiserror::Error;

/// What an edge asks for. The numbers below [`EdgeKind::FIRST_RELOCATION`] mean the same for
/// every architecture; the others are numbered by the architecture's table and shared by all
/// object formats.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeKind(pub u8);

impl EdgeKind {
    /// Never in a valid graph.
    pub const INVALID: Self = Self(0);
    /// Keeps the target alive and writes nothing.
    pub const KEEP_ALIVE: Self = Self(1);
    /// The first number that belongs to the architecture.
    pub const FIRST_RELOCATION: u8 = 2;

    /// Whether the edge writes bytes (or asks for a table entry that an edge will write).
    #[inline]
    pub const fn is_relocation(self) -> bool {
        self.0 >= Self::FIRST_RELOCATION
    }
}

/// A reference from `offset` in a block to `target`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Offset of the place in its block, in bytes.
    pub offset: u32,
    /// What to write or keep.
    pub kind: EdgeKind,
    /// The symbol referred to.
    pub target: SymbolId,
    /// The constant of the kind's formula.
    pub addend: i64,
}

/// What a decoder is given: one block's share of its input.
#[derive(Clone, Copy, Debug)]
pub struct EdgeRequest<'g> {
    /// The whole input.
    pub bytes: &'g [u8],
    /// The block's content, empty for zero-fill; implicit addends are read here.
    pub content: &'g [u8],
    /// The block's size in bytes.
    pub size: u64,
    /// The decoder's own word about the block: where its records are.
    pub table: u32,
    /// Raw id of the input's symbol 0.
    pub first_symbol: u32,
    /// How many symbols the input has.
    pub n_symbols: u32,
}

/// Decodes an input's relocation records. One implementation per object format.
pub trait EdgeSource: Send + Sync + fmt::Debug {
    /// Appends the block's edges to `out`, in the records' order.
    ///
    /// # Errors
    /// A record that cannot be read, names a symbol the input does not have, a relocation the
    /// architecture does not know, or a place outside the block.
    fn decode(&self, request: &EdgeRequest<'_>, out: &mut Vec<Edge>) -> Result<(), EdgeError>;

    /// Whether [`EdgeSource::decode`] looks at the block's content, as for addends that are kept
    /// in place. The graph then takes the edges over before it lets the content change. A source
    /// that does not look should say so, for then the block keeps its records.
    fn reads_content(&self, request: &EdgeRequest<'_>) -> bool {
        let _ = request;
        true
    }

    /// How many records the block has, where that is known without decoding.
    fn count(&self, request: &EdgeRequest<'_>) -> usize;
}

/// Why an edge could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{kind} (record at file offset {offset:#x})")]
pub struct EdgeError {
    /// Offset of the record in its input, in bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub kind: EdgeErrorKind,
}

/// What is wrong with a relocation record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum EdgeErrorKind {
    /// The table ends inside a record.
    #[error("relocation table is truncated")]
    Truncated,
    /// The record's symbol number is not below the number of symbols.
    #[error("relocation refers to symbol {0}, which does not exist")]
    NoSymbol(u32),
    /// The architecture has no such relocation.
    #[error("unknown relocation type {0}")]
    UnknownType(u32),
    /// The relocation is one that only a linked file may hold.
    #[error("relocation type {0} ({1}) is not allowed in a relocatable object")]
    NotForObjects(u32, &'static str),
    /// The place is not in the section.
    #[error("relocation at offset {place:#x} lies outside the section of {size:#x} bytes")]
    OutsideBlock {
        /// Offset of the place in its section.
        place: u64,
        /// The section's size.
        size: u64,
    },
}
