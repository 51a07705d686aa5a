//! Rules on files as text: the header, the size, line ends, left-overs.

use super::Finding;
use super::files::File;
use super::scan::has_word;

/// From here on a file is longer than one likes.
const LONG: usize = 800;
/// From here on it must be split or stand on the list.
const TOO_LONG: usize = 1200;

/// Files that may be longer, each with the reason: tables.
static LONG_FILES: &[(&str, &str)] = &[];

/// Words that mark something unfinished, in comments.
const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];
/// Code that nothing finished holds.
const CALLS: &[&str] = &["dbg!", "todo!", "unimplemented!", "#[ignore"];

/// All rules of this file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    line_ends(file, &mut findings);
    if file.is_rust() {
        header(file, &mut findings);
        size(file, &mut findings);
        left_overs(file, &mut findings);
    }
    findings
}

/// The list of long files must hold no file that it does not need to.
pub(super) fn check_list(files: &[File]) -> Vec<Finding> {
    let unneeded = LONG_FILES.iter().filter(|(path, _)| {
        let file = files.iter().find(|file| file.path == *path);
        file.is_none_or(|file| file.lines.len() <= TOO_LONG)
    });
    unneeded
        .map(|(path, _)| {
            let text = format!("{path} is listed as a long file, but is none");
            Finding::new("xtask/src/lint/text.rs", 0, text)
        })
        .collect()
}

fn line_ends(file: &File, findings: &mut Vec<Finding>) {
    if let Some(index) = file.text.split('\n').position(|line| line.ends_with('\r')) {
        findings.push(Finding::new(&file.path, index + 1, "line ends with CR LF"));
    }
}

fn header(file: &File, findings: &mut Vec<Finding>) {
    let first = file.text.lines().find(|line| !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        let text = "no header: a file begins with `//!` and says what it holds";
        findings.push(Finding::new(&file.path, 1, text));
    }
}

fn size(file: &File, findings: &mut Vec<Finding>) {
    let n = file.lines.len();
    if n > TOO_LONG {
        if !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
            let text = format!("{n} lines: more than {TOO_LONG}, split it by topic");
            findings.push(Finding::new(&file.path, TOO_LONG, text));
        }
    } else if n > LONG {
        let text = format!("{n} lines: more than {LONG}");
        findings.push(Finding::warning(&file.path, LONG, text));
    }
}

fn left_overs(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.lines.iter().enumerate() {
        for mark in MARKS {
            if has_word(&line.comment, mark) {
                let text = format!("{mark} in a comment: what is left goes on the issue");
                findings.push(Finding::new(&file.path, index + 1, text));
            }
        }
        for call in CALLS {
            if line.code.contains(call) {
                let text = format!("`{call}` left in the code");
                findings.push(Finding::new(&file.path, index + 1, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<String> {
        let findings = check(&File::new(path, text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn headers() {
        assert!(texts("a.rs", "//! Good.\n").is_empty());
        assert_eq!(texts("a.rs", "// Bad.\n").len(), 1);
        assert_eq!(texts("a.rs", "").len(), 1);
        assert!(texts("a.md", "# Other").is_empty());
    }

    #[test]
    fn sizes() {
        let of = |n: usize| format!("//! A.\n{}", "\n".repeat(n - 1));
        assert!(texts("a.rs", &of(800)).is_empty());
        let found = texts("a.rs", &of(801));
        assert!(
            found[0].starts_with("a.rs:800: warning: 801 lines"),
            "{found:?}"
        );
        let found = texts("a.rs", &of(1201));
        assert!(
            found[0].starts_with("a.rs:1200: error: 1201 lines"),
            "{found:?}"
        );
    }

    #[test]
    fn line_ends_everywhere() {
        let found = texts("a.md", "one\ntwo\r\nthree\n");
        assert_eq!(found, ["a.md:2: error: line ends with CR LF"]);
    }

    #[test]
    fn left_overs_in_code_and_comments_only() {
        let found = texts(
            "a.rs",
            "//! A.\n// TODO: more\nlet a = \"TODO dbg!\";\ndbg!(a);\n",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:2: error: TODO"), "{found:?}");
        assert!(found[1].starts_with("a.rs:4: error: `dbg!`"), "{found:?}");
        let found = texts("a.rs", "//! A.\n#[ignore = \"slow\"]\nfn f() {}\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(texts("a.rs", "//! MYTODO_LIST is a name.\n").is_empty());
    }
}
