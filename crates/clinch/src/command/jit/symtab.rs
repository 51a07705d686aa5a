//! `-write-symtab` and `-symbolicate-with`: a table of the linked symbols, and naming the
//! addresses of backtraces by it. A line `"FILE"` says whose symbols the lines `0xADDRESS NAME`
//! below it are.

use super::image::{Image, address};
use crate::flags::jit::Input;
use clinch_object::FileBytes;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Writes the table of everything that was linked.
pub(super) fn write(image: &Image<'_>, path: &Path) -> Result<(), String> {
    let mut text = String::new();
    for file in &image.files {
        let link = image.link(file);
        text += &format!("\"{}\"\n", file.name);
        let mut symbols = Vec::new();
        for symbol in link.graph.input(file.input).symbols().iter() {
            let name = link.graph.symbol_name(symbol);
            if link.graph.symbol_block(symbol).is_some()
                && !name.is_empty()
                && let Some(address) = address(link, symbol)
            {
                symbols.push((address, String::from_utf8_lossy(name)));
            }
        }
        symbols.sort();
        for (address, name) in symbols {
            text += &format!("{address:#x} {name}\n");
        }
    }
    std::fs::write(path, text).map_err(|error| format!("'{}': {error}", path.display()))
}

/// Prints the backtraces with names behind the addresses that end their lines.
pub(super) fn symbolicate(table: &Path, backtraces: &[Input]) -> Result<(), String> {
    let table = Table::parse(&read(table)?);
    for input in backtraces {
        let Input::File(path) = input else {
            return Err("-symbolicate-with takes backtraces as inputs".to_owned());
        };
        let text = if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin()
                .read_to_end(&mut bytes)
                .map_err(|error| format!("standard input: {error}"))?;
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            read(path)?
        };
        for line in text.lines() {
            println!("{}", table.name(line));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = FileBytes::open(path)
        .map_err(|error| format!("'{}': {}", path.display(), error.reason()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Symbols by address, each with its file.
struct Table(BTreeMap<u64, (String, String)>);

impl Table {
    /// Lines that are neither a file nor a symbol say nothing.
    fn parse(text: &str) -> Self {
        let mut symbols = BTreeMap::new();
        let mut file = String::new();
        for line in text.lines() {
            if let Some(name) = line
                .strip_prefix('"')
                .and_then(|line| line.strip_suffix('"'))
            {
                name.clone_into(&mut file);
            } else if let Some((address, name)) = line.split_once(' ')
                && let Some(address) = number(address)
            {
                symbols.insert(address, (name.to_owned(), file.clone()));
            }
        }
        Self(symbols)
    }

    /// A line of a backtrace. Where its last word is an address behind another word, the symbol
    /// at or before it follows.
    fn name(&self, line: &str) -> String {
        let trimmed = line.trim_end();
        let found = trimmed
            .rsplit_once(char::is_whitespace)
            .and_then(|(_, word)| number(word))
            .and_then(|address| Some((address, self.0.range(..=address).next_back()?)));
        let Some((address, (start, (name, file)))) = found else {
            return line.to_owned();
        };
        let distance = address - start;
        let distance = if distance == 0 {
            String::new()
        } else {
            format!(" + {distance}")
        };
        format!("{trimmed} {name}{distance} ({file})")
    }
}

/// A hexadecimal number behind `0x`.
fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// What llvm-jitlink 22 makes of such lines.
    #[test]
    fn addresses_at_the_end_of_lines_are_named() {
        let table = Table::parse(
            "\"a.o\"\n0x1000 alpha\n0x1010 beta gamma\nnonsense\n\"b.o\"\n0x2000 del\n",
        );
        let cases = [
            ("#0 0x1000", "#0 0x1000 alpha (a.o)"),
            ("#1 0x1008", "#1 0x1008 alpha + 8 (a.o)"),
            ("#2 0x1011", "#2 0x1011 beta gamma + 1 (a.o)"),
            ("#3 0x0fff", "#3 0x0fff"),
            ("#4 0x2000   ", "#4 0x2000 del (b.o)"),
            (" 0x99999", " 0x99999 del + 620953 (b.o)"),
            ("#6 0x1000\tbar", "#6 0x1000\tbar"),
            ("#7 0x1000 (a.o+0x3)", "#7 0x1000 (a.o+0x3)"),
            ("0x1001", "0x1001"),
            ("", ""),
        ];
        for (line, named) in cases {
            assert_eq!(table.name(line), named);
        }
    }
}
