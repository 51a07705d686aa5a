//! Calls of linked code, each in a thread, and calls that linked code makes to the controller.

use super::Connection;
use crate::error::Error;
use crate::system::thread;
use crate::threads::{Keep, lock};
use crate::wire::{Refusal, Reply, ToController, WireError};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Connections by the number that linked code knows them by, which may outlive them.
static CONNECTIONS: Mutex<BTreeMap<u64, Weak<Connection>>> = Mutex::new(BTreeMap::new());

/// A number for a connection.
pub(super) fn new_context() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// From now on linked code may call the controller of the connection.
pub(super) fn announce(context: u64, connection: &Arc<Connection>) {
    lock(&CONNECTIONS).insert(context, Arc::downgrade(connection));
}

/// From now on there is no such connection.
pub(super) fn forget(context: u64) {
    lock(&CONNECTIONS).remove(&context);
}

/// There is an answer.
const ANSWERED: i32 = 0;
/// The answer says why there is none.
const FAILED: i32 = 1;
/// The connection has ended.
const ENDED: i32 = 2;

/// Linked code calls the controller and waits for what it answers.
pub(crate) fn dispatch(context: u64, tag: u64, input: &[u8]) -> (i32, Vec<u8>) {
    let connection = lock(&CONNECTIONS).get(&context).and_then(Weak::upgrade);
    match connection {
        Some(connection) => connection.dispatch(tag, input),
        None => (ENDED, Vec::new()),
    }
}

/// A call that is owed an answer. If the thread ends before it is given (linked code may end its
/// thread, which unwinds nothing of ours), the answer says so.
struct Owed {
    connection: Arc<Connection>,
    sequence: u64,
    result: Option<Result<Reply, Refusal>>,
}

impl Drop for Owed {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or(Err(Refusal::ThreadEnded));
        self.connection.reply(self.sequence, result);
    }
}

impl Connection {
    /// Runs a request in a thread, which answers it.
    pub(super) fn call(
        self: &Arc<Self>,
        keep: Keep,
        sequence: u64,
        body: impl FnOnce(&Arc<Self>) -> Result<Reply, Refusal> + Send + 'static,
    ) -> ControlFlow<Result<Reply, Refusal>> {
        let connection = Arc::clone(self);
        let job = move || {
            let owed = Owed {
                connection: Arc::clone(&connection),
                sequence,
                result: None,
            };
            thread::push(Box::new(owed));
            let result = body(&connection);
            connection.threads.end_home_job();
            if let Some(mut owed) = thread::pop().and_then(|owed| owed.downcast::<Owed>().ok()) {
                owed.result = Some(result);
            }
        };
        if self.threads.run(keep, job) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(Err(Refusal::Busy))
        }
    }

    /// Asks the controller and waits for the answer, as long as it is alive.
    fn dispatch(&self, tag: u64, input: &[u8]) -> (i32, Vec<u8>) {
        let message = ToController::Dispatch { tag, input };
        let (sequence, sent) = {
            let outgoing = &mut *lock(&self.outgoing);
            let sequence = outgoing.sequence + 1;
            {
                let mut state = lock(&self.state);
                if state.ended.is_some() {
                    return (ENDED, Vec::new());
                }
                state.dispatches.insert(sequence, None);
            }
            let encode = |out: &mut Vec<u8>| message.encode(out);
            let sent = outgoing.frames.write(message.kind(), sequence, encode);
            if sent.is_ok() {
                outgoing.sequence = sequence;
            } else {
                lock(&self.state).dispatches.remove(&sequence);
            }
            (sequence, sent)
        };
        match sent {
            Ok(()) => {}
            Err(error @ Error::MessageSize(_)) => return (FAILED, error.to_string().into_bytes()),
            Err(error) => {
                self.end(error);
                return (ENDED, Vec::new());
            }
        }
        let mut state = lock(&self.state);
        loop {
            if let Some(Some(_)) = state.dispatches.get(&sequence) {
                let answer = state.dispatches.remove(&sequence).flatten();
                return match answer {
                    Some(Ok(bytes)) => (ANSWERED, bytes),
                    Some(Err(why)) => (FAILED, why.into_bytes()),
                    None => (ENDED, Vec::new()),
                };
            }
            if state.ended.is_some() {
                state.dispatches.remove(&sequence);
                return (ENDED, Vec::new());
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The controller answered a dispatch.
    pub(super) fn dispatched(
        &self,
        sequence: u64,
        answer: Result<Vec<u8>, String>,
    ) -> Result<(), Error> {
        match lock(&self.state).dispatches.get_mut(&sequence) {
            Some(slot @ None) => *slot = Some(answer),
            _ => {
                let found = sequence;
                return Err(WireError::Sequence { wanted: 0, found }.into());
            }
        }
        self.changed.notify_all();
        Ok(())
    }
}
