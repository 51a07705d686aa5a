//! Errors in the words of llvm-jitlink, which tests read; what clinch knows beyond them follows
//! in lines of its own.

use crate::flags::jit::JitOptions;
use crate::render::{self, Failure};
use clinch_jit::LinkError;
use clinch_link::fixup::LinkFixupError;
use clinch_target::FixupErrorKind;

/// What is printed of a failure: complete lines.
pub(crate) struct Reported(Vec<String>);

impl Reported {
    pub(super) fn new(failure: Failure, options: &JitOptions) -> Self {
        let mut lines = match failure {
            Failure::Messages(messages) => messages,
            Failure::Link(errors) => describe(&errors),
            Failure::Lines(lines) => return Self(lines),
        };
        if options.show.failed {
            let entry = &options.entry;
            lines.push(format!(
                "Failed to materialize symbols: {{ (main, {{ {entry} }}) }}"
            ));
        }
        for line in &mut lines {
            line.insert_str(0, "llvm-jitlink error: ");
        }
        Self(lines)
    }
}

impl From<Reported> for Failure {
    fn from(reported: Reported) -> Self {
        Self::Lines(reported.0)
    }
}

fn describe(errors: &[LinkError]) -> Vec<String> {
    let mut lines = Vec::new();
    let undefined = || {
        errors.iter().filter_map(|error| match error {
            LinkError::Undefined(undefined) => Some(undefined),
            _ => None,
        })
    };
    if undefined().next().is_some() {
        let names: Vec<&str> = undefined()
            .map(|undefined| undefined.name.as_str())
            .collect();
        let mut text = format!("Symbols not found: [ {} ]", names.join(", "));
        for undefined in undefined() {
            text.push('\n');
            text.push_str(&render::undefined_symbol(undefined));
        }
        lines.push(text);
    }
    lines.extend(errors.iter().filter_map(|error| match error {
        LinkError::Undefined(_) => None,
        LinkError::Duplicate(duplicate) => Some(format!(
            "In {}, duplicate definition of symbol '{}'\n>>> defined at {}\n>>> defined at {}",
            duplicate.second.input, duplicate.name, duplicate.first, duplicate.second
        )),
        LinkError::Pass { why, .. } => Some(why.clone()),
        LinkError::Fixup(LinkFixupError::Edge { why, .. }) => {
            Some(fixup(error, why).unwrap_or_else(|| error.to_string()))
        }
        error => Some(error.to_string()),
    }));
    lines
}

fn fixup(error: &LinkError, why: &FixupErrorKind) -> Option<String> {
    let LinkError::Fixup(LinkFixupError::Edge {
        place,
        kind,
        target,
        to,
        at,
        addend,
        ..
    }) = error
    else {
        return None;
    };
    let (input, section) = (&place.input, &place.section);
    let value = to.wrapping_add_signed(*addend);
    let named = if *addend == 0 {
        target.clone()
    } else {
        format!("{target}:{to:#x} + {:#x}", addend.cast_unsigned())
    };
    let what = match why {
        FixupErrorKind::OutOfRange { .. } => "is out of range of".to_owned(),
        FixupErrorKind::Misaligned { align, .. } => {
            return Some(format!(
                "In graph {input}, section {section}: {at:#x} improper alignment for relocation \
                 {kind}: {value:#x} is not aligned to {align} bytes"
            ));
        }
        why => {
            return Some(format!(
                "In graph {input}, section {section}: {kind}: {why}"
            ));
        }
    };
    let holder = place.function.as_deref().unwrap_or("<anonymous block>");
    let block = at.wrapping_sub(place.offset);
    Some(format!(
        "In graph {input}, section {section}: relocation target {value:#x} ({named}) {what} {kind} \
         fixup at address {at:#x} ({holder}, {block:#x} + {:#x})",
        place.offset
    ))
}
