//! Where names are looked for: objects, then archives and libraries in the order in which they
//! were added, then the process.

use crate::support::{self, Folder, InProcessDylib, have, int, run};
use clinch_jit::{Library, Search};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: &str = "extern int probe(void); int user(void) { return probe(); }";

fn probe(n: u32) -> String {
    format!("int probe(void) {{ return {n}; }}")
}

fn shared(folder: &Folder, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let file = folder.path().join(format!("{name}.c"));
    fs::write(&file, source).expect("it can be written");
    let library = folder.path().join(format!("lib{name}.so"));
    run(Command::new("cc")
        .args(["-shared", "-fPIC"])
        .arg("-o")
        .arg(&library)
        .arg(&file)
        .args(options));
    library
}

fn add_library(linked: &InProcessDylib, path: &Path) {
    let library = Library::open(path.as_os_str()).unwrap_or_else(|error| panic!("{error}"));
    linked.dylib.add_library(library);
}

fn add_archive(linked: &InProcessDylib, path: &Path) {
    let name = path.display().to_string();
    linked
        .dylib
        .add_archive(&name, support::read(path))
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn archives_and_libraries_are_searched_in_their_order() {
    if !have(&["cc", "ar"]) {
        return;
    }
    let folder = Folder::new();
    let user = folder.object("user.c", USER, &["-fPIC"]);
    let member = folder.compile("member.c", &probe(1), &["-fPIC"]);
    let archive = folder.archive("libmember.a", "ar", &["rcs"], &[&member]);
    let library = shared(&folder, "probe", &probe(2), &[]);

    let mut linked = support::dylib();
    linked.add("user.o", user.clone());
    add_archive(&linked, &archive);
    add_library(&linked, &library);
    assert_eq!(int(linked.linked().call("user")), 1);

    let mut linked = support::dylib();
    linked.add("user.o", user.clone());
    add_library(&linked, &library);
    add_archive(&linked, &archive);
    assert_eq!(int(linked.linked().call("user")), 2);

    // An object comes before both.
    let mut linked = support::dylib();
    add_library(&linked, &library);
    add_archive(&linked, &archive);
    linked
        .add("user.o", user)
        .add("own.o", folder.object("own.c", &probe(3), &["-fPIC"]));
    assert_eq!(int(linked.linked().call("user")), 3);
}

#[test]
fn archives_come_before_the_process() {
    if !have(&["cc", "ar"]) {
        return;
    }
    let folder = Folder::new();
    let source = "extern int getppid(void); int user(void) { return getppid(); }";
    let user = folder.object("user.c", source, &["-fPIC"]);
    let member = folder.compile("member.c", "int getppid(void) { return -7; }", &["-fPIC"]);
    let archive = folder.archive("libmember.a", "ar", &["rcs"], &[&member]);
    let mut linked = support::dylib();
    linked.add("user.o", user.clone());
    assert!(int(linked.linked().call("user")) >= 0);
    let mut linked = support::dylib();
    linked.add("user.o", user);
    add_archive(&linked, &archive);
    assert_eq!(int(linked.linked().call("user")), -7);
}

/// Members that call one another over archives, whichever form the archives have.
#[test]
fn every_form_of_archive() {
    if !have(&["cc", "ar", "llvm-ar-22"]) {
        return;
    }
    let folder = Folder::new();
    let user = folder.object("user.c", USER, &["-fPIC"]);
    let source = "extern int a_name_that_is_longer_than_sixteen(void);
                  int probe(void) { return a_name_that_is_longer_than_sixteen(); }";
    let first = folder.compile("first.c", source, &["-fPIC"]);
    let source = "int a_name_that_is_longer_than_sixteen(void) { return 5; }";
    let second = folder.compile("a_member_with_a_long_name.c", source, &["-fPIC"]);
    let unused = folder.compile(
        "unused.c",
        "extern int nowhere(void); int x(void) { return nowhere(); }",
        &["-fPIC"],
    );
    let members: [&Path; 3] = [&first, &second, &unused];
    let forms: [(&str, &str, &[&str]); 6] = [
        ("gnu.a", "ar", &["rcs"]),
        ("thin.a", "ar", &["rcsT"]),
        ("plain.a", "ar", &["rcS"]),
        ("bsd.a", "llvm-ar-22", &["rcs", "--format=bsd"]),
        ("darwin.a", "llvm-ar-22", &["rcs", "--format=darwin"]),
        ("thin_plain.a", "ar", &["rcST"]),
    ];
    for (name, program, options) in forms {
        let archive = folder.archive(name, program, options, &members);
        let mut linked = support::dylib();
        linked.add("user.o", user.clone());
        add_archive(&linked, &archive);
        if let Err(errors) = linked.link() {
            panic!("{name}: {errors}");
        }
        assert_eq!(int(linked.call("user")), 5, "{name}");
        assert_eq!(linked.find("x"), None, "{name}");
    }
}

/// A weak reference takes no member out of an archive; a strong one elsewhere does for both.
#[test]
fn weak_references_take_no_member() {
    if !have(&["cc", "ar"]) {
        return;
    }
    let folder = Folder::new();
    let weak = "extern int quiet(void) __attribute__((weak));
                int weak_user(void) { return quiet ? quiet() : -1; }";
    let strong = "extern int quiet(void); int user(void) { return quiet(); }";
    let weak = folder.object("weak.c", weak, &["-fPIC"]);
    let member = folder.compile("member.c", "int quiet(void) { return 4; }", &["-fPIC"]);
    let archive = folder.archive("libmember.a", "ar", &["rcs"], &[&member]);
    let mut linked = support::dylib();
    linked.add("weak.o", weak.clone());
    add_archive(&linked, &archive);
    assert_eq!(int(linked.linked().call("weak_user")), -1);
    let mut linked = support::dylib();
    linked
        .add("weak.o", weak)
        .add("user.o", folder.object("user.c", strong, &["-fPIC"]));
    add_archive(&linked, &archive);
    assert_eq!(int(linked.linked().call("weak_user")), 4);
}

/// A link that fails gives back the members that it took.
#[test]
fn members_of_a_failed_link_are_there_for_the_next() {
    if !have(&["cc", "ar"]) {
        return;
    }
    let folder = Folder::new();
    let member = folder.compile("member.c", "int given_back(void) { return 8; }", &["-fPIC"]);
    let archive = folder.archive("libmember.a", "ar", &["rcs"], &[&member]);
    let bad = "extern int given_back(void), nowhere(void);
               int f(void) { return given_back() + nowhere(); }";
    let good = "extern int given_back(void); int g(void) { return given_back(); }";
    let mut linked = support::dylib();
    linked.add("bad.o", folder.object("bad.c", bad, &["-fPIC"]));
    add_archive(&linked, &archive);
    let errors = linked.link().expect_err("a symbol is missing").to_string();
    assert_eq!(errors, "undefined symbol: nowhere");
    linked
        .add("good.o", folder.object("good.c", good, &["-fPIC"]))
        .linked();
    assert_eq!(int(linked.call("g")), 8);
}

#[test]
fn versions_of_a_library_s_symbol() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let script = folder.path().join("versions.map");
    fs::write(&script, "V1 { };\nV2 { } V1;\n").expect("it can be written");
    let source = "
        int old_probe(void) { return 1; }
        int new_probe(void) { return 2; }
        __asm__(\".symver old_probe, versioned_probe@V1\");
        __asm__(\".symver new_probe, versioned_probe@@V2\");
    ";
    let option = format!("-Wl,--version-script={}", script.display());
    let library = shared(&folder, "versioned", source, &[&option]);
    let user = "
        int old(void); int newer(void); int any(void);
        __asm__(\".symver old, versioned_probe@V1\");
        __asm__(\".symver newer, versioned_probe@V2\");
        extern int versioned_probe(void);
        int use_old(void) { return old(); }
        int use_new(void) { return newer(); }
        int use_any(void) { return versioned_probe(); }
    ";
    let mut linked = support::dylib();
    linked.add("user.o", folder.object("user.c", user, &["-fPIC"]));
    add_library(&linked, &library);
    linked.linked();
    assert_eq!(int(linked.call("use_old")), 1);
    assert_eq!(int(linked.call("use_new")), 2);
    assert_eq!(int(linked.call("use_any")), 2);

    let user = "int old(void); __asm__(\".symver old, versioned_probe@V9\");
                int use_old(void) { return old(); }";
    let mut linked = support::dylib();
    linked.add("user.o", folder.object("other.c", user, &["-fPIC"]));
    add_library(&linked, &library);
    let errors = linked
        .link()
        .expect_err("there is no such version")
        .to_string();
    assert_eq!(errors, "undefined symbol: versioned_probe@V9");
}

/// What `-l` and a path stand for.
#[test]
fn files_by_name() {
    if !have(&["cc", "ar"]) {
        return;
    }
    let folder = Folder::new();
    let member = folder.compile("member.c", &probe(6), &["-fPIC"]);
    folder.archive("libfiles.a", "ar", &["rcs"], &[&member]);
    fs::write(
        folder.path().join("libscript.so"),
        "GROUP ( libfiles.a AS_NEEDED ( -lnone ) )\n",
    )
    .expect("it can be written");
    fs::write(folder.path().join("libloop.so"), "INPUT ( -lloop )\n").expect("it can be written");
    let user = folder.compile("user.c", USER, &["-fPIC"]);
    let search = Search {
        folders: vec![folder.path().to_owned()],
        system: false,
    };
    for name in ["files", "script", ":libfiles.a"] {
        let mut linked = support::dylib();
        let user = search.open_file(&user);
        let library = search.open_library(name);
        for opened in [user, library] {
            let opened = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
            let added = linked.dylib.add_inputs(opened);
            added.unwrap_or_else(|errors| panic!("{name}: {errors}"));
        }
        assert_eq!(int(linked.linked().call("user")), 6, "{name}");
    }
    let error = |name| {
        let opened = search.open_library(name);
        opened.expect_err("it fails").to_string()
    };
    assert_eq!(error("none"), "-lnone: library not found");
    let loops = error("loop");
    assert!(
        loops.ends_with("libloop.so: linker scripts name one another"),
        "{loops}"
    );
}
