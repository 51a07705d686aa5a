//! The text form, the verifier and the graph's own operations, as file tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    clinch_testkit::filetest::main("tests/graph/text", &[])
}
