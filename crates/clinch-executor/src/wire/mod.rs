//! The wire: frames and the messages in them. Everything is little-endian; every decoder is total
//! (any bytes give a message or a [`WireError`]), allocates no more than the bytes it is given
//! are worth, and refuses bytes that are left over. So a message has one encoding only.
//!
//! A frame is a header of [`HEADER`] bytes and a payload of at most [`MAX_PAYLOAD`]:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | size of the payload |
//! | 2 | kind of message |
//! | 2 | zero |
//! | 8 | sequence number |
//!
//! Each side numbers what it asks from 1 up without gaps; an answer carries the number of what it
//! answers; messages that are neither (alive, goodbye, log, the handshake) carry 0. Where the
//! handshake agreed on it, [`TAG`] bytes of a keyed hash follow that cover how many frames went
//! before, the header and the payload: nobody on the way can change, drop, repeat or reorder.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod code;
pub mod handshake;
pub mod message;
pub mod refusal;
pub mod value;

pub use code::{Decoder, Encoder};
pub use message::{Reply, ToController, ToExecutor};
pub use refusal::Refusal;
pub use value::{
    Action, Array, Found, Piece, Place, Protection, Segment, SharedSegment, Step, ThreadLocal,
};

use thiserror::Error;

/// Size of a frame's header.
pub const HEADER: usize = 16;
/// The largest payload. What is larger goes in pieces.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// The largest payload before the peer has proved that it knows the secret.
pub const MAX_HANDSHAKE: usize = 1024;
/// Size of the tag behind each frame of a sealed connection.
pub const TAG: usize = 16;

/// What is wrong with bytes that a peer sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// A frame says that it is larger than any may be.
    #[error("a frame of {size} bytes, where {limit} is the limit")]
    TooLarge {
        /// What the header says.
        size: u32,
        /// What is allowed at this point.
        limit: usize,
    },
    /// The bytes that must be zero are not.
    #[error("a header with {0:#x} where zero must be")]
    Header(u16),
    /// No message of this kind goes this way, or not at this point.
    #[error("a message of unknown kind {0:#06x}")]
    Kind(u16),
    /// The message ends too early.
    #[error("a message ends within a value")]
    Truncated,
    /// The message goes on behind its end.
    #[error("a message has {0} bytes too many")]
    Trailing(usize),
    /// A value that means nothing.
    #[error("{value} is no {what}")]
    Value {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: u64,
    },
    /// Text that is not UTF-8.
    #[error("text is not valid UTF-8")]
    Text,
    /// A number of a question out of order, or of an answer that nobody waits for.
    #[error("sequence number {found}, where {wanted} should be")]
    Sequence {
        /// What should come: 0 where no number would do.
        wanted: u64,
        /// What came.
        found: u64,
    },
    /// The tag is not that of the frame.
    #[error("a frame was changed on its way")]
    Tag,
    /// An answer of another kind than the question asks for.
    #[error("an answer that does not fit the question")]
    Answer,
}

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Size of the payload.
    pub size: u32,
    /// Kind of the message.
    pub kind: u16,
    /// Sequence number.
    pub sequence: u64,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let parts: [&[u8]; 4] = [
            &self.size.to_le_bytes(),
            &self.kind.to_le_bytes(),
            &[0; 2],
            &self.sequence.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// Reads a header whose payload may have at most `limit` bytes.
    ///
    /// # Errors
    /// Too large a payload, or a header that is not ours.
    pub fn decode(bytes: [u8; HEADER], limit: usize) -> Result<Self, WireError> {
        let mut decoder = Decoder::new(&bytes);
        let size = decoder.u32()?;
        let kind = decoder.u16()?;
        let zero = decoder.u16()?;
        let sequence = decoder.u64()?;
        if zero != 0 {
            return Err(WireError::Header(zero));
        }
        if clinch_graph::index::int::usize_of(size) > limit {
            return Err(WireError::TooLarge { size, limit });
        }
        Ok(Self {
            size,
            kind,
            sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_documented_bytes() {
        let header = Header {
            size: 0x0102,
            kind: 0x0304,
            sequence: 0x05,
        };
        let bytes = [2, 1, 0, 0, 4, 3, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::decode(bytes, 0x0102), Ok(header));
        let limit = 0x0101;
        let too_large = WireError::TooLarge {
            size: 0x0102,
            limit,
        };
        assert_eq!(Header::decode(bytes, limit), Err(too_large));
        let mut bytes = bytes;
        bytes[7] = 1;
        assert_eq!(
            Header::decode(bytes, MAX_PAYLOAD),
            Err(WireError::Header(0x100))
        );
    }
}
