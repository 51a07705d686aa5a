//! Flags: one list per command line, from which parsing and help are made.

pub(crate) mod debug;
pub(crate) mod jit;
pub(crate) mod list;
pub(crate) mod response;
pub(crate) mod run;
