//! What runs in the executor: thread-local storage, unwind tables, initializers and finalizers,
//! and starting a program.

pub mod exit;
pub mod frames;
pub mod init;
pub mod library_tls;
mod placed_tls;
pub mod reenter;
pub mod restart;
pub mod tls;
mod tls_object;
