//! Debian packages that tasks need: which are missing, and installing them where that is allowed.
//! Elsewhere the list is printed and the task goes on; what needs a missing tool says so itself.

use crate::shell::{self, Context, Result};
use std::process::Command;

/// What tests need, and what for.
pub(crate) static FOR_TESTS: &[(&str, &str)] = &[
    ("gcc", "C programs; also fuzzing's runtime"),
    ("g++", "C++ programs"),
    ("libc6-dev", "headers, which gcc only recommends"),
    ("binutils", "as, ar, objcopy, readelf and GNU ld"),
    ("dpkg-dev", "unpacking Debian sources of real programs"),
    ("make", "building them"),
    ("gdb", "what a debugger sees of linked code"),
    ("tcl", "SQLite's own build calls tclsh"),
    ("clang-22", "other code models, CREL, addrsig"),
    ("lld-22", "a second linker to compare with"),
    ("llvm-22", "llvm-mc, llvm-readelf, llvm-jitlink"),
    ("llvm-22-tools", "FileCheck, not, split-file, yaml2obj"),
];

/// What benchmarks need beyond that: large.
pub(crate) static FOR_BENCHES: &[(&str, &str)] = &[
    ("gcc", "hello.c"),
    ("libc6-dev", "headers, which gcc only recommends"),
    ("lld-22", "for scale"),
    ("llvm-22", "llvm-jitlink, llvm-nm, llvm-readelf, llvm-mc"),
    ("llvm-22-dev", "archives of LLVM"),
    ("libclang-22-dev", "archives of clang"),
];

/// Whether every package is there; installs what is missing when it may.
///
/// # Errors
/// None: a package that is not to be had is reported and the answer is `false`.
pub(crate) fn ensure_packages(wanted: &[(&str, &str)]) -> bool {
    let names: Vec<&str> = wanted.iter().map(|&(name, _)| name).collect();
    let Some(missing) = missing(&names) else {
        println!(
            "not a Debian system (no dpkg-query); wanted here: {}",
            names.join(" ")
        );
        return false;
    };
    if missing.is_empty() {
        println!("{} Debian packages: all installed", names.len());
        return true;
    }
    for (name, why) in wanted.iter().filter(|(name, _)| missing.contains(name)) {
        println!("missing package {name}: {why}");
    }
    let Some(apt_get) = apt_get() else {
        println!(
            "not root and no sudo without a password; to install them:\n  \
             apt-get install --no-install-recommends {}",
            missing.join(" ")
        );
        return false;
    };
    if let Err(failure) = install(&apt_get, &missing) {
        println!("could not install all packages: {failure}");
    }
    let left = self::missing(&names).unwrap_or_default();
    if !left.is_empty() {
        println!("still missing: {}", left.join(" "));
    }
    left.is_empty()
}

/// Those of `names` that are not installed; `None` where dpkg is not.
fn missing<'n>(names: &[&'n str]) -> Option<Vec<&'n str>> {
    let listing = shell::command("dpkg-query")
        .args(["-W", "-f=${binary:Package} ${db:Status-Status}\n"])
        .args(names)
        .output()
        .ok()?;
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    Some(not_installed(names, &listing))
}

/// Reads `dpkg-query`'s lines. A package that it does not know has none.
fn not_installed<'n>(names: &[&'n str], listing: &str) -> Vec<&'n str> {
    let installed: Vec<&str> = listing
        .lines()
        .filter_map(|line| line.strip_suffix(" installed"))
        .map(|name| name.split(':').next().unwrap_or(name))
        .collect();
    names
        .iter()
        .copied()
        .filter(|name| !installed.contains(name))
        .collect()
}

/// How to call apt-get here: as root directly, else through a sudo that asks nothing.
fn apt_get() -> Option<Vec<&'static str>> {
    let program = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    let id = shell::output(shell::command("id").arg("-u")).ok()?;
    if id.trim() == "0" {
        return Some(program.to_vec());
    }
    shell::output(shell::command("sudo").args(["-n", "true"])).ok()?;
    Some(["sudo", "-n"].into_iter().chain(program).collect())
}

fn install(apt_get: &[&str], missing: &[&str]) -> Result {
    let call = |arguments: &[&str]| -> Command {
        let mut command = shell::command(apt_get[0]);
        command
            .args(&apt_get[1..])
            .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments);
        command
    };
    shell::run(&mut call(&["update"])).context("updating apt's lists")?;
    let policy = shell::output(shell::command("apt-cache").arg("policy").args(missing))?;
    let known = with_candidate(&policy);
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        missing.iter().partition(|name| known.contains(*name));
    for name in unknown {
        println!("apt knows no package {name} in this release's lists");
        if name.ends_with("-22") || name.ends_with("-22-dev") {
            println!(
                "  (LLVM 22 comes with Debian 12's security updates, or from LLVM's own lists)"
            );
        }
    }
    if known.is_empty() {
        return Ok(());
    }
    let install = ["install", "-y", "--no-install-recommends"];
    let arguments: Vec<&str> = install.into_iter().chain(known).collect();
    shell::run(&mut call(&arguments))
}

/// The packages of an `apt-cache policy` listing that can be installed.
fn with_candidate(policy: &str) -> Vec<&str> {
    let mut name = "";
    let mut found = Vec::new();
    for line in policy.lines() {
        if let Some(candidate) = line.trim_start().strip_prefix("Candidate: ") {
            if candidate != "(none)" {
                found.push(name);
            }
        } else if !line.starts_with(' ') {
            name = line.trim_end_matches(':');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_dpkg() {
        let listing = "gcc installed\nlibc6-dev:amd64 installed\nlld-22 config-files\n";
        assert_eq!(
            not_installed(&["gcc", "libc6-dev", "lld-22", "llvm-22"], listing),
            ["lld-22", "llvm-22"]
        );
    }

    #[test]
    fn reads_apt() {
        let policy = "llvm-22:\n  Installed: (none)\n  Candidate: 1:22.1.8-1\n  Version table:\n\
                      \x20    1:22.1.8-1 500\nawk:\n  Installed: (none)\n  Candidate: (none)\n";
        assert_eq!(with_candidate(policy), ["llvm-22"]);
        assert!(with_candidate("").is_empty());
    }
}
