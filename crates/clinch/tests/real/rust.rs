//! A Rust program from its own objects plus the toolchain's libraries: threads, panics that are
//! caught, `thread_local` values with `Drop`, an exit status.

use super::Variant;
use crate::support::{Program, cached, root, tool};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A linker for rustc that keeps what it is given: the objects, as they are removed after the
/// link, and the names of all inputs in their order.
const KEEPER: &str = r#"#!/bin/sh
out=$(dirname "$0")
mkdir -p "$out/objects"
for word in "$@"; do
    case $word in
        *symbols.o) ;;
        *.o) cp "$word" "$out/objects/" && echo "$word" ;;
        *.rlib | -l* | -Wl,-Bstatic | -Wl,-Bdynamic) echo "$word" ;;
    esac
done > "$out/inputs"
exec cc "$@"
"#;

/// The inputs of the link of a Rust program, in the order in which rustc gives them.
fn inputs(flags: &str) -> Vec<OsString> {
    let main = root().join("tests/programs/rust/main.rs");
    let words: Vec<OsString> = ["rustc", flags, KEEPER]
        .iter()
        .map(OsString::from)
        .collect();
    let folder = cached("rust", &words, std::slice::from_ref(&main), |out| {
        build(&main, flags, out);
    });
    let listing = fs::read_to_string(folder.join("inputs")).expect("the keeper's list");
    listing
        .lines()
        .filter(|line| !line.starts_with("-Wl"))
        .map(|line| {
            let path = Path::new(line);
            match path.file_name() {
                Some(name) if line.ends_with(".o") => {
                    folder.join("objects").join(name).into_os_string()
                }
                _ => line.into(),
            }
        })
        .collect()
}

fn build(main: &Path, flags: &str, out: &Path) {
    fs::create_dir_all(out).expect("the cache can be written");
    let keeper = out.join("keeper");
    fs::write(&keeper, KEEPER).expect("the cache can be written");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&keeper, mode).expect("a script can be made executable");
    tool(
        Command::new("rustc")
            .args(["--edition", "2024", "--crate-name", "rust_program"])
            .args(flags.split_whitespace())
            .arg(format!("-Clinker={}", keeper.display()))
            .arg(main)
            .arg("-o")
            .arg(out.join("program")),
    );
}

fn check(variant: Variant) {
    let inputs = inputs(variant.compile);
    let is_object = |word: &&OsString| word.to_string_lossy().ends_with(".o");
    let is_library = |word: &&OsString| word.to_string_lossy().ends_with(".rlib");
    assert!(
        inputs.iter().filter(is_object).count() >= 2,
        "a main and an allocator: {inputs:?}"
    );
    assert!(
        inputs.iter().filter(is_library).count() >= 5,
        "std and below: {inputs:?}"
    );
    let output = Program::new(&inputs)
        .link(variant.link)
        .arguments(["one", "two words"])
        .variable("CLINCH_TEST_VARIABLE", "value")
        .stdin("first\nsecond\n")
        .exits(7)
        .check();
    let text = output.text();
    for line in [
        "caught: at the bottom",
        "caught: index out of bounds: the len is 3",
        "resumed with Some(17)",
        "joined: in a thread: 5",
        "counted and dropped 9",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert_eq!(
        output.errors().matches("hook called: true").count(),
        3,
        "{output:?}"
    );
}

#[test]
fn default_flags() {
    check(Variant {
        compile: "",
        link: "",
    });
}

#[test]
fn optimized_static_code() {
    check(Variant {
        compile: "-O -Crelocation-model=static",
        link: "-no-pie",
    });
}

#[test]
fn unoptimized_with_debug_information() {
    check(Variant {
        compile: "-Copt-level=0 -g",
        link: "",
    });
}
