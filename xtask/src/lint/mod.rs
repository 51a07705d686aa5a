//! `cargo xtask lint`: format, our own rules, clippy, documentation. Any warning fails; what only
//! should be better is printed as a warning and passes.
//!
//! The own rules: [`text`] looks at files as text, [`names`] for architectures where they may not
//! be named, [`unsafe_code`] for unsafe code outside the list, [`layers`] and [`dependencies`] at
//! manifests, [`license`] at what dependencies allow. Each finding names file and line.

mod dependencies;
mod files;
mod layers;
mod license;
mod names;
mod scan;
mod text;
mod unsafe_code;

use crate::shell::{self, Context, Failure, Result};
use crate::stage::Stages;
use std::fmt;

/// Something that a rule found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Finding {
    /// Relative to the workspace.
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    text: String,
    /// Printed, but no failure.
    only_warns: bool,
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            text: text.into(),
            only_warns: false,
        }
    }

    fn warning(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            only_warns: true,
            ..Self::new(path, line, text)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.only_warns { "warning" } else { "error" };
        let (path, line, text) = (&self.path, self.line.max(1), &self.text);
        write!(f, "{path}:{line}: {severity}: {text}")
    }
}

/// Runs all stages.
pub(crate) fn run(arguments: &[String]) -> Result {
    if !arguments.is_empty() {
        return Err(Failure::new("usage: cargo xtask lint"));
    }
    let mut stages = Stages::new("lint");
    let nothing = |()| String::new();
    stages.run("format", || {
        shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))?;
        let fuzz = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
        shell::run(&mut shell::cargo(&fuzz)).map(nothing)
    });
    stages.run("rules", own_rules);
    stages.run("clippy", || {
        let all = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        shell::run(&mut shell::cargo(&all)).map(nothing)
    });
    stages.run("documentation", || {
        let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps"]);
        shell::run(doc.env("RUSTDOCFLAGS", "-D warnings")).map(nothing)
    });
    stages.finish()
}

/// Our own rules over everything.
fn own_rules() -> Result<String> {
    let root = shell::root();
    let files = files::read_all(root)?;
    let manifests = dependencies::Manifests::read(root)?;
    let mut findings = Vec::new();
    for file in &files {
        findings.extend(text::check(file));
        findings.extend(names::check(file));
        findings.extend(unsafe_code::check(file));
    }
    findings.extend(unsafe_code::check_list(&files));
    findings.extend(text::check_list(&files));
    findings.extend(layers::check(&manifests));
    findings.extend(dependencies::check(&manifests));
    findings.extend(license::check(&manifests));
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    let errors = findings
        .iter()
        .filter(|finding| !finding.only_warns)
        .count();
    let warnings = findings.len() - errors;
    let remark = format!(
        "{} files, {errors} errors, {warnings} warnings",
        files.len()
    );
    if errors > 0 {
        return Err(Failure::new(remark));
    }
    Ok(remark)
}

/// What `cargo metadata` says of a workspace. In CI the lock file must be up to date.
fn metadata(arguments: &[&str]) -> Result<serde_json::Value> {
    let mut command = shell::cargo(&["metadata", "--format-version", "1"]);
    command.args(arguments);
    if shell::in_ci() {
        command.arg("--locked");
    }
    let text = shell::output(&mut command)?;
    serde_json::from_str(&text).context("cargo metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_the_compilers() {
        let finding = Finding::new("a/b.rs", 7, "no header");
        assert_eq!(finding.to_string(), "a/b.rs:7: error: no header");
        let finding = Finding::warning("a/b.rs", 0, "long");
        assert_eq!(finding.to_string(), "a/b.rs:1: warning: long");
    }
}
