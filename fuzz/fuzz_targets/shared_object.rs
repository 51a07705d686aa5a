//! Any bytes as a shared object: names, versions, symbols and look-up.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::shared_object(bytes));
