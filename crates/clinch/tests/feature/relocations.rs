//! Relocations: rare ones by assembly, and those to data and functions of the C library.

use super::{ALL, NON_PIC, PIC, UNOPTIMIZED};
use crate::support::{Program, Source, available};

#[test]
fn rare_ones() {
    let source = Source::read("feature/relocations.s");
    let [a, b] = source.objects(["a.s", "b.s"], "");
    let main = source.object("main.c", "-O1");
    let inputs = [a, b.clone(), main.clone()];
    Program::new(inputs)
        .link("-no-pie")
        .prints(source.text("stdout"))
        .check();
    if available(&["clang-22"]) {
        let inputs = [source.clang("a.s", ""), b.clone(), main.clone()];
        Program::new(inputs)
            .link("-no-pie")
            .prints(source.text("stdout"))
            .check();
    }
    // Relocations that a linker must not rewrite instructions for.
    let inputs = [source.object("a.s", "-Wa,-mrelax-relocations=no"), b, main];
    Program::new(inputs)
        .link("-no-pie")
        .prints(source.text("stdout"))
        .check();
}

fn check_libc(main: &str, other: &str, link: &str) {
    let source = Source::read("feature/libc.c");
    let objects = [source.object("a.c", main), source.object("b.c", other)];
    let inputs = objects
        .map(Into::into)
        .into_iter()
        .chain([std::ffi::OsString::from("-lm")]);
    Program::new(inputs)
        .link(link)
        .variable("CLINCH_TEST_VARIABLE", "x")
        .arguments(["-a", "-b", "value", "--long", "other", "-z", "rest"])
        .prints(source.text("stdout"))
        .check();
}

#[test]
fn of_the_c_library() {
    for (flags, link) in ALL {
        check_libc(flags, flags, link);
    }
}

/// Code with and without a GOT must agree on addresses.
#[test]
fn of_the_c_library_mixed() {
    check_libc(PIC.0, NON_PIC.0, "-no-pie");
    check_libc(NON_PIC.0, PIC.0, "-no-pie");
    check_libc(NON_PIC.0, UNOPTIMIZED.0, "-no-pie");
}
