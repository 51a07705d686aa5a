//! Failure spreads to what depends on it, and to nothing else.

use super::{call, dylib, object, session};
use crate::support::{Folder, have};
use clinch_graph::{Scope, SymbolFlags};
use clinch_jit::session::{LookUpError, Match, MaterializationUnit, Responsibility, SymbolState};

/// Each in a tracker of its own, so each a link of its own.
#[test]
fn failure_spreads_to_what_depends_on_it() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for threads in [1, 2, 7] {
        let session = session(threads);
        let main = dylib(&session, "main");
        for (name, source) in [
            (
                "bad",
                "int nowhere(void); int bad(void) { return nowhere(); }",
            ),
            ("user", "int bad(void); int user(void) { return bad(); }"),
            ("far", "int user(void); int far(void) { return user(); }"),
            ("good", "int good(void) { return 3; }"),
        ] {
            let tracker = main.create_tracker();
            tracker
                .add_objects(vec![object(&folder, name, source)])
                .expect("it is new");
        }
        let order = [(main.id(), Match::All)];
        let error = session
            .look_up(&order, &["far", "good"])
            .expect_err("far fails");
        let LookUpError::Failed(causes) = &error else {
            panic!("{error}");
        };
        // The cause, once, whatever the number of links that it took along.
        assert_eq!(causes.len(), 1, "{error}");
        assert_eq!(error.to_string(), "undefined symbol: nowhere");
        for name in ["bad", "user", "far"] {
            assert_eq!(main.symbol_state(name), Some(SymbolState::Failed), "{name}");
            let again = main.look_up(name).expect_err("it failed");
            assert_eq!(again.to_string(), "undefined symbol: nowhere");
        }
        assert_eq!(call(&main, "good"), 3);
    }
}

/// A unit that gives up, in one way or another.
struct Quitter {
    says_why: bool,
}

impl MaterializationUnit for Quitter {
    fn name(&self) -> String {
        "quitter".to_owned()
    }

    fn symbols(&self) -> Vec<(Vec<u8>, SymbolFlags)> {
        let flags = SymbolFlags::empty().with_scope(Scope::Default);
        vec![(b"q".to_vec(), flags)]
    }

    fn materialize(self: Box<Self>, responsibility: Responsibility) {
        if self.says_why {
            let why = clinch_jit::LinkError::File {
                path: "q.c".to_owned(),
                why: "does not compile".to_owned(),
            };
            responsibility.fail(why.into());
        }
    }
}

#[test]
fn units_that_make_nothing() {
    let session = session(1);
    for (says_why, text) in [
        (true, "q.c: does not compile"),
        (false, "nothing was made to define: [ q ]"),
    ] {
        let main = dylib(&session, text);
        let unit = Box::new(Quitter { says_why });
        main.default_tracker().add_unit(unit).expect("it is new");
        let error = main.look_up("q").expect_err("it is not made");
        assert_eq!(error.to_string(), text);
    }
}

/// An object that lacks what its unit promised.
#[test]
fn objects_that_lack_definitions() {
    struct Liar(clinch_graph::InputName, bytes::Bytes);
    impl MaterializationUnit for Liar {
        fn name(&self) -> String {
            "liar".to_owned()
        }
        fn symbols(&self) -> Vec<(Vec<u8>, SymbolFlags)> {
            let flags = SymbolFlags::empty().with_scope(Scope::Default);
            vec![(b"there".to_vec(), flags), (b"lacking".to_vec(), flags)]
        }
        fn materialize(self: Box<Self>, responsibility: Responsibility) {
            responsibility.emit(self.0, self.1);
        }
    }
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let (name, bytes) = object(&folder, "there", "int there(void) { return 1; }");
    let unit = Box::new(Liar(name, bytes));
    main.default_tracker().add_unit(unit).expect("it is new");
    let error = main.look_up("there").expect_err("something is missing");
    assert_eq!(error.to_string(), "missing definitions: [ lacking ]");
}
