//! Memory in this process: one reservation per dylib, placed so that its code reaches the
//! process's shared objects (or, for code that writes 32-bit addresses, in low memory). Pages are
//! never writable and executable at once; each segment's protection changes once when it is
//! filled. Segments of one kind of protection lie side by side over many allocations, so that
//! the kernel keeps few mappings.

use super::{Action, Allocation, InFlight, MemoryManager, OnAllocated, OnFinalized, Request};
use crate::error::MemoryError;
use clinch_graph::Prot;
use clinch_graph::index::int::{u64_of, usize_of_u64};
use clinch_link::layout::{SegmentKind, align_to};
use std::sync::{Arc, Mutex, PoisonError};

/// Size of a reservation: everything in it is in reach of everything else.
const WINDOW: u64 = 1 << 30;
/// Smallest reservation that is tried when a process has many dylibs.
const SMALL_WINDOW: u64 = 1 << 27;
/// Where low reservations are tried, and of what size: code with 32-bit addresses needs its place
/// below 2 GiB. The first dylib gets most of that.
const LOW: [(u64, u64); 5] = [
    (0x1000_0000, WINDOW),
    (0x5000_0000, WINDOW / 2),
    (0x7000_0000, SMALL_WINDOW),
    (0x7800_0000, SMALL_WINDOW - (1 << 24)),
    (0x0800_0000, SMALL_WINDOW),
];
/// Pages of one kind of protection are taken from the window in chunks of this size, so that
/// small allocations of one kind lie together.
const CHUNK: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// A manager for one dylib in this process.
#[derive(Debug, Default)]
pub struct InProcess {
    windows: Arc<Mutex<Windows>>,
}

#[derive(Debug, Default)]
struct Windows {
    near: Option<Window>,
    low: Option<Window>,
}

/// One reservation: address space without access, until segments take parts of it.
#[derive(Debug)]
struct Window {
    base: u64,
    end: u64,
    /// Everything from here on was never used.
    fresh: u64,
    /// Free ranges by kind: the rest of a kind's chunk, and what was given back.
    free: Vec<(SegmentKind, u64, u64)>,
}

impl InProcess {
    /// A manager without any reservation yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryManager for InProcess {
    fn window(&self, low: bool) -> Option<(u64, u64)> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(low).ok()?;
        Some((window.base, window.end))
    }

    fn allocate(&self, request: Request<'_>, then: OnAllocated) {
        let allocated = self.reserve(request);
        then(allocated.map(|segments| {
            Box::new(InFlightMemory {
                segments,
                windows: Arc::clone(&self.windows),
                done: false,
            }) as Box<dyn InFlight>
        }));
    }

    fn deallocate(&self, allocation: Allocation) -> Result<(), MemoryError> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        for (base, size) in allocation.ranges {
            windows.release(base, size)?;
        }
        Ok(())
    }
}

impl InProcess {
    fn reserve(&self, request: Request<'_>) -> Result<Vec<MappedSegment>, MemoryError> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(request.low)?;
        let mut segments = Vec::new();
        for segment in &request.plan.segments {
            let size = segment.size.max(1).next_multiple_of(PAGE);
            let placed = window.take(segment.kind, size, segment.align.max(PAGE));
            let (base, kind) = (placed, segment.kind);
            let made = base.and_then(|base| {
                system::protect(base, size, Prot::RW)?;
                Ok(MappedSegment {
                    kind,
                    base,
                    size,
                    used: segment.size,
                })
            });
            match made {
                Ok(segment) => segments.push(segment),
                Err(error) => {
                    for segment in segments {
                        // The first error is the one to report.
                        let _ = windows.release(segment.base, segment.size);
                    }
                    return Err(error);
                }
            }
        }
        Ok(segments)
    }
}

impl Windows {
    fn get(&mut self, low: bool) -> Result<&mut Window, MemoryError> {
        let slot = if low { &mut self.low } else { &mut self.near };
        if slot.is_none() {
            let (base, size) = if low {
                system::reserve_low()?
            } else {
                system::reserve_near()?
            };
            *slot = Some(Window {
                base,
                end: base + size,
                fresh: base,
                free: Vec::new(),
            });
        }
        slot.as_mut().ok_or(MemoryError::NoSpace { want: WINDOW })
    }

    fn release(&mut self, base: u64, size: u64) -> Result<(), MemoryError> {
        let holder = [&mut self.near, &mut self.low]
            .into_iter()
            .flatten()
            .find(|window| (window.base..window.end).contains(&base));
        let Some(window) = holder else { return Ok(()) };
        system::discard(base, size)?;
        window.give_back(base, size);
        Ok(())
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        for window in [&self.near, &self.low].into_iter().flatten() {
            system::unmap(window.base, window.end - window.base);
        }
    }
}

