//! The messages of a connection whose handshake is done, each way.
//!
//! Requests that only touch memory are carried out in the order they were sent, before anything
//! that was sent later begins. Requests that may run code (calls, actions, opening a library) each
//! have a thread of their own and are answered when they end, in any order.

use super::{
    Action, Decoder, Encoder, Found, Piece, Place, Protection, Refusal, Segment, SharedSegment,
    Step, ThreadLocal, WireError,
};

/// What a controller says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToExecutor<'a> {
    /// Reserves address space. Answer: its address.
    Reserve {
        /// How many bytes.
        size: u64,
        /// What the address is a multiple of: a power of two.
        align: u64,
        /// Where.
        place: Place,
    },
    /// Gives a whole reservation back, in which no allocation is left.
    Release {
        /// Its address.
        address: u64,
    },
    /// Writes into writable pages.
    Write {
        /// What, in order.
        pieces: Vec<Piece<'a>>,
    },
    /// Writes zeros into writable pages.
    Zero {
        /// Where.
        address: u64,
        /// How many.
        size: u64,
    },
    /// Changes what pages allow.
    Protect {
        /// Where: a page.
        address: u64,
        /// How many bytes; whole pages are changed.
        size: u64,
        /// To what.
        protection: Protection,
    },
    /// Makes segments one allocation: fills them, protects them, runs the actions in order, seals
    /// what is sealed late. When something fails, what was done is undone in reverse and the
    /// pages are given up. Answer: the allocation.
    Finalize {
        /// The segments.
        segments: Vec<Segment<'a>>,
        /// What to do then.
        steps: Vec<Step>,
    },
    /// The same with contents in memory that both map. Answer: the allocation.
    FinalizeShared {
        /// The segments.
        segments: Vec<SharedSegment>,
        /// What to do then.
        steps: Vec<Step>,
    },
    /// Undoes allocations, last to first: undo actions in reverse order, then the pages are given
    /// up. All is tried; the answer is the first error.
    Deallocate {
        /// The allocations.
        allocations: Vec<u64>,
    },
    /// Takes pages out of an allocation. Of its undo actions those that are named are done now,
    /// last to first, and not again; then the pages are given up. All is tried; the answer is the
    /// first error.
    Withdraw {
        /// The allocation.
        allocation: u64,
        /// Start and size of each run of pages.
        ranges: Vec<(u64, u64)>,
        /// The undo actions.
        undo: Vec<Action>,
    },
    /// Runs actions in order, until one fails.
    Perform {
        /// The actions.
        actions: Vec<Action>,
    },
    /// Reads from readable pages. Answer: the bytes.
    Read {
        /// Where.
        address: u64,
        /// How many.
        size: u32,
    },
    /// Looks names up. A name may carry a version: `name@VERSION`. Answer: what was found, in
    /// order.
    LookUp {
        /// In which library and what it needs; without, in everything the process has loaded.
        library: Option<u32>,
        /// The names.
        names: Vec<&'a [u8]>,
    },
    /// Looks thread-local variables of libraries up. Answer: the offset of each from the thread
    /// pointer, in order.
    LookUpThreadLocal {
        /// Their names.
        names: Vec<&'a [u8]>,
    },
    /// Finds a place for a thread-local block that every thread has. It belongs to the connection
    /// until an action releases it. Answer: the block.
    ReserveThreadLocal {
        /// How many bytes.
        size: u64,
        /// Its alignment: a power of two.
        align: u64,
    },
    /// Opens a shared library, by path or by the system's search. Answer: the library.
    Open {
        /// Its path or name.
        path: &'a [u8],
    },
    /// Sets the arguments that initializers and `main` are given, the first of which is the
    /// program's name.
    Arguments {
        /// The arguments.
        values: Vec<&'a [u8]>,
    },
    /// Calls a `main`. Answer: what it returns.
    Main {
        /// Where it is.
        address: u64,
    },
    /// Calls a function without arguments, for nothing.
    Void {
        /// Where it is.
        address: u64,
    },
    /// Calls a function of an `int`. Answer: the `int` that it returns.
    Int {
        /// Where it is.
        address: u64,
        /// What it is given.
        argument: i32,
    },
    /// Calls a wrapper: `void f(const uint8_t *input, size_t size, struct sink *reply)`, which
    /// answers by calling `reply->write(reply, bytes, size)`. Answer: the bytes.
    Wrapper {
        /// Where it is.
        address: u64,
        /// What it is given.
        input: &'a [u8],
    },
    /// Answers a dispatch.
    Dispatched(
        /// The answer, or why there is none.
        Result<&'a [u8], &'a str>,
    ),
    /// Proves that the controller is alive.
    Alive,
    /// Ends the connection in order.
    Goodbye,
}

