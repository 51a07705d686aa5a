//! Starting a program and what belongs to its end: `main`, handlers, finalizers.

use super::init::{self, Arguments, Array};
use clinch_graph::index::int::usize_of_u64;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

unsafe extern "C" {
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        handle: *mut c_void,
    ) -> c_int;
    fn __cxa_finalize(handle: *mut c_void);
}

/// Arguments of a program, kept for as long as the process lives, since the program may keep
/// pointers to them.
#[derive(Clone, Copy, Debug)]
pub struct ProgramArguments {
    arguments: Arguments,
}

// SAFETY: what the pointers lead to is never freed; who reads it is linked code, which may change
// it as any program may change its arguments.
unsafe impl Send for ProgramArguments {}
// SAFETY: as above.
unsafe impl Sync for ProgramArguments {}

impl ProgramArguments {
    /// Keeps the arguments, of which the first is the program's name, and takes the process's
    /// environment.
    pub fn new(values: impl IntoIterator<Item = std::ffi::OsString>) -> Self {
        let values: Vec<*const c_char> = values
            .into_iter()
            .filter_map(|value| CString::new(value.into_vec()).ok())
            .map(|value| value.into_raw().cast_const())
            .collect();
        let count = c_int::try_from(values.len()).unwrap_or(c_int::MAX);
        let mut values = values;
        values.push(std::ptr::null());
        let values = Box::leak(values.into_boxed_slice()).as_ptr();
        // SAFETY: reads the C library's variable; the environment is not being changed now.
        let environment = unsafe { environ }.cast_const().cast();
        Self {
            arguments: Arguments {
                count,
                values,
                environment,
            },
        }
    }

    pub(crate) fn arguments(&self) -> Arguments {
        self.arguments
    }

    /// Makes the C library call the program by its first argument in messages.
    pub fn name_process(&self) {
        unsafe extern "C" {
            static mut program_invocation_name: *const c_char;
            static mut program_invocation_short_name: *const c_char;
        }
        // SAFETY: the array has a null at its end; the strings live as long as the process; no
        // other thread of ours uses these variables.
        unsafe {
            let name = *self.arguments.values;
            if !name.is_null() {
                let slash = libc::strrchr(name, c_int::from(b'/'));
                program_invocation_name = name;
                program_invocation_short_name = if slash.is_null() {
                    name
                } else {
                    slash.add(1).cast_const()
                };
            }
        }
    }
}

unsafe extern "C" {
    static environ: *mut *mut c_char;
}

/// Finalizers that are to run once: at the end of the process, or when their dylib is unloaded.
#[derive(Clone, Debug)]
pub struct Finalizers(Arc<Mutex<Vec<Array>>>);

impl Finalizers {
    /// Runs them, unless they ran before.
    ///
    /// # Safety
    /// The arrays must be readable and hold addresses of functions that may be called now.
    pub unsafe fn run(&self) {
        let arrays = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let none = Arguments {
            count: 0,
            values: std::ptr::null(),
            environment: std::ptr::null(),
        };
        // SAFETY: the caller's promise.
        unsafe { init::run(&arrays, none) };
    }
}

/// Registers finalizers to run when the process exits, after every handler that the program
/// registers from now on, unless the answer was dropped by then; `None` when there are none.
pub fn finalize_at_exit(arrays: Vec<Array>) -> Option<Finalizers> {
    extern "C" fn run(finalizers: *mut c_void) {
        // SAFETY: made by `Box::into_raw` below, and called once.
        let finalizers = unsafe { Box::from_raw(finalizers.cast::<Weak<Mutex<Vec<Array>>>>()) };
        // What was dropped has no code any more.
        if let Some(arrays) = finalizers.upgrade() {
            // SAFETY: the arrays belong to a finalized dylib; who unloads it runs them before.
            unsafe { Finalizers(arrays).run() };
        }
    }
    if arrays.is_empty() {
        return None;
    }
    let finalizers = Finalizers(Arc::new(Mutex::new(arrays)));
    let registered = Box::into_raw(Box::new(Arc::downgrade(&finalizers.0))).cast();
    // SAFETY: `run` takes what it is given once.
    unsafe { __cxa_atexit(run, registered, std::ptr::null_mut()) };
    Some(finalizers)
}

/// Runs the handlers that were registered with a dylib's handle, last to first, each once.
///
/// # Safety
/// The handlers must still be there to be called.
pub unsafe fn run_handlers(handle: u64) {
    // SAFETY: the caller's promise.
    unsafe { __cxa_finalize(std::ptr::with_exposed_provenance_mut(usize_of_u64(handle))) };
}

/// Puts signals back to what a fresh program finds: Rust's start code ignores `SIGPIPE` and
/// catches stack overflows.
pub fn reset_signals() {
    for signal in [libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: sets a default disposition.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Calls `main`.
///
/// # Safety
/// The address must be that of a C `main` of a finalized dylib.
pub unsafe fn call_main(main: u64, arguments: &ProgramArguments) -> c_int {
    let Arguments {
        count,
        values,
        environment,
    } = arguments.arguments;
    // SAFETY: the caller's promise.
    unsafe { init::outermost(usize_of_u64(main), count, values, environment) }
}

/// Ends the process as a program that returns from `main` does: handlers, finalizers, streams.
pub fn exit(status: c_int) -> ! {
    // SAFETY: ends the process; destructors of ours need not run. What handlers throw must not
    // come here.
    unsafe {
        let exit = (libc::exit as *const ()).expose_provenance();
        init::outermost(exit, status, std::ptr::null(), std::ptr::null());
    }
    std::process::abort()
}
