//! Threads that add, look up, replace, remove and fail at random, each in a dylib of its own of
//! one session, beside a model that knows what must come out. Nothing may be left in the end.

use super::{dylib_with_memory, session};
use crate::support::elf::{At, Object, R_PLT32};
use crate::support::{self, mappings};
use clinch_graph::InputName;
use clinch_jit::memory::MemoryManager;
use clinch_jit::session::{Dylib, Match, Session, Tracker};

const FUNCTIONS: usize = 12;

/// What a function is made of: `value`, plus what the function `calls` answers.
#[derive(Clone, Copy)]
struct Made {
    value: i64,
    calls: Option<usize>,
}

/// What is in the dylib.
struct Model {
    made: [Option<(Made, Tracker, bool)>; FUNCTIONS],
}

/// The thread's own numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % n
    }
}

/// `f: sub rsp, 8; call other; add eax, value; add rsp, 8; ret`, or without the call.
fn object(index: usize, made: Made) -> Vec<u8> {
    let mut object = Object::new();
    let value = i32::try_from(made.value).expect("small").to_le_bytes();
    let mut code = vec![0x48, 0x83, 0xec, 8];
    let mut relocations = Vec::new();
    match made.calls {
        Some(other) => {
            let other = object.symbol(&format!("f{other}"), At::Undefined);
            relocations.push((5, R_PLT32, other, -4));
            code.extend([0xe8, 0, 0, 0, 0, 0x05]);
        }
        None => code.push(0xb8),
    }
    code.extend(value);
    code.extend([0x48, 0x83, 0xc4, 8, 0xc3]);
    let at = object.code(&code, &relocations);
    object.symbol(&format!("f{index}"), At::Text(at));
    object.write()
}

impl Model {
    /// What calling a function answers; `None` when something on the way is missing.
    fn answer(&self, index: usize) -> Option<i64> {
        let (mut at, mut sum) = (index, 0);
        loop {
            let (made, ..) = self.made[at].as_ref()?;
            sum += made.value;
            match made.calls {
                // Calls go upward, so this ends.
                Some(next) => at = next,
                None => return Some(sum),
            }
        }
    }

    /// Marks what a look-up links.
    fn link(&mut self, index: usize) {
        let mut at = Some(index);
        while let Some(index) = at {
            let Some((made, _, linked)) = &mut self.made[index] else {
                return;
            };
            *linked = true;
            at = made.calls;
        }
    }

    /// Whether a function, or one that it calls, was linked: what calls it must go before it.
    fn has_linked_callers(&self, index: usize) -> bool {
        self.made
            .iter()
            .flatten()
            .any(|(made, _, linked)| *linked && made.calls == Some(index))
    }
}

fn run(session: &Session, name: &str, seed: u64, rounds: usize) {
    let (dylib, memory) = dylib_with_memory(session, name);
    let mut random = Random(seed);
    let mut model = Model {
        made: [const { None }; FUNCTIONS],
    };
    let window = memory.window(false).expect("it is known");
    let empty = mappings(window);
    for _ in 0..rounds {
        let index = random.below(FUNCTIONS);
        match random.below(4) {
            0 | 1 => add(&dylib, &mut model, index, &mut random),
            2 => remove(&mut model, index),
            _ => look_up(session, &dylib, &mut model, index),
        }
    }
    // From the callers to what they call.
    for index in 0..FUNCTIONS {
        remove(&mut model, index);
    }
    assert!(model.made.iter().all(Option::is_none));
    assert_eq!(mappings(window), empty);
}

