//! What fixing up needs to know and how it fails. The loops over edges are each architecture's
//! own (`apply`), so that the indirect call is paid per block.

use clinch_graph::{Edge, SymbolId};
use thiserror::Error;

/// Addresses and the like, ready for the loop over edges.
#[derive(Clone, Copy)]
pub struct FixupContext<'a> {
    /// The address of every symbol, by the symbol's index; for a thread-local variable its
    /// address in the initial image of the dylib's thread-local block.
    pub addresses: &'a [u64],
    /// The size of a symbol.
    pub size_of: &'a (dyn Fn(SymbolId) -> u64 + Sync),
    /// The address of the GOT's base symbol.
    pub got: u64,
    /// The dylib's thread-local block, when it has one.
    pub tls: Option<TlsBlock>,
}

impl std::fmt::Debug for FixupContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FixupContext")
            .field("symbols", &self.addresses.len())
            .field("got", &self.got)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Where a dylib's thread-local block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlsBlock {
    /// Address of the initial image: the start of the block's symbols' addresses.
    pub image: u64,
    /// Offset of the block's start from the thread pointer, the same in every thread; `None`
    /// when it differs, so that only dynamic accesses work.
    pub tp_offset: Option<i64>,
}

/// An edge that cannot be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{kind}")]
pub struct FixupError {
    /// The edge.
    pub edge: Edge,
    /// What is wrong.
    pub kind: FixupErrorKind,
}

/// Why an edge cannot be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FixupErrorKind {
    /// The value does not fit its field.
    #[error("value {} does not fit {}..={}", hex(*.value), hex(*.min), hex(*.max))]
    OutOfRange {
        /// The value.
        value: i128,
        /// Smallest value allowed.
        min: i128,
        /// Largest value allowed.
        max: i128,
    },
    /// The value must be a multiple of more than it is.
    #[error("value {} is not a multiple of {align}", hex(*.value))]
    Misaligned {
        /// The value.
        value: i128,
        /// What it must be a multiple of.
        align: u64,
    },
    /// The place is not inside the block.
    #[error("place outside the block")]
    OutsideBlock,
    /// The edge still asks for a table entry.
    #[error("no table entry was made")]
    Unresolved,
    /// A thread-local access that needs a fixed offset from the thread pointer where there is
    /// none.
    #[error("the variable has no fixed offset from the thread pointer")]
    NoThreadOffset,
    /// A thread-local access in a dylib that has no thread-local block.
    #[error("the dylib has no thread-local block")]
    NoThreadBlock,
}

/// A number with its sign, as formatting as hexadecimal leaves it out.
fn hex(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{:#x}", value.unsigned_abs())
}
