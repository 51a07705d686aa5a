//! How long each side waits for what, so that a dead, slow or hostile peer is an error in time.

use crate::error::Error;
use std::time::{Duration, Instant};

/// The time limits of one side of a connection.
///
/// A peer that is dead to the system (its process ended, its host refused) is noticed at once.
/// Otherwise, while a connection is idle or code is running: after `silence`. While an answer is
/// owed that does not depend on linked code: after `answer`. Within a message: after `message`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// For the whole handshake.
    pub handshake: Duration,
    /// For the answer to a request that runs no linked code.
    pub answer: Duration,
    /// From the first byte of a message to its last, and for the peer to take a message.
    pub message: Duration,
    /// After this long without a message to the peer, one is sent to prove that we are alive;
    /// sooner where the peer's `silence` demands it.
    pub heartbeat: Duration,
    /// After this long without a message from the peer, it is taken for dead; `None` where a
    /// debugger may stop it.
    pub silence: Option<Duration>,
    /// For code to end when the connection has ended, and for a child process to end.
    pub end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            message: Duration::from_secs(10),
            heartbeat: Duration::from_secs(5),
            silence: Some(Duration::from_secs(20)),
            end: Duration::from_secs(2),
        }
    }
}

/// The shortest time between two proofs of life, whatever the peer demands.
const SHORTEST: Duration = Duration::from_millis(10);

impl Limits {
    /// The limit of silence as the peer is told: milliseconds, 0 for none.
    pub(crate) fn told_silence(&self) -> u32 {
        self.silence.map_or(0, |silence| {
            u32::try_from(silence.as_millis())
                .unwrap_or(u32::MAX)
                .max(1)
        })
    }

    /// To be asked when nothing came: an error when that has been so for too long. What came while
    /// this process was stopped is read before.
    pub(crate) fn check_silence(&self, waiting_since: Instant) -> Result<(), Error> {
        match self.silence {
            Some(silence) if waiting_since + silence <= Instant::now() => {
                Err(Error::Silent(silence))
            }
            _ => Ok(()),
        }
    }

    /// How often to prove that we are alive to a peer that told its limit of silence.
    pub(crate) fn heartbeat_for(&self, told: u32) -> Duration {
        let theirs = Duration::from_millis(told.into()) / 4;
        let wanted = if told == 0 {
            self.heartbeat
        } else {
            self.heartbeat.min(theirs)
        };
        wanted.max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_silence_sets_the_pace() {
        let limits = Limits::default();
        assert_eq!(limits.heartbeat_for(0), Duration::from_secs(5));
        assert_eq!(limits.heartbeat_for(400), Duration::from_millis(100));
        assert_eq!(limits.heartbeat_for(1), SHORTEST);
        assert_eq!(limits.told_silence(), 20_000);
    }
}
