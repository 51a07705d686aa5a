//! Response files: `@FILE` stands for the words in FILE. Words are split as GNU tools do: by
//! white space, with single and double quotes and backslashes. `@` in a file works too.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How deep files may name files.
const MAX_DEPTH: usize = 16;
/// How many words there may be in all.
const MAX_WORDS: usize = 1 << 22;
/// How many bytes files may hold in all: a file may have no end.
const MAX_BYTES: usize = 1 << 26;

/// Reads a response file: a file, or a pipe, of which no more is read than may be in it.
pub(crate) fn read(path: &OsStr) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = clinch_graph::index::int::u64_of(MAX_BYTES) + 1;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces every `@FILE`, whose content `read` answers; a word whose file does not exist stays as
/// it is. Words behind `--` are left alone.
pub(crate) fn expand(
    words: &mut Vec<OsString>,
    read: impl Fn(&OsStr) -> io::Result<Vec<u8>>,
) -> Result<(), String> {
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let rest = words.split_off(end);
    let mut expander = Expander {
        read,
        out: Vec::new(),
        words: MAX_WORDS,
        bytes: MAX_BYTES,
    };
    expander.expand(std::mem::take(words).into_iter(), 0)?;
    *words = expander.out;
    words.extend(rest);
    Ok(())
}

struct Expander<R> {
    read: R,
    out: Vec<OsString>,
    /// How many more words there may be.
    words: usize,
    /// How many more bytes files may hold.
    bytes: usize,
}

impl<R: Fn(&OsStr) -> io::Result<Vec<u8>>> Expander<R> {
    fn expand(
        &mut self,
        words: impl Iterator<Item = OsString>,
        depth: usize,
    ) -> Result<(), String> {
        for word in words {
            let path = word.as_bytes().strip_prefix(b"@").map(OsStr::from_bytes);
            let Some(path) = path.filter(|path| !path.is_empty()) else {
                self.push(word)?;
                continue;
            };
            let shown = path.to_string_lossy();
            match (self.read)(path) {
                Ok(_) if depth >= MAX_DEPTH => {
                    return Err(format!(
                        "response file {shown}: files name one another too deeply"
                    ));
                }
                Ok(bytes) => {
                    let left = self.bytes.checked_sub(bytes.len());
                    self.bytes = left.ok_or_else(|| format!("response file {shown}: too large"))?;
                    self.expand(Words(bytes.into_iter()), depth + 1)?;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => self.push(word)?,
                Err(error) => return Err(format!("response file {shown}: {error}")),
            }
        }
        Ok(())
    }

    fn push(&mut self, word: OsString) -> Result<(), String> {
        let left = self.words.checked_sub(1);
        self.words = left.ok_or("too many words in response files")?;
        self.out.push(word);
        Ok(())
    }
}

/// The words of a response file.
struct Words(std::vec::IntoIter<u8>);

impl Iterator for Words {
    type Item = OsString;

    fn next(&mut self) -> Option<OsString> {
        let mut word: Option<Vec<u8>> = None;
        let mut quote = None;
        while let Some(byte) = self.0.next() {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (Some(b'\''), byte) => word.get_or_insert_default().push(byte),
                (_, b'\\') => {
                    if let Some(next) = self.0.next() {
                        word.get_or_insert_default().push(next);
                    }
                }
                (Some(_), byte) => word.get_or_insert_default().push(byte),
                (None, b'\'' | b'"') => {
                    quote = Some(byte);
                    word.get_or_insert_default();
                }
                (None, byte) if byte.is_ascii_whitespace() => {
                    if word.is_some() {
                        break;
                    }
                }
                (None, byte) => word.get_or_insert_default().push(byte),
            }
        }
        word.map(OsString::from_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        let text = b"a  'b c'\n\"d \\\" e\" f\\ g ''".to_vec();
        let words: Vec<OsString> = Words(text.into_iter()).collect();
        assert_eq!(words, ["a", "b c", "d \" e", "f g", ""]);
    }

    #[test]
    fn files_may_name_files_but_not_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let outer = folder.path().join("outer");
        std::fs::write(&inner, "x y").unwrap();
        std::fs::write(&outer, format!("a @{} b", inner.display())).unwrap();
        let mut words = vec![OsString::from(format!("@{}", outer.display())), "--".into()];
        words.push("@kept".into());
        expand(&mut words, read).unwrap();
        assert_eq!(words, ["a", "x", "y", "b", "--", "@kept"]);
        std::fs::write(&inner, format!("@{}", inner.display())).unwrap();
        let mut endless = vec![OsString::from(format!("@{}", inner.display()))];
        assert!(expand(&mut endless, read).is_err());
        let mut missing = vec![OsString::from("@/no/such/file")];
        expand(&mut missing, read).unwrap();
        assert_eq!(missing, ["@/no/such/file"]);
    }

    #[test]
    fn files_without_end_and_files_of_many_words_are_refused() {
        let mut endless = vec![OsString::from("@/dev/zero")];
        let why = expand(&mut endless, read).unwrap_err();
        assert_eq!(why, "response file /dev/zero: too large");
        // Each names the next one twice.
        let doubled = |path: &OsStr| {
            let n: usize = path.to_string_lossy().parse().unwrap();
            Ok(match n {
                0 => "x ".repeat(1 << 10),
                n => format!("@{0} @{0}", n - 1),
            }
            .into_bytes())
        };
        let mut words = vec![OsString::from("@15")];
        let why = expand(&mut words, doubled).unwrap_err();
        assert_eq!(why, "too many words in response files");
    }
}
