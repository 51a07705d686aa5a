//! Memory managers: where linked segments live. Allocating, finalizing and abandoning each end
//! in a continuation, so that a manager may take its time (another process, another machine)
//! without a thread waiting.

pub mod in_process;
pub mod slab;

use crate::error::MemoryError;
use clinch_link::layout::Plan;

pub use in_process::InProcess;
pub use slab::Slab;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The segments.
    pub plan: &'a Plan,
    /// Whether code writes addresses that only low memory has.
    pub low: bool,
}

/// Something to do in the executor when code is executable and before constants are sealed.
pub type Action = Box<dyn FnOnce() -> Result<(), MemoryError> + Send>;

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

    /// Gives back memory that was finalized.
    ///
    /// # Errors
    /// What the system says.
    fn deallocate(&self, allocation: Allocation) -> Result<(), MemoryError>;
}

/// Memory that is being filled.
pub trait InFlight: Send {
    /// The address of each segment in the executor.
    fn bases(&self) -> Vec<u64>;

    /// The working memory of a segment, zero where nothing was written; as long as the segment.
    fn working(&mut self, segment: usize) -> &mut [u8];

    /// Brings the contents to the executor, makes code executable, runs the actions in order,
    /// seals constants.
    fn finalize(self: Box<Self>, actions: Vec<Action>, then: OnFinalized);

    /// Gives the memory back.
    fn abandon(self: Box<Self>);
}

/// Memory in use: the address ranges that were handed out, for the manager to take back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// Start and size of each range.
    pub ranges: Vec<(u64, u64)>,
}
