//! Memory in this process: one reservation per dylib, placed so that its code reaches the
//! process's shared objects (or, for code that writes 32-bit addresses, in low memory). Pages are
//! never writable and executable at once; each segment's protection changes once when it is
//! filled. Segments of one kind of protection lie side by side over many allocations, so that
//! the kernel keeps few mappings.
//!
//! A manager that maps twice ([`InProcess::double_mapped`]) never makes writable pages executable:
//! what will not be writable is a memory file for each segment, filled through a view elsewhere,
//! which goes before the file is put in its place. What stays writable, or is written to by actions,
//! has one view: it never becomes executable, and a forked child must have its own.

use super::room::Room;
use super::{
    Action, Allocation, DebugImage, InFlight, MemoryManager, OnAllocated, OnFinalized, Request,
    is_of_code, is_sealed_late, protection_of,
};
use crate::error::MemoryError;
use clinch_executor::own::{self, Arguments, FileDraft, REACH, Reservation};
use clinch_executor::wire::{self, Protection, Step};
use clinch_graph::index::int::usize_of_u64;
use clinch_graph::index::map::Map;
use clinch_link::layout::{Plan, SegmentKind};
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
const PAGE: u64 = 4096;

/// A manager for one dylib in this process.
#[derive(Debug, Default)]
pub struct InProcess {
    windows: Arc<Mutex<Windows>>,
    views: Views,
}

/// How often what is linked is mapped while it is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Views {
    /// Once, where it will be used.
    #[default]
    One,
    /// What will not be writable: where it is written, and then where it is used.
    Two,
}

#[derive(Debug, Default)]
struct Windows {
    near: Option<Window>,
    low: Option<Window>,
    /// What takes back what was done for each allocation, in the order of what it takes back.
    undo: Map<u64, Vec<wire::Action>>,
    n_allocations: u64,
}

/// One reservation and what of it is used.
#[derive(Debug)]
struct Window {
    reservation: Reservation,
    room: Room,
}

impl InProcess {
    /// A manager without any reservation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for systems on which pages that were writable may not become executable, and for
    /// programs that shall have no writable view of code: code and constants are written elsewhere,
    /// in a memory file, and mapped once, when they are complete and the file is sealed.
    ///
    /// Each link costs a mapping for its code and one for each kind of constants. Where the system
    /// has no memory files, or does not run code from them, links end in an error.
    pub fn double_mapped() -> Self {
        Self {
            views: Views::Two,
            ..Self::default()
        }
    }
}

impl MemoryManager for InProcess {
    fn window(&self, low: bool) -> Option<(u64, u64)> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.get(low).ok()?;
        Some(window.room.range())
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
        let undo = self.lock().undo.remove(&allocation.number);
        let undone = take_back(undo.unwrap_or_default());
        undone.and(self.lock().release_all(&allocation.ranges))
    }

    fn withdraw(&self, allocation: &mut Allocation, code: &[u64]) -> Result<(), MemoryError> {
        let undo = match self.lock().undo.get_mut(&allocation.number) {
            Some(undo) => undo.extract_if(.., |action| is_of_code(action)).collect(),
            None => Vec::new(),
        };
        let ranges = allocation.take(code);
        take_back(undo).and(self.lock().release_all(&ranges))
    }
}

/// Takes back what was done, last to first.
fn take_back(undo: Vec<wire::Action>) -> Result<(), MemoryError> {
    let mut result = Ok(());
    for action in undo.iter().rev() {
        // SAFETY: what it takes back was done when the memory was finalized, and is taken back
        // once.
        let undone = unsafe { own::perform(action, &Arguments::default()) };
        result = result.and(undone);
    }
    Ok(result?)
}

/// Does an action; answers what takes it back.
fn perform(action: Action) -> Result<Option<wire::Action>, MemoryError> {
    match action {
        Action::Do(Step { action, undo }) => {
            // SAFETY: a link says what it placed where, and what it made is done with it once.
            unsafe { own::perform(&action, &Arguments::default())? };
            Ok(undo)
        }
        Action::RegisterImage(DebugImage { bytes, blank }) => {
            let address = own::register_image(bytes, blank);
            Ok(Some(wire::Action::DeregisterImage { address }))
        }
    }
}

