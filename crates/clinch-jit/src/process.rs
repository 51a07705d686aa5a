//! The process that code is linked into: its shared libraries and what they define, and what it is
//! told to do. It is this one, or an executor's.

use crate::error::{LinkError, MemoryError};
use crate::runtime::exit::ProgramArguments;
use clinch_executor::own::{self, Arguments};
use clinch_executor::wire::{Action, ThreadLocal, ToExecutor};
use clinch_executor::{Client, Controller, Error, loaded};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

pub use clinch_executor::loaded::{Symbol as ProcessSymbol, find};

/// A shared library that a process has opened. It stays open, since code linked against it may run
/// until the process ends.
#[derive(Clone, Debug)]
pub struct Library(Opened);

#[derive(Clone, Debug)]
enum Opened {
    Own(loaded::Library),
    Other(Client, u32),
}

impl Library {
    /// Opens a library in this process, by path or, without a slash, by the system's search, and
    /// runs its initializers.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub fn open(path: &OsStr) -> Result<Self, String> {
        loaded::Library::open(path).map(|library| Self(Opened::Own(library)))
    }

    /// Looks a name up in the library and what it needs. An executor that is gone defines nothing.
    pub fn find(&self, name: &[u8]) -> Option<ProcessSymbol> {
        match &self.0 {
            Opened::Own(library) => library.find(name),
            Opened::Other(client, library) => first(client.look_up(Some(*library), &[name])),
        }
    }

    /// Looks several names up.
    fn find_all(&self, names: &[&[u8]]) -> Vec<Option<ProcessSymbol>> {
        match &self.0 {
            Opened::Own(library) => names.iter().map(|name| library.find(name)).collect(),
            Opened::Other(client, library) => all(client.look_up(Some(*library), names), names),
        }
    }
}

/// The answer about the only name.
fn first(found: Result<Vec<Option<ProcessSymbol>>, Error>) -> Option<ProcessSymbol> {
    found.ok()?.first().copied().flatten()
}

/// Answers about names, none when there are none.
fn all(
    found: Result<Vec<Option<ProcessSymbol>>, Error>,
    names: &[&[u8]],
) -> Vec<Option<ProcessSymbol>> {
    found.unwrap_or_else(|_| vec![None; names.len()])
}

/// The process that code is linked into.
#[derive(Clone, Debug, Default)]
pub(crate) enum Process {
    /// This one.
    #[default]
    Own,
    /// An executor's. When it is gone, it defines nothing: who asked looks at
    /// [`Process::failure`].
    Other(Arc<Controller>),
}

/// How a process ended with which a connection ended.
fn end_of(error: &MemoryError) -> Option<ExitStatus> {
    match error {
        MemoryError::Executor(Error::Ended(status)) => Some(*status),
        _ => None,
    }
}

impl Process {
    /// The executor's controller, when there is one.
    pub(crate) fn other(&self) -> Option<&Client> {
        match self {
            Self::Own => None,
            Self::Other(client) => Some(client),
        }
    }

    /// Why nothing can be asked any more.
    pub(crate) fn failure(&self) -> Option<LinkError> {
        let ended = self.other()?.ended()?;
        Some(MemoryError::Executor(ended).into())
    }

    /// Whether a library is of this process.
    pub(crate) fn has(&self, library: &Library) -> bool {
        matches!(
            (self, &library.0),
            (Self::Own, Opened::Own(_)) | (Self::Other(_), Opened::Other(..))
        )
    }

    /// Looks a name up in everything that is loaded.
    pub(crate) fn find(&self, name: &[u8]) -> Option<ProcessSymbol> {
        match self {
            Self::Own => find(name),
            Self::Other(client) => first(client.look_up(None, &[name])),
        }
    }

    /// Looks several names up, in a library or in everything that is loaded.
    pub(crate) fn find_all(
        &self,
        library: Option<&Library>,
        names: &[&[u8]],
    ) -> Vec<Option<ProcessSymbol>> {
        match (library, self) {
            (Some(library), _) => library.find_all(names),
            (None, Self::Own) => names.iter().map(|name| find(name)).collect(),
            (None, Self::Other(client)) => all(client.look_up(None, names), names),
        }
    }

