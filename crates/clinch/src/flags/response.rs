//! Response files: `@FILE` stands for the words in FILE. Words are split as GNU tools do: by
//! white space, with single and double quotes and backslashes. `@` in a file works too.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How deep files may name files.
const MAX_DEPTH: usize = 16;

/// Replaces every `@FILE`; a word whose file does not exist stays as it is. Words behind `--` are
/// left alone.
pub(crate) fn expand(words: &mut Vec<OsString>) -> Result<(), String> {
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let rest = words.split_off(end);
    let head = std::mem::take(words);
    let mut budget = 1 << 24;
    expand_into(words, head, 0, &mut budget)?;
    words.extend(rest);
    Ok(())
}

fn expand_into(
    out: &mut Vec<OsString>,
    words: Vec<OsString>,
    depth: usize,
    budget: &mut usize,
) -> Result<(), String> {
    for word in words {
        let Some(path) = word
            .as_bytes()
            .strip_prefix(b"@")
            .filter(|path| !path.is_empty())
        else {
            *budget = budget
                .checked_sub(1)
                .ok_or("too many words in response files")?;
            out.push(word);
            continue;
        };
        let path = OsString::from_vec(path.to_vec());
        match std::fs::read(&path) {
            Ok(bytes) if depth < MAX_DEPTH => {
                expand_into(out, split(&bytes), depth + 1, budget)?;
            }
            Ok(_) => {
                let path = path.to_string_lossy();
                return Err(format!(
                    "response file {path}: files name one another too deeply"
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => out.push(word),
            Err(error) => {
                return Err(format!("response file {}: {error}", path.to_string_lossy()));
            }
        }
    }
    Ok(())
}

/// The words of a response file.
fn split(bytes: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = bytes.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(b'\''), byte) => word.get_or_insert_default().push(byte),
            (_, b'\\') => {
                if let Some(next) = bytes.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(_), byte) => word.get_or_insert_default().push(byte),
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, byte) if byte.is_ascii_whitespace() => {
                words.extend(word.take().map(OsString::from_vec));
            }
            (None, byte) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        let text = b"a  'b c'\n\"d \\\" e\" f\\ g ''";
        assert_eq!(split(text), ["a", "b c", "d \" e", "f g", ""]);
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
        expand(&mut words).unwrap();
        assert_eq!(words, ["a", "x", "y", "b", "--", "@kept"]);
        std::fs::write(&inner, format!("@{}", inner.display())).unwrap();
        assert!(expand(&mut vec![OsString::from(format!("@{}", inner.display()))]).is_err());
        let mut missing = vec![OsString::from("@/no/such/file")];
        expand(&mut missing).unwrap();
        assert_eq!(missing, ["@/no/such/file"]);
    }
}
