//! What only system calls, the C library and linked code itself can do. Everything outside of this
//! folder is safe code; what it may rely on is in each file's header.

pub(crate) mod bindings;
pub(crate) mod code;
pub(crate) mod debugger;
pub(crate) mod descriptor;
pub(crate) mod file;
pub(crate) mod finalizers;
pub(crate) mod library;
pub(crate) mod library_tls;
pub(crate) mod memory;
pub(crate) mod own;
pub(crate) mod pages;
mod placed_tls;
pub(crate) mod process;
pub(crate) mod registry;
pub mod restart;
pub(crate) mod shared;
pub(crate) mod thread;
pub(crate) mod tls;
mod tls_object;
