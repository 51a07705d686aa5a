//! The command line of `clinch run`: what the README promises, sources, options, response files.

mod double_map;
mod executor;

use crate::support::{Source, archive, clinch, clinch_run, root, run, scratch};
use std::ffi::OsString;
use std::fs;
use std::process::Command;

fn example(words: &[&str], status: i32) -> String {
    let output = clinch_run(&root(), words);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
    output.text()
}

#[test]
fn first_command_of_the_readme() {
    let text = example(&["examples/hello.c", "--", "a", "b"], 0);
    assert_eq!(text, "Hello from memory: 2 arguments\n  1: a\n  2: b\n");
}

/// The README says `cargo run` without naming a program, so the workspace must have one default.
#[test]
fn the_workspace_runs_clinch() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, members) = text
        .split_once("\"workspace_default_members\":[")
        .expect("cargo names the default members");
    let (members, _) = members.split_once(']').expect("the list ends");
    assert!(members.contains("/crates/clinch#"), "{members}");
    assert_eq!(members.split(',').count(), 1, "{members}");
}

#[test]
fn examples() {
    let text = example(&["examples/hello.cpp", "--", "pear", "apple"], 0);
    assert_eq!(text, "apple\npear\nfirst: apple\n");
    example(&["examples/hello.cpp"], 1);
    let text = example(&["-O2", "examples/threads.cpp"], 0);
    assert!(text.ends_with("counted to 36000\n"), "{text}");
    let calculator = [
        "examples/calculator/main.c",
        "examples/calculator/parse.c",
        "-lm",
        "--",
    ];
    let words: Vec<&str> = calculator
        .into_iter()
        .chain(["2 * (3 + sqrt(16))", "1 +"])
        .collect();
    assert_eq!(example(&words, 1), "2 * (3 + sqrt(16)) = 14\n");
}

/// Sources of several languages, an object and an archive together.
#[test]
fn inputs_of_all_kinds() {
    let text = "//--- main.cpp\n#include <iostream>\nextern \"C\" int in_c(int), in_assembly(void), \
                in_object(void), in_member(void);\n\
                int main(int argc, char **argv) { std::cout << VALUE << ' ' << in_c(argc) << ' ' << \
                in_assembly() << ' ' << in_object() << ' ' << in_member() << std::endl; return 5; }\n\
                //--- c.c\n#include \"value.h\"\nint in_c(int x) { return x + VALUE; }\n\
                //--- include/value.h\n// VALUE comes from the command line.\n\
                //--- s.S\n#define RESULT 30\n.globl in_assembly\nin_assembly: movl $RESULT, %eax\nret\n\
                .section .note.GNU-stack,\"\",@progbits\n\
                //--- object.c\nint in_object(void) { return 40; }\n\
                //--- member.c\nint in_member(void) { return 50; }\n";
    let source = Source::new(text);
    let library = archive("libmember.a", "ar", "rcs", &[source.object("member.c", "")]);
    let folder = source.path("main.cpp");
    let folder = folder.parent().unwrap_or(&folder);
    let words: Vec<OsString> = vec![
        "-O1".into(),
        "-DVALUE=7".into(),
        "-Iinclude".into(),
        "main.cpp".into(),
        "c.c".into(),
        "s.S".into(),
        source.object("object.c", "").into(),
        library.into(),
        "--".into(),
        "x".into(),
    ];
    let output = clinch_run(folder, words);
    assert_eq!(output.text(), "7 9 30 40 50\n", "{output:?}");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}

#[test]
fn response_files() {
    let source = Source::new(
        "//--- a.c\n#include <stdio.h>\nint b(void);\n\
         int main(int argc, char **argv) { printf(\"%d %s\\n\", b(), argc > 1 ? argv[1] : \"-\"); \
         return 0; }\n//--- b c.c\nint b(void) { return 12; }\n",
    );
    let folder = scratch();
    for (part, name) in [("a.c", "a.o"), ("b c.c", "b c.o")] {
        fs::copy(source.object(part, ""), folder.path().join(name)).expect("a scratch file");
    }
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("a scratch file can be written");
    };
    write("objects.rsp", "a.o\n  'b c.o'\t-lm\n");
    write("quoted.rsp", "\"b c.o\" a.o\n");
    write("escaped.rsp", "a.o b\\ c.o");
    write("nested.rsp", "@escaped.rsp -lm");
    write("whole.rsp", "run @nested.rsp -- inside");
    for words in [
        ["@objects.rsp"],
        ["@quoted.rsp"],
        ["@escaped.rsp"],
        ["@nested.rsp"],
    ] {
        let output = clinch_run(
            folder.path(),
            words.into_iter().chain(["--", "@objects.rsp"]),
        );
        assert_eq!(output.text(), "12 @objects.rsp\n", "{words:?}: {output:?}");
    }
    let output = run(
        Command::new(clinch())
            .arg("@whole.rsp")
            .current_dir(folder.path()),
        b"",
    );
    assert_eq!(output.text(), "12 inside\n", "{output:?}");
    write("endless.rsp", "@endless.rsp");
    let output = clinch_run(folder.path(), ["@endless.rsp"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.errors().contains("endless.rsp"), "{output:?}");
}

#[test]
fn options() {
    let folder = root();
    let output = clinch_run(&folder, ["--time", "examples/hello.c", "--", "--time"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.text().contains("1: --time"), "{output:?}");
    assert!(
        output.errors().contains("prune") && output.errors().contains("total"),
        "{output:?}"
    );
    let source = Source::new("//--- a.c\nint other(int n) { return n; }\n");
    let object = source.object("a.c", "").into_os_string();
    for option in ["-entry=other", "--entry=other"] {
        let words = [
            option.into(),
            object.clone(),
            "--".into(),
            "1".into(),
            "2".into(),
        ];
        let output = clinch_run(&folder, words);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
    for threads in ["1", "2", "7"] {
        let threads = format!("-num-threads={threads}");
        let output = clinch_run(&folder, [threads.as_str(), "examples/hello.c"]);
        assert_eq!(
            output.text(),
            "Hello from memory: 0 arguments\n",
            "{output:?}"
        );
    }
    for words in [&["--help"][..], &["--version"], &["run", "--help"]] {
        let output = run(Command::new(clinch()).args(words), b"");
        assert!(
            output.status.success() && output.text().contains("clinch"),
            "{output:?}"
        );
    }
}

#[test]
fn graph_of_an_object() {
    let source =
        Source::new("//--- a.c\nint puts(const char *);\nint main(void) { return puts(\"x\"); }\n");
    let object = source.object("a.c", "");
    let member = archive("liba.a", "ar", "rcs", std::slice::from_ref(&object));
    for file in [object, member] {
        let output = run(Command::new(clinch()).arg("graph").arg(file), b"");
        assert!(output.status.success(), "{output:?}");
        for name in ["main", "puts", ".text"] {
            assert!(output.text().contains(name), "{output:?}");
        }
    }
    let output = run(Command::new(clinch()).args(["graph", "no_such.o"]), b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
