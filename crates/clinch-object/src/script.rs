//! The linker scripts that stand in for libraries, such as glibc's `libc.so` and `libm.so`: which
//! files they name. Scripts that lay out an output are not read here; meeting one of their
//! commands is an error that names it.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::fmt;

/// What a library's script says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LibraryScript {
    /// The files and libraries of `INPUT` and `GROUP`, in order.
    pub inputs: Vec<ScriptInput>,
    /// The folders of `SEARCH_DIR`.
    pub search_dirs: Vec<String>,
    /// The first name of `OUTPUT_FORMAT`, such as `elf64-x86-64`. A script for another format
    /// than the link's is to be passed over, as if the file were not there.
    pub output_format: Option<String>,
}

/// One file or library that a script names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptInput {
    /// How the name is meant.
    pub kind: ScriptInputKind,
    /// The name. A path may begin with `=` or `$SYSROOT`, which stand for the root of the target
    /// system; a library is without its `-l` (and may begin with `:` for a file's whole name).
    pub name: String,
    /// Whether it stands in `AS_NEEDED`.
    pub as_needed: bool,
}

/// How a script's input is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptInputKind {
    /// A path, or a file name to search for.
    Path,
    /// `-lname`.
    Library,
}

/// Why a script cannot be used, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{column}: {kind}")]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub kind: ScriptErrorKind,
}

/// What is wrong with a script.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptErrorKind {
    /// A command that is for linker scripts proper.
    #[error("linker script command {0} is not supported here")]
    Command(String),
    /// Something else than what the grammar has here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What the grammar has.
        expected: &'static str,
        /// What the script has.
        found: String,
    },
    /// A comment without its end.
    #[error("unterminated comment")]
    OpenComment,
    /// A quoted name without its end.
    #[error("unterminated quoted name")]
    OpenQuote,
    /// Bytes that are no UTF-8.
    #[error("linker script is not text")]
    NotText,
    /// `AS_NEEDED` in itself.
    #[error("AS_NEEDED inside AS_NEEDED")]
    NestedAsNeeded,
}

/// Reads a library's script.
///
/// # Errors
///
/// When the text is malformed or has a command that is not about a library's inputs.
pub fn parse_library_script(bytes: &[u8]) -> Result<LibraryScript, ScriptError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
            let text = std::str::from_utf8(before).unwrap_or_default();
            return Err(place(text, text.len(), ScriptErrorKind::NotText));
        }
    };
    let mut parser = Parser { text, at: 0 };
    let mut script = LibraryScript::default();
    parser.commands(&mut script)?;
    Ok(script)
}

