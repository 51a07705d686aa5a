//! The project's tasks. `cargo xtask` lists them; CI calls the same ones (`.ci/run`).
//!
//! [`TASKS`] is the one list. Each task is a module with a `run`; [`shell`] starts programs,
//! [`stage`] names and times the parts of a task, [`measure`] measures a program's run.

#![deny(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers: it talks to the terminal"
)]

mod bench;
mod fuzz;
mod lint;
mod measure;
mod packages;
mod shell;
mod stage;
mod suites;
mod test;

use shell::{Failure, Result};
use std::process::ExitCode;

/// What `cargo xtask NAME` does.
struct Task {
    name: &'static str,
    arguments: &'static str,
    /// Printed in the list of tasks.
    about: &'static str,
    run: fn(&[String]) -> Result,
}

/// All tasks.
static TASKS: &[Task] = &[
    Task {
        name: "test",
        arguments: "[FILTER]",
        about: "install what tests need, run all tests, then each fuzz target for 10 s;\n\
                with FILTER only the tests whose name contains it",
        run: test::run,
    },
    Task {
        name: "lint",
        arguments: "",
        about: "format, our own rules, clippy, documentation; any warning fails",
        run: lint::run,
    },
    Task {
        name: "bench",
        arguments: "graph | jit [-n RUNS] [CASE...] | lookups",
        about: "measure clinch beside the peers installed here, as ratios of one run",
        run: bench::run,
    },
    Task {
        name: "suites",
        arguments: "[NAME ARGUMENT...]",
        about: "run one of the peers' own suites with a release build; alone: list them",
        run: suites::run,
    },
    Task {
        name: "fuzz",
        arguments: "[TARGET...] [SECONDS]",
        about: "fuzz each target (default: all) for SECONDS (default: 60) from a seed corpus;\n\
                --jobs N runs N targets at a time, --seeds only makes the seeds, --list names targets",
        run: fuzz::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        None => {
            help();
            Ok(())
        }
        Some((name, _)) if matches!(name.as_str(), "help" | "-h" | "--help") => {
            help();
            Ok(())
        }
        Some((name, rest)) => match TASKS.iter().find(|task| task.name == name) {
            Some(task) => (task.run)(rest),
            None => Err(Failure::new(format!(
                "no task `{name}`; `cargo xtask` lists the tasks"
            ))),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn help() {
    println!("cargo xtask TASK\n");
    for task in TASKS {
        println!("  {} {}", task.name, task.arguments);
        for line in task.about.lines() {
            println!("      {line}");
        }
    }
}
