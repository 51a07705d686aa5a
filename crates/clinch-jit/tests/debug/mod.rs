//! What a debugger sees of code that comes and goes. The program that it looks at is this one,
//! started for the one test.

use crate::support::{self, DylibOptions, Folder, have};
use clinch_jit::debug::Audience;
use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

/// Names the objects, separated by colons, to the program under the debugger.
const OBJECTS: &str = "CLINCH_JIT_TEST_REPLACE";

/// Links each object in turn, calls its function, unloads it.
fn replace(objects: &str) {
    for object in objects.split(':') {
        let mut linked = support::dylib_with(DylibOptions {
            audience: Audience {
                debugger: true,
                perf: false,
            },
            ..DylibOptions::default()
        });
        linked
            .add(object, support::read(Path::new(object)))
            .linked();
        black_box(linked.call("replaceable"));
        linked.unload();
        unloaded();
    }
}

/// A place to stop at when an object is gone.
#[unsafe(export_name = "replace_unloaded")]
#[inline(never)]
extern "C" fn unloaded() {
    black_box(());
}

#[test]
fn breakpoints_follow_replaced_code_and_go_with_it() {
    if let Ok(objects) = env::var(OBJECTS) {
        return replace(&objects);
    }
    if !have(&["gdb"]) {
        return;
    }
    let folder = Folder::new();
    let source = |factor: u32| {
        format!("int replaceable(void) {{\n  int local = 11 * {factor};\n  return local;\n}}\n")
    };
    let first = folder.compile("first.c", &source(1), &["-g", "-O0"]);
    let second = folder.compile("second.c", &source(2), &["-g", "-O0"]);
    let commands = [
        "set width 0",
        "set breakpoint pending on",
        "break replace_unloaded",
        "break first.c:3",
        "break second.c:3",
        "break replaceable",
        "run",
        "echo -- in the first\\n",
        "info breakpoints",
        "continue",
        "print local",
        "continue",
        "echo -- after the first\\n",
        "info breakpoints",
        "continue",
        "echo -- in the second\\n",
        "info breakpoints",
        "continue",
        "print local",
        "backtrace 1",
        "continue",
        "echo -- after the second\\n",
        "info breakpoints",
        "continue",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["--batch", "-nx"]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.arg("--args")
        .arg(env::current_exe().expect("this program has a path"))
        .args(["--exact", "--nocapture"])
        .args(std::thread::current().name());
    let objects = [first, second].map(|path| path.display().to_string());
    gdb.env(OBJECTS, objects.join(":"))
        .env_remove("DEBUGINFOD_URLS");
    let output = gdb.output().expect("it can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let parts: Vec<&str> = text.split("\n-- ").collect();
    let [_, first, after_first, second, after_second] = parts[..] else {
        panic!("{text}\n{errors}");
    };
    let has = |part: &str, words: &[&str]| {
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(
            part.lines().any(is_it),
            "no {words:?} in {part}\n{text}\n{errors}"
        );
    };
    // Each is there while its code is.
    has(first, &["in replaceable at ", "first.c:3"]);
    has(first, &["<PENDING>", "second.c:3"]);
    has(first, &["Breakpoint 2, replaceable ()", "first.c:3"]);
    has(first, &["$1 = 11"]);
    has(second, &["in replaceable at ", "second.c:3"]);
    has(second, &["<PENDING>", "first.c:3"]);
    has(second, &["Breakpoint 3, replaceable ()", "second.c:3"]);
    has(second, &["$2 = 22"]);
    has(second, &["#0", "replaceable ()", "second.c:3"]);
    // None stays behind.
    for part in [after_first, after_second] {
        has(part, &["<PENDING>", "first.c:3"]);
        has(part, &["<PENDING>", "second.c:3"]);
        has(part, &["<PENDING>", "replaceable"]);
    }
    has(after_second, &["exited normally"]);
    assert!(!errors.contains("Cannot"), "{errors}");
}