/// Kinds of messages to the executor.
mod to_executor {
    pub(super) const RESERVE: u16 = 0x10;
    pub(super) const RELEASE: u16 = 0x11;
    pub(super) const WRITE: u16 = 0x12;
    pub(super) const ZERO: u16 = 0x13;
    pub(super) const PROTECT: u16 = 0x14;
    pub(super) const FINALIZE: u16 = 0x15;
    pub(super) const DEALLOCATE: u16 = 0x16;
    pub(super) const PERFORM: u16 = 0x17;
    pub(super) const READ: u16 = 0x18;
    pub(super) const LOOK_UP: u16 = 0x19;
    pub(super) const OPEN: u16 = 0x1a;
    pub(super) const ARGUMENTS: u16 = 0x1b;
    pub(super) const MAIN: u16 = 0x1c;
    pub(super) const VOID: u16 = 0x1d;
    pub(super) const INT: u16 = 0x1e;
    pub(super) const WRAPPER: u16 = 0x1f;
    pub(super) const DISPATCHED: u16 = 0x20;
    pub(super) const NOT_DISPATCHED: u16 = 0x21;
    pub(super) const ALIVE: u16 = 0x22;
    pub(super) const GOODBYE: u16 = 0x23;
    pub(super) const WITHDRAW: u16 = 0x24;
    pub(super) const LOOK_UP_THREAD_LOCAL: u16 = 0x25;
    pub(super) const RESERVE_THREAD_LOCAL: u16 = 0x26;
    pub(super) const FINALIZE_SHARED: u16 = 0x27;
}

impl<'a> ToExecutor<'a> {
    /// The kind for the frame's header.
    pub fn kind(&self) -> u16 {
        use to_executor as kind;
        match self {
            Self::Reserve { .. } => kind::RESERVE,
            Self::Release { .. } => kind::RELEASE,
            Self::Write { .. } => kind::WRITE,
            Self::Zero { .. } => kind::ZERO,
            Self::Protect { .. } => kind::PROTECT,
            Self::Finalize { .. } => kind::FINALIZE,
            Self::FinalizeShared { .. } => kind::FINALIZE_SHARED,
            Self::Deallocate { .. } => kind::DEALLOCATE,
            Self::Withdraw { .. } => kind::WITHDRAW,
            Self::Perform { .. } => kind::PERFORM,
            Self::Read { .. } => kind::READ,
            Self::LookUp { .. } => kind::LOOK_UP,
            Self::LookUpThreadLocal { .. } => kind::LOOK_UP_THREAD_LOCAL,
            Self::ReserveThreadLocal { .. } => kind::RESERVE_THREAD_LOCAL,
            Self::Open { .. } => kind::OPEN,
            Self::Arguments { .. } => kind::ARGUMENTS,
            Self::Main { .. } => kind::MAIN,
            Self::Void { .. } => kind::VOID,
            Self::Int { .. } => kind::INT,
            Self::Wrapper { .. } => kind::WRAPPER,
            Self::Dispatched(Ok(_)) => kind::DISPATCHED,
            Self::Dispatched(Err(_)) => kind::NOT_DISPATCHED,
            Self::Alive => kind::ALIVE,
            Self::Goodbye => kind::GOODBYE,
        }
    }

