//! Where dylibs lie: in reach of the process's shared objects, or in low memory when code writes
//! 32-bit addresses; and alignments above a page.

use crate::support::{self, Folder, have, int, is_alone};
use clinch_jit::memory::MemoryManager;

const SOURCE: &str = "
    static int data[4] = { 1, 2, 3, 4 };
    int zero[64];
    extern int getpid(void);
    extern char **environ;
    int f(int n) { return data[getpid() ? 2 : n] + zero[n & 1] + (environ != 0); }
    int g(void) { return f(0); }
";

/// Low code refers to the C library's `environ` directly, so it gets a copy, to which the library
/// then points; unloading puts it back. In a process of its own, which has room for one low
/// window at a time.
#[test]
fn code_without_pic_lies_low() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let object = folder.object("a.c", SOURCE, &["-fno-pic", "-fno-pie", "-O2"]);
    for _ in 0..3 {
        let mut linked = support::dylib();
        linked.add("a.o", object.clone()).linked();
        let window = linked.memory.window(true).expect("it is in this process");
        assert!(window.1 <= 1 << 31, "{window:x?}");
        let address = linked.address("f");
        assert!(
            (window.0..window.1).contains(&address),
            "{address:#x} in {window:x?}"
        );
        assert!(linked.address("zero") < 1 << 31);
        let path = std::env::var_os("PATH");
        assert!(path.is_some());
        assert_eq!(int(linked.call("g")), 4);
        drop(linked.unload());
        assert_eq!(std::env::var_os("PATH"), path);
    }
}

#[test]
fn pic_lies_near_the_process() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let object = folder.object("a.c", SOURCE, &["-fPIC", "-O2"]);
    let mut linked = support::dylib();
    linked.add("a.o", object).linked();
    let window = linked.memory.window(false).expect("it is in this process");
    let address = linked.address("f");
    assert!((window.0..window.1).contains(&address));
    let getpid = clinch_jit::process::find(b"getpid")
        .expect("the C library has it")
        .address;
    assert!(
        address.abs_diff(getpid) < 1 << 31,
        "{address:#x} and {getpid:#x}"
    );
    assert_eq!(int(linked.call("g")), 4);
}

/// Two dylibs are in each other's way in no case.
#[test]
fn dylibs_have_windows_of_their_own() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let object = folder.object("a.c", SOURCE, &["-fPIC", "-O2"]);
    let mut all = [support::dylib(), support::dylib(), support::dylib()];
    for linked in &mut all {
        linked.add("a.o", object.clone()).linked();
    }
    let mut windows: Vec<(u64, u64)> = all
        .iter()
        .filter_map(|linked| linked.memory.window(false))
        .collect();
    windows.sort_unstable();
    assert!(
        windows.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "{windows:x?}"
    );
    for linked in &all {
        assert_eq!(int(linked.call("g")), 4);
    }
}

#[test]
fn alignment_of_two_megabytes() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "
        __attribute__((aligned(0x200000))) char big = 1;
        __attribute__((aligned(0x200000))) char zero;
        __attribute__((aligned(0x10000))) const int constant = 5;
        char small = 2;
        __attribute__((aligned(0x4000))) int f(void) { return constant + big + zero + small; }
    ";
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.c", source, &["-fPIC"]))
        .linked();
    assert_eq!(linked.address("big") % 0x20_0000, 0);
    assert_eq!(linked.address("zero") % 0x20_0000, 0);
    assert_eq!(linked.address("constant") % 0x1_0000, 0);
    assert_eq!(linked.address("f") % 0x4000, 0);
    assert_eq!(int(linked.call("f")), 8);
}
