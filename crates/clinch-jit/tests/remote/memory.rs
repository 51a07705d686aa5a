//! What an executor has in memory, and what is left of it.

use super::{call, dylib, session, session_with, spawn};
use crate::session::{add, object};
use crate::support::{self, Folder, have};
use clinch_executor::ControllerOptions;
use clinch_graph::InputName;
use clinch_jit::debug::Audience;
use clinch_jit::session::{Session, SessionOptions};
use std::fs;

/// What the pages around an address allow in a child process, as `/proc` says it.
pub(super) fn access(child: u32, address: u64) -> String {
    let text = fs::read_to_string(format!("/proc/{child}/maps")).expect("it is there");
    let access = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        (start..end).contains(&address).then(|| words.next())?
    });
    access.unwrap_or("nothing").to_owned()
}

/// A session, and the number of the executor's process.
fn session_and_child(audience: Audience) -> (Session, u32) {
    let controller = spawn(ControllerOptions::default());
    let child = controller.child_id().expect("it is a child");
    let options = SessionOptions {
        audience,
        ..SessionOptions::default()
    };
    (session_with(options, controller), child)
}

/// Segments, unwind records, thread-local storage and images for debuggers come and go, and the
/// next link has the place of the one before it.
#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn removal_gives_memory_back() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let audience = Audience {
        debugger: true,
        perf: false,
    };
    let (session, child) = session_and_child(audience);
    let main = dylib(&session, "main");
    let source = "_Thread_local int own = 3; int variable = 4; const int constant = 5;
        int f(void) { return own + variable + constant; }";
    let bytes = folder.object("part.c", source, &["-O1", "-fPIC", "-g"]);
    let mut first = None;
    for _ in 0..50 {
        let tracker = main.create_tracker();
        let added = tracker.add_objects(vec![(InputName::file("part.o"), bytes.clone())]);
        assert_eq!(added, Ok(()));
        let [f, variable, constant] = ["f", "variable", "constant"].map(|name| {
            let found = main.look_up(name);
            found.unwrap_or_else(|error| panic!("{error}"))
        });
        assert_eq!(super::call_at(&session, f), 12);
        assert_eq!(access(child, f), "r-xp");
        assert_eq!(access(child, variable), "rw-p");
        assert_eq!(access(child, constant), "r--p");
        assert_eq!(*first.get_or_insert(f), f);
        // SAFETY: nothing of it runs.
        assert_eq!(unsafe { tracker.remove() }, Ok(()));
        for address in [f, variable, constant] {
            assert_eq!(access(child, address), "---p");
        }
    }
}

/// Code goes without the variables.
#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn code_alone_is_given_back() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let (session, child) = session_and_child(Audience::default());
    let main = dylib(&session, "main");
    let tracker = main.create_tracker();
    let source = "int variable = 4; int f(void) { return ++variable; }";
    let added = tracker.add_objects(vec![object(&folder, "part", source)]);
    assert_eq!(added, Ok(()));
    assert_eq!(call(&session, &main, "f"), 5);
    let [f, variable] = ["f", "variable"].map(|name| {
        let found = main.look_up(name);
        found.unwrap_or_else(|error| panic!("{error}"))
    });
    // SAFETY: nothing of it runs.
    assert_eq!(unsafe { tracker.remove_code() }, Ok(()));
    assert_eq!(access(child, f), "---p");
    assert_eq!(access(child, variable), "rw-p");
    let client = session.executor().expect("it is in an executor");
    assert_eq!(client.read(variable, 4).as_deref(), Ok(&[5, 0, 0, 0][..]));
    // SAFETY: as above.
    assert_eq!(unsafe { tracker.remove() }, Ok(()));
    assert_eq!(access(child, variable), "---p");
}

/// More than a message holds.
#[test]
fn large_contents_arrive_whole() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "unsigned char zero[20 << 20];
        unsigned char data[5 << 20] = {[0] = 1, [3 << 20] = 2, [(5 << 20) - 1] = 3};
        int sum(void) {
            int sum = 0;
            for (int i = 0; i < sizeof data; i++) sum = sum * 3 + data[i];
            for (int i = 0; i < sizeof zero; i++) sum += zero[i];
            return sum;
        }
        int ends(void) { return data[0] * 100 + data[3 << 20] * 10 + data[(5 << 20) - 1]; }";
    add(&main, vec![object(&folder, "large", source)]);
    assert_eq!(call(&session, &main, "ends"), 123);
    let mut sum = 0_i32;
    for index in 0..5 << 20 {
        let byte = match index {
            0 => 1,
            0x30_0000 => 2,
            0x4f_ffff => 3,
            _ => 0,
        };
        sum = sum.wrapping_mul(3).wrapping_add(byte);
    }
    assert_eq!(call(&session, &main, "sum"), sum);
}

/// A link that fails after it had memory leaves nothing behind, thread-local storage included.
#[test]
fn a_link_that_fails_leaves_nothing() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    // Each takes more than half of what there is, so that only one may be left behind.
    let source = "extern int nowhere(void);
        _Thread_local char large[4000]; int bad(void) { return nowhere() + large[0]; }";
    for round in 0..5 {
        let tracker = main.create_tracker();
        let added = tracker.add_objects(vec![object(&folder, "bad", source)]);
        assert_eq!(added, Ok(()), "round {round}");
        let error = main.look_up("bad").unwrap_err().to_string();
        assert_eq!(error, "undefined symbol: nowhere");
        #[expect(unsafe_code, reason = "takes linked code away")]
        // SAFETY: nothing of it runs.
        let removed = unsafe { tracker.remove() };
        assert_eq!(removed, Ok(()));
    }
    let good = "_Thread_local char large[4000] = {7}; int good(void) { return large[0]; }";
    add(&main, vec![object(&folder, "good", good)]);
    assert_eq!(call(&session, &main, "good"), 7);
    assert_eq!(support::int(7), 7);
}