    /// What is asked, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reserve { .. } => "reserve",
            Self::Release { .. } => "release",
            Self::Write { .. } => "write",
            Self::Zero { .. } => "zero",
            Self::Protect { .. } => "protect",
            Self::Finalize { .. } | Self::FinalizeShared { .. } => "finalize",
            Self::Deallocate { .. } => "deallocate",
            Self::Withdraw { .. } => "withdraw",
            Self::Perform { .. } => "perform",
            Self::Read { .. } => "read",
            Self::LookUp { .. } | Self::LookUpThreadLocal { .. } => "look up",
            Self::ReserveThreadLocal { .. } => "reserve thread-local storage",
            Self::Open { .. } => "open",
            Self::Arguments { .. } => "arguments",
            Self::Main { .. } => "main",
            Self::Void { .. } | Self::Int { .. } | Self::Wrapper { .. } => "call",
            Self::Dispatched(_) => "dispatched",
            Self::Alive => "alive",
            Self::Goodbye => "goodbye",
        }
    }

    /// Whether the answer takes as long as code that the executor knows nothing of.
    pub fn runs_code(&self) -> bool {
        match self {
            Self::Finalize { steps, .. } | Self::FinalizeShared { steps, .. } => {
                // What was done is undone when a later step fails.
                let mut actions = steps
                    .iter()
                    .flat_map(|step| std::iter::once(&step.action).chain(&step.undo));
                actions.any(Action::runs_code)
            }
            Self::Perform { actions } => actions.iter().any(Action::runs_code),
            Self::Withdraw { undo, .. } => undo.iter().any(Action::runs_code),
            // What an allocation's undo actions are is known to the executor only.
            Self::Deallocate { .. }
            | Self::Open { .. }
            | Self::Main { .. }
            | Self::Void { .. }
            | Self::Int { .. }
            | Self::Wrapper { .. } => true,
            _ => false,
        }
    }

    /// Writes the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let to = &mut Encoder::new(out);
        match self {
            Self::Reserve { size, align, place } => {
                to.u64(*size);
                to.u64(*align);
                place.encode(to);
            }
            Self::Release { address } | Self::Main { address } | Self::Void { address } => {
                to.u64(*address);
            }
            Self::Write { pieces } => {
                to.count(pieces.len());
                for piece in pieces {
                    to.u64(piece.address);
                    to.bytes(piece.bytes);
                }
            }
            Self::Zero { address, size } => {
                to.u64(*address);
                to.u64(*size);
            }
            Self::Protect {
                address,
                size,
                protection,
            } => {
                to.u64(*address);
                to.u64(*size);
                protection.encode(to);
            }
            Self::Finalize { segments, steps } => {
                to.count(segments.len());
                for segment in segments {
                    to.u64(segment.address);
                    to.u64(segment.size);
                    segment.protection.encode(to);
                    to.bool(segment.sealed_late);
                    to.bytes(segment.content);
                }
                to.count(steps.len());
                steps.iter().for_each(|step| step.encode(to));
            }
            Self::FinalizeShared { segments, steps } => {
                to.count(segments.len());
                segments.iter().for_each(|segment| segment.encode(to));
                to.count(steps.len());
                steps.iter().for_each(|step| step.encode(to));
            }
            Self::Deallocate { allocations } => {
                to.count(allocations.len());
                allocations.iter().for_each(|&id| to.u64(id));
            }
            Self::Withdraw {
                allocation,
                ranges,
                undo,
            } => {
                to.u64(*allocation);
                to.count(ranges.len());
                for (start, size) in ranges {
                    to.u64(*start);
                    to.u64(*size);
                }
                encode_actions(to, undo);
            }
            Self::Perform { actions } => encode_actions(to, actions),
            Self::Read { address, size } => {
                to.u64(*address);
                to.u32(*size);
            }
            Self::LookUp { library, names } => {
                to.bool(library.is_some());
                if let Some(library) = library {
                    to.u32(*library);
                }
                to.list(names);
            }
            Self::LookUpThreadLocal { names } => to.list(names),
            Self::ReserveThreadLocal { size, align } => {
                to.u64(*size);
                to.u64(*align);
            }
            Self::Open { path } => to.bytes(path),
            Self::Arguments { values } => to.list(values),
            Self::Int { address, argument } => {
                to.u64(*address);
                to.i32(*argument);
            }
            Self::Wrapper { address, input } => {
                to.u64(*address);
                to.bytes(input);
            }
            Self::Dispatched(Ok(bytes)) => to.bytes(bytes),
            Self::Dispatched(Err(why)) => to.bytes(why.as_bytes()),
            Self::Alive | Self::Goodbye => {}
        }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// Anything but exactly one message of the kind.
    pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Self, WireError> {
        use to_executor as kinds;
        let from = &mut Decoder::new(payload);
        let message = match kind {
            kinds::RESERVE => Self::Reserve {
                size: from.u64()?,
                align: from.u64()?,
                place: Place::decode(from)?,
            },
            kinds::RELEASE => Self::Release {
                address: from.u64()?,
            },
            kinds::WRITE => Self::Write {
                pieces: from.list(12, |from| {
                    Ok(Piece {
                        address: from.u64()?,
                        bytes: from.bytes()?,
                    })
                })?,
            },
            kinds::ZERO => Self::Zero {
                address: from.u64()?,
                size: from.u64()?,
            },
            kinds::PROTECT => Self::Protect {
                address: from.u64()?,
                size: from.u64()?,
                protection: Protection::decode(from)?,
            },
            kinds::FINALIZE => Self::Finalize {
                segments: from.list(22, |from| {
                    Ok(Segment {
                        address: from.u64()?,
                        size: from.u64()?,
                        protection: Protection::decode(from)?,
                        sealed_late: from.bool()?,
                        content: from.bytes()?,
                    })
                })?,
                steps: from.list(Step::LEAST, Step::decode)?,
            },
            kinds::FINALIZE_SHARED => Self::FinalizeShared {
                segments: from.list(SharedSegment::SIZE, SharedSegment::decode)?,
                steps: from.list(Step::LEAST, Step::decode)?,
            },
            kinds::DEALLOCATE => Self::Deallocate {
                allocations: from.list(8, Decoder::u64)?,
            },
            kinds::WITHDRAW => Self::Withdraw {
                allocation: from.u64()?,
                ranges: from.list(16, |from| Ok((from.u64()?, from.u64()?)))?,
                undo: decode_actions(from)?,
            },
            kinds::PERFORM => Self::Perform {
                actions: decode_actions(from)?,
            },
            kinds::READ => Self::Read {
                address: from.u64()?,
                size: from.u32()?,
            },
            kinds::LOOK_UP => Self::LookUp {
                library: from.bool()?.then(|| from.u32()).transpose()?,
                names: from.list(4, Decoder::bytes)?,
            },
            kinds::LOOK_UP_THREAD_LOCAL => Self::LookUpThreadLocal {
                names: from.list(4, Decoder::bytes)?,
            },
            kinds::RESERVE_THREAD_LOCAL => Self::ReserveThreadLocal {
                size: from.u64()?,
                align: from.u64()?,
            },
            kinds::OPEN => Self::Open {
                path: from.bytes()?,
            },
            kinds::ARGUMENTS => Self::Arguments {
                values: from.list(4, Decoder::bytes)?,
            },
            kinds::MAIN => Self::Main {
                address: from.u64()?,
            },
            kinds::VOID => Self::Void {
                address: from.u64()?,
            },
            kinds::INT => Self::Int {
                address: from.u64()?,
                argument: from.i32()?,
            },
            kinds::WRAPPER => Self::Wrapper {
                address: from.u64()?,
                input: from.bytes()?,
            },
            kinds::DISPATCHED => Self::Dispatched(Ok(from.bytes()?)),
            kinds::NOT_DISPATCHED => Self::Dispatched(Err(from.text()?)),
            kinds::ALIVE => Self::Alive,
            kinds::GOODBYE => Self::Goodbye,
            kind => return Err(WireError::Kind(kind)),
        };
        from.finish()?;
        Ok(message)
    }
}

