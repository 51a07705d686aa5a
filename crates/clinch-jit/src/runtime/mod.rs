//! What runs in this process: starting a program and ending it, code that asks the session. What
//! runs wherever linked code is (thread-local storage, unwind tables, initializers and finalizers)
//! is the executor's.

pub mod exit;
pub mod reenter;

pub use clinch_executor::own::restart;
