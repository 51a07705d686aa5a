//! The same places and the same messages, whatever the number of threads.

use super::{dylib_with_memory, session};
use crate::support::elf::{At, Object, R_PLT32};
use clinch_graph::InputName;
use clinch_jit::memory::MemoryManager;
use clinch_jit::session::Match;

const DYLIBS: usize = 3;
const OBJECTS: usize = 40;

/// `call other; ret` for each of some others.
fn object(name: &str, calls: &[String]) -> (InputName, bytes::Bytes) {
    let mut object = Object::new();
    let mut code = Vec::new();
    let mut relocations = Vec::new();
    for other in calls {
        let other = object.symbol(other, At::Undefined);
        relocations.push((code.len() as u64 + 1, R_PLT32, other, -4));
        code.extend([0xe8, 0, 0, 0, 0]);
    }
    code.push(0xc3);
    let at = object.code(&code, &relocations);
    object.symbol(name, At::Text(at));
    (InputName::file(&format!("{name}.o")), object.write().into())
}

/// The name of an object's function; they call one another in a circle over all dylibs.
fn name(number: usize) -> String {
    format!("f{}", number % (DYLIBS * OBJECTS))
}

#[test]
fn places_do_not_depend_on_threads() {
    let mut known: Option<Vec<u64>> = None;
    for threads in [1, 2, 7, 2, 7] {
        let session = session(threads);
        let dylibs: Vec<_> = (0..DYLIBS)
            .map(|number| dylib_with_memory(&session, &format!("d{number}")))
            .collect();
        let all: Vec<_> = dylibs
            .iter()
            .map(|(dylib, _)| (dylib.id(), Match::All))
            .collect();
        for (number, (dylib, _)) in dylibs.iter().enumerate() {
            let mut order = all.clone();
            order.rotate_left(number);
            dylib.set_link_order(&order);
            for index in 0..OBJECTS {
                let own = number + index * DYLIBS;
                let calls = [name(own + 1), name(own + 2), name(own + 50)];
                // Some in trackers, so links, of their own.
                let tracker = match index % 4 {
                    0 => dylib.create_tracker(),
                    _ => dylib.default_tracker(),
                };
                let added = tracker.add_objects(vec![object(&name(own), &calls)]);
                assert!(added.is_ok(), "{added:?}");
            }
        }
        let names: Vec<String> = (0..DYLIBS * OBJECTS).map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = session.look_up(&all, &names);
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        let starts: Vec<u64> = dylibs
            .iter()
            .map(|(_, memory)| memory.window(false).expect("it is known").0)
            .collect();
        let places = found.iter().enumerate();
        let places = places.map(|(number, address)| address - starts[number % DYLIBS]);
        let places: Vec<u64> = places.collect();
        match &known {
            None => known = Some(places),
            Some(known) => assert_eq!(*known, places, "{threads} threads"),
        }
    }
}

#[test]
fn messages_do_not_depend_on_threads() {
    let mut known: Option<String> = None;
    for threads in [1, 2, 7, 2, 7] {
        let session = session(threads);
        let (dylib, _) = dylib_with_memory(&session, "main");
        // Each a link; every third calls something that is not there, the next calls that.
        for index in 0..30 {
            let missing = format!("missing_{index}");
            let calls = match index % 3 {
                0 => vec![missing],
                1 => vec![format!("g{}", index - 1)],
                _ => Vec::new(),
            };
            let added = dylib
                .create_tracker()
                .add_objects(vec![object(&format!("g{index}"), &calls)]);
            assert!(added.is_ok(), "{added:?}");
        }
        let names: Vec<String> = (0..30).map(|index| format!("g{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = session.look_up(&[(dylib.id(), Match::All)], &names);
        let error = error.expect_err("something is missing").to_string();
        assert_eq!(error.lines().count(), 10, "{error}");
        assert!(error.starts_with("undefined symbol: missing_0\nundefined symbol: missing_3\n"));
        match &known {
            None => known = Some(error),
            Some(known) => assert_eq!(*known, error, "{threads} threads"),
        }
    }
}
