//! Several dylibs (`-jd`), and functions that are linked when they are called (`-lazy`).

use super::{fails, jit, objects, succeeds};
use std::fs;

/// `main` calls `f`, which each of two files defines its way, one of them with the other's help.
const FILES: &str = "//--- main.c\nint f(void); int main(void) { return f(); }\n\
    //--- f.c\nint g(void); int f(void) { return 40 + g(); }\n\
    //--- g.c\nint g(void) { return 2; }\n\
    //--- other.c\nint g(void) { return 3; }\n";

#[test]
fn a_dylib_sees_those_that_it_names() {
    let folder = objects(FILES);
    let path = folder.path();
    let status = |words: &[&str]| jit(path, words).status.code();
    let foo = ["main.o", "-lFoo", "-jd", "Foo", "f.o"];
    assert_eq!(status(&[&foo[..], &["g.o"]].concat()), Some(42));
    // Each dylib has its own g.
    let both = [&foo[..], &["-lBar", "-jd", "Bar", "other.o"]].concat();
    assert_eq!(status(&both), Some(43));
    let clash = ["main.o", "g.o", "-lFoo", "-jd", "Foo", "f.o", "other.o"];
    assert_eq!(status(&clash), Some(43));
    // Without -lFoo nothing looks there.
    let said = fails(path, ["main.o", "-jd", "Foo", "f.o", "g.o"]);
    assert!(said.contains("Symbols not found: [ f ]"), "{said}");
    // Foo does not look into main.
    let said = fails(path, ["main.o", "g.o", "-lFoo", "-jd", "Foo", "f.o"]);
    assert!(said.contains("Symbols not found: [ g ]"), "{said}");
    // The entry may be anywhere.
    assert_eq!(
        status(&["g.o", "-jd", "Foo", "main.o", "f.o", "g.o"]),
        Some(42)
    );
}

#[test]
fn options_belong_to_their_dylib() {
    let folder = objects(FILES);
    let path = folder.path();
    let status = |words: &[&str]| jit(path, words).status.code();
    let foo = ["main.o", "-lFoo", "-jd", "Foo", "f.o"];
    let alias = [&foo[..], &["other.o", "-alias", "h=g"]].concat();
    assert_eq!(status(&[&["-entry=h"][..], &alias].concat()), Some(3));
    let named = [&["-alias", "Foo:h=Foo:g", "-entry=h"][..], &foo, &["g.o"]].concat();
    assert_eq!(status(&named), Some(2));
    let said = fails(path, [&foo[..], &["g.o", "-Lnowhere"]].concat());
    assert!(said.contains("While linking Foo, -Lnowhere"), "{said}");
    let said = fails(path, [&foo[..], &["g.o", "-lnone"]].concat());
    assert!(
        said.contains("While linking Foo, could not find library for -lnone"),
        "{said}"
    );
    let said = fails(path, ["main.o", "-weak-lFoo", "-jd", "Foo", "f.o", "g.o"]);
    assert!(
        said.contains("Can't use -weak-lx or -weak_library to load JITDylib Foo"),
        "{said}"
    );
}

#[test]
fn initializers_run_behind_those_that_are_needed() {
    let folder = objects(
        "//--- main.c\n#include <stdio.h>\nvoid f(void);\n\
         __attribute__((constructor)) static void c(void) { puts(\"main begins\"); }\n\
         __attribute__((destructor)) static void d(void) { puts(\"main ends\"); }\n\
         int main(void) { f(); return 0; }\n\
         //--- f.c\n#include <stdio.h>\nvoid f(void) { puts(\"f\"); }\n\
         __attribute__((constructor)) static void c(void) { puts(\"f begins\"); }\n\
         __attribute__((destructor)) static void d(void) { puts(\"f ends\"); }\n",
    );
    let output = succeeds(folder.path(), ["main.o", "-lFoo", "-jd", "Foo", "f.o"]);
    assert_eq!(
        output.text(),
        "f begins\nmain begins\nf\nmain ends\nf ends\n"
    );
}

