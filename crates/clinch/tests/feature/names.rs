//! Which definition a name means: common, weak, COMDAT, unique, absolute, hidden.

use super::{ALL, NON_PIC, PIC, check_in_all_ways};
use crate::support::{Program, Source, available};

#[test]
fn common() {
    check_in_all_ways("feature/common.c", ["a.c", "b.c"], "-fcommon", &ALL);
    check_in_all_ways(
        "feature/common.c",
        ["b.c", "a.c"],
        "-fcommon",
        &[PIC, NON_PIC],
    );
}

#[test]
fn weak() {
    check_in_all_ways("feature/weak.c", ["a.c", "b.c"], "", &ALL);
    check_in_all_ways(
        "feature/weak.c",
        ["a.c", "b.c"],
        "-O0 -fno-pic",
        &[("", "-no-pie")],
    );
}

#[test]
fn groups_stay_or_go_as_a_whole() {
    let source = Source::read("feature/comdat.cpp");
    for (flags, link) in ALL {
        let a = source.object("a.cpp", flags);
        let b = source.object("b.cpp", &format!("{flags} -DWHICH=2"));
        let c = source.object("c.cpp", &format!("{flags} -DWHICH=3"));
        Program::new([a, b, c])
            .cpp()
            .link(link)
            .prints(source.text("stdout"))
            .check();
    }
}

#[test]
fn groups_of_both_compilers() {
    if !available(&["clang++-22"]) {
        return;
    }
    let source = Source::read("feature/comdat.cpp");
    let a = source.object("a.cpp", "-O1");
    let b = source.clang("b.cpp", "-O1 -fPIE -DWHICH=2");
    let c = source.clang(
        "c.cpp",
        "-O2 -fPIE -DWHICH=3 -faddrsig -funique-section-names",
    );
    Program::new([a, b, c])
        .cpp()
        .prints(source.text("stdout"))
        .check();
}

#[test]
fn unique() {
    check_in_all_ways("feature/unique.cpp", ["a.cpp", "b.cpp"], "-std=c++17", &ALL);
}

#[test]
fn absolute() {
    let source = Source::read("feature/absolute.s");
    let [a, code] = source.objects(["a.s", "code.s"], "");
    for flags in ["-O0 -fPIC", "-O1 -fPIC", "-O0 -fno-pic -fno-pie"] {
        // GNU ld would make an address out of reach of a load from the GOT.
        let main = source.object("main.c", &format!("{flags} -Wa,-mrelax-relocations=no"));
        let inputs = [main, a.clone(), code.clone()];
        Program::new(inputs)
            .link("-no-pie")
            .prints(source.text("stdout"))
            .check();
    }
}

#[test]
fn visibility() {
    check_in_all_ways("feature/visibility.c", ["a.c", "b.c"], "", &ALL);
    check_in_all_ways("feature/visibility.c", ["b.c", "a.c"], "", &[PIC, NON_PIC]);
}
