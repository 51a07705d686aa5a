//! ELF: relocatable objects to graph parts, and what shared objects offer.

pub mod note;
pub mod object;
pub mod raw;
mod relocation;
mod section;
pub mod shared;
mod symbol;
