//! What runs in this process: starting a program and ending it, code that asks the session,
//! finding out who is in linked code. What runs wherever linked code is (thread-local storage, unwind tables, initializers and finalizers)
//! is the executor's.

pub mod exit;
pub(crate) mod occupancy;
pub mod reenter;
mod registers;

pub use clinch_executor::own::restart;
