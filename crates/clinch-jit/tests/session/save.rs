//! Saving what a dylib has linked: the object is linked by other linkers, and by other sessions,
//! and does what the dylib does.

use super::{add, call, dylib, object, session};
use crate::support::{self, Folder, have, read};
use bytes::Bytes;
use clinch_graph::{InputName, LinkGraph};
use clinch_jit::Library;
use clinch_jit::passes::Passes;
use clinch_jit::session::{Dylib, LinkInfo, LinkPlugin, Match, SaveError, Session, SessionOptions};
use clinch_object::read_object;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// A session that keeps graphs.
fn keeping() -> Session {
    let options = SessionOptions {
        threads: 2,
        keep_graphs: true,
        ..SessionOptions::default()
    };
    Session::new(support::arch(), options)
}

fn save(dylib: &Dylib) -> Bytes {
    let saved = dylib.save();
    saved.unwrap_or_else(|error| panic!("{error}")).into()
}

/// Runs what the dylib's code wants to be run at its end, while it is there.
#[expect(unsafe_code, reason = "runs linked code")]
fn end(dylib: &Dylib) {
    // SAFETY: it is a compiler's, and none of it runs.
    let ended = unsafe { dylib.finalize() };
    ended.unwrap_or_else(|error| panic!("{error}"));
}

/// The graph of a saved dylib.
fn saved_graph(bytes: &Bytes) -> LinkGraph {
    let graph = read_object(InputName::file("saved.o"), bytes.clone());
    graph.unwrap_or_else(|error| panic!("{error}"))
}

