//! What must hold. [`graph`] looks at graphs and says what is wrong; [`input`] takes bytes as an
//! input and panics, and so do [`executor`] and [`words`].

pub mod executor;
pub mod graph;
pub mod input;
pub mod words;
