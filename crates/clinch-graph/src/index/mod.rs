//! The index machinery under the graph: typed ids, columns, id ranges, bit sets, named integer
//! conversions and the worker pool. Nothing here knows what a section or a symbol is.

pub mod column;
pub mod id;
pub mod int;
pub mod map;
#[expect(unsafe_code, reason = "advises the system about memory")]
pub mod pages;
pub mod set;
pub mod workers;
