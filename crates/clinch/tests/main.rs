//! Whole programs under `clinch run`, each compared with the same objects linked by the system's
//! linker: output, errors and exit status must be the same.
//!
//! `real` holds programs of the world, `feature` small ones of ours for one feature of objects
//! each, `error` what a user must be told, `command` the command line, `debug` what debuggers and
//! profilers see. Builds are kept in `target/test-programs`. A test that lacks a tool says that it is skipped, and fails in CI.
//!
//! `CLINCH=path cargo test` tests another clinch than the one just built.

mod command;
mod debug;
mod error;
mod feature;
mod jit;
mod real;
mod support;
