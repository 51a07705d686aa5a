//! Sources of real programs: Debian's source packages, fetched when missing.
//!
//! apt gets a configuration and lists of its own, which are removed afterwards, so the machine's
//! stay as they are. Needs `apt-get`, the package dpkg-dev and a network; nothing that is fetched
//! is ever part of the project.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a Debian source package, unpacked and patched, below `sources`. Fetched on the
/// first call; several processes may ask at once.
///
/// # Errors
/// No Debian mirror in this machine's apt configuration, no network, no `dpkg-source`.
pub fn debian_source(sources: &Path, package: &str) -> io::Result<PathBuf> {
    let folder = sources.join(package);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(sources)?;
    let lock = File::create(sources.join(format!(".{package}.lock")))?;
    lock.lock()?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let mirror = debian_mirror()
        .ok_or_else(|| io::Error::other("no Debian mirror in this machine's apt configuration"))?;
    let mut last = io::Error::other("no release to ask");
    // A release may name a version that its pool no longer holds; a later one has a newer one.
    for release in releases() {
        let apt = tempfile::Builder::new()
            .prefix(".apt-")
            .tempdir_in(sources)?;
        match fetch(apt.path(), &mirror, &release, package) {
            Ok(unpacked) => {
                fs::rename(unpacked, &folder)?;
                return Ok(folder);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Fetches and unpacks into `apt`; answers the unpacked folder there.
fn fetch(apt: &Path, mirror: &str, release: &str, package: &str) -> io::Result<PathBuf> {
    for folder in ["lists/partial", "cache/archives/partial", "unpacked"] {
        fs::create_dir_all(apt.join(folder))?;
    }
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let at = apt.display();
    fs::write(
        apt.join("sources.list"),
        format!("deb-src [signed-by={keys}] {mirror} {release} main\n"),
    )?;
    fs::write(
        apt.join("apt.conf"),
        format!(
            "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"-\";\n\
             Dir::State::lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n\
             APT::Sandbox::User \"root\";\n"
        ),
    )?;
    apt_get(apt, &["update"])?;
    apt_get(apt, &["source", package])?;
    for entry in fs::read_dir(apt.join("unpacked"))? {
        let path = entry?.path();
        if path.is_dir() {
            return Ok(path);
        }
    }
    Err(io::Error::other(format!(
        "apt-get source {package} left no folder"
    )))
}

fn apt_get(apt: &Path, words: &[&str]) -> io::Result<()> {
    let output = Command::new("apt-get")
        .arg("-q")
        .args(words)
        .env("APT_CONFIG", apt.join("apt.conf"))
        .env("LC_ALL", "C")
        .current_dir(apt.join("unpacked"))
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().take(6).collect::<Vec<_>>();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    Err(io::Error::other(format!(
        "apt-get {} failed:\n{last}",
        words.join(" ")
    )))
}

/// This machine's release, then later ones.
fn releases() -> Vec<String> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let here = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map_or("stable", |name| name.trim_matches('"'));
    let mut all = vec![here.to_owned()];
    for later in ["trixie", "sid"] {
        if later != here {
            all.push(later.to_owned());
        }
    }
    all
}

/// The Debian mirror that this machine's apt is set up with.
fn debian_mirror() -> Option<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        let mut more: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        more.sort();
        files.extend(more);
    }
    files
        .iter()
        .find_map(|file| match fs::read_to_string(file) {
            Ok(text) => mirror_in(&text),
            Err(error) => {
                debug_assert!(error.kind() != ErrorKind::IsADirectory);
                None
            }
        })
}

/// The first address that ends in `/debian` in a `.sources` or `.list` file.
fn mirror_in(text: &str) -> Option<String> {
    text.lines()
        .filter(|line| {
            ["URIs:", "deb ", "deb-src "]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .flat_map(str::split_whitespace)
        .map(|word| word.trim_end_matches('/'))
        .find(|word| word.contains("://") && word.ends_with("/debian"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_mirror() {
        let deb822 = "Types: deb\n# http://snapshot.debian.org/archive/debian/2025\n\
                      URIs: http://deb.debian.org/debian\nSuites: bookworm\n";
        assert_eq!(
            mirror_in(deb822).as_deref(),
            Some("http://deb.debian.org/debian")
        );
        let security = "URIs: http://deb.debian.org/debian-security\n";
        assert_eq!(mirror_in(security), None);
        let list = "deb [signed-by=/x.gpg] https://mirror.example/debian/ sid main\n";
        assert_eq!(
            mirror_in(list).as_deref(),
            Some("https://mirror.example/debian")
        );
        assert_eq!(
            mirror_in("# deb http://deb.debian.org/debian sid main\n"),
            None
        );
    }

    #[test]
    fn asks_this_release_first() {
        let all = releases();
        assert!(!all.is_empty());
        assert_eq!(all.iter().filter(|name| *name == "sid").count(), 1);
    }
}
