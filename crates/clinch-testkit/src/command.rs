//! Commands of file tests that need nothing but a graph. The crate that owns a step gives its
//! command to [`filetest::main`](crate::filetest::main).

use crate::filetest::Command;
use crate::oracle;
use clinch_graph::{BlockId, LinkGraph, Stage, verify};

/// The commands.
pub static COMMANDS: &[Command] = &[
    Command {
        name: "print",
        run: print,
    },
    Command {
        name: "verify",
        run: run_verify,
    },
    Command {
        name: "digest",
        run: digest,
    },
    Command {
        name: "split",
        run: split,
    },
];

/// `print`: says the graph as it is now.
fn print(graph: &mut LinkGraph, arguments: &[&str]) -> Result<Option<String>, String> {
    let [] = arguments else {
        return Err("print takes no arguments".to_owned());
    };
    graph.to_text().map(Some).map_err(|error| error.to_string())
}

/// `verify`, or `verify tables` after the tables step: fails when the graph is not sound or its
/// text does not say all.
fn run_verify(graph: &mut LinkGraph, arguments: &[&str]) -> Result<Option<String>, String> {
    let stage = match arguments {
        [] => Stage::Read,
        ["tables"] => Stage::Tables,
        _ => return Err("verify takes nothing or `tables`".to_owned()),
    };
    let violations = verify(graph, stage);
    if !violations.is_empty() {
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        return Err(lines.join("\nerror: "));
    }
    oracle::graph::text_round_trip(graph).map(|()| None)
}

/// `digest`: says the digest.
fn digest(graph: &mut LinkGraph, arguments: &[&str]) -> Result<Option<String>, String> {
    let [] = arguments else {
        return Err("digest takes no arguments".to_owned());
    };
    match graph.digest() {
        Ok(digest) => Ok(Some(digest.to_string())),
        Err(error) => Err(error.to_string()),
    }
}

/// `split BLOCK OFFSET…`: splits a block.
fn split(graph: &mut LinkGraph, arguments: &[&str]) -> Result<Option<String>, String> {
    const USAGE: &str = "split takes a block and ascending offsets";
    let [block, offsets @ ..] = arguments else {
        return Err(USAGE.to_owned());
    };
    let block = block
        .strip_prefix(BlockId::PREFIX)
        .and_then(|number| BlockId::from_raw(number.parse().ok()?))
        .ok_or(USAGE)?;
    let offsets: Result<Vec<u64>, _> = offsets.iter().map(|offset| offset.parse()).collect();
    let offsets = offsets.map_err(|_| USAGE)?;
    graph
        .split_block(block, &offsets)
        .map(|_| None)
        .map_err(|error| error.to_string())
}
