//! A C++ program of five files: streams, exceptions over objects, threads, `thread_local` with
//! destructors, initializers with priorities, inline functions and templates that all share.

use super::{DEBUG, DEFAULT, NON_PIC, Variant};
use crate::support::{Program, clinch_run, compile, root, scratch};
use std::fs;

const FILES: [&str; 5] = [
    "main.cpp",
    "shapes.cpp",
    "errors.cpp",
    "threads.cpp",
    "order.cpp",
];

fn check(variant: Variant) {
    let folder = root().join("tests/programs/cpp");
    let flags = format!("{} -std=c++17 -pthread", variant.compile);
    let objects = FILES.map(|file| compile("c++", &folder.join(file), &flags));
    let output = Program::new(objects)
        .cpp()
        .link(variant.link)
        .arguments(["one", "two words"])
        .stdin("first\nthe longest line\nlast")
        .exits(42)
        .check();
    let text = output.text();
    for line in [
        "order: [order 101] [function 150] [shapes 200] [errors 250]",
        "same addresses: truetrue",
        "rethrown 23 path 1 2",
        "from qsort",
        "thread_local destructors 6",
        "leave function-local static\natexit: first registered",
        "destroy order 101\ndestructor function",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
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
fn optimized_pic() {
    check(Variant {
        compile: "-O2 -fPIC",
        link: "",
    });
}

#[test]
fn unoptimized_with_debug_information() {
    check(DEBUG);
}

/// The README's way: sources given to clinch, which knows what C++ needs.
#[test]
fn from_sources() {
    let folder = scratch();
    for file in FILES.iter().chain(&["shared.hpp"]) {
        let from = root().join("tests/programs/cpp").join(file);
        fs::copy(from, folder.path().join(file)).expect("a scratch file can be written");
    }
    let output = clinch_run(folder.path(), FILES.iter().chain(&["--", "one"]));
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    assert!(output.text().contains("argument one"), "{output:?}");
}
