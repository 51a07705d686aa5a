//! Tests by topic.

mod actions;
mod calls;
mod handshake;
mod hostile;
mod leaks;
mod memory;
mod process;
pub(crate) mod support;
mod wire;
