//! The executor: a controller that it believes says anything.
//!
//! A controller may run any code in the executor's process, so one that says anything at all would
//! end it. This one says anything but that: what it has run is functions that return, which it
//! placed itself; it keeps what the process was told of linked code as the protocol wants it; and
//! it leaves the process's own libraries alone. [`Player::is_harmless`] is the rule, for messages
//! of both kinds that it says: made value by value, and made of bytes.

use super::{Connected, Peer, connect, joined, limits, nothing_leaks, secret};
use crate::generate::Choices;
use clinch_executor::wire::{
    Action, Array, Piece, Place, Protection, Reply, Segment, Step, ToController, ToExecutor,
};
use clinch_executor::{ControllerOptions, Error, Executor};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// How much address space the controller may reserve: what it fills takes time.
const MOST_RESERVED: u64 = 1 << 24;
const PAGE: u64 = 4096;
/// The most messages of a connection.
const MOST_MESSAGES: usize = 48;
/// How many answers may be outstanding, so that nobody waits to be heard.
const MOST_OPEN: usize = 4;
/// Addresses of nothing: below where the system places programs and libraries.
const NOWHERE: u64 = 1 << 40;
/// Every byte that is written is one of these, so that no word looks like an address of the
/// process's own code.
const HARMLESS_BITS: u8 = 0x3f;

/// Libraries that may be opened.
const LIBRARIES: [&[u8]; 5] = [b"libm.so.6", b"/no/such/library", b"", b"a\0b", b"/"];

/// `ret`: a page of it is a function wherever it is entered.
const RET: u8 = 0xc3;

/// A wrapper that answers what it is given.
const ECHO: [u8; 17] = [
    0x48, 0x8b, 0x02, // mov rax, [rdx]
    0x48, 0x89, 0xd1, // mov rcx, rdx
    0x48, 0x89, 0xf2, // mov rdx, rsi
    0x48, 0x89, 0xfe, // mov rsi, rdi
    0x48, 0x89, 0xcf, // mov rdi, rcx
    0xff, 0xe0, // jmp rax
];
/// The architecture of this code.
const ARCHITECTURE: &str = "x86_64";

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

