//! The rule on what the dependencies' licenses allow: their SPDX expressions are evaluated over
//! a list of licenses that ask for no more than a notice.

use super::Finding;
use super::dependencies::{Manifests, Package};

/// What may be linked into clinch.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Looks at every package below the workspace.
pub(super) fn check(manifests: &Manifests) -> Vec<Finding> {
    let wrong = manifests
        .packages
        .iter()
        .filter(|package| !is_allowed(&package.license));
    wrong
        .map(|package| finding(package, &manifests.lock))
        .collect()
}

fn finding(package: &Package, lock: &str) -> Finding {
    let license = match package.license.as_str() {
        "" => "no license",
        license => license,
    };
    let line = lock_lines(lock, &package.name)
        .first()
        .copied()
        .unwrap_or(1);
    let text = format!("{} {} is under {license}", package.name, package.version);
    Finding::new("Cargo.lock", line, text)
}

/// The lines of a lock file that name this package, from 1.
pub(super) fn lock_lines(lock: &str, name: &str) -> Vec<usize> {
    let wanted = format!("name = \"{name}\"");
    let lines = lock.lines().enumerate();
    lines
        .filter(|(_, line)| *line == wanted)
        .map(|(index, _)| index + 1)
        .collect()
}

/// Whether an SPDX expression can be met. A slash is how old manifests spell `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words };
    parser.any() == Some(true) && parser.words.is_empty()
}

/// Reads `any := all (OR all)*`, `all := one (AND one)*`, `one := ( any ) | NAME [WITH NAME]`.
/// `None` is an expression that cannot be read.
struct Parser<'w> {
    words: &'w [&'w str],
}

impl Parser<'_> {
    fn any(&mut self) -> Option<bool> {
        let mut allowed = self.all()?;
        while self.take("OR") {
            allowed |= self.all()?;
        }
        Some(allowed)
    }

    fn all(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let allowed = self.any()?;
            return self.take(")").then_some(allowed);
        }
        let mut name = self.next()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.next()?);
        }
        Some(ALLOWED.contains(&name.as_str()))
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        is_next
    }

    fn next(&mut self) -> Option<&str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MPL-2.0",
            "(MIT",
            "MIT Apache-2.0",
            "GPL-2.0 WITH Classpath-exception-2.0",
        ] {
            assert!(!is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn findings_are_in_the_lock_file() {
        let package = Package {
            name: "b".to_owned(),
            version: "1.0.0".to_owned(),
            license: "GPL-3.0".to_owned(),
        };
        let lock = "[[package]]\nname = \"a\"\n\n[[package]]\nname = \"b\"\n";
        let found = finding(&package, lock).to_string();
        assert_eq!(found, "Cargo.lock:5: error: b 1.0.0 is under GPL-3.0");
    }
}
