//! Files that cannot be linked: missing, of another kind, truncated, corrupt, of another machine.

use super::{check, fails, in_order, name};
use crate::support::{Source, archive, available, clinch, clinch_run, run, scratch};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn hello() -> Source {
    Source::new(
        "//--- hello.c\n#include <stdio.h>\nstatic const char *words[] = {\"hello\"};\n\
         int main(void) { return puts(words[0]) < 0; }\n",
    )
}

/// A file of these bytes, given to clinch beside a good object, in its own scratch folder.
fn said_of(file_name: &str, bytes: &[u8]) -> String {
    let folder = scratch();
    fs::write(folder.path().join(file_name), bytes).expect("a scratch file can be written");
    let object = hello().object("hello.c", "");
    let said = check(&clinch_run(
        folder.path(),
        [object.as_os_str(), file_name.as_ref()],
    ));
    assert!(said.contains(file_name), "{said}");
    said
}

#[test]
fn missing_files() {
    in_order(
        &fails(["no/such/file.o"]),
        &["no/such/file.o", "No such file or directory"],
    );
    in_order(
        &fails(["no_such_source.c"]),
        &["no_such_source.c", "No such file or directory"],
    );
    let object = hello().object("hello.c", "").into_os_string();
    let library = OsString::from("-lno_such_library");
    in_order(
        &fails([object, library]),
        &["-lno_such_library", "not found"],
    );
    // All that is missing, not only the first.
    in_order(&fails(["first.o", "second.a"]), &["first.o", "second.a"]);
}

#[test]
fn folder_in_place_of_a_file() {
    let folder = scratch();
    let said = fails([folder.path()]);
    in_order(&said, &[&folder.path().display().to_string(), "director"]);
}

#[test]
fn unreadable_file() {
    // A loop of links cannot be opened by anybody, root included.
    let folder = scratch();
    let looped = folder.path().join("loop.o");
    std::os::unix::fs::symlink("loop.o", &looped).expect("a link can be made");
    in_order(&fails([&looped]), &["loop.o"]);
}

#[test]
fn command_line() {
    in_order(
        &fails(["--no-such-option"]),
        &["unknown option", "--no-such-option"],
    );
    let folder = scratch();
    let said = check(&clinch_run(folder.path(), [""; 0]));
    in_order(&said, &["no input files"]);
    in_order(&check(&clinch_run(folder.path(), ["-L"])), &["-L"]);
    let output = run(Command::new(clinch()).arg("no_such_command"), b"");
    assert!(!output.status.success(), "{output:?}");
    in_order(&output.errors(), &["no_such_command"]);
}

#[test]
fn files_of_other_kinds() {
    said_of("empty.o", b"");
    said_of("text.o", b"This is a text, and no object.\n");
    said_of("random.a", &[0x80, 0x00, 0xff, 0x17, 0x55]);
    said_of("short.o", b"\x7fELF");
    said_of("script.sh", b"#!/bin/sh\nexit 0\n");
    // Kinds that clinch knows by name.
    let bitcode = said_of("module.bc", b"BC\xc0\xde\x35\x14\x00\x00\x05\x00\x00\x00");
    in_order(&bitcode.to_lowercase(), &["bitcode"]);
    let macho = said_of(
        "macho.o",
        b"\xcf\xfa\xed\xfe\x07\x00\x00\x01\x03\x00\x00\x00\x01\x00\x00\x00",
    );
    in_order(&macho, &["Mach-O"]);
}

#[test]
fn executable_in_place_of_an_object() {
    let said = fails(["/bin/true"]);
    assert!(said.contains("/bin/true"), "{said}");
}

#[test]
fn other_architectures() {
    if !available(&["clang-22"]) {
        return;
    }
    let source = Source::new(
        "//--- main.c\nint main(void) { return 0; }\n//--- f.c\nint f(void) { return 0; }\n",
    );
    let good = source.object("main.c", "");
    for (target, architecture) in [
        ("aarch64-linux-gnu", "aarch64"),
        ("i686-linux-gnu", "386"),
        ("riscv64-linux-gnu", "risc-v"),
        ("powerpc64-linux-gnu", "p"),
        ("s390x-linux-gnu", "s/390"),
    ] {
        let object = source.clang("f.c", &format!("--target={target}"));
        for inputs in [vec![&good, &object], vec![&object, &good]] {
            let said = fails(inputs);
            assert!(said.contains(&name(&object)), "{target}: {said}");
            assert!(!said.contains("undefined symbol"), "{target}: {said}");
            let known = said.to_lowercase().contains(architecture);
            assert!(known || said.contains("machine"), "{target}: {said}");
        }
    }
}

#[test]
fn other_architecture_in_an_archive() {
    if !available(&["clang-22", "llvm-ar-22"]) {
        return;
    }
    let text = "//--- main.c\nint f(void);\nint main(void) { return f(); }\n\
                //--- f.c\nint f(void) { return 0; }\n";
    let source = Source::new(text);
    let member = source.clang("f.c", "--target=aarch64-linux-gnu");
    let library = archive("libforeign.a", "llvm-ar-22", "rcs", &[member]);
    let said = fails([source.object("main.c", ""), library]);
    in_order(&said, &["libforeign.a(f.o)"]);
}

