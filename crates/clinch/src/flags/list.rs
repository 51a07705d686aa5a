//! What a flag is, and parsing by a list of them. Options may have one dash or two; a value
//! follows behind `=` or as the next word, or, for a flag that says so, right behind the name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How a flag takes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takes {
    /// None.
    Nothing,
    /// One, behind `=` or as the next word.
    Value,
    /// None, or one behind `=`.
    Optional,
    /// One, right behind the name or as the next word: `-lm`, `-l m`.
    Joined,
    /// All words that follow, up to another flag of this kind.
    Rest,
}

/// A flag of a command line whose options are a `T`.
pub(crate) struct Flag<T> {
    /// The name without dashes.
    pub(crate) name: &'static str,
    /// How it takes a value.
    pub(crate) takes: Takes,
    /// What the value is, for help.
    pub(crate) value: &'static str,
    /// What it does, in a line.
    pub(crate) doc: &'static str,
    /// Notes it; the error says what is wrong with the value.
    pub(crate) set: fn(&mut T, &OsStr) -> Result<(), String>,
}

impl<T> Flag<T> {
    /// Whether a word is this flag, with nothing attached.
    fn is(&self, word: &[u8]) -> bool {
        let name = word.strip_prefix(b"--").or_else(|| word.strip_prefix(b"-"));
        name == Some(self.name.as_bytes())
    }
}

/// Parses words in order: flags into `options`, other words by `positional`; behind `--` there are
/// no flags.
pub(crate) fn parse<T>(
    flags: &[Flag<T>],
    words: &[OsString],
    options: &mut T,
    positional: impl Fn(&mut T, &OsStr) -> Result<(), String>,
) -> Result<(), String> {
    let mut words = words.iter();
    // The flag that takes all words, once there was one.
    let mut rest: Option<&Flag<T>> = None;
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if let Some(flag) = rest {
            match flags
                .iter()
                .find(|flag| flag.takes == Takes::Rest && flag.is(bytes))
            {
                Some(other) => rest = Some(other),
                None => (flag.set)(options, word)?,
            }
            continue;
        }
        if bytes == b"--" {
            return words.try_for_each(|word| positional(options, word));
        }
        let Some(name) = bytes.strip_prefix(b"-").filter(|name| !name.is_empty()) else {
            positional(options, word)?;
            continue;
        };
        let name = name.strip_prefix(b"-").unwrap_or(name);
        let (name, attached) = match name.iter().position(|&c| c == b'=') {
            Some(at) => (&name[..at], Some(&name[at + 1..])),
            None => (name, None),
        };
        let shown = word.to_string_lossy();
        if let Some(flag) = flags.iter().find(|flag| flag.name.as_bytes() == name) {
            let value = match (flag.takes, attached) {
                (Takes::Nothing | Takes::Optional, None) => OsStr::new("").to_owned(),
                // Flags are off where nobody sets them.
                (Takes::Nothing, Some(b"true" | b"TRUE" | b"True" | b"1")) => OsString::new(),
                (Takes::Nothing, Some(b"false" | b"FALSE" | b"False" | b"0")) => continue,
                (Takes::Nothing, Some(value)) => {
                    let (name, value) = (flag.name, String::from_utf8_lossy(value));
                    return Err(format!(
                        "for the --{name} option: '{value}' is invalid value for boolean \
                         argument! Try 0 or 1"
                    ));
                }
                (Takes::Rest, None) => {
                    rest = Some(flag);
                    continue;
                }
                (_, Some(value)) => OsString::from_vec(value.to_vec()),
                (Takes::Value | Takes::Joined, None) => words
                    .next()
                    .cloned()
                    .ok_or_else(|| format!("option {shown} needs a value ({})", flag.value))?,
            };
            (flag.set)(options, &value).map_err(|why| format!("option {shown}: {why}"))?;
            continue;
        }
        // The value of a joined flag may hold an equals sign.
        let whole = bytes.strip_prefix(b"--").unwrap_or_else(|| &bytes[1..]);
        let joined = flags
            .iter()
            .filter(|flag| flag.takes == Takes::Joined)
            .find_map(|flag| {
                whole
                    .strip_prefix(flag.name.as_bytes())
                    .map(|value| (flag, value))
            });
        match joined {
            Some((flag, value)) => (flag.set)(options, OsStr::from_bytes(value))
                .map_err(|why| format!("option {shown}: {why}"))?,
            None => return Err(format!("unknown option {shown}")),
        }
    }
    Ok(())
}

/// The flags' help.
pub(crate) fn help<T>(flags: &[Flag<T>]) -> String {
    let mut text = String::new();
    for flag in flags {
        let name = match flag.takes {
            Takes::Nothing => format!("-{}", flag.name),
            Takes::Value => format!("-{}=<{}>", flag.name, flag.value),
            Takes::Optional => format!("-{}[=<{}>]", flag.name, flag.value),
            Takes::Joined => format!("-{}<{}>", flag.name, flag.value),
            Takes::Rest => format!("-{} <{}>...", flag.name, flag.value),
        };
        text.push_str(&format!("  {name:<28} {}\n", flag.doc));
    }
    text
}

