//! What an executor can be asked for. Each method waits for the answer; [`Client::send`] is for
//! those who do not want to wait.

use super::Client;
use crate::error::Error;
use crate::threads::lock;
use crate::wire::{
    Action, Found, MAX_PAYLOAD, Piece, Place, Protection, Refusal, Reply, Segment, SharedSegment,
    Step, ThreadLocal, ToExecutor,
};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How many bytes of content go into one message, so that what else is in it fits as well.
const CONTENT: usize = MAX_PAYLOAD - 4096;
/// What a name costs at most in its question or answer.
const NAME: usize = 24;

impl Client {
    /// Reserves address space.
    ///
    /// # Errors
    /// There is none, or the connection has ended.
    pub fn reserve(&self, size: u64, align: u64, place: Place) -> Result<u64, Error> {
        match self.ask(&ToExecutor::Reserve { size, align, place })? {
            Reply::Address(address) => Ok(address),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    /// Gives a whole reservation back, in which no allocation is left.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn release(&self, address: u64) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Release { address })
    }

    /// Writes bytes into writable pages.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_pieces(&[Piece { address, bytes }])
    }

    /// Writes pieces into writable pages, in order, in as few messages as they fit into, without
    /// waiting in between.
    ///
    /// # Errors
    /// The executor refuses (other pieces may be written), or the connection has ended.
    pub fn write_pieces(&self, pieces: &[Piece<'_>]) -> Result<(), Error> {
        let batch = Batch::new();
        self.send_pieces(pieces, &batch);
        batch.wait()
    }

    fn send_pieces(&self, pieces: &[Piece<'_>], batch: &Arc<Batch>) {
        let mut part: Vec<Piece<'_>> = Vec::new();
        let mut size = 0;
        for piece in pieces {
            let mut address = piece.address;
            for bytes in piece.bytes.chunks(CONTENT) {
                if size + bytes.len() + NAME > CONTENT + NAME {
                    let pieces = std::mem::take(&mut part);
                    batch.send(self, &ToExecutor::Write { pieces });
                    size = 0;
                }
                part.push(Piece { address, bytes });
                size += bytes.len() + NAME;
                address = address.wrapping_add(u64_of(bytes.len()));
            }
        }
        if !part.is_empty() {
            batch.send(self, &ToExecutor::Write { pieces: part });
        }
    }

    /// Writes zeros into writable pages.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn zero(&self, address: u64, size: u64) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Zero { address, size })
    }

    /// Changes what pages allow.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn protect(&self, address: u64, size: u64, protection: Protection) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Protect {
            address,
            size,
            protection,
        })
    }

    /// Makes segments one allocation, and does actions. Contents of any size: what does not fit
    /// into one message is written before.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn finalize(&self, segments: &[Segment<'_>], steps: Vec<Step>) -> Result<u64, Error> {
        let total = segments
            .iter()
            .map(|segment| segment.content.len() + 2 * NAME)
            .sum::<usize>();
        let mut segments = segments.to_vec();
        if total > CONTENT / 2 {
            self.fill(&segments)?;
            for segment in &mut segments {
                segment.content = &[];
            }
        }
        match self.ask(&ToExecutor::Finalize { segments, steps })? {
            Reply::Allocation(allocation) => Ok(allocation),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    /// Makes segments one allocation whose contents are in shared memory
    /// ([`Client::shared_memory`]), and does actions.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn finalize_shared(
        &self,
        segments: Vec<SharedSegment>,
        steps: Vec<Step>,
    ) -> Result<u64, Error> {
        match self.ask(&ToExecutor::FinalizeShared { segments, steps })? {
            Reply::Allocation(allocation) => Ok(allocation),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    /// Makes the pages of segments writable and fills them; when it fails, they are given up.
    fn fill(&self, segments: &[Segment<'_>]) -> Result<(), Error> {
        let batch = Batch::new();
        let change = |segment: &Segment<'_>, protection| ToExecutor::Protect {
            address: segment.address,
            size: segment.size,
            protection,
        };
        let mut pieces = Vec::with_capacity(segments.len());
        for segment in segments {
            if u64_of(segment.content.len()) > segment.size {
                return Err(Refusal::TooLarge(u64_of(segment.content.len())).into());
            }
            batch.send(self, &change(segment, Protection::ReadWrite));
            pieces.push(Piece {
                address: segment.address,
                bytes: segment.content,
            });
        }
        self.send_pieces(&pieces, &batch);
        let filled = batch.wait();
        if filled.as_ref().is_err_and(Error::is_refusal) {
            let batch = Batch::new();
            for segment in segments {
                batch.send(self, &change(segment, Protection::None));
            }
            // Those that are refused belong to others. The first error is the one to report.
            let _ = batch.wait();
        }
        filled
    }

    /// Undoes allocations, last to first. All of it is tried; the error is the first one.
    ///
    /// # Errors
    /// An undo action failed, or the connection has ended.
    pub fn deallocate(&self, allocations: &[u64]) -> Result<(), Error> {
        let parts = allocations.rchunks(CONTENT / 8);
        let mut result = Ok(());
        for part in parts {
            let allocations = part.to_vec();
            result = result.and(self.ask_done(&ToExecutor::Deallocate { allocations }));
        }
        result
    }

    /// Takes pages out of an allocation, after some of its undo actions (see
    /// [`ToExecutor::Withdraw`]).
    ///
    /// # Errors
    /// An undo action failed, or the connection has ended.
    pub fn withdraw(
        &self,
        allocation: u64,
        ranges: &[(u64, u64)],
        undo: Vec<Action>,
    ) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Withdraw {
            allocation,
            ranges: ranges.to_vec(),
            undo,
        })
    }

    /// Does actions in order, until one fails.
    ///
    /// # Errors
    /// An action failed, or the connection has ended.
    pub fn perform(&self, actions: Vec<Action>) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Perform { actions })
    }

    /// Reads from readable pages.
    ///
    /// # Errors
    /// The executor refuses, or the connection has ended.
    pub fn read(&self, address: u64, size: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while u64_of(bytes.len()) < size {
            let wanted = (size - u64_of(bytes.len())).min(u64_of(CONTENT));
            let part = self.ask(&ToExecutor::Read {
                address: address.wrapping_add(u64_of(bytes.len())),
                size: u32::try_from(wanted).unwrap_or(u32::MAX),
            })?;
            match part {
                Reply::Bytes(part) if part.len() == usize_of_u64(wanted) => bytes.extend(part),
                other => return Err(self.shared.end_for_answer(&other)),
            }
        }
        Ok(bytes)
    }

    /// Looks names up in a library and what it needs, or in everything the process has loaded.
    /// Answers what was found of each, in order.
    ///
    /// # Errors
    /// No such library, or the connection has ended.
    pub fn look_up(
        &self,
        library: Option<u32>,
        names: &[&[u8]],
    ) -> Result<Vec<Option<Found>>, Error> {
        let mut all = Vec::with_capacity(names.len());
        let mut rest = names;
        while !rest.is_empty() {
            let mut size = 0;
            let n = rest
                .iter()
                .take_while(|name| {
                    size += name.len() + NAME;
                    size <= CONTENT
                })
                .count()
                .max(1);
            let (part, behind) = rest.split_at(n);
            rest = behind;
            let names = part.to_vec();
            match self.ask(&ToExecutor::LookUp { library, names })? {
                Reply::Found(found) if found.len() == n => all.extend(found),
                other => return Err(self.shared.end_for_answer(&other)),
            }
        }
        Ok(all)
    }

    /// The offsets of libraries' thread-local variables from the thread pointer, in order; `None`
    /// for those that no library defines.
    ///
    /// # Errors
    /// What the dynamic linker says, or the connection has ended.
    pub fn look_up_thread_local(&self, names: &[&[u8]]) -> Result<Vec<Option<i64>>, Error> {
        let names = names.to_vec();
        let n = names.len();
        match self.ask(&ToExecutor::LookUpThreadLocal { names })? {
            Reply::Offsets(offsets) if offsets.len() == n => Ok(offsets),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    /// Finds a place for a thread-local block, which belongs to the connection until an action
    /// releases it.
    ///
    /// # Errors
    /// There is none, or the connection has ended.
    pub fn reserve_thread_local(&self, size: u64, align: u64) -> Result<ThreadLocal, Error> {
        match self.ask(&ToExecutor::ReserveThreadLocal { size, align })? {
            Reply::ThreadLocal(block) => Ok(block),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    /// Opens a shared library by path or by the system's search. It is closed when the connection
    /// ends.
    ///
    /// # Errors
    /// What the dynamic linker says, or the connection has ended.
    pub fn open_library(&self, path: &[u8]) -> Result<u32, Error> {
        match self.ask(&ToExecutor::Open { path })? {
            Reply::Library(library) => Ok(library),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    /// Sets the arguments that initializers and `main` are given, the first of which is the
    /// program's name.
    ///
    /// # Errors
    /// A zero byte in an argument, or the connection has ended.
    pub fn set_arguments(&self, values: &[&[u8]]) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Arguments {
            values: values.to_vec(),
        })
    }

    /// Calls a `main`, in a thread of its own, and waits for what it returns, as long as the
    /// executor is alive. The arguments are those that were set.
    ///
    /// # Errors
    /// No code there, or the connection has ended: a program that exits ends the executor's
    /// process, and with it the connection ([`Error::Ended`]).
    pub fn run_main(&self, address: u64) -> Result<i32, Error> {
        self.ask_status(&ToExecutor::Main { address })
    }

    /// Calls a function without arguments, for nothing.
    ///
    /// # Errors
    /// No code there, or the connection has ended.
    pub fn run_void(&self, address: u64) -> Result<(), Error> {
        self.ask_done(&ToExecutor::Void { address })
    }

    /// Calls a function of an `int`.
    ///
    /// # Errors
    /// No code there, or the connection has ended.
    pub fn run_int(&self, address: u64, argument: i32) -> Result<i32, Error> {
        self.ask_status(&ToExecutor::Int { address, argument })
    }

    /// Calls a wrapper (see [`ToExecutor::Wrapper`]).
    ///
    /// # Errors
    /// No code there, or the connection has ended.
    pub fn call_wrapper(&self, address: u64, input: &[u8]) -> Result<Vec<u8>, Error> {
        match self.ask(&ToExecutor::Wrapper { address, input })? {
            Reply::Bytes(bytes) => Ok(bytes),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    fn ask_done(&self, request: &ToExecutor<'_>) -> Result<(), Error> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }

    fn ask_status(&self, request: &ToExecutor<'_>) -> Result<i32, Error> {
        match self.ask(request)? {
            Reply::Status(status) => Ok(status),
            other => Err(self.shared.end_for_answer(&other)),
        }
    }
}

/// Requests that are sent behind each other and waited for together.
#[derive(Default)]
struct Batch {
    state: Mutex<BatchState>,
    changed: Condvar,
}

#[derive(Default)]
struct BatchState {
    n_waiting: usize,
    error: Option<Error>,
}

impl Batch {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn send(self: &Arc<Self>, client: &Client, request: &ToExecutor<'_>) {
        lock(&self.state).n_waiting += 1;
        let (batch, asked) = (Arc::clone(self), client.clone());
        client.send(request, move |result| {
            let error = match result {
                Ok(Reply::Done) => None,
                Ok(other) => Some(asked.shared.end_for_answer(&other)),
                Err(error) => Some(error),
            };
            let mut state = lock(&batch.state);
            state.n_waiting -= 1;
            if state.error.is_none() {
                state.error = error;
            }
            if state.n_waiting == 0 {
                batch.changed.notify_one();
            }
        });
    }

    /// Waits for all; the error is the first one.
    fn wait(&self) -> Result<(), Error> {
        let mut state = lock(&self.state);
        while state.n_waiting > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.error.take().map_or(Ok(()), Err)
    }
}
