//! Memory in an executor: one reservation there per dylib, as in a process of our own, and working
//! memory here until a link is done. Then contents, protections and actions go there in one
//! request, or few when there is much of it; the executor keeps what takes the actions back.
//!
//! Where memory is shared with the executor, the working memory is a part of that, which the executor
//! maps: contents do not go through the connection. A part stays until its pages are given up.

use super::room::Room;
use super::{
    Action, Allocation, DebugImage, InFlight, MemoryManager, OnAllocated, OnFinalized, Request,
    is_of_code, is_sealed_late, protection_of,
};
use crate::error::MemoryError;
use clinch_executor::wire::{self, Place, Protection, Step, ToExecutor};
use clinch_executor::{Client, SharedPart};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use clinch_graph::index::map::Map;
use clinch_link::layout::SegmentKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sizes of reservations that are tried: everything in one is in reach of everything else.
const SIZES: [u64; 4] = [1 << 30, 1 << 29, 1 << 28, 1 << 27];

/// Processes have no memory from here on.
const HIGHEST: u64 = 1 << 62;

/// A manager for one dylib in an executor. What is left in it is given back when it is dropped.
/// Contents go there through memory that is shared, when the controller shares any
/// ([`ControllerOptions::shared_memory`](clinch_executor::ControllerOptions::shared_memory)).
#[derive(Clone, Debug)]
pub struct Remote {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    near: Option<Room>,
    low: Option<Room>,
    /// Of each allocation, what goes with its code.
    code: Map<u64, Vec<wire::Action>>,
    /// Shared memory in use, by the address at which it is mapped.
    parts: Map<u64, SharedPart>,
}

impl Remote {
    /// A manager without any reservation yet.
    pub fn new(client: Client) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                state: Mutex::default(),
            }),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self) -> u64 {
        u64::from(self.client.facts().page_size)
    }

    /// Does something with a reservation, which is made when it is wanted first.
    fn with_room<R>(
        &self,
        low: bool,
        then: impl FnOnce(&mut Room) -> Result<R, MemoryError>,
    ) -> Result<R, MemoryError> {
        let mut state = self.lock();
        let State {
            near, low: below, ..
        } = &mut *state;
        let slot = if low { below } else { near };
        let room = match slot {
            Some(room) => room,
            None => slot.insert(self.reserve(low)?),
        };
        then(room)
    }

    fn reserve(&self, low: bool) -> Result<Room, MemoryError> {
        let place = if low { Place::Low } else { Place::Near };
        let mut result = Err(MemoryError::NoLowSpace { want: SIZES[0] });
        for size in SIZES {
            match self.client.reserve(size, self.page(), place) {
                Ok(base) if base.is_multiple_of(self.page()) && base < HIGHEST => {
                    return Ok(Room::new(base, size));
                }
                // No memory is there.
                Ok(_) => return Err(MemoryError::NoSpace { want: size }),
                Err(error) => result = Err(MemoryError::from(error)),
            }
            if self.client.ended().is_some() {
                break;
            }
        }
        result
    }

    /// Lets ranges be used again, which allow nothing any more.
    fn give_back(&self, ranges: &[(u64, u64)]) {
        let mut state = self.lock();
        let State { near, low, .. } = &mut *state;
        for &(base, size) in ranges {
            let mut rooms = [&mut *near, &mut *low].into_iter().flatten();
            if let Some(room) = rooms.find(|room| room.contains(base)) {
                room.give_back(base, size);
            }
        }
        let parts = ranges.iter();
        let parts = parts.filter_map(|(base, _)| state.parts.remove(base));
        let parts: Vec<SharedPart> = parts.collect();
        drop(state);
        self.give_up(parts);
    }

    /// Gives shared memory back whose pages were given up. An executor that is gone may still be
    /// running what it has to undo: it keeps its memory to its end.
    fn give_up(&self, parts: Vec<SharedPart>) {
        if self.client.ended().is_some() {
            parts.into_iter().for_each(SharedPart::keep);
        }
    }

    /// Gives up what a link that failed may have left in pages.
    fn discard(&self, ranges: &[(u64, u64)]) {
        for &(base, size) in ranges {
            // Pages of others are refused, and so is everything by an executor that is gone.
            let _ = self.client.protect(base, size, Protection::None);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let mut allocations: Vec<u64> = state.code.keys().copied().collect();
        allocations.sort_unstable();
        // An executor that is gone has given everything back. What is refused goes when the
        // connection ends.
        if !allocations.is_empty() {
            let request = ToExecutor::Deallocate { allocations };
            let parts: Vec<SharedPart> = state.parts.drain().map(|(_, part)| part).collect();
            self.client.send(&request, move |answer| {
                if answer.is_err() {
                    // It may still be running what it has to undo.
                    parts.into_iter().for_each(SharedPart::keep);
                }
            });
        }
        for room in [&state.near, &state.low].into_iter().flatten() {
            let (address, _) = room.range();
            self.client.send(&ToExecutor::Release { address }, drop);
        }
    }
}

