//! Why a graph cannot be written as an object.

use clinch_graph::{BlockEdgeError, InputName};
use thiserror::Error;

/// Why a graph cannot be written as an ELF object: mostly something that ELF cannot say.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The graph is not for the architecture, or the architecture has no ELF form.
    #[error("a graph for {graph} cannot be written as an ELF object for {arch}")]
    Architecture {
        /// What the graph is for.
        graph: &'static str,
        /// What the object was to be for.
        arch: &'static str,
    },
    /// A section that ELF cannot say.
    #[error("section {section}: {why}")]
    Section {
        /// Its name.
        section: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A symbol that ELF cannot say.
    #[error("symbol {symbol}: {why}")]
    Symbol {
        /// Its name, or its place when it has none.
        symbol: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A group that ELF cannot say.
    #[error("group {signature}: {why}")]
    Group {
        /// The name that the group goes by.
        signature: String,
        /// What is wrong.
        why: &'static str,
    },
    /// An edge that ELF cannot say.
    #[error("section {section}+{offset:#x}: edge {kind} to {target}: {why}")]
    Edge {
        /// The section with the place.
        section: String,
        /// Offset of the place in the section.
        offset: u64,
        /// The edge's kind.
        kind: &'static str,
        /// The target.
        target: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A block's relocation records cannot be decoded.
    #[error(transparent)]
    Edges(#[from] Box<BlockEdgeError>),
    /// Sections of an input lie over one another, so that writing each would take more room than
    /// the input has.
    #[error("{0}: sections overlap")]
    Overlap(InputName),
    /// More than the format, or the machine, can hold.
    #[error("{0} too large for an ELF object")]
    TooLarge(&'static str),
}
