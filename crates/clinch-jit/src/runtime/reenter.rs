//! What code calls that is not there yet, and the words that stubs jump through.

use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::sync::atomic::{AtomicU64, Ordering};

/// Finds the function that a trampoline stands for.
pub trait Resolve: Send + Sync {
    /// The address of the function, by the address behind the trampoline's call. Linking it may
    /// take as long as it takes. There is nothing to answer but an address, so who cannot find
    /// one ends the process.
    fn resolve(&self, trampoline: u64) -> u64;
}

/// What a reentry's code is given: where to ask, as a place that does not move. It must live as
/// long as the code.
pub struct Context {
    resolve: Box<dyn Resolve>,
}

impl Context {
    /// A place that asks `resolve`.
    pub fn new(resolve: Box<dyn Resolve>) -> Box<Self> {
        Box::new(Self { resolve })
    }

    /// The words that the code reads: the context's own address, and that of the function to
    /// call with it.
    pub fn words(&self) -> (u64, u64) {
        let function: extern "C" fn(*const Self, u64) -> u64 = resolve;
        let here: *const Self = self;
        (
            u64_of(here.expose_provenance()),
            u64_of((function as *const ()).expose_provenance()),
        )
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

/// Called by `enter` of an architecture's reentry.
extern "C" fn resolve(context: *const Context, trampoline: u64) -> u64 {
    // SAFETY: the code reads the pointer from a word that was filled by `Context::words`, and the
    // context lives as long as the code.
    let context = unsafe { &*context };
    context.resolve.resolve(trampoline)
}

/// Points a stub at a function unless it was pointed elsewhere since it led to `from`; answers
/// where it leads now.
///
/// # Safety
/// As [`redirect`].
pub unsafe fn lead(word: u64, from: u64, function: u64) -> u64 {
    let word = std::ptr::with_exposed_provenance_mut::<u64>(usize_of_u64(word));
    // SAFETY: the caller's promise.
    let word = unsafe { AtomicU64::from_ptr(word) };
    match word.compare_exchange(from, function, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => function,
        Err(elsewhere) => elsewhere,
    }
}

/// Points a stub at another function, atomically: who jumps through the word goes to the one or
/// to the other.
///
/// # Safety
/// The word must be writable, aligned, and nothing but a stub's.
pub unsafe fn redirect(word: u64, function: u64) {
    let word = std::ptr::with_exposed_provenance_mut::<u64>(usize_of_u64(word));
    // SAFETY: the caller's promise. What the function's code needs was written before, so it is
    // released with the word.
    let word = unsafe { AtomicU64::from_ptr(word) };
    word.store(function, Ordering::Release);
}