/// A value that must be text.
pub(crate) fn text(value: &OsStr) -> Result<String, String> {
    value
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| "is not valid UTF-8".to_owned())
}

/// A number: decimal, with `0x` or `0b`, or octal with `0o` or a leading 0.
pub(crate) fn number(value: &OsStr) -> Result<u64, String> {
    let text = text(value)?;
    let lower = text.to_ascii_lowercase();
    let bases = [("0x", 16), ("0b", 2), ("0o", 8), ("0", 8)];
    let found = bases.iter().find_map(|&(prefix, base)| {
        let digits = lower.strip_prefix(prefix)?;
        (!digits.is_empty()).then_some((digits, base))
    });
    let (digits, base) = found.unwrap_or((&lower, 10));
    // The library takes signs, too.
    let has_sign = digits.starts_with(['+', '-']);
    let parsed = u64::from_str_radix(if has_sign { "" } else { digits }, base);
    parsed.map_err(|_| format!("'{text}' is not a number"))
}

/// A number of bytes with an optional unit: `4096`, `64Kb`, `10Mb`, `1Gb`.
pub(crate) fn size(value: &OsStr) -> Result<u64, String> {
    size_in(value, 0)
}

/// The same, where a number without unit counts kilobytes.
pub(crate) fn size_in_kilobytes(value: &OsStr) -> Result<u64, String> {
    size_in(value, 10)
}

fn size_in(value: &OsStr, no_unit: u32) -> Result<u64, String> {
    let text = text(value)?;
    let lower = text.to_ascii_lowercase();
    let units = [("kb", 10), ("mb", 20), ("gb", 30)];
    let (digits, shift) = units
        .iter()
        .find_map(|&(unit, shift)| Some((lower.strip_suffix(unit)?, shift)))
        .unwrap_or((lower.as_str(), no_unit));
    number(OsStr::new(digits.trim()))?
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Debug, PartialEq)]
    struct Options {
        quiet: bool,
        entry: String,
        libraries: Vec<String>,
        files: Vec<String>,
        rest: Vec<String>,
    }

    const FLAGS: &[Flag<Options>] = &[
        Flag {
            name: "q",
            takes: Takes::Nothing,
            value: "",
            doc: "",
            set: |o, _| {
                o.quiet = true;
                Ok(())
            },
        },
        Flag {
            name: "entry",
            takes: Takes::Value,
            value: "name",
            doc: "",
            set: |o, v| {
                o.entry = text(v)?;
                Ok(())
            },
        },
        Flag {
            name: "l",
            takes: Takes::Joined,
            value: "lib",
            doc: "",
            set: |o, v| {
                o.libraries.push(text(v)?);
                Ok(())
            },
        },
        Flag {
            name: "args",
            takes: Takes::Rest,
            value: "arg",
            doc: "",
            set: |o, v| {
                o.rest.push(text(v)?);
                Ok(())
            },
        },
    ];

    fn run(words: &[&str]) -> Result<Options, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut options = Options::default();
        parse(FLAGS, &words, &mut options, |o, word| {
            o.files.push(text(word)?);
            Ok(())
        })?;
        Ok(options)
    }

    #[test]
    fn one_dash_two_dashes_and_values() {
        let options = run(&[
            "-q",
            "a.o",
            "--entry=x",
            "-lm",
            "-l",
            "z",
            "-args",
            "-q",
            "b",
        ])
        .unwrap();
        assert!(options.quiet);
        assert_eq!(options.entry, "x");
        assert_eq!(options.libraries, ["m", "z"]);
        assert_eq!(options.files, ["a.o"]);
        assert_eq!(options.rest, ["-q", "b"]);
        assert_eq!(run(&["-entry", "y"]).unwrap().entry, "y");
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(run(&["-x"]).unwrap_err(), "unknown option -x");
        assert_eq!(
            run(&["-entry"]).unwrap_err(),
            "option -entry needs a value (name)"
        );
        let said = run(&["-q=x"]).unwrap_err();
        assert!(
            said.contains("'x' is invalid value for boolean argument"),
            "{said}"
        );
    }

    #[test]
    fn sizes_and_numbers() {
        assert_eq!(size(OsStr::new("1Gb")), Ok(1 << 30));
        assert_eq!(size(OsStr::new("64Kb")), Ok(65_536));
        assert_eq!(size(OsStr::new("4096")), Ok(4096));
        assert_eq!(size_in_kilobytes(OsStr::new("100")), Ok(102_400));
        assert_eq!(size_in_kilobytes(OsStr::new("1Mb")), Ok(1 << 20));
        assert_eq!(number(OsStr::new("0x1000")), Ok(4096));
        assert!(size(OsStr::new("99999999999Gb")).is_err());
        assert!(number(OsStr::new("x")).is_err());
    }
}
