//! Code that goes when no thread is in it any more. Each test has a process of its own, since
//! threads of other tests would be asked too.

use super::{add, call, dylib, object, session};
use crate::support::{self, Folder, have, is_alone, mappings};
use bytes::Bytes;
use clinch_graph::{InputName, SymbolFlags};
use clinch_jit::LinkErrors;
use clinch_jit::session::{Dylib, Session, Tracker};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

/// Enough for an answer that does not change.
const SHORT: Duration = Duration::from_millis(50);
/// More than any test takes.
const LONG: Duration = Duration::from_secs(20);

/// What callers of `step` call.
const USER: &str = "int step(void); int all(void) { return step(); }
    int entered, left; int is_entered(void) { return __atomic_load_n(&entered, __ATOMIC_ACQUIRE); }
    int leave(void) { __atomic_store_n(&left, 1, __ATOMIC_RELEASE); return 0; }";

/// Where a function is. What is in the test's variables must not look like an address of it: the
/// test's thread would be in its code.
struct Place {
    complement: u64,
}

impl Place {
    #[inline(never)]
    fn of(session: &Session, dylib: &str, function: &str) -> Self {
        let dylib = session.dylib(dylib).expect("it was made");
        let address = dylib.look_up(function);
        Self {
            complement: !address.unwrap_or_else(|error| panic!("{error}")),
        }
    }

    #[inline(never)]
    fn is_executable(&self) -> bool {
        let address = !self.complement;
        let found = mappings((address, address + 1));
        found.iter().any(|mapping| mapping.access.contains('x'))
    }
}

/// A dylib whose function `step` is behind a stub.
struct Versions {
    folder: Folder,
    session: Session,
    main: Dylib,
    /// The address of `all`, which calls `step`.
    all: u64,
}

impl Versions {
    fn new(threads: usize, first: &str, callbacks: &[(&str, extern "C" fn())]) -> Self {
        let folder = Folder::new();
        let first = object(&folder, "v0", first);
        Self::of_object(folder, threads, first, callbacks)
    }

    fn of_object(
        folder: Folder,
        threads: usize,
        first: (InputName, Bytes),
        callbacks: &[(&str, extern "C" fn())],
    ) -> Self {
        let session = session(threads);
        let main = dylib(&session, "main");
        for &(name, function) in callbacks {
            let address = (function as *const ()).expose_provenance();
            let address = u64::try_from(address).expect("it is an address");
            main.define(&[(name, address, SymbolFlags::CALLABLE)])
                .expect("it is new");
        }
        if let Err(errors) = main.add_lazy_objects(vec![first]) {
            panic!("{errors}");
        }
        add(&main, vec![object(&folder, "user", USER)]);
        let all = main.look_up("all");
        let all = all.unwrap_or_else(|error| panic!("{error}"));
        Self {
            folder,
            session,
            main,
            all,
        }
    }

    /// The tracker of the first version.
    fn first(&self) -> Tracker {
        let bodies = self.session.dylib("main$bodies").expect("it was made");
        bodies.default_tracker()
    }

    fn place_of_first(&self) -> Place {
        Place::of(&self.session, "main$bodies", "step")
    }

    /// Moves callers of `step` to a version that answers 1.
    fn replace(&self) {
        let new = object(&self.folder, "v1", "int step(void) { return 1; }");
        replace(&self.main, new);
    }

    fn run(&self) -> i64 {
        support::int(support::call(self.all))
    }
}

#[expect(unsafe_code, reason = "replaces code")]
fn replace(dylib: &Dylib, object: (InputName, Bytes)) -> Tracker {
    // SAFETY: the types are the same.
    let replaced = unsafe { dylib.replace(vec![object]) };
    replaced.unwrap_or_else(|error| panic!("{error}"))
}

#[expect(unsafe_code, reason = "takes linked code away")]
fn remove(version: &Tracker, wait: Duration) -> Result<bool, LinkErrors> {
    // SAFETY: callers go to a newer version, and have no other way to this one.
    unsafe { version.remove_code_when_unused(wait) }
}

