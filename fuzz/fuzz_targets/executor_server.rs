//! Any bytes as what a controller says to an executor, that runs only what does no harm.
#![no_main]

use clinch_testkit::oracle::executor;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| executor::executor_server(bytes));