/// A token and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Token<'a> {
    kind: TokenKind<'a>,
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TokenKind<'a> {
    Open,
    Close,
    Comma,
    Semicolon,
    Word(&'a str),
    Quoted(&'a str),
    End,
}

impl fmt::Display for TokenKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("'('"),
            Self::Close => f.write_str("')'"),
            Self::Comma => f.write_str("','"),
            Self::Semicolon => f.write_str("';'"),
            Self::Word(word) => write!(f, "'{word}'"),
            Self::Quoted(name) => write!(f, "\"{name}\""),
            Self::End => f.write_str("the end of the script"),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn commands(&mut self, script: &mut LibraryScript) -> Result<(), ScriptError> {
        loop {
            let token = self.next()?;
            match token.kind {
                TokenKind::End => return Ok(()),
                TokenKind::Semicolon => {}
                TokenKind::Word("INPUT" | "GROUP") => self.inputs(script, false)?,
                // ld takes it only inside the others, but the meaning is plain.
                TokenKind::Word("AS_NEEDED") => self.inputs(script, true)?,
                TokenKind::Word("OUTPUT_FORMAT") => {
                    let names = self.names()?;
                    if script.output_format.is_none() {
                        script.output_format = names.first().map(|&name| name.to_owned());
                    }
                }
                TokenKind::Word("SEARCH_DIR") => {
                    let names = self.names()?;
                    script
                        .search_dirs
                        .extend(names.into_iter().map(str::to_owned));
                }
                TokenKind::Word(command) => {
                    let kind = ScriptErrorKind::Command(command.to_owned());
                    return Err(place(self.text, token.at, kind));
                }
                _ => return Err(self.expected("a command", token)),
            }
        }
    }

    /// `( name, name AS_NEEDED ( name ) )`
    fn inputs(&mut self, script: &mut LibraryScript, as_needed: bool) -> Result<(), ScriptError> {
        self.open()?;
        loop {
            let token = self.next()?;
            let (name, is_quoted) = match token.kind {
                TokenKind::Close => return Ok(()),
                TokenKind::Comma => continue,
                TokenKind::Word("AS_NEEDED") if as_needed => {
                    return Err(place(self.text, token.at, ScriptErrorKind::NestedAsNeeded));
                }
                TokenKind::Word("AS_NEEDED") => {
                    self.inputs(script, true)?;
                    continue;
                }
                TokenKind::Word(name) => (name, false),
                TokenKind::Quoted(name) => (name, true),
                _ => return Err(self.expected("a file name or ')'", token)),
            };
            let (kind, name) = match name.strip_prefix("-l") {
                Some(library) if !is_quoted => (ScriptInputKind::Library, library),
                _ => (ScriptInputKind::Path, name),
            };
            if name.is_empty() {
                return Err(self.expected("a file name", token));
            }
            script.inputs.push(ScriptInput {
                kind,
                name: name.to_owned(),
                as_needed,
            });
        }
    }

    /// `( name, name )`
    fn names(&mut self) -> Result<Vec<&'a str>, ScriptError> {
        self.open()?;
        let mut names = Vec::new();
        loop {
            let token = self.next()?;
            match token.kind {
                TokenKind::Close => return Ok(names),
                TokenKind::Comma => {}
                TokenKind::Word(name) | TokenKind::Quoted(name) => names.push(name),
                _ => return Err(self.expected("a name or ')'", token)),
            }
        }
    }

    fn open(&mut self) -> Result<(), ScriptError> {
        let token = self.next()?;
        match token.kind {
            TokenKind::Open => Ok(()),
            _ => Err(self.expected("'('", token)),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Result<Token<'a>, ScriptError> {
        self.skip_blank()?;
        let (at, rest) = (self.at, self.rest());
        let (kind, len) = match rest.chars().next() {
            None => (TokenKind::End, 0),
            Some('(') => (TokenKind::Open, 1),
            Some(')') => (TokenKind::Close, 1),
            Some(',') => (TokenKind::Comma, 1),
            Some(';') => (TokenKind::Semicolon, 1),
            Some('"') => {
                let name = rest.strip_prefix('"').and_then(|name| name.split_once('"'));
                let Some((name, _)) = name else {
                    return Err(place(self.text, at, ScriptErrorKind::OpenQuote));
                };
                (TokenKind::Quoted(name), name.len().saturating_add(2))
            }
            Some(_) => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | ';' | '"');
                let len = rest.find(ends).unwrap_or(rest.len());
                (TokenKind::Word(rest.get(..len).unwrap_or(rest)), len)
            }
        };
        self.at = at.saturating_add(len);
        Ok(Token { kind, at })
    }

    /// Goes over white space and comments.
    fn skip_blank(&mut self) -> Result<(), ScriptError> {
        loop {
            let rest = self.rest();
            let blank = rest.len().saturating_sub(rest.trim_start().len());
            self.at = self.at.saturating_add(blank);
            let Some(comment) = self.rest().strip_prefix("/*") else {
                return Ok(());
            };
            let Some(end) = comment.find("*/") else {
                return Err(place(self.text, self.at, ScriptErrorKind::OpenComment));
            };
            self.at = self.at.saturating_add(end).saturating_add(4);
        }
    }

    fn expected(&self, expected: &'static str, found: Token<'_>) -> ScriptError {
        let kind = ScriptErrorKind::Expected {
            expected,
            found: found.kind.to_string(),
        };
        place(self.text, found.at, kind)
    }
}

