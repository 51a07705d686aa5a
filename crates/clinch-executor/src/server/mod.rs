//! The executor's side: serves one controller over one connection.
//!
//! One thread reads requests and carries out those that run no linked code; the others each have a
//! thread. What the connection did is kept in [`State`] and undone when it ends.

mod actions;
mod call;
mod start;

pub(crate) use call::dispatch;
pub use start::Endpoint;

use crate::error::Error;
use crate::frame::{FrameReader, FrameWriter, Incoming};
use crate::handshake::{self, Opened};
use crate::limits::Limits;
use crate::secret::Secret;
use crate::stream::Stream;
use crate::system::code::{self, Arguments, Callable};
use crate::system::library::{self, HeldLibrary};
use crate::system::memory::Memory;
use crate::system::registry::Registry;
use crate::system::shared::SharedFile;
use crate::system::tls::ThreadBlock;
use crate::system::{library_tls, pages};
use crate::threads::{Keep, Threads, lock};
use crate::wire::handshake::Facts;
use crate::wire::{
    MAX_PAYLOAD, Protection, Refusal, Reply, Step, ToController, ToExecutor, WireError,
};
use actions::{Allocation, Placed};
use clinch_graph::index::int::{u64_of, usize_of};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// An executor. Serving a controller means running whatever it sends: only the secret protects
/// this process.
#[derive(Clone, Debug)]
pub struct Executor {
    /// What a controller must know.
    pub secret: Secret,
    /// How long to wait for what.
    pub limits: Limits,
    /// Whether every frame must be sealed by a keyed hash, so that nobody on the way can change
    /// it: for connections that others can reach. The controller may ask for it as well.
    pub sealed: bool,
    /// How much address space a controller may reserve.
    pub most_reserved: u64,
    /// How many calls may run at once.
    pub most_calls: usize,
    /// The stack of a call.
    pub stack_size: usize,
    /// Whether the C library is to call this process by the first argument of the program that it
    /// runs, in messages: for a process that is there for nothing else.
    pub names_process: bool,
    /// Memory that the controller which started this process shares with it.
    pub shared_memory: Option<Arc<SharedFile>>,
}

impl Executor {
    /// An executor with the usual limits: 1 TiB of address space, 256 calls at once, stacks of
    /// 8 MiB.
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            limits: Limits::default(),
            sealed: false,
            most_reserved: 1 << 40,
            most_calls: 256,
            stack_size: 8 << 20,
            names_process: false,
            shared_memory: None,
        }
    }

    /// Serves one controller, until it says goodbye or the connection ends otherwise, and undoes
    /// everything that it did.
    ///
    /// # Errors
    /// Why the connection ended, unless by a goodbye. After [`Error::StillRunning`] linked code
    /// goes on running in the process, and what it may use was not undone.
    pub fn serve(&self, stream: Stream) -> Result<(), Error> {
        let context = call::new_context();
        let opened = self.open(stream.clone(), context)?;
        self.run(stream, opened, context)
    }

    /// The handshake.
    fn open(&self, stream: Stream, context: u64) -> Result<Opened, Error> {
        let page = pages::page_size();
        let page = u32::try_from(page).unwrap_or(u32::MAX);
        let facts = Facts {
            architecture: std::env::consts::ARCH.to_owned(),
            pointer_size: u8::try_from(size_of::<usize>()).unwrap_or(u8::MAX),
            big_endian: cfg!(target_endian = "big"),
            page_size: page,
            granularity: page,
            dispatch: code::dispatch_address(),
            context,
        };
        handshake::answer(stream, &self.secret, self.sealed, &self.limits, &facts)
    }

    /// Everything behind the handshake.
    fn run(&self, stream: Stream, opened: Opened, context: u64) -> Result<(), Error> {
        let connection = Arc::new(Connection {
            stream,
            outgoing: Mutex::new(Outgoing {
                frames: opened.writer,
                sequence: 0,
            }),
            state: Mutex::new(State::new(self.most_reserved)),
            changed: Condvar::new(),
            threads: Threads::new(self.most_calls, self.stack_size),
            names_process: self.names_process,
            shared: self.shared_memory.clone(),
            limits: self.limits,
            heartbeat: self.limits.heartbeat_for(opened.silence),
        });
        call::announce(context, &connection);
        let ended = connection.read_requests(opened.reader);
        if let Err(error) = &ended {
            // At once, since this peer has no claim to wait for.
            connection.say_goodbye(&error.to_string());
        }
        connection.end(ended.as_ref().err().cloned().unwrap_or(Error::ShutDown));
        let undone = self.undo(&connection);
        if ended.is_ok() {
            connection.say_goodbye("");
        }
        call::forget(context);
        undone.and(ended)
    }

    /// Waits for calls to end, then undoes what is left.
    fn undo(&self, connection: &Arc<Connection>) -> Result<(), Error> {
        let limit = self.limits.end;
        let middle = Instant::now() + limit / 2;
        if !connection.threads.close(middle) {
            // It may be the peer that does not take an answer.
            connection.stream.shut_down();
            if !connection.threads.close(middle + limit / 2) {
                return Err(Error::StillRunning(limit));
            }
        }
        // Undo actions run code, which may do anything, but answer.
        let threads = Threads::new(1, self.stack_size);
        let job = Arc::clone(connection);
        if lock(&connection.state).has_undo()
            && !threads.run(Keep::Once, move || job.deallocate_all())
        {
            connection.deallocate_all();
        }
        if !threads.close(Instant::now() + limit) {
            return Err(Error::StillRunning(limit));
        }
        let mut state = lock(&connection.state);
        // The reverse of the order in which they were opened.
        while let Some(library) = state.libraries.pop() {
            drop(state);
            drop(library);
            state = lock(&connection.state);
        }
        Ok(())
    }
}

