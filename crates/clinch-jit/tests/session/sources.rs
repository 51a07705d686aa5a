//! Where names come from that no object defines: archives, libraries, the process, generators.

use super::{add, call, dylib, object, session};
use crate::support::{self, Folder, have, read};
use bytes::Bytes;
use clinch_graph::InputName;
use clinch_jit::LinkError;
use clinch_jit::session::{DylibSources, Generator, LookUpError, Match, SymbolState};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A chain through the members of an archive, of which only those that are needed become part of
/// the dylib, with and without an index.
#[test]
fn members_of_archives() {
    if !have(&["cc", "ar"]) {
        return;
    }
    let folder = Folder::new();
    let options = ["-O1", "-fPIC"];
    let a = folder.compile(
        "a.c",
        "int b(void); int a(void) { return b() + 1; }",
        &options,
    );
    let b = folder.compile("b.c", "int b(void) { return 2; }", &options);
    let c = folder.compile("c.c", "int c(void) { return 3; }", &options);
    let members: [&Path; 3] = [&a, &b, &c];
    for (name, flags) in [("with.a", "rcs"), ("without.a", "rcS")] {
        let archive = folder.archive(name, "ar", &[flags], &members);
        let session = session(2);
        let main = dylib(&session, "main");
        main.add_archive(&archive.to_string_lossy(), read(&archive))
            .expect("it is an archive");
        assert_eq!(main.symbol_state("a"), None);
        assert_eq!(call(&main, "a"), 3);
        assert_eq!(main.symbol_state("b"), Some(SymbolState::Ready));
        assert_eq!(main.symbol_state("c"), None);
        // Weak references take nothing out.
        let weak = "__attribute__((weak)) int c(void); int has(void) { return c ? 1 : 0; }";
        add(&main, vec![object(&folder, "weak", weak)]);
        assert_eq!(call(&main, "has"), 0);
        main.load_archives().expect("they can be read");
        assert_eq!(call(&main, "c"), 3);
    }
}

#[test]
fn the_process_and_its_libraries() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "#include <string.h>\n#include <stdlib.h>\n
                  int f(const char *s) { return (int)strlen(getenv(\"PATH\")) > 0; }";
    add(&main, vec![object(&folder, "a", source)]);
    assert_eq!(call(&main, "f"), 1);
    let strlen = main
        .look_up("strlen")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(strlen, 0);

    let sources = DylibSources {
        process: false,
        default_libraries: false,
        phony: false,
    };
    let closed = session.create_dylib("closed", sources).expect("it is new");
    let error = closed.look_up("strlen").expect_err("it may not be seen");
    assert_eq!(error.to_string(), "Symbols not found: [ strlen ]");
    // Through another dylib it may.
    closed.set_link_order(&[(closed.id(), Match::All), (main.id(), Match::Exported)]);
    add(&closed, vec![object(&folder, "b", source)]);
    assert_eq!(call(&closed, "f"), 1);
}

/// Makes `made_N` for any N, and remembers what it was asked for.
struct Maker {
    compile: Box<dyn Fn(&str) -> Bytes + Send>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Generator for Maker {
    fn generate(&mut self, names: &[&[u8]]) -> Result<Vec<(InputName, Bytes)>, LinkError> {
        let mut objects = Vec::new();
        for name in names.iter().map(|name| String::from_utf8_lossy(name)) {
            self.asked
                .lock()
                .expect("nobody panicked")
                .push(name.to_string());
            if name.strip_prefix("made_").is_some() {
                objects.push((InputName::file(&name), (self.compile)(&name)));
            } else if name.starts_with("broken_") {
                return Err(LinkError::File {
                    path: name.into_owned(),
                    why: "cannot be made".to_owned(),
                });
            }
        }
        Ok(objects)
    }
}

#[test]
fn generators_are_asked_once_for_what_is_missing() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Arc::new(Folder::new());
    let session = session(1);
    let main = dylib(&session, "main");
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (maker_folder, asked_by) = (Arc::clone(&folder), Arc::clone(&asked));
    main.add_generator(Box::new(Maker {
        compile: Box::new(move |name| {
            let source = format!("int {name}(void) {{ return 8; }}");
            maker_folder.object(&format!("{name}.c"), &source, &["-fPIC"])
        }),
        asked: asked_by,
    }));
    let source = "int made_1(void); int own(void) { return 1; }
                  int f(void) { return made_1() + own(); }";
    add(&main, vec![object(&folder, "a", source)]);
    assert_eq!(call(&main, "f"), 9);
    assert_eq!(call(&main, "made_1"), 8);
    assert!(matches!(
        main.look_up("nothing"),
        Err(LookUpError::NotFound(_))
    ));
    assert!(matches!(
        main.look_up("nothing"),
        Err(LookUpError::NotFound(_))
    ));
    assert_eq!(
        *asked.lock().expect("nobody panicked"),
        ["made_1", "nothing"]
    );
    let error = main.look_up("broken_1").expect_err("it cannot be made");
    assert_eq!(error.to_string(), "broken_1: cannot be made");
}

/// Thread-local variables shared between dylibs, and seen from several threads.
#[test]
fn thread_local_variables_of_another_dylib() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (a, b) = (dylib(&session, "a"), dylib(&session, "b"));
    b.set_link_order(&[(b.id(), Match::All), (a.id(), Match::Exported)]);
    add(
        &a,
        vec![object(
            &folder,
            "a",
            "__thread int v = 5; int get(void) { return v; }",
        )],
    );
    let user = "extern __thread int v; int get(void); int f(void) { v += 2; return get(); }";
    add(&b, vec![object(&folder, "b", user)]);
    let f = b.look_up("f").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(support::int(support::call(f)), 7);
    assert_eq!(support::int(support::call(f)), 9);
    let there = std::thread::spawn(move || support::int(support::call(f)));
    assert_eq!(there.join().expect("it runs"), 7);
}
