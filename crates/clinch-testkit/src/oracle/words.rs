//! What must hold of the words behind a command's name: they are options or one mistake, in time
//! and memory bounded by their size, and help tells of what is read.

use clinch::words;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

/// What separates response files.
const FILE: u8 = 0xff;
/// What ends a word.
const WORD: u8 = b'\n';
/// The most words that response files may make.
const MOST_WORDS: usize = 1 << 22;

/// Bytes as a command line: a byte that says which command, its words with a line end between them,
/// and behind a byte of 255 each response file, which words name by number: `@0`.
pub fn command_line(bytes: &[u8]) {
    let Some((&command, bytes)) = bytes.split_first() else {
        return;
    };
    let mut parts = bytes.split(|&byte| byte == FILE);
    let typed = parts.next().unwrap_or_default();
    let typed: Vec<OsString> = typed
        .split(|&byte| byte == WORD)
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    let files: Vec<&[u8]> = parts.collect();
    let n_bytes = bytes.len();
    let Some(all) = expand(typed, &files) else {
        return;
    };
    if command.is_multiple_of(2) {
        options(&all, n_bytes, words::jit);
        let help = JIT_HELP.get_or_init(words::jit_help);
        told_in_help(&all, command, help, words::jit);
    } else {
        options(&all, n_bytes, words::run);
        told_in_help(&all, command, words::run_help(), words::run);
    }
}

static JIT_HELP: OnceLock<String> = OnceLock::new();

/// The words with those of response files in the place of their names; `None` when they are
/// refused. No name of a file is left, and there is nothing more to replace.
fn expand(typed: Vec<OsString>, files: &[&[u8]]) -> Option<Vec<OsString>> {
    let read = |path: &OsStr| {
        let number: Option<usize> = path.to_str().and_then(|path| path.parse().ok());
        let file = number.and_then(|number| files.get(number));
        let missing = io::Error::from(io::ErrorKind::NotFound);
        file.map(|file| file.to_vec()).ok_or(missing)
    };
    let n_typed = typed.len();
    let mut all = typed;
    if let Err(why) = words::expand(&mut all, read) {
        assert!(!why.is_empty());
        return None;
    }
    assert!(all.len() <= n_typed + MOST_WORDS);
    for word in all.iter().take_while(|word| *word != "--") {
        let path = word.as_bytes().strip_prefix(b"@");
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            assert!(read(OsStr::from_bytes(path)).is_err(), "{word:?} is left");
        }
    }
    let mut again = all.clone();
    assert_eq!(words::expand(&mut again, read), Ok(()));
    assert_eq!(again, all);
    Some(all)
}

/// The words are options or one mistake, and always the same; what was typed is not larger than
/// the words are worth.
fn options(
    all: &[OsString],
    n_bytes: usize,
    parse: impl Fn(&[OsString]) -> Result<String, String>,
) {
    let read = parse(all);
    let words: usize = all.iter().map(|word| word.len() + 64).sum();
    match &read {
        // Every byte may be written as an escape of ten.
        Ok(text) => assert!(text.len() <= 4096 + 16 * words, "{} bytes", text.len()),
        Err(why) => {
            assert!(!why.is_empty());
            assert!(
                why.len() <= 4096 + 16 * (words + n_bytes),
                "{} bytes",
                why.len()
            );
        }
    }
    assert_eq!(parse(all), read);
}

/// An option that help tells of is known wherever it stands first.
fn told_in_help(
    all: &[OsString],
    choice: u8,
    help: &str,
    parse: impl Fn(&[OsString]) -> Result<String, String>,
) {
    let names: Vec<&str> = help.lines().filter_map(name).collect();
    let Some(name) = names.get(usize::from(choice / 2) % names.len().max(1)) else {
        panic!("help tells of nothing");
    };
    let mut first = vec![OsString::from(name)];
    first.extend_from_slice(all);
    if let Err(why) = parse(&first) {
        assert_ne!(why, format!("unknown option {name}"));
    }
}

/// The option that a line of help tells of.
fn name(line: &str) -> Option<&str> {
    let word = line.strip_prefix("  -")?.split(' ').next()?;
    let end = word.find(['=', '<', '[', ',']).unwrap_or(word.len());
    line.get(2..3 + end)
}

#[cfg(test)]
mod tests {
    use super::{command_line, name};
    use crate::generate::choices::seeded;

    #[test]
    fn names_in_help() {
        assert_eq!(name("  -abs=<name=address>   define"), Some("-abs"));
        assert_eq!(name("  -L<folder>   look"), Some("-L"));
        assert_eq!(name("  --gdb   tell"), Some("--gdb"));
        assert_eq!(name("usage: -x"), None);
    }

    #[test]
    fn any_bytes_are_words() {
        for seed in 0..64 {
            command_line(&seeded(seed, 300));
        }
        for command in 0..=255 {
            command_line(
                &[
                    &[command][..],
                    b"a.o\n@0\n-args\n-x\xff-noexec 'b c' @1\xff-debug",
                ]
                .concat(),
            );
        }
    }
}
