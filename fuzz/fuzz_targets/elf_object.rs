//! Any bytes as an ELF relocatable object: everything that was read is looked at.
#![no_main]

use clinch_testkit::oracle::input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| input::elf_object(bytes));
