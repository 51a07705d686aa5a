//! Tests that are text files: a graph, what to do with it, and what should come out.
//!
//! ```text
//! ;; run: split b1 8, verify
//! ;; target: toy
//! section s1 ".text" r-x
//!   block b1 size 16 zero
//! ----
//! section s1 ".text" r-x
//!   block b1 size 8 align 1 zero
//!   block b2 size 8 align 1 zero
//! ```
//!
//! Lines with `;;` at the top are the header: `run` names commands, separated by commas, each
//! with its arguments; `target` names the architecture when the graph does not begin with the
//! statement `graph` (the expected graph then does not either). The graph follows in its text
//! form (`clinch_graph::dump` is its manual), and behind the line `----` what is expected:
//! everything the commands said, or the graph they left when none said anything. A graph that
//! does not parse and a command that fails end the test with the line `error: …`, which can be
//! expected like anything else.
//!
//! With `BLESS=1` in the environment, what came out becomes what is expected. Each file is a
//! test of its own, named by its path; [`main`] is the whole of a test target (with
//! `harness = false`) for a folder of them.

use crate::command::COMMANDS;
use crate::toy::find_target;
use clinch_graph::{GraphTarget, LinkGraph, ParseError, parse};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

/// What a command does with the graph, given its arguments. It may say something; when it fails
/// it says why.
pub type Run = fn(&mut LinkGraph, &[&str]) -> Result<Option<String>, String>;

/// One command of the header.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
}

/// The line between the graph and what is expected.
const DIVIDER: &str = "----";

/// Runs all `.lg` files below a folder of the workspace as tests, with these commands and those
/// of [`COMMANDS`]. Takes the arguments of a test binary.
pub fn main(folder: &str, commands: &'static [Command]) -> ExitCode {
    let arguments = Arguments::from_args();
    let root = workspace_root().join(folder);
    let files = match files(&root) {
        Ok(files) => files,
        Err(error) => {
            let message = format!("{}: {error}", root.display());
            let test = Trial::test(folder.to_owned(), move || Err(Failed::from(message)));
            return libtest_mimic::run(&arguments, vec![test]).exit_code();
        }
    };
    let bless = env::var_os("BLESS").is_some_and(|value| value == "1");
    let trials = files.into_iter().map(|file| {
        let name = file.strip_prefix(&root).unwrap_or(&file);
        let name = name.with_extension("").display().to_string();
        Trial::test(name, move || {
            run_file(&file, commands, bless).map_err(Failed::from)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The workspace's folder.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All `.lg` files below a folder, in the order of their paths.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.append(&mut self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "lg") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs one file. With `bless`, what comes out is written to it.
///
/// # Errors
/// What came out, beside what was expected; or that the file is not a test.
pub fn run_file(file: &Path, commands: &[Command], bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let test = Test::parse(&text)?;
    let actual = test.run(commands)?;
    if actual == test.expected {
        return Ok(());
    }
    if bless {
        let text = format!("{}{DIVIDER}\n{actual}", test.source);
        return fs::write(file, text).map_err(|error| error.to_string());
    }
    Err(difference(test.expected, &actual))
}

/// A test file, taken apart.
#[derive(Debug)]
struct Test<'t> {
    /// All up to the divider.
    source: &'t str,
    /// Commands with their arguments.
    run: Vec<Vec<&'t str>>,
    target: Option<&'t str>,
    expected: &'t str,
}

impl<'t> Test<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        let mut test = Self {
            source: text,
            run: Vec::new(),
            target: None,
            expected: "",
        };
        let mut position = 0;
        let mut header = true;
        for line in text.split_inclusive('\n') {
            let start = position;
            position += line.len();
            let line = line.trim_end();
            if line == DIVIDER {
                (test.source, test.expected) = (&text[..start], &text[position..]);
                break;
            }
            match line.strip_prefix(";;") {
                Some(line) if header => test.header(line.trim())?,
                Some(_) => return Err(format!("`{line}` stands behind the header")),
                None => header = false,
            }
        }
        if test.run.is_empty() {
            return Err("the header has no line `;; run: COMMAND…`".to_owned());
        }
        Ok(test)
    }

    fn header(&mut self, line: &'t str) -> Result<(), String> {
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| format!("`{line}` in the header is not KEY: VALUE"))?;
        match key {
            "run" => {
                let commands = value.split(',').map(|command| {
                    let words: Vec<&str> = command.split_whitespace().collect();
                    words
                });
                self.run.extend(commands.filter(|words| !words.is_empty()));
                Ok(())
            }
            "target" => {
                self.target = Some(value.trim());
                Ok(())
            }
            _ => Err(format!("the header has an unknown key `{key}`")),
        }
    }

    /// What comes out. An error is one of the test file, not of what it tests.
    fn run(&self, commands: &[Command]) -> Result<String, String> {
        let mut steps = Vec::new();
        for words in &self.run {
            let known = commands.iter().chain(COMMANDS);
            let command = known.clone().find(|command| command.name == words[0]);
            let command = command.ok_or_else(|| {
                let names: Vec<&str> = known.map(|command| command.name).collect();
                format!("no command `{}`, only {}", words[0], names.join(", "))
            })?;
            steps.push((command, &words[1..]));
        }
        let mut graph = match self.graph()? {
            Ok(graph) => graph,
            Err(error) => return Ok(format!("error: {error}\n")),
        };
        let mut output = String::new();
        for (command, arguments) in steps {
            match (command.run)(&mut graph, arguments) {
                Ok(Some(said)) => output.push_str(&said),
                Ok(None) => {}
                Err(error) => {
                    push_line(&mut output, &format!("error: {error}"));
                    return Ok(output);
                }
            }
            if !output.is_empty() && !output.ends_with('\n') {
                output.push('\n');
            }
        }
        if output.is_empty() {
            output = graph
                .to_text()
                .unwrap_or_else(|error| format!("error: {error}\n"));
        }
        Ok(self.without_statement(&output))
    }

    /// The graph, or why it does not parse.
    fn graph(&self) -> Result<Result<LinkGraph, ParseError>, String> {
        if self.has_statement() {
            return Ok(parse(self.source, find_target));
        }
        let target = self
            .target
            .ok_or("neither the header nor the graph names an architecture")?;
        let known: Option<&GraphTarget> = find_target(target);
        known.ok_or_else(|| format!("unknown architecture `{target}`"))?;
        let text = format!("{}\n{}", implied_statement(target), self.source);
        Ok(parse(&text, find_target).map_err(|error| ParseError {
            // Lines are those of the file.
            line: error.line.saturating_sub(1),
            ..error
        }))
    }

    fn has_statement(&self) -> bool {
        let mut lines = self.source.lines().map(str::trim_start);
        lines.any(|line| line.starts_with("graph "))
    }

    /// Drops what the header implies from what was printed.
    fn without_statement(&self, output: &str) -> String {
        match self.target {
            Some(target) if !self.has_statement() => {
                let statement = implied_statement(target);
                let output = output.strip_prefix(&statement).unwrap_or(output);
                output
                    .replace(&format!("\n{statement}\n"), "\n")
                    .trim_start_matches('\n')
                    .to_owned()
            }
            _ => output.to_owned(),
        }
    }
}

