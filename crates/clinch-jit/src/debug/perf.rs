//! Names of linked code for Linux's `perf`, in both forms that it knows:
//!
//! - `/tmp/perf-PID.map`, a line `START SIZE NAME` per function, which `perf report` reads by
//!   itself. It holds names only, and one name per address for the whole run.
//! - a jitdump, `$JITDUMPDIR/.debug/jit/llvm-IR-jit-*/jit-PID.dump` (else below `$HOME`, else below
//!   the working folder; LLVM calls the folder so, and scripts look for it), which `perf inject
//!   --jit` turns into objects with code, names and lines. It needs times of the clock that events
//!   have: `perf record -k mono`.
//!
//! A process has one of each. Both only grow: neither can take a name back, so code that is
//! unloaded keeps its name until other code gets its addresses; the jitdump's times tell which was
//! there when.

use super::functions::Named;
use super::jitdump::{self, Stamp};
use super::lines::Lines;
use crate::error::LinkError;
use clinch_graph::index::int::usize_of_u64;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{env, ptr};

/// The files of this process.
static FILES: Mutex<Option<Files>> = Mutex::new(None);

/// Records are written together up to about this size.
const CHUNK: usize = 1 << 20;

#[derive(Debug)]
struct Files {
    /// Whose they are: a process that forks must not write to its parent's.
    pid: u32,
    map: Output,
    dump: Output,
    n_functions: u64,
}

/// A file with its path, for errors.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.file
            .write_all(bytes)
            .map_err(|why| failed(&self.path, &why))
    }
}

/// Opens the files, so that it is known early when they cannot be written.
///
/// # Errors
/// The file that cannot be made.
pub(crate) fn open(machine: u16) -> Result<(), LinkError> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if files
        .as_ref()
        .is_none_or(|files| files.pid != std::process::id())
    {
        *files = Some(Files::open(machine)?);
    }
    Ok(())
}

/// Names functions. `read` fills a buffer with the bytes at an address.
///
/// # Errors
/// The file that cannot be written.
pub(crate) fn record(
    functions: &[Named],
    lines: &Lines,
    read: &mut dyn FnMut(u64, &mut [u8]),
) -> Result<(), LinkError> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(files) = files.as_mut() else {
        return Ok(());
    };
    let map: Vec<u8> = functions.iter().flat_map(map_line).collect();
    files.map.write(&map)?;
    let mut records = Vec::new();
    let mut code = Vec::new();
    for function in functions {
        code.resize(usize_of_u64(function.size), 0);
        read(function.address, &mut code);
        files.n_functions += 1;
        records.extend(jitdump::function(
            function,
            &code,
            lines,
            files.n_functions,
            stamp(),
        ));
        if records.len() >= CHUNK {
            files.dump.write(&records)?;
            records.clear();
        }
    }
    files.dump.write(&records)
}

/// A line of the map. Names end with the line, so what would end it early is replaced.
fn map_line(function: &Named) -> Vec<u8> {
    let mut line = format!("{:x} {:x} ", function.address, function.size).into_bytes();
    let name = function.name.iter();
    line.extend(name.map(|&c| if c.is_ascii_control() { b'?' } else { c }));
    line.push(b'\n');
    line
}

impl Files {
    fn open(machine: u16) -> Result<Self, LinkError> {
        let stamp = stamp();
        let map = open_map(&PathBuf::from(format!("/tmp/perf-{}.map", stamp.pid)))?;
        let mut dump = open_dump(stamp)?;
        dump.write(&jitdump::header(machine, stamp))?;
        map_executable(&dump)?;
        close_at_exit();
        Ok(Self {
            pid: stamp.pid,
            map,
            dump,
            n_functions: 0,
        })
    }
}

/// The map may be another JIT's of this process as well, so it is added to; unless it is left over
/// from an earlier process of the same number.
fn open_map(path: &Path) -> Result<Output, LinkError> {
    let fail = |why: io::Error| failed(path, &why);
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(fail)?;
    let written = file.metadata().and_then(|data| data.modified());
    if let (Ok(written), Some(started)) = (written, process_start())
        && written < started
    {
        file.set_len(0).map_err(fail)?;
    }
    Ok(Output {
        path: path.to_path_buf(),
        file,
    })
}

/// When this process began, or a little before.
fn process_start() -> Option<SystemTime> {
    // Field 22 of the line, in ticks since the machine started; the name in field 2 may hold
    // anything, but ends with the last parenthesis.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: asks for a number.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let started = ticks.checked_div(per_second)?;
    let age = Duration::from_nanos(now(libc::CLOCK_BOOTTIME))
        .checked_sub(Duration::from_secs(started))?;
    SystemTime::now().checked_sub(age + Duration::from_secs(1))
}

fn open_dump(stamp: Stamp) -> Result<Output, LinkError> {
    let base = ["JITDUMPDIR", "HOME"]
        .iter()
        .filter_map(env::var_os)
        .find(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let folder = base.join(format!(
        ".debug/jit/llvm-IR-jit-{}-{:x}",
        stamp.pid, stamp.time
    ));
    fs::create_dir_all(&folder).map_err(|why| failed(&folder, &why))?;
    let path = folder.join(format!("jit-{}.dump", stamp.pid));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|why| failed(&path, &why))?;
    Ok(Output { path, file })
}

/// Maps the dump's first page executable, which is how `perf record` learns of the file. The
/// mapping stays until the process ends.
fn map_executable(dump: &Output) -> Result<(), LinkError> {
    // SAFETY: a new mapping at an address that the system chooses, of a file that is open.
    let mapped = unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let file = dump.file.as_raw_fd();
        libc::mmap(ptr::null_mut(), page, access, libc::MAP_PRIVATE, file, 0)
    };
    if mapped == libc::MAP_FAILED {
        return Err(failed(&dump.path, &io::Error::last_os_error()));
    }
    Ok(())
}

/// Has the last record written when the process ends in order.
fn close_at_exit() {
    extern "C" fn close() {
        // Who holds the lock will not get further; then the dump ends without its last record.
        if let Ok(mut files) = FILES.try_lock()
            && let Some(files) = files.as_mut()
            && files.pid == std::process::id()
        {
            // Nobody is left to be told of an error.
            let _ = files.dump.write(&jitdump::close(stamp()));
        }
    }
    // SAFETY: registers a function that may be called at any later time. There is always room for
    // some functions; without it the dump lacks its last record, which readers do not mind.
    unsafe { libc::atexit(close) };
}

fn stamp() -> Stamp {
    // SAFETY: asks for a number.
    let tid = unsafe { libc::gettid() };
    Stamp {
        pid: std::process::id(),
        tid: tid.cast_unsigned(),
        time: now(libc::CLOCK_MONOTONIC),
    }
}

/// Nanoseconds of a clock.
fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is there to be written.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec.cast_unsigned())
}

fn failed(path: &Path, why: &io::Error) -> LinkError {
    let text = why.to_string();
    let end = text.rfind(" (os error ").unwrap_or(text.len());
    LinkError::File {
        path: path.display().to_string(),
        why: text.get(..end).unwrap_or(&text).to_owned(),
    }
}
