//! The program `clinch`.

use std::process::ExitCode;

fn main() -> ExitCode {
    clinch::main()
}
