//! Memory managers: where linked segments live. Allocating, finalizing and abandoning each end
//! in a continuation, so that a manager may take its time (another process, another machine)
//! without a thread waiting.

#[expect(
    unsafe_code,
    reason = "does what links ask for, writes to what it maps"
)]
pub mod in_process;
pub mod limited;
pub mod remote;
mod room;
pub mod slab;

use crate::error::MemoryError;
use clinch_executor::wire::{self, Protection, Step};
use clinch_link::layout::{Plan, SegmentKind};

pub use in_process::InProcess;
pub use limited::Limited;
pub use remote::Remote;
pub use slab::Slab;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The segments, without their blocks.
    pub plan: &'a Plan,
    /// Whether code writes addresses that only low memory has.
    pub low: bool,
}

/// Something to do where the code is, when it is executable and before constants are sealed. What
/// takes it back is done when the memory is given back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// What executors know.
    Do(Step),
    /// Tells debuggers of an image until it is taken back.
    RegisterImage(DebugImage),
}

/// An image for debuggers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebugImage {
    /// The image.
    pub bytes: Vec<u8>,
    /// An image of nothing, by which debuggers are made to look again when the other goes.
    pub blank: Vec<u8>,
}

/// What pages of a kind of segment allow in the end. Code that wants to be written as well is not
/// given to: it gets to run.
pub(crate) fn protection_of(kind: SegmentKind) -> Protection {
    match kind {
        SegmentKind::Code | SegmentKind::WritableCode => Protection::ReadExecute,
        SegmentKind::Data => Protection::ReadWrite,
        SegmentKind::ReadOnly | SegmentKind::ThreadLocal | SegmentKind::ReadOnlyAfterRelocation => {
            Protection::Read
        }
    }
}

/// Whether what takes an action back is about code: it goes with it.
pub(crate) fn is_of_code(undo: &wire::Action) -> bool {
    matches!(
        undo,
        wire::Action::DeregisterFrames { .. } | wire::Action::DeregisterImage { .. }
    )
}

/// Whether a kind of segment stays writable until the actions are done.
pub(crate) fn is_sealed_late(kind: SegmentKind) -> bool {
    kind == SegmentKind::ReadOnlyAfterRelocation
}

/// What to go on with when memory is allocated.
pub type OnAllocated = Box<dyn FnOnce(Result<Box<dyn InFlight>, MemoryError>) + Send>;
/// What to go on with when memory is final.
pub type OnFinalized = Box<dyn FnOnce(Result<Allocation, MemoryError>) + Send>;

/// Places segments. One manager serves one dylib.
pub trait MemoryManager: Send + Sync + std::fmt::Debug {
    /// The addresses that everything the manager places will lie between, so that it can be told
    /// before allocation whether an external symbol is in reach. `None` when that is not known.
    fn window(&self, low: bool) -> Option<(u64, u64)>;

    /// Reserves memory for the segments of a plan.
    fn allocate(&self, request: Request<'_>, then: OnAllocated);

    /// Takes back, last to first, what was done when memory was finalized, and gives it back.
    ///
    /// # Errors
    /// The first of what the system says; all of it is tried.
    fn deallocate(&self, allocation: Allocation) -> Result<(), MemoryError>;

    /// Gives back those ranges of an allocation that begin at some addresses, which are its code,
    /// and has unwinders and debuggers forget it. The rest stays.
    ///
    /// # Errors
    /// As [`MemoryManager::deallocate`].
    fn withdraw(&self, allocation: &mut Allocation, code: &[u64]) -> Result<(), MemoryError>;
}

/// Memory that is being filled.
pub trait InFlight: Send {
    /// The address of each segment in the executor.
    fn bases(&self) -> Vec<u64>;

    /// The working memory of a segment, zero where nothing was written; as long as the segment.
    fn working(&mut self, segment: usize) -> &mut [u8];

    /// Brings the contents to the executor, makes code executable, runs the actions in order,
    /// seals constants. When something fails, what was done is taken back.
    fn finalize(self: Box<Self>, actions: Vec<Action>, then: OnFinalized);

    /// Gives the memory back.
    fn abandon(self: Box<Self>);
}

/// Memory in use: the address ranges that were handed out, for the manager to take back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// Start and size of each range.
    pub ranges: Vec<(u64, u64)>,
    /// What the manager knows it by.
    pub number: u64,
}

impl Allocation {
    /// Takes the ranges out that begin at some addresses.
    fn take(&mut self, starts: &[u64]) -> Vec<(u64, u64)> {
        let is_wanted = |(start, _): &mut (u64, u64)| starts.contains(start);
        self.ranges.extract_if(.., is_wanted).collect()
    }
}
