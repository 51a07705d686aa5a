//! The command line: flags to options, results to text. Nothing is linked here.

#![forbid(unsafe_op_in_unsafe_fn)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line prints"
)]

mod command;
mod flags;
mod render;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Err(error) = flags::response::expand(&mut arguments) {
        render::error(&error);
        return ExitCode::from(1);
    }
    let name = arguments
        .first()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
        .to_owned();
    let rest = arguments.get(1..).unwrap_or_default();
    let Some(command) = command::COMMANDS
        .iter()
        .find(|command| command.name == name)
    else {
        return command::other(&name);
    };
    match (command.run)(rest) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            render::failure(&failure);
            ExitCode::from(1)
        }
    }
}
