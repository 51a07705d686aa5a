//! The text form's words and strings: one line at a time, each token with its column.

use super::parse::ParseError;

/// A token of one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token<'t> {
    /// A run of characters without blanks, quotes and semicolons.
    Word(&'t str),
    /// A quoted string.
    Bytes(Vec<u8>),
}

/// Where a token begins: line and column count from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Place {
    pub(super) fn error(self, message: impl Into<String>) -> ParseError {
        ParseError {
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }
}

/// The tokens of one line, read one after the other.
#[derive(Debug)]
pub(super) struct Line<'t> {
    text: &'t str,
    /// What is not yet read.
    rest: &'t str,
    number: u32,
    /// Where the token read last begins, in bytes.
    token: usize,
}

impl<'t> Line<'t> {
    pub(super) fn new(number: u32, text: &'t str) -> Self {
        Self {
            text,
            rest: text,
            number,
            token: 0,
        }
    }

    /// Where the token read last begins.
    pub(super) fn place(&self) -> Place {
        // Counted only when asked for: a line may be long and have many tokens. It has no more
        // than 2^32 characters since the whole text has no more bytes.
        let before = self.text[..self.token].chars().count();
        Place {
            line: self.number,
            column: u32::try_from(before).map_or(u32::MAX, |n| n.saturating_add(1)),
        }
    }

    /// An error at the token read last.
    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        self.place().error(message)
    }

    /// Whether nothing but a comment follows. Afterwards the place is that of what follows.
    pub(super) fn at_end(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        self.token = self.text.len() - self.rest.len();
        self.rest.is_empty() || self.rest.starts_with(';')
    }

    /// The next token, `None` at the end of the line.
    pub(super) fn next(&mut self) -> Result<Option<Token<'t>>, ParseError> {
        if self.at_end() {
            return Ok(None);
        }
        if let Some(quoted) = self.rest.strip_prefix('"') {
            return self.string(quoted).map(Some);
        }
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || c == '"' || c == ';')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Some(Token::Word(word)))
    }

    /// Reads on behind an opening quote.
    fn string(&mut self, quoted: &'t str) -> Result<Token<'t>, ParseError> {
        let mut bytes = Vec::new();
        let mut rest = quoted.as_bytes();
        loop {
            let (used, byte) = match rest {
                [b'"', ..] => break,
                [b'\\', b'n', ..] => (2, b'\n'),
                [b'\\', b't', ..] => (2, b'\t'),
                [b'\\', b'\\', ..] => (2, b'\\'),
                [b'\\', b'"', ..] => (2, b'"'),
                [b'\\', b'x', high, low, ..] => match hex_pair(*high, *low) {
                    Some(byte) => (4, byte),
                    None => return Err(self.error("\\x is not followed by two hexadecimal digits")),
                },
                [b'\\', ..] => return Err(self.error("unknown escape in a string")),
                &[byte, ..] => (1, byte),
                [] => return Err(self.error("string is not closed")),
            };
            bytes.push(byte);
            rest = &rest[used..];
        }
        // The rest begins at an ASCII quote, so this is a character boundary.
        self.rest = &quoted[quoted.len() - rest.len() + 1..];
        Ok(Token::Bytes(bytes))
    }

    /// The next token, which must be a word.
    pub(super) fn word(&mut self, what: &str) -> Result<&'t str, ParseError> {
        match self.next()? {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Bytes(_)) => Err(self.error(format!("expected {what}, found a string"))),
            None => Err(self.error(format!("expected {what}"))),
        }
    }

    /// The next token, which must be a quoted string.
    pub(super) fn bytes(&mut self, what: &str) -> Result<Vec<u8>, ParseError> {
        match self.next()? {
            Some(Token::Bytes(bytes)) => Ok(bytes),
            Some(Token::Word(word)) => {
                Err(self.error(format!("expected {what} in quotes, found {}", shown(word))))
            }
            None => Err(self.error(format!("expected {what} in quotes"))),
        }
    }

    /// A quoted string when one follows.
    pub(super) fn bytes_if_any(&mut self) -> Result<Option<Vec<u8>>, ParseError> {
        if !self.at_end() && self.rest.starts_with('"') {
            return self.bytes("a string").map(Some);
        }
        Ok(None)
    }

    /// The next token, which must be a number.
    pub(super) fn number(&mut self, what: &str) -> Result<u64, ParseError> {
        let word = self.word(what)?;
        self.parse_number(word, what)
    }

    /// The next token, which must be a number of 32 bits.
    pub(super) fn number_u32(&mut self, what: &str) -> Result<u32, ParseError> {
        let number = self.number(what)?;
        u32::try_from(number)
            .map_err(|_| self.error(format!("{what} {number:#x} is more than 32 bits")))
    }

    /// A number that is (a part of) the token read last.
    pub(super) fn parse_number(&self, word: &str, what: &str) -> Result<u64, ParseError> {
        let (digits, radix) = match word.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (word, 10),
        };
        // from_str_radix takes a sign, which is none of a number here.
        if !digits.starts_with(|c: char| c.is_digit(radix)) {
            return Err(self.error(format!("expected {what}, found {}", shown(word))));
        }
        u64::from_str_radix(digits, radix)
            .map_err(|_| self.error(format!("{what} {} is not a number of 64 bits", shown(word))))
    }

    /// Refuses what stands behind the statement.
    pub(super) fn end(&mut self) -> Result<(), ParseError> {
        if self.at_end() {
            Ok(())
        } else {
            Err(self.error("expected the end of the line"))
        }
    }
}

/// The byte that two hexadecimal digits make.
pub(super) fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |c: u8| char::from(c).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// A word as messages show it: quoted, and cut when it is long.
pub(super) fn shown(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("`{}…`", &word[..end]),
        None => format!("`{word}`"),
    }
}