/// An error at a byte of the text.
fn place(text: &str, at: usize, kind: ScriptErrorKind) -> ScriptError {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before
        .rfind('\n')
        .map_or(0, |newline| newline.saturating_add(1));
    ScriptError {
        line: before.matches('\n').count().saturating_add(1),
        column: before.len().saturating_sub(line_start).saturating_add(1),
        kind,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn inputs(text: &str) -> Vec<String> {
        let script = parse_library_script(text.as_bytes()).unwrap();
        script
            .inputs
            .iter()
            .map(|input| {
                let kind = match input.kind {
                    ScriptInputKind::Path => "",
                    ScriptInputKind::Library => "-l",
                };
                let as_needed = if input.as_needed { "?" } else { "" };
                format!("{kind}{}{as_needed}", input.name)
            })
            .collect()
    }

    fn message(text: &str) -> String {
        parse_library_script(text.as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_scripts_of_glibc() {
        let libm = "/* GNU ld script\n*/\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( /lib/libm.so.6  \
                    AS_NEEDED ( /lib/libmvec.so.1 ) )\n";
        assert_eq!(inputs(libm), ["/lib/libm.so.6", "/lib/libmvec.so.1?"]);
        let script = parse_library_script(libm.as_bytes()).unwrap();
        assert_eq!(script.output_format.as_deref(), Some("elf64-x86-64"));
        assert!(script.search_dirs.is_empty());
    }

    #[test]
    fn every_way_to_name() {
        let text = "INPUT(a.o,b.o, -lfoo -l:libx.a \"with space.o\" \"-lq\" =/lib/c.o \
                    /* in between */ AS_NEEDED(-lbar d.so) e.o); INPUT()\nSEARCH_DIR(=/usr/lib) \
                    SEARCH_DIR(\"/opt/x\");OUTPUT_FORMAT(\"a\", \"b\", \"c\") OUTPUT_FORMAT(z)";
        let want = [
            "a.o",
            "b.o",
            "-lfoo",
            "-l:libx.a",
            "with space.o",
            "-lq",
            "=/lib/c.o",
            "-lbar?",
            "d.so?",
            "e.o",
        ];
        assert_eq!(inputs(text), want);
        let script = parse_library_script(text.as_bytes()).unwrap();
        assert_eq!(script.search_dirs, ["=/usr/lib", "/opt/x"]);
        assert_eq!(script.output_format.as_deref(), Some("a"));
        assert_eq!(
            script
                .inputs
                .iter()
                .filter(|input| input.name == "-lq")
                .count(),
            1
        );
    }

    #[test]
    fn errors_have_a_place() {
        let unsupported = "linker script command SECTIONS is not supported here";
        let cases = [
            ("INPUT(a)\n  SECTIONS { }", format!("2:3: {unsupported}")),
            ("INPUT a", "1:7: expected '(', found 'a'".into()),
            (
                "INPUT(a",
                "1:8: expected a file name or ')', found the end of the script".into(),
            ),
            (
                "INPUT(a;)",
                "1:8: expected a file name or ')', found ';'".into(),
            ),
            (
                "INPUT((a))",
                "1:7: expected a file name or ')', found '('".into(),
            ),
            ("INPUT(-l)", "1:7: expected a file name, found '-l'".into()),
            (
                "INPUT(\"\")",
                "1:7: expected a file name, found \"\"".into(),
            ),
            ("\n/* open", "2:1: unterminated comment".into()),
            ("INPUT(\n\"a)", "2:1: unterminated quoted name".into()),
            (
                "GROUP(AS_NEEDED(a AS_NEEDED(b)))",
                "1:19: AS_NEEDED inside AS_NEEDED".into(),
            ),
            (")", "1:1: expected a command, found ')'".into()),
            (
                "OUTPUT_FORMAT(a",
                "1:16: expected a name or ')', found the end of the script".into(),
            ),
        ];
        for (text, want) in cases {
            assert_eq!(message(text), want, "{text}");
        }
        let not_text = parse_library_script(b"INPUT(a)\nGR\xff").unwrap_err();
        assert_eq!(not_text.to_string(), "2:3: linker script is not text");
    }

    #[test]
    fn deep_nesting_is_refused_before_it_hurts() {
        let text = "INPUT(".to_owned() + &"AS_NEEDED(".repeat(100_000);
        assert!(message(&text).ends_with("AS_NEEDED inside AS_NEEDED"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_scripts_of_this_machine() {
        for name in ["libc.so", "libm.so"] {
            let path = format!("/usr/lib/x86_64-linux-gnu/{name}");
            let Ok(bytes) = std::fs::read(path) else {
                continue;
            };
            if crate::kind::FileKind::of(&bytes) == crate::kind::FileKind::LinkerScript {
                let script = parse_library_script(&bytes).unwrap();
                assert!(script.inputs.iter().any(|input| input.as_needed));
            }
        }
    }
}
