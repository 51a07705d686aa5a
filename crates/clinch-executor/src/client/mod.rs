//! The controller's side: asks an executor for things, from any thread.
//!
//! A request is sent by the thread that makes it. One thread reads what comes and goes on with
//! whoever waits for it; it also keeps the time, so that no request waits for longer than the
//! limits say. When the connection ends, all requests end with the same error at once.

mod reader;
mod request;
mod spawn;

use crate::error::Error;
use crate::frame::FrameWriter;
use crate::handshake;
use crate::limits::Limits;
use crate::secret::Secret;
use crate::stream::Stream;
use crate::system::descriptor::Wake;
use crate::system::process::Child;
use crate::system::shared::SharedMemory;
use crate::threads::{Threads, lock};
use crate::wire::handshake::Facts;
use crate::wire::{Reply, ToExecutor};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What linked code's calls are answered by: given a client to ask the executor with, the tag and
/// what the code gives. It runs in a thread of its own, so it may make requests and wait.
pub type DispatchHandler =
    Arc<dyn Fn(&Client, u64, &[u8]) -> Result<Vec<u8>, String> + Send + Sync>;
/// What is done with lines that the executor says.
pub type LogHandler = Arc<dyn Fn(&str) + Send + Sync>;

/// The stack of a thread that answers a call of linked code: it may link.
const STACK: usize = 8 << 20;

/// What to do when a request ends.
type Then = Box<dyn FnOnce(Result<Reply, Error>) + Send>;

/// How a controller behaves.
#[derive(Clone)]
pub struct ControllerOptions {
    /// How long to wait for what.
    pub limits: Limits,
    /// Whether every frame must be sealed by a keyed hash, so that nobody on the way can change
    /// it: for connections that others can reach. The executor may ask for it as well.
    pub sealed: bool,
    /// What answers linked code's calls; without it they fail.
    pub dispatch: Option<DispatchHandler>,
    /// What is done with lines that the executor says; without it they are lost.
    pub log: Option<LogHandler>,
    /// How many calls of linked code may wait for an answer at once. More end the connection.
    pub most_calls: usize,
    /// Whether contents go to an executor through memory that it shares with its controller, and
    /// not through the stream: for one that is started ([`Controller::spawn`]).
    pub shared_memory: bool,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            sealed: false,
            dispatch: None,
            log: None,
            most_calls: 256,
            shared_memory: false,
        }
    }
}

impl std::fmt::Debug for ControllerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerOptions")
            .field("limits", &self.limits)
            .field("sealed", &self.sealed)
            .field("dispatch", &self.dispatch.is_some())
            .field("log", &self.log.is_some())
            .field("most_calls", &self.most_calls)
            .field("shared_memory", &self.shared_memory)
            .finish()
    }
}

/// A connection to an executor, which ends when this is dropped. What can be asked are the methods
/// of [`Client`].
#[derive(Debug)]
pub struct Controller {
    client: Client,
    reader: Option<JoinHandle<()>>,
}

/// Asks an executor for things. Copies ask the same one, also when its [`Controller`] is gone:
/// then they are told so.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    stream: Stream,
    facts: Facts,
    options: ControllerOptions,
    heartbeat: Duration,
    /// Locked before `state`, where both are.
    outgoing: Mutex<Outgoing>,
    state: Mutex<State>,
    /// Wakes the reader.
    wake: Wake,
    /// Threads for linked code's calls.
    threads: Threads,
    child: Mutex<Option<Child>>,
    /// Memory that the executor has a descriptor of.
    memory: Option<Arc<SharedMemory>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Outgoing {
    frames: FrameWriter,
    /// The number of the last request.
    sequence: u64,
}

#[derive(Default)]
struct State {
    /// Requests that wait, by number.
    waiting: BTreeMap<u64, Waiting>,
    /// Why the connection has ended.
    ended: Option<Error>,
    /// When the reader looks at the time again.
    looks_at: Option<Instant>,
    /// The number of the executor's last dispatch.
    dispatched: u64,
    /// We said goodbye, and wait until then for the executor to say it as well.
    goodbye: Option<Instant>,
}

struct Waiting {
    /// What was asked, for messages.
    request: &'static str,
    /// When it is late.
    late: Option<Instant>,
    then: Then,
}

impl Controller {
    /// Connects to an executor at the other end of a stream.
    ///
    /// # Errors
    /// What goes wrong in the handshake.
    pub fn connect(stream: Stream, secret: &Secret) -> Result<Self, Error> {
        Self::connect_with(stream, secret, ControllerOptions::default())
    }

