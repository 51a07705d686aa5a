//! Object formats to graph and back: what is in a file, and how it becomes sections, blocks,
//! symbols and edges. It resolves nothing and links nothing.
//!
//! - [`input`] opens files; [`kind`] tells from the content what a file is.
//! - [`elf::object`] reads relocatable objects into a graph: start there.
//! - [`elf::write`] writes a graph as a relocatable object.
//! - [`elf::addrsig`] and [`elf::note`] read what lies in sections of an object.
//! - [`elf::shared`] reads what a shared object offers.
//! - [`archive`] finds members; [`script`] reads the scripts that stand for libraries.
//! - [`error`] is the catalogue of what can be wrong with an input.
//!
//! *Invariant:* nothing here trusts a number from a file. *Invariant:* formats never import each
//! other. *Invariant:* reading copies nothing but decompressed sections.

#![deny(unsafe_code)]

pub mod archive;
pub mod compressed;
pub mod elf;
pub mod error;
pub mod input;
pub mod kind;
pub mod script;

pub use archive::Archive;
pub use elf::addrsig::address_significant;
pub use elf::object::{
    AddedObject, AddedObjects, ElfObject, ReadOptions, add_blocks, add_objects, add_objects_with,
    read_object, read_object_with,
};
pub use elf::write::{WriteError, write_object};
pub use error::{InputError, ReadError, ReadErrorKind};
pub use input::FileBytes;
pub use kind::FileKind;
