//! Options of `clinch jit`, and what is said when something is wrong.

use super::{PROGRAM, fails, jit, objects, succeeds};
use crate::support::{archive, clinch, run};
use std::fs;
use std::process::Command;

const TWO: &str = "//--- main.c\nint f(void);\nint main(int c, char **v) { return f() + c; }\n\
                   //--- f.c\nint f(void) { return 20; }\n//--- g.c\nint f(void) { return 30; }\n";

#[test]
fn programs_run_and_their_status_is_the_tools() {
    let folder = objects(TWO);
    let run = |words: &[&str]| jit(folder.path(), words).status.code();
    assert_eq!(run(&["main.o", "f.o"]), Some(21));
    assert_eq!(run(&["main.o", "f.o", "-args", "x", "-noexec"]), Some(23));
    assert_eq!(run(&["--noexec", "main.o", "f.o"]), Some(0));
    assert_eq!(run(&["-entry=f", "main.o", "f.o"]), Some(20));
    assert_eq!(run(&["-noexec", "--", "main.o", "f.o"]), Some(0));
}

#[test]
fn the_program_may_choose_the_status() {
    let folder = objects(
        "//--- main.c\nvoid llvm_jitlink_setTestResultOverride(long);\n\
         int main(void) { llvm_jitlink_setTestResultOverride(7); return 3; }\n",
    );
    assert_eq!(jit(folder.path(), ["main.o"]).status.code(), Some(7));
}

#[test]
fn absolute_symbols_are_values() {
    let folder = objects(
        "//--- main.s\n.globl main\nmain: movl $value, %eax\nret\n\
         //--- small.s\n.globl main\nmain: ret\n.data\n.globl d\nd: .short value\n",
    );
    let path = folder.path();
    assert_eq!(
        jit(path, ["-abs", "value=0x2a", "main.o"]).status.code(),
        Some(42)
    );
    // No stub stands in for a value.
    let said = fails(path, ["-noexec", "-abs", "value=0x12345", "small.o"]);
    let head = "llvm-jitlink error: In graph small.o, section .data: relocation target 0x12345 \
                (value) is out of range of Pointer16 fixup at address 0x";
    assert!(said.starts_with(head), "{said}");
    let said = fails(path, ["-noexec", "-abs", "value", "main.o"]);
    assert!(
        said.contains("Invalid absolute define \"value\". Syntax: <name>=<addr>"),
        "{said}"
    );
    let said = fails(path, ["-noexec", "-abs", "value=y", "main.o"]);
    assert!(
        said.contains("Invalid address expression \"y\" in absolute symbol definition \"value=y\""),
        "{said}"
    );
}

#[test]
fn aliases() {
    let folder = objects(TWO);
    let path = folder.path();
    let other = objects("//--- h.c\nint h(void) { return 40; }\n");
    fs::copy(other.path().join("h.o"), path.join("h.o")).unwrap();
    assert_eq!(
        jit(path, ["-alias", "f=h", "main.o", "h.o"]).status.code(),
        Some(41)
    );
    assert_eq!(
        jit(path, ["-alias=main:f=main:h", "main.o", "h.o"])
            .status
            .code(),
        Some(41)
    );
    // The entry may be one; so may what the process has.
    assert_eq!(
        jit(path, ["-alias", "x=h", "-entry=x", "h.o"])
            .status
            .code(),
        Some(40)
    );
    let status = jit(path, ["-alias", "f=getpagesize", "-noexec", "main.o"])
        .status
        .code();
    assert_eq!(status, Some(0));
    // Nobody uses it.
    succeeds(path, ["-noexec", "-alias", "x=nowhere", "main.o", "f.o"]);
    let said = fails(path, ["-alias", "other:f=h", "main.o", "h.o"]);
    assert!(said.contains("no dylib named other"), "{said}");
}

