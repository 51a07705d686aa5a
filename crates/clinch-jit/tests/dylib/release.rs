//! Unloading gives everything back: address space, unwind tables, thread-local space; and so do
//! links that fail.

use crate::support::elf::{At, Object, R_PC32};
use crate::support::{self, Folder, have, int, is_alone, is_without_access, mappings};
use clinch_jit::memory::MemoryManager;
use std::fs;

const THROWING: &str = "
    #include <stdexcept>
    #include <string>
    static int depth(int n) { if (n == 0) throw std::runtime_error(\"deep\"); return depth(n - 1); }
    extern \"C\" int thrower() {
        try { return depth(5); } catch (const std::exception &e) { return std::string(e.what()).size(); }
    }
    extern \"C\" int leaver() { throw 17; }
";

#[test]
fn unloading_takes_away_the_window_and_the_unwind_tables() {
    if !have(&["c++"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let object = folder.object("a.cpp", THROWING, &["-O1", "-fPIC"]);
    let mut windows = Vec::new();
    for _ in 0..3 {
        let mut linked = support::dylib();
        linked.add("a.o", object.clone()).linked();
        linked.initialize();
        assert_eq!(int(linked.call("thrower")), 4);
        let window = linked.memory.window(false).expect("it is in this process");
        assert!(!is_without_access(window));
        let memory = linked.unload();
        assert!(is_without_access(window), "{:x?}", mappings(window));
        drop(memory);
        // What is reserved is unmapped with the manager.
        assert_eq!(mappings(window), []);
        windows.push(window);
        // The unwinder walks on without the records that are gone.
        let caught = std::panic::catch_unwind(|| std::panic::panic_any(3_i32));
        assert_eq!(
            caught.expect_err("it panics").downcast_ref::<i32>(),
            Some(&3)
        );
    }
    assert_eq!(windows.len(), 3);
}

/// The last dylib's finalizers run when it is unloaded, not at the process's end, when their code
/// is gone: this process ends well.
#[test]
fn unloading_runs_finalizers_and_handlers() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let source = "
        extern int atexit(void (*)(void));
        extern char *strcat(char *, const char *);
        static char *log;
        static void handler(void) { strcat(log, \"handler \"); }
        __attribute__((constructor)) static void start(void) { atexit(handler); }
        __attribute__((destructor)) static void stop(void) { strcat(log, \"destructor \"); }
        long log_to(void) { static char *next; return (long)&log; }
    ";
    let object = folder.object("a.c", source, &["-fPIC"]);
    let log: &'static mut [u8; 64] = Box::leak(Box::new([0; 64]));
    let mut linked = support::dylib();
    linked.add("a.o", object).linked();
    linked.initialize();
    let slot = linked.call("log_to").cast_unsigned();
    let slot = usize::try_from(slot).expect("it is an address");
    let address = log.as_mut_ptr();
    // SAFETY: the object's variable, a pointer, which nothing else uses now.
    unsafe { std::ptr::with_exposed_provenance_mut::<*mut u8>(slot).write(address) };
    drop(linked.unload());
    // SAFETY: the leaked buffer; the code that wrote to it is gone.
    let log = unsafe { std::slice::from_raw_parts(address, 64) };
    let text = std::str::from_utf8(log)
        .expect("it is text")
        .trim_end_matches('\0');
    assert_eq!(text, "handler destructor ");
}

/// Memory in use that is no file's, in bytes. (Whether a file's pages are private depends on who else
/// runs this program.)
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("it is there");
    let kilobytes = |name: &str| -> u64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .expect("it is listed");
        line.split_whitespace()
            .nth(1)
            .expect("a number")
            .parse()
            .expect("a number")
    };
    kilobytes("Anonymous:") << 10
}

#[test]
fn two_hundred_rounds_cost_nothing() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    // 2 KB of thread-local variables: the fifth round has no space if none is given back.
    let source = "
        __thread int counter = 40;
        __thread char space[2000];
        static char data[100000] = { 1 };
        int next(void) { space[5] += 1; return ++counter + space[5] + data[0]; }
    ";
    let object = folder.object("a.c", source, &["-fPIC"]);
    let round = || {
        let mut linked = support::dylib();
        linked.add("a.o", object.clone()).linked();
        linked.initialize();
        assert_eq!(int(linked.call("next")), 43);
        drop(linked.unload());
    };
    (0..20).for_each(|_| round());
    let before = resident();
    (0..180).for_each(|_| round());
    let after = resident();
    // A round that kept its data would add 18 MB.
    assert!(after < before + (2 << 20), "{before} bytes became {after}");
}

#[test]
fn a_link_that_fails_gives_memory_back() {
    let mut object = Object::new();
    let here = object.symbol("here", At::Text(0));
    object.code(&[0; 8], &[(0, R_PC32, here, 1 << 40)]);
    object.data(&[1; 8], &[]);
    let bytes = object.write();
    let mut linked = support::dylib();
    linked.add("bad.o", bytes.into());
    let errors = linked
        .link()
        .expect_err("the distance does not fit")
        .to_string();
    assert!(
        errors.starts_with("bad.o:(.text+0x0): Delta32 to here "),
        "{errors}"
    );
    let window = linked.memory.window(false).expect("it is in this process");
    assert!(is_without_access(window), "{:x?}", mappings(window));

    // The dylib can go on.
    let mut good = Object::new();
    let start = good.code(&[0xb8, 5, 0, 0, 0, 0xc3], &[]);
    good.symbol("good", At::Text(start));
    linked.add("good.o", good.write().into()).linked();
    assert_eq!(int(linked.call("good")), 5);
}

/// Thread-local space of a link that fails is free again.
#[test]
fn a_link_that_fails_gives_thread_local_space_back() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "
        __thread char space[4000];
        int f(void) { return space[3]; }
        __asm__(\".data\\n .globl d\\n d: .byte f - .\\n .text\");
    ";
    let object = folder.object("a.c", source, &["-fPIC"]);
    for _ in 0..10 {
        let mut linked = support::dylib();
        linked.add("a.o", object.clone());
        let errors = linked
            .link()
            .expect_err("the distance does not fit")
            .to_string();
        assert!(errors.contains("Delta8 to f "), "{errors}");
    }
}
