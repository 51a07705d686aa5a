//! Archives of every form, and which members a link takes.

use super::{NON_PIC, PIC};
use crate::support::{Program, Source, archive, available};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Two archives that need each other.
fn check(program: &str, options: &str, second: &str) {
    if !available(&[program]) {
        return;
    }
    let source = Source::read("feature/archives.c");
    for (flags, link) in [PIC, NON_PIC] {
        let object = |part: &str| source.object(part, flags);
        let one: Vec<PathBuf> = ["unused.c", "first.c", "same.c", "duplicate.c", "back.c"]
            .map(object)
            .into();
        let one = archive("libone.a", program, options, &one);
        let other = archive(
            "libother.a",
            program,
            second,
            &[object("unused.c"), object("second.c")],
        );
        let inputs = [object("main.c"), one.clone(), other];
        // GNU ld looks back into an archive only when told to, and needs an index.
        let reference = ["main.c", "first.c", "same.c", "back.c", "second.c"].map(object);
        Program::new(inputs)
            .reference(reference)
            .link(link)
            .prints(source.text("stdout"))
            .check();
    }
}

#[test]
fn gnu() {
    check("ar", "rcs", "rcs");
}

#[test]
fn thin() {
    check("ar", "rcsT", "rcs");
    check("ar", "rcsT", "rcsT");
}

#[test]
fn bsd() {
    check("llvm-ar-22", "rcs --format=bsd", "rcs --format=darwin");
}

#[test]
fn without_an_index() {
    check("ar", "qcS", "rcs");
    check("ar", "qcST", "qcS");
    check("llvm-ar-22", "rcS --format=bsd", "rcS");
}

fn inputs_of_rules(source: &Source, order: [&str; 2]) -> Vec<OsString> {
    let members = ["weak.c", "definition.c", "needed.c", "calls.c", "atoi.c"];
    let members = members.map(|part| source.object(part, "-O1 -fno-builtin"));
    let library = archive("librules.a", "ar", "rcs", &members);
    let folder = library.parent().unwrap_or(Path::new("."));
    let mut inputs = vec![source.object("main.c", "-O1 -fno-builtin").into_os_string()];
    for word in order {
        let word = word.replace("FOLDER", &folder.to_string_lossy());
        inputs.push(word.replace("FILE", &library.to_string_lossy()).into());
    }
    inputs
}

#[test]
fn what_brings_a_member_in() {
    let source = Source::read("feature/archive_rules.c");
    for order in [
        ["FILE", "-lm"],
        ["-LFOLDER", "-lrules"],
        ["-LFOLDER", "-l:librules.a"],
    ] {
        let inputs = inputs_of_rules(&source, order);
        Program::new(inputs).prints(source.text("stdout")).check();
    }
}

/// A name that ends in spaces, one beyond 16 characters, and two members of one name.
#[test]
fn names_of_members() {
    let text = "//--- a_name_that_is_much_longer_than_the_header_has_room_for.c\n\
                int long_name(void) { return 1; }\n\
                //--- same/member.c\nint same_one(void) { return 2; }\n\
                //--- again/member.c\nint same_two(void) { return 3; }\n\
                //--- main.c\n\
                int long_name(void), same_one(void), same_two(void);\n\
                int main(void) { return long_name() + same_one() * 10 + same_two() * 40; }\n";
    let source = Source::new(text);
    let members = [
        "a_name_that_is_much_longer_than_the_header_has_room_for.c",
        "same/member.c",
        "again/member.c",
    ]
    .map(|part| source.object(part, ""));
    for (program, options) in [
        ("ar", "qcs"),
        ("ar", "qcsT"),
        ("llvm-ar-22", "qcs --format=bsd"),
        ("llvm-ar-22", "qcs --format=gnu"),
    ] {
        if available(&[program]) {
            let library = archive("libnames.a", program, options, &members);
            let main = source.object("main.c", "");
            let reference = members.iter().chain([&main]);
            Program::new([&main, &library])
                .reference(reference)
                .exits(141)
                .check();
        }
    }
}

/// An archive with nothing in it, and one that is given twice.
#[test]
fn empty_and_twice() {
    let source = Source::read("feature/archives.c");
    let object = |part: &str| source.object(part, "");
    let empty = archive("libempty.a", "ar", "rcs", &[]);
    let members = ["first.c", "same.c", "second.c", "back.c"].map(object);
    let library = archive("libtwice.a", "ar", "rcs", &members);
    let inputs = [
        empty.clone(),
        object("main.c"),
        library.clone(),
        library,
        empty,
    ];
    Program::new(inputs).prints(source.text("stdout")).check();
}
