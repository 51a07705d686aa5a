//! Starting a program in this process and ending it.

use clinch_executor::own::{self, Arguments};
use std::ffi::{OsString, c_int};
use std::os::unix::ffi::OsStringExt;

pub use clinch_executor::own::{exit, reset_signals};

/// Arguments of a program, kept for as long as the process lives, since the program may keep
/// pointers to them.
#[derive(Clone, Copy, Debug)]
pub struct ProgramArguments {
    arguments: &'static Arguments,
}

impl ProgramArguments {
    /// Keeps the arguments, of which the first is the program's name. Those with a zero byte are
    /// left out.
    pub fn new(values: impl IntoIterator<Item = OsString>) -> Self {
        let values: Vec<Vec<u8>> = values
            .into_iter()
            .map(OsString::into_vec)
            .filter(|value| !value.contains(&0))
            .collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let arguments = Arguments::new(&values).unwrap_or_default();
        Self {
            arguments: Box::leak(Box::new(arguments)),
        }
    }

    pub(crate) fn arguments(&self) -> &'static Arguments {
        self.arguments
    }

    /// Makes the C library call the program by its first argument in messages.
    pub fn name_process(&self) {
        self.arguments.name_process();
    }
}

/// Calls `main`.
///
/// # Safety
/// The address must be that of a C `main` of a finalized dylib.
pub unsafe fn call_main(main: u64, arguments: &ProgramArguments) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { own::call_program(main, arguments.arguments()) }
}
