//! ELF: relocatable objects to graph parts and back, and what shared objects offer.

pub mod addrsig;
mod headers;
pub mod note;
pub mod object;
pub mod raw;
mod relocation;
mod scan;
mod section;
pub mod shared;
mod symbol;
pub mod write;
pub mod writer;
