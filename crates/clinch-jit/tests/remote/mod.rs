//! Linking into another process: an executor that is this program again (the test [`child`]).

mod failure;
mod memory;
mod programs;
mod shared;

use crate::support::{self, Folder};
use clinch_executor::{
    Controller, ControllerOptions, Endpoint, Executor, Limits, Secret, SharedFile,
};
use clinch_jit::session::{Dylib, DylibSources, Session, SessionOptions};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Serves when the program was started for that by [`spawn`]; else there is nothing to do.
#[test]
fn child() {
    let argument = |name: &str| {
        let mut arguments = env::args();
        arguments.find_map(|argument| argument.strip_prefix(name).map(str::to_owned))
    };
    let Some(numbers) = argument("filedescs=") else {
        return;
    };
    let secret = argument("--secret-fd=").and_then(|number| number.parse().ok());
    let secret = secret.map(Secret::inherited).expect("a descriptor");
    let mut executor = Executor::new(secret.expect("a secret"));
    if let Some(number) = argument("--shared-fd=") {
        let file = SharedFile::inherited(number.parse().expect("a descriptor"));
        executor.shared_memory = Some(Arc::new(file.expect("it can be shared")));
    }
    let endpoint: Endpoint = format!("filedescs={numbers}").parse().expect("numbers");
    let served = executor.run_process(&endpoint, |_| ());
    std::process::exit(i32::from(served.is_err()));
}

/// What this program is told to be [`child`].
const CHILD: [&str; 6] = [
    "remote::child",
    "--exact",
    "--nocapture",
    "--quiet",
    "--test-threads=1",
    "--",
];

/// An executor in a process of its own.
fn spawn(options: ControllerOptions) -> Controller {
    let spawned = Controller::spawn(None, &CHILD.map(OsString::from), options);
    spawned.unwrap_or_else(|error| panic!("{error}"))
}

/// Limits that a test can wait for, when something is to be late.
fn short() -> ControllerOptions {
    ControllerOptions {
        limits: Limits {
            answer: Duration::from_secs(2),
            silence: Some(Duration::from_secs(2)),
            end: Duration::from_millis(500),
            ..Limits::default()
        },
        ..ControllerOptions::default()
    }
}

/// A session in a new executor, on so many threads.
fn session(threads: usize) -> Session {
    session_with(
        SessionOptions {
            threads,
            ..SessionOptions::default()
        },
        spawn(ControllerOptions::default()),
    )
}

fn session_with(options: SessionOptions, controller: Controller) -> Session {
    let session = Session::in_executor(support::arch(), options, controller);
    session.unwrap_or_else(|error| panic!("{error}"))
}

/// A new dylib of a session.
fn dylib(session: &Session, name: &str) -> Dylib {
    let created = session.create_dylib(name, DylibSources::default());
    created.unwrap_or_else(|error| panic!("{error}"))
}

/// Looks a function up and calls it in the executor.
fn call(session: &Session, dylib: &Dylib, name: &str) -> i32 {
    let address = dylib
        .look_up(name)
        .unwrap_or_else(|error| panic!("{error}"));
    call_at(session, address)
}

/// Calls an `int f(void)` in the executor.
fn call_at(session: &Session, address: u64) -> i32 {
    let client = session.executor().expect("it is in an executor");
    let answer = client.run_int(address, 0);
    answer.unwrap_or_else(|error| panic!("{error}"))
}

/// A shared library of a C source.
fn shared_library(folder: &Folder, name: &str, source: &str) -> PathBuf {
    let object = folder.compile(&format!("{name}.c"), source, &["-O1", "-fPIC"]);
    let library = folder.path().join(format!("lib{name}.so"));
    let mut command = Command::new("cc");
    command.arg("-shared").arg(&object).arg("-o").arg(&library);
    support::run(&mut command);
    library
}
