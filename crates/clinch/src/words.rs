//! How the words behind a command's name are read. What was typed is answered as a text, which
//! says all of it: equal texts are equal options.

use crate::flags::{jit, list, response, run};
use std::ffi::{OsStr, OsString};
use std::io;

/// Replaces each `@FILE` by the words in the file, which `read` answers.
///
/// # Errors
/// A file that is there cannot be read, or files hold too much or name one another too deeply.
pub fn expand(
    words: &mut Vec<OsString>,
    read: impl Fn(&OsStr) -> io::Result<Vec<u8>>,
) -> Result<(), String> {
    response::expand(words, read)
}

/// The options of `clinch jit`.
///
/// # Errors
/// A word that means nothing there.
pub fn jit(words: &[OsString]) -> Result<String, String> {
    jit::parse(words).map(|options| format!("{options:?}"))
}

/// The help on the options of `clinch jit`: a line for each.
pub fn jit_help() -> String {
    list::help(jit::FLAGS)
}

/// The options of `clinch run`.
///
/// # Errors
/// A word that means nothing there.
pub fn run(words: &[OsString]) -> Result<String, String> {
    run::parse(words).map(|options| format!("{options:?}"))
}

/// The help on `clinch run`.
pub fn run_help() -> &'static str {
    run::HELP
}
