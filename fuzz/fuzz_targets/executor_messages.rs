//! Any bytes as a message of the executor protocol, each way and of the handshake.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::executor_messages(bytes));
