//! How many tests ran, read from what the test runners print.

use std::fmt;

/// Who prints the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runner {
    /// One line for all tests: `Summary [ 1.2s] 3 tests run: 2 passed, 1 failed, 4 skipped`.
    /// It also shows the output of tests that failed, libtest's lines among it: not to be counted.
    Nextest,
    /// A line for each binary: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    Libtest,
}

/// Sums over all runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// How many tests ran.
    pub(crate) fn total(&self) -> u64 {
        self.passed + self.failed
    }

    /// Adds another run's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Adds the counts of a line that sums up tests; leaves any other line alone.
    pub(crate) fn read_line(&mut self, runner: Runner, line: &str) {
        let line = without_escapes(line);
        let line = line.trim();
        match runner {
            Runner::Nextest => {
                if line.starts_with("Summary [")
                    && let Some((_, counts)) = line.split_once(" run: ")
                {
                    self.read_counts(&without_parentheses(counts), ',');
                }
            }
            Runner::Libtest => {
                if let Some(result) = line.strip_prefix("test result: ")
                    && let Some((_, counts)) = result.split_once(". ")
                {
                    self.read_counts(counts, ';');
                }
            }
        }
    }

    /// Reads `3 passed, 1 timed out`. Words that say nothing of passing are left alone.
    fn read_counts(&mut self, counts: &str, separator: char) {
        for item in counts.split(separator) {
            let Some((number, what)) = item.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" | "exec failed" | "timed out" | "aborted" => self.failed += number,
                "skipped" | "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// The text without the escape sequences that color it.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

/// The text without what stands in parentheses: nextest's `10 passed (1 slow, 2 leaky)`.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|&c| match c {
            '(' => {
                depth += 1;
                false
            }
            ')' => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(runner: Runner, lines: &[&str]) -> String {
        let mut counts = Counts::default();
        for line in lines {
            counts.read_line(runner, line);
        }
        counts.to_string()
    }

    #[test]
    fn nextest() {
        let text = read(
            Runner::Nextest,
            &[
                "        PASS [   0.005s] xtask counts",
                "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out",
                "     Summary [   1.234s] 14 tests run: 10 passed (1 slow, 2 leaky), 2 failed, \
                 1 timed out, 1 exec failed, 3 skipped\n",
            ],
        );
        assert_eq!(text, "10 passed, 4 failed, 3 skipped");
        let colored = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.1s] \u{1b}[1m1\u{1b}[0m test run: \
                       \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m skipped";
        assert_eq!(read(Runner::Nextest, &[colored]), "1 passed, 0 failed");
        let none = "     Summary [   0.000s] 0 tests run: 0 passed, 0 skipped";
        assert_eq!(read(Runner::Nextest, &[none]), "0 passed, 0 failed");
    }

    #[test]
    fn libtest() {
        let text = read(
            Runner::Libtest,
            &[
                "running 3 tests",
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
                 finished in 0.00s\n",
                "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            ],
        );
        assert_eq!(text, "7 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn sums() {
        let mut sum = Counts {
            passed: 1,
            failed: 0,
            skipped: 0,
        };
        sum.add(&Counts {
            passed: 2,
            failed: 1,
            skipped: 4,
        });
        assert_eq!(sum.total(), 4);
        assert_eq!(sum.to_string(), "3 passed, 1 failed, 4 skipped");
    }
}
