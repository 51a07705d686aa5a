//! The rule that unsafe code lies in few listed places, each of which argues it.

use super::Finding;
use super::files::File;
use super::scan::has_word;

/// The places, and what for. A folder ends with `/`.
static ALLOWED: &[(&str, &str)] = &[
    (
        "crates/clinch-graph/src/index/pages.rs",
        "advises the system about memory",
    ),
    ("crates/clinch-object/src/input.rs", "maps input files"),
    ("crates/clinch-jit/src/memory/", "maps and protects memory"),
    (
        "crates/clinch-jit/src/runtime/",
        "starts programs, is called by linked code",
    ),
    (
        "crates/clinch-jit/src/process.rs",
        "has linked code run in this process",
    ),
    (
        "crates/clinch-jit/src/session/core.rs",
        "runs what linked code left to be run",
    ),
    (
        "crates/clinch-jit/src/session/executor.rs",
        "starts programs and ends them",
    ),
    (
        "crates/clinch-jit/src/session/open.rs",
        "runs initializers, handlers and finalizers",
    ),
    (
        "crates/clinch-jit/src/session/platform.rs",
        "is called by linked code",
    ),
    (
        "crates/clinch-jit/src/session/lazy.rs",
        "changes where linked code jumps",
    ),
    (
        "crates/clinch-jit/src/session/stubs.rs",
        "changes where linked code jumps",
    ),
    (
        "crates/clinch-jit/src/session/tracker.rs",
        "takes linked code away",
    ),
    (
        "crates/clinch-executor/src/system/",
        "maps memory, runs linked code, tells the process of it, starts processes",
    ),
    (
        "crates/clinch-jit/src/debug/perf.rs",
        "asks for clocks, maps the file that perf looks for",
    ),
    ("crates/clinch/src/command/mod.rs", "runs what was linked"),
    (
        "crates/clinch/src/command/jit/executor.rs",
        "runs what was linked",
    ),
    (
        "crates/clinch-jit/examples/plugins/",
        "runs what it linked, reads a counter of linked code",
    ),
    ("crates/clinch-jit/tests/", "runs what it linked"),
    ("xtask/src/measure.rs", "wait4"),
];

/// This file, for findings about the list.
const THIS: &str = "xtask/src/lint/unsafe_code.rs";

/// Looks for the word in code, tests included.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if is_allowed(&file.path) {
        return Vec::new();
    }
    let lines = file.lines.iter().enumerate();
    lines
        .filter(|(_, line)| has_word(&line.code, "unsafe"))
        .map(|(index, _)| {
            let text = format!("unsafe code outside the places listed in {THIS}");
            Finding::new(&file.path, index + 1, text)
        })
        .collect()
}

/// A place that needs its exception no more should lose it.
pub(super) fn check_list(files: &[File]) -> Vec<Finding> {
    let unneeded = ALLOWED.iter().filter(|(place, _)| {
        let inside = files.iter().filter(|file| matches(place, &file.path));
        !inside
            .flat_map(|file| &file.lines)
            .any(|line| has_word(&line.code, "unsafe"))
    });
    unneeded
        .map(|(place, _)| Finding::warning(THIS, 0, format!("{place} has no unsafe code")))
        .collect()
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|(place, _)| matches(place, path))
}

fn matches(place: &str, path: &str) -> bool {
    path == place || (place.ends_with('/') && path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_places_only() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nlet a = \"unsafe\";\nunsafe { f() }\n";
        let lines = |path: &str| -> Vec<usize> {
            check(&File::new(path, text))
                .iter()
                .map(|finding| finding.line)
                .collect()
        };
        assert_eq!(lines("crates/clinch-link/src/a.rs"), [4]);
        assert_eq!(lines("crates/clinch-object/src/input.rs"), [0; 0]);
        assert_eq!(lines("crates/clinch-jit/src/memory/plan.rs"), [0; 0]);
        assert_eq!(lines("crates/clinch-jit/src/memory.rs"), [4]);
    }

    #[test]
    fn stale_places() {
        let needed = File::new("crates/clinch-object/src/input.rs", "unsafe {}");
        let findings = check_list(&[needed]);
        assert_eq!(findings.len(), ALLOWED.len() - 1);
        assert!(findings.iter().all(|finding| finding.only_warns));
    }
}