fn encode_actions(to: &mut Encoder<'_>, actions: &[Action]) {
    to.count(actions.len());
    actions.iter().for_each(|action| action.encode(to));
}

fn decode_actions(from: &mut Decoder<'_>) -> Result<Vec<Action>, WireError> {
    from.list(Action::LEAST, Action::decode)
}

/// What an executor answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// An address.
    Address(u64),
    /// An allocation.
    Allocation(u64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// What was found of each name.
    Found(Vec<Option<Found>>),
    /// Of each thread-local variable the offset from the thread pointer.
    Offsets(Vec<Option<i64>>),
    /// A thread-local block.
    ThreadLocal(ThreadLocal),
    /// A library.
    Library(u32),
    /// What a function returned.
    Status(i32),
    /// It is not done.
    Refused(Refusal),
}

/// What an executor says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToController<'a> {
    /// Answers a request.
    Reply(Reply),
    /// Linked code calls the controller.
    Dispatch {
        /// What for, as the controller and the code agreed.
        tag: u64,
        /// What it gives.
        input: &'a [u8],
    },
    /// Something that no answer can carry.
    Log {
        /// A line of text.
        text: &'a str,
    },
    /// Proves that the executor is alive.
    Alive,
    /// Ends the connection.
    Goodbye {
        /// Why; empty when the controller asked for it.
        reason: &'a str,
    },
}

/// Kinds of messages to the controller.
mod to_controller {
    pub(super) const DONE: u16 = 0x80;
    pub(super) const ADDRESS: u16 = 0x81;
    pub(super) const ALLOCATION: u16 = 0x82;
    pub(super) const BYTES: u16 = 0x83;
    pub(super) const FOUND: u16 = 0x84;
    pub(super) const LIBRARY: u16 = 0x85;
    pub(super) const STATUS: u16 = 0x86;
    pub(super) const REFUSED: u16 = 0x87;
    pub(super) const DISPATCH: u16 = 0x90;
    pub(super) const LOG: u16 = 0x91;
    pub(super) const ALIVE: u16 = 0x92;
    pub(super) const GOODBYE: u16 = 0x93;
    pub(super) const OFFSETS: u16 = 0x94;
    pub(super) const THREAD_LOCAL: u16 = 0x95;
}

