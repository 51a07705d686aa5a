//! Executors that are killed or stop: every look-up ends, with the cause, in time.

use super::{dylib, session_with, short, spawn};
use crate::session::{add, object};
use crate::support::{Folder, have};
use bytes::Bytes;
use clinch_executor::{ControllerOptions, Error};
use clinch_graph::{InputName, LinkGraph};
use clinch_jit::passes::Passes;
use clinch_jit::session::{
    Dylib, LinkInfo, LinkPlugin, LookUpError, Match, Session, SessionOptions, SymbolState,
};
use clinch_jit::{LinkError, MemoryError};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Sends a signal to a child that the test started.
fn signal(child: u32, name: &str) {
    let mut command = Command::new("kill");
    command.arg(format!("-{name}")).arg(child.to_string());
    // It may have been reaped already.
    let _ = command.output();
}

/// Stops a child, and waits until all its threads have stopped.
fn stop(child: u32) {
    signal(child, "STOP");
    let tasks = format!("/proc/{child}/task");
    let has_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.expect("it is there").path().join("status"));
        status.map_or(true, |status| status.contains("State:\tT"))
    };
    while !std::fs::read_dir(&tasks)
        .expect("it is there")
        .all(has_stopped)
    {
        std::thread::yield_now();
    }
}

/// The executor's error that a look-up failed with, which must be the only cause.
fn cause(error: &LookUpError) -> Error {
    let LookUpError::Failed(causes) = error else {
        panic!("{error}");
    };
    assert_eq!(causes.len(), 1, "{error}");
    match &causes[0].0[..] {
        [LinkError::Memory(MemoryError::Executor(cause))] => cause.clone(),
        other => panic!("{other:?}"),
    }
}

/// Objects that call into the next dylib, the C library, and have variables.
fn parts(folder: &Folder, n: usize) -> Vec<(InputName, Bytes)> {
    let part = |number: usize| {
        let next = if number + 1 < n {
            format!("int part{}(void);", number + 1)
        } else {
            "static int last(void) { return 0; }".to_owned()
        };
        let call = if number + 1 < n {
            format!("part{}", number + 1)
        } else {
            "last".to_owned()
        };
        let source = format!(
            "#include <string.h>
             {next}
             static _Thread_local int own = {number};
             int variable{number} = 1;
             int part{number}(void) {{
                 char text[8] = \"abc\";
                 return {call}() + own + variable{number} + (int)strlen(text);
             }}"
        );
        object(folder, &format!("part{number}"), &source)
    };
    (0..n).map(part).collect()
}

/// Dylibs in a row, each of which looks into the next one.
fn row(session: &Session, objects: &[(InputName, Bytes)]) -> Vec<Dylib> {
    let all: Vec<Dylib> = (0..objects.len())
        .map(|number| dylib(session, &format!("dylib{number}")))
        .collect();
    for (number, it) in all.iter().enumerate() {
        let mut order = vec![(it.id(), Match::All)];
        order.extend(all.get(number + 1).map(|next| (next.id(), Match::Exported)));
        it.set_link_order(&order);
        add(it, vec![objects[number].clone()]);
    }
    all
}

/// Ends the executor at a certain point of the links of a certain dylib.
#[derive(Debug)]
struct Killer {
    child: u32,
    point: usize,
}

impl Killer {
    fn at(&self, point: usize) {
        if point == self.point {
            signal(self.child, "KILL");
        }
    }
}

/// The points of a link at which [`Killer`] ends the executor.
const POINTS: usize = 7;

struct Plugin(Arc<Killer>);

impl LinkPlugin for Plugin {
    fn notify_loaded(&self, _link: &LinkInfo) {
        self.0.at(0);
    }

    fn modify_passes(&self, link: &LinkInfo, _graph: &LinkGraph, passes: &mut Passes) {
        if link.dylib_name != "dylib1" {
            return;
        }
        let killer = |point: usize| {
            let killer = Arc::clone(&self.0);
            move || {
                killer.at(point);
                Ok(())
            }
        };
        let name = || "kill".to_owned();
        let kill = killer(1);
        passes.pre_prune.push((name(), Box::new(move |_| kill())));
        let kill = killer(2);
        passes.post_prune.push((name(), Box::new(move |_| kill())));
        let kill = killer(3);
        let pass = Box::new(move |_: &mut LinkGraph, _: &_| kill());
        passes.post_allocation.push((name(), pass));
        let kill = killer(4);
        let pass = Box::new(move |_: &mut LinkGraph, _: &_| kill());
        passes.pre_fixup.push((name(), pass));
        let kill = killer(5);
        let pass = Box::new(move |_: &LinkGraph, _: &_, _: u64, _: &mut [u8]| kill());
        passes.post_fixup.push((name(), pass));
    }

    fn notify_emitted(&self, _link: &LinkInfo) -> Result<(), String> {
        self.0.at(6);
        Ok(())
    }
}

/// A session in a child that is to be killed.
fn doomed(threads: usize) -> (Session, u32) {
    let controller = spawn(ControllerOptions::default());
    let child = controller.child_id().expect("it is a child");
    let options = SessionOptions {
        threads,
        ..SessionOptions::default()
    };
    (session_with(options, controller), child)
}

