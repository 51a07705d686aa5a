//! What must hold of a graph. Each check answers what is wrong, in words.

use crate::toy::find_target;
use clinch_graph::{Digest, LinkGraph, Stage, parse, verify};

/// The graph is sound, and its text form says all that it means.
///
/// # Errors
/// What is wrong.
pub fn check(graph: &LinkGraph) -> Result<(), String> {
    sound(graph)?;
    text_round_trip(graph)
}

/// The verifier finds nothing.
///
/// # Errors
/// The violations, one a line.
pub fn sound(graph: &LinkGraph) -> Result<(), String> {
    let violations = verify(graph, Stage::Read);
    if violations.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    Err(lines.join("\n"))
}

/// The graph's text parses to a graph that prints the same and has the same digest.
///
/// # Errors
/// What is different.
pub fn text_round_trip(graph: &LinkGraph) -> Result<(), String> {
    let text = text(graph)?;
    let again = parse(&text, find_target)
        .map_err(|error| format!("what was printed does not parse: {error}\n{text}"))?;
    let second = self::text(&again)?;
    if second != text {
        return Err(format!("printed again, it is\n{second}instead of\n{text}"));
    }
    if digest(graph)? != digest(&again)? {
        return Err(format!("the text means something else:\n{text}"));
    }
    Ok(())
}

/// Two graphs mean the same.
///
/// # Errors
/// What is different.
pub fn same_meaning(first: &LinkGraph, second: &LinkGraph) -> Result<(), String> {
    let texts = (text(first)?, text(second)?);
    if texts.0 != texts.1 {
        return Err(format!("{}is not\n{}", texts.0, texts.1));
    }
    if digest(first)? != digest(second)? {
        return Err(format!("same text, but other digests:\n{}", texts.0));
    }
    Ok(())
}

fn text(graph: &LinkGraph) -> Result<String, String> {
    graph.to_text().map_err(|error| error.to_string())
}

fn digest(graph: &LinkGraph) -> Result<Digest, String> {
    graph.digest().map_err(|error| error.to_string())
}
