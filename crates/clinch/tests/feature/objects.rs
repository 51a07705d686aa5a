//! Objects as various tools write them: CREL, `ld -r`, code models, hardening flags, stripped.

use super::{NON_PIC, PIC, check_in_all_ways};
use crate::support::{Program, Source, available, cached, relocatable, tool};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

const PARTS: [&str; 2] = ["a.c", "b.c"];

#[test]
fn compact_relocations() {
    if !available(&["clang-22"]) {
        return;
    }
    for name in ["feature/models.c", "feature/strings.c", "feature/weak.c"] {
        let source = Source::read(name);
        for flags in [
            "-O1 -fPIE",
            "-O0 -g -fPIC",
            "-O2 -fno-pic -ffunction-sections",
        ] {
            let crel = format!("{flags} -Wa,--crel,--allow-experimental-crel");
            let compact = PARTS.map(|part| source.clang(part, &crel));
            let plain = PARTS.map(|part| source.clang(part, flags));
            let program = Program::new(compact).reference(plain).link("-no-pie");
            program.prints(source.text("stdout")).check();
        }
    }
    // With unwind tables and groups.
    let source = Source::read("feature/comdat.cpp");
    let parts = ["a.cpp", "b.cpp", "c.cpp"];
    let crel = "-O1 -fPIE -Wa,--crel,--allow-experimental-crel";
    let compact = parts.map(|part| source.clang(part, crel));
    let plain = parts.map(|part| source.clang(part, "-O1 -fPIE"));
    Program::new(compact)
        .reference(plain)
        .cpp()
        .prints(source.text("stdout"))
        .check();
}

#[test]
fn combined_by_relocatable_links() {
    for (name, parts) in [
        ("feature/weak.c", PARTS),
        ("feature/common.c", PARTS),
        ("feature/strings.c", PARTS),
        ("feature/tls.c", ["main.c", "other.c"]),
        ("feature/comdat.cpp", ["a.cpp", "b.cpp"]),
    ] {
        let source = Source::read(name);
        for (flags, link) in [PIC, NON_PIC] {
            let objects = source.objects(parts, &format!("{flags} -fcommon -ffunction-sections"));
            for options in ["", "--unique"] {
                let mut inputs = vec![relocatable("combined.o", options, &objects)];
                let is_cpp = name.ends_with(".cpp");
                if is_cpp {
                    inputs.push(source.object("c.cpp", flags));
                }
                let program = Program::new(inputs)
                    .link(link)
                    .prints(source.text("stdout"));
                if is_cpp { program.cpp() } else { program }.check();
            }
        }
    }
}

#[test]
fn code_models() {
    let ways = [
        ("-O1 -mcmodel=large -fno-pic", "-no-pie"),
        ("-O1 -mcmodel=large -fPIC", ""),
        ("-O1 -mcmodel=medium -fno-pic", "-no-pie"),
        ("-O1 -mcmodel=medium -fPIC", ""),
        ("-O0 -mcmodel=medium -mlarge-data-threshold=10", ""),
        ("-O1 -mcmodel=large", ""),
    ];
    check_in_all_ways("feature/models.c", PARTS, "", &ways);
    if !available(&["clang-22"]) {
        return;
    }
    let source = Source::read("feature/models.c");
    for flags in [
        "-O1 -mcmodel=large -fPIC",
        "-O1 -mcmodel=medium -fPIC",
        "-O1 -mcmodel=large",
    ] {
        let objects = PARTS.map(|part| source.clang(part, flags));
        Program::new(objects).prints(source.text("stdout")).check();
    }
}

#[test]
fn flags_that_change_objects() {
    let ways = [
        ("-O2 -ffunction-sections -fdata-sections", ""),
        ("-O2 -fstack-protector-all -fcf-protection=full", ""),
        ("-O2 -fno-asynchronous-unwind-tables", ""),
        ("-O1 -fno-plt -fno-pic -fno-pie", "-no-pie"),
        ("-O1 -fvisibility=hidden -fPIC", ""),
        ("-O3 -march=x86-64-v2 -g3 -ggdb", ""),
        ("-O1 -Wa,-mrelax-relocations=no -fPIC", ""),
        ("-O1 -fno-jump-tables -finstrument-functions", ""),
        ("-Os -fmerge-all-constants", ""),
    ];
    check_in_all_ways("feature/models.c", PARTS, "", &ways);
    check_in_all_ways("feature/strings.c", PARTS, "", &ways);
}

/// The objects without the symbols that relocations do not need.
#[test]
fn stripped() {
    if !available(&["strip", "objcopy"]) {
        return;
    }
    let source = Source::read("feature/weak.c");
    for (program, options) in [
        ("strip", "--strip-unneeded"),
        ("objcopy", "--localize-hidden"),
        ("strip", "-g"),
    ] {
        let objects = source.objects(PARTS, "-O1 -g").map(|object| {
            let command: Vec<OsString> = [program, options].map(OsString::from).into();
            let inputs: [PathBuf; 1] = [object];
            cached("stripped.o", &command, &inputs, |out| {
                std::fs::copy(&inputs[0], out).expect("the cache can be written");
                tool(Command::new(program).arg(options).arg(out));
            })
        });
        Program::new(objects).prints(source.text("stdout")).check();
    }
}
