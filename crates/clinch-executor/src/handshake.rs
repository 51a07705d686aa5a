//! The handshake: both agree on a version, each proves that it knows the secret, and the
//! controller learns what the executor is.
//!
//! Four messages: hello and challenge carry a random number each; the controller's proof is a
//! keyed hash of both messages; the executor's is one of both messages, the controller's proof and
//! the facts, so none of them can be changed on the way or used again. The side that is connected
//! to proves last: who does not know the secret learns nothing from an executor.

use crate::error::Error;
use crate::frame::{FrameReader, FrameWriter, Incoming};
use crate::limits::Limits;
use crate::secret::Secret;
use crate::stream::Stream;
use crate::system::descriptor;
use crate::wire::handshake::{Decline, Facts, Greeting, Handshake, NEWEST, OLDEST};
use crate::wire::{Encoder, WireError};
use std::time::Instant;

/// A connection whose peer proved that it knows the secret.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
    /// What the peer told of its limit of silence.
    pub(crate) silence: u32,
}

/// One side during the handshake.
struct Side<'a> {
    reader: FrameReader,
    writer: FrameWriter,
    secret: &'a Secret,
    limits: &'a Limits,
    until: Instant,
}

const CONTROLLER: &str = "controller";
const EXECUTOR: &str = "executor";
/// Behind the side's name, for the key of what it sends.
const FRAMES: &str = "frames of ";

/// The controller's side. Frames are sealed when either side wants it.
pub(crate) fn lead(
    stream: Stream,
    secret: &Secret,
    sealed: bool,
    limits: &Limits,
) -> Result<(Opened, Facts), Error> {
    let mut side = Side::new(stream, secret, limits);
    let hello = side.greeting(OLDEST, NEWEST, sealed)?;
    side.send(&Handshake::Hello(hello))?;
    let challenge = match side.receive()? {
        Handshake::Challenge(challenge) => challenge,
        other => return Err(declined(&other)),
    };
    let theirs = (challenge.oldest, challenge.newest);
    if theirs.0 != theirs.1 || !(OLDEST..=NEWEST).contains(&theirs.0) {
        return Err(wrong_version(theirs));
    }
    if sealed && !challenge.sealed {
        return Err(Error::NotSealed);
    }
    let (hello, greeted) = (bytes_of(&hello), bytes_of(&challenge));
    let ours = secret.prove(CONTROLLER, &[&hello, &greeted]);
    side.send(&Handshake::Proof(*ours.as_bytes()))?;
    let (proof, facts) = match side.receive()? {
        Handshake::Welcome { proof, facts } => (proof, facts),
        other => return Err(declined(&other)),
    };
    let told = facts_bytes(&facts);
    let wanted = secret.prove(EXECUTOR, &[&hello, &greeted, ours.as_bytes(), &told]);
    // Takes the same time whatever differs.
    if wanted != blake3::Hash::from_bytes(proof) {
        return Err(Error::WrongSecret);
    }
    let opened = side.open(&challenge, &[&hello, &greeted], CONTROLLER, EXECUTOR);
    Ok((opened, facts))
}

/// The executor's side.
pub(crate) fn answer(
    stream: Stream,
    secret: &Secret,
    sealed: bool,
    limits: &Limits,
    facts: &Facts,
) -> Result<Opened, Error> {
    let mut side = Side::new(stream, secret, limits);
    let hello = match side.receive()? {
        Handshake::Hello(hello) => hello,
        other => return Err(declined(&other)),
    };
    let version = hello.newest.min(NEWEST);
    if hello.oldest > hello.newest || version < hello.oldest.max(OLDEST) {
        side.send(&Handshake::Decline(Decline::Version {
            oldest: OLDEST,
            newest: NEWEST,
        }))?;
        return Err(wrong_version((hello.oldest, hello.newest)));
    }
    let challenge = side.greeting(version, version, sealed || hello.sealed)?;
    side.send(&Handshake::Challenge(challenge))?;
    let proof = match side.receive()? {
        Handshake::Proof(proof) => blake3::Hash::from_bytes(proof),
        other => return Err(declined(&other)),
    };
    let (silence, hello, greeted) = (hello.silence, bytes_of(&hello), bytes_of(&challenge));
    // Takes the same time whatever differs.
    if proof != secret.prove(CONTROLLER, &[&hello, &greeted]) {
        side.send(&Handshake::Decline(Decline::Secret))?;
        return Err(Error::WrongSecret);
    }
    let told = facts_bytes(facts);
    let ours = secret.prove(EXECUTOR, &[&hello, &greeted, proof.as_bytes(), &told]);
    side.send(&Handshake::Welcome {
        proof: *ours.as_bytes(),
        facts: facts.clone(),
    })?;
    let mut opened = side.open(&challenge, &[&hello, &greeted], EXECUTOR, CONTROLLER);
    opened.silence = silence;
    Ok(opened)
}