/// One connection.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    /// Locked before `state`, where both are.
    outgoing: Mutex<Outgoing>,
    state: Mutex<State>,
    /// A dispatch was answered, or the connection has ended.
    changed: Condvar,
    threads: Threads,
    names_process: bool,
    shared: Option<Arc<SharedFile>>,
    limits: Limits,
    heartbeat: Duration,
}

#[derive(Debug)]
struct Outgoing {
    frames: FrameWriter,
    /// The number of the last dispatch.
    sequence: u64,
}

/// What a connection did and has not undone. Fields are dropped in order: what is registered
/// before the memory that it is in.
#[derive(Debug)]
struct State {
    registry: Registry,
    allocations: BTreeMap<u64, Allocation>,
    n_allocations: u64,
    /// Pages of allocations, also of those that are being made or undone: end by start.
    taken: BTreeMap<u64, u64>,
    libraries: Vec<Arc<HeldLibrary>>,
    /// The last are the current ones. A program may keep pointers to earlier ones.
    arguments: Vec<Arc<Arguments>>,
    /// Answers to dispatches that wait, when they have come.
    dispatches: BTreeMap<u64, Option<Result<Vec<u8>, String>>>,
    ended: Option<Error>,
    memory: Memory,
}

impl State {
    fn new(most_reserved: u64) -> Self {
        Self {
            registry: Registry::new(),
            allocations: BTreeMap::new(),
            n_allocations: 0,
            taken: BTreeMap::new(),
            libraries: Vec::new(),
            arguments: vec![Arc::default()],
            dispatches: BTreeMap::new(),
            ended: None,
            memory: Memory::new(most_reserved),
        }
    }

    fn arguments(&self) -> Arc<Arguments> {
        self.arguments.last().cloned().unwrap_or_default()
    }

    /// An address within a range that belongs to an allocation.
    fn taken_within(&self, start: u64, end: u64) -> Option<u64> {
        let (&first, &last) = self.taken.range(..end).next_back()?;
        (last > start && end > start).then_some(first.max(start))
    }
}

