//! The executor: a controller that it believes says anything.
//!
//! A controller may run any code in the executor's process, so one that says anything at all would
//! end it. This one says anything but that: what it has run is functions that return, which it
//! placed itself; it keeps what the process was told of linked code as the protocol wants it; and
//! it leaves the process's own libraries alone. `harmless` has the rules, for both kinds of
//! messages that it says: made value by value (`values`), and made of bytes.

mod code;
mod harmless;
mod values;

use super::{Connected, Peer, connect, joined, limits, nothing_leaks, secret};
use crate::generate::Choices;
use clinch_executor::wire::{Array, Reply, ToController, ToExecutor};
use clinch_executor::{ControllerOptions, Error, Executor, SharedFile, SharedMemory};
use harmless::{HARMLESS_BITS, gives_back};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::sync::{Arc, LazyLock};

/// How much address space the controller may reserve: what it fills takes time.
const MOST_RESERVED: u64 = 1 << 24;
const PAGE: u64 = 4096;
/// The most messages of a connection.
const MOST_MESSAGES: usize = 48;
/// How many answers may be outstanding, so that nobody waits to be heard.
const MOST_OPEN: usize = 4;
/// Addresses of nothing: below where the system places programs and libraries.
const NOWHERE: u64 = 1 << 40;
/// The architecture of this code.
const ARCHITECTURE: &str = "x86_64";

/// Memory that all controllers share with their executors. It has no code.
static SHARED: LazyLock<Arc<SharedFile>> = LazyLock::new(|| {
    let memory = Arc::new(SharedMemory::new().expect("memory to share"));
    let mut part = memory.take(4 * PAGE, 4 * PAGE).expect("a part of it");
    part.bytes().fill(HARMLESS_BITS);
    part.keep();
    let file = memory.for_reading().expect("its descriptor");
    Arc::new(SharedFile::inherited(file.into_raw_fd()).expect("memory that is shared"))
});

/// Bytes as what a controller says.
pub fn executor_server(bytes: &[u8]) {
    serve(bytes);
}

