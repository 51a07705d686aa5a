//! Any bytes as what an executor says to a controller that has asked it for things.
#![no_main]

use clinch_testkit::oracle::executor;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| executor::executor_client(bytes));
