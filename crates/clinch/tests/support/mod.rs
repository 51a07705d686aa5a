//! What all tests share: where things are, which tools there are, cached builds, and running one
//! program twice, linked by the system's linker and by clinch.

mod build;
mod program;
mod run;
mod source;

pub(crate) use build::{archive, cached, link_shared, relocatable};
pub(crate) use program::{Program, clinch_run};
pub(crate) use run::{Output, run};
pub(crate) use source::{Source, compile};

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent().unwrap_or(tmp).to_path_buf()
}

/// A new empty folder that is removed when it is dropped.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder can be made")
}

/// The clinch under test: `$CLINCH`, else the one that cargo built for this test.
pub(crate) fn clinch() -> OsString {
    env::var_os("CLINCH").unwrap_or_else(|| env!("CARGO_BIN_EXE_clinch").into())
}

/// Whether missing tools are failures: in CI, so that nothing is skipped unseen.
fn tools_are_required() -> bool {
    env::var_os("CLINCH_REQUIRE_TOOLS").is_some()
        || env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Whether all these tools can be called. If not, says which test is skipped for want of which;
/// fails instead where tools are required.
pub(crate) fn available(tools: &[&str]) -> bool {
    tools.iter().all(|tool| {
        let found = env::var_os("PATH")
            .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(tool).is_file()));
        if !found {
            skip(&format!("no {tool}"));
        }
        found
    })
}

/// Says that the running test is skipped, past libtest's capturing; fails where tools are
/// required.
pub(crate) fn skip(why: &str) {
    assert!(
        !tools_are_required(),
        "{why}, and nothing may be skipped here"
    );
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// Runs a tool; fails the test with all it said when it fails.
pub(crate) fn tool(command: &mut Command) -> Vec<u8> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}"),
    };
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output.stdout
}