/// The same; answers which kinds of messages the executor said.
pub(super) fn serve(bytes: &[u8]) -> BTreeSet<u16> {
    let executor = Executor {
        limits: limits(),
        most_reserved: MOST_RESERVED,
        most_calls: 4,
        stack_size: 1 << 19,
        shared_memory: Some(Arc::clone(&SHARED)),
        ..Executor::new(secret())
    };
    let options = ControllerOptions {
        limits: limits(),
        ..ControllerOptions::default()
    };
    let Connected {
        controller,
        executor,
        to_controller,
        to_executor,
    } = connect(&executor, options);
    let facts = controller.facts().clone();
    // The player takes its place.
    to_controller.end();
    drop(controller);

    let mut player = Player {
        peer: to_executor,
        context: facts.context,
        dispatch: facts.dispatch,
        next: 1,
        open: VecDeque::new(),
        dispatches: Vec::new(),
        has_ended: false,
        gives_back: false,
        heard: BTreeSet::new(),
        reservations: Vec::new(),
        functions: Vec::new(),
        wrappers: Vec::new(),
        runs_code: facts.architecture == ARCHITECTURE,
        kept: Vec::new(),
        arrays: Vec::new(),
        frames: Vec::new(),
        allocations: Vec::new(),
        blocks: Vec::new(),
        libraries: 0,
    };
    player.play(&mut Choices::new(bytes));
    let heard = std::mem::take(&mut player.heard);
    drop(player);
    match joined(executor) {
        Ok(()) => {}
        Err(Error::StillRunning(_)) => panic!("code that returns is still running"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    nothing_leaks();
    heard
}

/// The controller that is played, with what it knows.
struct Player {
    peer: Peer,
    context: u64,
    dispatch: u64,
    /// The number of the next request.
    next: u64,
    /// Requests that wait for an answer, with what the answer tells.
    open: VecDeque<(u64, Tells)>,
    /// Calls of linked code that wait for an answer.
    dispatches: Vec<u64>,
    has_ended: bool,
    /// Memory is being given back: nothing in it may be called.
    gives_back: bool,
    /// Kinds of messages.
    heard: BTreeSet<u16>,
    reservations: Vec<(u64, u64)>,
    /// Where functions are that return at once, whatever they are given.
    functions: Vec<Range<u64>>,
    /// Where wrappers begin.
    wrappers: Vec<u64>,
    runs_code: bool,
    /// Ranges whose contents must stay as they are.
    kept: Vec<Range<u64>>,
    /// Arrays of functions, in kept ranges.
    arrays: Vec<Array>,
    /// Call frame records, in kept ranges.
    frames: Vec<u64>,
    allocations: Vec<u64>,
    blocks: Vec<u64>,
    libraries: u32,
}

/// What the answer to a request tells.
#[derive(Clone, Debug)]
enum Tells {
    Nothing,
    Reservation(u64),
    Functions(Range<u64>),
    Wrapper(u64),
    Array(Array),
    Frames(u64),
}

impl Player {
    fn play(&mut self, choices: &mut Choices<'_>) {
        for _ in 0..MOST_MESSAGES {
            if choices.is_empty() || self.has_ended {
                break;
            }
            match choices.below(16) {
                15 => self.say_bytes(choices),
                14 => self.answer_dispatch(choices),
                11..=13 => self.place(choices),
                9 | 10 => self.call(choices),
                _ => self.say_values(choices),
            }
            if self.open.len() >= MOST_OPEN || self.gives_back || !choices.one_in(3) {
                self.hear_all(choices);
                self.gives_back = false;
            }
        }
        if choices.one_in(2) && !self.has_ended {
            self.say(0, &ToExecutor::Goodbye, Tells::Nothing);
            while self.hear(choices) {}
        }
        self.peer.end();
    }

    fn say(&mut self, sequence: u64, message: &ToExecutor<'_>, tells: Tells) {
        if let ToExecutor::Release { address } = message {
            // From now on it may be somebody else's: of a library that is opened.
            self.reservations.retain(|(base, _)| base != address);
            let ours: Vec<Range<u64>> = self.reservations().collect();
            let is_ours = |at: u64| ours.iter().any(|range| range.contains(&at));
            self.functions.retain(|range| is_ours(range.start));
            self.wrappers.retain(|start| is_ours(*start));
        }
        self.gives_back |= gives_back(message);
        let mut payload = Vec::new();
        message.encode(&mut payload);
        let is_request = !matches!(
            message,
            ToExecutor::Alive | ToExecutor::Goodbye | ToExecutor::Dispatched(_)
        );
        if is_request && sequence == self.next {
            self.open.push_back((sequence, tells));
            self.next += 1;
        }
        self.peer.frame(message.kind(), sequence, &payload);
    }

    fn reservations(&self) -> impl Iterator<Item = Range<u64>> {
        let reservations = self.reservations.iter();
        reservations.map(|&(base, size)| base..base.saturating_add(size))
    }

    /// Says a request, if it does no harm.
    fn request(&mut self, message: &ToExecutor<'_>, tells: Tells) {
        if self.is_harmless(message) {
            self.say(self.next, message, tells);
        }
    }

    /// Hears until all requests are answered.
    fn hear_all(&mut self, choices: &mut Choices<'_>) {
        while !self.open.is_empty() && !self.has_ended {
            // What is asked may be answered only then.
            while !self.dispatches.is_empty() {
                self.answer_dispatch(choices);
            }
            self.hear(choices);
        }
    }

    /// Hears one message; `false` at the end.
    fn hear(&mut self, choices: &mut Choices<'_>) -> bool {
        let Some(frame) = self.peer.read() else {
            self.has_ended = true;
            return false;
        };
        let message = ToController::decode(frame.kind, &frame.payload).expect("a sound message");
        self.heard.insert(frame.kind);
        match message {
            ToController::Reply(reply) => {
                let open = self.open.iter().position(|(n, _)| *n == frame.sequence);
                let (_, tells) = open
                    .and_then(|place| self.open.remove(place))
                    .expect("an answer to a request that waits");
                self.learn(&reply, tells);
            }
            ToController::Dispatch { .. } => {
                self.dispatches.push(frame.sequence);
                if choices.one_in(2) {
                    self.answer_dispatch(choices);
                }
            }
            ToController::Log { text } => assert!(!text.is_empty()),
            ToController::Alive => {}
            ToController::Goodbye { .. } => self.has_ended = true,
        }
        !self.has_ended
    }

    fn learn(&mut self, reply: &Reply, tells: Tells) {
        match (reply, tells) {
            (Reply::Refused(refusal), _) => assert!(!refusal.to_string().is_empty()),
            (Reply::Address(base), Tells::Reservation(size)) => {
                self.reservations.push((*base, size));
            }
            (Reply::Allocation(allocation), tells) => {
                self.allocations.push(*allocation);
                match tells {
                    Tells::Functions(range) => self.functions.push(range),
                    Tells::Wrapper(start) => self.wrappers.push(start),
                    Tells::Array(array) => self.arrays.push(array),
                    Tells::Frames(begin) => self.frames.push(begin),
                    Tells::Nothing | Tells::Reservation(_) => {}
                }
            }
            (Reply::ThreadLocal(block), _) => self.blocks.push(block.block),
            (Reply::Library(library), _) => self.libraries = *library,
            _ => {}
        }
    }

    /// Answers a call of linked code: the first that waits, or one that there is not.
    fn answer_dispatch(&mut self, choices: &mut Choices<'_>) {
        let sequence = if self.dispatches.is_empty() {
            if !choices.one_in(4) {
                return;
            }
            choices.number()
        } else {
            self.dispatches.remove(0)
        };
        let bytes = choices.bytes(64);
        let answer = if choices.one_in(3) {
            Err("no")
        } else {
            Ok(bytes.as_slice())
        };
        let mut payload = Vec::new();
        let message = ToExecutor::Dispatched(answer);
        message.encode(&mut payload);
        self.peer.frame(message.kind(), sequence, &payload);
    }

    /// Says a message that is made of bytes: what can be read of it does no harm.
    fn say_bytes(&mut self, choices: &mut Choices<'_>) {
        let kind = 0x0f + u16::from(choices.byte() % 0x1a);
        let mut payload = choices.bytes(80);
        let sequence = match choices.below(8) {
            0 => choices.number(),
            1 => 0,
            _ => self.next,
        };
        if choices.one_in(2) && !payload.is_empty() {
            // Something that is there.
            let address = self.address(choices).to_le_bytes();
            let at = choices.below(payload.len());
            for (to, from) in payload.iter_mut().skip(at).zip(address) {
                *to = from;
            }
        }
        let Ok(message) = ToExecutor::decode(kind, &payload) else {
            // What cannot be read ends the connection.
            self.peer.frame(kind, sequence, &payload);
            while self.hear(choices) {}
            return;
        };
        if !self.is_harmless(&message) {
            return;
        }
        let is_in_order = match message {
            ToExecutor::Alive | ToExecutor::Goodbye => sequence == 0,
            ToExecutor::Dispatched(_) => {
                let waiting = self.dispatches.iter().position(|n| *n == sequence);
                waiting.map(|place| self.dispatches.remove(place)).is_some()
            }
            _ => sequence == self.next,
        };
        let tells = match message {
            ToExecutor::Reserve { size, .. } => Tells::Reservation(size),
            _ => Tells::Nothing,
        };
        self.say(sequence, &message, tells);
        if !is_in_order || message == ToExecutor::Goodbye {
            while self.hear(choices) {}
        }
    }
}
