//! Several links in one dylib: what came first is there for what comes later.

use crate::support::{self, Folder, have, int};

/// Functions, data through the GOT and directly, and constants of an earlier link.
#[test]
fn later_links_use_earlier_ones() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let a = "
        int v = 10;
        const char text[] = \"abc\";
        int add(int n) { return v += n; }
    ";
    let b = "
        extern int v; extern const char text[]; extern int add(int);
        int *pointer = &v;
        int f(void) { int sum = add(5); return sum + *pointer + text[2]; }
        int g(void) { v = 1; return add(1); }
    ";
    for options in [
        &["-fPIC"][..],
        &["-fPIE", "-O2"],
        &["-O0", "-fPIC", "-fno-plt"],
    ] {
        let mut linked = support::dylib();
        linked.add("a.o", folder.object("a.c", a, options)).linked();
        linked.add("b.o", folder.object("b.c", b, options)).linked();
        assert_eq!(int(linked.call("f")), 15 + 15 + i64::from(b'c'));
        assert_eq!(int(linked.call("g")), 2);
    }
}

#[test]
fn thread_local_variables_of_earlier_links() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let a = "
        __thread int first = 3; __thread int second = 4;
        int from_a(void) { return second; }
    ";
    let b = "
        __thread int own = 100;
        extern __thread int second;
        int from_b(void) { second += 1; return second + own; }
    ";
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.c", a, &["-fPIC"]))
        .linked();
    linked
        .add("b.o", folder.object("b.c", b, &["-fPIC"]))
        .linked();
    assert_eq!(int(linked.call("from_b")), 105);
    assert_eq!(int(linked.call("from_a")), 5);
    let (b, a) = (linked.address("from_b"), linked.address("from_a"));
    let there = std::thread::spawn(move || (int(support::call(b)), int(support::call(a))));
    assert_eq!(there.join().expect("it runs"), (105, 5));
}

#[test]
fn exceptions_pass_between_links() {
    if !have(&["c++"]) {
        return;
    }
    let folder = Folder::new();
    let a = "
        struct Error { int code; Error(int n) : code(n) {} virtual ~Error() {} };
        struct Guard { int &n; ~Guard() { n += 1; } };
        int unwound;
        void thrower(int n) { Guard guard{unwound}; throw Error(n); }
    ";
    let b = "
        struct Error { int code; Error(int n) : code(n) {} virtual ~Error() {} };
        void thrower(int n); extern int unwound;
        extern \"C\" int catcher() {
            try { thrower(40); } catch (const Error &e) { return e.code + unwound; }
            return 0;
        }
    ";
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.cpp", a, &["-fPIC"]))
        .linked();
    linked
        .add("b.o", folder.object("b.cpp", b, &["-fPIC"]))
        .linked();
    assert_eq!(int(linked.call("catcher")), 41);
}

/// Initializers of each link run once, when asked for.
#[test]
fn initializers_of_each_link_run_once() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let a = "int count; __attribute__((constructor)) static void c(void) { count += 1; }
             int read(void) { return count; }";
    let b = "extern int count; __attribute__((constructor)) static void c(void) { count += 10; }";
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.c", a, &["-fPIC"]))
        .linked();
    linked.initialize();
    assert_eq!(int(linked.call("read")), 1);
    linked
        .add("b.o", folder.object("b.c", b, &["-fPIC"]))
        .linked();
    assert_eq!(int(linked.call("read")), 1);
    linked.initialize();
    linked.initialize();
    assert_eq!(int(linked.call("read")), 11);
    drop(linked.unload());
}

/// A weak reference that nothing answered is asked again when a library was added.
#[test]
fn libraries_added_later_are_searched() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let library = folder.path().join("libfound.so");
    std::fs::write(
        folder.path().join("l.c"),
        "int found_later(void) { return 9; }",
    )
    .expect("it can be written");
    let mut command = std::process::Command::new("cc");
    support::run(
        command
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(folder.path().join("l.c")),
    );
    let source = |name: &str| {
        format!(
            "extern int found_later(void) __attribute__((weak));
             int {name}(void) {{ return found_later ? found_later() : 0; }}"
        )
    };
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.c", &source("before"), &["-fPIC"]))
        .linked();
    assert_eq!(int(linked.call("before")), 0);
    let opened = clinch_jit::Library::open(library.as_os_str()).expect("it can be opened");
    linked.dylib.add_library(opened);
    linked
        .add("b.o", folder.object("b.c", &source("after"), &["-fPIC"]))
        .linked();
    assert_eq!(int(linked.call("after")), 9);
    assert_eq!(int(linked.call("before")), 0);
}
