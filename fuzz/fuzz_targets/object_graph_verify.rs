//! Any bytes as an ELF relocatable object: the graph passes the verifier and round-trips.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::object_graph_verify(bytes));
