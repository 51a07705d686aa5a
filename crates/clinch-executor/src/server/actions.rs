//! Allocations: pages filled and protected, actions done in order, and all of it undone in
//! reverse.

use super::{Connection, State};
use crate::system::code::{self, Callable};
use crate::system::shared::SharedFile;
use crate::threads::lock;
use crate::wire::{Action, Array, Protection, Refusal, Segment, SharedSegment, Step};
use clinch_graph::index::int::u64_of;
use std::sync::Arc;

/// Memory in use, and how to undo it.
#[derive(Debug)]
pub(super) struct Allocation {
    /// Start and end of each run of pages.
    ranges: Vec<(u64, u64)>,
    /// In the order of the actions that they undo.
    undo: Vec<Action>,
}

/// The pages of a segment, wherever its contents come from.
#[derive(Clone, Copy, Debug)]
struct Place {
    address: u64,
    size: u64,
    protection: Protection,
    sealed_late: bool,
}

impl Place {
    /// What its pages allow when they are filled.
    fn first_protection(&self) -> Protection {
        if self.sealed_late {
            Protection::ReadWrite
        } else {
            self.protection
        }
    }
}

impl From<&Segment<'_>> for Place {
    fn from(segment: &Segment<'_>) -> Self {
        Self {
            address: segment.address,
            size: segment.size,
            protection: segment.protection,
            sealed_late: segment.sealed_late,
        }
    }
}

impl From<&SharedSegment> for Place {
    fn from(segment: &SharedSegment) -> Self {
        Self {
            address: segment.address,
            size: segment.size,
            protection: segment.protection,
            sealed_late: segment.sealed_late,
        }
    }
}

/// Pages that are filled; their actions are still to be done.
#[derive(Debug)]
pub(super) struct Placed {
    ranges: Vec<(u64, u64)>,
    /// Pages to protect when the actions are done.
    late: Vec<(u64, u64, Protection)>,
}

impl State {
    pub(super) fn has_undo(&self) -> bool {
        !self.allocations.is_empty()
    }

    pub(super) fn undo_runs_code(&self, allocations: &[u64]) -> bool {
        allocations
            .iter()
            .filter_map(|id| self.allocations.get(id))
            .any(|allocation| allocation.undo.iter().any(Action::runs_code))
    }

    /// Takes pages for one allocation, all or none.
    fn take(&mut self, places: &[Place]) -> Result<Vec<(u64, u64)>, Refusal> {
        let mut ranges = Vec::with_capacity(places.len());
        for place in places {
            let taken = self.take_one(place);
            match taken {
                Ok((start, end)) if start < end => ranges.push((start, end)),
                Ok(_) => {}
                Err(refusal) => {
                    self.give_back(&ranges);
                    return Err(refusal);
                }
            }
        }
        Ok(ranges)
    }

    fn take_one(&mut self, place: &Place) -> Result<(u64, u64), Refusal> {
        let (start, end) = self.memory.range(place.address, place.size)?;
        if let Some(taken) = self.taken_within(start, end) {
            return Err(Refusal::InUse(taken));
        }
        if start < end {
            self.taken.insert(start, end);
        }
        Ok((start, end))
    }

    fn give_back(&mut self, ranges: &[(u64, u64)]) {
        for (start, _) in ranges {
            self.taken.remove(start);
        }
    }

    /// Gives pages up and lets others take them.
    fn discard(&mut self, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        let mut result = Ok(());
        for &(start, end) in ranges {
            self.registry.forget_within(start, end);
            let discarded = self.memory.protect(start, end - start, Protection::None);
            result = result.and(discarded);
        }
        self.give_back(ranges);
        result
    }