fn add(dylib: &Dylib, model: &mut Model, index: usize, random: &mut Random) {
    let made = Made {
        value: i64::try_from(random.below(1000)).expect("small"),
        calls: (index + 1 < FUNCTIONS && random.below(3) > 0)
            .then(|| index + 1 + random.below(FUNCTIONS - index - 1)),
    };
    let tracker = dylib.create_tracker();
    let object = (
        InputName::file(&format!("{index}.o")),
        object(index, made).into(),
    );
    let added = tracker.add_objects(vec![object]);
    match &model.made[index] {
        None => {
            assert!(added.is_ok(), "{added:?}");
            model.made[index] = Some((made, tracker, false));
        }
        Some(_) => {
            let errors = added.expect_err("it is defined");
            let text = errors.to_string();
            assert!(
                text.starts_with(&format!("duplicate definition of f{index} "))
                    || text.starts_with(&format!("duplicate symbol: f{index}\n")),
                "{text}"
            );
        }
    }
}

#[expect(unsafe_code, reason = "takes linked code away")]
fn remove(model: &mut Model, index: usize) {
    if model.has_linked_callers(index) {
        return;
    }
    if let Some((_, tracker, _)) = model.made[index].take() {
        // SAFETY: nothing that calls it is left, and nothing of it runs.
        unsafe { tracker.remove() }.expect("it can be removed");
    }
}

fn look_up(session: &Session, dylib: &Dylib, model: &mut Model, index: usize) {
    let name = format!("f{index}");
    let found = session.look_up(&[(dylib.id(), Match::All)], &[&name]);
    match model.answer(index) {
        Some(sum) => {
            let addresses = found.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(support::int(support::call(addresses[0])), sum);
            model.link(index);
        }
        None => {
            found.expect_err("something is missing");
            // What failed stays failed until it is removed.
            let mut at = Some(index);
            while let Some(index) = at {
                at = model.made[index].as_ref().and_then(|(made, ..)| made.calls);
                model.made[index] = take_failed(model.made[index].take());
            }
        }
    }
}

/// Removes what a failed look-up took along.
#[expect(unsafe_code, reason = "takes linked code away")]
fn take_failed(made: Option<(Made, Tracker, bool)>) -> Option<(Made, Tracker, bool)> {
    match made {
        Some((_, tracker, false)) => {
            // SAFETY: it failed, so nothing of it runs.
            unsafe { tracker.remove() }.expect("it can be removed");
            None
        }
        linked => linked,
    }
}

#[test]
fn threads_with_a_model_beside() {
    const ROUNDS: usize = 2_500;
    for threads in [1, 2] {
        let session = session(threads);
        std::thread::scope(|scope| {
            for seed in 1..=2_u64 {
                let session = &session;
                scope.spawn(move || run(session, &format!("d{seed}"), seed, ROUNDS));
            }
        });
    }
}

