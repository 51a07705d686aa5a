//! A slab: real working memory that pretends to lie at an address of the caller's choice. For
//! linking without running: tests, benches, looking at the result.

use super::{Action, Allocation, InFlight, MemoryManager, OnAllocated, OnFinalized, Request};
use crate::error::MemoryError;
use clinch_graph::index::int::usize_of_u64;
use clinch_graph::index::pages::zeroed;
use clinch_link::layout::align_to;
use std::sync::{Arc, Mutex, PoisonError};

/// Contents of finalized segments, by address.
pub type Contents = Vec<(u64, Vec<u8>)>;

/// A manager that only pretends.
#[derive(Clone, Debug)]
pub struct Slab {
    base: u64,
    size: u64,
    page: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    contents: Contents,
}

impl Slab {
    /// A slab of `size` bytes that pretends to lie at `base`, with pages of `page` bytes.
    pub fn new(base: u64, size: u64, page: u64) -> Self {
        let page = if page.is_power_of_two() { page } else { 4096 };
        Self {
            base,
            size,
            page,
            state: Arc::default(),
        }
    }

    /// What was linked so far: the segments' addresses and contents.
    pub fn take_contents(&self) -> Contents {
        std::mem::take(
            &mut self
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contents,
        )
    }
}

impl MemoryManager for Slab {
    fn window(&self, _low: bool) -> Option<(u64, u64)> {
        Some((self.base, self.base.saturating_add(self.size)))
    }

    fn allocate(&self, request: Request<'_>, then: OnAllocated) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut end = self.base.saturating_add(state.used);
        let mut segments = Vec::new();
        for segment in &request.plan.segments {
            let base = align_to(end, segment.align.max(self.page), 0);
            end = base.saturating_add(segment.size);
            segments.push((base, segment.size));
        }
        let room = self.base.saturating_add(self.size);
        if end > room {
            drop(state);
            let want = end - self.base;
            return then(Err(MemoryError::SlabFull {
                want,
                have: self.size,
            }));
        }
        state.used = end - self.base;
        drop(state);
        let segments = segments
            .into_iter()
            .map(|(base, size)| (base, zeroed(usize_of_u64(size))))
            .collect();
        then(Ok(Box::new(InFlightSlab {
            segments,
            state: Arc::clone(&self.state),
        })));
    }

    fn deallocate(&self, _allocation: Allocation) -> Result<(), MemoryError> {
        Ok(())
    }

    fn withdraw(&self, allocation: &mut Allocation, code: &[u64]) -> Result<(), MemoryError> {
        allocation.take(code);
        Ok(())
    }
}

struct InFlightSlab {
    segments: Contents,
    state: Arc<Mutex<State>>,
}

impl InFlight for InFlightSlab {
    fn bases(&self) -> Vec<u64> {
        self.segments.iter().map(|&(base, _)| base).collect()
    }

    fn working(&mut self, segment: usize) -> &mut [u8] {
        &mut self.segments[segment].1
    }

    /// Nothing runs in a slab, so actions are dropped.
    fn finalize(self: Box<Self>, _actions: Vec<Action>, then: OnFinalized) {
        let ranges = self
            .segments
            .iter()
            .map(|(base, bytes)| (*base, bytes.len() as u64))
            .collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.contents.extend(self.segments);
        drop(state);
        then(Ok(Allocation { ranges, number: 0 }));
    }

    fn abandon(self: Box<Self>) {}
}
