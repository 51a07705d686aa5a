//! Thread-local storage: every model, both dialects, mixed models, large blocks, libraries.

use super::{ALL, Flags};
use crate::support::{Program, Source, available, link_shared};
use std::ffi::OsString;

/// The program of two objects, each with flags of its own.
fn check(main: &str, other: &str, link: &str) {
    let source = Source::read("feature/tls.c");
    let objects = [
        source.object("main.c", main),
        source.object("other.c", other),
    ];
    Program::new(objects)
        .link(link)
        .prints(source.text("stdout"))
        .check();
}

fn check_alike(ways: &[Flags]) {
    for (flags, link) in ways {
        check(flags, flags, link);
    }
}

#[test]
fn compilers_choice() {
    check_alike(&ALL);
}

#[test]
fn global_dynamic() {
    check_alike(&[
        ("-O1 -fPIC -ftls-model=global-dynamic", ""),
        ("-O0 -fPIC -ftls-model=global-dynamic", ""),
        ("-O2 -fPIC -ftls-model=global-dynamic -fno-plt", ""),
        ("-O2 -fPIC -ftls-model=global-dynamic -mcmodel=large", ""),
    ]);
}

#[test]
fn local_dynamic() {
    check_alike(&[
        ("-O1 -fPIC -ftls-model=local-dynamic -DHIDDEN", ""),
        ("-O0 -fPIC -ftls-model=local-dynamic -DHIDDEN", ""),
        ("-O2 -fPIC -ftls-model=local-dynamic -DHIDDEN -fno-plt", ""),
    ]);
}

#[test]
fn initial_exec() {
    check_alike(&[
        ("-O1 -fPIC -ftls-model=initial-exec", ""),
        ("-O1 -fPIE -ftls-model=initial-exec", ""),
        ("-O1 -fno-pic -fno-pie -ftls-model=initial-exec", "-no-pie"),
        ("-O0 -fPIC -ftls-model=initial-exec", ""),
    ]);
}

#[test]
fn local_exec() {
    check_alike(&[
        ("-O1 -fPIE -ftls-model=local-exec", ""),
        ("-O1 -fno-pic -fno-pie -ftls-model=local-exec", "-no-pie"),
        ("-O0 -fno-pic -fno-pie -ftls-model=local-exec", "-no-pie"),
    ]);
}

#[test]
fn descriptors() {
    check_alike(&[
        ("-O1 -fPIC -mtls-dialect=gnu2", ""),
        (
            "-O0 -fPIC -mtls-dialect=gnu2 -ftls-model=global-dynamic",
            "",
        ),
        (
            "-O1 -fPIC -mtls-dialect=gnu2 -ftls-model=local-dynamic -DHIDDEN",
            "",
        ),
    ]);
}

#[test]
fn descriptors_by_clang() {
    if !available(&["clang-22"]) {
        return;
    }
    let source = Source::read("feature/tls.c");
    for flags in [
        "-O1 -fPIC -mtls-dialect=gnu2",
        "-O1 -fPIC",
        "-O2 -fPIE",
        "-O1 -fno-pic",
    ] {
        let objects = ["main.c", "other.c"].map(|part| source.clang(part, flags));
        Program::new(objects)
            .link("-no-pie")
            .prints(source.text("stdout"))
            .check();
    }
}

#[test]
fn models_mixed() {
    let dynamic = "-O1 -fPIC -ftls-model=global-dynamic";
    let descriptor = "-O1 -fPIC -mtls-dialect=gnu2";
    let initial = "-O1 -fPIE -ftls-model=initial-exec";
    let local = "-O1 -fPIE -ftls-model=local-exec";
    for (main, other) in [
        (dynamic, local),
        (local, dynamic),
        (descriptor, initial),
        (initial, descriptor),
        (dynamic, descriptor),
    ] {
        check(main, other, "");
    }
}

fn check_large(flags: &str) {
    let source = Source::read("feature/tls_big.c");
    let object = source.object("main.c", flags);
    Program::new([object]).prints(source.text("stdout")).check();
}

#[test]
fn large() {
    check_large("-O1 -fPIC -DALIGN=64 -DSIZE=1000");
    check_large("-O1 -fPIE -ftls-model=local-exec -DALIGN=64 -DSIZE=8000");
}

/// More than a fixed place in every thread's block has room for.
#[test]
fn larger_and_aligned() {
    for size in ["-DALIGN=64 -DSIZE=3000000", "-DALIGN=4096 -DSIZE=1000"] {
        check_large(&format!("-O1 -fPIC -ftls-model=global-dynamic {size}"));
        check_large(&format!("-O1 -fPIC -mtls-dialect=gnu2 {size}"));
        check_large(&format!("-O1 -fPIE -ftls-model=initial-exec {size}"));
        check_large(&format!("-O1 -fPIE -ftls-model=local-exec {size}"));
    }
}

const ENVIRONMENT: &str = r#"
//--- main.c
#include <stdio.h>
#include <string.h>
extern char **environ;
_Thread_local char large[200000] __attribute__((aligned(256))) = {5};
int main(void) {
    printf("%d %d\n", large[0], large[199999]);
    for (char **line = environ; *line; ++line)
        if (!strncmp(*line, "CLINCH_TLS", 10) || !strncmp(*line, "GLIBC_", 6)
            || !strncmp(*line, "LD_PRE", 6))
            puts(*line);
    return 0;
}
"#;

/// Finding the space changes the environment for a moment; the program must not see that.
#[test]
fn large_with_the_same_environment() {
    let source = Source::new(ENVIRONMENT);
    let object = source.object("main.c", "-O1 -fPIE");
    let program = Program::new([object]);
    for values in [
        &[][..],
        &[("GLIBC_TUNABLES", "")],
        &[(
            "GLIBC_TUNABLES",
            "glibc.malloc.perturb=0:glibc.malloc.tcache_count=3",
        )],
        &[("LD_PRELOAD", "libm.so.6"), ("GLIBC_TUNABLES", "x")],
    ] {
        let set = |program: Program, &(name, value): &(&str, &str)| program.variable(name, value);
        values.iter().fold(program.clone(), set).check();
    }
}

#[test]
fn threads_with_small_stacks() {
    let source = Source::read("feature/small_stacks.c");
    for flags in ["-O1 -fPIC", "-O1 -fPIE"] {
        Program::new([source.object("main.c", flags)]).check();
    }
}

#[test]
fn of_a_shared_library() {
    let source = Source::read("feature/tls_shared.c");
    for model in ["global-dynamic", "initial-exec"] {
        let library = source.object("lib.c", &format!("-O1 -fPIC -ftls-model={model}"));
        let library = link_shared("libtlsvariables.so", "", &[library]);
        for flags in [
            "-O1 -fPIC",
            "-O1 -fPIE",
            "-O0 -fPIC -ftls-model=global-dynamic",
            "-O1 -fPIC -ftls-model=initial-exec",
            "-O1 -fPIC -mtls-dialect=gnu2",
        ] {
            let main = source.object("main.c", flags);
            let folder = library.parent().map(OsString::from).unwrap_or_default();
            Program::new([main, library.clone()])
                .variable("LD_LIBRARY_PATH", folder)
                .prints(source.text("stdout"))
                .check();
        }
    }
}