impl MemoryManager for Remote {
    fn window(&self, low: bool) -> Option<(u64, u64)> {
        self.shared.with_room(low, |room| Ok(room.range())).ok()
    }

    fn allocate(&self, request: Request<'_>, then: OnAllocated) {
        let mut memory = InFlightRemote {
            segments: Vec::with_capacity(request.plan.segments.len()),
            low: request.low,
            shared: Arc::clone(&self.shared),
            done: false,
        };
        for segment in &request.plan.segments {
            let (size, content) = (segment.size, segment.content_size);
            if let Err(error) = memory.add(segment.kind, size, content, segment.align) {
                return then(Err(error));
            }
        }
        then(Ok(Box::new(memory)));
    }

    fn deallocate(&self, allocation: Allocation) -> Result<(), MemoryError> {
        self.shared.lock().code.remove(&allocation.number);
        let done = self.shared.client.deallocate(&[allocation.number]);
        // All of it was tried: whatever an undo action said, the pages are given up.
        self.shared.give_back(&allocation.ranges);
        Ok(done?)
    }

    fn withdraw(&self, allocation: &mut Allocation, code: &[u64]) -> Result<(), MemoryError> {
        let ranges = allocation.take(code);
        let undo = match self.shared.lock().code.get_mut(&allocation.number) {
            Some(undo) => std::mem::take(undo),
            None => Vec::new(),
        };
        let client = &self.shared.client;
        let done = client.withdraw(allocation.number, &ranges, undo);
        self.shared.give_back(&ranges);
        Ok(done?)
    }
}

/// A segment in the making.
struct Segment {
    kind: SegmentKind,
    base: u64,
    /// Of its pages.
    size: u64,
    used: u64,
    working: Working,
}

/// Where the contents of a segment are until they are in the executor.
enum Working {
    Own(Vec<u8>),
    Shared(SharedPart),
}

struct InFlightRemote {
    segments: Vec<Segment>,
    low: bool,
    shared: Arc<Shared>,
    done: bool,
}

impl InFlight for InFlightRemote {
    fn bases(&self) -> Vec<u64> {
        self.segments.iter().map(|segment| segment.base).collect()
    }

    fn working(&mut self, segment: usize) -> &mut [u8] {
        self.segments[segment].bytes()
    }

    fn finalize(mut self: Box<Self>, actions: Vec<Action>, then: OnFinalized) {
        let result = self.send(actions);
        if result.is_err() {
            self.shared.discard(&self.ranges());
        }
        self.done = result.is_ok();
        drop(self);
        then(result);
    }

    fn abandon(self: Box<Self>) {}
}

impl InFlightRemote {
    /// Adds a segment of zeros, the first of which will be `content`.
    fn add(
        &mut self,
        kind: SegmentKind,
        used: u64,
        content: u64,
        align: u64,
    ) -> Result<(), MemoryError> {
        let page = self.shared.page();
        let full = MemoryError::NoSpace { want: used };
        let size = used.max(1).checked_next_multiple_of(page).ok_or(full)?;
        let take = |room: &mut Room| room.take(kind, size, align.max(page));
        let working = match self.shared.client.shared_memory() {
            None => Working::Own(vec![0; usize_of_u64(used)]),
            Some(memory) => Working::Shared(memory.take(size, content)?),
        };
        let base = self.shared.with_room(self.low, take)?;
        self.segments.push(Segment {
            kind,
            base,
            size,
            used,
            working,
        });
        Ok(())
    }