#[test]
fn an_executor_that_is_killed_at_each_point_of_a_link() {
    if !have(&["cc", "kill"]) {
        return;
    }
    let folder = Folder::new();
    let objects = parts(&folder, 3);
    for point in 0..POINTS {
        for threads in [1, 3] {
            let (session, child) = doomed(threads);
            session.add_plugin(Arc::new(Plugin(Arc::new(Killer { child, point }))));
            let all = row(&session, &objects);
            let result = all[0].look_up("part0");
            // Killed behind the last link, nobody may have asked for anything any more.
            if let Err(error) = &result {
                assert!(matches!(cause(error), Error::Ended(_)), "{point}: {error}");
            } else {
                assert_eq!(point, 6);
            }
            // From then on every look-up says the same, of what is ready as well.
            let client = session.executor().expect("it is in an executor");
            let _ = client.read(0, 1);
            for name in ["part0", "part1", "part2", "nothing"] {
                let error = all[0].look_up(name).unwrap_err();
                assert!(matches!(cause(&error), Error::Ended(_)), "{name}: {error}");
            }
        }
    }
}

/// A generator of numbers that depend on nothing but its seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Many look-ups from several threads, and the executor is killed some time later.
#[test]
fn an_executor_that_is_killed_at_some_time() {
    if !have(&["cc", "kill"]) {
        return;
    }
    let folder = Folder::new();
    let objects = parts(&folder, 6);
    let begin = Instant::now();
    for seed in 1..=24_u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (session, child) = doomed(1 + usize::try_from(seed % 3).unwrap_or(0));
        let all = row(&session, &objects);
        let (tell, told) = mpsc::channel();
        for (number, it) in all.iter().enumerate() {
            let (tell, order) = (Mutex::new(tell.clone()), [(it.id(), Match::All)]);
            let name = format!("part{number}");
            let then = Box::new(move |answer| {
                let tell = tell.lock().expect("nobody panics");
                let _ = tell.send((number, answer));
            });
            session.look_up_async(&order, &[(&name, false)], SymbolState::Ready, then);
            if u64::try_from(number).is_ok_and(|number| number == numbers.next() % 6) {
                std::thread::sleep(Duration::from_micros(numbers.next() % 2000));
                signal(child, "KILL");
            }
        }
        signal(child, "KILL");
        drop(tell);
        // Whoever waits runs what is left to do.
        let last = all[0].look_up("part0");
        let mut n = 0;
        while n < all.len() {
            let (number, answer) = told
                .recv_timeout(Duration::from_secs(30))
                .unwrap_or_else(|error| panic!("seed {seed}: {n} answers: {error}"));
            if let Err(error) = answer {
                assert!(
                    matches!(cause(&error), Error::Ended(_)),
                    "{number}: {error}"
                );
            }
            n += 1;
        }
        assert!(
            told.recv_timeout(Duration::ZERO).is_err(),
            "each answers once"
        );
        if let Err(error) = last {
            assert!(matches!(cause(&error), Error::Ended(_)), "{error}");
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(120));
}

/// An executor that takes requests and does not answer is late, for everybody who waits.
#[test]
fn an_executor_that_stops_is_late() {
    if !have(&["cc", "kill"]) {
        return;
    }
    let folder = Folder::new();
    let controller = spawn(short());
    let child = controller.child_id().expect("it is a child");
    let session = session_with(SessionOptions::default(), controller);
    let all = row(&session, &parts(&folder, 2));
    stop(child);
    let begin = Instant::now();
    let error = all[0].look_up("part0").unwrap_err();
    let is_late = matches!(cause(&error), Error::NoAnswer { .. } | Error::Silent(_));
    assert!(is_late, "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
    let again = all[1].look_up("part1").unwrap_err();
    assert_eq!(cause(&again), cause(&error));
    drop((all, session));
    // Killed and reaped, though it could not end by itself.
    wait_for(|| !std::path::Path::new(&format!("/proc/{child}")).exists());
}

/// Waits for something that happens soon.
fn wait_for(mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "it does not happen"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sessions come and go without leaving descriptors, threads or processes here.
#[test]
fn nothing_is_left_here() {
    if !have(&["cc", "kill"]) || !crate::support::is_alone() {
        return;
    }
    let folder = Folder::new();
    let objects = parts(&folder, 3);
    let count = |folder: &str| std::fs::read_dir(folder).expect("it is there").count();
    let before = (count("/proc/self/fd"), count("/proc/self/task"));
    for round in 0..20 {
        let (session, child) = doomed(2);
        let all = row(&session, &objects);
        if round % 2 == 1 {
            signal(child, "KILL");
        }
        let result = all[0].look_up("part0");
        assert!(round % 2 == 1 || result.is_ok());
        drop((all, session));
        // The last owner may be a thread of the session, which ends with it.
        let is_gone = || !std::path::Path::new(&format!("/proc/{child}")).exists();
        wait_for(is_gone);
        wait_for(|| (count("/proc/self/fd"), count("/proc/self/task")) == before);
    }
}
