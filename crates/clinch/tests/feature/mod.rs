//! Small programs for one feature of objects each. Their sources, with what they must print, are
//! in `tests/programs/feature`.

mod archives;
mod ends;
mod ifunc;
mod initializers;
mod libraries;
mod names;
mod objects;
mod process;
mod relocations;
mod sections;
mod tls;
mod unwind;
mod written;

use crate::support::{Program, Source};

/// Compiler flags, and what they ask of the system's linker.
type Flags = (&'static str, &'static str);

/// The ways to address code and data that compilers offer.
const PIC: Flags = ("-O1 -fPIC", "");
const PIE: Flags = ("-O1 -fPIE", "");
const NON_PIC: Flags = ("-O1 -fno-pic -fno-pie", "-no-pie");
const UNOPTIMIZED: Flags = ("-O0 -g", "");
const NO_PLT: Flags = ("-O2 -fPIC -fno-plt", "");
const ALL: [Flags; 5] = [PIC, PIE, NON_PIC, UNOPTIMIZED, NO_PLT];

/// A program of C or C++ parts, compiled in each of the ways; each prints its part `stdout`.
fn check_in_all_ways<const N: usize>(name: &str, parts: [&str; N], more: &str, ways: &[Flags]) {
    let source = Source::read(name);
    for (flags, link) in ways {
        let objects = source.objects(parts, &format!("{flags} {more}"));
        let program = Program::new(objects)
            .link(link)
            .prints(source.text("stdout"));
        if name.ends_with(".cpp") {
            program.cpp()
        } else {
            program
        }
        .check();
    }
}
