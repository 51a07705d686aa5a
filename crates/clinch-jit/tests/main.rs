//! What a user of the library sees: dylibs that are linked into this process, or into a slab
//! beside it. Objects come from the system's compilers, or, where thousands are needed, from the
//! writer in [`support::elf`]. A test whose tool is missing says so and is skipped; in CI it
//! fails.

mod debug;
mod dylib;
mod remote;
mod session;
mod support;