impl InProcess {
    fn lock(&self) -> std::sync::MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, request: Request<'_>) -> Result<Vec<MappedSegment>, MemoryError> {
        let mut windows = self.lock();
        let window = windows.get(request.low)?;
        let mut segments = Vec::with_capacity(request.plan.segments.len());
        match window.place(request.plan, self.views, &mut segments) {
            Ok(()) => Ok(segments),
            Err(error) => {
                // The first error is the one to report.
                let _ = windows.release_all(&ranges_of(&segments));
                Err(error)
            }
        }
    }
}

impl Window {
    /// Finds places for segments and lets them be written to. When that fails, the places that were
    /// found are to be given back.
    fn place(
        &mut self,
        plan: &Plan,
        views: Views,
        placed: &mut Vec<MappedSegment>,
    ) -> Result<(), MemoryError> {
        for segment in &plan.segments {
            let kind = segment.kind;
            let size = segment.size.max(1).next_multiple_of(PAGE);
            let base = self.room.take(kind, size, segment.align.max(PAGE))?;
            let mut mapped = MappedSegment {
                kind,
                base,
                size,
                used: segment.size,
                draft: None,
            };
            let made = if views == Views::Two && is_written_elsewhere(kind) {
                let draft = FileDraft::new(size, segment.content_size);
                draft.map(|draft| mapped.draft = Some(draft))
            } else {
                let protection = Protection::ReadWrite;
                self.reservation.protect(base, size, protection)
            };
            placed.push(mapped);
            made?;
        }
        Ok(())
    }
}

/// Whether nothing writes to a kind of segment where it is used.
fn is_written_elsewhere(kind: SegmentKind) -> bool {
    protection_of(kind) != Protection::ReadWrite && !is_sealed_late(kind)
}

impl Windows {
    fn get(&mut self, low: bool) -> Result<&mut Window, MemoryError> {
        let slot = if low { &mut self.low } else { &mut self.near };
        if slot.is_none() {
            let reservation = if low { reserve_low() } else { reserve_near() }?;
            *slot = Some(Window {
                room: Room::new(reservation.base(), reservation.size()),
                reservation,
            });
        }
        slot.as_mut().ok_or(MemoryError::NoSpace { want: WINDOW })
    }

    fn holder(&mut self, base: u64) -> Option<&mut Window> {
        let windows = [&mut self.near, &mut self.low].into_iter().flatten();
        let mut windows = windows.filter(|window| window.room.contains(base));
        windows.next()
    }

    /// Gives all ranges back, also when that fails for some.
    fn release_all(&mut self, ranges: &[(u64, u64)]) -> Result<(), MemoryError> {
        let mut result = Ok(());
        for &(base, size) in ranges {
            let Some(window) = self.holder(base) else {
                continue;
            };
            own::forget_within(base, base + size);
            match window.reservation.protect(base, size, Protection::None) {
                Ok(()) => window.room.give_back(base, size),
                Err(refusal) => result = result.and(Err(refusal)),
            }
        }
        Ok(result?)
    }
}

impl Drop for Windows {
    /// What the process was told of is forgotten before its memory goes.
    fn drop(&mut self) {
        let mut all: Vec<(u64, Vec<wire::Action>)> = self.undo.drain().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        for (_, undo) in all.into_iter().rev() {
            // Nobody is left to hear of an error.
            let _ = take_back(undo);
        }
        for window in [&self.near, &self.low].into_iter().flatten() {
            let (start, end) = window.room.range();
            own::forget_within(start, end);
        }
    }
}

