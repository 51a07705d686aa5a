//! The secret that controller and executor share. It is never sent: each proves by keyed hashes
//! of random numbers of both that it knows it.

use crate::error::Error;
use crate::system::descriptor;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What a key is derived for.
const CONTEXT: &str = "clinch-executor 2026 connection secret";
/// A secret that can be guessed proves nothing.
const LEAST: usize = 16;
/// Nobody needs more, and a file may have no end.
const MOST: usize = 4096;

/// A shared secret. It is not shown by `Debug`.
#[derive(Clone)]
pub struct Secret {
    key: [u8; 32],
    bytes: Vec<u8>,
}

impl Secret {
    /// A secret of 16 to 4096 bytes. It should be random: whoever pretends to be the other side
    /// can try guesses at what it hears.
    ///
    /// # Errors
    /// Too short or too long.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        if !(LEAST..=MOST).contains(&bytes.len()) {
            return Err(Error::SecretSize(bytes.len()));
        }
        Ok(Self {
            key: blake3::derive_key(CONTEXT, bytes),
            bytes: bytes.to_vec(),
        })
    }

    /// A new random secret, which is text.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 32];
        descriptor::random(&mut bytes).map_err(|error| Error::system("make a secret", &error))?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::new(text.as_bytes())
    }

    /// Reads a secret from a file, without white space at its end.
    ///
    /// # Errors
    /// The file cannot be read, others than its owner may, or what it holds is no secret.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::system("read the secret", &error);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(Error::SecretIsOpen);
        }
        Self::read(file)
    }

    /// Reads a secret from a descriptor that this process was started with for that, by its number.
    ///
    /// # Errors
    /// It is not open, or what it holds is no secret.
    pub fn inherited(number: i32) -> Result<Self, Error> {
        let descriptor = descriptor::inherited(number)
            .map_err(|error| Error::system("read the secret", &error))?;
        Self::read(File::from(descriptor))
    }

    /// Reads a secret to the end of a stream, without white space at its end.
    ///
    /// # Errors
    /// The stream cannot be read, or what it holds is no secret.
    pub fn read(stream: impl Read) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let limit = clinch_graph::index::int::u64_of(MOST) + 1;
        stream
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::system("read the secret", &error))?;
        Self::new(bytes.trim_ascii_end())
    }

    /// What it was made from, for a child process.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A keyed hash of parts, under a label that says what for. The parts have fixed sizes, so
    /// no two lists of parts are the same bytes.
    pub(crate) fn prove(&self, label: &str, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(label.as_bytes());
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_files() {
        assert!(Secret::new(&[1; 15]).is_err());
        assert!(Secret::new(&[1; 16]).is_ok());
        assert!(Secret::new(&[1; 4097]).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file.path(), mode(0o644)).unwrap();
        let open = Secret::from_file(file.path()).unwrap_err();
        assert!(matches!(open, Error::SecretIsOpen), "{open}");
        std::fs::set_permissions(file.path(), mode(0o600)).unwrap();
        let read = Secret::from_file(file.path()).unwrap();
        assert_eq!(read.key, Secret::new(b"0123456789abcdef").unwrap().key);
        assert!(!format!("{read:?}").contains("0123"));
    }
}
