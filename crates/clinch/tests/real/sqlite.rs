//! SQLite's shell runs a script of SQL over a database in a file. Its amalgamation is made as
//! Debian makes it, by the package's own makefile.

use super::{DEBUG, DEFAULT, NON_PIC, Variant, source};
use crate::support::{Program, available, compile, root, target, tool};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

const FEATURES: &str = "-DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_RTREE -DSQLITE_SOUNDEX \
                        -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_THREADSAFE=1 \
                        -DHAVE_READLINE=0 -DHAVE_EDITLINE=0";

/// The folder with `sqlite3.c` and `shell.c`.
fn amalgamation() -> Option<PathBuf> {
    if !available(&["dpkg-source", "tclsh", "make"]) {
        return None;
    }
    let source = source("sqlite3")?;
    let build = target().join("sources/sqlite3-amalgamation");
    let lock = File::create(build.with_extension("lock")).expect("the cache can be written");
    lock.lock().expect("the cache can be locked");
    if build.is_dir() {
        return Some(build);
    }
    let work = build.with_extension("new");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).expect("the cache can be written");
    tool(
        Command::new(source.join("configure"))
            .args(["--disable-tcl", "--disable-readline"])
            .current_dir(&work),
    );
    tool(
        Command::new("make")
            .args(["sqlite3.c", "shell.c"])
            .current_dir(&work),
    );
    fs::rename(&work, &build).expect("the cache can be written");
    Some(build)
}

fn check(variant: Variant) {
    let Some(folder) = amalgamation() else { return };
    let flags = format!("{} {FEATURES}", variant.compile);
    let script = fs::read(root().join("tests/programs/sqlite/script.sql")).expect("our script");
    let objects = ["shell.c", "sqlite3.c"].map(|file| compile("cc", &folder.join(file), &flags));
    let inputs = objects
        .into_iter()
        .map(PathBuf::into_os_string)
        .chain(["-lm".into()]);
    let output = Program::new(inputs)
        .link(variant.link)
        .stdin(script)
        .variable("HOME", "/nonexistent")
        .variable("TZ", "UTC")
        .exits(5)
        .check();
    let text = output.text();
    for line in [
        "0,1,1,2,3,5,8,13,21",
        "INSERT INTO person VALUES(",
        "one | the [quick] brown",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
    assert!(
        output
            .errors()
            .contains("UNIQUE constraint failed: person.name"),
        "{output:?}"
    );
}

#[test]
fn default_flags() {
    check(DEFAULT);
}

#[test]
fn optimized_non_pic() {
    check(NON_PIC);
}

#[test]
fn unoptimized_with_debug_information() {
    check(DEBUG);
}
