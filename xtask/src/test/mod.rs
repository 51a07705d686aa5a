//! `cargo xtask test`: everything that a change must pass besides the lint, in the order packages,
//! tests, documentation's examples, fuzzing. Prints the counts of all tests at the end.

mod counts;

use crate::fuzz;
use crate::packages::{self, FOR_TESTS};
use crate::shell::{self, Failure, Result};
use crate::stage::Stages;
use counts::{Counts, Runner};
use std::process::Command;
use std::sync::Mutex;

/// How long each fuzz target runs.
const FUZZ_SECONDS: u64 = 10;

/// Runs all tests, or those whose name contains the filter.
pub(crate) fn run(arguments: &[String]) -> Result {
    let filter = match arguments {
        [] => None,
        [filter] if !filter.starts_with('-') => Some(filter.as_str()),
        _ => return Err(Failure::new("usage: cargo xtask test [FILTER]")),
    };
    let mut stages = Stages::new("test");
    let mut counts = Counts::default();

    stages.run("packages", || {
        if packages::ensure_packages(FOR_TESTS) || !shell::in_ci() {
            return Ok(String::new());
        }
        Err(Failure::new("CI needs all packages"))
    });

    let (runner, mut command) = test_command(filter);
    stages.run("tests", || run_tests(&mut command, runner, &mut counts));

    let mut command = shell::cargo(&["test", "--doc", "--workspace", "--no-fail-fast"]);
    command.arg("--").args(filter);
    stages.run("documentation", || {
        run_tests(&mut command, Runner::Libtest, &mut counts)
    });

    if filter.is_some() {
        stages.skip("fuzz", "a filter was given");
    } else {
        fuzz_stages(&mut stages);
    }

    let stages = stages.finish();
    println!("\n{counts}");
    if counts.total() == 0 {
        return stages.and(Err(Failure::new("no test ran")));
    }
    stages
}

/// The command that runs unit and integration tests: nextest where it is installed, because it
/// runs all binaries' tests at once and each in its own process.
fn test_command(filter: Option<&str>) -> (Runner, Command) {
    if shell::output(&mut shell::cargo(&["nextest", "--version"])).is_ok() {
        let mut command = shell::cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]);
        command.arg("--no-tests=pass").args(filter);
        return (Runner::Nextest, command);
    }
    println!("no cargo-nextest here (`cargo install cargo-nextest --locked`): using cargo test");
    let mut command = shell::cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.args(["--lib", "--bins", "--tests", "--examples"]);
    command.arg("--").args(filter);
    (Runner::Libtest, command)
}

/// Runs a command that runs tests and adds what it says of them.
fn run_tests(command: &mut Command, runner: Runner, counts: &mut Counts) -> Result<String> {
    if shell::in_ci() {
        // A test that lacks a tool skips itself elsewhere; here it fails.
        command.env("CLINCH_REQUIRE_TOOLS", "1");
    }
    let seen = Mutex::new(Counts::default());
    let status = shell::tee(command, &|line| {
        if let Ok(mut seen) = seen.lock() {
            seen.read_line(runner, line);
        }
    })?;
    let seen = seen.into_inner().unwrap_or_default();
    counts.add(&seen);
    shell::check(command, status)?;
    if seen.failed > 0 {
        return Err(Failure::new(seen.to_string()));
    }
    Ok(seen.to_string())
}

/// Ten seconds for each fuzz target; what they once found runs among the ordinary tests.
fn fuzz_stages(stages: &mut Stages) {
    if !fuzz::is_installed() {
        if !shell::in_ci() {
            stages.skip("fuzz", fuzz::HOW_TO_INSTALL);
            return;
        }
        stages.run("install cargo-fuzz", || {
            fuzz::install().map(|()| String::new())
        });
    }
    if fuzz::is_installed() {
        fuzz::stages(stages, FUZZ_SECONDS);
    }
}
