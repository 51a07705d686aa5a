//! Text to rules. Every rule is kept, with what is wrong with it where something is.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// The deepest that parentheses and loads may nest.
const MAX_DEPTH: usize = 128;

/// A rule of a check file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its text, continued lines joined by a space.
    pub text: String,
    /// Its two sides, or why it cannot be understood.
    pub sides: Result<(Program, Program), String>,
}

/// An expression as operations of a stack machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program(pub(super) Vec<Op>);

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    /// Pushes a number.
    Number(u64),
    /// Pushes where a name is; with `bytes`, where its bytes are.
    Name { name: Name, bytes: bool },
    /// Pushes the address behind the instruction at a symbol.
    NextPc { symbol: String },
    /// Pushes an operand of the instruction `offset` bytes behind a symbol.
    Operand {
        symbol: String,
        offset: u64,
        index: u64,
    },
    /// Replaces the top by the bytes it points at.
    Load(usize),
    /// Replaces the top by some of its bits.
    Slice { high: u32, low: u32 },
    /// Replaces the two topmost by what they make.
    Binary(Binary),
}

/// What has an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Symbol(String),
    Section {
        file: String,
        section: String,
    },
    Got {
        file: String,
        symbol: String,
    },
    Stub {
        file: String,
        symbol: String,
        kind: Option<String>,
    },
}

/// An operator between two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Add,
    Subtract,
    And,
    Or,
    ShiftLeft,
    ShiftRight,
}

const BINARIES: [(&str, Binary); 6] = [
    ("+", Binary::Add),
    ("-", Binary::Subtract),
    ("&", Binary::And),
    ("|", Binary::Or),
    ("<<", Binary::ShiftLeft),
    (">>", Binary::ShiftRight),
];

/// The rules of a file: its lines that begin with `# name:`.
pub fn rules(text: &str, name: &str) -> Vec<Rule> {
    let prefix = format!("# {name}:");
    let mut rules = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (line, content) in (1..).zip(text.lines()) {
        let Some(part) = content.trim_start().strip_prefix(&prefix) else {
            continue;
        };
        let (mut first, mut whole) = open.take().unwrap_or((line, String::new()));
        if whole.is_empty() {
            first = line;
        } else {
            whole.push(' ');
        }
        match part.strip_suffix('\\') {
            Some(part) => {
                whole.push_str(part.trim());
                open = Some((first, whole));
            }
            None => {
                whole.push_str(part.trim());
                rules.push(rule(first, whole));
            }
        }
    }
    if let Some((line, text)) = open {
        rules.push(Rule {
            line,
            text,
            sides: Err("the file ends inside the rule".to_owned()),
        });
    }
    rules
}

fn rule(line: usize, text: String) -> Rule {
    let sides = match text.split_once('=') {
        Some((left, right)) => whole(left).and_then(|left| Ok((left, whole(right)?))),
        None => Err("a rule needs '='".to_owned()),
    };
    Rule { line, text, sides }
}

/// One side of a rule.
fn whole(text: &str) -> Result<Program, String> {
    let mut parser = Parser {
        rest: text.trim(),
        ops: Vec::new(),
        depth: 0,
    };
    parser.expr(false)?;
    if parser.rest.is_empty() {
        Ok(Program(parser.ops))
    } else {
        Err(parser.unexpected("the end"))
    }
}

