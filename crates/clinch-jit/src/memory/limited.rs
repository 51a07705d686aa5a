//! A memory manager that hands out no more than so many bytes of another one's.

use super::{Action, Allocation, InFlight, MemoryManager, OnAllocated, OnFinalized, Request};
use crate::error::MemoryError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What segments begin and end at.
const PAGE: u64 = 4096;

/// A limit on what another manager hands out.
#[derive(Debug)]
pub struct Limited {
    inner: Arc<dyn MemoryManager>,
    limit: u64,
    used: Arc<AtomicU64>,
}

impl Limited {
    /// At most `limit` bytes, in whole pages of 4 KiB, of what `inner` hands out.
    pub fn new(inner: Arc<dyn MemoryManager>, limit: u64) -> Self {
        Self {
            inner,
            limit,
            used: Arc::default(),
        }
    }

    fn give_back(&self, ranges: &[(u64, u64)]) {
        let sizes = ranges.iter().map(|(_, size)| size.next_multiple_of(PAGE));
        self.used.fetch_sub(sizes.sum(), Ordering::Relaxed);
    }
}

impl MemoryManager for Limited {
    fn window(&self, low: bool) -> Option<(u64, u64)> {
        self.inner.window(low)
    }

    fn allocate(&self, request: Request<'_>, then: OnAllocated) {
        let sizes = request.plan.segments.iter();
        let want: u64 = sizes
            .map(|segment| segment.size.next_multiple_of(PAGE))
            .sum();
        let take = |used: u64| used.checked_add(want).filter(|&used| used <= self.limit);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if let Err(used) = taken {
            return then(Err(MemoryError::SlabFull {
                want: used.saturating_add(want),
                have: self.limit,
            }));
        }
        let used = Arc::clone(&self.used);
        let limited = move |allocated: Result<Box<dyn InFlight>, MemoryError>| match allocated {
            Ok(inner) => then(Ok(Box::new(LimitedInFlight { inner, used, want }))),
            Err(error) => {
                used.fetch_sub(want, Ordering::Relaxed);
                then(Err(error));
            }
        };
        self.inner.allocate(request, Box::new(limited));
    }

    fn deallocate(&self, allocation: Allocation) -> Result<(), MemoryError> {
        self.give_back(&allocation.ranges);
        self.inner.deallocate(allocation)
    }

    fn withdraw(&self, allocation: &mut Allocation, code: &[u64]) -> Result<(), MemoryError> {
        let is_code = |(start, _): &&(u64, u64)| code.contains(start);
        let gone: Vec<(u64, u64)> = allocation.ranges.iter().filter(is_code).copied().collect();
        self.give_back(&gone);
        self.inner.withdraw(allocation, code)
    }
}

/// Memory that is being filled, and what it counts for.
struct LimitedInFlight {
    inner: Box<dyn InFlight>,
    used: Arc<AtomicU64>,
    want: u64,
}

impl InFlight for LimitedInFlight {
    fn bases(&self) -> Vec<u64> {
        self.inner.bases()
    }

    fn working(&mut self, segment: usize) -> &mut [u8] {
        self.inner.working(segment)
    }

    fn finalize(self: Box<Self>, actions: Vec<Action>, then: OnFinalized) {
        let Self { inner, used, want } = *self;
        let limited = move |finalized: Result<Allocation, MemoryError>| {
            if finalized.is_err() {
                used.fetch_sub(want, Ordering::Relaxed);
            }
            then(finalized);
        };
        inner.finalize(actions, Box::new(limited));
    }

    fn abandon(self: Box<Self>) {
        self.used.fetch_sub(self.want, Ordering::Relaxed);
        self.inner.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::Limited;
    use crate::error::MemoryError;
    use crate::memory::{InFlight, MemoryManager, Request, Slab};
    use clinch_graph::Lifetime;
    use clinch_link::layout::{Plan, Segment, SegmentKind};
    use std::sync::{Arc, Mutex};

    fn allocate(memory: &Limited, size: u64) -> Result<Box<dyn InFlight>, MemoryError> {
        let segment = Segment {
            kind: SegmentKind::Data,
            lifetime: Lifetime::Standard,
            align: 16,
            content_size: size,
            size,
            blocks: Vec::new(),
        };
        let plan = Plan {
            segments: vec![segment],
        };
        let answer: Arc<Mutex<Option<Result<Box<dyn InFlight>, MemoryError>>>> = Arc::default();
        let there = Arc::clone(&answer);
        let request = Request {
            plan: &plan,
            low: false,
        };
        memory.allocate(
            request,
            Box::new(move |allocated| {
                *there.lock().expect("nobody panicked") = Some(allocated);
            }),
        );
        let answer = answer.lock().expect("nobody panicked").take();
        answer.expect("the slab answers at once")
    }

    fn is_full(memory: &Limited, size: u64) -> bool {
        match allocate(memory, size) {
            Ok(_) => panic!("there is room"),
            Err(error) => matches!(
                error,
                MemoryError::SlabFull {
                    want: 16_384,
                    have: 12_288
                }
            ),
        }
    }

    #[test]
    fn the_limit_is_in_whole_pages_and_what_is_given_back_counts_no_more() {
        let slab = Slab::new(0x1000_0000, 1 << 20, 4096);
        let memory = Limited::new(Arc::new(slab), 3 * 4096);
        assert!(allocate(&memory, 1).is_ok());
        let two = allocate(&memory, 4097).expect("two pages are left");
        assert!(is_full(&memory, 1));
        two.abandon();
        let two = allocate(&memory, 8192).expect("they are back");
        two.finalize(Vec::new(), Box::new(|finalized| assert!(finalized.is_ok())));
        assert!(is_full(&memory, 1));
    }
}
