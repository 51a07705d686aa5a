//! What a run of a program costs: wall time, CPU time, memory, from the kernel's own counts.

use crate::shell::{self, Context, Failure, Result};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a run cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) wall: Duration,
    /// User and system time of the process and its threads.
    pub(crate) cpu: Duration,
    /// Most memory at one time, mapped files included.
    pub(crate) max_rss_kib: u64,
    /// Most private memory at one time, when it was watched and seen.
    pub(crate) private_kib: Option<u64>,
}

/// Runs a program to its end and measures it. `watch` also looks at its private memory every
/// few milliseconds, on another thread.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn measure(command: &mut Command, watch: bool) -> Result<Run> {
    let begin = Instant::now();
    let child = command.spawn().context(shell::spelled(command))?;
    let done = AtomicBool::new(false);
    let (ended, private_kib) = std::thread::scope(|scope| {
        let watcher = watch.then(|| scope.spawn(|| watch_private(child.id(), &done)));
        let ended = wait(&child).map(|(status, usage)| (status, usage, begin.elapsed()));
        done.store(true, Ordering::Relaxed);
        let private = watcher.and_then(|watcher| watcher.join().ok());
        (ended, private.filter(|&kib| kib > 0))
    });
    let (status, usage, wall) = ended?;
    shell::check(command, status)?;
    Ok(Run {
        wall,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        private_kib,
    })
}

/// Waits for a child's end and takes its counts, which the standard library does not give.
#[allow(
    unsafe_code,
    reason = "wait4 is the only call that gives one child's resource usage"
)]
fn wait(child: &Child) -> Result<(ExitStatus, libc::rusage)> {
    let id = libc::pid_t::try_from(child.id()).context("process id")?;
    let mut status = 0;
    // SAFETY: `rusage` is a struct of integers, for which zero bytes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the types that wait4 writes. The child
        // is ours and was not waited for: its `Child` is only borrowed and not waited on later.
        let ended = unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) };
        if ended == id {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(Failure::new(format!("wait4: {error}")));
        }
    }
}

/// Looks at a process until `done`; the most private memory seen, in KiB.
fn watch_private(id: u32, done: &AtomicBool) -> u64 {
    let path = format!("/proc/{id}/status");
    let mut most = 0;
    while !done.load(Ordering::Relaxed) {
        let status = fs::read_to_string(&path).unwrap_or_default();
        most = most.max(anonymous_kib(&status).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(3));
    }
    most
}

/// The memory that is no file's, from `/proc/PID/status`.
fn anonymous_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Waits for a child's end, at most so long; then it is ended and the answer is `None`.
pub(crate) fn wait_at_most(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The middle value; of an even number the mean of the two in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(low), Some(high)) if values.len().is_multiple_of(2) => (low + high) / 2.0,
        (_, Some(value)) => *value,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_time_and_memory() {
        let mut command = shell::command("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let run = measure(&mut command, true).unwrap();
        assert!(
            run.cpu > Duration::ZERO && run.wall > Duration::ZERO,
            "{run:?}"
        );
        assert!(run.max_rss_kib > 100, "{run:?}");
        let failure = measure(shell::command("sh").args(["-c", "exit 7"]), false).unwrap_err();
        assert!(failure.to_string().contains("exit status: 7"), "{failure}");
    }

    #[test]
    fn reads_proc_status() {
        let status = "Name:\tx\nVmHWM:\t  500 kB\nRssAnon:\t     123 kB\nRssFile:\t 9 kB\n";
        assert_eq!(anonymous_kib(status), Some(123));
        assert_eq!(anonymous_kib("Name:\tzombie\n"), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([5.0]), 5.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn ends_what_does_not_end() {
        let mut child = shell::command("sleep").arg("60").spawn().unwrap();
        let ended = wait_at_most(&mut child, Duration::from_millis(60)).unwrap();
        assert!(ended.is_none());
        let mut child = shell::command("true").spawn().unwrap();
        let ended = wait_at_most(&mut child, Duration::from_secs(20)).unwrap();
        assert!(ended.is_some_and(|status| status.success()));
    }
}
