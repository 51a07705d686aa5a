//! Any text as a graph: what parses is sound and prints back.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::graph_text(bytes));
