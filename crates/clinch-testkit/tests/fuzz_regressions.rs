//! What fuzzing once found: every file of `fuzz/regressions/TARGET/` goes through the target's
//! oracle again, and every target has an oracle.

use clinch_testkit::oracle::input::{ORACLES, Oracle};
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files in a folder, in order; none where there is no folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn names(folder: &Path) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    files(folder).iter().map(stem).collect()
}

/// Runs all files of a target, and tells all that fail.
fn run(target: &str) {
    let (_, oracle): &(_, Oracle) = ORACLES.iter().find(|(name, _)| *name == target).unwrap();
    let mut failed = Vec::new();
    for file in files(&fuzz_folder().join("regressions").join(target)) {
        let bytes = fs::read(&file).unwrap();
        if catch_unwind(|| oracle(&bytes)).is_err() {
            failed.push(file);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn archive() {
    run("archive");
}

#[test]
fn check_language() {
    run("check_language");
}

#[test]
fn command_line() {
    run("command_line");
}

#[test]
fn elf_object() {
    run("elf_object");
}

#[test]
fn executor_client() {
    run("executor_client");
}

#[test]
fn executor_messages() {
    run("executor_messages");
}

#[test]
fn executor_server() {
    run("executor_server");
}

#[test]
fn generated_graph() {
    run("generated_graph");
}

#[test]
fn graph_text() {
    run("graph_text");
}

#[test]
fn object_graph_verify() {
    run("object_graph_verify");
}

#[test]
fn object_write() {
    run("object_write");
}

#[test]
fn shared_object() {
    run("shared_object");
}

#[test]
fn every_target_has_an_oracle_and_every_regression_a_target() {
    let oracles: Vec<&str> = ORACLES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(&fuzz_folder().join("fuzz_targets")), oracles);
    for name in names(&fuzz_folder().join("regressions")) {
        assert!(
            oracles.contains(&name.as_str()),
            "regressions of no target: {name}"
        );
    }
}
