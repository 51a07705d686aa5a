//! Our small programs, in `tests/programs`. One file holds all the parts of a program, in the
//! manner of LLVM's split-file: a line `//--- main.c` (or `#--- main.s`) begins a part. A part
//! named `stdout` is what the program must print.

use super::build::{with_output, words};
use super::{root, target};
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A program's source, split into its parts.
#[derive(Debug)]
pub(crate) struct Source {
    folder: PathBuf,
    parts: Vec<(String, String)>,
}

impl Source {
    /// A file of `tests/programs`.
    pub(crate) fn read(name: &str) -> Self {
        let path = root().join("tests/programs").join(name);
        let read = |path: &Path| {
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let check = read(&root().join("tests/programs/check.h"));
        Self::new(&format!("{}//--- check.h\n{check}", read(&path)))
    }

    /// The same from a text, for sources that a test makes up.
    pub(crate) fn new(text: &str) -> Self {
        let mut parts: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            if let Some(name) = line
                .strip_prefix("//--- ")
                .or_else(|| line.strip_prefix("#--- "))
            {
                parts.push((name.trim().to_owned(), String::new()));
            } else if let Some((_, part)) = parts.last_mut() {
                part.push_str(line);
                part.push('\n');
            }
        }
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        let folder = target()
            .join("test-programs/sources")
            .join(format!("{:016x}", hasher.finish()));
        for (name, part) in &parts {
            write_once(&folder, name, part);
        }
        Self { folder, parts }
    }

    /// The path of a part.
    pub(crate) fn path(&self, part: &str) -> PathBuf {
        assert!(
            self.parts.iter().any(|(name, _)| name == part),
            "no part {part}"
        );
        self.folder.join(part)
    }

    /// The text of a part.
    pub(crate) fn text(&self, part: &str) -> &str {
        match self.parts.iter().find(|(name, _)| name == part) {
            Some((_, text)) => text,
            None => panic!("no part {part}"),
        }
    }

    /// A part compiled by gcc.
    pub(crate) fn object(&self, part: &str, flags: &str) -> PathBuf {
        compile(compiler(part), &self.path(part), flags)
    }

    /// Several parts compiled alike.
    pub(crate) fn objects<const N: usize>(&self, parts: [&str; N], flags: &str) -> [PathBuf; N] {
        parts.map(|part| self.object(part, flags))
    }

    /// A part compiled by clang 22.
    pub(crate) fn clang(&self, part: &str, flags: &str) -> PathBuf {
        let compiler = if part.ends_with(".cpp") {
            "clang++-22"
        } else {
            "clang-22"
        };
        compile(compiler, &self.path(part), flags)
    }
}

/// Writes a file unless it is there already; several tests may share one.
fn write_once(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    if path.exists() {
        return;
    }
    let folder = path.parent().unwrap_or(folder);
    fs::create_dir_all(folder).expect("the cache can be written");
    let new = tempfile::NamedTempFile::new_in(folder).expect("the cache can be written");
    fs::write(new.path(), text).expect("the cache can be written");
    new.persist(&path).expect("the cache can be written");
}

/// The system's compiler for a file.
fn compiler(file: &str) -> &'static str {
    if file.ends_with(".cpp") { "c++" } else { "cc" }
}

/// An object compiled from a file. Its product depends on all headers in the file's folder.
pub(crate) fn compile(compiler: &str, source: &Path, flags: &str) -> PathBuf {
    let mut command: Vec<OsString> = vec![compiler.into()];
    command.extend(words(flags));
    command.extend(["-c".into(), source.into()]);
    let mut inputs = vec![source.to_path_buf()];
    if let Some(folder) = source.parent()
        && let Ok(entries) = fs::read_dir(folder)
    {
        let is_header = |path: &PathBuf| {
            path.extension()
                .is_some_and(|end| end == "h" || end == "hpp" || end == "inc")
        };
        inputs.extend(
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(is_header),
        );
    }
    inputs[1..].sort();
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    with_output(&format!("{stem}.o"), &command, &inputs)
}