/// Every shorter copy of an object is refused with a message; the longest ones may lack only what
/// nobody reads.
#[test]
fn truncated_objects() {
    let object = hello().object("hello.c", "-g -ffunction-sections");
    let bytes = fs::read(&object).expect("an object");
    let folder = scratch();
    let mut n_refused = 0;
    let steps: Vec<usize> = (0..bytes.len()).step_by(bytes.len() / 40 + 1).collect();
    for &len in &steps {
        fs::write(folder.path().join("short.o"), &bytes[..len]).expect("a scratch file");
        let output = clinch_run(folder.path(), ["short.o"]);
        let said = check(&output);
        assert!(
            said.contains("short.o"),
            "{len} of {} bytes: {said}",
            bytes.len()
        );
        n_refused += usize::from(said.contains("truncated") || said.contains("offset 0x"));
    }
    // The first few are too short to be told to be ELF.
    assert!(
        n_refused + 3 >= steps.len(),
        "{n_refused} of {}",
        steps.len()
    );
}

/// An object with one field broken at a time: where, the field's bytes, and what must be said.
#[test]
fn corrupt_objects() {
    let object = hello().object("hello.c", "-O0");
    let good = fs::read(&object).expect("an object");
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&good[at..at + 8]);
        usize::try_from(u64::from_le_bytes(bytes)).expect("a small number")
    };
    let (headers, n_sections) = (word(0x28), usize::from(good[0x3c]));
    let header_of = |wanted: u32| {
        (1..n_sections)
            .map(|n| headers + n * 64)
            .find(|&at| good[at + 4..at + 8] == wanted.to_le_bytes())
            .unwrap_or_else(|| panic!("no section of type {wanted}"))
    };
    let (progbits, symtab, strtab, rela) = (header_of(1), header_of(2), header_of(3), header_of(4));
    let symbols = word(symtab + 0x18);
    let records = word(rela + 0x18);
    let all: [u8; 8] = [0xff; 8];
    let cases: [(&str, usize, &[u8]); 16] = [
        ("offset of section headers", 0x28, &[0xff, 0xff, 0xff, 0x7f]),
        ("offset of section headers, huge", 0x28, &all),
        ("size of a section header", 0x3a, &[1, 0]),
        ("number of section names", 0x3e, &[0xee, 0]),
        ("offset of contents", progbits + 0x18, &all),
        (
            "size of contents",
            progbits + 0x20,
            &[0xff, 0xff, 0xff, 0x7f],
        ),
        ("alignment", progbits + 0x30, &[3]),
        ("link of the symbol table", symtab + 0x28, &[0xee, 0, 0, 0]),
        ("first global symbol", symtab + 0x2c, &[0xff, 0xff, 0, 0]),
        ("size of a symbol", symtab + 0x38, &[7]),
        ("offset of strings", strtab + 0x18, &[0, 0, 0, 0x70]),
        ("section of relocations", rela + 0x2c, &[0xee, 0, 0, 0]),
        ("size of a relocation", rela + 0x38, &[5]),
        ("symbol's name", symbols + 24, &[0xff, 0xff, 0xff, 0x0f]),
        ("relocation's symbol", records + 12, &[0xff, 0xff, 0, 0]),
        ("relocation's type", records + 8, &[0xfe, 0, 0, 0]),
    ];
    let folder = scratch();
    for (what, at, bytes) in cases {
        let mut broken = good.clone();
        broken[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(folder.path().join("broken.o"), &broken).expect("a scratch file");
        let output = clinch_run(folder.path(), ["broken.o"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {output:?}");
        let said = check(&output);
        assert!(said.contains("broken.o"), "{what}: {said}");
        assert!(said.len() < 2000, "{what}: {said}");
    }
}

#[test]
fn corrupt_archives() {
    let object = hello().object("hello.c", "");
    let main = Source::new(
        "//--- m.c\nint f(void);\nint main(void) { return f(); }\n//--- f.c\nint f(void) { return 0; }\n",
    );
    let library = archive("libf.a", "ar", "rcs", &[main.object("f.c", "")]);
    let bytes = fs::read(library).expect("an archive");
    let folder = scratch();
    let main = main.object("m.c", "");
    for len in [8, 40, 70, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(folder.path().join("libshort.a"), &bytes[..len]).expect("a scratch file");
        let said = check(&clinch_run(
            folder.path(),
            [main.as_os_str(), "libshort.a".as_ref()],
        ));
        assert!(
            said.contains("libshort.a") || said.contains("undefined symbol: f"),
            "{said}"
        );
    }
    // A thin archive whose member is gone.
    let gone: PathBuf = folder.path().join("gone.o");
    fs::copy(&object, &gone).expect("a scratch file");
    let mut ar = Command::new("ar");
    crate::support::tool(
        ar.args(["rcsT", "libthin.a", "gone.o"])
            .current_dir(folder.path()),
    );
    fs::remove_file(&gone).expect("a scratch file");
    let said = check(&clinch_run(folder.path(), ["libthin.a"]));
    assert!(said.contains("gone.o"), "{said}");
}

/// A source that does not compile: the compiler's messages, then a failure.
#[test]
fn source_with_an_error() {
    let folder = scratch();
    fs::write(
        folder.path().join("wrong.c"),
        "int main(void) { return undeclared; }\n",
    )
    .expect("a scratch file can be written");
    let output = clinch_run(folder.path(), ["wrong.c"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.errors().contains("undeclared"), "{output:?}");
}