/// Where a thread of a test and the test meet: when the thread is where it shall be, and when it
/// may leave. Tests look at answers when it may: a test that fails must not wait for it.
static ENTERED: Barrier = Barrier::new(2);
static LEAVE: Barrier = Barrier::new(2);

extern "C" fn meet() {
    ENTERED.wait();
    LEAVE.wait();
}

const MEETS: &str = "void meet(void); int step(void) { meet(); return 0; }";

/// A thread enters the first version and stays until it is let go: so long the code is kept.
fn is_kept_until_left(versions: &Versions) {
    let old = versions.first();
    thread::scope(|scope| {
        let worker = scope.spawn(|| versions.run());
        ENTERED.wait();
        versions.replace();
        let place = versions.place_of_first();
        let early = (remove(&old, SHORT), place.is_executable());
        let now = versions.run();
        LEAVE.wait();
        assert_eq!((early, now), ((Ok(false), true), 1));
        assert_eq!(remove(&old, LONG), Ok(true));
        assert!(!place.is_executable());
        assert_eq!(worker.join().expect("it returned"), 0);
        assert_eq!(versions.run(), 1);
        // There is nothing left to remove.
        assert_eq!(remove(&old, Duration::ZERO), Ok(true));
    });
}

#[test]
fn a_thread_that_will_return_to_code_keeps_it() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    is_kept_until_left(&Versions::new(1, MEETS, &[("meet", meet)]));
}

#[test]
fn a_thread_that_runs_code_keeps_it() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let spins = "extern int entered, left; int step(void) {
        __atomic_store_n(&entered, 1, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&left, __ATOMIC_ACQUIRE)) {} return 0; }";
    let versions = Versions::new(1, spins, &[]);
    let old = versions.first();
    thread::scope(|scope| {
        let worker = scope.spawn(|| versions.run());
        while call(&versions.main, "is_entered") == 0 {
            thread::yield_now();
        }
        versions.replace();
        let place = versions.place_of_first();
        let early = (remove(&old, SHORT), place.is_executable());
        call(&versions.main, "leave");
        assert_eq!(early, (Ok(false), true));
        assert_eq!(remove(&old, LONG), Ok(true));
        assert!(!place.is_executable());
        assert_eq!(worker.join().expect("it returned"), 0);
    });
    assert_eq!(versions.run(), 1);
}

/// Threads never stop calling; no version stays.
#[test]
fn versions_go_while_threads_run() {
    const NUMBER: u32 = 0x1234_5678;
    const VERSIONS: u32 = 100;
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    // Threads are often where `sched_yield` returns to.
    let source = format!(
        "int sched_yield(void);
         static __attribute__((noinline)) int part(int n) {{ sched_yield(); return n; }}
         int step(void) {{ return part({NUMBER}); }}"
    );
    for threads in [1, 2] {
        let folder = Folder::new();
        let (_, template) = object(&folder, "template", &source);
        let numbered = |n: u32| {
            let mut bytes = template.to_vec();
            let pattern = NUMBER.to_le_bytes();
            let at = bytes.windows(4).position(|bytes| bytes == pattern);
            let at = at.expect("the compiler puts it into an instruction");
            bytes[at..at + 4].copy_from_slice(&n.to_le_bytes());
            (InputName::file(&format!("v{n}.o")), Bytes::from(bytes))
        };
        let versions = Versions::of_object(folder, threads, numbered(0), &[]);
        let (newest, ended) = (AtomicI64::new(0), AtomicBool::new(false));
        let (mut places, mut removed) = (Vec::new(), Vec::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !ended.load(Ordering::Relaxed) {
                        let now = versions.run();
                        let newest = newest.load(Ordering::Acquire);
                        assert!((last..=newest).contains(&now), "{last}, {now}, {newest}");
                        last = now;
                    }
                });
            }
            let mut old = versions.first();
            places.push(versions.place_of_first());
            for n in 1..=VERSIONS {
                newest.store(i64::from(n), Ordering::Release);
                let new = replace(&versions.main, numbered(n));
                // Its number is that of its dylib.
                let name = format!("main$version{}", n + 1);
                places.push(Place::of(&versions.session, &name, "step"));
                removed.push(remove(&old, LONG));
                old = new;
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(removed.iter().all(|it| *it == Ok(true)), "{removed:?}");
        assert_eq!(versions.run(), i64::from(VERSIONS));
        let left = places.iter().filter(|place| place.is_executable()).count();
        assert_eq!(left, 1);
        assert!(places.last().is_some_and(Place::is_executable));
    }
}

