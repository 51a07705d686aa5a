//! Rules on third-party crates: each stands in CONTRIBUTING's table with the version of the
//! manifests, none is there twice, and the table lists nothing that is not used.

use super::{Finding, license, metadata};
use crate::shell::{Context, Failure, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The file with the table.
const TABLE_FILE: &str = "CONTRIBUTING.md";
/// The table's heading.
const HEADING: [&str; 3] = ["crate", "version", "why"];

/// What a crate asks for.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// Such as `1.12`.
    pub(super) version: String,
    /// `normal`, `dev` or `build`.
    pub(super) kind: String,
    /// A crate of this project.
    pub(super) is_ours: bool,
}

/// One crate's manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    /// Relative to the workspace.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) dependencies: Vec<Dependency>,
    text: String,
}

impl Manifest {
    fn read(root: &Path, package: &Value) -> Result<Self> {
        let file = text_of(package, "manifest_path")?;
        let path = Path::new(file)
            .strip_prefix(root)
            .unwrap_or(Path::new(file));
        let dependencies = package["dependencies"]
            .as_array()
            .ok_or_else(|| Failure::new("cargo metadata: no dependencies"))?
            .iter()
            .map(Dependency::read)
            .collect::<Result<_>>()?;
        Ok(Self {
            path: path.to_string_lossy().into_owned(),
            name: text_of(package, "name")?.to_owned(),
            dependencies,
            text: fs::read_to_string(file).context(file)?,
        })
    }

    /// The line where a dependency is named, or 1.
    pub(super) fn line_of(&self, dependency: &str) -> usize {
        let is_it = |line: &str| {
            line.trim_start()
                .strip_prefix(dependency)
                .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        self.text
            .lines()
            .position(is_it)
            .map_or(1, |index| index + 1)
    }
}

impl Dependency {
    fn read(value: &Value) -> Result<Self> {
        let version = text_of(value, "req")?;
        Ok(Self {
            name: text_of(value, "name")?.to_owned(),
            version: version.trim_start_matches(['^', '=', '~']).to_owned(),
            kind: value["kind"].as_str().unwrap_or("normal").to_owned(),
            is_ours: value["path"].is_string(),
        })
    }
}

/// A crate that somebody else published, as it was resolved.
#[derive(Clone, Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: String,
}

/// All manifests and everything they resolve to.
#[derive(Debug)]
pub(super) struct Manifests {
    pub(super) all: Vec<Manifest>,
    /// Everything below the workspace's crates, theirs included.
    pub(super) packages: Vec<Package>,
    /// The lock file.
    pub(super) lock: String,
    /// The text with the table, empty where the file is missing.
    table: String,
}

impl Manifests {
    /// Asks cargo about the workspace and about `fuzz/`, which is one of its own.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let workspace = metadata(&[])?;
        let mut all = Vec::new();
        let mut packages = Vec::new();
        for package in packages_of(&workspace)? {
            if package["source"].is_null() {
                all.push(Manifest::read(root, package)?);
            } else {
                packages.push(Package {
                    name: text_of(package, "name")?.to_owned(),
                    version: text_of(package, "version")?.to_owned(),
                    license: package["license"].as_str().unwrap_or_default().to_owned(),
                });
            }
        }
        if root.join("fuzz/Cargo.toml").exists() {
            let fuzz = metadata(&["--no-deps", "--manifest-path", "fuzz/Cargo.toml"])?;
            for package in packages_of(&fuzz)? {
                all.push(Manifest::read(root, package)?);
            }
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            all,
            packages,
            lock: fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?,
            table: fs::read_to_string(root.join(TABLE_FILE)).unwrap_or_default(),
        })
    }
}

fn packages_of(metadata: &Value) -> Result<&Vec<Value>> {
    metadata["packages"]
        .as_array()
        .ok_or_else(|| Failure::new("cargo metadata: no packages"))
}

fn text_of<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key]
        .as_str()
        .ok_or_else(|| Failure::new(format!("cargo metadata: no {key}")))
}

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    line: usize,
    name: String,
    version: String,
    why: String,
}

/// All rules of this file.
pub(super) fn check(manifests: &Manifests) -> Vec<Finding> {
    let mut findings = Vec::new();
    match rows(&manifests.table) {
        Some(rows) => compare(manifests, &rows, &mut findings),
        None => {
            let text = format!("no table headed | {} |", HEADING.join(" | "));
            findings.push(Finding::new(TABLE_FILE, 1, text));
        }
    }
    duplicates(manifests, &mut findings);
    findings
}

/// Reads every table under the heading; `None` when there is none.
fn rows(text: &str) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    let mut inside = false;
    let mut found = false;
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = cells(line) else {
            inside = false;
            continue;
        };
        if cells.iter().eq(HEADING.iter()) {
            inside = true;
            found = true;
        } else if inside
            && let [names, version, why] = cells.as_slice()
            && !names.starts_with('-')
            && !names.starts_with(':')
        {
            for name in names.split(',') {
                rows.push(Row {
                    line: index + 1,
                    name: name.trim().trim_matches('`').to_owned(),
                    version: version.trim_matches('`').to_owned(),
                    why: why.clone(),
                });
            }
        }
    }
    found.then_some(rows)
}

/// The cells of a line of a table.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect(),
    )
}