impl Window {
    /// Takes pages for a kind of segment.
    fn take(&mut self, kind: SegmentKind, size: u64, align: u64) -> Result<u64, MemoryError> {
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
    fn give_back(&mut self, base: u64, size: u64) {
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

struct MappedSegment {
    kind: SegmentKind,
    base: u64,
    size: u64,
    used: u64,
}

struct InFlightMemory {
    segments: Vec<MappedSegment>,
    windows: Arc<Mutex<Windows>>,
    done: bool,
}

impl InFlight for InFlightMemory {
    fn bases(&self) -> Vec<u64> {
        self.segments.iter().map(|segment| segment.base).collect()
    }

    fn working(&mut self, segment: usize) -> &mut [u8] {
        let segment = &self.segments[segment];
        system::writable(segment.base, segment.used)
    }

    fn finalize(mut self: Box<Self>, actions: Vec<Action>, then: OnFinalized) {
        let result = self.protect(actions);
        if result.is_err() {
            return then(result.map(|()| Allocation::default()));
        }
        self.done = true;
        let ranges = self
            .segments
            .iter()
            .map(|segment| (segment.base, segment.size))
            .collect();
        then(Ok(Allocation { ranges }));
    }

    fn abandon(self: Box<Self>) {}
}

impl InFlightMemory {
    fn protect(&self, actions: Vec<Action>) -> Result<(), MemoryError> {
        let is_sealed_late = |kind| kind == SegmentKind::ReadOnlyAfterRelocation;
        for segment in &self.segments {
            // Code that wants to be written as well is not given to: it gets to run.
            let prot = match segment.kind {
                SegmentKind::WritableCode => Prot::RX,
                kind => kind.prot(),
            };
            if prot != Prot::RW && !is_sealed_late(segment.kind) {
                system::protect(segment.base, segment.size, prot)?;
            }
        }
        for action in actions {
            action()?;
        }
        for segment in self
            .segments
            .iter()
            .filter(|segment| is_sealed_late(segment.kind))
        {
            system::protect(segment.base, segment.size, Prot::R)?;
        }
        Ok(())
    }
}

impl Drop for InFlightMemory {
    fn drop(&mut self) {
        if !self.done {
            let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
            for segment in &self.segments {
                // Nobody is left to hear of an error.
                let _ = windows.release(segment.base, segment.size);
            }
        }
    }
}

/// The system calls.
#[expect(unsafe_code, reason = "maps and protects memory")]
mod system {
    use super::{LOW, MemoryError, Prot, SMALL_WINDOW, WINDOW, u64_of, usize_of_u64};
    use std::ffi::c_void;

    /// How far apart two places of which one reaches the other may be, with room to spare.
    const REACH: u64 = (1 << 31) - (1 << 24);

    fn pointer(address: u64) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(usize_of_u64(address))
    }

    fn last_error(what: &'static str) -> MemoryError {
        MemoryError::System {
            what,
            reason: std::io::Error::last_os_error().kind(),
        }
    }

    fn map(hint: u64, size: u64, flags: libc::c_int) -> Option<u64> {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping; `MAP_FIXED_NOREPLACE` at most, so nothing that exists
        // is replaced.
        let address = unsafe {
            libc::mmap(
                pointer(hint),
                usize_of_u64(size),
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        (address != libc::MAP_FAILED).then(|| u64_of(address.expose_provenance()))
    }

    /// Reserves address space below 2 GiB; answers its start and size.
    pub(super) fn reserve_low() -> Result<(u64, u64), MemoryError> {
        LOW.into_iter()
            .find(|&(base, size)| is_mapped_at(base, size))
            .ok_or(MemoryError::NoLowSpace { want: SMALL_WINDOW })
    }

    /// Reserves address space in reach of the shared objects of the process, as much as there is
    /// of it; else anywhere. Answers its start and size.
    pub(super) fn reserve_near() -> Result<(u64, u64), MemoryError> {
        let anchor = u64_of((libc::getpid as *const ()).expose_provenance());
        let is_near = |base: u64, size: u64| {
            base.abs_diff(anchor).max((base + size).abs_diff(anchor)) < REACH
        };
        let anywhere = map(0, WINDOW, 0).ok_or_else(|| last_error("reserve memory"))?;
        if is_near(anywhere, WINDOW) {
            return Ok((anywhere, WINDOW));
        }
        let mut size = WINDOW;
        while size >= SMALL_WINDOW {
            for step in 0..(1 << 31) / SMALL_WINDOW {
                let base = (anchor & !0xf_ffff).saturating_sub(size + step * SMALL_WINDOW);
                if is_near(base, size) && is_mapped_at(base, size) {
                    unmap(anywhere, WINDOW);
                    return Ok((base, size));
                }
            }
            size /= 2;
        }
        Ok((anywhere, WINDOW))
    }

    /// Reserves a range, if nothing else is there.
    fn is_mapped_at(base: u64, size: u64) -> bool {
        match map(base, size, libc::MAP_FIXED_NOREPLACE) {
            Some(found) if found == base => true,
            // A kernel that does not know the flag takes the address as it likes.
            Some(found) => {
                unmap(found, size);
                false
            }
            None => false,
        }
    }

    /// Changes what pages of a window allow.
    pub(super) fn protect(base: u64, size: u64, prot: Prot) -> Result<(), MemoryError> {
        let mut bits = 0;
        if prot.contains(Prot::READ) {
            bits |= libc::PROT_READ;
        }
        if prot.contains(Prot::WRITE) {
            bits |= libc::PROT_WRITE;
        }
        if prot.contains(Prot::EXEC) {
            bits |= libc::PROT_EXEC;
        }
        // SAFETY: the range lies in a window of ours, and no reference to it is alive: working
        // memory is borrowed from the allocation that calls this.
        let result = unsafe { libc::mprotect(pointer(base), usize_of_u64(size), bits) };
        if result == 0 {
            Ok(())
        } else {
            Err(last_error("change memory protection"))
        }
    }

    /// Gives pages back to the system and forbids access; the address space stays reserved.
    pub(super) fn discard(base: u64, size: u64) -> Result<(), MemoryError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: replaces pages of a window of ours that nobody uses any longer: the caller
        // gives back an allocation.
        let result = unsafe {
            libc::mmap(
                pointer(base),
                usize_of_u64(size),
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        if result == libc::MAP_FAILED {
            Err(last_error("give memory back"))
        } else {
            Ok(())
        }
    }

    /// Gives a reservation back.
    pub(super) fn unmap(base: u64, size: u64) {
        // SAFETY: the range is a reservation of ours; its owner is being dropped. Errors cannot
        // happen for a range that was mapped.
        unsafe { libc::munmap(pointer(base), usize_of_u64(size)) };
    }

    /// Working memory at an address of a window.
    pub(super) fn writable<'a>(base: u64, size: u64) -> &'a mut [u8] {
        // SAFETY: the range was made writable for the allocation that calls this, is zeroed or
        // filled, and belongs to that allocation alone, which is borrowed for as long as the
        // slice lives (`InFlight::working`).
        unsafe { std::slice::from_raw_parts_mut(pointer(base).cast(), usize_of_u64(size)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clinch_graph::Lifetime;
    use clinch_link::layout::{Plan, Segment};

    fn plan(kinds: &[(SegmentKind, u64, u64)]) -> Plan {
        let segments = kinds
            .iter()
            .map(|&(kind, size, align)| Segment {
                kind,
                lifetime: Lifetime::Standard,
                align,
                content_size: size,
                size,
                blocks: Vec::new(),
            })
            .collect();
        Plan { segments }
    }

    #[test]
    fn alignments_above_a_page_are_kept() {
        let memory = InProcess::new();
        let plan = plan(&[
            (SegmentKind::Data, 10, 65_536),
            (SegmentKind::Code, 10, 1 << 21),
        ]);
        for low in [false, true] {
            let segments = memory.reserve(Request { plan: &plan, low }).unwrap();
            assert_eq!(segments[0].base % 65_536, 0);
            assert_eq!(segments[1].base % (1 << 21), 0);
            assert!(!low || segments[1].base < 1 << 31);
        }
    }

    #[test]
    fn what_is_given_back_is_used_again() {
        let memory = InProcess::new();
        let plan = plan(&[(SegmentKind::Data, 3 * CHUNK, 16)]);
        let first = memory
            .reserve(Request {
                plan: &plan,
                low: false,
            })
            .unwrap();
        let (base, size) = (first[0].base, first[0].size);
        memory
            .deallocate(Allocation {
                ranges: vec![(base, size)],
            })
            .unwrap();
        let second = memory
            .reserve(Request {
                plan: &plan,
                low: false,
            })
            .unwrap();
        assert_eq!(second[0].base, base);
    }

    #[test]
    fn several_dylibs_have_low_and_near_windows() {
        let managers: Vec<InProcess> = (0..3).map(|_| InProcess::new()).collect();
        for manager in &managers {
            let (start, end) = manager.window(true).unwrap();
            assert!(start < end && end <= 1 << 31);
            assert!(manager.window(false).is_some());
        }
    }

    #[test]
    fn a_window_has_an_end() {
        let memory = InProcess::new();
        let plan = plan(&[(SegmentKind::Data, WINDOW + 1, 16)]);
        let error = memory
            .reserve(Request {
                plan: &plan,
                low: false,
            })
            .err();
        assert!(matches!(error, Some(MemoryError::NoSpace { .. })));
    }
}