    /// Opens a library.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub(crate) fn open_library(&self, path: &OsStr) -> Result<Library, String> {
        match self {
            Self::Own => Library::open(path),
            Self::Other(client) => client
                .open_library(path.as_bytes())
                .map(|number| Library(Opened::Other(client.client(), number)))
                .map_err(|error| error.to_string()),
        }
    }

    /// The offsets of libraries' thread-local variables from the thread pointer.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub(crate) fn thread_local_offsets(&self, names: &[&[u8]]) -> Result<Vec<Option<i64>>, String> {
        match self {
            _ if names.is_empty() => Ok(Vec::new()),
            Self::Own => own::thread_local_offsets(names),
            Self::Other(client) => client
                .look_up_thread_local(names)
                .map_err(|error| error.to_string()),
        }
    }

    /// Finds a place for a thread-local block.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn reserve_thread_local(
        &self,
        size: u64,
        align: u64,
    ) -> Result<ThreadLocal, MemoryError> {
        match self {
            Self::Own => own::reserve_thread_local(size, align).map_err(MemoryError::from),
            Self::Other(client) => client
                .reserve_thread_local(size, align.max(1))
                .map_err(MemoryError::from),
        }
    }

    /// Gives a thread-local block back that no link took. Does not wait for an executor.
    pub(crate) fn release_thread_local(&self, block: u64) {
        let release = Action::ReleaseThreadLocal { block };
        match self {
            Self::Own => {
                // SAFETY: a block that no linked code uses. One that is gone is no error.
                let _ = unsafe { own::perform(&release, &Arguments::default()) };
            }
            Self::Other(client) => {
                let actions = vec![release];
                client.send(&ToExecutor::Perform { actions }, drop);
            }
        }
    }

    /// Sets what initializers and `main` are given in an executor.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn set_arguments(&self, arguments: &ProgramArguments) -> Result<(), MemoryError> {
        let Some(client) = self.other() else {
            return Ok(());
        };
        let values: Vec<&[u8]> = arguments
            .arguments()
            .values()
            .map(std::ffi::CStr::to_bytes)
            .collect();
        Ok(client.set_arguments(&values)?)
    }

    /// Does actions in order, until one fails.
    ///
    /// # Errors
    /// The first one's, or the connection has ended.
    ///
    /// # Safety
    /// Runs linked code, which must be fit to run now.
    pub(crate) unsafe fn perform(
        &self,
        actions: Vec<Action>,
        arguments: Option<&ProgramArguments>,
    ) -> Result<(), MemoryError> {
        if actions.is_empty() {
            return Ok(());
        }
        let client = match self {
            Self::Own => {
                let none = Arguments::default();
                let arguments = match arguments {
                    Some(arguments) => arguments.arguments(),
                    None => &none,
                };
                for action in &actions {
                    // SAFETY: the caller's promise.
                    unsafe { own::perform(action, arguments)? };
                }
                return Ok(());
            }
            Self::Other(client) => client,
        };
        Ok(client.perform(actions)?)
    }

    /// Calls a `main`, with the arguments that were set.
    ///
    /// # Errors
    /// The connection has ended, or no code is there.
    ///
    /// # Safety
    /// The address must be that of a C `main` of a finalized dylib.
    pub(crate) unsafe fn call_main(
        &self,
        main: u64,
        arguments: &ProgramArguments,
    ) -> Result<i32, MemoryError> {
        match self {
            // SAFETY: the caller's promise.
            Self::Own => Ok(unsafe { own::call_program(main, arguments.arguments()) }),
            Self::Other(client) => Ok(client.run_main(main)?),
        }
    }

    /// Ends the process as a program that returns from `main` does: handlers, finalizers, streams.
    /// Comes back when it is an executor's, with how it ended.
    ///
    /// # Errors
    /// It did not end.
    pub(crate) fn exit(&self, status: i32) -> Result<ExitStatus, MemoryError> {
        let client = match self {
            Self::Own => own::exit(status),
            Self::Other(client) => client,
        };
        let found = client.look_up(None, &[b"exit"])?;
        let Some(exit) = found.first().copied().flatten() else {
            return Err(MemoryError::Runtime("the executor has no exit".to_owned()));
        };
        match client.run_int(exit.address, status) {
            // Not a child of ours: that it hung up is all that is known.
            Err(Error::Closed) => Ok(ExitStatus::from_raw((status & 0xff) << 8)),
            Err(Error::Ended(status)) => Ok(status),
            Err(error) => Err(error.into()),
            Ok(_) => Err(MemoryError::Runtime("the executor did not exit".to_owned())),
        }
    }

    /// Runs a program from its initializers to its end. Comes back when it is an executor's, with
    /// how it ended.
    ///
    /// # Errors
    /// The connection ended otherwise than with the program.
    ///
    /// # Safety
    /// As [`Process::perform`] and [`Process::call_main`].
    pub(crate) unsafe fn run_program(
        &self,
        initializers: Vec<Action>,
        main: u64,
        arguments: &ProgramArguments,
    ) -> Result<ExitStatus, MemoryError> {
        // SAFETY: the caller's promise.
        let status = unsafe {
            self.perform(initializers, Some(arguments))
                .and_then(|()| self.call_main(main, arguments))
        };
        // A program may end itself.
        match status.and_then(|status| self.exit(status)) {
            Ok(status) => Ok(status),
            Err(error) => end_of(&error).ok_or(error),
        }
    }
}
