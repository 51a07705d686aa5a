//! What messages are made of: places and protections, segments, actions.

use super::{Decoder, Encoder, WireError};
use clinch_graph::index::int::u64_of;

/// What pages allow. Nothing is writable and executable, so there is no such value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing; contents are given up, and are zero when access is next allowed.
    None,
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
    /// Reading and running.
    ReadExecute,
}

impl Protection {
    pub(super) fn encode(self, to: &mut Encoder<'_>) {
        to.u8(match self {
            Self::None => 0,
            Self::Read => 1,
            Self::ReadWrite => 2,
            Self::ReadExecute => 3,
        });
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match from.u8()? {
            0 => Ok(Self::None),
            1 => Ok(Self::Read),
            2 => Ok(Self::ReadWrite),
            3 => Ok(Self::ReadExecute),
            value => Err(WireError::Value {
                what: "protection",
                value: value.into(),
            }),
        }
    }
}

/// Where address space is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Anywhere.
    Any,
    /// Below 2 GiB; nowhere else will do.
    Low,
    /// Within 2 GiB of the executor's C library; elsewhere when there is no room.
    Near,
}

impl Place {
    pub(super) fn encode(self, to: &mut Encoder<'_>) {
        to.u8(match self {
            Self::Any => 0,
            Self::Low => 1,
            Self::Near => 2,
        });
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        match from.u8()? {
            0 => Ok(Self::Any),
            1 => Ok(Self::Low),
            2 => Ok(Self::Near),
            value => Err(WireError::Value {
                what: "place",
                value: value.into(),
            }),
        }
    }
}

/// Bytes for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Where they go.
    pub address: u64,
    /// What goes there.
    pub bytes: &'a [u8],
}

/// Pages that become one segment of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// Where it begins: a page.
    pub address: u64,
    /// How many bytes it has; the rest of its last page belongs to it.
    pub size: u64,
    /// What its pages allow in the end.
    pub protection: Protection,
    /// Whether its pages stay writable until the actions ran.
    pub sealed_late: bool,
    /// Bytes for its beginning. What they do not reach stays as it was: zero, or what was
    /// written before, for contents that do not fit into a frame.
    pub content: &'a [u8],
}

/// Pages that become one segment of an allocation, with contents that the controller wrote to memory
/// that both map. What is written to the pages later is the executor's alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedSegment {
    /// Where it begins: a page.
    pub address: u64,
    /// How many bytes it has; the rest of its last page belongs to it.
    pub size: u64,
    /// What its pages allow in the end.
    pub protection: Protection,
    /// Whether its pages stay writable until the actions ran.
    pub sealed_late: bool,
    /// Where in the shared memory its contents begin: a multiple of the size of a page.
    pub offset: u64,
}

impl SharedSegment {
    /// How many bytes a segment takes on the wire.
    pub(super) const SIZE: usize = 26;

    pub(super) fn encode(self, to: &mut Encoder<'_>) {
        to.u64(self.address);
        to.u64(self.size);
        self.protection.encode(to);
        to.bool(self.sealed_late);
        to.u64(self.offset);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Self {
            address: from.u64()?,
            size: from.u64()?,
            protection: Protection::decode(from)?,
            sealed_late: from.bool()?,
            offset: from.u64()?,
        })
    }
}

/// An array of functions' addresses in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array {
    /// Where it is.
    pub address: u64,
    /// How many addresses it has.
    pub count: u64,
    /// Whether the last is called first.
    pub backward: bool,
}

impl Array {
    /// How many bytes an array takes on the wire.
    const SIZE: usize = 17;

    /// How many bytes it has in memory; the most that there are where it is too many.
    pub(crate) fn size(self) -> u64 {
        self.count.saturating_mul(u64_of(size_of::<usize>()))
    }

    /// The numbers of its slots, in the order in which their functions are called.
    pub(crate) fn slots(self) -> impl Iterator<Item = u64> {
        let Self {
            count, backward, ..
        } = self;
        (0..count).map(move |n| if backward { count - 1 - n } else { n })
    }