/// What a segment of its own is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Code,
    Array,
    Frames,
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
            if self.open.len() >= MOST_OPEN || !choices.one_in(3) {
                self.hear_all(choices);
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
            // From now on it may be somebody else's.
            self.reservations.retain(|(base, _)| base != address);
        }
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

    fn say_values(&mut self, choices: &mut Choices<'_>) {
        let address = self.address(choices);
        let size = self.size(choices);
        let kind = choices.below(20);
        match kind {
            0..=2 => {
                let places = [Place::Any, Place::Any, Place::Low, Place::Near];
                let is_odd = choices.one_in(4);
                let size = if is_odd {
                    size
                } else {
                    PAGE * (1 + u64::from(choices.byte() % 16))
                };
                let message = ToExecutor::Reserve {
                    size,
                    align: 1 << choices.below(if is_odd { 64 } else { 22 }),
                    place: choices.pick(&places),
                };
                self.request(&message, Tells::Reservation(size));
            }
            3 => {
                self.request(&ToExecutor::Release { address }, Tells::Nothing);
            }
            4 | 5 => {
                let contents: Vec<(u64, Vec<u8>)> = (0..choices.below(4))
                    .map(|_| (self.address(choices), content(choices)))
                    .collect();
                let pieces = contents
                    .iter()
                    .map(|(address, bytes)| Piece {
                        address: *address,
                        bytes,
                    })
                    .collect();
                self.request(&ToExecutor::Write { pieces }, Tells::Nothing);
            }
            6 => self.request(&ToExecutor::Zero { address, size }, Tells::Nothing),
            7 | 8 => {
                let protections = [
                    Protection::ReadWrite,
                    Protection::None,
                    Protection::Read,
                    Protection::ReadWrite,
                ];
                let message = ToExecutor::Protect {
                    address,
                    size,
                    protection: choices.pick(&protections),
                };
                self.request(&message, Tells::Nothing);
            }
            9 => {
                let size = u32::try_from(size % (1 << 14)).unwrap_or(0);
                self.request(&ToExecutor::Read { address, size }, Tells::Nothing);
            }
            10 | 11 => self.finalize(choices),
            12 => {
                let allocations = (0..choices.below(4))
                    .map(|_| self.allocation(choices))
                    .collect();
                let message = ToExecutor::Deallocate { allocations };
                self.request(&message, Tells::Nothing);
            }
            13 => {
                let ranges = (0..choices.below(3))
                    .map(|_| (self.address(choices), self.size(choices)))
                    .collect();
                let undo = self.actions(choices);
                let allocation = self.allocation(choices);
                let message = ToExecutor::Withdraw {
                    allocation,
                    ranges,
                    undo,
                };
                self.request(&message, Tells::Nothing);
            }
            14 => {
                let actions = self.actions(choices);
                self.request(&ToExecutor::Perform { actions }, Tells::Nothing);
            }
            15 => {
                let names: [&[u8]; 5] =
                    [b"malloc", b"no_such_name", b"puts@GLIBC_2.2.5", b"", b"a\0"];
                let names = (0..choices.below(4))
                    .map(|_| choices.pick(&names))
                    .collect();
                let library = choices.one_in(2).then(|| u32::from(choices.byte() % 3));
                let message = ToExecutor::LookUp { library, names };
                self.request(&message, Tells::Nothing);
            }
            16 => {
                let message = ToExecutor::Open {
                    path: choices.pick(&LIBRARIES),
                };
                self.request(&message, Tells::Nothing);
            }
            17 => {
                let message = if choices.one_in(2) {
                    ToExecutor::LookUpThreadLocal {
                        names: vec![b"errno", b"no_such_name"],
                    }
                } else {
                    ToExecutor::ReserveThreadLocal {
                        size: size % 512,
                        align: choices.number() % 512,
                    }
                };
                self.request(&message, Tells::Nothing);
            }
            18 => {
                let values = [choices.bytes(8), choices.bytes(8)];
                let values = values.iter().map(Vec::as_slice).collect();
                self.request(&ToExecutor::Arguments { values }, Tells::Nothing);
            }
            _ => self.call(choices),
        }
    }

    fn call(&mut self, choices: &mut Choices<'_>) {
        let address = self.function(choices);
        let input = choices.bytes(300);
        let message = match choices.below(4) {
            0 => ToExecutor::Wrapper {
                address,
                input: &input,
            },
            1 => ToExecutor::Main { address },
            2 => ToExecutor::Void { address },
            _ => ToExecutor::Int {
                address,
                argument: i32::from(choices.byte()) - 128,
            },
        };
        self.request(&message, Tells::Nothing);
    }

    /// Segments of any kind but those that are code.
    fn finalize(&mut self, choices: &mut Choices<'_>) {
        let contents: Vec<(u64, u64, Vec<u8>)> = (0..choices.below(3))
            .map(|_| (self.address(choices), self.size(choices), content(choices)))
            .collect();
        let protections = [Protection::Read, Protection::ReadWrite, Protection::None];
        let segments = contents
            .iter()
            .map(|(address, size, content)| Segment {
                address: *address,
                size: *size,
                protection: choices.pick(&protections),
                sealed_late: choices.one_in(2),
                content,
            })
            .collect();
        let actions = self.actions(choices);
        let steps = actions
            .into_iter()
            .map(|action| Step {
                action,
                undo: choices.one_in(2).then(|| self.action(choices)),
            })
            .collect();
        self.request(&ToExecutor::Finalize { segments, steps }, Tells::Nothing);
    }

    /// A segment with what the process may be told of, or run.
    fn place(&mut self, choices: &mut Choices<'_>) {
        let Some((base, size)) = choices.pick_any(&self.reservations) else {
            return;
        };
        let pages = size.div_ceil(PAGE).max(1);
        let address = base + PAGE * (choices.number() % pages);
        let kinds = [
            Content::Code,
            Content::Code,
            Content::Array,
            Content::Frames,
        ];
        let kind = choices.pick(&kinds);
        let (content, tells) = match kind {
            Content::Code => self.code(choices, address),
            Content::Array => {
                let words: Vec<u64> = (0..choices.below(6)).map(|_| self.word(choices)).collect();
                let array = Array {
                    address,
                    count: u64::try_from(words.len()).unwrap_or(0),
                    backward: choices.one_in(2),
                };
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                (bytes, Tells::Array(array))
            }
            Content::Frames => (frames(), Tells::Frames(address)),
        };
        let range = address..address + PAGE;
        if self.touches_kept(&range) || kind == Content::Code && !self.runs_code {
            return;
        }
        let protection = if kind == Content::Code {
            Protection::ReadExecute
        } else {
            Protection::Read
        };
        let segment = Segment {
            address,
            size: PAGE,
            protection,
            sealed_late: choices.one_in(2),
            content: &content,
        };
        let message = ToExecutor::Finalize {
            segments: vec![segment],
            steps: Vec::new(),
        };
        self.kept.push(range);
        self.say(self.next, &message, tells);
        // What follows may depend on it.
        self.hear_all(choices);
    }

    /// A page of code: functions, or a wrapper.
    fn code(&self, choices: &mut Choices<'_>, address: u64) -> (Vec<u8>, Tells) {
        // So that no word of harmless bytes is where a wrapper begins.
        let is_high = address > NOWHERE;
        let (mut code, tells) = match choices.below(3) {
            1 if is_high => (self.dispatcher(choices.number()), Tells::Wrapper(address)),
            2 if is_high => (ECHO.to_vec(), Tells::Wrapper(address)),
            _ => (Vec::new(), Tells::Functions(address..address + PAGE)),
        };
        code.resize(usize::try_from(PAGE).unwrap_or(0), RET);
        (code, tells)
    }

    /// A wrapper that answers what the controller answers.
    fn dispatcher(&self, tag: u64) -> Vec<u8> {
        let movabs = |register: [u8; 2], value: u64| [&register[..], &value.to_le_bytes()].concat();
        [
            &[
                0x49, 0x89, 0xd0, // mov r8, rdx
                0x48, 0x89, 0xf1, // mov rcx, rsi
                0x48, 0x89, 0xfa, // mov rdx, rdi
            ][..],
            &movabs([0x48, 0xbf], self.context),
            &movabs([0x48, 0xbe], tag),
            &movabs([0x48, 0xb8], self.dispatch),
            &[0xff, 0xe0], // jmp rax
        ]
        .concat()
    }

    fn actions(&self, choices: &mut Choices<'_>) -> Vec<Action> {
        let n = choices.below(4);
        (0..n).map(|_| self.action(choices)).collect()
    }

    fn action(&self, choices: &mut Choices<'_>) -> Action {
        let address = self.address(choices);
        let frames = choices.pick_any(&self.frames).unwrap_or(address);
        let array = choices.pick_any(&self.arrays).unwrap_or(Array {
            address,
            count: choices.number() % 9,
            backward: choices.one_in(2),
        });
        let block = choices.pick_any(&self.blocks).unwrap_or(0);
        match choices.below(15) {
            0 => Action::RegisterFrames { begin: frames },
            1 => Action::DeregisterFrames { begin: frames },
            2 => Action::WriteWord {
                address,
                value: self.word(choices),
            },
            3 => Action::ResolveIfunc {
                slot: address,
                resolver: self.function(choices),
            },
            4 => Action::RunArray(array),
            5 => Action::RunHandlers { handle: address },
            6 => Action::Call {
                function: self.function(choices),
                input: choices.bytes(16),
            },
            7 => Action::MoveVariable {
                from: address,
                to: self.address(choices),
                size: self.size(choices),
            },
            8 => Action::InitializeThreadLocal {
                block,
                image: address,
                size: self.size(choices) % 512,
            },
            9 => Action::ReleaseThreadLocal { block },
            10 => Action::RegisterImage {
                address,
                size: self.size(choices),
                blank: content(choices),
            },
            11 => Action::DeregisterImage { address },
            12 => Action::RegisterFinalizers {
                arrays: vec![array; choices.below(3)],
            },
            _ => Action::RunFinalizers {
                first: array.address,
            },
        }
    }

    /// An address: in a reservation as a rule, at a page's start as a rule.
    fn address(&self, choices: &mut Choices<'_>) -> u64 {
        let Some((base, size)) = choices.pick_any(&self.reservations) else {
            return choices.number() % NOWHERE;
        };
        let offset = match choices.below(12) {
            0..=2 => 0,
            3 => size,
            4 => choices.number() % size.max(1),
            5 => return choices.number() % NOWHERE,
            _ => PAGE * (choices.number() % size.div_ceil(PAGE).max(1)),
        };
        base.wrapping_add(offset)
    }

    fn size(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(12) {
            0..=4 => PAGE,
            5 => 0,
            6 => choices.number(),
            7 => u64::MAX - u64::from(choices.byte()),
            8 => u64::from(choices.byte()) << 12,
            _ => u64::from(choices.byte()),
        }
    }

    fn allocation(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.pick_any(&self.allocations) {
            Some(allocation) if !choices.one_in(8) => allocation,
            _ => choices.number(),
        }
    }

    /// Where a function is, or nothing is.
    fn function(&self, choices: &mut Choices<'_>) -> u64 {
        let functions = self.functions.iter().map(|range| range.start);
        let functions: Vec<u64> = functions.chain(self.wrappers.iter().copied()).collect();
        match choices.pick_any(&functions) {
            Some(function) if !choices.one_in(16) => function,
            _ => self.address(choices),
        }
    }

    /// A word of an array of functions.
    fn word(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => {
                let start = self.functions.first().map(|range| range.start);
                start.unwrap_or(u64::MAX)
            }
        }
    }

    /// Whether nothing that is not a function of ours is run, and nothing changes that the process
    /// was told of.
    fn is_harmless(&self, message: &ToExecutor<'_>) -> bool {
        match message {
            ToExecutor::Write { pieces } => pieces.iter().all(|piece| {
                self.may_write(piece.address, piece.bytes.len()) && is_harmless(piece.bytes)
            }),
            ToExecutor::Zero { address, size } => !self.touches_kept(&range(*address, *size)),
            ToExecutor::Protect {
                address,
                size,
                protection,
            } => match protection {
                // The executor forgets what was there.
                Protection::None => true,
                Protection::Read | Protection::ReadWrite => {
                    !self.touches_kept(&range(*address, *size))
                }
                Protection::ReadExecute => false,
            },
            ToExecutor::Finalize { segments, steps } => {
                let segments = segments.iter().all(|segment| {
                    segment.protection != Protection::ReadExecute
                        && is_harmless(segment.content)
                        && !self.touches_kept(&range(segment.address, segment.size))
                });
                let mut actions = steps
                    .iter()
                    .flat_map(|step| std::iter::once(&step.action).chain(&step.undo));
                segments && actions.all(|action| self.is_harmless_action(action))
            }
            ToExecutor::Withdraw { undo, .. } => undo.iter().all(|a| self.is_harmless_action(a)),
            ToExecutor::Perform { actions } => actions.iter().all(|a| self.is_harmless_action(a)),
            ToExecutor::Open { path } => LIBRARIES.contains(path),
            ToExecutor::ReserveThreadLocal { size, .. } => *size < 1024,
            ToExecutor::LookUpThreadLocal { names } => names.iter().all(|name| name.len() < 64),
            ToExecutor::Main { address }
            | ToExecutor::Void { address }
            | ToExecutor::Int { address, .. } => self.may_run(*address, false),
            ToExecutor::Wrapper { address, .. } => self.may_run(*address, true),
            ToExecutor::Reserve { .. }
            | ToExecutor::Release { .. }
            | ToExecutor::Deallocate { .. }
            | ToExecutor::Read { .. }
            | ToExecutor::LookUp { .. }
            | ToExecutor::Arguments { .. }
            | ToExecutor::Dispatched(_)
            | ToExecutor::Alive
            | ToExecutor::Goodbye => true,
        }
    }

    fn is_harmless_action(&self, action: &Action) -> bool {
        match action {
            Action::RegisterFrames { begin } => {
                self.frames.contains(begin) || *begin < NOWHERE && !self.is_ours(*begin)
            }
            Action::WriteWord { address, value } => {
                let is_function = self.functions.iter().any(|f| f.start == *value);
                let is_harmless =
                    is_function || *value == u64::MAX || is_harmless(&value.to_le_bytes());
                is_harmless && self.may_write(*address, 8)
            }
            Action::ResolveIfunc { slot, resolver } => {
                self.may_run(*resolver, false) && self.may_write(*slot, 8)
            }
            Action::Call { function, .. } => self.may_run(*function, true),
            // Null stands for all handlers of the process.
            Action::RunHandlers { handle } => *handle != 0 && self.is_nowhere(*handle),
            Action::MoveVariable { from, to, size } => {
                let last = size.saturating_sub(1);
                let ends = [*from, *to].map(|at| [at, at.saturating_add(last)]);
                ends.iter().flatten().all(|at| self.is_nowhere(*at))
                    && !self.touches_kept(&range(*to, *size))
            }
            Action::RegisterFinalizers { arrays } => {
                arrays.iter().all(|array| self.arrays.contains(array))
            }
            Action::DeregisterFrames { .. }
            | Action::RunArray(_)
            | Action::InitializeThreadLocal { .. }
            | Action::ReleaseThreadLocal { .. }
            | Action::RegisterImage { .. }
            | Action::DeregisterImage { .. }
            | Action::RunFinalizers { .. } => true,
        }
    }

    /// Whether a function may be run: it is one of ours, or none is there.
    fn may_run(&self, address: u64, as_wrapper: bool) -> bool {
        let mut functions = self.functions.iter();
        let is_function = functions.any(|range| range.contains(&address));
        let is_wrapper = as_wrapper && self.wrappers.contains(&address);
        let is_nothing = !self.touches_kept(&range(address, 1)) && self.is_nowhere(address);
        (is_function || is_nothing) && !self.is_in_wrapper(address) || is_wrapper
    }

    fn is_in_wrapper(&self, address: u64) -> bool {
        let mut wrappers = self.wrappers.iter();
        wrappers.any(|start| (*start..start + PAGE).contains(&address))
    }

    /// Whether nothing but pages of ours can be there.
    fn is_nowhere(&self, address: u64) -> bool {
        self.is_ours(address) || address < NOWHERE
    }

    fn may_write(&self, address: u64, size: usize) -> bool {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        !self.touches_kept(&range(address, size))
    }

    fn is_ours(&self, address: u64) -> bool {
        let mut reservations = self.reservations.iter();
        reservations.any(|&(base, size)| (base..=base.saturating_add(size)).contains(&address))
    }

    fn touches_kept(&self, range: &Range<u64>) -> bool {
        let mut kept = self.kept.iter();
        // Whole pages change.
        let end = range.end.saturating_add(PAGE);
        kept.any(|kept| kept.start < end && range.start < kept.end)
    }
}

fn range(address: u64, size: u64) -> Range<u64> {
    address..address.saturating_add(size)
}

/// Bytes of which no eight are an address of the process's own.
fn content(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = choices.bytes(600);
    for byte in &mut bytes {
        *byte &= HARMLESS_BITS;
    }
    bytes
}

fn is_harmless(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte & !HARMLESS_BITS == 0)
}

/// A CIE, an FDE of no code, and the end.
fn frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    let cie: [u8; 16] = [12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0];
    bytes.extend(cie);
    bytes.extend(28_u32.to_le_bytes());
    bytes.extend(20_u32.to_le_bytes());
    bytes.extend(NOWHERE.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    bytes
}
