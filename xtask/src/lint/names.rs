//! The rule that generic code names no architecture: it asks the architecture's table. So adding
//! one touches one folder and one line of the registry. Likewise, a format's folder names no
//! other format.

use super::Finding;
use super::files::File;
use super::scan::has_word;

/// How architectures are spelled, in lower case; longer ones first, for the message's sake.
const NAMES: &[&str] = &[
    "loongarch64",
    "loongarch32",
    "powerpc64le",
    "powerpc64",
    "aarch64_be",
    "loongarch",
    "riscv32",
    "riscv64",
    "powerpc",
    "ppc64le",
    "systemz",
    "aarch64",
    "aarch32",
    "mips64",
    "sparc64",
    "x86_64",
    "x86-64",
    "amd64",
    "arm64",
    "armv7",
    "hexagon",
    "riscv",
    "ppc64",
    "ppc32",
    "s390x",
    "sparc",
    "mips",
    "i386",
    "i486",
    "i586",
    "i686",
    "x86",
    "arm",
];

/// Where the rule holds.
const GENERIC: &str = "crates/";

/// Where it does not, and why.
static ALLOWED: &[(&str, &str)] = &[
    ("crates/clinch-target/src/arch.rs", "the registry"),
    (
        "crates/clinch-target/src/lib.rs",
        "declares the architectures' modules",
    ),
    ("crates/clinch-testkit/", "tests are of an architecture"),
    (
        "crates/clinch-object/src/kind.rs",
        "names machines in messages, also those clinch lacks",
    ),
    (
        "crates/clinch-executor/src/system/code.rs",
        "machine code of the host, which the compiler assembles",
    ),
    (
        "crates/clinch-executor/src/system/tls.rs",
        "machine code of the host, which the compiler assembles",
    ),
    (
        "crates/clinch-jit/src/runtime/registers.rs",
        "registers of the host, as the system saves them",
    ),
];

/// Object formats, each a folder of the crates that read and write them.
const FORMATS: &[&str] = &["elf", "macho", "coff"];

/// Both rules.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = architectures(file);
    findings.extend(formats(file));
    findings
}

/// Looks for a module of another format in a format's folder.
fn formats(file: &File) -> Vec<Finding> {
    let is_of = |format: &&&str| {
        file.path.contains(&format!("/{format}/")) || file.path.ends_with(&format!("/{format}.rs"))
    };
    let Some(own) = FORMATS.iter().find(is_of) else {
        return Vec::new();
    };
    // An architecture's files for several formats lie side by side.
    if !file.path.starts_with(GENERIC) || file.path.starts_with("crates/clinch-target/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.lines.iter().enumerate().take(file.tests) {
        let others = FORMATS.iter().filter(|format| *format != own);
        for other in others.filter(|format| has_word(&line.code, format)) {
            let text = format!("{own} uses {other}: formats do not see each other");
            findings.push(Finding::new(&file.path, index + 1, text));
        }
    }
    findings
}

/// Looks at code and literals; comments and tests may name what they like.
fn architectures(file: &File) -> Vec<Finding> {
    if !file.is_rust()
        || !file.path.starts_with(GENERIC)
        || file.is_test()
        || is_allowed(&file.path)
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.lines.iter().enumerate().take(file.tests) {
        let text = format!("{} {}", line.code, line.literals).to_lowercase();
        if let Some(name) = NAMES.iter().find(|name| has_name(&text, name)) {
            let text = format!(
                "names the architecture {name}: ask the architecture's table, or list the file in \
                 xtask/src/lint/names.rs with a reason"
            );
            findings.push(Finding::new(&file.path, index + 1, text));
        }
    }
    findings
}

/// An architecture's own folder, a program beside the library, or a listed place.
fn is_allowed(path: &str) -> bool {
    let own_folder = path
        .strip_prefix("crates/clinch-target/src/")
        .is_some_and(|rest| rest.contains('/'));
    own_folder
        || path.contains("/examples/")
        || path.contains("/benches/")
        || ALLOWED.iter().any(|(allowed, _)| path.starts_with(allowed))
}

/// Whether the name stands there on its own or as a part of an identifier (`R_X86_64_PC32`), but
/// not within a word (`charm`, `x8664`).
fn has_name(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(index, _)| {
        let before = text.get(..index).and_then(|text| text.chars().next_back());
        let after = text
            .get(index + name.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let findings = check(&File::new(path, text));
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn code_and_literals_but_not_comments_and_tests() {
        let text = "//! For x86_64.\nuse a::x86_64;\nlet a = \"AArch64\";\nR_X86_64_PC32;\n\
                    let charm = alarm; // arm\n#[cfg(test)]\nmod tests {\n  use riscv64;\n}\n";
        assert_eq!(found("crates/clinch-link/src/a.rs", text), [2, 3, 4]);
    }

    #[test]
    fn places() {
        let text = "//! A.\nlet a = x86_64;\n";
        for (path, expected) in [
            ("crates/clinch-target/src/x86_64/elf.rs", 0),
            ("crates/clinch-target/src/arch.rs", 0),
            ("crates/clinch-target/src/fixup.rs", 1),
            ("crates/clinch-testkit/src/toolchain.rs", 0),
            ("crates/clinch-jit/tests/main.rs", 0),
            ("crates/clinch-jit/src/link.rs", 1),
            ("xtask/src/main.rs", 0),
        ] {
            assert_eq!(found(path, text).len(), expected, "{path}");
        }
    }

    #[test]
    fn formats_do_not_see_each_other() {
        let text = "//! Like coff.\nuse crate::coff::raw;\nlet a = \"coff\";\nlet b = is_coff;\n";
        assert_eq!(found("crates/clinch-object/src/elf/object.rs", text), [2]);
        assert_eq!(found("crates/clinch-ld/src/image/elf.rs", text), [2]);
        assert_eq!(
            found("crates/clinch-object/src/coff/object.rs", text),
            [0; 0]
        );
        assert_eq!(found("crates/clinch-object/src/kind.rs", text), [0; 0]);
    }

    #[test]
    fn the_longest_name_is_told() {
        let file = File::new(
            "crates/clinch-link/src/a.rs",
            "//! A.\nlet a = \"powerpc64le\";\n",
        );
        assert!(check(&file)[0].text.contains("powerpc64le"));
    }
}
