//! Stubs: functions that are linked when they are called first, and functions that are pointed
//! elsewhere while code runs.

use super::{add, call, dylib, object, session};
use crate::support::{self, Folder, have};
use clinch_graph::InputName;
use clinch_jit::session::{Dylib, SymbolState};
use std::sync::atomic::{AtomicBool, Ordering};

fn add_lazy(dylib: &Dylib, objects: Vec<(InputName, bytes::Bytes)>) {
    if let Err(errors) = dylib.add_lazy_objects(objects) {
        panic!("{errors}");
    }
}

#[test]
fn functions_are_linked_when_they_are_called() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let user = "int once(int); int never(void); int use(int n) { return n ? once(n) : never(); }
                int test(void) { return use(20) + use(21); }";
    let once = "int calls; int once(int n) { return n * 2 + calls++; }";
    let never = "int nowhere(void); int never(void) { return nowhere(); }";
    add(&main, vec![object(&folder, "user", user)]);
    add_lazy(
        &main,
        vec![
            object(&folder, "once", once),
            object(&folder, "never", never),
        ],
    );
    let test = main
        .look_up("test")
        .unwrap_or_else(|error| panic!("{error}"));
    let bodies = session.dylib("main$bodies").expect("it was made");
    assert_eq!(
        bodies.symbol_state("once"),
        Some(SymbolState::NeverSearched)
    );
    assert_eq!(support::int(support::call(test)), 40 + 42 + 1);
    assert_eq!(bodies.symbol_state("once"), Some(SymbolState::Ready));
    // What is never called is never missed.
    assert_eq!(
        bodies.symbol_state("never"),
        Some(SymbolState::NeverSearched)
    );
    // Variables are one.
    assert_eq!(call(&main, "test"), 40 + 42 + 2 + 3);
}

/// Arguments and answers of all kinds pass through the first call.
#[test]
fn the_first_call_keeps_all_arguments() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let types = "
        #include <stdarg.h>
        typedef double V __attribute__((vector_size(32)));
        struct Big { long a, b, c; };
    ";
    let lazy = format!(
        "{types}
        long ints(long a, long b, long c, long d, long e, long f, long g, long h) {{
            return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h;
        }}
        double floats(double a, double b, double c, double d, double e, double f, double g,
                      double h, double i) {{
            return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + 9*i;
        }}
        double variable(int n, ...) {{
            va_list list; va_start(list, n); double sum = 0;
            while (n--) sum += va_arg(list, double);
            va_end(list); return sum;
        }}
        struct Big big(struct Big x, int n) {{ x.a += n; x.c *= n; return x; }}
        __attribute__((target(\"avx\"))) V wide(V a, V b) {{ return a * b; }}
        "
    );
    let user = format!(
        "{types}
        long ints(long, long, long, long, long, long, long, long);
        double floats(double, double, double, double, double, double, double, double, double);
        double variable(int, ...);
        struct Big big(struct Big, int);
        __attribute__((target(\"avx\"))) V wide(V, V);
        int test_ints(void) {{ return ints(1, 2, 3, 4, 5, 6, 7, 8) == 204; }}
        int test_floats(void) {{ return floats(1, 2, 3, 4, 5, 6, 7, 8, 9) == 285.0; }}
        int test_variable(void) {{ return variable(4, 1.5, 2.5, 3.5, 4.5) == 12.0; }}
        int test_big(void) {{
            struct Big x = big((struct Big){{1, 2, 3}}, 10);
            return x.a == 11 && x.b == 2 && x.c == 30;
        }}
        __attribute__((target(\"avx\"))) int test_wide(void) {{
            V c = wide((V){{1, 2, 3, 4}}, (V){{5, 6, 7, 8}});
            return c[0] == 5 && c[1] == 12 && c[2] == 21 && c[3] == 32;
        }}"
    );
    let session = session(1);
    let main = dylib(&session, "main");
    add(&main, vec![object(&folder, "user", &user)]);
    add_lazy(&main, vec![object(&folder, "lazy", &lazy)]);
    let mut tests = vec!["test_ints", "test_floats", "test_variable", "test_big"];
    if std::arch::is_x86_feature_detected!("avx") {
        tests.push("test_wide");
    }
    for test in tests {
        assert_eq!(call(&main, test), 1, "{test}");
    }
}

#[test]
fn initializers_of_lazy_objects_run_before_their_functions() {
    if !have(&["c++"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source =
        "struct S { int n; S() : n(17) {} }; static S s; extern \"C\" int f() { return s.n; }";
    let bytes = folder.object("lazy.cpp", source, &["-fPIC"]);
    add_lazy(&main, vec![(InputName::file("lazy.o"), bytes)]);
    assert_eq!(call(&main, "f"), 17);
}

/// Several threads call a function for the first time at once.
#[test]
fn first_calls_from_several_threads() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for threads in [1, 2] {
        let session = session(threads);
        let main = dylib(&session, "main");
        let objects = (0..20).map(|n| {
            let next = n + 1;
            let source = if n == 19 {
                "int f19(void) { return 1; }".to_owned()
            } else {
                format!("int f{next}(void); int f{n}(void) {{ return f{next}() + 1; }}")
            };
            object(&folder, &format!("f{n}"), &source)
        });
        add_lazy(&main, objects.collect());
        let address = main.look_up("f0").unwrap_or_else(|error| panic!("{error}"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(support::int(support::call(address)), 20));
            }
        });
    }
}

#[test]
#[expect(unsafe_code, reason = "changes where a stub leads")]
fn callers_move_over_while_they_run() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let versions = dylib(&session, "versions");
    add(
        &versions,
        vec![object(
            &folder,
            "v",
            "int one(void) { return 1; } int two(void) { return 2; }",
        )],
    );
    let one = versions
        .look_up("one")
        .unwrap_or_else(|error| panic!("{error}"));
    let two = versions
        .look_up("two")
        .unwrap_or_else(|error| panic!("{error}"));
    main.add_redirectable(&[("f", one)]).expect("it is new");
    let user = "int f(void); int twice(void) { return f() + 10 * f(); }";
    add(&main, vec![object(&folder, "user", user)]);
    let twice = main
        .look_up("twice")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(support::int(support::call(twice)), 11);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = &ended;
        let worker = scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let answer = support::int(support::call(twice));
                assert!([11, 12, 21, 22].contains(&answer), "{answer}");
            }
        });
        for round in 0..1_000 {
            let target = if round % 2 == 0 { two } else { one };
            // SAFETY: a function of the same type.
            unsafe { main.redirect(&[("f", target)]) }.expect("it has a stub");
        }
        ended.store(true, Ordering::Relaxed);
        worker.join().expect("it saw nothing else");
    });
    assert_eq!(support::int(support::call(twice)), 11);
    // SAFETY: nothing is changed.
    let error = unsafe { main.redirect(&[("twice", one)]) }.expect_err("it has no stub");
    assert_eq!(
        error.to_string(),
        "twice: has no stub that could lead elsewhere"
    );
}