#[test]
fn sections_from_files() {
    let folder = objects(
        "//--- main.s\n.globl main\nmain: movzbl last(%rip), %eax\nret\n\
         //--- plain.s\n.globl main\nmain: xorl %eax,%eax\nret\n",
    );
    let path = folder.path();
    fs::write(path.join("data"), b"abcd\x05").unwrap();
    let words = ["-sectcreate", "own,data@first=0,last=4", "main.o"];
    assert_eq!(jit(path, words).status.code(), Some(5));
    fs::write(
        path.join("rules"),
        "# jitlink-check: *{4}first = 0x64636261\n",
    )
    .unwrap();
    let checked = [&words[..], &["-noexec", "-check=rules"]].concat();
    succeeds(path, checked);
    // On demand: nothing refers to it.
    let output = succeeds(
        path,
        [
            "-noexec",
            "-show-linked-files",
            "-sectcreate",
            "own,data@first=0",
            "plain.o",
        ],
    );
    assert_eq!(output.text(), "Linking plain.o\n");
    for (value, why) in [
        (
            "own",
            "In -sectcreate=own, filename component cannot be empty",
        ),
        ("own,missing", "'missing': No such file or directory"),
        (
            "own,data@x",
            "In -sectcreate=own,data@x,  is not a valid integer",
        ),
        (
            "own,data@x=y",
            "In -sectcreate=own,data@x=y, y is not a valid integer",
        ),
    ] {
        let said = fails(path, ["-noexec", "-sectcreate", value, "plain.o"]);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_harness_replaces_definitions_and_reaches_static_ones() {
    let folder = objects(
        "//--- test.c\nint real(void) { return 1; }\nstatic int hidden(void) { return 4; }\n\
         int (*volatile keep)(void) = hidden;\nint whole(void) { return real() + keep(); }\n\
         int main(void) { return 99; }\n\
         //--- harness.c\nint whole(void), hidden(void);\nint real(void) { return 10; }\n\
         int main(void) { return whole() * 4 + hidden(); }\n",
    );
    let path = folder.path();
    assert_eq!(jit(path, ["test.o"]).status.code(), Some(99));
    let output = jit(path, ["test.o", "-harness", "harness.o"]);
    assert_eq!(output.status.code(), Some((10 + 4) * 4 + 4), "{output:?}");
    assert!(fails(path, ["test.o", "-harness", "missing.o"]).contains("'missing.o': No such file"));
}

#[test]
fn archives_and_libraries() {
    let folder = objects(TWO);
    let path = folder.path();
    let library = archive("libf.a", "ar", "rcs", &[path.join("f.o")]);
    fs::copy(library, path.join("libf.a")).unwrap();
    for words in [
        &["main.o", "-L.", "-lf"][..],
        &["main.o", "-L", ".", "-l", "f"],
        &["main.o", "-L.", "-hidden-lf"],
        &["main.o", "-load_hidden", "libf.a"],
        &["main.o", "libf.a"],
        &["-all_load", "main.o", "libf.a"],
        &["-ObjC", "main.o", "libf.a"],
        &["-preload=libm.so.6", "main.o", "libf.a"],
    ] {
        assert_eq!(jit(path, words).status.code(), Some(21), "{words:?}");
    }
    fs::copy(path.join("f.o"), path.join("object.a")).unwrap();
    for (words, why) in [
        (
            &["main.o", "-lf"][..],
            "While linking main, could not find library for -lf",
        ),
        (
            &["main.o", "-hidden-lf"],
            "While linking main, could not find libf.a",
        ),
        (
            &["main.o", "-L./missing", "-lf"],
            "-L./missing does not point to a directory",
        ),
        (
            &["main.o", "object.a"],
            "'object.a': object.a does not contain an archive",
        ),
        (
            &["main.o", "-load_hidden", "no.a"],
            "'no.a': No such file or directory",
        ),
        (
            &["main.o", "-preload=no.so"],
            "no.so: cannot open shared object file",
        ),
        (
            &["main.o", "-weak_library", "f.o"],
            "Cannot get interface for f.o unrecognized file type",
        ),
        (&["main.o", "-weak-lno"], "could not find library for -lno"),
    ] {
        let said = fails(path, words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
}

#[test]
fn symbols_of_weak_libraries_are_zero() {
    let folder = objects(
        "//--- main.c\nextern int f(void) __attribute__((weak));\nint main(void) { return f == 0; }\n\
         //--- f.c\nint f(void) { return 20; }\n",
    );
    let path = folder.path();
    let library = crate::support::link_shared("libweak.so", "", &[path.join("f.o")]);
    fs::copy(library, path.join("libweak.so")).unwrap();
    for words in [
        &["main.o", "-L.", "-weak-lweak"][..],
        &["main.o", "-weak_library=libweak.so"],
    ] {
        let output = jit(path, words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.errors().is_empty(), "{output:?}");
    }
}

#[test]
fn messages() {
    let folder = objects(TWO);
    let path = folder.path();
    fs::write(path.join("junk.o"), "this is no object\n").unwrap();
    let said = fails(path, ["-noexec", "main.o", "f.o", "g.o"]);
    assert_eq!(
        said,
        "llvm-jitlink error: In g.o, duplicate definition of symbol 'f'\n\
         >>> defined at f.o:(.text+0x0)\n>>> defined at g.o:(.text+0x0)\n"
    );
    let said = fails(path, ["-noexec", "main.o"]);
    assert!(
        said.starts_with("llvm-jitlink error: Symbols not found: [ f ]\n"),
        "{said}"
    );
    assert!(said.contains("referenced by main.o:"), "{said}");
    let said = fails(path, ["-noexec", "f.o"]);
    assert_eq!(said, "llvm-jitlink error: Symbols not found: [ main ]\n");
    let said = fails(path, ["-noexec", "-show-err-failed-to-materialize", "f.o"]);
    let (_, said) = said.split_once('\n').unwrap();
    assert_eq!(
        said,
        "llvm-jitlink error: Failed to materialize symbols: { (main, { main }) }\n"
    );
    let said = fails(path, ["-noexec", "junk.o"]);
    assert!(
        said.contains("junk.o does not contain a relocatable object file"),
        "{said}"
    );
    let said = fails(path, ["-noexec", "no.o"]);
    assert_eq!(
        said,
        "llvm-jitlink error: 'no.o': No such file or directory\n"
    );
    assert!(fails(path, ["-noexec", "main.o", "-badopt"]).contains("unknown option -badopt"));
    assert!(fails(path, ["-noexec"]).contains("no input files"));
    assert!(fails(path, ["main.o", "-triple=z80-none"]).contains("z80-none"));
    let said = fails(path, ["main.o", "-slab-address=5"]);
    assert!(
        said.contains("-slab-address requires -slab-allocate and -noexec"),
        "{said}"
    );
    assert!(fails(path, ["main.o", "-show-graphs=("]).contains("-show-graphs"));
}

/// What cannot be together is refused, what has no effect is told; as by llvm-jitlink.
#[test]
fn combinations() {
    let folder = objects(TWO);
    let path = folder.path();
    let refused: &[(&[&str], &str)] = &[
        (
            &["-slab-allocate=1Mb", "-oop-executor"],
            "-slab-allocate cannot be used with -oop-executor or -oop-executor-connect",
        ),
        (
            &["-slab-page-size=4096"],
            "-slab-page-size requires -slab-allocate",
        ),
        (
            &["-slab-allocate=1Mb", "-slab-page-size=1024"],
            "-slab-page-size must be a multiple of real page size for exec tests",
        ),
        (
            &["-noexec", "-oop-executor"],
            "-noexec cannot be used with oop-executor or oop-executor-connect",
        ),
        (
            &["-num-threads=0", "-oop-executor"],
            "-threads=0 cannot be used with oop-executor or oop-executor-connect",
        ),
        (
            &["-noexec=maybe"],
            "'maybe' is invalid value for boolean argument! Try 0 or 1",
        ),
        // One page each for code and for what can be read is more than this.
        (&["-slab-allocate=4"], "slab of 0x1000 bytes is too small"),
    ];
    for (words, why) in refused {
        let said = fails(path, [words, &["main.o", "f.o"][..]].concat());
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let output = jit(path, ["-slab-allocate=64", "main.o", "f.o"]);
    assert!(output.errors().is_empty(), "{output:?}");
    let output = succeeds(path, ["-noexec", "main.o", "f.o", "-args", "x"]);
    assert_eq!(
        output.errors(),
        "Warning: --args passed to -noexec run will be ignored.\n"
    );
    let slab = [
        "-noexec=1",
        "-slab-allocate=64",
        "-slab-address=0b1000000000000",
    ];
    let output = succeeds(path, [&slab[..], &["main.o", "f.o"]].concat());
    assert_eq!(
        output.errors(),
        "Warning: -slab-address used without -slab-page-size.\n"
    );
    // -noexec=false is none.
    let output = jit(path, ["-noexec=false", "-oop-executor", "main.o", "f.o"]);
    assert!(output.errors().is_empty(), "{output:?}");
}

/// What needs another process, or a profiler of another maker, is refused by name.
#[test]
fn what_is_refused() {
    let folder = objects(TWO);
    for option in ["-use-memmgr=shared", "-vtune-support"] {
        let said = fails(folder.path(), ["-noexec", option, "main.o", "f.o"]);
        assert!(said.contains(option) && said.lines().count() == 1, "{said}");
    }
    let words = [
        "-noexec",
        "-speculate=none",
        "-use-memmgr=default",
        "-color",
        "main.o",
        "f.o",
    ];
    succeeds(folder.path(), words);
}

/// The runtime's archive is not needed, but a wrong path is a mistake.
#[test]
fn the_archive_of_a_runtime() {
    let folder = objects(TWO);
    fs::write(folder.path().join("rt.a"), b"!<arch>\n").unwrap();
    succeeds(
        folder.path(),
        ["-noexec", "-orc-runtime=rt.a", "main.o", "f.o"],
    );
    for (path, why) in [
        ("nowhere.a", "No such file or directory"),
        ("f.o", "does not contain an archive"),
    ] {
        let option = format!("-orc-runtime={path}");
        let said = fails(folder.path(), ["-noexec", &option, "main.o", "f.o"]);
        assert!(said.contains(path) && said.contains(why), "{said}");
    }
}

#[test]
fn symbol_tables_and_backtraces() {
    let folder = objects(PROGRAM);
    let path = folder.path();
    let slab = [
        "-slab-allocate=1Mb",
        "-slab-address=0x10000000",
        "-slab-page-size=4096",
    ];
    let words = ["-noexec", "-write-symtab=table", "-abs=far=0", "main.o"];
    succeeds(path, words.into_iter().chain(slab));
    let table = fs::read_to_string(path.join("table")).unwrap();
    assert!(table.starts_with("\"main.o\"\n"), "{table}");
    let main = table
        .lines()
        .find_map(|line| line.strip_suffix(" main"))
        .unwrap();
    let calls = table
        .lines()
        .find_map(|line| line.strip_suffix(" calls"))
        .unwrap();
    fs::write(
        path.join("trace"),
        format!("#0 {main}\n#1 {calls} (other)\n"),
    )
    .unwrap();
    let mut command = Command::new(clinch());
    command
        .args(["jit", "-symbolicate-with=table", "trace", "-"])
        .current_dir(path);
    let inside = u64::from_str_radix(calls.trim_start_matches("0x"), 16).unwrap() + 5;
    let output = run(&mut command, format!("#2 {inside:#x}\n").as_bytes());
    let expected =
        format!("#0 {main} main (main.o)\n#1 {calls} (other)\n#2 {inside:#x} calls + 5 (main.o)\n");
    assert_eq!(output.text(), expected, "{output:?}");
    assert!(fails(path, ["-symbolicate-with=no", "trace"]).contains("'no': No such file"));
}
