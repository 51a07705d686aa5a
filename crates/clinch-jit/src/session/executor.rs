//! Sessions whose code is in another process, an executor's, and what runs there.
//!
//! Everything is linked here: contents, protections and what is to be done with them go there when
//! a link is done. Symbols of the process and of libraries are the executor's; so are thread-local
//! storage, unwind tables, initializers, handlers and finalizers, and a program's arguments. What
//! it writes and how it ends is the executor's to write and how it ends.

use super::core::Core;
use super::dylib::Dylib;
use super::{Session, SessionOptions};
use crate::debug::Audience;
use crate::error::LinkError;
use crate::process::{Library, Process};
use crate::runtime::exit::ProgramArguments;
use clinch_executor::wire::handshake::Facts;
use clinch_executor::{Client, Controller};
use clinch_graph::Endian;
use clinch_target::Arch;
use std::ffi::OsStr;
use std::process::ExitStatus;
use std::sync::Arc;

/// The largest page that is believed in.
const LARGEST_PAGE: u32 = 1 << 24;

impl Session {
    /// A session without dylibs whose code is in an executor's process. The session ends the
    /// connection when it is dropped, and with it everything that is left there.
    ///
    /// Functions cannot be linked when they are called, and linked code cannot ask the session to
    /// open dylibs.
    ///
    /// # Errors
    /// An executor of another architecture; profilers, which learn of code in their own process
    /// only; memory that is mapped twice.
    pub fn in_executor(
        arch: &'static Arch,
        options: SessionOptions,
        controller: Controller,
    ) -> Result<Self, LinkError> {
        let Audience { perf, .. } = options.audience;
        if perf {
            return Err(LinkError::InExecutor("naming functions for perf"));
        }
        if options.double_map {
            return Err(LinkError::InExecutor("mapping memory twice"));
        }
        if !fits(arch, controller.facts()) {
            return Err(LinkError::OtherArchitecture {
                wanted: arch.graph.name,
                found: controller.facts().architecture.clone(),
            });
        }
        let process = Process::Other(Arc::new(controller));
        Ok(Self::build(arch, options, process))
    }

    /// The executor, when the code is in one.
    pub fn executor(&self) -> Option<&Client> {
        self.core.process.other()
    }

    /// Opens a shared library in the process where the code is, by path or, without a slash, by the
    /// system's search.
    ///
    /// # Errors
    /// What the dynamic linker says; the executor is gone.
    pub fn open_library(&self, path: &OsStr) -> Result<Library, String> {
        self.core.process.open_library(path)
    }

    /// Calls a `main` in the process where the code is and answers what it returns. In an executor
    /// that is the thread in which initializers ran.
    ///
    /// # Errors
    /// The executor is gone, or no code is there. In this process there are none.
    ///
    /// # Safety
    /// The address must be that of a C `main` of a finalized dylib.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn call_main(
        &self,
        main: u64,
        arguments: &ProgramArguments,
    ) -> Result<i32, LinkError> {
        self.core.set_arguments(arguments)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.core.process.call_main(main, arguments) }?)
    }

    /// Ends the process where the code is, as a program that returns from `main` does: handlers,
    /// finalizers, streams. Comes back when it is an executor's, with how it ended.
    ///
    /// # Errors
    /// The executor was gone, or does not end.
    ///
    /// # Safety
    /// Runs what linked code left for its end, which must be fit to run.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn exit(&self, status: i32) -> Result<ExitStatus, LinkError> {
        Ok(self.core.process.exit(status)?)
    }
}

impl Dylib {
    /// Runs a program: initializers of what became ready, `main`, handlers and finalizers. Comes
    /// back when the code is in an executor, with how that ended; this process ends otherwise.
    ///
    /// # Errors
    /// The executor is gone for another reason than that the program ended.
    ///
    /// # Safety
    /// As [`Dylib::initialize`]; the address must be that of a C `main` of a finalized dylib.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn run_program(
        &self,
        main: u64,
        arguments: &ProgramArguments,
    ) -> Result<ExitStatus, LinkError> {
        self.core.set_arguments(arguments)?;
        let initializers = self.core.take_initializers(self.id);
        let process = &self.core.process;
        // SAFETY: the caller's promise; the arrays are in finalized memory.
        Ok(unsafe { process.run_program(initializers, main, arguments) }?)
    }
}

impl Core {
    /// Why nothing can be linked any more.
    pub(crate) fn failure(&self) -> Option<LinkError> {
        self.process.failure()
    }

    /// Refuses what needs the code to be in this process.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn only_here(&self, what: &'static str) -> Result<(), LinkError> {
        match self.process {
            Process::Own => Ok(()),
            Process::Other(_) => Err(LinkError::InExecutor(what)),
        }
    }
}

/// Whether code for an architecture runs in an executor.
fn fits(arch: &Arch, facts: &Facts) -> bool {
    let page = facts.page_size;
    facts.architecture == arch.graph.name
        && facts.pointer_size == arch.graph.pointer_size
        && facts.big_endian == (arch.graph.endian == Endian::Big)
        && page.is_power_of_two()
        && (1 << 12..=LARGEST_PAGE).contains(&page)
}
