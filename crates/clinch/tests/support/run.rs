//! Running a program to its end with a limit in time, and what it did.

use std::fmt::{self, Write};
use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Beyond this a program hangs. The slowest one takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// What a program did.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(f, "exit status {code}")?,
            (_, signal) => writeln!(f, "ended by signal {}", signal.unwrap_or(0))?,
        }
        writeln!(f, "stdout:\n{}", shorten(&self.text()))?;
        write!(f, "stderr:\n{}", shorten(&self.errors()))
    }
}

/// Output is shown whole up to some thousand characters.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 6000;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        let _ = write!(short, "\n... {} bytes in all", text.len());
    }
    short
}

/// Runs a command with this standard input; kills it and fails the test when it does not end.
pub(crate) fn run(command: &mut Command, stdin: &[u8]) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("{command:?}: {error}"),
    };
    let id = child.id();
    let (Some(mut input), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("all three are pipes");
    };
    let (ended, wait) = mpsc::channel();
    thread::scope(|scope| {
        // A program that does not read its input closes the pipe: no failure.
        scope.spawn(move || input.write_all(stdin).is_ok());
        let stdout = scope.spawn(move || read(stdout));
        let stderr = scope.spawn(move || read(stderr));
        scope.spawn(move || {
            if wait.recv_timeout(LIMIT).is_err() {
                let _ = Command::new("kill")
                    .args(["-KILL", &id.to_string()])
                    .status();
            }
        });
        let status = child.wait().expect("a child can be waited for");
        let in_time = ended.send(()).is_ok();
        let output = Output {
            status,
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
        };
        assert!(in_time, "{command:?} does not end\n{output:?}");
        output
    })
}

fn read(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = pipe.read_to_end(&mut bytes);
    bytes
}
