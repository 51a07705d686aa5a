//! Linking into another process: starting or finding the executor, and running the program there.

use super::super::in_order;
use crate::flags::jit::{ExecutorOptions, JitOptions};
use crate::render::Failure;
use clinch_executor::{Controller, ControllerOptions, Secret};
use clinch_jit::ProgramArguments;
use clinch_jit::session::{Dylib, Session, SessionOptions};
use clinch_target::Arch;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

/// The session: in this process, or in an executor's.
pub(super) fn session(
    arch: &'static Arch,
    session_options: SessionOptions,
    options: &JitOptions,
) -> Result<Session, Failure> {
    let controller_options = ControllerOptions {
        shared_memory: options.shared_memory,
        ..ControllerOptions::default()
    };
    let controller = match &options.executor {
        None => return Ok(Session::new(arch, session_options)),
        Some(ExecutorOptions::Start(program)) => {
            let arguments = [OsString::from("executor")];
            Controller::spawn(program.as_deref(), &arguments, controller_options)
        }
        Some(ExecutorOptions::Connect(address)) => {
            let secret = options.executor_secret.as_ref().ok_or(
                "-oop-executor-connect needs -oop-executor-secret=FILE: what both sides know",
            )?;
            let secret = Secret::from_file(secret)
                .map_err(|error| format!("'{}': {error}", secret.display()))?;
            Controller::connect_to(address, &secret, controller_options)
        }
    };
    let controller = controller.map_err(|error| error.to_string())?;
    Ok(Session::in_executor(arch, session_options, controller)?)
}

/// Runs a program in the executor; answers the status that it ends with.
#[expect(unsafe_code, reason = "runs linked code")]
pub(super) fn run(
    dylibs: &[Dylib],
    entry: u64,
    arguments: &ProgramArguments,
) -> Result<u8, Failure> {
    let mut all = in_order(dylibs);
    let Some(last) = all.pop() else { return Ok(0) };
    for dylib in all {
        // SAFETY: the user asked to run these inputs.
        unsafe { dylib.initialize(arguments) }?;
    }
    // SAFETY: the same.
    let status = unsafe { last.run_program(entry, arguments) }?;
    match (status.code(), status.signal()) {
        // Exit statuses are their lowest bits.
        (Some(code), _) => Ok(u8::try_from(code & 0xff).unwrap_or(1)),
        (None, Some(signal)) => Err(format!("the program was ended by signal {signal}").into()),
        (None, None) => Err("the executor did not say how the program ended".into()),
    }
}
