//! What a debugger sees of code that comes and goes. The program that it looks at is this one,
//! started for the one test.

use crate::support::{self, DylibOptions, Folder, have};
use clinch_graph::InputName;
use clinch_jit::debug::Audience;
use clinch_jit::session::{DylibSources, Session, SessionOptions};
use std::env;
use std::hint::black_box;
use std::path::{Path, PathBuf};
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

/// The same for versions that are linked while the first one is there.
const VERSIONS: &str = "CLINCH_JIT_TEST_VERSIONS";

/// Links the first object, and replaces it by the others; the last one stays when the code of those
/// before has gone.
fn replace_in_session(objects: &str) {
    let options = SessionOptions {
        audience: Audience {
            debugger: true,
            perf: false,
        },
        ..SessionOptions::default()
    };
    let session = Session::new(support::arch(), options);
    let created = session.create_dylib("main", DylibSources::default());
    let main = created.unwrap_or_else(|error| panic!("{error}"));
    let mut replaceable = None;
    let mut versions = Vec::new();
    for object in objects.split(':') {
        let added = vec![(InputName::file(object), support::read(Path::new(object)))];
        if replaceable.is_none() {
            let added = main.add_lazy_objects(added);
            added.unwrap_or_else(|error| panic!("{error}"));
        } else {
            // SAFETY: the types are the same.
            let version = unsafe { main.replace(added) };
            versions.push(version.unwrap_or_else(|error| panic!("{error}")));
        }
        let address = replaceable.get_or_insert_with(|| {
            let address = main.look_up("replaceable");
            address.unwrap_or_else(|error| panic!("{error}"))
        });
        black_box(support::call(*address));
    }
    let bodies = session.dylib("main$bodies").expect("it was made");
    // SAFETY: callers go to the last version.
    unsafe { bodies.default_tracker().remove_code() }.expect("it can be removed");
    unloaded();
    black_box(replaceable.map(support::call));
}

/// A place to stop at when an object is gone.
#[unsafe(export_name = "replace_unloaded")]
#[inline(never)]
extern "C" fn unloaded() {
    black_box(());
}

/// Runs this program's test of the calling thread under the debugger, with the objects' names in a
/// variable of its environment; answers what the debugger said.
fn debug(commands: &[&str], variable: &str, objects: &[PathBuf]) -> (String, String) {
    let mut gdb = Command::new("gdb");
    gdb.args(["--batch", "-nx"]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.arg("--args")
        .arg(env::current_exe().expect("this program has a path"))
        .args(["--exact", "--nocapture"])
        .args(std::thread::current().name());
    let names: Vec<String> = objects
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    gdb.env(variable, names.join(":"))
        .env_remove("DEBUGINFOD_URLS");
    let output = gdb.output().expect("it can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A line of a part has all words.
fn has(part: &str, words: &[&str], text: &str, errors: &str) {
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    assert!(
        part.lines().any(is_it),
        "no {words:?} in {part}\n{text}\n{errors}"
    );
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
    let (text, errors) = debug(&commands, OBJECTS, &[first, second]);
    let parts: Vec<&str> = text.split("\n-- ").collect();
    let [_, first, after_first, second, after_second] = parts[..] else {
        panic!("{text}\n{errors}");
    };
    let has = |part: &str, words: &[&str]| has(part, words, &text, &errors);
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

/// The version that is called is the one that is shown, its variables too, while the old one is
/// still there and when it has gone.
#[test]
fn versions_are_shown_as_they_are_replaced() {
    if let Ok(objects) = env::var(VERSIONS) {
        return replace_in_session(&objects);
    }
    if !have(&["gdb"]) {
        return;
    }
    let folder = Folder::new();
    let source = |factor: u32| {
        format!(
            "int shared = 5;\nint replaceable(void) {{\n  int local = 11 * {factor};\n  \
             return local + shared++;\n}}\n"
        )
    };
    let options = ["-g", "-O0", "-fPIC"];
    let first = folder.compile("first.c", &source(1), &options);
    let second = folder.compile("second.c", &source(2), &options);
    let commands = [
        "set width 0",
        "set breakpoint pending on",
        "break replace_unloaded",
        "break first.c:4",
        "break second.c:4",
        "run",
        "echo -- in the first\\n",
        "print local",
        "print first.c::shared",
        "backtrace 1",
        "continue",
        "echo -- in the second\\n",
        "print local",
        "info breakpoints",
        "backtrace 1",
        "continue",
        "echo -- without the first\\n",
        "info breakpoints",
        "continue",
        "echo -- in the second again\\n",
        "print local",
        "backtrace 1",
        "continue",
    ];
    let (text, errors) = debug(&commands, VERSIONS, &[first, second]);
    let parts: Vec<&str> = text.split("\n-- ").collect();
    let [_, first, second, without, again] = parts[..] else {
        panic!("{text}\n{errors}");
    };
    let has = |part: &str, words: &[&str]| has(part, words, &text, &errors);
    has(first, &["= 11"]);
    has(first, &["#0", "replaceable ()", "first.c:4"]);
    has(second, &["= 22"]);
    has(second, &["in replaceable at ", "first.c:4"]);
    has(second, &["in replaceable at ", "second.c:4"]);
    has(second, &["#0", "replaceable ()", "second.c:4"]);
    has(without, &["in replaceable at ", "second.c:4"]);
    has(again, &["= 22"]);
    has(again, &["#0", "replaceable ()", "second.c:4"]);
    has(again, &["exited normally"]);
    assert!(!errors.contains("Cannot"), "{errors}");
}
