//! Real programs, built from source on the test machine. Each in three variants of compiler
//! flags; the same objects go to the system's linker and to clinch.

mod cpp;
mod lua;
mod rust;
mod sqlite;
mod zlib;

use crate::support::{skip, target};
use clinch_testkit::sources::debian_source;
use std::path::PathBuf;

/// How a program is compiled, and what the system's linker must know of it.
#[derive(Clone, Copy, Debug)]
struct Variant {
    compile: &'static str,
    link: &'static str,
}

/// What the compiler does of itself; on Debian that is position-independent code.
const DEFAULT: Variant = Variant {
    compile: "",
    link: "",
};
/// Code that must lie in the low two gigabytes.
const NON_PIC: Variant = Variant {
    compile: "-O2 -fno-pic -fno-pie",
    link: "-no-pie",
};
/// Debug information.
const DEBUG: Variant = Variant {
    compile: "-O0 -g",
    link: "",
};

/// A Debian source package, fetched when missing; `None`, and the test is skipped, where it is
/// not to be had.
fn source(package: &str) -> Option<PathBuf> {
    match debian_source(&target().join("sources"), package) {
        Ok(folder) => Some(folder),
        Err(error) => {
            skip(&format!("no source of {package}: {error}"));
            None
        }
    }
}
