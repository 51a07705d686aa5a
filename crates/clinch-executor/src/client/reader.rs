//! What goes on without being asked: reading answers, keeping the time, proving that we are alive,
//! ending the connection.

use super::{Client, Shared, Then, Waiting};
use crate::error::Error;
use crate::frame::{FrameReader, Incoming};
use crate::limits::Limits;
use crate::system::process::Child;
use crate::threads::{Keep, lock};
use crate::wire::{Reply, ToController, ToExecutor, WireError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

impl Client {
    /// Reads until the connection ends.
    pub(super) fn read_all(&self, mut frames: FrameReader) {
        let reason = loop {
            if let Err(reason) = self.read_one(&mut frames) {
                break reason;
            }
        };
        self.shared.end(reason);
    }

    fn read_one(&self, frames: &mut FrameReader) -> Result<(), Error> {
        let waiting_since = frames.waiting_since();
        let until = self.shared.tick(waiting_since)?;
        let Incoming::Frame {
            kind,
            sequence,
            payload,
        } = frames.next(until, Some(&self.shared.wake))?
        else {
            return self.shared.options.limits.check_silence(waiting_since);
        };
        let wrong = |wanted| {
            Error::from(WireError::Sequence {
                wanted,
                found: sequence,
            })
        };
        let message = ToController::decode(kind, payload)?;
        match message {
            ToController::Reply(reply) => {
                let waiting = lock(&self.shared.state).waiting.remove(&sequence);
                (waiting.ok_or_else(|| wrong(0))?.then)(Ok(reply));
                return Ok(());
            }
            ToController::Dispatch { tag, input } => {
                let mut state = lock(&self.shared.state);
                state.dispatched += 1;
                if sequence != state.dispatched {
                    return Err(wrong(state.dispatched));
                }
                drop(state);
                return self.dispatch(sequence, tag, input.to_vec());
            }
            _ if sequence != 0 => return Err(wrong(0)),
            ToController::Log { text } => {
                if let Some(log) = &self.shared.options.log {
                    log(text);
                }
            }
            ToController::Alive => {}
            ToController::Goodbye { reason } => {
                return Err(match reason {
                    "" => Error::Closed,
                    reason => Error::GaveUp(reason.to_owned()),
                });
            }
        }
        Ok(())
    }

    /// Answers a call of linked code, in a thread.
    fn dispatch(&self, sequence: u64, tag: u64, input: Vec<u8>) -> Result<(), Error> {
        let client = self.clone();
        let job = move || {
            let answer = match &client.shared.options.dispatch {
                None => Err("the controller answers no calls".to_owned()),
                // Linked code waits for an answer, whatever happens.
                Some(handler) => catch_unwind(AssertUnwindSafe(|| handler(&client, tag, &input)))
                    .unwrap_or_else(|_| Err("the controller panicked".to_owned())),
            };
            client.shared.answer(sequence, answer);
        };
        if self.shared.threads.run(Keep::Again, job) {
            Ok(())
        } else {
            Err(Error::TooManyCalls(self.shared.options.most_calls))
        }
    }
}

impl Shared {
    /// Sends a request. Without a connection, or with too large a request, the continuation comes
    /// back.
    pub(super) fn send(&self, request: &ToExecutor<'_>, then: Then) -> Result<(), (Then, Error)> {
        let late = (!request.runs_code()).then(|| Instant::now() + self.options.limits.answer);
        let mut outgoing = lock(&self.outgoing);
        let sequence = outgoing.sequence + 1;
        let must_wake = {
            let mut state = lock(&self.state);
            if let Some(ended) = &state.ended {
                let ended = ended.clone();
                return Err((then, ended));
            }
            let request = request.name();
            let waiting = Waiting {
                request,
                late,
                then,
            };
            state.waiting.insert(sequence, waiting);
            // Else it looks in time anyway.
            late.is_some_and(|late| state.looks_at.is_some_and(|looks_at| looks_at > late))
        };
        let encode = |out: &mut Vec<u8>| request.encode(out);
        let sent = outgoing.frames.write(request.kind(), sequence, encode);
        // Where the connection breaks as well: another thread must not take the number before all
        // who wait are told.
        if !matches!(sent, Err(Error::MessageSize(_))) {
            outgoing.sequence = sequence;
        }
        drop(outgoing);
        match sent {
            Ok(()) if must_wake => self.wake.signal(),
            Ok(()) => {}
            Err(error @ Error::MessageSize(_)) => {
                // If it is not there, the connection has ended and it was told.
                let waiting = lock(&self.state).waiting.remove(&sequence);
                if let Some(waiting) = waiting {
                    return Err((waiting.then, error));
                }
            }
            Err(error) => self.end(error),
        }
        Ok(())
    }

    fn answer(&self, sequence: u64, answer: Result<Vec<u8>, String>) {
        let answer = answer.as_ref().map(Vec::as_slice).map_err(String::as_str);
        let sent = match self.say(sequence, &ToExecutor::Dispatched(answer)) {
            Err(error @ Error::MessageSize(_)) => {
                let why = error.to_string();
                self.say(sequence, &ToExecutor::Dispatched(Err(&why)))
            }
            sent => sent,
        };
        if let Err(error) = sent {
            self.end(error);
        }
    }

    fn say(&self, sequence: u64, message: &ToExecutor<'_>) -> Result<(), Error> {
        let encode = |out: &mut Vec<u8>| message.encode(out);
        let frames = &mut lock(&self.outgoing).frames;
        frames.write(message.kind(), sequence, encode)
    }

    /// Says goodbye. The reader waits until then for the executor to say it as well.
    pub(super) fn say_goodbye(&self, until: Instant) {
        {
            let mut state = lock(&self.state);
            if state.ended.is_some() {
                return;
            }
            // Before it is said: the answer may come at once.
            state.goodbye = Some(until);
        }
        match self.say(0, &ToExecutor::Goodbye) {
            Ok(()) => self.wake.signal(),
            Err(error) => self.end(error),
        }
    }

    /// Looks whether something is late, and proves to the executor that we are alive; answers
    /// when to look again.
    fn tick(&self, waiting_since: Instant) -> Result<Instant, Error> {
        let now = Instant::now();
        let mut until = now + self.heartbeat;
        // Who holds it proves that we are alive.
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            if outgoing.frames.last + self.heartbeat <= now {
                let alive = ToExecutor::Alive;
                let encode = |out: &mut Vec<u8>| alive.encode(out);
                outgoing.frames.write(alive.kind(), 0, encode)?;
            }
            until = outgoing.frames.last + self.heartbeat;
        }
        if let Some(silence) = self.options.limits.silence {
            until = until.min(waiting_since + silence);
        }
        let mut state = lock(&self.state);
        if let Some(ended) = &state.ended {
            return Err(ended.clone());
        }
        if let Some(goodbye) = state.goodbye {
            if goodbye <= now {
                return Err(Error::ShutDown);
            }
            until = until.min(goodbye);
        }
        // All have the same time, so the first one that has a limit is late first.
        let first = state
            .waiting
            .values()
            .find_map(|waiting| Some((waiting.request, waiting.late?)));
        if let Some((request, late)) = first {
            if late <= now {
                let limit = self.options.limits.answer;
                return Err(Error::NoAnswer { request, limit });
            }
            until = until.min(late);
        }
        state.looks_at = Some(until);
        Ok(until)
    }

    /// Ends the connection for the first reason that there is, and tells everybody who waits.
    pub(super) fn end(&self, reason: Error) {
        let said_goodbye = lock(&self.state).goodbye.is_some();
        let reason = match reason {
            // That is how it ends in order.
            Error::Closed if said_goodbye => Error::ShutDown,
            reason => why_ended(reason, &self.child, &self.options.limits),
        };
        let (waiting, reason) = {
            let mut state = lock(&self.state);
            let reason = state.ended.get_or_insert(reason).clone();
            (std::mem::take(&mut state.waiting), reason)
        };
        self.stream.shut_down();
        self.wake.signal();
        for waiting in waiting.into_values() {
            (waiting.then)(Err(reason.clone()));
        }
    }

    /// Ends the connection because an answer does not fit its question.
    pub(super) fn end_for_answer(&self, reply: &Reply) -> Error {
        if let Reply::Refused(refusal) = reply {
            return refusal.clone().into();
        }
        let error = Error::from(WireError::Answer);
        self.end(error.clone());
        error
    }
}

/// A connection that a child process closed ended because the process did.
pub(super) fn why_ended(error: Error, child: &Mutex<Option<Child>>, limits: &Limits) -> Error {
    if error == Error::Closed
        && let Some(child) = &mut *lock(child)
        && let Some(status) = child.wait(Instant::now() + limits.end)
    {
        return Error::Ended(status);
    }
    error
}
