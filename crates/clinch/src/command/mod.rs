//! The commands: one list that finds them, describes them and runs them.

mod executor;
mod graph;
mod jit;
mod run;

use crate::render::{self, Failure};
use clinch_jit::ProgramArguments;
use clinch_jit::runtime::exit;
use clinch_jit::session::Dylib;
use std::ffi::OsString;
use std::process::ExitCode;

/// A command.
pub(crate) struct Command {
    /// Its name.
    pub(crate) name: &'static str,
    /// What to type.
    usage: &'static str,
    /// What it does, in a line.
    summary: &'static str,
    /// Runs it with the arguments behind its name; answers the exit status.
    pub(crate) run: fn(&[OsString]) -> Result<u8, Failure>,
}

/// All commands.
pub(crate) static COMMANDS: &[Command] = &[
    Command {
        name: "run",
        usage: "clinch run FILE... [-- ARGUMENT...]",
        summary: "link sources, objects, archives and libraries in memory and run them",
        run: run::run,
    },
    Command {
        name: "jit",
        usage: "clinch jit [OPTION...] FILE...",
        summary: "link into memory with llvm-jitlink's options",
        run: jit::run,
    },
    Command {
        name: "graph",
        usage: "clinch graph [--emit-object=OUTPUT] FILE...",
        summary: "print the link graph of objects in its text form, or write it as an object",
        run: graph::run,
    },
    Command {
        name: "executor",
        usage: "clinch executor --secret-file=FILE listen=HOST:PORT",
        summary: "hold and run what another process links",
        run: executor::run,
    },
];

/// Runs a linked program; comes back only when that fails. The process ends with what `finish`
/// makes of the program's status.
#[expect(unsafe_code, reason = "runs linked code")]
fn start(
    dylibs: &[Dylib],
    entry: u64,
    arguments: &ProgramArguments,
    finish: impl FnOnce(i32) -> Result<i32, Failure>,
) -> Result<u8, Failure> {
    arguments.name_process();
    exit::reset_signals();
    // SAFETY: the user asked to run these inputs.
    let status = unsafe {
        for dylib in in_order(dylibs) {
            dylib.initialize(arguments)?;
        }
        exit::call_main(entry, arguments)
    };
    exit::exit(finish(status)?)
}

/// All dylibs, each behind those that it looks into.
fn in_order(dylibs: &[Dylib]) -> Vec<Dylib> {
    let mut all: Vec<Dylib> = Vec::new();
    for dylib in dylibs.iter().flat_map(Dylib::dependences) {
        if all.iter().all(|known| known.id() != dylib.id()) {
            all.push(dylib);
        }
    }
    all
}

/// Runs the handlers and finalizers of a program whose `main` has returned.
fn finalize(dylibs: &[Dylib]) -> Result<(), Failure> {
    for dylib in in_order(dylibs).iter().rev() {
        // SAFETY: nothing of the program runs; the user asked to run these inputs.
        unsafe { dylib.finalize() }?;
    }
    Ok(())
}

/// What is not a command: asking for help or the version, or a mistake.
pub(crate) fn other(name: &str) -> ExitCode {
    match name {
        "--help" | "-h" | "help" => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        "--version" | "-V" | "version" => {
            println!("clinch {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        "" => {
            eprint!("{}", help());
            ExitCode::from(2)
        }
        name => {
            render::error(&format!(
                "unknown command '{name}' (clinch --help lists them)"
            ));
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    let mut text = String::from("usage: clinch COMMAND [ARGUMENT...]\n\ncommands:\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<8} {}\n", command.name, command.summary));
        text.push_str(&format!("           {}\n", command.usage));
    }
    text.push_str("\n@FILE anywhere stands for the arguments in FILE.\n");
    text
}
