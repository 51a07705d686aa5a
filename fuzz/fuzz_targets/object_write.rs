//! Any bytes as an ELF relocatable object: what is written of its graph reads as the same graph.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::object_write(bytes));
