//! Child processes that inherit chosen descriptors. `std::process` cannot do it without a fork
//! that copies the page tables of this process, which holds a link.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::descriptor::{self, Use};

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// How long to wait before looking at a child again, where nothing tells when to.
const PAUSE: Duration = Duration::from_millis(1);

/// A child process, which is killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    id: libc::pid_t,
    /// Can be read when the process has ended; none where the system has no such thing.
    handle: Option<OwnedFd>,
    status: Option<ExitStatus>,
}

impl Child {
    /// Starts a program. It inherits standard input, output and error, and the descriptors, under
    /// the numbers they have here.
    pub(crate) fn spawn(
        program: &Path,
        arguments: &[OsString],
        inherited: &[BorrowedFd<'_>],
    ) -> Result<Self> {
        let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(Error::from);
        let path = text(program.as_os_str())?;
        let arguments = arguments
            .iter()
            .map(|argument| text(argument))
            .collect::<Result<Vec<CString>>>()?;
        let id = Prepared::new(inherited)?.start(&path, &arguments)?;
        // SAFETY: the process is our child and is not reaped yet, so the number is its.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
        let handle = i32::try_from(handle).ok().filter(|&number| number >= 0);
        Ok(Self {
            id,
            // SAFETY: the descriptor was just made.
            handle: handle.map(|number| unsafe { OwnedFd::from_raw_fd(number) }),
            status: None,
        })
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.id.unsigned_abs()
    }

    /// How the process ended, when it ends before `until`.
    pub(crate) fn wait(&mut self, until: Instant) -> Option<ExitStatus> {
        while self.status.is_none() {
            // Somebody else may have reaped it.
            self.status = reap(self.id, libc::WNOHANG).ok()?;
            if self.status.is_some() || Instant::now() >= until {
                break;
            }
            match &self.handle {
                // An error is not waited for: the loop must not spin.
                Some(handle) => {
                    descriptor::wait(handle.as_fd(), Use::Read, None, Some(until)).ok()?;
                }
                None => std::thread::sleep(PAUSE),
            }
        }
        self.status
    }

    /// Ends the process, whatever it is doing, and answers how it ended.
    pub(crate) fn kill(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.send_kill();
            self.status = reap(self.id, 0).ok()?;
        }
        self.status
    }

    fn send_kill(&self) {
        match &self.handle {
            Some(handle) => {
                let handle = handle.as_raw_fd();
                let none = std::ptr::null::<libc::siginfo_t>();
                // SAFETY: the descriptor stands for the process, also when its number is another
                // one's meanwhile.
                unsafe {
                    libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGKILL, none, 0);
                }
            }
            // SAFETY: a child that we have not reaped, so the number is its.
            None => unsafe {
                libc::kill(self.id, libc::SIGKILL);
            },
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a child ended, if it has or the flags say to wait; an error when it is no child of ours.
fn reap(id: libc::pid_t, flags: libc::c_int) -> Result<Option<ExitStatus>> {
    loop {
        let mut status = 0;
        // SAFETY: waits for a child, and writes a variable of ours.
        let found = unsafe { libc::waitpid(id, &raw mut status, flags) };
        if found == id {
            return Ok(Some(ExitStatus::from_raw(status)));
        }
        if found == 0 {
            return Ok(None);
        }
        let error = Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What `posix_spawn` is given.
struct Prepared {
    actions: libc::posix_spawn_file_actions_t,
    attributes: libc::posix_spawnattr_t,
}

impl Prepared {
    fn new(inherited: &[BorrowedFd<'_>]) -> Result<Self> {
        let mut actions = std::mem::MaybeUninit::uninit();
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: both are initialized before they are used, and destroyed by `Drop`.
        let mut prepared = unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            if let Err(error) = check(libc::posix_spawnattr_init(attributes.as_mut_ptr())) {
                libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
                return Err(error);
            }
            Self {
                actions: actions.assume_init(),
                attributes: attributes.assume_init(),
            }
        };
        for descriptor in inherited {
            let number = descriptor.as_raw_fd();
            // SAFETY: initialized above. A descriptor onto itself: it loses its close-on-exec
            // flag, in the child only.
            check(unsafe {
                libc::posix_spawn_file_actions_adddup2(&raw mut prepared.actions, number, number)
            })?;
        }
        // Rust ignores `SIGPIPE`, and a thread of ours may block signals.
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: initialized above; the set is filled by the first call.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let attributes = &raw mut prepared.attributes;
            check(libc::posix_spawnattr_setsigmask(attributes, set.as_ptr()))?;
            libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
            check(libc::posix_spawnattr_setsigdefault(
                attributes,
                set.as_ptr(),
            ))?;
            let flags = libc::c_short::try_from(flags).unwrap_or(0);
            check(libc::posix_spawnattr_setflags(attributes, flags))?;
        }
        Ok(prepared)
    }

    fn start(&self, path: &CStr, arguments: &[CString]) -> Result<libc::pid_t> {
        let mut values: Vec<*mut libc::c_char> = Vec::with_capacity(arguments.len() + 2);
        values.push(path.as_ptr().cast_mut());
        values.extend(
            arguments
                .iter()
                .map(|argument| argument.as_ptr().cast_mut()),
        );
        values.push(std::ptr::null_mut());
        let mut id = 0;
        // SAFETY: valid strings in an array that ends with null, which the call only reads; the
        // environment is not being changed now.
        check(unsafe {
            libc::posix_spawn(
                &raw mut id,
                path.as_ptr(),
                &raw const self.actions,
                &raw const self.attributes,
                values.as_ptr(),
                environ,
            )
        })?;
        Ok(id)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: initialized by `new`.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&raw mut self.actions);
            libc::posix_spawnattr_destroy(&raw mut self.attributes);
        }
    }
}

/// These functions answer the error instead of setting it.
fn check(code: libc::c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::from_raw_os_error(code)),
    }
}

/// Puts signals back to what a fresh program finds: Rust's start code ignores `SIGPIPE` and
/// catches stack overflows.
pub fn reset_signals() {
    for signal in [libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: sets a default disposition.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Ends the process at once: no handlers, no streams.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}
