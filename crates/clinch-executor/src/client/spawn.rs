//! Executors that the controller starts or finds itself.

use super::{Controller, ControllerOptions};
use crate::error::Error;
use crate::secret::Secret;
use crate::stream::Stream;
use crate::system::process::Child;
use crate::system::shared::SharedMemory;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Controller {
    /// Starts an executor: a program, or this one without a `program`, with `arguments` and behind
    /// them `filedescs=N,N` (one socket for both ways), `--secret-fd=N` (a pipe with the secret) and,
    /// if memory is shared, `--shared-fd=N` (the memory file, for reading). It is reaped when the controller is dropped; when it does not end in time, it is
    /// killed.
    ///
    /// # Errors
    /// It cannot be started, or what goes wrong in the handshake.
    pub fn spawn(
        program: Option<&Path>,
        arguments: &[OsString],
        options: ControllerOptions,
    ) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::system("start an executor", &error);
        let program = match program {
            Some(program) => program.to_owned(),
            None => current_program().map_err(failed)?,
        };
        let secret = Secret::random()?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let (reading, mut writing) = std::io::pipe().map_err(failed)?;
        // It fits into any pipe, so this does not wait for the child.
        writing.write_all(secret.bytes()).map_err(failed)?;
        drop(writing);
        let (theirs, reading) = (OwnedFd::from(theirs), OwnedFd::from(reading));
        let number = theirs.as_raw_fd();
        let mut arguments = arguments.to_vec();
        arguments.push(format!("filedescs={number},{number}").into());
        arguments.push(format!("--secret-fd={}", reading.as_raw_fd()).into());
        let mut inherited = vec![theirs.as_fd(), reading.as_fd()];
        let memory = options.shared_memory.then(SharedMemory::new).transpose()?;
        let memory = memory.map(Arc::new);
        let file = memory.as_ref().map(|memory| memory.for_reading());
        let file = file.transpose().map_err(failed)?;
        if let Some(file) = &file {
            arguments.push(format!("--shared-fd={}", file.as_raw_fd()).into());
            inherited.push(file.as_fd());
        }
        let child = Child::spawn(&program, &arguments, &inherited).map_err(failed)?;
        // The child has the only copies, so that the stream ends when it does.
        drop((theirs, reading));
        Self::open(Stream::socket(ours)?, &secret, options, Some(child), memory)
    }

    /// Connects to an executor that listens at `HOST:PORT`. Frames are sealed.
    ///
    /// # Errors
    /// Nobody listens there, or what goes wrong in the handshake.
    pub fn connect_to(
        address: &str,
        secret: &Secret,
        options: ControllerOptions,
    ) -> Result<Self, Error> {
        let stream = Stream::connect(address, options.limits.handshake)?;
        let options = ControllerOptions {
            sealed: true,
            ..options
        };
        Self::connect_with(stream, secret, options)
    }
}

/// This program, also when its file was replaced meanwhile.
fn current_program() -> std::io::Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() {
        return Ok(link);
    }
    std::env::current_exe()
}
