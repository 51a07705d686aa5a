//! What is linked, and when; where names are looked for.

use super::{add, call, dylib, object, session};
use crate::support::{self, Folder, have};
use clinch_graph::{InputName, Scope, SymbolFlags};
use clinch_jit::error::LinkError;
use clinch_jit::session::{
    LookUpError, Match, MaterializationUnit, Responsibility, Session, SessionOptions, SymbolState,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn only_what_is_asked_for_is_linked() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    add(
        &main,
        vec![
            object(&folder, "a", "int b(void); int a(void) { return b() + 1; }"),
            object(&folder, "b", "int b(void) { return 41; }"),
            object(
                &folder,
                "c",
                "int nowhere(void); int c(void) { return nowhere(); }",
            ),
        ],
    );
    assert_eq!(main.symbol_state("a"), Some(SymbolState::NeverSearched));
    assert_eq!(call(&main, "a"), 42);
    assert_eq!(main.symbol_state("a"), Some(SymbolState::Ready));
    assert_eq!(main.symbol_state("b"), Some(SymbolState::Ready));
    assert_eq!(main.symbol_state("c"), Some(SymbolState::NeverSearched));
    assert_eq!(main.symbol_state("nowhere"), None);
}

#[test]
fn finished_graphs_are_kept_for_who_wants_them() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for keep_graphs in [false, true] {
        let options = SessionOptions {
            keep_graphs,
            ..SessionOptions::default()
        };
        let session = Session::new(support::arch(), options);
        let main = dylib(&session, "main");
        add(
            &main,
            vec![object(&folder, "a", "int a(void) { return 4; }")],
        );
        assert!(main.links().is_empty());
        assert_eq!(call(&main, "a"), 4);
        let links = main.links();
        assert_eq!(links.len(), usize::from(keep_graphs));
        if let Some(link) = links.first() {
            let symbol = link.graph.find_symbol(b"a").expect("it is in the graph");
            assert_eq!(Some(link.layout.symbol(symbol)), main.look_up("a").ok());
        }
    }
}

#[test]
fn a_name_that_nothing_defines() {
    let session = session(1);
    let main = dylib(&session, "main");
    let order = [(main.id(), Match::All)];
    let error = session.look_up(&order, &["no_such_a", "no_such_b"]);
    let error = error.expect_err("nothing defines them");
    assert_eq!(
        error.to_string(),
        "Symbols not found: [ no_such_a, no_such_b ]"
    );
    let found = session.look_up_some(&order, &[("no_such_a", true)], SymbolState::Ready);
    assert!(matches!(found.as_deref(), Ok([None])));
}

/// Two dylibs that refer to one another: neither can be ready before the other.
#[test]
fn dylibs_that_need_one_another() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for threads in [1, 2, 7] {
        let session = session(threads);
        let (a, b) = (dylib(&session, "a"), dylib(&session, "b"));
        for (one, other) in [(&a, &b), (&b, &a)] {
            one.set_link_order(&[(one.id(), Match::All), (other.id(), Match::Exported)]);
        }
        let even = "int odd(int n); int even(int n) { return n == 0 || odd(n - 1); }
                    int test(void) { return even(10) * 10 + even(7); }";
        let odd = "int even(int n); int odd(int n) { return n != 0 && even(n - 1); }";
        add(&a, vec![object(&folder, "even", even)]);
        add(&b, vec![object(&folder, "odd", odd)]);
        assert_eq!(call(&a, "test"), 10);
        assert_eq!(b.symbol_state("odd"), Some(SymbolState::Ready));
    }
}

#[test]
fn hidden_symbols_are_seen_by_their_dylib_only() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "__attribute__((visibility(\"hidden\"))) int inner(void) { return 5; }
                  int outer(void) { return inner(); }";
    add(&main, vec![object(&folder, "a", source)]);
    let outside = [(main.id(), Match::Exported)];
    assert!(session.look_up(&outside, &["outer"]).is_ok());
    assert!(matches!(
        session.look_up(&outside, &["inner"]),
        Err(LookUpError::NotFound(_))
    ));
    assert_eq!(call(&main, "inner"), 5);
}

#[test]
fn definitions_that_clash() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let strong = object(&folder, "strong", "int f(void) { return 1; }");
    let again = object(&folder, "again", "int f(void) { return 2; }");
    let weak = object(
        &folder,
        "weak",
        "__attribute__((weak)) int f(void) { return 3; }",
    );
    let other = object(
        &folder,
        "other",
        "__attribute__((weak)) int f(void) { return 4; }",
    );

    // The strong one beats a weak one that nobody asked for.
    add(&main, vec![weak.clone(), strong.clone()]);
    let errors = main
        .add_objects(vec![again.clone()])
        .expect_err("two strong ones");
    assert_eq!(
        errors.to_string(),
        "duplicate symbol: f\n>>> defined at strong.o:(.text+0x0)\n\
         >>> defined at again.o:(.text+0x0)"
    );
    assert_eq!(call(&main, "f"), 1);
    // Weak ones come too late; strong ones clash with what is linked.
    add(&main, vec![other.clone()]);
    assert_eq!(call(&main, "f"), 1);

    // The first of several weak ones stays, also when a strong one comes after it was linked.
    let second = dylib(&session, "second");
    add(&second, vec![other, weak]);
    assert_eq!(call(&second, "f"), 4);
    let errors = second.add_objects(vec![strong]).expect_err("it is linked");
    assert!(
        matches!(&errors.0[..], [LinkError::Defined { .. }]),
        "{errors}"
    );
}

