//! Initializers and finalizers: arrays of functions, called in the order that the link fixed.

use clinch_graph::index::int::usize_of_u64;
use std::ffi::{c_char, c_int};

/// An array of function pointers in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array {
    /// Where it is.
    pub address: u64,
    /// How many pointers it has.
    pub len: u64,
    /// Whether it runs last to first.
    pub backward: bool,
}

/// What `main` and initializers are given.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// How many arguments there are.
    pub count: c_int,
    /// The arguments, ended by null.
    pub values: *const *const c_char,
    /// The environment, ended by null.
    pub environment: *const *const c_char,
}

impl Arguments {
    /// No arguments, and an empty environment.
    pub fn none() -> Self {
        static END: usize = 0;
        let end = (&raw const END).cast();
        Self {
            count: 0,
            values: end,
            environment: end,
        }
    }
}

/// Calls all functions of the arrays, in order. Null and minus one are skipped, as by the C
/// library's start code.
///
/// # Safety
/// The arrays must be readable and hold addresses of functions that may be called now.
pub unsafe fn run(arrays: &[Array], arguments: Arguments) {
    for array in arrays {
        for n in 0..array.len {
            let n = if array.backward { array.len - 1 - n } else { n };
            let slot = array.address + n * 8;
            // SAFETY: the caller's promise.
            let value =
                unsafe { std::ptr::with_exposed_provenance::<usize>(usize_of_u64(slot)).read() };
            if value == 0 || value == usize::MAX {
                continue;
            }
            // SAFETY: the caller's promise: the word is the address of a function, which takes
            // these arguments or ignores them.
            unsafe {
                outermost(
                    value,
                    arguments.count,
                    arguments.values,
                    arguments.environment,
                )
            };
        }
    }
}

/// Calls a function of a program as if nothing had called it: for the unwinder the stack ends
/// here, as that of a program ends at its start code. So an exception that the program does not
/// catch terminates it, `pthread_exit` in `main` ends its thread only, and nothing of ours is
/// unwound. The C library passes these arguments to `main` and to initializers, and some (Rust's
/// standard library) use them.
///
/// # Safety
/// The address must be that of a function that takes these arguments or ignores them.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn outermost(
    function: usize,
    count: c_int,
    values: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "push rbp",
        "mov rax, rdi",
        "mov edi, esi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "call rax",
        "pop rbp",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls an ifunc's resolver.
///
/// # Safety
/// The address must be that of a resolver that may be called now.
pub unsafe fn resolve_ifunc(resolver: u64) -> u64 {
    // SAFETY: the caller's promise; a resolver without use for the arguments ignores them.
    unsafe {
        let resolver: unsafe extern "C" fn() -> u64 = std::mem::transmute(
            std::ptr::with_exposed_provenance::<()>(usize_of_u64(resolver)),
        );
        resolver()
    }
}

/// Writes a pointer-sized word.
///
/// # Safety
/// The address must be writable and nobody else's.
pub unsafe fn write_word(address: u64, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::with_exposed_provenance_mut::<u64>(usize_of_u64(address)).write_unaligned(value);
    }
}

/// Copies bytes between two places that do not overlap.
///
/// # Safety
/// Source readable, destination writable, for `size` bytes.
pub unsafe fn copy(from: u64, to: u64, size: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::with_exposed_provenance::<u8>(usize_of_u64(from)),
            std::ptr::with_exposed_provenance_mut::<u8>(usize_of_u64(to)),
            usize_of_u64(size),
        );
    }
}