/// New versions while threads run: callers see one or the other, variables keep their values, the
/// old code goes.
#[test]
#[expect(unsafe_code, reason = "replaces code")]
fn versions_are_replaced_while_threads_run() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for threads in [1, 2] {
        let session = session(threads);
        let main = dylib(&session, "main");
        let version = |n: usize| {
            format!(
                "int count = 100; int limit[] = {{1, 2, 3}};
                 int step(void) {{ return {n}; }}
                 int next(void) {{ return __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED); }}
                 int tail(void) {{ return step() * 10 + {n}; }}"
            )
        };
        add_lazy(&main, vec![object(&folder, "v0", &version(0))]);
        let user = "int step(void); int next(void); int tail(void); extern int count;
                    int all(void) { next(); return step(); } int total(void) { return count; }";
        add(&main, vec![object(&folder, "user", user)]);
        let all = main
            .look_up("all")
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(support::int(support::call(all)), 0);
        assert_eq!(call(&main, "total"), 101);

        let ended = AtomicBool::new(false);
        let calls = std::thread::scope(|scope| {
            let ended = &ended;
            let worker = scope.spawn(move || {
                let (mut n, mut last) = (0, 0);
                while !ended.load(Ordering::Relaxed) {
                    let now = support::int(support::call(all));
                    assert!(now >= last, "{now} after {last}");
                    (n, last) = (n + 1, now);
                }
                n
            });
            for n in 1..=20 {
                let new = object(&folder, &format!("v{n}"), &version(n));
                // SAFETY: the types are the same.
                let replaced = unsafe { main.replace(vec![new]) };
                assert!(replaced.is_ok(), "{replaced:?}");
            }
            ended.store(true, Ordering::Relaxed);
            worker.join().expect("it saw nothing wrong")
        });
        assert_eq!(support::int(support::call(all)), 20);
        assert_eq!(call(&main, "tail"), 220);
        assert_eq!(call(&main, "total"), 101 + calls + 1);

        // Nobody is in the last version's code when it is replaced again.
        let last = object(&folder, "v21", &version(21));
        // SAFETY: the types are the same.
        let version_21 = unsafe { main.replace(vec![last]) }.unwrap_or_else(|e| panic!("{e}"));
        let bodies = session.dylib("main$bodies").expect("it was made");
        // SAFETY: callers go to the new version.
        unsafe { bodies.default_tracker().remove_code() }.expect("it can be removed");
        assert_eq!(support::int(support::call(all)), 21);
        // The first version's variables are still there.
        assert_eq!(call(&main, "total"), 101 + calls + 2);
        drop(version_21);
    }
}