/// Manifests against rows, both ways.
fn compare(manifests: &Manifests, rows: &[Row], findings: &mut Vec<Finding>) {
    for manifest in &manifests.all {
        for dependency in manifest.dependencies.iter().filter(|found| !found.is_ours) {
            let (name, version) = (&dependency.name, &dependency.version);
            let text = match rows.iter().find(|row| row.name == *name) {
                None => format!("{name} is not in {TABLE_FILE}'s table of dependencies"),
                Some(row) if !agree(&row.version, version) => format!(
                    "{name} is asked for as {version}, {TABLE_FILE} says {}",
                    row.version
                ),
                Some(_) => continue,
            };
            findings.push(Finding::new(&manifest.path, manifest.line_of(name), text));
        }
    }
    for row in rows {
        let used = manifests
            .all
            .iter()
            .flat_map(|manifest| &manifest.dependencies)
            .any(|dependency| dependency.name == row.name);
        // A tool is listed, but nothing depends on it.
        if !used && !row.why.to_lowercase().contains("tool") {
            let text = format!("{} is listed, but nothing uses it", row.name);
            findings.push(Finding::new(TABLE_FILE, row.line, text));
        }
    }
}

/// Whether one version is the other's beginning: 1.12 and 1.12.2.
fn agree(a: &str, b: &str) -> bool {
    a.split('.').zip(b.split('.')).all(|(a, b)| a == b)
}

/// A crate that we name ourselves must be there once: two versions are two of every type.
fn duplicates(manifests: &Manifests, findings: &mut Vec<Finding>) {
    let mut names: Vec<&str> = manifests
        .all
        .iter()
        .flat_map(|manifest| &manifest.dependencies)
        .map(|dependency| dependency.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let lines = license::lock_lines(&manifests.lock, name);
        if let [_, again, ..] = lines.as_slice() {
            let text = format!("{} versions of {name}, which we use directly", lines.len());
            findings.push(Finding::new("Cargo.lock", *again, text));
        }
    }
}

#[cfg(test)]
impl Manifest {
    pub(super) fn new(path: &str, name: &str, text: &str, dependencies: Vec<Dependency>) -> Self {
        Self {
            path: path.to_owned(),
            name: name.to_owned(),
            dependencies,
            text: text.to_owned(),
        }
    }
}

#[cfg(test)]
impl Dependency {
    pub(super) fn ours(name: &str, kind: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: String::new(),
            kind: kind.to_owned(),
            is_ours: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs(name: &str, version: &str) -> Dependency {
        Dependency {
            version: version.to_owned(),
            is_ours: false,
            ..Dependency::ours(name, "normal")
        }
    }

    fn findings(table: &str, lock: &str) -> Vec<String> {
        let text = "[dependencies]\nbytes = \"1.12\"\nlibc.workspace = true\n";
        let uses = vec![theirs("bytes", "1.12"), theirs("libc", "0.2")];
        let manifests = Manifests {
            all: vec![Manifest::new("a/Cargo.toml", "a", text, uses)],
            packages: Vec::new(),
            lock: lock.to_owned(),
            table: table.to_owned(),
        };
        check(&manifests).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_table_agrees() {
        let table = "# x\n\n| crate | version | why |\n| --- | --- | --- |\n\
                     | `bytes` | 1.12.2 | slices |\n| `libc` | 0.2 | calls |\n\
                     | cargo-fuzz | 0.13 | a tool |\n\n| crate | other |\n|---|---|\n| x | y |\n";
        assert_eq!(findings(table, ""), [""; 0]);
    }

    #[test]
    fn the_table_does_not_agree() {
        let table = "| crate | version | why |\n|---|---|---|\n| bytes | 2.0 | slices |\n\
                     | rayon | 1.0 | threads |\n";
        assert_eq!(
            findings(table, ""),
            [
                "a/Cargo.toml:2: error: bytes is asked for as 1.12, CONTRIBUTING.md says 2.0",
                "a/Cargo.toml:3: error: libc is not in CONTRIBUTING.md's table of dependencies",
                "CONTRIBUTING.md:4: error: rayon is listed, but nothing uses it",
            ]
        );
        assert_eq!(
            findings("", ""),
            ["CONTRIBUTING.md:1: error: no table headed | crate | version | why |"]
        );
    }

    #[test]
    fn twice_in_the_lock_file() {
        let table = "| crate | version | why |\n|---|---|---|\n| `bytes`, `libc` | | x |\n";
        let lock = "[[package]]\nname = \"libc\"\nversion = \"0.2\"\n\n[[package]]\n\
                    name = \"libc\"\nversion = \"1.0\"\n";
        let found = findings(table, lock);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[2],
            "Cargo.lock:6: error: 2 versions of libc, which we use directly"
        );
    }

    #[test]
    fn versions() {
        assert!(agree("1.12", "1.12.2") && agree("1", "1.12"));
        assert!(!agree("1.12", "1.13") && !agree("", "1.12"));
    }

    #[test]
    fn reads_this_workspace() {
        let manifests = Manifests::read(crate::shell::root()).unwrap();
        let this = manifests
            .all
            .iter()
            .find(|manifest| manifest.name == "xtask")
            .unwrap();
        assert_eq!(this.path, "xtask/Cargo.toml");
        assert!(this.line_of("serde_json") > 1);
        assert!(
            manifests
                .packages
                .iter()
                .any(|package| package.name == "libc")
        );
    }
}
