//! Objects that clinch wrote: the system's linker and clinch make the same program of them as of
//! the originals, object by object and of all in one.

use super::{Flags, NO_PLT, NON_PIC, PIC, UNOPTIMIZED};
use crate::support::{Program, Source, available, clinch, run, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our programs with their parts: what objects may hold is in one or another.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("feature/alignment.c", &["a.c", "b.c"]),
    ("feature/comdat.cpp", &["a.cpp", "b.cpp", "c.cpp"]),
    ("feature/common.c", &["a.c", "b.c"]),
    ("feature/models.c", &["a.c", "b.c"]),
    ("feature/strings.c", &["a.c", "b.c"]),
    ("feature/unique.cpp", &["a.cpp", "b.cpp"]),
    ("feature/visibility.c", &["a.c", "b.c"]),
    ("feature/weak.c", &["a.c", "b.c"]),
];

const WAYS: [Flags; 5] = [
    PIC,
    NON_PIC,
    UNOPTIMIZED,
    NO_PLT,
    (
        "-O2 -fPIE -ffunction-sections -fdata-sections -g",
        "-Wl,--gc-sections",
    ),
];

/// Writes objects as one.
fn emit(output: &Path, objects: &[PathBuf]) -> PathBuf {
    let mut option = std::ffi::OsString::from("--emit-object=");
    option.push(output);
    let mut command = Command::new(clinch());
    let said = run(command.arg("graph").arg(option).args(objects), b"");
    assert_eq!(said.status.code(), Some(0), "{objects:?}: {said:?}");
    output.to_owned()
}

fn check(name: &str, inputs: Vec<PathBuf>, link: &str, stdout: &str) {
    let program = Program::new(inputs).link(link).prints(stdout);
    if name.ends_with(".cpp") {
        program.cpp()
    } else {
        program
    }
    .check();
}

fn check_written(source: &Source, name: &str, objects: &[PathBuf], link: &str) {
    let folder = scratch();
    let stdout = source.text("stdout");
    let each = objects.iter().map(|object| {
        let file_name = object.file_name().expect("it is a file");
        emit(&folder.path().join(file_name), std::slice::from_ref(object))
    });
    check(name, each.collect(), link, stdout);
    // A program goes by the name of its first input.
    let stem = objects[0].file_stem().expect("it is a file");
    fs::create_dir(folder.path().join("one")).expect("the folder is new");
    let one = folder.path().join("one").join(stem).with_extension("o");
    check(name, vec![emit(&one, objects)], link, stdout);
}

#[test]
fn programs() {
    for (name, parts) in PROGRAMS {
        let source = Source::read(name);
        for (flags, link) in WAYS {
            let more = if name.ends_with(".cpp") {
                "-std=c++17"
            } else {
                "-fcommon"
            };
            let flags = format!("{flags} {more}");
            let objects = parts.iter().map(|part| source.object(part, &flags));
            check_written(&source, name, &objects.collect::<Vec<_>>(), link);
        }
    }
}

/// (GNU ld 2.40 gives an IFUNC two addresses in a position-independent executable.)
#[test]
fn thread_local_variables_ifuncs_and_exceptions() {
    for (name, parts) in [
        ("feature/tls.c", &["main.c", "other.c"][..]),
        ("feature/ifunc.c", &["main.c", "other.c", "member.c"]),
        (
            "feature/unwind.cpp",
            &["main.cpp", "thrower.cpp", "optimized.cpp", "through.c"],
        ),
    ] {
        let source = Source::read(name);
        for (flags, link) in [PIC, NON_PIC, NO_PLT] {
            let flags = format!("{flags} -fexceptions");
            let objects = parts.iter().map(|part| source.object(part, &flags));
            check_written(&source, name, &objects.collect::<Vec<_>>(), link);
        }
    }
}

#[test]
fn objects_of_clang() {
    if !available(&["clang-22"]) {
        return;
    }
    for (name, parts) in PROGRAMS {
        let source = Source::read(name);
        for (flags, link) in [
            ("-O2 -fPIC -faddrsig -fcommon", ""),
            (
                "-O2 -fno-pic -fno-pie -fcommon -Wa,--crel,--allow-experimental-crel",
                "-no-pie",
            ),
        ] {
            let objects = parts.iter().map(|part| source.clang(part, flags));
            check_written(&source, name, &objects.collect::<Vec<_>>(), link);
        }
    }
}

/// An output that cannot be written is told, and what was there stays.
#[test]
fn outputs_that_cannot_be_written() {
    let folder = scratch();
    let source = Source::new("//--- a.c\nint main(void) { return 0; }\n");
    let object = source.object("a.c", "-O1");
    let fails = |output: &Path, why: &str| {
        let mut command = Command::new(clinch());
        let option = format!("--emit-object={}", output.display());
        let said = run(command.arg("graph").arg(option).arg(&object), b"");
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        let message = format!("clinch: error: cannot write {}: {why}\n", output.display());
        assert_eq!(said.errors(), message);
    };
    fails(
        &folder.path().join("no/where.o"),
        "No such file or directory (os error 2)",
    );
    fails(folder.path(), "Is a directory (os error 21)");
    // A device is written to as it is, and stays what it is.
    fails(
        Path::new("/dev/full"),
        "No space left on device (os error 28)",
    );
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);

    // What cannot be read leaves the output alone.
    let output = folder.path().join("out.o");
    fs::write(&output, "before").expect("it can be written");
    let broken = folder.path().join("broken.o");
    fs::write(&broken, &fs::read(&object).expect("it is there")[..200]).expect("it can be written");
    let option = format!("--emit-object={}", output.display());
    let said = run(
        Command::new(clinch())
            .arg("graph")
            .arg(&option)
            .arg(&broken),
        b"",
    );
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert_eq!(fs::read(&output).expect("it is there"), b"before");
    // A link is followed.
    let link = folder.path().join("link.o");
    std::os::unix::fs::symlink(&output, &link).expect("the name is new");
    emit(&link, std::slice::from_ref(&object));
    assert!(
        fs::symlink_metadata(&link)
            .expect("it is there")
            .is_symlink()
    );
    assert!(
        fs::read(&output)
            .expect("it is there")
            .starts_with(b"\x7fELF")
    );
    let left = fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(left, 3, "a temporary file was left behind");
}

/// Two strong definitions do not join.
#[test]
fn objects_that_clash() {
    let folder = scratch();
    let source = Source::new("//--- a.c\nint f = 1;\n//--- b.c\nint f = 2;\n");
    let objects = ["a.c", "b.c"].map(|part| source.object(part, "-O1"));
    let output = folder.path().join("out.o");
    let option = format!("--emit-object={}", output.display());
    let said = run(
        Command::new(clinch())
            .arg("graph")
            .arg(option)
            .args(objects),
        b"",
    );
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.errors().contains("duplicate symbol: f"), "{said:?}");
    assert!(!output.exists());
}
