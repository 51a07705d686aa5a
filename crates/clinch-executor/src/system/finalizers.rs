//! Finalizers: arrays of functions that run once, at the end of the process or when what they
//! belong to is unloaded.

use super::code::{Arguments, Callable};
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
pub(crate) struct Finalizers(Arc<Mutex<Pending>>);

/// What is to run.
#[derive(Debug, Default)]
struct Pending {
    /// Where the arrays are that the functions were read from.
    arrays: Vec<u64>,
    /// In the order in which they run.
    functions: Vec<Callable>,
}

impl Finalizers {
    /// Registers finalizers, the functions of arrays, to run when the process exits, after every
    /// handler that is registered from now on.
    ///
    /// # Safety
    /// The functions may be called until the value is dropped.
    pub(crate) unsafe fn register(arrays: &[Array], functions: Vec<Callable>) -> Self {
        let pending = Pending {
            arrays: arrays.iter().map(|array| array.address).collect(),
            functions,
        };
        let finalizers = Self(Arc::new(Mutex::new(pending)));
        let registered = Box::into_raw(Box::new(Arc::downgrade(&finalizers.0))).cast();
        // SAFETY: `at_exit` takes what it is given once.
        unsafe { __cxa_atexit(at_exit, registered, std::ptr::null_mut()) };
        finalizers
    }

    /// Runs them, unless they ran before.
    pub(crate) fn run(&self) {
        let pending = std::mem::take(&mut *lock(&self.0));
        let none = Arguments::default();
        for function in pending.functions {
            function.call_program(&none);
        }
    }

    /// Whether a range has one of the functions, or the beginning of one of the arrays.
    pub(crate) fn is_within(&self, start: u64, end: u64) -> bool {
        let range = start..end;
        let pending = lock(&self.0);
        let mut functions = pending.functions.iter();
        functions.any(|function| range.contains(&function.address()))
            || pending.arrays.iter().any(|array| range.contains(array))
    }
}

extern "C" fn at_exit(finalizers: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `Finalizers::register`, and called once.
    let finalizers = unsafe { Box::from_raw(finalizers.cast::<Weak<Mutex<Pending>>>()) };
    // What was dropped has no code any more.
    if let Some(pending) = finalizers.upgrade() {
        Finalizers(pending).run();
    }
}