    /// As [`Controller::connect`], with options.
    ///
    /// # Errors
    /// What goes wrong in the handshake; memory cannot be shared with an executor that was not
    /// started here.
    pub fn connect_with(
        stream: Stream,
        secret: &Secret,
        options: ControllerOptions,
    ) -> Result<Self, Error> {
        if options.shared_memory {
            let what = "share memory with an executor that was not started here";
            return Err(Error::system(what, &ErrorKind::Unsupported.into()));
        }
        Self::open(stream, secret, options, None, None)
    }

    fn open(
        stream: Stream,
        secret: &Secret,
        options: ControllerOptions,
        child: Option<Child>,
        memory: Option<Arc<SharedMemory>>,
    ) -> Result<Self, Error> {
        let wake = Wake::new().map_err(|error| Error::system("make a descriptor", &error))?;
        let led = handshake::lead(stream.clone(), secret, options.sealed, &options.limits);
        let child = Mutex::new(child);
        let (opened, facts) =
            led.map_err(|error| reader::why_ended(error, &child, &options.limits))?;
        let shared = Arc::new(Shared {
            stream,
            facts,
            heartbeat: options.limits.heartbeat_for(opened.silence),
            outgoing: Mutex::new(Outgoing {
                frames: opened.writer,
                sequence: 0,
            }),
            state: Mutex::default(),
            wake,
            threads: Threads::new(options.most_calls, STACK),
            child,
            memory,
            options,
        });
        let client = Client { shared };
        let reading = client.clone();
        let reader = std::thread::Builder::new()
            .name("executor".to_owned())
            .spawn(move || reading.read_all(opened.reader))
            .map_err(|error| Error::system("start a thread", &error))?;
        Ok(Self {
            client,
            reader: Some(reader),
        })
    }

    /// A copy that asks the same executor.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Ends the connection in order: the executor undoes everything, and a child process ends by
    /// itself or, after the limit, by force. Dropping does the same.
    ///
    /// # Errors
    /// The connection ended otherwise before.
    pub fn disconnect(mut self) -> Result<(), Error> {
        self.close()
    }

    /// Ends a child process at once, whatever it is doing.
    pub fn kill(&self) {
        if let Some(child) = &mut *lock(&self.client.shared.child) {
            child.kill();
        }
    }

    /// The number of a child process.
    pub fn child_id(&self) -> Option<u32> {
        lock(&self.client.shared.child).as_ref().map(Child::id)
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(reader) = self.reader.take() else {
            return Ok(());
        };
        let shared = &self.client.shared;
        let until = Instant::now() + shared.options.limits.end * 2;
        shared.say_goodbye(until);
        // The reader ends the connection when the executor answers, ends or is late. A
        // continuation, which runs in that thread, may hold the last controller.
        if reader.thread().id() != std::thread::current().id() {
            let _ = reader.join();
        }
        if let Some(child) = &mut *lock(&shared.child) {
            child.wait(until);
            child.kill();
        }
        shared.threads.close(until);
        let ended = lock(&shared.state).ended.clone();
        match ended {
            None | Some(Error::ShutDown) => Ok(()),
            Some(error) => Err(error),
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // Who wants to know disconnects.
        let _ = self.close();
    }
}

impl Deref for Controller {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Client {
    /// What the executor is.
    pub fn facts(&self) -> &Facts {
        &self.shared.facts
    }

    /// Memory that the executor can map parts of, when it shares any
    /// ([`ControllerOptions::shared_memory`]).
    pub fn shared_memory(&self) -> Option<&Arc<SharedMemory>> {
        self.shared.memory.as_ref()
    }

    /// Why the connection has ended, when it has.
    pub fn ended(&self) -> Option<Error> {
        lock(&self.shared.state).ended.clone()
    }

    /// Sends a request and goes on with its answer, or with why there is none, later: in the
    /// thread that reads answers, which must not wait there for anything, or at once in this one.
    pub fn send(
        &self,
        request: &ToExecutor<'_>,
        then: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        let then: Then = Box::new(then);
        if let Err((then, error)) = self.shared.send(request, then) {
            then(Err(error));
        }
    }

    /// Sends a request and waits for its answer. A refusal is an error.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn ask(&self, request: &ToExecutor<'_>) -> Result<Reply, Error> {
        let slot: Arc<Slot> = Arc::default();
        let filled = Arc::clone(&slot);
        self.send(request, move |result| filled.fill(result));
        match slot.wait()? {
            Reply::Refused(refusal) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }
}

/// Where a thread waits for an answer.
#[derive(Default)]
struct Slot {
    result: Mutex<Option<Result<Reply, Error>>>,
    filled: Condvar,
}

impl Slot {
    fn fill(&self, result: Result<Reply, Error>) {
        *lock(&self.result) = Some(result);
        self.filled.notify_one();
    }

    fn wait(&self) -> Result<Reply, Error> {
        let mut result = lock(&self.result);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self
                .filled
                .wait(result)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
