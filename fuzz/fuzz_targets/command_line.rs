//! Any bytes as the words of a command line and its response files.
#![no_main]

use clinch_testkit::oracle::words;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| words::command_line(bytes));
