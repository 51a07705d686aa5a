//! The messages of the handshake, in the order they go: the controller's hello, the executor's
//! challenge, the controller's proof, the executor's welcome. Instead of the second or the last,
//! the executor may decline.

use super::{Decoder, Encoder, WireError};

/// What a hello and a challenge begin with.
pub const MAGIC: [u8; 8] = *b"clinchEX";
/// The oldest version of the protocol that we speak.
pub const OLDEST: u16 = 1;
/// The newest version of the protocol that we speak.
pub const NEWEST: u16 = 1;

/// What each side tells of itself before it knows the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// The oldest version it speaks.
    pub oldest: u16,
    /// The newest version it speaks; of a challenge both are the version to speak.
    pub newest: u16,
    /// Whether it wants every frame sealed by a tag.
    pub sealed: bool,
    /// After how many milliseconds of silence it takes the other for dead; 0 for never.
    pub silence: u32,
    /// A random number, used once.
    pub nonce: [u8; 32],
}

/// What linked code and the linker must know of an executor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The architecture's name.
    pub architecture: String,
    /// Size of a pointer in bytes.
    pub pointer_size: u8,
    /// Whether numbers have their most significant byte first.
    pub big_endian: bool,
    /// Size of a page, the unit of protection.
    pub page_size: u32,
    /// What the addresses of reservations are at least multiples of.
    pub granularity: u32,
    /// The function by which linked code calls the controller: `int32_t dispatch(uint64_t context,
    /// uint64_t tag, const uint8_t *input, size_t size, struct sink *reply)`.
    pub dispatch: u64,
    /// What that function is given as context.
    pub context: u64,
}

/// Why an executor declines a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decline {
    /// No version in common.
    Version {
        /// The oldest that the executor speaks.
        oldest: u16,
        /// The newest that the executor speaks.
        newest: u16,
    },
    /// The proof is wrong: another secret.
    Secret,
}

/// A message of the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// From the controller, first.
    Hello(Greeting),
    /// From the executor.
    Challenge(Greeting),
    /// From the controller: that it knows the secret.
    Proof([u8; 32]),
    /// From the executor: that it knows the secret, and its facts.
    Welcome {
        /// The proof, which covers the facts.
        proof: [u8; 32],
        /// The facts.
        facts: Facts,
    },
    /// From the executor, which then ends the connection.
    Decline(Decline),
}

const HELLO: u16 = 1;
const CHALLENGE: u16 = 2;
const PROOF: u16 = 3;
const WELCOME: u16 = 4;
const DECLINE: u16 = 5;

impl Greeting {
    /// Writes the payload.
    pub fn encode(&self, to: &mut Encoder<'_>) {
        to.raw(&MAGIC);
        to.u16(self.oldest);
        to.u16(self.newest);
        to.bool(self.sealed);
        to.u32(self.silence);
        to.raw(&self.nonce);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let magic = from.array()?;
        if magic != MAGIC {
            return Err(WireError::Value {
                what: "greeting of this protocol",
                value: u64::from_le_bytes(magic),
            });
        }
        Ok(Self {
            oldest: from.u16()?,
            newest: from.u16()?,
            sealed: from.bool()?,
            silence: from.u32()?,
            nonce: from.array()?,
        })
    }
}

impl Facts {
    /// Writes the payload.
    pub fn encode(&self, to: &mut Encoder<'_>) {
        to.bytes(self.architecture.as_bytes());
        to.u8(self.pointer_size);
        to.bool(self.big_endian);
        to.u32(self.page_size);
        to.u32(self.granularity);
        to.u64(self.dispatch);
        to.u64(self.context);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        let facts = Self {
            architecture: from.text()?.to_owned(),
            pointer_size: from.u8()?,
            big_endian: from.bool()?,
            page_size: from.u32()?,
            granularity: from.u32()?,
            dispatch: from.u64()?,
            context: from.u64()?,
        };
        for size in [facts.page_size, facts.granularity] {
            // A linker rounds by these.
            if !size.is_power_of_two() {
                return Err(WireError::Value {
                    what: "size of pages",
                    value: size.into(),
                });
            }
        }
        if !matches!(facts.pointer_size, 4 | 8) {
            return Err(WireError::Value {
                what: "size of a pointer",
                value: facts.pointer_size.into(),
            });
        }
        Ok(facts)
    }
}

impl Handshake {
    /// The kind for the frame's header.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Challenge(_) => CHALLENGE,
            Self::Proof(_) => PROOF,
            Self::Welcome { .. } => WELCOME,
            Self::Decline(_) => DECLINE,
        }
    }

    /// Writes the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let to = &mut Encoder::new(out);
        match self {
            Self::Hello(greeting) | Self::Challenge(greeting) => greeting.encode(to),
            Self::Proof(proof) => to.raw(proof),
            Self::Welcome { proof, facts } => {
                to.raw(proof);
                facts.encode(to);
            }
            Self::Decline(Decline::Version { oldest, newest }) => {
                to.u8(1);
                to.u16(*oldest);
                to.u16(*newest);
            }
            Self::Decline(Decline::Secret) => to.u8(2),
        }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// Anything but exactly one message of the kind.
    pub fn decode(kind: u16, payload: &[u8]) -> Result<Self, WireError> {
        let from = &mut Decoder::new(payload);
        let message = match kind {
            HELLO => Self::Hello(Greeting::decode(from)?),
            CHALLENGE => Self::Challenge(Greeting::decode(from)?),
            PROOF => Self::Proof(from.array()?),
            WELCOME => Self::Welcome {
                proof: from.array()?,
                facts: Facts::decode(from)?,
            },
            DECLINE => Self::Decline(match from.u8()? {
                1 => Decline::Version {
                    oldest: from.u16()?,
                    newest: from.u16()?,
                },
                2 => Decline::Secret,
                value => {
                    return Err(WireError::Value {
                        what: "reason to decline",
                        value: value.into(),
                    });
                }
            }),
            kind => return Err(WireError::Kind(kind)),
        };
        from.finish()?;
        Ok(message)
    }
}
