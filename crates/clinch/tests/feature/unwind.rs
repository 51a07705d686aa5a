//! Unwinding: exceptions, backtraces, cancellation, and programs that nobody catches.

use super::{ALL, Flags};
use crate::support::{Program, Source, available};
use std::os::unix::process::ExitStatusExt;

fn program(source: &Source, (flags, link): Flags) -> Program {
    let cpp = ["main.cpp", "thrower.cpp", "optimized.cpp"];
    let through = source.object("through.c", &format!("{flags} -fexceptions"));
    let objects = source.objects(cpp, flags).into_iter().chain([through]);
    Program::new(objects).cpp().link(link)
}

#[test]
fn through_objects_of_c() {
    let source = Source::read("feature/unwind.cpp");
    for way in ALL
        .into_iter()
        .chain([("-O2 -fomit-frame-pointer -ffunction-sections", "")])
    {
        program(&source, way).prints(source.text("stdout")).check();
    }
}

#[test]
fn by_clang() {
    if !available(&["clang++-22"]) {
        return;
    }
    let source = Source::read("feature/unwind.cpp");
    for flags in ["-O1 -fPIE", "-O2 -fno-pic", "-O1 -fPIC -mcmodel=large"] {
        let parts = ["main.cpp", "thrower.cpp", "optimized.cpp"];
        let through = source.clang("through.c", &format!("{flags} -fexceptions"));
        let objects = parts
            .map(|part| source.clang(part, flags))
            .into_iter()
            .chain([through]);
        Program::new(objects)
            .cpp()
            .link("-no-pie")
            .prints(source.text("stdout"))
            .check();
    }
}

#[test]
fn nobody_catches() {
    let source = Source::read("feature/unwind.cpp");
    for way in ALL {
        let program = program(&source, way);
        let output = program
            .clone()
            .arguments(["uncaught"])
            .ends_by_signal()
            .check();
        assert_eq!(output.status.signal(), Some(6));
        assert!(
            output.errors().contains("what():  nobody catches this"),
            "{output:?}"
        );
        let output = program
            .clone()
            .arguments(["noexcept"])
            .ends_by_signal()
            .check();
        assert_eq!(output.status.signal(), Some(6));
        program.clone().arguments(["handler"]).exits(12).check();
        for place in ["initializer", "atexit"] {
            let output = program.clone().arguments([place]).ends_by_signal().check();
            assert_eq!(output.status.signal(), Some(6));
            let said = "terminate called after throwing an instance of 'int'";
            assert!(output.errors().contains(said), "{output:?}");
        }
    }
}