const FIRST: &str = "
    int shared = 5, common; static int calls; int member(int);
    __thread int tls = 7; static __thread int tls_zero;
    __attribute__((visibility(\"hidden\"))) int hidden_value(void) { return ++calls; }
    static int triple(int x) { return x * 3; } static void *pick(void) { return triple; }
    int chosen(int) __attribute__((ifunc(\"pick\")));
    __attribute__((weak)) int maybe(void);
    static int *const pointers[] = {&shared, &common};
    __attribute__((section(\"numbers\"), used)) static int values[2] = {10, 20};
    extern int __start_numbers[], __stop_numbers[];
    int first(void) {
      tls_zero += 2; *pointers[1] += 4;
      int sum = member(*pointers[0]) + hidden_value() + tls + tls_zero + chosen(2) + common;
      for (int *n = __start_numbers; n < __stop_numbers; n++) sum += *n;
      return sum + (maybe ? 1000 : 0); }";

const MEMBER: &str = "
    #include <string.h>\n#include <stdlib.h>\n
    extern int shared; static int twice(int x) { return 2 * x; }
    int member(int x) { return twice(x) + shared + (int)strlen(getenv(\"PATH\") ? \"abc\" : \"\"); }";

const SECOND: &str = "
    #include <stdexcept>\n#include <string>\n#include <cstdio>\n
    extern \"C\" int first(void); extern \"C\" __thread int tls; 
    extern \"C\" __attribute__((visibility(\"hidden\"))) int hidden_value(void);
    inline int &counter() { static int value = 40; return value; }
    struct Base { virtual ~Base() {} virtual int get() { return 1; } };
    template <class T> struct Box : Base { int get() override { return int(sizeof(T)); } };
    struct Bye { int n; Bye() : n(3) {} ~Bye() { std::puts(\"bye\"); } };
    int unused() { throw 1; }
    extern \"C\" int second(void) {
      static Bye bye; Box<long> box; Base *base = &box;
      try { throw std::runtime_error(\"x\" + std::to_string(first())); }
      catch (const std::exception &e) { counter() += int(std::string(e.what()).size()); }
      return counter() + hidden_value() + tls++ + base->get() + bye.n; }";

const MAIN: &str = "
    #include <stdio.h>\n int first(void); int second(void);
    int main(void) { printf(\"%d\\n\", first()); printf(\"%d\\n\", second()); printf(\"%d\\n\", second()); return 0; }";

/// The sources as objects, and the member's archive.
struct Built {
    folder: Folder,
    first: PathBuf,
    second: PathBuf,
    archive: PathBuf,
    main: PathBuf,
}

fn build(options: &[&str]) -> Built {
    let folder = Folder::new();
    let first = folder.compile("first.c", FIRST, options);
    let member = folder.compile("member.c", MEMBER, options);
    let second = folder.compile("second.cpp", SECOND, options);
    let main = folder.compile("main.c", MAIN, &["-O1", "-fPIC"]);
    let unneeded = folder.compile("unneeded.c", "int unneeded = 1;", options);
    let members: [&Path; 2] = [&member, &unneeded];
    let archive = folder.archive("lib.a", "ar", &["rcs"], &members);
    Built {
        folder,
        first,
        second,
        archive,
        main,
    }
}

fn add_file(dylib: &Dylib, path: &Path) {
    let name = InputName::file(&path.to_string_lossy());
    add(dylib, vec![(name, read(path))]);
}

fn with_cpp(dylib: &Dylib) {
    let library = Library::open("libstdc++.so.6".as_ref());
    dylib.add_library(library.unwrap_or_else(|error| panic!("{error}")));
}

/// What a program prints that is linked of these.
fn printed(folder: &Folder, words: &[&str], inputs: &[&Path]) -> String {
    let program = folder.path().join("program");
    support::run(
        Command::new(words[0])
            .args(inputs)
            .args(&words[1..])
            .arg("-o")
            .arg(&program),
    );
    let output = Command::new(&program).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Two links, one with a member of an archive: the saved object is linked in every way.
#[test]
fn two_links_and_a_member() {
    if !have(&["cc", "c++", "ar"]) {
        return;
    }
    for options in [
        &["-O1", "-fPIC"][..],
        &[
            "-O2",
            "-fPIC",
            "-ffunction-sections",
            "-fdata-sections",
            "-g",
        ],
        &["-O2", "-fPIE", "-fcf-protection=full"],
    ] {
        let built = build(options);
        let session = keeping();
        let main = dylib(&session, "main");
        with_cpp(&main);
        main.add_archive("lib.a", read(&built.archive))
            .unwrap_or_else(|error| panic!("{error}"));
        add_file(&main, &built.first);
        let mut values = vec![call(&main, "first")];
        assert_eq!(saved_graph(&save(&main)).find_symbol(b"second"), None);
        add_file(&main, &built.second);
        values.extend([call(&main, "second"), call(&main, "second")]);
        assert_eq!(main.links().len(), 2);
        let saved = save(&main);
        assert_eq!(save(&main), saved, "saved again it is other bytes");

        let file = built.folder.path().join("saved.o");
        std::fs::write(&file, &saved).expect("it can be written");
        let expected = format!("{}\n{}\n{}\nbye\n", values[0], values[1], values[2]);
        let all: [&Path; 4] = [&built.main, &built.first, &built.second, &built.archive];
        let lines = [
            &["c++"][..],
            &["c++", "-no-pie"],
            &["c++", "-Wl,--gc-sections"],
            &["clang++-22", "--ld-path=ld.lld-22"],
            &[
                "clang++-22",
                "--ld-path=ld.lld-22",
                "-Wl,--gc-sections,--icf=all,-z,nostart-stop-gc",
            ],
        ];
        for words in lines {
            if have(&words[..1]) {
                assert_eq!(printed(&built.folder, words, &all), expected, "{words:?}");
                let inputs: [&Path; 2] = [&built.main, &file];
                assert_eq!(
                    printed(&built.folder, words, &inputs),
                    expected,
                    "{words:?}"
                );
            }
        }

        // Another session, which saves the same again.
        let other = keeping();
        let again = dylib(&other, "main");
        with_cpp(&again);
        add(&again, vec![(InputName::file("saved.o"), saved)]);
        let found = [
            call(&again, "first"),
            call(&again, "second"),
            call(&again, "second"),
        ];
        assert_eq!(found, *values);
        add(
            &again,
            vec![object(
                &built.folder,
                "x",
                "int member(int); int x(void) { return member(3); }",
            )],
        );
        assert_eq!(call(&again, "x"), 14);
        end(&again);
        end(&main);
    }
}

/// A shared library takes position-independent code only, and so must find no rewritten code.
#[test]
fn a_shared_library_of_it() {
    if !have(&["cc", "c++", "ar"]) {
        return;
    }
    let built = build(&["-O1", "-fPIC"]);
    let session = keeping();
    let main = dylib(&session, "main");
    with_cpp(&main);
    let added = main.add_archive("lib.a", read(&built.archive));
    added.unwrap_or_else(|error| panic!("{error}"));
    add_file(&main, &built.first);
    add_file(&main, &built.second);
    let values = [
        call(&main, "first"),
        call(&main, "second"),
        call(&main, "second"),
    ];
    let (file, library) = (
        built.folder.path().join("saved.o"),
        built.folder.path().join("saved.so"),
    );
    std::fs::write(&file, save(&main)).expect("it can be written");
    let mut command = Command::new("c++");
    support::run(
        command
            .args(["-shared", "-Wl,-z,defs"])
            .arg(&file)
            .arg("-o")
            .arg(&library),
    );
    let inputs: [&Path; 2] = [&built.main, &library];
    let expected = format!("{}\n{}\n{}\nbye\n", values[0], values[1], values[2]);
    assert_eq!(printed(&built.folder, &["c++"], &inputs), expected);
    end(&main);
}

/// Names keep what they say, what other dylibs define stays undefined, and what nobody needs is
/// not there.
#[test]
fn names_and_scopes() {
    use clinch_graph::{Addressable, Scope, SymbolFlags};
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = keeping();
    let (main, base) = (dylib(&session, "main"), dylib(&session, "base"));
    main.set_link_order(&[(main.id(), Match::All), (base.id(), Match::Exported)]);
    add(&base, vec![object(&folder, "base", "int theirs = 3;")]);
    let source = "extern int theirs; static int local(void) { return theirs; }
        __attribute__((visibility(\"hidden\"), noinline)) int hidden(void) { return local(); }
        __attribute__((visibility(\"protected\"))) int protected(void) { return hidden(); }
        __attribute__((weak)) int weak = 1; int common; __attribute__((weak)) int missing(void);
        int f(void) { return protected() + weak + common + (missing != 0); }";
    add(&main, vec![object(&folder, "main", source)]);
    assert_eq!(call(&main, "f"), 4);
    let graph = saved_graph(&save(&main));
    let symbol = |name: &str| {
        let id = graph.find_symbol(name.as_bytes());
        graph.symbol(id.unwrap_or_else(|| panic!("no {name}")))
    };
    assert_eq!(symbol("hidden").scope(), Scope::Hidden);
    assert_eq!(symbol("protected").scope(), Scope::Protected);
    assert!(symbol("weak").flags.contains(SymbolFlags::WEAK));
    assert!(symbol("f").flags.contains(SymbolFlags::CALLABLE));
    assert_eq!(symbol("theirs").base, Addressable::External);
    let missing = symbol("missing");
    assert_eq!(missing.base, Addressable::External);
    assert!(missing.flags.contains(SymbolFlags::WEAKLY_REFERENCED));
    // The linker's own tables are not there.
    let made = |id| graph.section_name(id).starts_with(b"$__");
    assert!(!graph.sections().any(made));
    assert_eq!(saved_graph(&save(&base)).find_symbol(b"f"), None);
}

/// Turns the constant of `mov $1, %eax; ret` into another.
struct Changes;

impl LinkPlugin for Changes {
    fn modify_passes(&self, _: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        let change = |graph: &mut LinkGraph| {
            let f = graph.find_symbol(b"f").and_then(|f| graph.symbol_block(f));
            let content = f.and_then(|block| graph.content_mut(block));
            if let Some(constant) =
                content.and_then(|content| content.iter_mut().find(|byte| **byte == 77))
            {
                *constant = 78;
            }
            Ok(())
        };
        passes
            .pre_prune
            .push(("change".to_owned(), Box::new(change)));
    }
}

#[test]
fn what_passes_changed_is_in_it() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = keeping();
    session.add_plugin(Arc::new(Changes));
    let main = dylib(&session, "main");
    add(
        &main,
        vec![object(&folder, "a", "int f(void) { return 77; }")],
    );
    assert_eq!(call(&main, "f"), 78);
    let other = dylib(&super::session(1), "other");
    add(&other, vec![(InputName::file("saved.o"), save(&main))]);
    assert_eq!(call(&other, "f"), 78);
}

/// What a tracker removed is not saved.
#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn removed_links_are_not_there() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = keeping();
    let main = dylib(&session, "main");
    let tracker = main.create_tracker();
    let a = object(&folder, "a", "int a(void) { return 1; }");
    tracker
        .add_objects(vec![a])
        .unwrap_or_else(|errors| panic!("{errors}"));
    add(
        &main,
        vec![object(&folder, "b", "int b(void) { return 2; }")],
    );
    assert_eq!((call(&main, "a"), call(&main, "b")), (1, 2));
    assert!(saved_graph(&save(&main)).find_symbol(b"a").is_some());
    // SAFETY: nothing of it runs, or will be run.
    let removed = unsafe { tracker.remove() };
    removed.unwrap_or_else(|error| panic!("{error}"));
    let graph = saved_graph(&save(&main));
    assert_eq!(graph.find_symbol(b"a"), None);
    assert!(graph.find_symbol(b"b").is_some());
}

#[test]
fn what_cannot_be_saved() {
    let plain = session(1);
    assert_eq!(
        dylib(&plain, "main").save(),
        Err(SaveError::NotKept("main".to_owned()))
    );
    let session = keeping();
    let main = dylib(&session, "main");
    // Nothing was linked: an object without definitions.
    assert!(saved_graph(&save(&main)).find_symbol(b"f").is_none());
    main.add_redirectable(&[("f", 0x1000)])
        .unwrap_or_else(|error| panic!("{error}"));
    main.look_up("f").unwrap_or_else(|error| panic!("{error}"));
    let error = main.save().expect_err("a stub leads to an address");
    assert_eq!(
        error.to_string(),
        "dylib main cannot be saved: it has functions behind stubs, which lead to addresses"
    );
}