    fn encode(self, to: &mut Encoder<'_>) {
        to.u64(self.address);
        to.u64(self.count);
        to.bool(self.backward);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Self {
            address: from.u64()?,
            count: from.u64()?,
            backward: from.bool()?,
        })
    }
}

/// Something to do in the executor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Tells the unwinder of the records that begin at the address and end with a zero length.
    RegisterFrames {
        /// The first record.
        begin: u64,
    },
    /// Makes the unwinder forget them.
    DeregisterFrames {
        /// The first record.
        begin: u64,
    },
    /// Writes a word of a pointer's size.
    WriteWord {
        /// Where.
        address: u64,
        /// What.
        value: u64,
    },
    /// Writes the address that a resolver answers.
    ResolveIfunc {
        /// Where.
        slot: u64,
        /// The function that answers it.
        resolver: u64,
    },
    /// Calls the functions of an array, as initializers are called: with the program's arguments
    /// and environment. Null and minus one are skipped, as by the C library's start code.
    RunArray(Array),
    /// Runs the exit handlers that were registered with a handle, last to first, each once.
    RunHandlers {
        /// The handle: the address of a `__dso_handle`.
        handle: u64,
    },
    /// Calls a wrapper; what it answers, unless it is nothing, is why it failed.
    Call {
        /// The wrapper.
        function: u64,
        /// What it is given.
        input: Vec<u8>,
    },
    /// Copies a variable of a library to where linked code reaches it, or back, and points what
    /// the libraries refer to it by to the new place. What does not differ is not written.
    MoveVariable {
        /// Where it is.
        from: u64,
        /// Where it comes to be.
        to: u64,
        /// How many bytes it has.
        size: u64,
    },
    /// Sets the initial values of a thread-local block, in all threads to come and in the one that
    /// does it.
    InitializeThreadLocal {
        /// The block.
        block: u64,
        /// Where the values are.
        image: u64,
        /// How many bytes of them there are; the rest of the block is zero.
        size: u64,
    },
    /// Gives a thread-local block back. One that was given back before is no error.
    ReleaseThreadLocal {
        /// The block.
        block: u64,
    },
    /// Tells debuggers of an image, which is in readable pages.
    RegisterImage {
        /// Where it is.
        address: u64,
        /// How many bytes it has.
        size: u64,
        /// An image of nothing, by which debuggers are made to look again when it goes.
        blank: Vec<u8>,
    },
    /// Makes debuggers forget an image.
    DeregisterImage {
        /// Where it is.
        address: u64,
    },
    /// Has the functions of arrays run when the process exits, behind every handler that is
    /// registered from now on.
    RegisterFinalizers {
        /// The arrays, in the order in which they run. They are known by the first one's address.
        arrays: Vec<Array>,
    },
    /// Runs what was registered, unless it ran before. What was not registered is no error.
    RunFinalizers {
        /// The address of the first array.
        first: u64,
    },
}

impl Action {
    /// The fewest bytes that an action takes.
    pub(super) const LEAST: usize = 5;

    /// Whether the action runs code that the executor knows nothing of.
    pub fn runs_code(&self) -> bool {
        match self {
            Self::RegisterFrames { .. }
            | Self::DeregisterFrames { .. }
            | Self::WriteWord { .. }
            | Self::MoveVariable { .. }
            | Self::ReleaseThreadLocal { .. }
            | Self::RegisterImage { .. }
            | Self::DeregisterImage { .. }
            | Self::RegisterFinalizers { .. } => false,
            // In the thread that runs code, which has its own values.
            Self::InitializeThreadLocal { .. }
            | Self::ResolveIfunc { .. }
            | Self::RunArray(_)
            | Self::RunHandlers { .. }
            | Self::RunFinalizers { .. }
            | Self::Call { .. } => true,
        }
    }

