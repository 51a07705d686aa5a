//! What only system calls, the C library and linked code itself can do. Everything outside of this
//! folder is safe code; what it may rely on is in each file's header.

pub(crate) mod code;
pub(crate) mod descriptor;
pub(crate) mod library;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod thread;
