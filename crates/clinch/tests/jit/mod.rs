//! `clinch jit`, the stand-in for llvm-jitlink: its options, its check language, its texts. Where
//! llvm-jitlink itself is there, it is asked as well.

mod check;
mod debug_only;
mod dylibs;
mod executor;
mod options;
mod probes;
mod show;

use crate::support::{Output, clinch, run};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Runs `clinch jit` in a folder.
fn jit<I>(folder: &Path, words: I) -> Output
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let words = words.into_iter().map(Into::into);
    let mut command = Command::new(clinch());
    command.arg("jit").args(words).current_dir(folder);
    run(&mut command, b"")
}

/// The same, which must succeed.
#[track_caller]
fn succeeds<I>(folder: &Path, words: I) -> Output
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let output = jit(folder, words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

/// The same, which must fail; answers what was said.
#[track_caller]
fn fails<I>(folder: &Path, words: I) -> String
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let output = jit(folder, words);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!output.errors().contains("panicked"), "{output:?}");
    output.errors()
}

/// Assembles parts of a text, each under the name that it has, into objects in a new folder.
fn objects(text: &str) -> tempfile::TempDir {
    let folder = crate::support::scratch();
    let source = crate::support::Source::new(text);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("//--- ") {
            let object = Path::new(name).with_extension("o");
            let built = source.object(name, "");
            std::fs::copy(built, folder.path().join(object)).expect("a scratch file");
        }
    }
    folder
}

/// A program that answers 0 and has one of everything that rules can name.
const PROGRAM: &str = "//--- main.s\n\
    .text\n.globl main\n.type main,@function\nmain: xorl %eax, %eax\nret\n.size main,.-main\n\
    .globl calls\n.type calls,@function\ncalls: call far@plt\nleal data@GOTPCREL(%rip), %eax\n\
    movl $data, low\nret\n.size calls,.-calls\n\
    .data\n.globl data\n.type data,@object\n.p2align 3\ndata: .quad 42\n.size data,8\n\
    .p2align 2\nlow: .long 7\n.size low,4\n.type low,@object\n\
    .comm common,16,8\n\
    .section .note.GNU-stack,\"\",@progbits\n";
