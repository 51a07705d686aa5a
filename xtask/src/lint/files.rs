//! The files that the rules look at: all text of the project, without what builds and fuzzing
//! leave behind.

use super::scan::{self, Line};
use crate::shell::{Context, Result};
use std::fs;
use std::path::Path;

/// Folders that hold nothing of ours, by name, wherever they are.
const SKIPPED: &[&str] = &[
    "target",
    ".git",
    "corpus",
    "artifacts",
    "regressions",
    "node_modules",
];

/// A text file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative to the workspace, with `/`.
    pub(super) path: String,
    /// The whole text.
    pub(super) text: String,
    /// For Rust: each line taken apart.
    pub(super) lines: Vec<Line>,
    /// For Rust: the index of the first line of the unit tests at the end of the file.
    pub(super) tests: usize,
}

impl File {
    /// Takes a file apart.
    pub(super) fn new(path: &str, text: &str) -> Self {
        let (lines, tests) = if path.ends_with(".rs") {
            let lines = scan::lines(text);
            let tests = scan::first_test_line(&lines);
            (lines, tests)
        } else {
            (Vec::new(), 0)
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            lines,
            tests,
        }
    }

    /// Whether the file is Rust.
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is tests.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

/// All text files below `root`, in order.
pub(super) fn read_all(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    read_folder(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result {
    for entry in fs::read_dir(folder).context(folder.display())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                read_folder(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).context(&path)?;
            // Test inputs may be binary.
            if let Ok(text) = String::from_utf8(bytes)
                && !text.contains('\0')
            {
                files.push(File::new(&path, &text));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    #[test]
    fn reads_this_project() {
        let files = read_all(shell::root()).unwrap();
        let find = |path: &str| files.iter().find(|file| file.path == path);
        let this = find("xtask/src/lint/files.rs").unwrap();
        assert!(this.is_rust() && this.tests > 50 && this.tests < this.lines.len());
        assert!(find("Cargo.toml").is_some());
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }

    #[test]
    fn tests_by_path() {
        for (path, expected) in [
            ("crates/a/tests/main.rs", true),
            ("crates/a/src/b/tests.rs", true),
            ("crates/a/src/b/tests/c.rs", true),
            ("crates/a/src/contests.rs", false),
        ] {
            assert_eq!(File::new(path, "").is_test(), expected, "{path}");
        }
    }
}
