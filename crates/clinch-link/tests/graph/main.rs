//! The link steps as file tests: `tests/graph/link/STEP/*.lg`, each a graph, the commands below
//! and what should come out. A graph's text has no inputs, so the first command makes inputs of
//! it ([`inputs`]); each command after that finds out anew what its step needs, as the steps'
//! results cannot be written into a graph.

mod inputs;
mod step;

use clinch_testkit::filetest::{self, Command};
use std::process::ExitCode;

static COMMANDS: &[Command] = &[
    Command {
        name: "inputs",
        run: inputs::run,
    },
    Command {
        name: "resolve",
        run: step::resolve,
    },
    Command {
        name: "commons",
        run: step::commons,
    },
    Command {
        name: "start-stop",
        run: step::start_stop,
    },
    Command {
        name: "arrays",
        run: step::arrays,
    },
    Command {
        name: "frames",
        run: step::frames,
    },
    Command {
        name: "prune",
        run: step::prune,
    },
    Command {
        name: "reach",
        run: step::reach,
    },
    Command {
        name: "tables",
        run: step::tables,
    },
    Command {
        name: "entries",
        run: step::entries,
    },
    Command {
        name: "layout",
        run: step::layout,
    },
    Command {
        name: "bypass",
        run: step::bypass,
    },
    Command {
        name: "fixup",
        run: step::fixup,
    },
];

fn main() -> ExitCode {
    filetest::main("tests/graph/link", COMMANDS)
}
