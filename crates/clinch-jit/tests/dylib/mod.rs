//! Dylibs: what linking them answers, and what it leaves in the process.

mod double;
mod memory;
mod pass;
mod release;
mod search;
mod several;
mod symbols;
mod threads;
mod tls;
mod window;
