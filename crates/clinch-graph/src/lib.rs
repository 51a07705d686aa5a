//! The LinkGraph: a program as sections, blocks, symbols and edges, held as columns over typed
//! 32-bit ids. It knows no object format, no architecture and no address.
//!
//! - [`graph`] is the graph and read access; [`ops`] is what a pass may change.
//! - [`part`] is how readers fill it, in parallel and in place.
//! - [`section`], [`block`], [`symbol`], [`edge`], [`comdat`], [`input`] hold one record each.
//! - [`origin`] tells who brought or changed an entity.
//! - [`names`] gives each distinct name of a global symbol a number.
//! - [`edit`] is how a plugin changes it: all or nothing.
//! - [`dump`] is the text form, printed and parsed; tests are written in it.
//! - [`mod@verify`] lists the rules of a sound graph and checks them; [`digest`] is a graph's meaning in
//!   32 bytes.
//! - [`index`] is the machinery below: ids, columns, sets, integer conversions, workers.
//!
//! *Invariant:* iteration is in id order and ids are given in input order, so nothing depends on
//! the number of threads or on a hash. *Invariant:* an untouched block's content and edges are
//! its input's bytes. *Invariant:* no address is stored here; layouts lie beside the graph.

pub mod block;
pub mod comdat;
pub mod digest;
pub mod dump;
pub mod edge;
mod edge_lists;
pub mod edit;
pub mod graph;
pub mod ids;
pub mod index;
pub mod input;
pub mod names;
pub mod ops;
pub mod origin;
pub mod part;
pub mod section;
pub mod symbol;
pub mod target;
pub mod verify;

#[cfg(test)]
mod testing;

pub use block::{Content, NewBlock, NewContent};
pub use comdat::{Comdat, Selection};
pub use digest::Digest;
pub use dump::{ParseError, PrintError, parse, print};
pub use edge::{Edge, EdgeError, EdgeErrorKind, EdgeKind, EdgeRequest, EdgeSource};
pub use edit::{Edit, EditError, Published};
pub use graph::{BlockEdgeError, LinkGraph};
pub use ids::{BlockId, ComdatId, InputId, SectionId, SymbolId};
pub use index::column::Column;
pub use index::id::{Id, IdRange};
pub use index::set::{IdSet, SharedIdSet};
pub use index::workers::Workers;
pub use input::{Input, InputName, NewInput};
pub use names::{NameId, Names};
pub use ops::{EdgeBatch, GraphError, Split};
pub use origin::{Entity, Origin, Step};
pub use part::{BlockPart, ReadBlock, SymbolBase, SymbolPart, SymbolRest};
pub use section::{Lifetime, NewSection, Prot, Section, SectionFlags, SectionKind};
pub use symbol::{Addressable, Linkage, NewSymbol, Scope, Symbol, SymbolFlags};
pub use target::{Endian, GraphTarget};
pub use verify::{Stage, Subject, Violation, verify};