impl Connection {
    /// Reads and carries out requests until the controller says goodbye.
    fn read_requests(self: &Arc<Self>, mut reader: FrameReader) -> Result<(), Error> {
        let mut expected = 1;
        loop {
            if let Some(error) = &lock(&self.state).ended {
                return Err(error.clone());
            }
            let waiting_since = reader.waiting_since();
            let until = self.tick(waiting_since)?;
            let Incoming::Frame {
                kind,
                sequence,
                payload,
            } = reader.next(until, None)?
            else {
                self.limits.check_silence(waiting_since)?;
                continue;
            };
            let message = ToExecutor::decode(kind, payload)?;
            let wanted = match &message {
                ToExecutor::Alive | ToExecutor::Goodbye => 0,
                ToExecutor::Dispatched(answer) => {
                    let answer = answer.map(<[u8]>::to_vec).map_err(str::to_owned);
                    self.dispatched(sequence, answer)?;
                    continue;
                }
                _ => expected,
            };
            if sequence != wanted {
                let found = sequence;
                return Err(WireError::Sequence { wanted, found }.into());
            }
            match message {
                ToExecutor::Alive => {}
                ToExecutor::Goodbye => return Ok(()),
                request => {
                    expected += 1;
                    if let ControlFlow::Break(result) = self.carry_out(sequence, request) {
                        self.reply(sequence, result);
                    }
                }
            }
        }
    }

