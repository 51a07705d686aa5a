//! Takes Rust source apart, line by line, into code, text in literals, and comments, so that
//! rules do not mistake one for another. No parser: just enough of the lexical rules.

/// One line of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    /// The code; literals of text are empty (`""`) here.
    pub(super) code: String,
    /// What literals hold.
    pub(super) literals: String,
    /// What comments say, documentation included.
    pub(super) comment: String,
}

/// What the scanner is inside of at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Inside {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(usize),
    /// `"…"` with escapes.
    Text,
    /// `r#"…"#` with so many `#`.
    RawText(usize),
}

/// Takes a whole file apart.
pub(super) fn lines(source: &str) -> Vec<Line> {
    let chars: Vec<char> = source.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut lines = Vec::new();
    let mut line = Line::default();
    let mut inside = Inside::Code;
    let mut index = 0;
    while index < chars.len() {
        let c = at(index);
        if c == '\n' {
            if inside == Inside::LineComment {
                inside = Inside::Code;
            }
            lines.push(std::mem::take(&mut line));
            index += 1;
            continue;
        }
        let mut taken = 1;
        match inside {
            Inside::Code => match c {
                '/' if at(index + 1) == '/' => inside = Inside::LineComment,
                '/' if at(index + 1) == '*' => {
                    inside = Inside::BlockComment(1);
                    taken = 2;
                }
                '"' => {
                    line.code.push(c);
                    inside = Inside::Text;
                }
                'r' if !is_word(previous(&line))
                    || previous(&line) == 'b'
                    || previous(&line) == 'c' =>
                {
                    line.code.push(c);
                    let hashes = count(&chars, index + 1, '#');
                    if at(index + 1 + hashes) == '"' {
                        line.code.push('"');
                        inside = Inside::RawText(hashes);
                        taken = hashes + 2;
                    }
                }
                '\'' => taken = character(&chars, index, &mut line),
                _ => line.code.push(c),
            },
            Inside::LineComment => line.comment.push(c),
            Inside::BlockComment(depth) => {
                if c == '*' && at(index + 1) == '/' {
                    taken = 2;
                    inside = match depth {
                        1 => Inside::Code,
                        _ => Inside::BlockComment(depth - 1),
                    };
                } else if c == '/' && at(index + 1) == '*' {
                    taken = 2;
                    inside = Inside::BlockComment(depth + 1);
                } else {
                    line.comment.push(c);
                }
            }
            Inside::Text => match c {
                // A backslash at a line's end stays: the line must still be counted.
                '\\' if at(index + 1) != '\n' => {
                    line.literals.extend([c, at(index + 1)]);
                    taken = 2;
                }
                '"' => {
                    line.code.push(c);
                    line.literals.push(' ');
                    inside = Inside::Code;
                }
                _ => line.literals.push(c),
            },
            Inside::RawText(hashes) => {
                if c == '"' && count(&chars, index + 1, '#') >= hashes {
                    line.code.push(c);
                    line.literals.push(' ');
                    inside = Inside::Code;
                    taken = hashes + 1;
                } else {
                    line.literals.push(c);
                }
            }
        }
        index += taken;
    }
    if line != Line::default() {
        lines.push(line);
    }
    lines
}

/// At a `'`: a character, which is left out, or a lifetime. How many characters it takes.
fn character(chars: &[char], index: usize, line: &mut Line) -> usize {
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    line.code.push('\'');
    let end = if at(index + 1) == '\\' {
        // The escaped character may be a quote itself.
        (index + 3..index + 14).find(|&end| at(end) == '\'')
    } else if at(index + 2) == '\'' {
        Some(index + 2)
    } else {
        None
    };
    end.map_or(1, |end| {
        line.code.push('\'');
        end + 1 - index
    })
}

/// How many `wanted` follow each other from `index` on.
fn count(chars: &[char], index: usize, wanted: char) -> usize {
    let rest = chars.get(index..).unwrap_or_default();
    rest.iter().take_while(|&&c| c == wanted).count()
}

fn previous(line: &Line) -> char {
    line.code.chars().next_back().unwrap_or(' ')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The index of the line `#[cfg(test)]` that begins the module of unit tests at the end of a
/// file; the number of lines where there is none.
pub(super) fn first_test_line(lines: &[Line]) -> usize {
    let is_attribute = |line: &&Line| {
        let code = line.code.trim();
        code.is_empty() || code.starts_with("#[") || code.ends_with(']')
    };
    for (index, line) in lines.iter().enumerate() {
        if line.code.trim() != "#[cfg(test)]" {
            continue;
        }
        let next = lines
            .iter()
            .skip(index + 1)
            .find(|line| !is_attribute(line));
        if next.is_some_and(|line| line.code.starts_with("mod ") && line.code.ends_with('{')) {
            return index;
        }
    }
    lines.len()
}

/// Whether `text` holds `word` with no letter, digit or `_` on either side.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(index, _)| {
        let before = text.get(..index).and_then(|text| text.chars().next_back());
        let after = text
            .get(index + word.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(source: &str) -> Line {
        let mut lines = lines(source);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    #[test]
    fn code_literals_and_comments() {
        let found = line("let a = \"un\\\"safe\"; // why");
        assert_eq!(found.code, "let a = \"\"; ");
        assert_eq!(found.literals.trim(), "un\\\"safe");
        assert_eq!(found.comment, "/ why");
        let found = line("a /* b /* c */ d */ e");
        assert_eq!(
            (found.code.as_str(), found.comment.as_str()),
            ("a  e", " b  c  d ")
        );
    }

    #[test]
    fn raw_literals() {
        let found = line("f(r#\"a \"b\" // c\"#, br\"d\\\", r#type, for\"e\")");
        assert_eq!(found.literals, "a \"b\" // c d\\ e ");
        assert_eq!(found.code, "f(r\"\", br\"\", r#type, for\"\")");
    }

    #[test]
    fn characters_and_lifetimes() {
        let found = line("fn f<'a>(c: &'a str) { g('\"', '\\'', b'\\\\', '\\u{1b}', '/') } // x");
        assert_eq!(
            found.code,
            "fn f<'a>(c: &'a str) { g('', '', b'', '', '') } "
        );
        assert_eq!(found.literals, "");
    }

    #[test]
    fn over_several_lines() {
        let found = lines("a \"b\\\n   c\" d\n/* e\nf */ g\n\nh");
        let code: Vec<&str> = found.iter().map(|line| line.code.trim()).collect();
        assert_eq!(code, ["a \"", "\" d", "", "g", "", "h"]);
        assert_eq!(found[1].literals.trim(), "c");
        assert_eq!(found[2].comment, " e");
    }

    #[test]
    fn tests_at_the_end() {
        let inline = lines("//! A.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(first_test_line(&inline), 3);
        let beside = lines("//! A.\n#[cfg(test)]\nmod tests;\nfn f() {}\n");
        assert_eq!(first_test_line(&beside), 4);
        let helper = lines("#[cfg(test)]\nfn f() {}\n");
        assert_eq!(first_test_line(&helper), 2);
    }

    #[test]
    fn words() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(has_word("unsafe{}", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("is_unsafe", "unsafe"));
    }
}
