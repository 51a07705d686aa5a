//! `cargo xtask bench`: clinch beside the peers installed on the machine, as ratios of one run.
//! Wall time is disturbed by whatever else runs; CPU time is what is compared.

mod generate;
mod graph;
mod jit;
mod lookups;
mod table;

use crate::shell::{self, Failure, Result};
use std::fs;
use std::path::PathBuf;

const USAGE: &str = "usage: cargo xtask bench graph [-n RUNS]\n       \
                     cargo xtask bench jit [-n RUNS] [hello|star5k|chain5k|six ...]\n       \
                     cargo xtask bench lookups [-n RUNS]";

/// Runs one of the benchmarks.
pub(crate) fn run(arguments: &[String]) -> Result {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::new(USAGE));
    };
    let mut runs = None;
    let mut cases = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word == "-n" {
            let number = words.next().and_then(|number| number.parse().ok());
            runs = Some(number.ok_or_else(|| Failure::new(USAGE))?);
        } else {
            cases.push(word.as_str());
        }
    }
    match name.as_str() {
        "graph" if cases.is_empty() => graph::run(runs),
        "jit" => jit::run(runs, &cases),
        "lookups" if cases.is_empty() => lookups::run(runs),
        _ => Err(Failure::new(USAGE)),
    }
}

/// Where inputs and outputs of benchmarks are kept.
fn folder() -> Result<PathBuf> {
    let folder = shell::target_folder().join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Judges a figure against the most that it may be.
fn at_most(value: f64, bar: f64) -> String {
    let word = if value <= bar { "ok" } else { "over" };
    format!("{value:.3} (at most {bar}: {word})")
}

/// Judges a figure against the least that it may be.
fn at_least(value: f64, bar: f64) -> String {
    let word = if value >= bar { "ok" } else { "under" };
    format!("{value:.2} (at least {bar}: {word})")
}

/// KiB as MiB.
fn mib(kib: u64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "a figure to print; memory sizes are far below the 53 bits that are exact"
    )]
    let kib = kib as f64;
    kib / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        assert_eq!(at_most(0.1, 0.2), "0.100 (at most 0.2: ok)");
        assert_eq!(at_most(0.3, 0.2), "0.300 (at most 0.2: over)");
        assert_eq!(at_least(3.5, 3.0), "3.50 (at least 3: ok)");
        assert_eq!(at_least(2.5, 3.0), "2.50 (at least 3: under)");
        assert_eq!(mib(2048), 2.0);
    }

    #[test]
    fn usage() {
        for words in [
            &["none"][..],
            &[],
            &["graph", "-n"],
            &["graph", "x"],
            &["jit", "x"],
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert!(run(&words).is_err(), "{words:?}");
        }
    }
}
