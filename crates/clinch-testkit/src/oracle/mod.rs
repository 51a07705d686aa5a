//! What must hold. [`graph`] looks at graphs and says what is wrong; [`input`] takes bytes as an
//! input and panics.

pub mod graph;
pub mod input;
