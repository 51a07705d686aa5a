//! Tests of the readers from outside: objects made by compilers and assemblers, objects put
//! together byte by byte in all classes and orders, damaged ones; and of the writer.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

mod elf;
mod support;
mod write;
