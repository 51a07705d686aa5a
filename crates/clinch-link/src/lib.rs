//! The steps on a graph that every kind of link runs, in the order they run. They take the
//! graph, the architecture and plain rules, never a product's options, and each answers a value
//! that the next one takes: the wrong order does not compile.
//!
//! - [`resolve`] chooses COMDAT groups and the prevailing definition of each name.
//! - [`common`] gives space to tentative definitions.
//! - [`start_stop`] finds the sections whose bounds the program asks for by name.
//! - [`frames`] splits call frame sections into records.
//! - [`prune`] finds what is reachable.
//! - [`tables`] makes GOT entries, stubs and thread-local entries, and relaxes what needs none.
//! - [`layout`] places blocks; [`bypass`] leaves out stubs that the layout made unneeded.
//! - [`fixup`] copies contents and applies edges.
//! - [`join`](mod@join) makes one graph of several, to be linked again.
//!
//! *Invariant:* no step names an object format or an architecture. *Invariant:* errors come in
//! the order of ids, whatever the number of threads.

#![forbid(unsafe_code)]

pub mod bypass;
pub mod common;
pub mod fixup;
pub mod frames;
pub mod join;
pub mod layout;
pub mod place;
pub mod prune;
pub mod resolve;
pub mod start_stop;
pub mod tables;

pub use join::{JoinError, Part, join};
pub use place::Place;
pub use prune::Liveness;
pub use resolve::Resolution;
pub use tables::Tables;
