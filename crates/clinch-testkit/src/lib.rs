//! What clinch's tests and fuzz targets share. For development only: no product links it.
//!
//! - [`filetest`] runs tests that are text files: a graph, commands, what is expected.
//! - [`command`] are the commands that need nothing but a graph.
//! - [`generate`] makes values from bytes; [`oracle`] says what must hold of them. A fuzz target
//!   joins the two, and so does a test with a fixed seed.
//! - [`toy`] is an architecture for tests that are not about one.
//! - [`sources`] fetches real programs.

pub mod command;
pub mod filetest;
pub mod generate;
pub mod oracle;
pub mod sources;
pub mod toy;
