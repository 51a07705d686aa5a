//! Thread-local variables: of all threads that start after linking, of the one that links, and
//! of libraries; and what happens when there are too many.

use crate::support::{self, Folder, have, int, is_alone};
use std::sync::mpsc;

const SOURCE: &str = "
    __thread int initialized = 7;
    __thread int zero;
    static __thread char buffer[100];
    int bump(void) { buffer[99] = 1; zero += 1; return ++initialized + zero + buffer[99]; }
    long where(void) { return (long)&initialized; }
";

#[test]
fn threads_after_linking_have_their_own() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    for options in [
        &["-fPIC"][..],
        &["-fPIC", "-mtls-dialect=gnu2"],
        &["-fPIE", "-O2"],
    ] {
        let mut linked = support::dylib();
        linked
            .add("a.o", folder.object("a.c", SOURCE, options))
            .linked();
        let (bump, address) = (linked.address("bump"), linked.address("where"));
        assert_eq!(int(support::call(bump)), 10);
        let own = support::call(address);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    let sums = [int(support::call(bump)), int(support::call(bump))];
                    (sums, support::call(address))
                })
            })
            .collect();
        for thread in threads {
            let (sums, theirs) = thread.join().expect("it does not panic");
            assert_eq!(sums, [10, 12], "{options:?}");
            assert_ne!(own, theirs);
        }
        assert_eq!(int(support::call(bump)), 12);
        drop(linked.unload());
    }
}

/// The limit that the documentation names: threads that ran before find their block as it was,
/// not the initial values; it is theirs all the same.
#[test]
fn threads_before_linking_have_no_initial_values() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "__thread int v = 7; long f(void) { return v; } long g(void) { return ++v; }";
    let object = folder.object("a.c", source, &["-fPIC"]);
    let (send, receive) = mpsc::channel::<(u64, u64)>();
    let before = std::thread::spawn(move || {
        let (f, g) = receive.recv().expect("the addresses come");
        let first = support::call(f);
        (first, support::call(g))
    });
    let mut linked = support::dylib();
    linked.add("a.o", object).linked();
    send.send((linked.address("f"), linked.address("g")))
        .expect("the thread waits");
    let (first, next) = before.join().expect("it does not panic");
    assert_eq!(next, first + 1);
    assert_eq!(linked.call("f"), 7);
}

#[test]
fn variables_of_the_c_library() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    // The variable itself, not what the header makes of it.
    let source = "
        extern __thread int errno;
        extern int *__errno_location(void);
        extern int close(int);
        int same(void) { return &errno == __errno_location(); }
        int code(void) { close(-1); return errno; }
    ";
    for options in [&["-fPIC"][..], &["-fPIE"]] {
        let mut linked = support::dylib();
        linked
            .add("a.o", folder.object("a.c", source, options))
            .linked();
        let (same, code) = (linked.address("same"), linked.address("code"));
        let ask = move || (int(support::call(same)), int(support::call(code)));
        assert_eq!(ask(), (1, i64::from(libc_ebadf())));
        let there = std::thread::spawn(ask).join().expect("it does not panic");
        assert_eq!(there, (1, i64::from(libc_ebadf())));
    }
}

/// `EBADF` on Linux.
fn libc_ebadf() -> i32 {
    9
}

#[test]
fn too_many_variables_are_an_error_with_the_figures() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source =
        "__thread __attribute__((aligned(32))) char big[100000]; char *f(void) { return big; }";
    let mut linked = support::dylib();
    linked.add("a.o", folder.object("a.c", source, &["-fPIC"]));
    let errors = linked
        .link()
        .expect_err("there is no such space")
        .to_string();
    let rest = errors
        .strip_prefix("thread-local variables need 100000 bytes aligned to 32, but only ")
        .unwrap_or_else(|| panic!("{errors}"));
    let have: u64 = rest
        .split_once(" bytes are left in this process (start it with GLIBC_TUNABLES")
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or_else(|| panic!("{errors}"));
    assert!(have <= 6 << 10, "{errors}");

    let source = "__thread __attribute__((aligned(4096))) char v; char *f(void) { return &v; }";
    let mut linked = support::dylib();
    linked.add("a.o", folder.object("b.c", source, &["-fPIC"]));
    let errors = linked
        .link()
        .expect_err("there is no such alignment")
        .to_string();
    assert!(errors.contains("aligned to 4096"), "{errors}");
}

/// Both names of one block, over objects.
#[test]
fn objects_share_variables() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let a = "__thread long shared = 1; __thread long common; long *a(void) { return &shared; }";
    let b = "extern __thread long shared, common; long *b(void) { return &shared; }
             long sum(void) { common += 5; return shared + common; }";
    for (first, second) in [("-fPIC", "-fPIE"), ("-fPIE", "-ftls-model=initial-exec")] {
        let mut linked = support::dylib();
        linked.add("a.o", folder.object("a.c", a, &[first, "-fcommon"]));
        linked
            .add("b.o", folder.object("b.c", b, &[second, "-O2"]))
            .linked();
        assert_eq!(linked.call("a"), linked.call("b"));
        assert_eq!(linked.call("sum"), 6);
    }
}

/// Blocks in the reserve and, when that is full, where the C library has space; both are given
/// back and used again.
#[test]
fn both_places_are_used_again() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let source = "
        static __thread int space[SIZE / 4] = { 5, 6 };
        int f(void) { int sum = space[0] + space[1] + space[SIZE / 4 - 1];
                      space[0] = space[SIZE / 4 - 1] = 50; return sum; }
    ";
    let large = folder.object("large.c", source, &["-fPIE", "-DSIZE=6000"]);
    let small = folder.object("small.c", source, &["-fPIC", "-DSIZE=600"]);
    for _ in 0..50 {
        let mut first = support::dylib();
        first.add("large.o", large.clone()).linked();
        let mut second = support::dylib();
        second.add("small.o", small.clone()).linked();
        for f in [first.address("f"), second.address("f")] {
            for _ in 0..2 {
                let there = std::thread::spawn(move || int(support::call(f)));
                assert_eq!(there.join().expect("it does not panic"), 11);
            }
            assert_eq!(int(support::call(f)), 11);
            assert_eq!(int(support::call(f)), 106);
        }
        drop(first.unload());
        drop(second.unload());
    }
}