/// What is left of a text. Blanks are skipped behind each token, so that `rest` begins with one.
struct Parser<'t> {
    rest: &'t str,
    ops: Vec<Op>,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn expr(&mut self, bytes: bool) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("expressions nest deeper than {MAX_DEPTH} levels"));
        }
        self.simple(bytes)?;
        while let Some(&(_, binary)) = BINARIES.iter().find(|(token, _)| self.take(token)) {
            self.simple(bytes)?;
            self.ops.push(Op::Binary(binary));
        }
        self.depth -= 1;
        Ok(())
    }

    fn simple(&mut self, bytes: bool) -> Result<(), String> {
        if self.take("(") {
            self.expr(bytes)?;
            self.expect(")")?;
        } else if self.take("*") {
            self.load()?;
        } else if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number()?;
            self.ops.push(Op::Number(number));
        } else if self
            .rest
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            self.ident(bytes)?;
        } else {
            return Err(self.unexpected("'(', '*', a name or a number"));
        }
        if self.take("[") {
            self.slice()?;
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), String> {
        self.expect("{")?;
        let size = self.number()?;
        self.expect("}")?;
        let size = match size {
            1 => 1,
            2 => 2,
            4 => 4,
            8 => 8,
            size => return Err(format!("cannot load {size} bytes, only 1, 2, 4 or 8")),
        };
        self.expr(true)?;
        self.ops.push(Op::Load(size));
        Ok(())
    }

    fn slice(&mut self) -> Result<(), String> {
        let high = self.number()?;
        self.expect(":")?;
        let low = self.number()?;
        self.expect("]")?;
        if high < low || high > 63 {
            return Err(format!("[{high}:{low}] is not a range of bits"));
        }
        let bit = |number| u32::try_from(number).unwrap_or(63);
        self.ops.push(Op::Slice {
            high: bit(high),
            low: bit(low),
        });
        Ok(())
    }

    fn ident(&mut self, bytes: bool) -> Result<(), String> {
        let word = self.symbol()?;
        // A parenthesis behind any other name is a mistake that the caller finds.
        let op = match word {
            "decode_operand" if self.take("(") => {
                let symbol = self.symbol()?.to_owned();
                let offset = if self.take("+") { self.number()? } else { 0 };
                self.expect(",")?;
                let index = self.number()?;
                Op::Operand {
                    symbol,
                    offset,
                    index,
                }
            }
            "next_pc" if self.take("(") => Op::NextPc {
                symbol: self.symbol()?.to_owned(),
            },
            "stub_addr" if self.take("(") => {
                let file = self.file()?;
                let symbol = self.symbol()?.to_owned();
                let kind = if self.take(",") {
                    Some(self.up_to(')')?.to_owned())
                } else {
                    None
                };
                let name = Name::Stub { file, symbol, kind };
                Op::Name { name, bytes }
            }
            "got_addr" if self.take("(") => {
                let file = self.file()?;
                let symbol = self.symbol()?.to_owned();
                let name = Name::Got { file, symbol };
                Op::Name { name, bytes }
            }
            "section_addr" if self.take("(") => {
                let file = self.file()?;
                let section = self.up_to(')')?.to_owned();
                let name = Name::Section { file, section };
                Op::Name { name, bytes }
            }
            symbol => {
                let name = Name::Symbol(symbol.to_owned());
                self.ops.push(Op::Name { name, bytes });
                return Ok(());
            }
        };
        self.expect(")")?;
        self.ops.push(op);
        Ok(())
    }

    /// A file's name and the comma behind it.
    fn file(&mut self) -> Result<String, String> {
        let file = self.up_to(',')?.to_owned();
        self.expect(",")?;
        Ok(file)
    }

    /// What stands before a character; never nothing.
    fn up_to(&mut self, end: char) -> Result<&'t str, String> {
        let Some((text, _)) = self.rest.split_once(end) else {
            return Err(format!("no '{end}' behind '{}'", self.rest));
        };
        self.advance(text.len());
        match text.trim() {
            "" => Err(format!("nothing before '{end}'")),
            text => Ok(text),
        }
    }

    fn symbol(&mut self) -> Result<&'t str, String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.' | '$');
        let text = self.run(is_part);
        if text.is_empty() {
            return Err(self.unexpected("a name"));
        }
        Ok(text)
    }

    fn number(&mut self) -> Result<u64, String> {
        let text = match self.rest.strip_prefix("0x") {
            Some(_) => {
                // Both characters are ASCII.
                let (_, digits) = self.rest.split_at(2);
                let whole = self.rest;
                self.rest = digits;
                let digits = self.run(|c| c.is_ascii_hexdigit());
                if digits.is_empty() {
                    self.rest = whole;
                    return Err(self.unexpected("a number"));
                }
                return u64::from_str_radix(digits, 16)
                    .map_err(|_| format!("0x{digits} does not fit 64 bits"));
            }
            None => self.run(|c| c.is_ascii_digit()),
        };
        if text.is_empty() {
            return Err(self.unexpected("a number"));
        }
        text.parse()
            .map_err(|_| format!("{text} does not fit 64 bits"))
    }

    /// The characters up to the first that is not part of a token.
    fn run(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (text, _) = self.rest.split_at(end);
        self.advance(end);
        text
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.rest.starts_with(token);
        if is_there {
            self.advance(token.len());
        }
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{token}'")))
    }

    /// Goes behind `len` bytes, which are whole characters, and the blanks that follow.
    fn advance(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default().trim_start();
    }

    fn unexpected(&self, expected: &str) -> String {
        if self.rest.is_empty() {
            format!("unexpected end of expression, expected {expected}")
        } else {
            format!("unexpected '{}', expected {expected}", self.rest)
        }
    }
}
