//! Descriptors: reading, writing and waiting with a time limit, and without a signal when the
//! other side is gone.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Takes a descriptor that this process was started with, for this purpose, by its number. What
/// this process runs does not inherit it.
pub(crate) fn inherited(number: i32) -> Result<OwnedFd> {
    // SAFETY: asks about a number; one that is not open is an error.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor is open; whoever started the process gave it to us, so nobody else
    // in it owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: sets a flag of an open descriptor.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) })?;
    Ok(descriptor)
}

/// Makes reading and writing answer at once.
pub(crate) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> Result<()> {
    let number = descriptor.as_raw_fd();
    // SAFETY: asks about an open descriptor.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFL) })?;
    if flags & libc::O_NONBLOCK == 0 {
        // SAFETY: sets a flag of an open descriptor.
        check(unsafe { libc::fcntl(number, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    }
    Ok(())
}

/// Whether a descriptor is a socket.
pub(crate) fn is_socket(descriptor: BorrowedFd<'_>) -> bool {
    let mut kind: libc::c_int = 0;
    let mut size = libc::socklen_t::try_from(size_of_val(&kind)).unwrap_or(0);
    // SAFETY: an open descriptor, and a variable of the size that is told.
    let result = unsafe {
        libc::getsockopt(
            descriptor.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast(),
            &raw mut size,
        )
    };
    result == 0
}

/// Ends a socket both ways, whoever else holds it; nothing for other descriptors.
pub(crate) fn shut_down(descriptor: BorrowedFd<'_>) {
    // SAFETY: an open descriptor; anything but a connected socket is an error, which changes
    // nothing.
    unsafe { libc::shutdown(descriptor.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Reads what is there; 0 at the end.
pub(crate) fn read(descriptor: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: an open descriptor and a buffer of the size that is told.
    let n = unsafe {
        libc::read(
            descriptor.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    usize::try_from(n).map_err(|_| Error::last_os_error())
}

/// Writes what there is room for. A peer that is gone is an error and no signal, also in a process
/// whose program wants the signal.
pub(crate) fn write(descriptor: BorrowedFd<'_>, bytes: &[u8], is_socket: bool) -> Result<usize> {
    let number = descriptor.as_raw_fd();
    if is_socket {
        // SAFETY: an open descriptor and readable bytes.
        let n = unsafe {
            libc::send(
                number,
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        return usize::try_from(n).map_err(|_| Error::last_os_error());
    }
    let guard = NoPipeSignal::new()?;
    // SAFETY: an open descriptor and readable bytes.
    let n = unsafe { libc::write(number, bytes.as_ptr().cast(), bytes.len()) };
    let result = usize::try_from(n).map_err(|_| Error::last_os_error());
    guard.end(
        result
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe),
    );
    result
}

/// Keeps `SIGPIPE` from this thread for a while.
struct NoPipeSignal {
    before: libc::sigset_t,
    was_pending: bool,
}

impl NoPipeSignal {
    fn set() -> libc::sigset_t {
        let mut set = std::mem::MaybeUninit::uninit();
        // SAFETY: the first call fills the set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
            set.assume_init()
        }
    }

    fn new() -> Result<Self> {
        let mut pending = Self::set();
        let mut before = Self::set();
        let signal = Self::set();
        // SAFETY: valid sets, that this thread's state is read from and written to.
        unsafe {
            check(libc::sigpending(&raw mut pending))?;
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signal, &raw mut before);
            Ok(Self {
                before,
                was_pending: libc::sigismember(&raw const pending, libc::SIGPIPE) == 1,
            })
        }
    }

    fn end(self, raised: bool) {
        let signal = Self::set();
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: valid sets; takes the signal that the write raised for this thread, which had
        // it blocked.
        unsafe {
            if raised && !self.was_pending {
                libc::sigtimedwait(&raw const signal, std::ptr::null_mut(), &raw const now);
            }
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            );
        }
    }
}

/// What a wait ended by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// The descriptor can be used, or is broken, which using it tells.
    Ready,
    /// Somebody woke the waiting thread.
    Woken,
    /// It is late.
    TimedOut,
}

/// Which use of a descriptor is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
}

/// Waits until a descriptor can be used, `wake` is signaled or it is `until`.
pub(crate) fn wait(
    descriptor: BorrowedFd<'_>,
    wanted: Use,
    wake: Option<&Wake>,
    until: Option<Instant>,
) -> Result<Waited> {
    let entry = |descriptor: i32, events| libc::pollfd {
        fd: descriptor,
        events,
        revents: 0,
    };
    let events = match wanted {
        Use::Read => libc::POLLIN,
        Use::Write => libc::POLLOUT,
    };
    loop {
        // A negative number is left out.
        let wake = wake.map_or(-1, |wake| wake.0.as_raw_fd());
        let mut entries = [
            entry(descriptor.as_raw_fd(), events),
            entry(wake, libc::POLLIN),
        ];
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        // SAFETY: two entries, as told.
        let n = unsafe { libc::poll(entries.as_mut_ptr(), 2, milliseconds(timeout)) };
        if n < 0 {
            let error = Error::last_os_error();
            if error.kind() == ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if entries[1].revents != 0 {
            return Ok(Waited::Woken);
        }
        if entries[0].revents != 0 {
            return Ok(Waited::Ready);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Waited::TimedOut);
        }
    }
}

/// For `poll`: rounded up, so that a wait does not end early and spin.
fn milliseconds(timeout: Option<Duration>) -> libc::c_int {
    timeout.map_or(-1, |timeout| {
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX)
    })
}

/// Wakes a thread that waits for a descriptor.
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: makes a descriptor.
        let number = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: it was just made.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// Wakes the thread, or lets its next wait end at once.
    pub(crate) fn signal(&self) {
        // It can only fail when the count is full, and then it is signaled.
        let _ = write_count(self.0.as_fd());
    }

    /// Forgets signals.
    pub(crate) fn clear(&self) {
        // It can only fail when there is nothing to forget.
        let _ = read(self.0.as_fd(), &mut [0; 8]);
    }
}

fn write_count(descriptor: BorrowedFd<'_>) -> Result<()> {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: an open descriptor, which raises no signal, and readable bytes.
    let n = unsafe { libc::write(descriptor.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    if n < 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

/// Fills the buffer with random bytes that nobody can guess.
pub(crate) fn random(buffer: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: a buffer of the size that is told.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => done += n,
            Err(_) => {
                let error = Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn check(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 {
        return Err(Error::last_os_error());
    }
    Ok(result)
}