    pub(super) fn encode(&self, to: &mut Encoder<'_>) {
        match self {
            Self::RegisterFrames { begin } => {
                to.u8(1);
                to.u64(*begin);
            }
            Self::DeregisterFrames { begin } => {
                to.u8(2);
                to.u64(*begin);
            }
            Self::WriteWord { address, value } => {
                to.u8(3);
                to.u64(*address);
                to.u64(*value);
            }
            Self::ResolveIfunc { slot, resolver } => {
                to.u8(4);
                to.u64(*slot);
                to.u64(*resolver);
            }
            Self::RunArray(array) => {
                to.u8(5);
                array.encode(to);
            }
            Self::RunHandlers { handle } => {
                to.u8(6);
                to.u64(*handle);
            }
            Self::Call { function, input } => {
                to.u8(7);
                to.u64(*function);
                to.bytes(input);
            }
            Self::MoveVariable { from, to: at, size } => {
                to.u8(8);
                to.u64(*from);
                to.u64(*at);
                to.u64(*size);
            }
            Self::InitializeThreadLocal { block, image, size } => {
                to.u8(9);
                to.u64(*block);
                to.u64(*image);
                to.u64(*size);
            }
            Self::ReleaseThreadLocal { block } => {
                to.u8(10);
                to.u64(*block);
            }
            Self::RegisterImage {
                address,
                size,
                blank,
            } => {
                to.u8(11);
                to.u64(*address);
                to.u64(*size);
                to.bytes(blank);
            }
            Self::DeregisterImage { address } => {
                to.u8(12);
                to.u64(*address);
            }
            Self::RegisterFinalizers { arrays } => {
                to.u8(13);
                to.count(arrays.len());
                arrays.iter().for_each(|array| array.encode(to));
            }
            Self::RunFinalizers { first } => {
                to.u8(14);
                to.u64(*first);
            }
        }
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            1 => Self::RegisterFrames { begin: from.u64()? },
            2 => Self::DeregisterFrames { begin: from.u64()? },
            3 => Self::WriteWord {
                address: from.u64()?,
                value: from.u64()?,
            },
            4 => Self::ResolveIfunc {
                slot: from.u64()?,
                resolver: from.u64()?,
            },
            5 => Self::RunArray(Array::decode(from)?),
            6 => Self::RunHandlers {
                handle: from.u64()?,
            },
            7 => Self::Call {
                function: from.u64()?,
                input: from.bytes()?.to_vec(),
            },
            8 => Self::MoveVariable {
                from: from.u64()?,
                to: from.u64()?,
                size: from.u64()?,
            },
            9 => Self::InitializeThreadLocal {
                block: from.u64()?,
                image: from.u64()?,
                size: from.u64()?,
            },
            10 => Self::ReleaseThreadLocal { block: from.u64()? },
            11 => Self::RegisterImage {
                address: from.u64()?,
                size: from.u64()?,
                blank: from.bytes()?.to_vec(),
            },
            12 => Self::DeregisterImage {
                address: from.u64()?,
            },
            13 => Self::RegisterFinalizers {
                arrays: from.list(Array::SIZE, Array::decode)?,
            },
            14 => Self::RunFinalizers { first: from.u64()? },
            value => {
                return Err(WireError::Value {
                    what: "action",
                    value: value.into(),
                });
            }
        })
    }
}

/// An action and what takes it back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What to do when memory is finalized.
    pub action: Action,
    /// What to do when it is given back.
    pub undo: Option<Action>,
}

impl Step {
    /// The fewest bytes that a step takes.
    pub(super) const LEAST: usize = Action::LEAST + 1;

    pub(super) fn encode(&self, to: &mut Encoder<'_>) {
        self.action.encode(to);
        to.bool(self.undo.is_some());
        if let Some(undo) = &self.undo {
            undo.encode(to);
        }
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let action = Action::decode(from)?;
        let undo = from.bool()?.then(|| Action::decode(from)).transpose()?;
        Ok(Self { action, undo })
    }
}

/// A name that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its address.
    pub address: u64,
    /// Its size in bytes, 0 when not known.
    pub size: u64,
    /// Whether it is data (not a function).
    pub is_data: bool,
}

/// A thread-local block of linked code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadLocal {
    /// Its number, which is not used again.
    pub block: u64,
    /// Its offset from the thread pointer, the same in every thread.
    pub offset: i64,
}
