//! Starting programs and finding things: the workspace's root, `cargo`, tools on the path.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;

/// Why a task did not do what it should: a sentence for the developer.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a task gives.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// Adds to an error what was being done.
pub(crate) trait Context<T> {
    /// Puts `what` before the error's text.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest = PathBuf::from(manifest);
        manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
    })
}

/// Whether this is a CI run.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI")
        .is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// A command that runs in the workspace's root and reads nothing.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that started us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// The command as one would type it.
pub(crate) fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    if text.chars().count() > 200 {
        text = text.chars().take(200).collect::<String>() + "...";
    }
    text
}

/// Runs a command to its end with our output; its failure is ours.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = command.status().context(spelled(command))?;
    check(command, status)
}

/// Turns an exit status other than success into a failure.
pub(crate) fn check(command: &Command, status: ExitStatus) -> Result {
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{}`: {status}", spelled(command))))
}

/// Runs a command and returns what it printed; its failure is ours, with the last lines it wrote
/// to standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context(spelled(command))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = error.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Err(Failure::new(format!(
            "`{}`: {}\n{}",
            spelled(command),
            output.status,
            last.join("\n")
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command with our output and shows `watch` each line of it, from either stream.
pub(crate) fn tee(
    command: &mut Command,
    watch: &(dyn Fn(&str) + Send + Sync),
) -> Result<ExitStatus> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(spelled(command))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| copy_lines(stdout, io::stdout(), watch));
        scope.spawn(|| copy_lines(stderr, io::stderr(), watch));
    });
    Ok(child.wait()?)
}

/// Copies line by line. A closed terminal is no reason to stop reading.
fn copy_lines(from: Option<impl Read>, mut to: impl Write, watch: &(dyn Fn(&str) + Send + Sync)) {
    let Some(from) = from else { return };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let _ = to.write_all(&line);
        watch(&String::from_utf8_lossy(&line));
        line.clear();
    }
}

/// Whether this is a program.
pub(crate) fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Where LLVM 22's programs are.
pub(crate) fn llvm(name: &str) -> PathBuf {
    std::env::var_os("LLVM_BIN")
        .map_or_else(|| PathBuf::from("/usr/lib/llvm-22/bin"), PathBuf::from)
        .join(name)
}

/// The folder of the suites that lie beside the project, where there is one.
pub(crate) fn suites_folder() -> Option<PathBuf> {
    std::env::var_os("CLINCH_SUITES_DIR")
        .map_or_else(|| root().join("../shared/suites"), PathBuf::from)
        .canonicalize()
        .ok()
        .filter(|folder| folder.is_dir())
}

/// Builds the command line in release mode and returns the program.
pub(crate) fn release_build() -> Result<PathBuf> {
    run(&mut cargo(&["build", "--release", "--package", "clinch"]))?;
    Ok(release_folder().join("clinch"))
}

/// Where cargo puts release builds.
pub(crate) fn release_folder() -> PathBuf {
    target_folder().join("release")
}

/// Cargo's output folder.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn output_and_failure() {
        assert_eq!(output(command("echo").arg("a b")).unwrap(), "a b\n");
        let failure = output(command("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let text = failure.to_string();
        assert!(
            text.contains("exit status: 3") && text.contains("why"),
            "{text}"
        );
        let failure = run(&mut command("/no/such/program")).unwrap_err();
        assert!(failure.to_string().starts_with("program: "), "{failure}");
    }

    #[test]
    fn tee_shows_both_streams() {
        let seen = Mutex::new(Vec::new());
        let status = tee(
            command("sh").args(["-c", "echo to-out; echo to-err >&2; exit 1"]),
            &|line| seen.lock().unwrap().push(line.trim_end().to_owned()),
        )
        .unwrap();
        assert_eq!(status.code(), Some(1));
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        assert_eq!(seen, ["to-err", "to-out"]);
    }

    #[test]
    fn finds_the_workspace() {
        assert!(root().join("Cargo.lock").exists());
        assert!(is_executable(Path::new("/bin/sh")) && !is_executable(root()));
    }
}