/// Inline functions and their variables are one over links and their COMDAT groups.
#[test]
fn one_copy_over_several_links() {
    if !have(&["c++"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = |name: &str| {
        format!(
            "inline int *counter() {{ static int n; return &n; }}
             extern \"C\" int {name}() {{ return ++*counter(); }}"
        )
    };
    let object = |name: &str| {
        let bytes = folder.object(&format!("{name}.cpp"), &source(name), &["-fPIC"]);
        (InputName::file(&format!("{name}.o")), bytes)
    };
    add(&main, vec![object("first")]);
    assert_eq!(call(&main, "first"), 1);
    add(&main, vec![object("second")]);
    assert_eq!(call(&main, "second"), 2);
    assert_eq!(call(&main, "first"), 3);
}

#[test]
fn absolute_symbols_and_aliases() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (main, other) = (dylib(&session, "main"), dylib(&session, "other"));
    let flags = SymbolFlags::empty().with_scope(Scope::Default);
    main.define(&[("fixed", 0x1234, flags)]).expect("it is new");
    assert!(main.define(&[("fixed", 1, flags)]).is_err());
    assert_eq!(main.look_up("fixed").ok(), Some(0x1234));

    add(
        &main,
        vec![object(&folder, "a", "int real(void) { return 7; }")],
    );
    other
        .alias("name", main.id(), "real")
        .expect("it is defined");
    assert_eq!(call(&other, "name"), 7);
    let source = "int name(void); int use(void) { return name() + 1; }";
    add(&other, vec![object(&folder, "b", source)]);
    assert_eq!(call(&other, "use"), 8);
    assert!(other.alias("x", main.id(), "nowhere").is_err());
}

#[test]
fn answers_that_nobody_waits_for() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for threads in [1, 3] {
        let session = session(threads);
        let main = dylib(&session, "main");
        add(
            &main,
            vec![object(&folder, "a", "int f(void) { return 9; }")],
        );
        let (send, receive) = std::sync::mpsc::channel();
        session.look_up_async(
            &[(main.id(), Match::All)],
            &[("f", false), ("missing", true)],
            SymbolState::Ready,
            Box::new(move |answer| send.send(answer).expect("it is waited for")),
        );
        let answer = receive.recv().expect("it comes").expect("it is there");
        let [Some(address), None] = answer[..] else {
            panic!("{answer:?}");
        };
        assert_eq!(support::int(support::call(address)), 9);
    }
}

/// A unit that makes its object when it is asked for, on another thread.
struct Late {
    object: (InputName, bytes::Bytes),
    asked: Arc<AtomicUsize>,
    discarded: Arc<Mutex<Vec<String>>>,
    threaded: bool,
}

impl MaterializationUnit for Late {
    fn name(&self) -> String {
        "late".to_owned()
    }

    fn symbols(&self) -> Vec<(Vec<u8>, SymbolFlags)> {
        let weak = SymbolFlags::WEAK.with_scope(Scope::Default);
        let strong = SymbolFlags::CALLABLE.with_scope(Scope::Default);
        vec![(b"late".to_vec(), strong), (b"other".to_vec(), weak)]
    }

    fn materialize(self: Box<Self>, responsibility: Responsibility) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (name, bytes) = self.object;
        if self.threaded {
            std::thread::spawn(move || responsibility.emit(name, bytes));
        } else {
            responsibility.emit(name, bytes);
        }
    }

    fn discard(&mut self, name: &[u8]) {
        let mut discarded = self.discarded.lock().expect("nobody panicked");
        discarded.push(String::from_utf8_lossy(name).into_owned());
    }
}

#[test]
fn units_that_make_definitions_on_demand() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source =
        "int late(void) { return 11; } __attribute__((weak)) int other(void) { return 1; }";
    for threaded in [false, true] {
        let session = session(1);
        let main = dylib(&session, "main");
        let (asked, discarded) = (Arc::default(), Arc::default());
        let unit = Late {
            object: object(&folder, "late", source),
            asked: Arc::clone(&asked),
            discarded: Arc::clone(&discarded),
            threaded,
        };
        main.default_tracker()
            .add_unit(Box::new(unit))
            .expect("it is new");
        add(
            &main,
            vec![object(&folder, "other", "int other(void) { return 2; }")],
        );
        assert_eq!(*discarded.lock().expect("nobody panicked"), ["other"]);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        if threaded {
            // Nobody runs its link unless it is waited for.
            let user = "int late(void); int user(void) { return late() + 1; }";
            add(&main, vec![object(&folder, "user", user)]);
            assert_eq!(call(&main, "user"), 12);
        }
        assert_eq!(call(&main, "late"), 11);
        assert_eq!(call(&main, "other"), 2);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
