//! Errors and results as text, in the form people know from linkers.

use clinch_jit::session::LookUpError;
use clinch_jit::{LinkError, LinkErrors, Undefined};
use clinch_object::InputError;
use std::time::Duration;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for each thing that is wrong.
    Messages(Vec<String>),
    /// Errors of a link.
    Link(Vec<LinkError>),
    /// Complete lines.
    Lines(Vec<String>),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Messages(vec![message])
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::Messages(vec![message.to_owned()])
    }
}

impl From<LinkErrors> for Failure {
    fn from(errors: LinkErrors) -> Self {
        Self::Link(errors.0)
    }
}

impl From<Vec<LinkError>> for Failure {
    fn from(errors: Vec<LinkError>) -> Self {
        Self::Link(errors)
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        Self::Link(vec![error])
    }
}

impl From<LookUpError> for Failure {
    fn from(error: LookUpError) -> Self {
        match error {
            LookUpError::Failed(causes) => {
                let causes = causes.iter().flat_map(|errors| errors.0.iter().cloned());
                Self::Link(causes.collect())
            }
            other => other.to_string().into(),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::Link(vec![error.into()])
    }
}

/// Prints why a command failed.
pub(crate) fn failure(failure: &Failure) {
    match failure {
        Failure::Messages(messages) => messages.iter().for_each(|message| error(message)),
        Failure::Link(errors) => errors.iter().for_each(|link| error(&describe(link))),
        Failure::Lines(lines) => lines.iter().for_each(|line| eprintln!("{line}")),
    }
}

/// Prints one error.
pub(crate) fn error(message: &str) {
    eprintln!("clinch: error: {message}");
}

/// Prints steps with how long each took.
pub(crate) fn times(steps: &[(&str, Duration)]) {
    let total: Duration = steps.iter().map(|(_, time)| *time).sum();
    for (name, time) in steps.iter().copied().chain([("total", total)]) {
        eprintln!("{:>10.3} ms  {name}", time.as_secs_f64() * 1e3);
    }
}

fn describe(error: &LinkError) -> String {
    match error {
        LinkError::Undefined(undefined) => undefined_symbol(undefined),
        LinkError::Duplicate(duplicate) => format!(
            "duplicate symbol: {}\n>>> defined at {}\n>>> defined at {}",
            demangle(&duplicate.name),
            duplicate.first,
            duplicate.second
        ),
        error => error.to_string(),
    }
}

/// An undefined symbol, with who refers to it.
pub(crate) fn undefined_symbol(undefined: &Undefined) -> String {
    let mut text = format!("undefined symbol: {}", demangle(&undefined.name));
    for place in &undefined.referrers {
        text.push_str(&format!("\n>>> referenced by {place}"));
        if let Some(function) = &place.function {
            text.push_str(&format!(" (function {})", demangle(function)));
        }
    }
    let more = undefined
        .n_referrers
        .saturating_sub(undefined.referrers.len());
    if more > 0 {
        text.push_str(&format!("\n>>> referenced {more} more times"));
    }
    if let Some(near) = &undefined.near_miss {
        text.push_str(&format!("\n>>> did you mean: {}", demangle(near)));
    }
    text
}

/// A name as its language writes it.
pub(crate) fn demangle(name: &str) -> String {
    if let Ok(demangled) = rustc_demangle::try_demangle(name) {
        return format!("{demangled:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(demangled) = symbol.demangle()
    {
        return demangled;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn names_are_demangled_by_language() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Z3fooi"), "foo(int)");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
    }
}
