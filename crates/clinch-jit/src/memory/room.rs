//! Giving out the pages of a reservation: segments of one kind side by side over many allocations,
//! so that a system keeps few mappings.

use crate::error::MemoryError;
use clinch_link::layout::{SegmentKind, align_to};

/// Pages of one kind of protection are taken in chunks of this size, so that small allocations of
/// one kind lie together.
pub(super) const CHUNK: u64 = 1 << 20;

/// One reservation: address space without access, until segments take parts of it.
#[derive(Debug)]
pub(super) struct Room {
    start: u64,
    end: u64,
    /// Everything from here on was never used.
    fresh: u64,
    /// Free ranges by kind: the rest of a kind's chunk, and what was given back.
    free: Vec<(SegmentKind, u64, u64)>,
}

impl Room {
    /// A reservation of which nothing is used.
    pub(super) fn new(start: u64, size: u64) -> Self {
        Self {
            start,
            end: start + size,
            fresh: start,
            free: Vec::new(),
        }
    }

    /// Start and end.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.start, self.end)
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Takes pages for a kind of segment.
    pub(super) fn take(
        &mut self,
        kind: SegmentKind,
        size: u64,
        align: u64,
    ) -> Result<u64, MemoryError> {
        for index in 0..self.free.len() {
            let (of, start, end) = self.free[index];
            let base = align_to(start, align, 0);
            if of != kind || base.checked_add(size).is_none_or(|last| last > end) {
                continue;
            }
            self.free.remove(index);
            if base > start {
                self.free.push((kind, start, base));
            }
            if base + size < end {
                self.free.push((kind, base + size, end));
            }
            return Ok(base);
        }
        let base = align_to(self.fresh, align, 0);
        let full = MemoryError::NoSpace { want: size };
        let last = base
            .checked_add(size)
            .filter(|&last| last <= self.end)
            .ok_or(full)?;
        // A large segment is a chunk of its own.
        let chunk = if size < CHUNK {
            (base + CHUNK).min(self.end)
        } else {
            last
        };
        if base > self.fresh {
            self.free.push((kind, self.fresh, base));
        }
        if chunk > last {
            self.free.push((kind, last, chunk));
        }
        self.fresh = chunk;
        Ok(base)
    }

    /// Any kind may use what was given back.
    pub(super) fn give_back(&mut self, base: u64, size: u64) {
        let (mut start, mut end) = (base, base + size);
        let kind = SegmentKind::Data;
        while let Some(index) = self
            .free
            .iter()
            .position(|&(_, s, e)| e == start || s == end)
        {
            let (_, s, e) = self.free.swap_remove(index);
            (start, end) = (start.min(s), end.max(e));
        }
        if end == self.fresh {
            self.fresh = start;
        } else {
            self.free.push((kind, start, end));
        }
    }
}
