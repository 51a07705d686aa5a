//! Finalizers: arrays of functions that run once, at the end of the process or when what they
//! belong to is unloaded.

use super::code::{self, Arguments};
use crate::threads::lock;
use crate::wire::Array;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, Weak};

unsafe extern "C" {
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        handle: *mut c_void,
    ) -> c_int;
}

/// Finalizers that are to run once. They do not run any more when this is dropped.
#[derive(Debug)]
pub(crate) struct Finalizers(Arc<Mutex<Vec<Array>>>);

impl Finalizers {
    /// Registers finalizers to run when the process exits, after every handler that is registered
    /// from now on.
    ///
    /// # Safety
    /// The arrays must be readable and hold addresses of functions that may be called, until the
    /// value is dropped.
    pub(crate) unsafe fn register(arrays: Vec<Array>) -> Self {
        let finalizers = Self(Arc::new(Mutex::new(arrays)));
        let registered = Box::into_raw(Box::new(Arc::downgrade(&finalizers.0))).cast();
        // SAFETY: `at_exit` takes what it is given once.
        unsafe { __cxa_atexit(at_exit, registered, std::ptr::null_mut()) };
        finalizers
    }

    /// Runs them, unless they ran before.
    pub(crate) fn run(&self) {
        let arrays = std::mem::take(&mut *lock(&self.0));
        let none = Arguments::default();
        for array in arrays {
            // SAFETY: as `register` was promised.
            unsafe { code::run_array(array, &none) };
        }
    }

    /// Whether one of the arrays begins in a range.
    pub(crate) fn is_within(&self, start: u64, end: u64) -> bool {
        let arrays = lock(&self.0);
        arrays
            .iter()
            .any(|array| (start..end).contains(&array.address))
    }
}

extern "C" fn at_exit(finalizers: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `Finalizers::register`, and called once.
    let finalizers = unsafe { Box::from_raw(finalizers.cast::<Weak<Mutex<Vec<Array>>>>()) };
    // What was dropped has no code any more.
    if let Some(arrays) = finalizers.upgrade() {
        Finalizers(arrays).run();
    }
}
