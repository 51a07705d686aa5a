//! Any bytes as choices that make a graph: it is sound and its text says all.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::generated_graph(bytes));