    fn fill(&mut self, segments: &[Segment<'_>]) -> Result<(), Refusal> {
        for segment in segments {
            let (address, size) = (segment.address, segment.size);
            self.memory.protect(address, size, Protection::ReadWrite)?;
            self.memory.write(address, segment.content)?;
            let protection = Place::from(segment).first_protection();
            self.memory.protect(address, size, protection)?;
        }
        Ok(())
    }

    /// Maps contents from memory that is shared with the controller.
    fn map(&mut self, segments: &[SharedSegment], file: &SharedFile) -> Result<(), Refusal> {
        for segment in segments {
            let (address, size) = (segment.address, segment.size);
            let protection = Place::from(segment).first_protection();
            self.memory
                .map(address, size, protection, file, segment.offset)?;
        }
        Ok(())
    }
}

impl Connection {
    /// Fills and protects the pages of segments. When it fails, they are given up.
    pub(super) fn place(&self, segments: &[Segment<'_>]) -> Result<Placed, Refusal> {
        for segment in segments {
            let size = u64_of(segment.content.len());
            if size > segment.size {
                return Err(Refusal::TooLarge(size));
            }
        }
        let places: Vec<Place> = segments.iter().map(Place::from).collect();
        self.place_with(&places, |state| state.fill(segments))
    }

    /// The same with contents in shared memory.
    pub(super) fn place_shared(&self, segments: &[SharedSegment]) -> Result<Placed, Refusal> {
        let Some(file) = &self.shared else {
            let first = segments.first();
            let (offset, size) = first.map_or((0, 0), |first| (first.offset, first.size));
            return Err(Refusal::NotShared { offset, size });
        };
        let places: Vec<Place> = segments.iter().map(Place::from).collect();
        self.place_with(&places, |state| state.map(segments, file))
    }

    fn place_with(
        &self,
        places: &[Place],
        fill: impl FnOnce(&mut State) -> Result<(), Refusal>,
    ) -> Result<Placed, Refusal> {
        let state = &mut *lock(&self.state);
        let ranges = state.take(places)?;
        if let Err(refusal) = fill(state) {
            // The first error is the one to report.
            let _ = state.discard(&ranges);
            return Err(refusal);
        }
        let late = places
            .iter()
            .filter(|place| place.sealed_late)
            .map(|place| (place.address, place.size, place.protection))
            .collect();
        Ok(Placed { ranges, late })
    }

    /// Does the actions of an allocation and seals it. When that fails, what was done is undone
    /// and the pages are given up.
    pub(super) fn finish(
        self: &Arc<Self>,
        placed: Placed,
        steps: Vec<Step>,
    ) -> Result<u64, Refusal> {
        let mut undo = Vec::new();
        let mut result = Ok(());
        for (index, step) in steps.into_iter().enumerate() {
            result = self.perform_nth(index, &step.action);
            if result.is_err() {
                break;
            }
            undo.extend(step.undo);
        }
        let allocation = Allocation {
            ranges: placed.ranges,
            undo,
        };
        let result = result.and_then(|()| {
            let memory = &mut lock(&self.state).memory;
            let mut late = placed.late.into_iter();
            late.try_for_each(|(start, size, protection)| memory.protect(start, size, protection))
        });
        if let Err(refusal) = result {
            if let Err(error) = self.undo_one(&allocation) {
                self.log(&format!("undoing an allocation that failed: {error}"));
            }
            return Err(refusal);
        }
        let state = &mut *lock(&self.state);
        state.n_allocations += 1;
        state.allocations.insert(state.n_allocations, allocation);
        Ok(state.n_allocations)
    }

    /// Undoes allocations, last to first; the first error is the result.
    pub(super) fn deallocate(self: &Arc<Self>, ids: &[u64]) -> Result<(), Refusal> {
        let mut result = Ok(());
        for &id in ids.iter().rev() {
            let allocation = lock(&self.state).allocations.remove(&id);
            let undone = match allocation {
                Some(allocation) => self.undo_one(&allocation),
                None => Err(Refusal::NoAllocation(id)),
            };
            result = result.and(undone);
        }
        result
    }

    /// Undoes all allocations, last to first. There is nobody to tell errors to.
    pub(super) fn deallocate_all(self: &Arc<Self>) {
        loop {
            let last = lock(&self.state).allocations.pop_last();
            let Some((_, allocation)) = last else { return };
            let _ = self.undo_one(&allocation);
        }
    }

    fn undo_one(self: &Arc<Self>, allocation: &Allocation) -> Result<(), Refusal> {
        let mut result = Ok(());
        for (index, action) in allocation.undo.iter().enumerate().rev() {
            let undone = self.perform_nth(index, action);
            result = result.and(undone);
        }
        let discarded = lock(&self.state).discard(&allocation.ranges);
        result.and(discarded)
    }

    /// Does actions in order until one fails.
    pub(super) fn perform_all(self: &Arc<Self>, actions: &[Action]) -> Result<(), Refusal> {
        let mut actions = actions.iter().enumerate();
        actions.try_for_each(|(index, action)| self.perform_nth(index, action))
    }

    fn perform_nth(self: &Arc<Self>, index: usize, action: &Action) -> Result<(), Refusal> {
        self.perform(action).map_err(|refusal| Refusal::Action {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            why: refusal.to_string(),
        })
    }

    /// Does an action. No lock is held while code runs.
    fn perform(self: &Arc<Self>, action: &Action) -> Result<(), Refusal> {
        let callable = |address| Callable::new(&lock(&self.state).memory, address);
        match action {
            Action::ResolveIfunc { slot, resolver } => {
                let value = callable(*resolver)?.resolve();
                lock(&self.state).memory.write_word(*slot, value)
            }
            Action::RunArray(array) => self.run_array(*array),
            Action::RunHandlers { handle } => {
                code::run_handlers(*handle);
                Ok(())
            }
            Action::RunFinalizers { first } => {
                let finalizers = lock(&self.state).registry.take_finalizers(*first);
                if let Some(finalizers) = finalizers {
                    finalizers.run();
                }
                Ok(())
            }
            Action::Call { function, input } => code::call_action(callable(*function)?, input),
            Action::InitializeThreadLocal { block, image, size } => {
                {
                    let state = &*lock(&self.state);
                    let image = state.memory.read(*image, *size)?;
                    state.registry.initialize_thread_local(*block, &image)?;
                }
                self.threads.renew();
                Ok(())
            }
            other => lock(&self.state).register(other),
        }
    }

    /// Calls the functions of an array, each if it is there when its turn comes.
    fn run_array(&self, array: Array) -> Result<(), Refusal> {
        let arguments = lock(&self.state).arguments();
        for n in array.slots() {
            let function = lock(&self.state).memory.function(&array, n)?;
            if let Some(function) = function {
                function.call_program(&arguments);
            }
        }
        Ok(())
    }

    /// Takes pages out of an allocation, after undo actions of it.
    pub(super) fn withdraw(
        self: &Arc<Self>,
        id: u64,
        ranges: &[(u64, u64)],
        undo: &[Action],
    ) -> Result<(), Refusal> {
        let mut result = Ok(());
        let (undo, ranges) = {
            let state = &mut *lock(&self.state);
            let allocation = state.allocations.get_mut(&id);
            let allocation = allocation.ok_or(Refusal::NoAllocation(id))?;
            let mut named: Vec<Action> = Vec::with_capacity(undo.len());
            for action in undo {
                let place = allocation.undo.iter().position(|own| own == action);
                named.extend(place.map(|place| allocation.undo.remove(place)));
            }
            let mut taken = Vec::with_capacity(ranges.len());
            for &(address, size) in ranges {
                let place = allocation.ranges.iter().position(|own| own.0 == address);
                match place {
                    Some(place) => taken.push(allocation.ranges.swap_remove(place)),
                    None => result = Err(Refusal::NotOwned { address, size }),
                }
            }
            (named, taken)
        };
        for (index, action) in undo.iter().enumerate().rev() {
            let undone = self.perform_nth(index, action);
            result = result.and(undone);
        }
        let discarded = lock(&self.state).discard(&ranges);
        result.and(discarded)
    }
}

impl State {
    /// Does an action that runs no code.
    fn register(&mut self, action: &Action) -> Result<(), Refusal> {
        let (memory, registry) = (&self.memory, &mut self.registry);
        match action {
            Action::RegisterFrames { begin } => registry.frames.register(memory, *begin),
            Action::DeregisterFrames { begin } => registry.frames.deregister(*begin),
            Action::WriteWord { address, value } => memory.write_word(*address, *value),
            Action::MoveVariable { from, to, size } => memory.move_variable(*from, *to, *size),
            Action::RegisterImage {
                address,
                size,
                blank,
            } => {
                if registry.has_image(*address) {
                    return Err(Refusal::Image(*address));
                }
                let image = memory.register_image(*address, *size, blank.clone())?;
                registry.add_image(image, Vec::new());
                Ok(())
            }
            Action::DeregisterImage { address } => registry.remove_image(*address),
            Action::RegisterFinalizers { arrays } => {
                if let Some(first) = arrays.first() {
                    let finalizers = memory.register_finalizers(arrays)?;
                    registry.add_finalizers(first.address, finalizers);
                }
                Ok(())
            }
            Action::ReleaseThreadLocal { block } => {
                registry.release_thread_local(*block);
                Ok(())
            }
            // They run code: the caller does them.
            Action::ResolveIfunc { .. }
            | Action::RunArray(_)
            | Action::RunHandlers { .. }
            | Action::RunFinalizers { .. }
            | Action::Call { .. }
            | Action::InitializeThreadLocal { .. } => Ok(()),
        }
    }
}
