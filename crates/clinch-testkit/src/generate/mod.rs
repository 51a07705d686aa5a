//! Values made from bytes: of a fuzzer, or of a seed. The same bytes make the same value.

pub mod borrowed;
pub mod choices;
pub mod edit;
pub mod graph;

pub use borrowed::borrowed;
pub use choices::{Choices, seeded};
pub use edit::edit;
pub use graph::graph;
