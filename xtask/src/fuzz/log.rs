//! What libFuzzer prints of a run: executions, coverage, inputs that failed.

use crate::shell::{Failure, Result};
use std::fmt;
use std::process::ExitStatus;

/// A run's figures.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Log {
    executions: u64,
    /// Edges of the control flow that were reached.
    coverage: u64,
    /// Inputs kept because each reached something new.
    corpus: u64,
    /// Files that libFuzzer wrote because an input failed.
    findings: Vec<String>,
    /// Why the run failed, with the last lines, when it did.
    failure: Option<String>,
}

impl Log {
    /// Reads a whole log. `status` is `None` for a run that had to be ended.
    pub(crate) fn read(text: &str, status: Option<ExitStatus>) -> Self {
        let mut log = Self::default();
        for line in text.lines() {
            if let Some(file) = line
                .split_once("Test unit written to ")
                .map(|(_, file)| file)
            {
                // A slow input is remarkable, but no failure.
                if !file.contains("/slow-unit-") {
                    log.findings.push(file.trim().to_owned());
                }
            } else if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
                log.executions = number.trim().parse().unwrap_or(0);
            } else if line.starts_with('#') && line.contains("cov: ") {
                log.executions = log.executions.max(number(line.get(1..)));
                log.coverage = number(after(line, "cov: "));
                log.corpus = number(after(line, "corp: "));
            }
        }
        let ended = match status {
            None => Some("did not end in time".to_owned()),
            Some(status) if !status.success() => Some(status.to_string()),
            Some(_) => None,
        };
        log.failure = ended.map(|why| format!("{why}\n{}", reason(text)));
        log
    }

    /// A failure when an input failed or the run itself did.
    pub(crate) fn judge(&self) -> Result {
        if self.findings.is_empty() && self.failure.is_none() {
            return Ok(());
        }
        let mut text = format!("{} findings", self.findings.len());
        for file in &self.findings {
            text += &format!("\n  {file}");
        }
        if let Some(failure) = &self.failure {
            text += &format!("\n{failure}");
        }
        Err(Failure::new(text))
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} runs, coverage {}, corpus {}, {} findings",
            self.executions,
            self.coverage,
            self.corpus,
            self.findings.len()
        )
    }
}

/// The part of the log that tells why: from the panic or the sanitizer's report on, at most
/// thirty lines.
fn reason(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines
        .iter()
        .position(|line| line.contains("panicked at") || line.contains("ERROR: "))
        .unwrap_or_else(|| lines.len().saturating_sub(20));
    let end = lines.len().min(begin + 30);
    lines.get(begin..end).unwrap_or_default().join("\n")
}

/// The text behind `word`.
fn after<'t>(line: &'t str, word: &str) -> Option<&'t str> {
    line.split_once(word).map(|(_, rest)| rest)
}

/// The number that the text begins with, or 0.
fn number(text: Option<&str>) -> u64 {
    let text = text.unwrap_or_default();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const CLEAN: &str = "INFO: Seed: 1\n\
        #2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
        #4096\tpulse  cov: 345 ft: 500 corp: 20/12Kb lim: 4 exec/s: 2048 rss: 33Mb\n\
        Test unit written to /x/artifacts/a/slow-unit-12\n\
        #9000\tDONE   cov: 350 ft: 510 corp: 21/12Kb lim: 4 exec/s: 900 rss: 33Mb\n\
        Done 9000 runs in 10 second(s)\n\
        stat::number_of_executed_units: 9000\n";

    #[test]
    fn clean() {
        let log = Log::read(CLEAN, Some(ExitStatus::from_raw(0)));
        assert_eq!(
            log.to_string(),
            "9000 runs, coverage 350, corpus 21, 0 findings"
        );
        assert!(log.judge().is_ok());
    }

    #[test]
    fn crash() {
        let text = format!(
            "{CLEAN}thread '<unnamed>' panicked at src/a.rs:1:2:\nindex out of bounds\n\
             SUMMARY: libFuzzer: deadly signal\n\
             artifact_prefix='/x/'; Test unit written to /x/artifacts/a/crash-00\n"
        );
        let log = Log::read(&text, Some(ExitStatus::from_raw(77 << 8)));
        let failure = log.judge().unwrap_err().to_string();
        assert!(
            failure.starts_with("1 findings\n  /x/artifacts/a/crash-00"),
            "{failure}"
        );
        assert!(failure.contains("index out of bounds"), "{failure}");
    }

    #[test]
    fn hang() {
        let failure = Log::read("#2\tINITED cov: 1 corp: 1/1b", None)
            .judge()
            .unwrap_err();
        assert!(
            failure.to_string().contains("did not end in time"),
            "{failure}"
        );
    }
}
