//! Compilers and assemblers.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io, thread};

/// Whether all these tools can be called. If not, says so, or fails where `CI` is set.
pub(crate) fn available(tools: &[&str]) -> bool {
    for tool in tools {
        let found = env::var_os("PATH")
            .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(tool).is_file()));
        if !found {
            assert!(env::var_os("CI").is_none(), "no {tool}");
            skipped(tool);
            return false;
        }
    }
    true
}

/// Writes past the harness, which keeps what a passing test prints to itself.
fn skipped(tool: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("test");
    let _ = writeln!(io::stderr(), "skipped: {test}: no {tool}");
}

/// Runs a tool on a file of this name and text; `{in}`, `{dir}` and `{out}` in its words are the
/// file, its folder and what to write. Answers what was written; `None` when the tool is missing.
pub(crate) fn make(tool: &str, words: &[&str], name: &str, text: &str) -> Option<Vec<u8>> {
    if !available(&[tool]) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join(name), folder.path().join("out.o"));
    fs::write(&input, text).unwrap();
    let mut command = Command::new(tool);
    for word in words {
        let word = word.replace("{in}", input.to_str().unwrap());
        let word = word.replace("{dir}", folder.path().to_str().unwrap());
        command.arg(word.replace("{out}", output.to_str().unwrap()));
    }
    let result = command.output().unwrap();
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{command:?}: {said}");
    Some(fs::read(output).unwrap())
}

/// An object of the text by LLVM's assembler, with more options.
pub(crate) fn llvm_mc(text: &str, options: &[&str]) -> Option<Vec<u8>> {
    let mut words = vec![
        "-filetype=obj",
        "-triple=x86_64-linux-gnu",
        "{in}",
        "-o",
        "{out}",
    ];
    words.extend(options);
    make("llvm-mc-22", &words, "t.s", text)
}

/// An object of the text by the GNU assembler.
pub(crate) fn gnu_as(text: &str) -> Option<Vec<u8>> {
    make("as", &["--64", "{in}", "-o", "{out}"], "t.s", text)
}

/// An object of a C or C++ source by clang, with more options.
pub(crate) fn clang(name: &str, text: &str, options: &[&str]) -> Option<Vec<u8>> {
    let mut words = vec![
        "--target=x86_64-linux-gnu",
        "-ffile-prefix-map={dir}=.",
        "-c",
        "{in}",
        "-o",
        "{out}",
    ];
    words.extend(options);
    make("clang-22", &words, name, text)
}

/// What a tool says of a file with these bytes.
pub(crate) fn says(tool: &str, options: &[&str], bytes: &[u8]) -> Option<String> {
    if !available(&[tool]) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.o");
    fs::write(&file, bytes).unwrap();
    Some(run(tool, options, &file))
}

fn run(tool: &str, options: &[&str], file: &Path) -> String {
    let result = Command::new(tool).args(options).arg(file).output().unwrap();
    assert!(
        result.status.success(),
        "{tool}: {}",
        String::from_utf8_lossy(&result.stderr)
    );
    String::from_utf8(result.stdout).unwrap()
}
