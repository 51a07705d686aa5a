//! Products that are built once and kept in `target/test-programs`, named by a hash of everything
//! that went into them: the command, the tool's version, the bytes of all inputs. `cargo clean`
//! removes them.

use super::{target, tool};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A file made by a command: `words` are the command without its output, `inputs` the files that
/// it reads. `make` runs it and leaves the product at the path it is given.
pub(crate) fn cached(
    file_name: &str,
    words: &[OsString],
    inputs: &[PathBuf],
    make: impl FnOnce(&Path),
) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    version(&words[0]).hash(&mut hasher);
    for input in inputs {
        let bytes = fs::read(input).unwrap_or_else(|error| panic!("{}: {error}", input.display()));
        bytes.hash(&mut hasher);
    }
    let folder = target()
        .join("test-programs")
        .join(format!("{:016x}", hasher.finish()));
    let product = folder.join(file_name);
    if product.exists() {
        return product;
    }
    // Made elsewhere and moved into place, so that nobody sees half a file.
    fs::create_dir_all(&folder).expect("the cache can be written");
    let work = tempfile::tempdir_in(&folder).expect("the cache can be written");
    let made = work.path().join(file_name);
    make(&made);
    fs::rename(&made, &product)
        .unwrap_or_else(|error| panic!("no {} was made: {error}", made.display()));
    product
}

/// What a tool says of its version, asked once.
fn version(program: &OsStr) -> Vec<u8> {
    static KNOWN: Mutex<BTreeMap<OsString, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(version) = known.get(program) {
        return version.clone();
    }
    let output = Command::new(program).arg("--version").output();
    let version = output.map(|output| output.stdout).unwrap_or_default();
    known.insert(program.to_owned(), version.clone());
    version
}

/// Runs `words` with `-o` and the output's path put behind them.
pub(crate) fn with_output(file_name: &str, words: &[OsString], inputs: &[PathBuf]) -> PathBuf {
    cached(file_name, words, inputs, |out| {
        tool(Command::new(&words[0]).args(&words[1..]).arg("-o").arg(out));
    })
}

/// Splits a line of options at spaces.
pub(crate) fn words(line: &str) -> impl Iterator<Item = OsString> {
    line.split_whitespace().map(OsString::from)
}

/// An archive of members made by `tool` with `options` (`rcs`, `rcsT`, `qS --format=bsd`).
pub(crate) fn archive(
    file_name: &str,
    program: &str,
    options: &str,
    members: &[PathBuf],
) -> PathBuf {
    let mut command: Vec<OsString> = vec![program.into()];
    command.extend(words(options));
    command.push(file_name.into());
    command.extend(members.iter().map(OsString::from));
    cached(file_name, &command, members, |out| {
        tool(
            Command::new(program)
                .args(words(options))
                .arg(out)
                .args(members),
        );
    })
}

/// A shared library, linked by the system's linker.
pub(crate) fn link_shared(file_name: &str, options: &str, inputs: &[PathBuf]) -> PathBuf {
    let mut command: Vec<OsString> = ["cc", "-shared"].map(OsString::from).into();
    command.push(format!("-Wl,-soname,{file_name}").into());
    command.extend(inputs.iter().map(OsString::from));
    command.extend(words(options));
    with_output(file_name, &command, inputs)
}

/// One object made of several by `ld -r`.
pub(crate) fn relocatable(file_name: &str, options: &str, inputs: &[PathBuf]) -> PathBuf {
    let mut command: Vec<OsString> = ["ld", "-r"].map(OsString::from).into();
    command.extend(words(options));
    command.extend(inputs.iter().map(OsString::from));
    with_output(file_name, &command, inputs)
}
