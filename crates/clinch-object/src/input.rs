//! The bytes of input files. Small files are read, large ones are mapped; either way the answer
//! is a [`Bytes`], so members and sections are sub-slices that keep the file alive.
//!
//! This is the only file of the crate with unsafe code: one mapping, argued below.
#![allow(
    unsafe_code,
    reason = "mapping a file is unsafe; this module is the crate's listed exception"
)]

use bytes::Bytes;
use clinch_graph::index::int::usize_of_u64;
use memmap2::MmapOptions;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Files up to this size are read. One `read` costs less than a mapping, its page faults and its
/// unmapping, and thousands of small objects are usual.
pub const READ_LIMIT: u64 = 64 * 1024;

/// Why an input cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {}: {}", path.display(), Reason(source))]
pub struct OpenError {
    /// The path as given.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl OpenError {
    /// What the operating system said, without the error's number.
    pub fn reason(&self) -> String {
        Reason(&self.source).to_string()
    }
}

/// Prints the reason the way other tools do, without the error's number.
struct Reason<'a>(&'a io::Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let end = text.rfind(" (os error ").unwrap_or(text.len());
        f.write_str(text.get(..end).unwrap_or(&text))
    }
}

/// Where the bytes of inputs come from.
#[derive(Clone, Copy, Debug)]
pub struct FileBytes;

impl FileBytes {
    /// The whole content of a file. An empty file is no error; a directory is one.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, read or mapped.
    pub fn open(path: &Path) -> Result<Bytes, OpenError> {
        contents(path).map_err(|source| OpenError {
            path: path.to_owned(),
            source,
        })
    }
}

/// Opens, asks for the size, reads or maps, closes: no other system call for a regular file.
fn contents(path: &Path) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        // A pipe or a device has no size to go by.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        return Ok(bytes.into());
    }
    match metadata.len() {
        0 => Ok(Bytes::new()),
        len @ ..=READ_LIMIT => read(&mut file, usize_of_u64(len)),
        _ => map(&file),
    }
}

/// Reads up to `len` bytes; fewer when the file became shorter since it was asked for its size.
fn read(file: &mut File, len: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes.into())
}

/// Maps a whole file, private and read-only.
fn map(file: &File) -> io::Result<Bytes> {
    // SAFETY: the mapping is private and read-only, so nothing in this process writes to it, and
    // it lives as long as the `Bytes` that owns it. What the type system cannot exclude is
    // another process that changes the file meanwhile: writing in place may show through, and
    // truncating makes an access behind the new end raise SIGBUS. As in every linker that maps
    // its inputs, inputs must not be changed in place during a link; a tool that replaces a file
    // by renaming, as compilers and `ar` do, is harmless, because the mapping keeps the old one.
    // Readers check every value at the moment they use it and never rely for memory safety on
    // having seen a value before, except where they copied it.
    let map = unsafe { MmapOptions::new().map(file)? };
    Ok(Bytes::from_owner(map))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn small_large_and_empty_files() {
        let dir = tempfile::tempdir().unwrap();
        for len in [0, 1, 65_535, 65_536, 65_537, 1_000_000] {
            let path = dir.path().join(format!("f{len}"));
            let content: Vec<u8> = (0..len).map(|n: u32| n.to_le_bytes()[0]).collect();
            fs::write(&path, &content).unwrap();
            let bytes = FileBytes::open(&path).unwrap();
            assert_eq!(bytes, content);
            // The bytes outlive the file's name.
            fs::remove_file(&path).unwrap();
            assert_eq!(bytes.slice(bytes.len() / 2..), content[content.len() / 2..]);
        }
    }

    #[test]
    fn errors_name_path_and_reason() {
        let dir = tempfile::tempdir().unwrap();
        let missing = FileBytes::open(&dir.path().join("no.o")).unwrap_err();
        let text = missing.to_string();
        assert!(text.starts_with("cannot open /"), "{text}");
        assert!(text.ends_with("/no.o: No such file or directory"), "{text}");
        let folder = FileBytes::open(dir.path()).unwrap_err().to_string();
        assert!(folder.to_lowercase().contains("is a directory"), "{folder}");
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_read() {
        assert_eq!(FileBytes::open(Path::new("/dev/null")).unwrap(), b""[..]);
    }
}
