//! What runs in the executor: thread-local storage, unwind tables, initializers and finalizers,
//! and starting a program.

pub mod exit;
pub mod frames;
pub mod init;
pub mod library_tls;
pub mod tls;
