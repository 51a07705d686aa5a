//! GDB on programs under `clinch run --gdb`.

use super::line_of;
use crate::support::{Output, Source, available, clinch, link_shared, run, scratch};
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "\
//--- shared.h
inline int twice(int value) {
  int doubled = value + value;
  return doubled; // in both objects
}
inline int counter = 40;
//--- other.cpp
#include \"shared.h\"
int other(int n) {
  int sum = 0;
  for (int i = 0; i < 3; i++)
    sum += twice(n + i); // in the loop
  return sum + counter; // behind the loop
}
//--- main.cpp
#include \"shared.h\"
int other(int n);
int global_value = 17;
namespace space {
struct Shape {
  int sides;
  virtual int area(int scale) {
    int result = twice(sides) * scale;
    return result + other(result); // from a method
  }
};
}
int main(int argc, char **) {
  space::Shape shape;
  shape.sides = 4;
  return shape.area(argc) == 102 ? 7 : 1; // from main
}
__attribute__((used)) static int dead(int n) {
  int never = n * 3;
  return never; // never there
}
";

/// What GDB says to these commands on a program of these files.
fn gdb(files: &[PathBuf], commands: &[&str]) -> Output {
    let folder = scratch();
    let mut command = Command::new("gdb");
    command.args(["--batch", "-nx"]);
    for words in ["set width 0", "set breakpoint pending on"]
        .iter()
        .chain(commands)
    {
        command.args(["-ex", words]);
    }
    command
        .arg("--args")
        .arg(clinch())
        .args(["run", "--gdb"])
        .args(files)
        .current_dir(folder.path())
        .env_remove("DEBUGINFOD_URLS");
    run(&mut command, b"")
}

/// Fails unless a line of the text holds all these parts in this order.
#[track_caller]
fn assert_line(text: &str, parts: &[&str]) {
    let holds = |line: &str| {
        let mut rest = line;
        parts.iter().all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    };
    assert!(text.lines().any(holds), "no line with {parts:?} in\n{text}");
}

fn check(objects: &[PathBuf], source: &Source, flags: &str) {
    let at = |part: &str, text: &str| format!("{part}:{}", line_of(source.text(part), text));
    let (inline, last) = (
        at("shared.h", "in both objects"),
        at("other.cpp", "behind the loop"),
    );
    let (method, main) = (at("main.cpp", "from a method"), at("main.cpp", "from main"));
    let dead = at("main.cpp", "never there");
    let output = gdb(
        objects,
        &[
            &format!("break {inline}"),
            &format!("break {last}"),
            &format!("break {dead}"),
            "run",
            "backtrace",
            "print doubled",
            "print value",
            "info breakpoints",
            "delete 1",
            "continue",
            "backtrace",
            "print sum",
            "print counter",
            "print global_value",
            "info symbol other",
            "up",
            "print result",
            "print this->sides",
            "delete",
            "continue",
        ],
    );
    let text = output.text();
    let errors = output.errors();
    // At the inline function of which two objects had a copy: one place, with its callers.
    assert_line(&text, &["Breakpoint 1, twice (value=4) at ", &inline]);
    assert_line(
        &text,
        &["#1 ", " in space::Shape::area (this=0x", "scale=1) at "],
    );
    assert_line(&text, &["#2 ", " in main (argc=1", &main]);
    assert_line(&text, &["$1 = 8"]);
    assert_line(&text, &["$2 = 4"]);
    assert_line(&text, &["in twice(int) at ", &inline]);
    assert!(!text.contains("<MULTIPLE>"), "{text}");
    // A function that is not in memory has no place to stop at, and none at 0 either.
    if flags.contains("-ffunction-sections") {
        assert_line(&text, &["3 ", "breakpoint", "<PENDING>", &dead]);
    }
    // In the other object, behind a loop.
    assert_line(&text, &["Breakpoint 2, other (n=8) at ", &last]);
    assert_line(
        &text,
        &[
            "#1 ",
            " in space::Shape::area (this=0x",
            "scale=1) at ",
            &method,
        ],
    );
    for value in ["$3 = 54", "$4 = 40", "$5 = 17", "$6 = 8", "$7 = 4"] {
        assert_line(&text, &[value]);
    }
    assert_line(&text, &["other(int) in section .text"]);
    assert_line(&text, &["exited with code 07"]);
    for trouble in ["Cannot insert", "Cannot access", "in-memory"] {
        assert!(!errors.contains(trouble), "{errors}");
    }
}