    /// Proves to the controller that we are alive; answers when to look again.
    fn tick(&self, waiting_since: Instant) -> Result<Instant, Error> {
        let now = Instant::now();
        let mut until = now + self.heartbeat;
        // Who holds it proves that we are alive.
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            if outgoing.frames.last + self.heartbeat <= now {
                let alive = ToController::Alive;
                outgoing
                    .frames
                    .write(alive.kind(), 0, |out| alive.encode(out))?;
            }
            until = outgoing.frames.last + self.heartbeat;
        }
        if let Some(silence) = self.limits.silence {
            until = until.min(waiting_since + silence);
        }
        Ok(until)
    }

    /// Carries a request out and breaks with the answer, or goes on and leaves it to a thread.
    fn carry_out(
        self: &Arc<Self>,
        sequence: u64,
        request: ToExecutor<'_>,
    ) -> ControlFlow<Result<Reply, Refusal>> {
        let done = |result: Result<(), Refusal>| ControlFlow::Break(result.map(|()| Reply::Done));
        let runs_code = request.runs_code();
        match request {
            ToExecutor::Reserve { size, align, place } => {
                let reserved = lock(&self.state).memory.reserve(size, align, place);
                ControlFlow::Break(reserved.map(Reply::Address))
            }
            ToExecutor::Release { address } => done(self.release(address)),
            ToExecutor::Write { pieces } => {
                let memory = &lock(&self.state).memory;
                let mut pieces = pieces.iter();
                done(pieces.try_for_each(|piece| memory.write(piece.address, piece.bytes)))
            }
            ToExecutor::Zero { address, size } => {
                done(lock(&self.state).memory.zero(address, size))
            }
            ToExecutor::Protect {
                address,
                size,
                protection,
            } => done(self.protect(address, size, protection)),
            ToExecutor::Read { address, size } => ControlFlow::Break(self.read(address, size)),
            ToExecutor::LookUp { library, names } => {
                ControlFlow::Break(self.look_up(library, &names))
            }
            ToExecutor::Arguments { values } => done(Arguments::new(&values).map(|arguments| {
                if self.names_process {
                    arguments.name_process();
                }
                lock(&self.state).arguments.push(Arc::new(arguments));
            })),
            ToExecutor::Finalize { segments, steps } => {
                let placed = self.place(&segments);
                self.finish_where(runs_code, sequence, placed, steps)
            }
            ToExecutor::FinalizeShared { segments, steps } => {
                let placed = self.place_shared(&segments);
                self.finish_where(runs_code, sequence, placed, steps)
            }
            ToExecutor::Deallocate { allocations } => {
                let runs_code = lock(&self.state).undo_runs_code(&allocations);
                self.run_where(runs_code, sequence, move |connection| {
                    connection.deallocate(&allocations).map(|()| Reply::Done)
                })
            }
            ToExecutor::Withdraw {
                allocation,
                ranges,
                undo,
            } => self.run_where(runs_code, sequence, move |connection| {
                let withdrawn = connection.withdraw(allocation, &ranges, &undo);
                withdrawn.map(|()| Reply::Done)
            }),
            ToExecutor::Perform { actions } => {
                self.run_where(runs_code, sequence, move |connection| {
                    connection.perform_all(&actions).map(|()| Reply::Done)
                })
            }
            // The dynamic linker may wait for linked code.
            ToExecutor::LookUpThreadLocal { names } => {
                let names: Vec<Vec<u8>> = names.into_iter().map(<[u8]>::to_vec).collect();
                self.call(Keep::Home, sequence, move |_| {
                    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                    let offsets = library_tls::offsets(&names);
                    offsets.map(Reply::Offsets).map_err(Refusal::ThreadLocal)
                })
            }
            ToExecutor::ReserveThreadLocal { size, align } => {
                self.call(Keep::Home, sequence, move |connection| {
                    let place = ThreadBlock::new(size, align)?;
                    let registry = &mut lock(&connection.state).registry;
                    Ok(Reply::ThreadLocal(registry.add_thread_local(place)))
                })
            }
            ToExecutor::Open { path } => {
                let path = path.to_vec();
                self.call(Keep::Home, sequence, move |connection| {
                    let library = HeldLibrary::open(&path)?;
                    let libraries = &mut lock(&connection.state).libraries;
                    libraries.push(Arc::new(library));
                    let number = u32::try_from(libraries.len()).unwrap_or(u32::MAX);
                    Ok(Reply::Library(number))
                })
            }
            ToExecutor::Main { address } => {
                self.call_code(Keep::Home, sequence, address, |connection, code| {
                    let arguments = lock(&connection.state).arguments();
                    Ok(Reply::Status(code.call_program(&arguments)))
                })
            }
            ToExecutor::Void { address } => {
                self.call_code(Keep::Again, sequence, address, |_, code| {
                    code.call_void();
                    Ok(Reply::Done)
                })
            }
            ToExecutor::Int { address, argument } => {
                self.call_code(Keep::Again, sequence, address, move |_, code| {
                    Ok(Reply::Status(code.call_int(argument)))
                })
            }
            ToExecutor::Wrapper { address, input } => {
                let input = input.to_vec();
                self.call_code(Keep::Again, sequence, address, move |_, code| {
                    code.call_wrapper(&input).map(Reply::Bytes)
                })
            }
            // Not requests: the caller does them.
            ToExecutor::Dispatched(_) | ToExecutor::Alive | ToExecutor::Goodbye => done(Ok(())),
        }
    }

    /// Calls code in a thread, if there is code.
    fn call_code(
        self: &Arc<Self>,
        keep: Keep,
        sequence: u64,
        address: u64,
        body: impl FnOnce(&Arc<Self>, Callable) -> Result<Reply, Refusal> + Send + 'static,
    ) -> ControlFlow<Result<Reply, Refusal>> {
        let code = Callable::new(&lock(&self.state).memory, address);
        match code {
            Err(refusal) => ControlFlow::Break(Err(refusal)),
            Ok(code) => self.call(keep, sequence, move |connection| body(connection, code)),
        }
    }

    /// Does something in the home thread when it runs code, else here.
    fn run_where(
        self: &Arc<Self>,
        runs_code: bool,
        sequence: u64,
        body: impl FnOnce(&Arc<Self>) -> Result<Reply, Refusal> + Send + 'static,
    ) -> ControlFlow<Result<Reply, Refusal>> {
        if runs_code {
            self.call(Keep::Home, sequence, body)
        } else {
            ControlFlow::Break(body(self))
        }
    }

    /// Finishes an allocation whose pages are filled, if they are.
    fn finish_where(
        self: &Arc<Self>,
        runs_code: bool,
        sequence: u64,
        placed: Result<Placed, Refusal>,
        steps: Vec<Step>,
    ) -> ControlFlow<Result<Reply, Refusal>> {
        match placed {
            Err(refusal) => ControlFlow::Break(Err(refusal)),
            Ok(placed) => self.run_where(runs_code, sequence, move |connection| {
                connection.finish(placed, steps).map(Reply::Allocation)
            }),
        }
    }

    fn release(&self, address: u64) -> Result<(), Refusal> {
        let state = &mut *lock(&self.state);
        let size = state.memory.reservation(address).unwrap_or(0);
        if let Some(taken) = state.taken_within(address, address.saturating_add(size)) {
            return Err(Refusal::InUse(taken));
        }
        state
            .registry
            .forget_within(address, address.saturating_add(size));
        state.memory.release(address)
    }

    fn protect(&self, address: u64, size: u64, protection: Protection) -> Result<(), Refusal> {
        let state = &mut *lock(&self.state);
        if protection == Protection::None {
            let (start, end) = state.memory.range(address, size)?;
            if let Some(taken) = state.taken_within(start, end) {
                return Err(Refusal::InUse(taken));
            }
            state.registry.forget_within(start, end);
        }
        state.memory.protect(address, size, protection)
    }

    fn read(&self, address: u64, size: u32) -> Result<Reply, Refusal> {
        // The bytes' number is in the message as well.
        if usize_of(size) > MAX_PAYLOAD - 4 {
            return Err(Refusal::TooLarge(size.into()));
        }
        let bytes = lock(&self.state).memory.read(address, size.into())?;
        Ok(Reply::Bytes(bytes))
    }

    fn look_up(&self, library: Option<u32>, names: &[&[u8]]) -> Result<Reply, Refusal> {
        let opened = match library {
            None => None,
            Some(number) => {
                let state = lock(&self.state);
                let index = usize_of(number).checked_sub(1);
                let found = index.and_then(|index| state.libraries.get(index));
                Some(Arc::clone(found.ok_or(Refusal::NoLibrary(number))?))
            }
        };
        let find = |name: &&[u8]| match &opened {
            Some(library) => library.find(name),
            None => library::find(name),
        };
        Ok(Reply::Found(names.iter().map(find).collect()))
    }

    /// Answers a request, if anybody waits for it.
    fn reply(&self, sequence: u64, result: Result<Reply, Refusal>) {
        if lock(&self.state).ended.is_some() {
            return;
        }
        let reply = result.unwrap_or_else(Reply::Refused);
        let sent = self.send(sequence, &ToController::Reply(reply));
        let sent = match sent {
            Err(Error::MessageSize(size)) => {
                let refusal = Reply::Refused(Refusal::TooLarge(u64_of(size)));
                self.send(sequence, &ToController::Reply(refusal))
            }
            sent => sent,
        };
        if let Err(error) = sent {
            self.end(error);
        }
    }

    /// Tells the controller what no answer can.
    fn log(&self, text: &str) {
        if let Err(error) = self.send(0, &ToController::Log { text }) {
            self.end(error);
        }
    }

    fn send(&self, sequence: u64, message: &ToController<'_>) -> Result<(), Error> {
        let frames = &mut lock(&self.outgoing).frames;
        frames.write(message.kind(), sequence, |out| message.encode(out))
    }

    /// Ends the connection for the first reason that there is: nobody waits any longer.
    fn end(&self, reason: Error) {
        let is_in_order = reason == Error::ShutDown;
        lock(&self.state).ended.get_or_insert(reason);
        self.changed.notify_all();
        if !is_in_order {
            self.stream.shut_down();
        }
    }

    /// The last message, if the controller takes it at once.
    fn say_goodbye(&self, reason: &str) {
        let message = ToController::Goodbye { reason };
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            // Nobody is left to hear of an error.
            let _ = outgoing.frames.write_until(
                message.kind(),
                0,
                |out| message.encode(out),
                Instant::now(),
            );
        }
        self.stream.shut_down();
    }
}
