//! Any bytes as an archive: members, index and look-up.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::archive(bytes));
