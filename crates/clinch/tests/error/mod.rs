//! What a user is told when something is wrong. Each case fails with status 1 and a message, runs
//! nothing, and says the same for any number of threads.

mod inputs;
mod symbols;

use crate::support::{Output, clinch_run, scratch};
use std::ffi::OsString;
use std::path::Path;

/// Links inputs that cannot be linked; answers what was said.
fn fails<I>(inputs: I) -> String
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let inputs: Vec<OsString> = inputs.into_iter().map(Into::into).collect();
    let folder = scratch();
    let said = |threads: &str| {
        let option = OsString::from(format!("-num-threads={threads}"));
        let words = inputs
            .iter()
            .cloned()
            .chain([option, "--".into(), "argument".into()]);
        check(&clinch_run(folder.path(), words))
    };
    // Where memory lies changes from run to run.
    let [one, two, seven] = ["1", "2", "7"].map(|threads| without_addresses(&said(threads)));
    assert_eq!(one, two, "one thread and two");
    assert_eq!(one, seven, "one thread and seven");
    one
}

/// The text with addresses of this process, and distances from them, replaced.
fn without_addresses(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_address = digits.len() == 14 && digits.starts_with("0x7")
            || digits.len() > 13 && digits.bytes().all(|c| c.is_ascii_digit());
        words.push(if is_address {
            word.replace(digits, "ADDRESS")
        } else {
            word.to_owned()
        });
    }
    words.concat()
}

fn check(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "something ran: {output:?}");
    let said = output.errors();
    assert!(said.starts_with("clinch: error: "), "{output:?}");
    assert!(!said.contains("panicked"), "{output:?}");
    said
}

/// Fails the test unless `said` has these in this order.
fn in_order(said: &str, wanted: &[&str]) {
    let mut rest = said;
    for part in wanted {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => panic!("no {part:?} there or out of order in:\n{said}"),
        }
    }
}

/// How messages name a file: as it was given.
fn name(path: &Path) -> String {
    path.display().to_string()
}
