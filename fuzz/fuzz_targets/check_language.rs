//! Any text as a check file: rules are read and evaluated, whatever they say.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::check_language(bytes));