#[test]
fn stops_at_lines_and_prints_variables() {
    if !available(&["gdb"]) {
        return;
    }
    let source = Source::new(PROGRAM);
    for flags in [
        "-g -O0",
        "-g -O0 -gdwarf-4 -ffunction-sections -fdata-sections",
        "-g3 -O0 -gz=zlib -ffunction-sections -fno-pic",
        "-g -O0 -fdebug-types-section -fPIC",
    ] {
        let objects = source.objects(["main.cpp", "other.cpp"], flags);
        check(&objects, &source, flags);
    }
}

#[test]
fn of_clang() {
    if !available(&["gdb", "clang++-22"]) {
        return;
    }
    let source = Source::new(PROGRAM);
    for flags in ["-g -O0", "-g -O0 -gz=zstd -gdwarf-5 -ffunction-sections"] {
        let objects = ["main.cpp", "other.cpp"].map(|part| {
            let flags = format!("{flags} -std=c++17");
            source.clang(part, &flags)
        });
        check(&objects, &source, flags);
    }
}

#[test]
fn sources_are_compiled_and_found() {
    if !available(&["gdb"]) {
        return;
    }
    let source = Source::new(PROGRAM);
    let files = [
        PathBuf::from("-g"),
        source.path("main.cpp"),
        source.path("other.cpp"),
    ];
    let output = gdb(&files, &["break other.cpp:3", "run", "next", "info locals"]);
    assert_line(
        &output.text(),
        &["Breakpoint 1, other (n=8) at ", "other.cpp:3"],
    );
    assert_line(&output.text(), &["sum = 0"]);
}

const DEEP: &str = "\
//--- main.c
__attribute__((noinline)) int leaf(volatile int *where) {
  return *where + 1; // the leaf
}
__attribute__((noinline)) int middle(int n) {
  volatile int room[40];
  room[n] = n;
  return leaf(&room[n]) + room[n];
}
int main(int argc, char **argv) {
  (void)argv;
  return middle(argc) + argc;
}
";

#[test]
fn unwinds_without_frame_pointers() {
    if !available(&["gdb"]) {
        return;
    }
    let source = Source::new(DEEP);
    // With debug information, and with nothing but names and call frame records.
    for (flags, names) in [
        (
            "-g -O2 -fomit-frame-pointer",
            ["leaf (where=", " in middle (n=", " in main (argc=1"],
        ),
        (
            "-O2 -fomit-frame-pointer",
            ["leaf ()", "in middle ()", "in main ()"],
        ),
    ] {
        let object = source.object("main.c", flags);
        let output = gdb(&[object], &["break leaf", "run", "backtrace"]);
        let text = output.text();
        for (number, name) in names.iter().enumerate() {
            assert_line(&text, &[&format!("#{number} "), name]);
        }
    }
}

#[test]
fn nothing_is_told_unasked() {
    if !available(&["gdb"]) {
        return;
    }
    let object = Source::new(DEEP).object("main.c", "-g -O0");
    let folder = scratch();
    let mut command = Command::new("gdb");
    command
        .args(["--batch", "-nx", "-ex", "set breakpoint pending on"])
        .args(["-ex", "break leaf", "-ex", "run", "--args"])
        .arg(clinch())
        .arg("run")
        .arg(object)
        .current_dir(folder.path());
    let output = run(&mut command, b"");
    assert_line(&output.text(), &["exited with code 04"]);
}

const OTHER_JIT: &str = "\
//--- jit.c
#include <stdint.h>
#include <stdio.h>
struct entry { struct entry *next, *previous; const char *image; uint64_t size; };
struct { uint32_t version, action; struct entry *relevant, *first; } __jit_debug_descriptor = {1};
void __jit_debug_register_code(void) {
  struct entry *entry = __jit_debug_descriptor.first;
  printf(\"%u %d %.3s %d\\n\", __jit_debug_descriptor.action,
         entry == __jit_debug_descriptor.relevant, entry->image + 1, entry->size > 64);
  fflush(stdout);
}
";

#[test]
fn the_list_of_another_jit_is_used() {
    let jit = Source::new(OTHER_JIT).object("jit.c", "-O1 -fPIC");
    let library = link_shared("libotherjit.so", "", &[jit]);
    let object = Source::new(DEEP).object("main.c", "-g -O0");
    let mut command = Command::new(clinch());
    command.args(["run", "--gdb"]).arg(object);
    command.env("LD_PRELOAD", library);
    let output = run(&mut command, b"");
    assert_eq!(output.text(), "1 1 ELF 1\n", "{output:?}");
}
