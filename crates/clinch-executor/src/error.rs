//! The catalogue of what can go wrong with a connection. What concerns one request only is a
//! [`Refusal`]; everything else ends the connection, and every request that waits gets the same
//! error.

use crate::wire::{Refusal, WireError};
use std::process::ExitStatus;
use std::time::Duration;
use thiserror::Error;

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    // One request.
    /// The executor did not do what it was asked for. The connection goes on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A message that no frame can hold. The connection goes on.
    #[error("a message of {0} bytes is too large for a frame")]
    MessageSize(usize),

    // The peer.
    /// The peer ended the connection, or died.
    #[error("the peer ended the connection")]
    Closed,
    /// The executor's process ended.
    #[error("the executor ended: {0}")]
    Ended(ExitStatus),
    /// The peer ended the connection and says why.
    #[error("the peer ended the connection: {0}")]
    GaveUp(String),
    /// Nothing came from the peer for too long.
    #[error("nothing came from the peer for {} ms", .0.as_millis())]
    Silent(Duration),
    /// The peer did not answer in time.
    #[error("no answer to \"{request}\" within {} ms", limit.as_millis())]
    NoAnswer {
        /// What was asked.
        request: &'static str,
        /// What time it had.
        limit: Duration,
    },
    /// The peer began a message and did not end it in time, or did not take one in time.
    #[error("a message took the peer more than {} ms", .0.as_millis())]
    Slow(Duration),
    /// What the peer sent is no message.
    #[error("the peer does not keep to the protocol: {0}")]
    Wire(#[from] WireError),
    /// The peer asks for more at once than is allowed.
    #[error("the peer made more than {0} calls at once")]
    TooManyCalls(usize),

    // The handshake.
    /// The handshake took too long.
    #[error("no handshake within {} ms", .0.as_millis())]
    NoHandshake(Duration),
    /// No version in common.
    #[error(
        "the peer speaks versions {} to {} of the protocol, not {} to {}",
        theirs.0, theirs.1, ours.0, ours.1
    )]
    Version {
        /// Oldest and newest of ours.
        ours: (u16, u16),
        /// Oldest and newest of theirs.
        theirs: (u16, u16),
    },
    /// The peer does not seal frames, though it was asked to.
    #[error("the peer does not seal what it sends")]
    NotSealed,
    /// The peer has another secret.
    #[error("the peer does not know the secret")]
    WrongSecret,
    /// A secret that is too short or too long.
    #[error("a secret has 16 to 4096 bytes, not {0}")]
    SecretSize(usize),
    /// A secret that others can read.
    #[error("the secret's file can be used by others: chmod 600 it")]
    SecretIsOpen,

    // This side.
    /// The connection was ended on this side.
    #[error("the connection was ended")]
    ShutDown,
    /// Calls are still running though the connection has ended, so that what they use cannot be
    /// given back: the process should end.
    #[error("linked code is still running after {} ms", .0.as_millis())]
    StillRunning(Duration),
    /// The system does not do something.
    #[error("cannot {what}: {}", std::io::Error::from(*kind))]
    System {
        /// What.
        what: &'static str,
        /// Why.
        kind: std::io::ErrorKind,
    },
}

impl Error {
    pub(crate) fn system(what: &'static str, error: &std::io::Error) -> Self {
        Self::System {
            what,
            kind: error.kind(),
        }
    }

    /// Whether the connection goes on.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::MessageSize(_))
    }
}
