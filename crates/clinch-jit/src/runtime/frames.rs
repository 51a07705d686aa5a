//! Unwind tables: tells the process's unwinder about call frame records, so that exceptions and
//! panics pass through linked code.

use clinch_graph::index::int::usize_of_u64;
use std::ffi::c_void;

unsafe extern "C" {
    fn __register_frame(begin: *const c_void);
    fn __deregister_frame(begin: *const c_void);
}

/// Records that the unwinder knows, until this is dropped.
#[derive(Debug)]
pub struct Registered {
    begin: u64,
}

impl Registered {
    /// Registers the records that begin at `begin` and end with a zero length.
    ///
    /// # Safety
    /// The list must be readable and well-formed until the value is dropped.
    pub unsafe fn new(begin: u64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { __register_frame(std::ptr::with_exposed_provenance(usize_of_u64(begin))) };
        Self { begin }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: registered by `new` and not deregistered since.
        unsafe { __deregister_frame(std::ptr::with_exposed_provenance(usize_of_u64(self.begin))) };
    }
}