struct MappedSegment {
    kind: SegmentKind,
    base: u64,
    size: u64,
    used: u64,
    /// Where it is written, until it is in its place.
    draft: Option<FileDraft>,
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
        let segment = &mut self.segments[segment];
        match &mut segment.draft {
            Some(draft) => &mut draft.bytes()[..usize_of_u64(segment.used)],
            // SAFETY: the pages were made writable for this value, are zero or filled, and belong to
            // it alone, which is borrowed for as long as the slice lives.
            None => unsafe { own::bytes(segment.base, segment.used) },
        }
    }

    fn finalize(mut self: Box<Self>, actions: Vec<Action>, then: OnFinalized) {
        let mut undo = Vec::with_capacity(actions.len());
        if let Err(error) = self.protect(actions, &mut undo) {
            // The first error is the one to report.
            let _ = take_back(undo);
            return then(Err(error));
        }
        self.done = true;
        let ranges = ranges_of(&self.segments);
        let number = {
            let windows = &mut *self.lock();
            windows.n_allocations += 1;
            let number = windows.n_allocations;
            windows.undo.insert(number, undo);
            number
        };
        then(Ok(Allocation { ranges, number }));
    }

    fn abandon(self: Box<Self>) {}
}

fn ranges_of(segments: &[MappedSegment]) -> Vec<(u64, u64)> {
    let range = |segment: &MappedSegment| (segment.base, segment.size);
    segments.iter().map(range).collect()
}

impl InFlightMemory {
    fn lock(&self) -> std::sync::MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn protect(
        &mut self,
        actions: Vec<Action>,
        undo: &mut Vec<wire::Action>,
    ) -> Result<(), MemoryError> {
        self.seal(|kind| !is_sealed_late(kind))?;
        for action in actions {
            undo.extend(perform(action)?);
        }
        self.seal(is_sealed_late)
    }

    fn seal(&mut self, is_wanted: impl Fn(SegmentKind) -> bool) -> Result<(), MemoryError> {
        let windows = &self.windows;
        for segment in &mut self.segments {
            let to = protection_of(segment.kind);
            if !is_wanted(segment.kind) || to == Protection::ReadWrite {
                continue;
            }
            let file = segment.draft.take().map(FileDraft::seal).transpose()?;
            let mut windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(window) = windows.holder(segment.base) else {
                continue;
            };
            let (base, size) = (segment.base, segment.size);
            match file {
                Some(file) => window.reservation.map_file(base, size, to, &file)?,
                None => window.reservation.protect(base, size, to)?,
            }
        }
        Ok(())
    }
}

impl Drop for InFlightMemory {
    fn drop(&mut self) {
        if !self.done {
            // Nobody is left to hear of an error.
            let _ = self.lock().release_all(&ranges_of(&self.segments));
        }
    }
}

/// Reserves address space below 2 GiB.
fn reserve_low() -> Result<Reservation, MemoryError> {
    LOW.into_iter()
        .find_map(|(base, size)| Reservation::at(base, size))
        .ok_or(MemoryError::NoLowSpace { want: SMALL_WINDOW })
}

/// Reserves address space in reach of the shared objects of the process, as much as there is of
/// it; else anywhere.
fn reserve_near() -> Result<Reservation, MemoryError> {
    let anchor = own::anchor();
    let is_near =
        |base: u64, size: u64| base.abs_diff(anchor).max((base + size).abs_diff(anchor)) < REACH;
    let anywhere =
        Reservation::anywhere(WINDOW, PAGE).ok_or(MemoryError::NoSpace { want: WINDOW })?;
    if is_near(anywhere.base(), WINDOW) {
        return Ok(anywhere);
    }
    let mut size = WINDOW;
    while size >= SMALL_WINDOW {
        for step in 0..(1 << 31) / SMALL_WINDOW {
            let base = (anchor & !0xf_ffff).saturating_sub(size + step * SMALL_WINDOW);
            if is_near(base, size)
                && let Some(near) = Reservation::at(base, size)
            {
                return Ok(near);
            }
        }
        size /= 2;
    }
    Ok(anywhere)
}

#[cfg(test)]
mod tests {
    use super::super::room::CHUNK;
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
                number: 0,
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