    fn ranges(&self) -> Vec<(u64, u64)> {
        let range = |segment: &Segment| (segment.base, segment.size);
        self.segments.iter().map(range).collect()
    }

    /// Has the executor make an allocation of the segments.
    fn send(&mut self, actions: Vec<Action>) -> Result<Allocation, MemoryError> {
        let mut steps = Vec::with_capacity(actions.len());
        for action in actions {
            steps.push(match action {
                Action::Do(step) => step,
                Action::RegisterImage(image) => self.add_image(image)?,
            });
        }
        let undo = steps.iter().filter_map(|step| step.undo.as_ref());
        let code = undo.filter(|undo| is_of_code(undo)).cloned().collect();
        let client = &self.shared.client;
        let number = if client.shared_memory().is_some() {
            let segments = self.segments.iter_mut().filter_map(Segment::shared);
            client.finalize_shared(segments.collect(), steps)?
        } else {
            let segments = self.segments.iter().filter_map(Segment::sent);
            client.finalize(&segments.collect::<Vec<_>>(), steps)?
        };
        let ranges = self.ranges();
        let mut state = self.shared.lock();
        state.code.insert(number, code);
        for segment in self.segments.drain(..) {
            let base = segment.base;
            if let Some(part) = segment.into_part() {
                state.parts.insert(base, part);
            }
        }
        drop(state);
        Ok(Allocation { ranges, number })
    }

    /// Places an image beside the segments, where debuggers find it.
    fn add_image(&mut self, image: DebugImage) -> Result<Step, MemoryError> {
        let DebugImage { bytes, blank } = image;
        let size = u64_of(bytes.len());
        self.add(SegmentKind::ReadOnly, size, size, 1)?;
        let address = self.segments.last_mut().map_or(0, |segment| {
            segment.bytes().copy_from_slice(&bytes);
            segment.base
        });
        Ok(Step {
            action: wire::Action::RegisterImage {
                address,
                size,
                blank,
            },
            undo: Some(wire::Action::DeregisterImage { address }),
        })
    }
}

impl Segment {
    fn bytes(&mut self) -> &mut [u8] {
        match &mut self.working {
            Working::Own(bytes) => bytes,
            Working::Shared(part) => &mut part.bytes()[..usize_of_u64(self.used)],
        }
    }

    /// The segment with contents that go through the connection, if they do.
    fn sent(&self) -> Option<wire::Segment<'_>> {
        let Working::Own(bytes) = &self.working else {
            return None;
        };
        // What was not written to is zero there as well.
        let end = bytes.iter().rposition(|&byte| byte != 0);
        Some(wire::Segment {
            address: self.base,
            size: self.size,
            protection: protection_of(self.kind),
            sealed_late: is_sealed_late(self.kind),
            content: bytes
                .get(..end.map_or(0, |last| last + 1))
                .unwrap_or_default(),
        })
    }

    /// The segment with contents in shared memory, which are complete, if they are there.
    fn shared(&mut self) -> Option<wire::SharedSegment> {
        let Working::Shared(part) = &mut self.working else {
            return None;
        };
        part.close();
        Some(wire::SharedSegment {
            address: self.base,
            size: self.size,
            protection: protection_of(self.kind),
            sealed_late: is_sealed_late(self.kind),
            offset: part.offset(),
        })
    }

    fn into_part(self) -> Option<SharedPart> {
        match self.working {
            Working::Own(_) => None,
            Working::Shared(part) => Some(part),
        }
    }
}

impl Drop for InFlightRemote {
    fn drop(&mut self) {
        if !self.done {
            self.shared.give_back(&self.ranges());
            let parts = self.segments.drain(..).filter_map(Segment::into_part);
            self.shared.give_up(parts.collect());
        }
    }
}
