//! Where the system saves the registers of a thread that a signal interrupts: the one thing about
//! [`occupancy`](super::occupancy) that differs between architectures.

/// What a thread has in registers.
pub(super) struct Registers {
    /// The stack pointer.
    pub(super) stack: u64,
    /// All that may hold an address, the program counter and the stack pointer among them.
    pub(super) general: [u64; N_GENERAL],
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod host {
    use super::Registers;
    use clinch_graph::index::int::{unsigned, usize_of};

    /// Those from `r8` to `rip`. Behind them are flags and what faults leave: no registers.
    pub(super) const N_GENERAL: usize = index(libc::REG_RIP) + 1;

    const fn index(register: i32) -> usize {
        usize_of(register.cast_unsigned())
    }

    fn interrupted(context: &libc::ucontext_t) -> Registers {
        let saved = &context.uc_mcontext.gregs;
        Registers {
            stack: unsigned(saved[index(libc::REG_RSP)]),
            general: std::array::from_fn(|register| unsigned(saved[register])),
        }
    }

    pub(in super::super) const INTERRUPTED: Option<fn(&libc::ucontext_t) -> Registers> =
        Some(interrupted);
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod host {
    use super::Registers;

    pub(super) const N_GENERAL: usize = 0;

    pub(in super::super) const INTERRUPTED: Option<fn(&libc::ucontext_t) -> Registers> = None;
}

/// Reads registers from the context that a signal handler is given; `None` where nobody has said
/// yet how.
pub(super) use host::INTERRUPTED;
use host::N_GENERAL;