impl<'a> ToController<'a> {
    /// The kind for the frame's header.
    pub fn kind(&self) -> u16 {
        use to_controller as kind;
        match self {
            Self::Reply(reply) => match reply {
                Reply::Done => kind::DONE,
                Reply::Address(_) => kind::ADDRESS,
                Reply::Allocation(_) => kind::ALLOCATION,
                Reply::Bytes(_) => kind::BYTES,
                Reply::Found(_) => kind::FOUND,
                Reply::Offsets(_) => kind::OFFSETS,
                Reply::ThreadLocal(_) => kind::THREAD_LOCAL,
                Reply::Library(_) => kind::LIBRARY,
                Reply::Status(_) => kind::STATUS,
                Reply::Refused(_) => kind::REFUSED,
            },
            Self::Dispatch { .. } => kind::DISPATCH,
            Self::Log { .. } => kind::LOG,
            Self::Alive => kind::ALIVE,
            Self::Goodbye { .. } => kind::GOODBYE,
        }
    }

    /// Writes the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let to = &mut Encoder::new(out);
        match self {
            Self::Reply(reply) => match reply {
                Reply::Done => {}
                Reply::Address(value) | Reply::Allocation(value) => to.u64(*value),
                Reply::Bytes(bytes) => to.bytes(bytes),
                Reply::Found(all) => {
                    to.count(all.len());
                    for found in all {
                        to.bool(found.is_some());
                        if let Some(found) = found {
                            to.u64(found.address);
                            to.u64(found.size);
                            to.bool(found.is_data);
                        }
                    }
                }
                Reply::Offsets(all) => {
                    to.count(all.len());
                    for offset in all {
                        to.bool(offset.is_some());
                        if let Some(offset) = offset {
                            to.u64(offset.cast_unsigned());
                        }
                    }
                }
                Reply::ThreadLocal(ThreadLocal { block, offset }) => {
                    to.u64(*block);
                    to.u64(offset.cast_unsigned());
                }
                Reply::Library(library) => to.u32(*library),
                Reply::Status(status) => to.i32(*status),
                Reply::Refused(refusal) => refusal.encode(to),
            },
            Self::Dispatch { tag, input } => {
                to.u64(*tag);
                to.bytes(input);
            }
            Self::Log { text } => to.bytes(text.as_bytes()),
            Self::Alive => {}
            Self::Goodbye { reason } => to.bytes(reason.as_bytes()),
        }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// Anything but exactly one message of the kind.
    pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Self, WireError> {
        use to_controller as kinds;
        let from = &mut Decoder::new(payload);
        let message = match kind {
            kinds::DONE => Self::Reply(Reply::Done),
            kinds::ADDRESS => Self::Reply(Reply::Address(from.u64()?)),
            kinds::ALLOCATION => Self::Reply(Reply::Allocation(from.u64()?)),
            kinds::BYTES => Self::Reply(Reply::Bytes(from.bytes()?.to_vec())),
            kinds::FOUND => Self::Reply(Reply::Found(from.list(1, |from| {
                if !from.bool()? {
                    return Ok(None);
                }
                Ok(Some(Found {
                    address: from.u64()?,
                    size: from.u64()?,
                    is_data: from.bool()?,
                }))
            })?)),
            kinds::OFFSETS => Self::Reply(Reply::Offsets(from.list(1, |from| {
                let offset = from.bool()?.then(|| from.u64()).transpose()?;
                Ok(offset.map(u64::cast_signed))
            })?)),
            kinds::THREAD_LOCAL => Self::Reply(Reply::ThreadLocal(ThreadLocal {
                block: from.u64()?,
                offset: from.u64()?.cast_signed(),
            })),
            kinds::LIBRARY => Self::Reply(Reply::Library(from.u32()?)),
            kinds::STATUS => Self::Reply(Reply::Status(from.i32()?)),
            kinds::REFUSED => Self::Reply(Reply::Refused(Refusal::decode(from)?)),
            kinds::DISPATCH => Self::Dispatch {
                tag: from.u64()?,
                input: from.bytes()?,
            },
            kinds::LOG => Self::Log { text: from.text()? },
            kinds::ALIVE => Self::Alive,
            kinds::GOODBYE => Self::Goodbye {
                reason: from.text()?,
            },
            kind => return Err(WireError::Kind(kind)),
        };
        from.finish()?;
        Ok(message)
    }
}
