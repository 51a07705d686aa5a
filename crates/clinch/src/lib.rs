//! The command line: flags to options, results to text. Nothing is linked here.
//!
//! The program is [`main`]; [`words`] is how it reads its words, for those who test that with
//! words of their own.

#![forbid(unsafe_op_in_unsafe_fn)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line prints"
)]

mod command;
mod flags;
mod render;
pub mod words;

use std::ffi::OsString;
use std::process::ExitCode;

/// The program, with this process's arguments.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Err(error) = flags::response::expand(&mut arguments, flags::response::read) {
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