impl<'a> Side<'a> {
    fn new(stream: Stream, secret: &'a Secret, limits: &'a Limits) -> Self {
        Self {
            reader: FrameReader::new(stream.clone(), limits.handshake),
            writer: FrameWriter::new(stream, limits.message),
            secret,
            limits,
            until: Instant::now() + limits.handshake,
        }
    }

    fn greeting(&self, oldest: u16, newest: u16, sealed: bool) -> Result<Greeting, Error> {
        let mut nonce = [0; 32];
        descriptor::random(&mut nonce)
            .map_err(|error| Error::system("make a random number", &error))?;
        Ok(Greeting {
            oldest,
            newest,
            sealed,
            silence: self.limits.told_silence(),
            nonce,
        })
    }

    fn send(&mut self, message: &Handshake) -> Result<(), Error> {
        let (kind, until) = (message.kind(), self.until);
        self.writer
            .write_until(kind, 0, |out| message.encode(out), until)
            .map_err(|error| match error {
                Error::Slow(_) => Error::NoHandshake(self.limits.handshake),
                other => other,
            })
    }

    fn receive(&mut self) -> Result<Handshake, Error> {
        let late = Error::NoHandshake(self.limits.handshake);
        match self.reader.next(self.until, None) {
            Ok(Incoming::Frame {
                sequence: found,
                kind,
                payload,
            }) => {
                if found != 0 {
                    return Err(WireError::Sequence { wanted: 0, found }.into());
                }
                Ok(Handshake::decode(kind, payload)?)
            }
            Ok(Incoming::Nothing) | Err(Error::Slow(_)) => Err(late),
            Err(error) => Err(error),
        }
    }

    fn open(mut self, challenge: &Greeting, greetings: &[&[u8]], own: &str, other: &str) -> Opened {
        let key = |side: &str| {
            let label = format!("{FRAMES}{side}");
            *self.secret.prove(&label, greetings).as_bytes()
        };
        let keys = challenge.sealed.then(|| (key(own), key(other)));
        if let Some((own, _)) = keys {
            self.writer.seal(own);
        }
        let key = keys.map(|(_, other)| other);
        self.reader.open(key, self.limits.message);
        Opened {
            reader: self.reader,
            writer: self.writer,
            silence: challenge.silence,
        }
    }
}

fn bytes_of(greeting: &Greeting) -> Vec<u8> {
    let mut bytes = Vec::new();
    greeting.encode(&mut Encoder::new(&mut bytes));
    bytes
}

fn facts_bytes(facts: &Facts) -> Vec<u8> {
    let mut bytes = Vec::new();
    facts.encode(&mut Encoder::new(&mut bytes));
    bytes
}

fn wrong_version(theirs: (u16, u16)) -> Error {
    Error::Version {
        ours: (OLDEST, NEWEST),
        theirs,
    }
}

/// The error for a message that is not the expected one.
fn declined(message: &Handshake) -> Error {
    match message {
        Handshake::Decline(Decline::Secret) => Error::WrongSecret,
        Handshake::Decline(Decline::Version { oldest, newest }) => {
            wrong_version((*oldest, *newest))
        }
        other => WireError::Kind(other.kind()).into(),
    }
}
