//! One program, run twice: linked by the system's linker to an executable, and by `clinch run`.
//! Both must do the same.

use super::build::{with_output, words};
use super::run::{Output, run};
use super::{clinch, scratch};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to link, and how to run it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    driver: &'static str,
    inputs: Vec<OsString>,
    reference: Option<Vec<OsString>>,
    before: Vec<OsString>,
    after: Vec<OsString>,
    arguments: Vec<OsString>,
    stdin: Vec<u8>,
    environment: Vec<(String, OsString)>,
    files: Vec<(String, Vec<u8>)>,
    stdout: Option<Vec<u8>>,
    status: Option<i32>,
}

impl Program {
    /// A program of these inputs in this order: files, `-l` and `-L` options. Both linkers get
    /// them all.
    pub(crate) fn new<I>(inputs: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self {
            driver: "cc",
            inputs: inputs.into_iter().map(Into::into).collect(),
            reference: None,
            before: Vec::new(),
            after: Vec::new(),
            arguments: Vec::new(),
            stdin: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
            stdout: None,
            status: Some(0),
        }
    }

    /// A C++ program: `c++` links it, and clinch is told of the libraries that `c++` adds.
    pub(crate) fn cpp(mut self) -> Self {
        self.driver = "c++";
        self.after
            .extend(["-lstdc++", "-lm", "-lgcc_s"].map(OsString::from));
        self
    }

    /// Options for the system's linker only, before the inputs: `-no-pie`.
    pub(crate) fn link(mut self, options: &str) -> Self {
        self.before.extend(words(options));
        self
    }

    /// What the system's linker gets in place of the inputs: for forms that it cannot read.
    pub(crate) fn reference<I>(mut self, inputs: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        self.reference = Some(inputs.into_iter().map(Into::into).collect());
        self
    }

    /// Arguments of the program itself.
    pub(crate) fn arguments<I>(mut self, arguments: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// What it reads from standard input.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// A variable of its environment.
    pub(crate) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// A file in the folder that it runs in.
    pub(crate) fn file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), bytes.into()));
        self
    }

    /// What it must print.
    pub(crate) fn prints(mut self, stdout: impl Into<Vec<u8>>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// The exit status that it must have, if not 0.
    pub(crate) fn exits(mut self, status: i32) -> Self {
        self.status = Some(status);
        self
    }

    /// It is ended by a signal.
    pub(crate) fn ends_by_signal(mut self) -> Self {
        self.status = None;
        self
    }

    /// Runs both; fails the test where they differ from each other or from what was said of them.
    /// Answers what they did.
    pub(crate) fn check(&self) -> Output {
        let mut linked = Command::new(self.link_by_system());
        // Some print their own name; clinch names a program by its first input's stem.
        let name = Path::new(&self.inputs[0]).file_stem().unwrap_or_default();
        linked.arg0(name);
        let system = self.run_with(&mut linked);
        self.expect("the system's linker", &system);
        let clinch = self.run_with(&mut self.clinch_command());
        assert!(
            clinch == system,
            "{}\nlinked by the system's linker: {system:?}\nlinked by clinch: {clinch:?}",
            self.describe(),
        );
        system
    }

    /// Runs it under clinch only: what no system's linker can do.
    pub(crate) fn check_clinch_only(&self) -> Output {
        let output = self.run_with(&mut self.clinch_command());
        self.expect("clinch", &output);
        output
    }

    fn expect(&self, who: &str, output: &Output) {
        let what = self.describe();
        assert_eq!(
            output.status.code(),
            self.status,
            "{what}\nlinked by {who}: {output:?}"
        );
        assert!(
            output.status.code().is_some() || output.status.signal().is_some(),
            "{what}\nlinked by {who}: {output:?}"
        );
        if let Some(stdout) = &self.stdout {
            let wanted = String::from_utf8_lossy(stdout);
            assert!(
                output.stdout == *stdout,
                "{what}\nlinked by {who}: {output:?}\nexpected stdout:\n{wanted}"
            );
        }
    }

    /// How to run it by hand.
    fn describe(&self) -> String {
        let mut line: Vec<String> = vec!["clinch run".to_owned()];
        for word in self.inputs.iter().chain(&self.after) {
            line.push(word.to_string_lossy().into_owned());
        }
        line.push("--".to_owned());
        line.extend(
            self.arguments
                .iter()
                .map(|word| word.to_string_lossy().into_owned()),
        );
        line.join(" ")
    }

    fn link_by_system(&self) -> PathBuf {
        let inputs = self.reference.as_ref().unwrap_or(&self.inputs);
        let mut command: Vec<OsString> = vec![self.driver.into()];
        command.extend(self.before.iter().cloned());
        command.extend(inputs.iter().cloned());
        command.push("-Wl,-z,noexecstack".into());
        let files: Vec<PathBuf> = inputs
            .iter()
            .map(PathBuf::from)
            .filter(|path| path.is_file())
            .collect();
        with_output("program", &command, &files)
    }

    fn clinch_command(&self) -> Command {
        let mut command = Command::new(clinch());
        command
            .arg("run")
            .args(&self.inputs)
            .args(&self.after)
            .arg("--");
        command
    }

    fn run_with(&self, command: &mut Command) -> Output {
        let folder = scratch();
        for (name, bytes) in &self.files {
            fs::write(folder.path().join(name), bytes).expect("a scratch file can be written");
        }
        command.args(&self.arguments).current_dir(folder.path());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        run(command, &self.stdin)
    }
}

/// `clinch run` with just these words, in a folder: for errors and the command line.
pub(crate) fn clinch_run<I>(folder: &Path, words: I) -> Output
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    run(
        Command::new(clinch())
            .arg("run")
            .args(words)
            .current_dir(folder),
        b"",
    )
}