/// The first statement of a graph whose architecture the header names.
fn implied_statement(target: &str) -> String {
    format!("graph \"test\" {target}")
}

fn push_line(output: &mut String, line: &str) {
    output.push_str(line);
    output.push('\n');
}

/// Both texts, line by line: what is in one only is marked `-` (expected) or `+` (came out).
fn difference(expected: &str, actual: &str) -> String {
    let old: Vec<&str> = expected.lines().collect();
    let new: Vec<&str> = actual.lines().collect();
    // Longest common run of lines from (i, j) on, row by row.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut out = String::from("BLESS=1 would change what is expected:\n");
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let (mark, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        // Writing to a String does not fail.
        let _ = writeln!(out, "{mark} {line}");
    }
    if expected.lines().eq(actual.lines()) {
        out.push_str("(only the ends of lines differ)\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Test, difference, run_file};
    use std::fs;

    fn run(text: &str) -> Result<String, String> {
        Test::parse(text)?.run(&[])
    }

    #[test]
    fn the_graph_comes_out_when_nothing_is_said() {
        let text = ";; run: verify\n;; target: toy\nsymbol $7 \"x\" external\n----\n";
        assert_eq!(run(text).as_deref(), Ok("symbol $1 \"x\" external\n"));
        let text = ";; run: verify\ngraph \"a\" toy\n";
        assert_eq!(run(text).as_deref(), Ok("graph \"a\" toy\n"));
        let text = ";; run: print, print\n;; target: toy\nsymbol $7 \"x\" external\n";
        let twice = "symbol $1 \"x\" external\n\nsymbol $1 \"x\" external\n";
        assert_eq!(run(text).as_deref(), Ok(twice));
    }

    #[test]
    fn errors_come_out() {
        let text = ";; run: verify\n;; target: toy\n\nsymbol\n----\n";
        assert_eq!(run(text).as_deref(), Ok("error: 4:7: expected a symbol\n"));
        let text = ";; run: split b1 8, verify\n;; target: toy\n";
        assert_eq!(run(text).as_deref(), Ok("error: block b1 does not exist\n"));
    }

    #[test]
    fn bad_files_are_no_tests() {
        let error = |text| run(text).expect_err("it is no test");
        assert_eq!(
            error("graph \"a\" toy\n"),
            "the header has no line `;; run: COMMAND…`"
        );
        assert_eq!(
            error(";; run: print\n;; what: x\n"),
            "the header has an unknown key `what`"
        );
        assert_eq!(error(";; what\n"), "`what` in the header is not KEY: VALUE");
        assert_eq!(
            error(";; run: print\n\n;; run: print\n"),
            "`;; run: print` stands behind the header"
        );
        assert_eq!(
            error(";; run: odd\n"),
            "no command `odd`, only print, verify, digest, split"
        );
        let message = "neither the header nor the graph names an architecture";
        assert_eq!(error(";; run: print\n"), message);
        assert_eq!(
            error(";; run: print\n;; target: vax\n"),
            "unknown architecture `vax`"
        );
    }

    #[test]
    fn differences_are_shown_by_line() {
        let shown = difference("a\nb\nc\n", "a\nx\nc\nd\n");
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert_eq!(lines, ["  a", "- b", "+ x", "  c", "+ d"]);
        assert!(difference("a\n", "a").ends_with("(only the ends of lines differ)\n"));
    }

    #[test]
    fn blessing_writes_what_came_out() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let file = folder.path().join("x.lg");
        let source = ";; run: print\n;; target: toy\n; kept\nsymbol $2 \"x\" external\n";
        fs::write(&file, format!("{source}----\nold\n")).expect("it can be written");
        let error = run_file(&file, &[], false).expect_err("the expectation is wrong");
        assert!(
            error.contains("- old\n+ symbol $1 \"x\" external\n"),
            "{error}"
        );
        run_file(&file, &[], true).expect("it can be written");
        let blessed = fs::read_to_string(&file).expect("it can be read");
        assert_eq!(blessed, format!("{source}----\nsymbol $1 \"x\" external\n"));
        run_file(&file, &[], false).expect("the expectation is right");
    }
}