/// `main` calls `f` for one argument and `g` for more; `broken` refers to nothing.
const LAZY: &str = "//--- main.c\nint f(void); int g(void); int broken(void);\n\
    int main(int n, char **v) { return n == 1 ? f() + f() : n == 2 ? g() : broken(); }\n\
    //--- f.c\nint f(void) { return 4; }\n\
    //--- g.c\nint f(void); int g(void) { return 1 + f(); }\n\
    //--- broken.c\nint nowhere(void); int broken(void) { return nowhere(); }\n";

#[test]
fn lazy_functions_are_linked_when_they_are_called() {
    let folder = objects(LAZY);
    let path = folder.path();
    let words = [
        "-show-linked-files",
        "main.o",
        "-lazy",
        "f.o",
        "-lazy",
        "g.o",
        "-lazy",
        "broken.o",
    ];
    let output = jit(path, words);
    assert_eq!(output.status.code(), Some(8));
    assert_eq!(
        output.text(),
        "Linking main.o\nLinking <indirect stubs graph #1>\nLinking f.o\n"
    );
    let output = jit(path, [&words[..], &["-args", "x"]].concat());
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(
        output.text(),
        "Linking main.o\nLinking <indirect stubs graph #1>\nLinking g.o\nLinking f.o\n"
    );
    // What cannot be linked is told when it is called.
    let output = jit(path, [&words[..], &["-args", "x", "y"]].concat());
    assert_eq!(output.status.code(), None, "it was not aborted");
    assert!(
        output
            .errors()
            .contains("broken was called and cannot be linked"),
        "{}",
        output.errors()
    );

    let said = fails(
        path,
        [
            "main.o", "-lazy", "f.o", "g.o", "broken.o", "-harness", "h.o",
        ],
    );
    assert!(
        said.contains("Lazy linking cannot be used with -harness mode"),
        "{said}"
    );
}

#[test]
fn calls_are_recorded_and_linked_ahead() {
    let folder = objects(LAZY);
    let path = folder.path();
    let lazy = [
        "main.o", "-lazy", "f.o", "-lazy", "g.o", "-lazy", "broken.o",
    ];
    let simple = ["-speculate=simple", "-record-lazy-execs=calls"];
    // On one thread nothing is linked ahead.
    let one = [
        &simple[..],
        &["-num-threads=1", "-show-linked-files"],
        &lazy,
    ]
    .concat();
    let output = jit(path, [&one[..], &["-args", "x"]].concat());
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(
        output.text(),
        "Linking main.o\nLinking <indirect stubs graph #1>\nLinking g.o\nLinking f.o\n"
    );
    let calls = fs::read_to_string(path.join("calls")).unwrap();
    assert_eq!(calls, "main, g\nmain, f\n");

    // On two threads everything that can be is, sooner or later; the result is the same.
    let two = ["-speculate-order=calls", "-num-threads=2"];
    let output = jit(path, [&simple[..], &two, &lazy].concat());
    assert_eq!(
        (output.status.code(), output.errors().as_str()),
        (Some(8), "")
    );
    assert_eq!(fs::read_to_string(path.join("calls")).unwrap(), "main, f\n");

    for (line, why) in [
        ("f", "missing ',' separator"),
        ("\n ,f", "no value for column 1 (JIT Dylib name)"),
        ("main, ", "no value for column 2 (function name)"),
    ] {
        fs::write(path.join("order"), line).unwrap();
        let said = fails(
            path,
            [&simple[..], &["-speculate-order=order"], &lazy].concat(),
        );
        let number = line.lines().count();
        let expected = format!("Error in speculation order file \"order\" on line {number}: {why}");
        assert!(said.contains(&expected), "{said}");
    }
    let output = succeeds(
        path,
        [
            "-noexec",
            "-speculate=simple",
            "-record-lazy-execs=x",
            "f.o",
            "-entry=f",
        ],
    );
    assert_eq!(
        output.errors(),
        "Warning: -speculate ignored as there are no -lazy inputs\n\
         Warning: -record-lazy-execs ignored because speculation is disabled\n"
    );
}
