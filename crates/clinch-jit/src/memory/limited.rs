//! A memory manager that hands out no more than so many bytes of another one's.

use super::{Allocation, MemoryManager, OnAllocated, Request};
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
    used: AtomicU64,
}

impl Limited {
    /// At most `limit` bytes, in whole pages of 4 KiB, of what `inner` hands out.
    pub fn new(inner: Arc<dyn MemoryManager>, limit: u64) -> Self {
        Self {
            inner,
            limit,
            used: AtomicU64::new(0),
        }
    }

    fn give_back(&self, ranges: &[(u64, u64)]) {
        let sizes = ranges.iter().map(|(_, size)| size.next_multiple_of(PAGE));
        let size: u64 = sizes.sum();
        // Cannot fail: the closure always answers.
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                Some(used.saturating_sub(size))
            });
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
        match self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        {
            Ok(_) => self.inner.allocate(request, then),
            Err(used) => then(Err(MemoryError::SlabFull {
                want: used.saturating_add(want),
                have: self.limit,
            })),
        }
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

#[cfg(test)]
mod tests {
    use super::Limited;
    use crate::error::MemoryError;
    use crate::memory::{MemoryManager, Request, Slab};
    use clinch_graph::Lifetime;
    use clinch_link::layout::{Plan, Segment, SegmentKind};
    use std::sync::{Arc, Mutex};

    fn allocate(memory: &Limited, size: u64) -> Result<(), MemoryError> {
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
        let answer: Arc<Mutex<Option<Result<(), MemoryError>>>> = Arc::default();
        let there = Arc::clone(&answer);
        let request = Request {
            plan: &plan,
            low: false,
        };
        memory.allocate(
            request,
            Box::new(move |allocated| {
                *there.lock().expect("nobody panicked") = Some(allocated.map(drop));
            }),
        );
        let answer = answer.lock().expect("nobody panicked").take();
        answer.expect("the slab answers at once")
    }

    #[test]
    fn the_limit_is_in_whole_pages() {
        let slab = Slab::new(0x1000_0000, 1 << 20, 4096);
        let memory = Limited::new(Arc::new(slab), 3 * 4096);
        assert_eq!(allocate(&memory, 1), Ok(()));
        assert_eq!(allocate(&memory, 4097), Ok(()));
        let full = MemoryError::SlabFull {
            want: 4 * 4096,
            have: 3 * 4096,
        };
        assert_eq!(allocate(&memory, 1), Err(full));
        assert_eq!(allocate(&memory, 0), Ok(()));
    }
}
