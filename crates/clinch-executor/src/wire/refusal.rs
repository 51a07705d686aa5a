//! Why an executor did not do what it was asked for: the catalogue, on the wire and as messages.
//! A refusal concerns one request; the connection goes on.

use super::{Decoder, Encoder, WireError};
use thiserror::Error;

/// Why a request was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Memory that was not reserved through this connection.
    #[error("{size:#x} bytes at {address:#x} are not the executor's to touch")]
    NotOwned {
        /// Start of what was asked for.
        address: u64,
        /// Its size.
        size: u64,
    },
    /// Memory whose pages do not allow it.
    #[error("the pages of {size:#x} bytes at {address:#x} do not allow it")]
    NotAllowed {
        /// Start of what was asked for.
        address: u64,
        /// Its size.
        size: u64,
    },
    /// Pages that belong to an allocation already.
    #[error("pages at {0:#x} belong to an allocation")]
    InUse(u64),
    /// Neither a page's address nor a power of two.
    #[error("{0:#x} is not aligned, or no alignment")]
    Unaligned(u64),
    /// More than the executor's limit.
    #[error("{0:#x} bytes are more than the executor gives")]
    TooLarge(u64),
    /// The system has no address space like this.
    #[error("no room for {0:#x} bytes")]
    NoSpace(u64),
    /// A system call failed.
    #[error("the executor cannot {what}: {}", std::io::Error::from_raw_os_error(*code))]
    System {
        /// What was to be done.
        what: String,
        /// The system's number for why.
        code: i32,
    },
    /// The dynamic linker cannot open a library.
    #[error("a library cannot be opened: {0}")]
    Library(String),
    /// A library that was not opened through this connection.
    #[error("library {0} is not open")]
    NoLibrary(u32),
    /// An allocation that does not exist.
    #[error("there is no allocation {0}")]
    NoAllocation(u64),
    /// An address where no code is.
    #[error("there is no code at {0:#x}")]
    NotCode(u64),
    /// Unwind records that are not well-formed, not terminated, or registered already.
    #[error("no list of unwind records to register begins at {0:#x}")]
    Frames(u64),
    /// No place that every thread has is left for a thread-local block.
    #[error(
        "thread-local variables need {want} bytes aligned to {align}, but only {have} bytes are left"
    )]
    NoThreadLocalSpace {
        /// How many bytes are needed.
        want: u64,
        /// Their alignment.
        align: u64,
        /// How many are left.
        have: u64,
    },
    /// A thread-local block that does not exist, or what the dynamic linker says of variables.
    #[error("thread-local variables: {0}")]
    ThreadLocal(String),
    /// No image that debuggers could be told of, or that they know.
    #[error("no image for debuggers is at {0:#x}")]
    Image(u64),
    /// Memory that is not shared with the controller.
    #[error("no {size:#x} bytes at {offset:#x} of any memory are shared with the executor")]
    NotShared {
        /// Start of what was asked for.
        offset: u64,
        /// Its size.
        size: u64,
    },
    /// An action failed.
    #[error("action {index}: {why}")]
    Action {
        /// Which, from 0.
        index: u32,
        /// Why.
        why: String,
    },
    /// As many calls are running as the executor allows.
    #[error("too many calls at once")]
    Busy,
    /// The function ended its thread instead of returning.
    #[error("the function ended its thread")]
    ThreadEnded,
    /// Linked code says that it failed, and why.
    #[error("it failed: {0}")]
    Failed(String),
    /// A string for the C library has a zero byte in it.
    #[error("a zero byte in a string")]
    ZeroByte,
}

impl Refusal {
    pub(super) fn encode(&self, to: &mut Encoder<'_>) {
        match self {
            Self::NotOwned { address, size } => {
                to.u16(1);
                to.u64(*address);
                to.u64(*size);
            }
            Self::NotAllowed { address, size } => {
                to.u16(2);
                to.u64(*address);
                to.u64(*size);
            }
            Self::InUse(value) => number(to, 3, *value),
            Self::Unaligned(value) => number(to, 4, *value),
            Self::TooLarge(value) => number(to, 5, *value),
            Self::NoSpace(value) => number(to, 6, *value),
            Self::System { what, code } => {
                to.u16(7);
                to.bytes(what.as_bytes());
                to.i32(*code);
            }
            Self::Library(text) => {
                to.u16(8);
                to.bytes(text.as_bytes());
            }
            Self::NoLibrary(library) => {
                to.u16(9);
                to.u32(*library);
            }
            Self::NoAllocation(value) => number(to, 10, *value),
            Self::NotCode(value) => number(to, 11, *value),
            Self::Frames(value) => number(to, 12, *value),
            Self::Action { index, why } => {
                to.u16(13);
                to.u32(*index);
                to.bytes(why.as_bytes());
            }
            Self::Busy => to.u16(14),
            Self::ThreadEnded => to.u16(15),
            Self::ZeroByte => to.u16(16),
            Self::Failed(text) => {
                to.u16(17);
                to.bytes(text.as_bytes());
            }
            Self::NoThreadLocalSpace { want, align, have } => {
                to.u16(18);
                to.u64(*want);
                to.u64(*align);
                to.u64(*have);
            }
            Self::ThreadLocal(text) => {
                to.u16(19);
                to.bytes(text.as_bytes());
            }
            Self::Image(value) => number(to, 20, *value),
            Self::NotShared { offset, size } => {
                to.u16(21);
                to.u64(*offset);
                to.u64(*size);
            }
        }
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match from.u16()? {
            1 => Self::NotOwned {
                address: from.u64()?,
                size: from.u64()?,
            },
            2 => Self::NotAllowed {
                address: from.u64()?,
                size: from.u64()?,
            },
            3 => Self::InUse(from.u64()?),
            4 => Self::Unaligned(from.u64()?),
            5 => Self::TooLarge(from.u64()?),
            6 => Self::NoSpace(from.u64()?),
            7 => Self::System {
                what: from.text()?.to_owned(),
                code: from.i32()?,
            },
            8 => Self::Library(from.text()?.to_owned()),
            9 => Self::NoLibrary(from.u32()?),
            10 => Self::NoAllocation(from.u64()?),
            11 => Self::NotCode(from.u64()?),
            12 => Self::Frames(from.u64()?),
            13 => Self::Action {
                index: from.u32()?,
                why: from.text()?.to_owned(),
            },
            14 => Self::Busy,
            15 => Self::ThreadEnded,
            16 => Self::ZeroByte,
            17 => Self::Failed(from.text()?.to_owned()),
            18 => Self::NoThreadLocalSpace {
                want: from.u64()?,
                align: from.u64()?,
                have: from.u64()?,
            },
            19 => Self::ThreadLocal(from.text()?.to_owned()),
            20 => Self::Image(from.u64()?),
            21 => Self::NotShared {
                offset: from.u64()?,
                size: from.u64()?,
            },
            value => {
                return Err(WireError::Value {
                    what: "refusal",
                    value: value.into(),
                });
            }
        })
    }
}

fn number(to: &mut Encoder<'_>, code: u16, value: u64) {
    to.u16(code);
    to.u64(value);
}