/// Replaces the handling of all signals in this thread.
#[expect(unsafe_code, reason = "asks the system")]
fn block_signals(how: i32) {
    let mut all = std::mem::MaybeUninit::uninit();
    // SAFETY: fills the set, of which the thread's is made then.
    let result = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(how, all.as_ptr(), std::ptr::null_mut())
    };
    assert_eq!(result, 0);
}

/// Who does not answer may be in the code. What it was asked does no harm when it cares for signals
/// again.
#[test]
fn a_thread_that_blocks_signals_keeps_code() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let versions = Versions::new(1, "int step(void) { return 0; }", &[]);
    assert_eq!(versions.run(), 0);
    let old = versions.first();
    let place = versions.place_of_first();
    versions.replace();
    thread::scope(|scope| {
        scope.spawn(|| {
            block_signals(libc::SIG_BLOCK);
            meet();
            block_signals(libc::SIG_UNBLOCK);
            meet();
        });
        ENTERED.wait();
        let early = (remove(&old, SHORT), place.is_executable());
        LEAVE.wait();
        ENTERED.wait();
        let late = (remove(&old, LONG), place.is_executable());
        LEAVE.wait();
        assert_eq!((early, late), ((Ok(false), true), (Ok(true), false)));
    });
    assert_eq!(versions.run(), 1);
}

/// What the test does in the code that it asks for.
static INSIDE: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

extern "C" fn run_inside() {
    let inside = INSIDE.lock().expect("nobody failed").take();
    inside.expect("there is something to do")();
}

#[test]
fn who_asks_may_be_in_the_code() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let source = "void run_inside(void); int step(void) { run_inside(); return 0; }";
    let versions = Versions::new(1, source, &[("run_inside", run_inside)]);
    let new = object(&versions.folder, "v1", "int step(void) { return 1; }");
    let (main, old) = (versions.main.clone(), versions.first());
    *INSIDE.lock().expect("nobody failed") = Some(Box::new(move || {
        replace(&main, new);
        assert_eq!(remove(&old, SHORT), Ok(false));
    }));
    assert_eq!(versions.run(), 0);
    let place = versions.place_of_first();
    assert!(place.is_executable());
    assert_eq!(remove(&versions.first(), LONG), Ok(true));
    assert!(!place.is_executable());
    assert_eq!(versions.run(), 1);
}

extern "C" fn handle(_signal: libc::c_int) {
    meet();
}

/// Interrupts the thread that calls it, on the alternate stack that threads of Rust have.
#[expect(unsafe_code, reason = "asks the system")]
extern "C" fn interrupt() {
    let handler: extern "C" fn(libc::c_int) = handle;
    // SAFETY: an action without further fields; the handler is of its kind, and interrupts nothing
    // but `raise`.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = (handler as *const ()).expose_provenance();
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
        libc::raise(libc::SIGUSR2)
    };
    assert_eq!(result, 0);
}

/// A thread in a handler returns to what it interrupted, which is on another stack.
#[test]
fn a_thread_on_its_alternate_stack_keeps_code() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let source = "void interrupt(void); int step(void) { interrupt(); return 0; }";
    is_kept_until_left(&Versions::new(1, source, &[("interrupt", interrupt)]));
}