/// Versions of functions that call one another, beside what each must answer: replaced, called, and
/// replaced by what cannot be linked, which must change nothing.
fn run_versions(session: &Session, name: &str, seed: u64, rounds: usize) {
    const LAZY: usize = 5;
    let (dylib, memory) = dylib_with_memory(session, name);
    let mut random = Random(seed);
    let call = |index: usize| (index + 1 < LAZY).then_some(index + 1);
    let mut values = [0_i64; LAZY];
    let object_of = |index: usize, value: i64, calls: Option<usize>| {
        let bytes = object(index, Made { value, calls }).into();
        vec![(InputName::file(&format!("{index}.o")), bytes)]
    };
    let first = (0..LAZY).flat_map(|index| object_of(index, 0, call(index)));
    dylib
        .add_lazy_objects(first.collect())
        .expect("they can be read");
    let names: Vec<String> = (0..LAZY).map(|index| format!("f{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let stubs = session.look_up(&[(dylib.id(), Match::All)], &names);
    let stubs = stubs.unwrap_or_else(|error| panic!("{error}"));
    let sum = |values: &[i64; LAZY], from: usize| values[from..].iter().sum::<i64>();
    assert_eq!(support::int(support::call(stubs[0])), 0);

    let mut versions: [Option<Tracker>; LAZY] = Default::default();
    let mut mapped = None;
    for round in 0..rounds {
        let index = random.below(LAZY);
        if random.below(8) == 0 {
            // It calls a function that there is not.
            let bad = object_of(index, 1, Some(FUNCTIONS));
            // SAFETY: it has the type of the other versions.
            unsafe { dylib.replace(bad) }.expect_err("something is missing");
        } else {
            let value = i64::try_from(random.below(1000)).expect("small");
            // SAFETY: as above.
            let version = unsafe { dylib.replace(object_of(index, value, call(index))) };
            let version = version.unwrap_or_else(|error| panic!("{error}"));
            values[index] = value;
            if let Some(old) = versions[index].replace(version) {
                // SAFETY: no thread is in it.
                unsafe { old.remove() }.expect("it can be removed");
            }
        }
        let from = random.below(LAZY);
        assert_eq!(
            support::int(support::call(stubs[from])),
            sum(&values, from),
            "round {round}: f{from}"
        );
        if versions.iter().all(Option::is_some) {
            // Every version is as large as the other.
            let now = mappings(memory.window(false).expect("it is known")).len();
            assert_eq!(*mapped.get_or_insert(now), now, "round {round}");
        }
    }
}

fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("it is there")
        .count()
}

#[test]
fn threads_that_replace_functions() {
    const ROUNDS: usize = 400;
    if !support::is_alone() {
        return;
    }
    let round = || {
        let session = session(2);
        std::thread::scope(|scope| {
            for seed in 1..=3_u64 {
                let session = &session;
                scope.spawn(move || run_versions(session, &format!("v{seed}"), seed, ROUNDS));
            }
        });
    };
    round();
    let before = (mappings((0, u64::MAX)).len(), n_descriptors());
    round();
    let after = (mappings((0, u64::MAX)).len(), n_descriptors());
    assert_eq!(after.1, before.1);
    // Threads keep their stacks for the next ones.
    assert!(after.0 <= before.0 + 4, "{before:?} became {after:?}");
}

/// A chain over thousands of links, each a tracker's own: no recursion, and in time that grows
/// with their number only.
#[test]
fn a_chain_of_many_links() {
    const LINKS: usize = 3_000;
    for threads in [1, 2, 7] {
        let session = session(threads);
        let (dylib, _) = dylib_with_memory(&session, "main");
        for index in 0..LINKS {
            let made = Made {
                value: 1,
                calls: (index + 1 < LINKS).then_some(index + 1),
            };
            let object = (
                InputName::file(&format!("{index}.o")),
                object(index, made).into(),
            );
            let added = dylib.create_tracker().add_objects(vec![object]);
            assert!(added.is_ok(), "{added:?}");
        }
        let address = dylib
            .look_up("f0")
            .unwrap_or_else(|error| panic!("{error}"));
        let sum = i64::try_from(LINKS).expect("small");
        assert_eq!(support::int(support::call(address)), sum);
    }
}

/// A chain over as many objects as are wanted (`CLINCH_CHAIN`), all in one link.
#[test]
fn a_chain_of_many_objects() {
    let n = std::env::var("CLINCH_CHAIN").ok();
    let n = n.and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let session = session(1);
    let (dylib, _) = dylib_with_memory(&session, "main");
    let objects = (0..n).map(|index| {
        let made = Made {
            value: 1,
            calls: (index + 1 < n).then_some(index + 1),
        };
        let bytes = object(index, made).into();
        (InputName::file(&format!("{index}.o")), bytes)
    });
    let added = dylib.add_objects(objects.collect());
    assert!(added.is_ok(), "{added:?}");
    let address = dylib
        .look_up("f0")
        .unwrap_or_else(|error| panic!("{error}"));
    // Its frames need some 16 bytes each.
    let call = std::thread::Builder::new().stack_size(64 << 20);
    let sum = call.spawn(move || support::int(support::call(address)));
    let sum = sum.expect("a thread").join().expect("it runs");
    assert_eq!(sum, i64::try_from(n).expect("small"));
}
