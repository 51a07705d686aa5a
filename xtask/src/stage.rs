//! The parts of a task: each with a name, a time and a result, summed up at the end. A stage that
//! fails does not keep the others from running, so that one run shows everything.

use crate::shell::{Failure, Result};
use std::time::{Duration, Instant};

/// How a stage ended.
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

/// The stages of one task.
pub(crate) struct Stages {
    task: &'static str,
    begin: Instant,
    rows: Vec<(String, Duration, Outcome)>,
}

impl Stages {
    /// No stages yet.
    pub(crate) fn new(task: &'static str) -> Self {
        Self {
            task,
            begin: Instant::now(),
            rows: Vec::new(),
        }
    }

    /// Runs a stage; it answers a remark, which may be empty.
    pub(crate) fn run(&mut self, name: &str, stage: impl FnOnce() -> Result<String>) {
        println!("== {}: {name}", self.task);
        let begin = Instant::now();
        let outcome = match stage() {
            Ok(remark) => Outcome::Passed(remark),
            Err(failure) => {
                eprintln!("xtask: {name}: {failure}");
                Outcome::Failed(first_line(&failure.to_string()))
            }
        };
        self.rows.push((name.to_owned(), begin.elapsed(), outcome));
        self.print_last();
    }

    /// Notes that a stage does not run, and why.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        self.rows.push((
            name.to_owned(),
            Duration::ZERO,
            Outcome::Skipped(why.to_owned()),
        ));
        self.print_last();
    }

    fn print_last(&self) {
        if let Some(row) = self.rows.last() {
            println!("-- {}: {}", self.task, describe(row));
        }
    }

    /// Prints all stages; fails when one failed.
    pub(crate) fn finish(self) -> Result {
        println!(
            "\n{} stages, {:.1} s:",
            self.task,
            self.begin.elapsed().as_secs_f64()
        );
        for row in &self.rows {
            println!("  {}", describe(row));
        }
        let failed: Vec<&str> = self
            .rows
            .iter()
            .filter(|(_, _, outcome)| matches!(outcome, Outcome::Failed(_)))
            .map(|(name, ..)| name.as_str())
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} failed: {}",
            self.task,
            failed.join(", ")
        )))
    }
}

fn describe((name, time, outcome): &(String, Duration, Outcome)) -> String {
    let (word, remark) = match outcome {
        Outcome::Passed(remark) => ("ok", remark),
        Outcome::Failed(remark) => ("FAILED", remark),
        Outcome::Skipped(remark) => ("skipped", remark),
    };
    let line = format!("{name:<26} {word:<7} {:>7.1} s", time.as_secs_f64());
    if remark.is_empty() {
        line
    } else {
        format!("{line}  {remark}")
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_task_but_all_stages_run() {
        let mut stages = Stages::new("demo");
        let mut ran = 0;
        stages.run("first", || Err(Failure::new("broken\ndetails")));
        stages.run("second", || {
            ran += 1;
            Ok("2 things".to_owned())
        });
        stages.skip("third", "no tool");
        assert_eq!(ran, 1);
        let lines: Vec<String> = stages.rows.iter().map(describe).collect();
        assert!(lines[0].contains("FAILED") && lines[0].ends_with("broken"));
        assert!(lines[1].contains("ok") && lines[1].ends_with("2 things"));
        assert!(lines[2].contains("skipped") && lines[2].ends_with("no tool"));
        let failure = stages.finish().unwrap_err();
        assert_eq!(failure.to_string(), "demo failed: first");
    }

    #[test]
    fn success() {
        let mut stages = Stages::new("demo");
        stages.run("only", || Ok(String::new()));
        assert!(stages.finish().is_ok());
    }
}
