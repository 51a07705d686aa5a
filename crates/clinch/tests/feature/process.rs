//! What a program sees of its process: arguments, environment, input, signals, other stacks.

use super::{NON_PIC, PIC, UNOPTIMIZED};
use crate::support::{Program, Source, available};

#[test]
fn surroundings() {
    let source = Source::read("feature/process.c");
    for (flags, link) in [PIC, NON_PIC, UNOPTIMIZED, ("-O2 -D_FORTIFY_SOURCE=2", "")] {
        let output = Program::new([source.object("main.c", flags)])
            .link(link)
            .arguments([
                "plain",
                "with space",
                "",
                "--",
                "-l",
                "@file",
                "--time",
                "ä",
            ])
            .variable("CLINCH_TEST_VARIABLE", "a value")
            .stdin("first line\nsecond\nno end")
            .check();
        let text = output.text();
        for line in [
            "8 arguments\n",
            "3 <>",
            "6 <@file>",
            "8 <ä>",
            "read <no end>",
        ] {
            assert!(text.contains(line), "{line} is missing:\n{text}");
        }
    }
}

#[test]
fn compiled_by_clang() {
    if !available(&["clang-22"]) {
        return;
    }
    let source = Source::read("feature/process.c");
    for flags in ["-O0", "-O2 -fPIE", "-O2 -fno-pic"] {
        Program::new([source.clang("main.c", flags)])
            .link("-no-pie")
            .variable("CLINCH_TEST_VARIABLE", "a value")
            .check();
    }
}
