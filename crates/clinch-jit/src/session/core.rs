//! The session's inside: look-ups, and passing on what became of links.

use super::cache::ReadyCache;
use super::close::Closed;
use super::define::Clash;
use super::platform::Platform;
use super::plugin::{LinkInfo, LinkPlugin};
use super::pool::Name;
use super::query::{LookUpError, OnFound, Query, Wanted};
use super::queue::{Queue, Task};
use super::responsibility::Responsibility;
use super::run;
use super::sources::MemberKey;
use super::state::{DylibId, LinkId, Match, Owner, SearchOrder, State, SymbolState, TrackerId};
use super::stubs::Trampolines;
use super::unit::{Batch, Content};
use crate::context::lock;
use crate::debug::Audience;
use crate::error::{LinkError, LinkErrors};
use crate::link::External;
use crate::process::Process;
use crate::runtime::exit::ProgramArguments;
use crate::runtime::reenter;
use bytes::Bytes;
use clinch_executor::wire::Action;
use clinch_graph::index::int::{u32_of, usize_of};
use clinch_graph::{InputName, SymbolId, Workers};
use clinch_link::resolve::Duplicate;
use clinch_target::Arch;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a session's tasks share.
pub(crate) struct Core {
    pub(crate) arch: &'static Arch,
    /// Where the code is.
    pub(crate) process: Process,
    pub(crate) workers: Arc<Workers>,
    /// Prepare for running: unwind tables, thread-local storage, initializers.
    pub(crate) execute: bool,
    /// Keep finished graphs, for who wants to look at them.
    pub(crate) keep: bool,
    /// Who is told of linked code.
    pub(crate) audience: Audience,
    /// Map memory of this process twice.
    pub(crate) double_map: bool,
    pub(crate) state: RwLock<State>,
    /// Held while a look-up is closed, so that one is closed after the other.
    pub(crate) search: Mutex<()>,
    pub(crate) queue: Queue,
    pub(crate) plugins: RwLock<Vec<Arc<dyn LinkPlugin>>>,
    pub(crate) cache: ReadyCache,
    /// What initializers are given, once a caller said so.
    pub(crate) arguments: OnceLock<ProgramArguments>,
    pub(crate) trampolines: Trampolines,
    /// What linked code calls the session by; it does not move.
    pub(crate) platform: Box<Platform>,
    /// What trampolines are given; it does not move.
    pub(crate) reentry: Box<reenter::Context>,
}

/// A name that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) name: Vec<u8>,
    pub(crate) is_weak: bool,
    pub(crate) is_tls: bool,
}

impl Ask {
    /// The question as it is put to libraries.
    fn external(&self) -> Option<External> {
        Some(External {
            symbol: SymbolId::from_raw(1)?,
            name: self.name.clone(),
            weak: self.is_weak,
            is_tls: self.is_tls,
        })
    }
}

impl Core {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls every plugin, in the order in which they were added.
    pub(crate) fn each_plugin(&self, f: impl FnMut(&Arc<dyn LinkPlugin>)) {
        let plugins = self
            .plugins
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        plugins.iter().for_each(f);
    }

    /// The addresses of names that are ready, without taking anything but the lock for reading.
    pub(crate) fn ready(
        &self,
        order: &[(DylibId, Match)],
        names: &[&[u8]],
    ) -> Option<Vec<Option<u64>>> {
        if self.failure().is_some() {
            return None;
        }
        let address = |text: &&[u8]| self.ready_one(order, text).map(Some);
        names.iter().map(address).collect()
    }

    /// The same for one name.
    pub(crate) fn ready_one(&self, order: &[(DylibId, Match)], text: &[u8]) -> Option<u64> {
        // What a dylib defines and exports may be hidden from others, so only who sees all of the
        // first one is answered from the cache.
        let first = order.first().filter(|(_, to)| *to == Match::All);
        if let Some(&(dylib, _)) = first
            && let Some(address) = self.cache.get(dylib, text)
        {
            return Some(address);
        }
        let state = self.read();
        let found = state.search(order, state.pool.find(text)?)?;
        if state.state_of(&found.entry) != SymbolState::Ready {
            return None;
        }
        if first.is_some_and(|(dylib, _)| *dylib == found.dylib) {
            self.cache.insert(found.dylib, text, found.entry.address);
        }
        Some(found.entry.address)
    }

    /// Looks names up and goes on with the answer, in a task. Tasks that are to be run are pushed,
    /// not run.
    pub(crate) fn look_up(
        self: &Arc<Self>,
        order: &SearchOrder,
        asks: Vec<Ask>,
        need: SymbolState,
        for_link: Option<LinkId>,
        then: OnFound,
    ) {
        let Some((closed, then)) = self.begin(order, &asks, None, then) else {
            return;
        };
        let mut tasks = self.tasks(&closed.links);
        let (mut wanted, mut missing) = (Vec::with_capacity(asks.len()), Vec::new());
        for (ask, found) in asks.iter().zip(closed.found) {
            wanted.push(match found {
                Some(found) => Wanted::Entry(found),
                // A link asks libraries itself, its own first.
                None if for_link.is_some() => Wanted::Address(None),
                None => {
                    // The lock is not taken twice: a writer between the two would wait for ever.
                    let provided = self.read().provided(&ask.name);
                    let outside = || ask.external().and_then(|ask| self.outside(order, &ask));
                    let address = provided.or_else(outside);
                    if address.is_none() && !ask.is_weak {
                        missing.push(String::from_utf8_lossy(&ask.name).into_owned());
                    }
                    Wanted::Address(address)
                }
            });
        }
        if missing.is_empty() {
            tasks.extend(self.wait(wanted, Vec::new(), need, for_link, then));
        } else if let Some(error) = self.failure() {
            // Nobody was there to say that they are.
            tasks.push(Box::new(move || then(Err(error.into()))));
        } else {
            let answer = Err(LookUpError::NotFound(missing));
            tasks.push(Box::new(move || then(answer)));
        }
        self.queue.push(tasks);
    }

    /// What libraries and the process say of a name, in a search order.
    pub(crate) fn outside(&self, order: &[(DylibId, Match)], external: &External) -> Option<u64> {
        if external.is_tls {
            return None;
        }
        order.iter().find_map(|&(dylib, _)| {
            let sources = Arc::clone(&self.read().dylib(dylib).sources);
            let resolver = Arc::clone(&lock(&sources).resolver);
            resolver.forget_if_missing(&external.name);
            resolver.find(external, external.weak).ok().flatten()
        })
    }

    /// Waits for the links that the wanted symbols are of, and for `more`, or answers the task
    /// that goes on when there is nothing to wait for.
    fn wait(
        &self,
        wanted: Vec<Wanted>,
        more: Vec<LinkId>,
        need: SymbolState,
        for_link: Option<LinkId>,
        then: OnFound,
    ) -> Option<Task> {
        let mut state = self.write();
        let mut links: Vec<LinkId> = wanted
            .iter()
            .filter_map(|wanted| match wanted {
                // As it is now: what was a unit's is a link's.
                Wanted::Entry(found) => state.dylib(found.dylib).table.get(found.name),
                Wanted::Address(_) => None,
            })
            .filter_map(|entry| match entry.owner {
                Owner::Link(link) => Some(link),
                _ => None,
            })
            .chain(more)
            .collect();
        links.sort_unstable();
        links.dedup();
        if let Some(link) = for_link {
            for &on in &links {
                state.waits.depend(usize_of(link.0), usize_of(on.0));
            }
            // What failed before is why this one will.
            let cause = links.iter().find_map(|&on| state.link(on).failure.clone());
            let slot = &mut state.link_mut(link).failure;
            *slot = slot.take().or(cause);
        }
        let pending = |link: &&LinkId| state.link(**link).state < need;
        let pending: Vec<LinkId> = links.iter().filter(pending).copied().collect();
        let id = state.next_query;
        state.next_query += 1;
        for &link in &pending {
            state.link_mut(link).queries.push(id);
        }
        let query = Query {
            wanted,
            need,
            waiting: pending.len(),
            links,
            then: Mutex::new(then),
        };
        state.queries.insert(id, query);
        if pending.is_empty() {
            let (then, answer) = state.take_query(id)?;
            return Some(Box::new(move || then(answer)));
        }
        None
    }

    /// Closes over what a look-up needs. `None` when that fails, which `then` is told in a task.
    fn begin(
        self: &Arc<Self>,
        order: &SearchOrder,
        asks: &[Ask],
        all_of: Option<DylibId>,
        then: OnFound,
    ) -> Option<(Closed, OnFound)> {
        let closed = match self.failure() {
            Some(error) => Err(error.into()),
            None => {
                let _search = lock(&self.search);
                self.close(order, asks, all_of)
                    .map_err(|errors| LookUpError::Failed(vec![Arc::new(errors)]))
            }
        };
        match closed {
            Ok(closed) => Some((closed, then)),
            Err(error) => {
                let task: Task = Box::new(move || then(Err(error)));
                self.queue.push([task]);
                None
            }
        }
    }

    /// Links all units of a dylib, and what defines the names, and what these need; goes on with
    /// the names' addresses when all of the dylib is ready.
    pub(crate) fn link_all(self: &Arc<Self>, dylib: DylibId, asks: Vec<Ask>, then: OnFound) {
        let order: SearchOrder = [(dylib, Match::All)].into();
        let Some((closed, then)) = self.begin(&order, &asks, Some(dylib), then) else {
            return;
        };
        let mut tasks = self.tasks(&closed.links);
        let wanted = |found: Option<_>| found.map_or(Wanted::Address(None), Wanted::Entry);
        let wanted = closed.found.into_iter().map(wanted).collect();
        let links = self.read().running(dylib);
        tasks.extend(self.wait(wanted, links, SymbolState::Ready, None, then));
        self.queue.push(tasks);
    }

    /// Reads objects' symbols and defines them; answers the objects' units. With `onto`, they are
    /// read behind those that were read together before.
    pub(crate) fn add_objects(
        &self,
        dylib: DylibId,
        tracker: TrackerId,
        objects: Vec<(InputName, Bytes)>,
        onto: Option<usize>,
    ) -> Result<Vec<usize>, LinkErrors> {
        let known = onto.and_then(|number| self.write().batches.get_mut(number)?.take());
        let (mut batch, number) = match (known, onto) {
            (Some(mut batch), Some(number)) => {
                batch.add(&self.workers, objects.clone())?;
                (batch, Some(number))
            }
            _ => {
                let name = self.read().dylib(dylib).name.clone();
                let batch = Batch::read(self.arch, &self.workers, &name, objects.clone())?;
                (batch, None)
            }
        };
        let mut state = self.write();
        let state = &mut *state;
        let first = batch.n_interned;
        let interfaces = batch.intern(&mut state.pool, &self.workers);
        let number = number.unwrap_or_else(|| {
            state.batches.push(None);
            state.batches.len() - 1
        });
        let (mut units, mut errors) = (Vec::with_capacity(objects.len()), Vec::new());
        let read = objects.into_iter().zip(interfaces).enumerate();
        for (index, ((name, bytes), interface)) in read {
            let place = first + index;
            let content = Content::Object(name, bytes);
            match state.add_unit(dylib, tracker, content, interface) {
                Ok(unit) => {
                    state.units[unit].batch = Some((number, place));
                    units.push(unit);
                }
                Err(clashes) => {
                    errors.extend(clashes.iter().map(|clash| {
                        state
                            .duplicate(clash, (number, &batch), place)
                            .unwrap_or_else(|| state.defined(dylib, clash))
                    }));
                }
            }
        }
        state.batches[number] = Some(batch);
        LinkErrors::or(errors, units)
    }

    /// Tasks that start links.
    fn tasks(self: &Arc<Self>, links: &[LinkId]) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for &link in links {
            let unit = {
                let mut state = self.write();
                let units = state.link(link).units.clone();
                let custom = units
                    .iter()
                    .find_map(|&unit| match state.units[unit].content {
                        Content::Custom(_) => Some(unit),
                        _ => None,
                    });
                custom.map(|unit| std::mem::replace(&mut state.units[unit].content, Content::Taken))
            };
            match unit {
                Some(Content::Custom(unit)) => {
                    let responsibility = Responsibility::new(Arc::clone(self), link);
                    let unit = unit.into_inner().unwrap_or_else(PoisonError::into_inner);
                    tasks.push(Box::new(move || unit.materialize(responsibility)));
                }
                _ => tasks.extend(self.start(link)),
            }
        }
        tasks
    }

    /// The task that runs a link, unless another of its dylib runs.
    pub(crate) fn start(self: &Arc<Self>, link: LinkId) -> Option<Task> {
        let mut state = self.write();
        let dylib = state.link(link).dylib;
        let dylib = state.dylib_mut(dylib);
        if dylib.running.is_some() {
            dylib.backlog.push_back(link);
            return None;
        }
        dylib.running = Some(link);
        let core = Arc::clone(self);
        Some(Box::new(move || run::run(&core, link)))
    }

    /// A link's symbols have addresses; so have what the linker made, and the words of stubs.
    /// What is `gone` it does not define after all.
    pub(crate) fn resolved(
        self: &Arc<Self>,
        link: LinkId,
        symbols: &[(Name, u64)],
        made: &[(Name, u64)],
        words: &[(Name, u64)],
        gone: &[Name],
    ) {
        let tasks = {
            let mut state = self.write();
            let dylib = state.link(link).dylib;
            let table = &mut state.dylib_mut(dylib).table;
            for &(name, address) in symbols {
                if let Some(entry) = table.get_mut(name)
                    && entry.owner == Owner::Link(link)
                {
                    entry.address = address;
                }
            }
            for &name in gone {
                if table
                    .get(name)
                    .is_some_and(|entry| entry.owner == Owner::Link(link))
                {
                    table.remove(name);
                }
            }
            let made = made.iter().map(|&(name, address)| (name, (link, address)));
            state.dylib_mut(dylib).made.extend(made);
            let words = words.iter().map(|&(name, address)| (name, (link, address)));
            state.dylib_mut(dylib).words.extend(words);
            state.advance(&[link], SymbolState::Resolved)
        };
        self.queue.push(tasks);
        self.next_of(link);
    }

    /// Lets the next link of a dylib run.
    fn next_of(self: &Arc<Self>, link: LinkId) {
        let next = {
            let mut state = self.write();
            let dylib = state.link(link).dylib;
            let dylib = state.dylib_mut(dylib);
            if dylib.running == Some(link) {
                dylib.running = None;
                dylib.backlog.pop_front()
            } else {
                dylib.backlog.retain(|&waiting| waiting != link);
                None
            }
        };
        if let Some(next) = next {
            self.queue.push(self.start(next));
        }
    }

    /// A link's code is in memory.
    pub(crate) fn emitted(self: &Arc<Self>, link: LinkId) {
        let tasks = {
            let mut state = self.write();
            if state.link(link).state < SymbolState::Emitted {
                state.link_mut(link).state = SymbolState::Emitted;
            }
            let ready = state.waits.emit(usize_of(link.0));
            let ready: Vec<LinkId> = ready.into_iter().map(|link| LinkId(u32_of(link))).collect();
            state.advance(&ready, SymbolState::Ready)
        };
        self.queue.push(tasks);
    }

    /// A link failed, and with it what depends on it.
    pub(crate) fn failed(self: &Arc<Self>, link: LinkId, errors: LinkErrors) {
        let (tasks, failed) = {
            let mut state = self.write();
            let failed = state.waits.fail(usize_of(link.0));
            let failed: Vec<LinkId> = failed
                .into_iter()
                .map(|link| LinkId(u32_of(link)))
                .collect();
            let cause = state.link(link).failure.clone();
            let cause = cause.unwrap_or_else(|| (link, Arc::new(errors)));
            for &failed in &failed {
                let slot = &mut state.link_mut(failed).failure;
                *slot = slot.take().or_else(|| Some(cause.clone()));
            }
            let infos: Vec<LinkInfo> = failed.iter().map(|&failed| state.info(failed)).collect();
            (state.advance(&failed, SymbolState::Failed), infos)
        };
        for info in &failed {
            self.each_plugin(|plugin| plugin.notify_failed(info));
            self.release(info);
            self.give_members_back(info);
        }
        self.queue.push(tasks);
        self.next_of(link);
    }

    /// What initializes a dylib's links that are ready and were not initialized: their finalizers
    /// are registered to run when the process exits, or their tracker is removed; then their
    /// initializers run.
    pub(crate) fn take_initializers(&self, dylib: DylibId) -> Vec<Action> {
        let runtimes = self.read().runtimes(dylib);
        let (mut actions, mut initializers) = (Vec::new(), Vec::new());
        for runtime in runtimes {
            let mut runtime = lock(&runtime);
            let (first, last) = (
                std::mem::take(&mut runtime.initializers),
                std::mem::take(&mut runtime.finalizers),
            );
            initializers.extend(&first);
            runtime.ran.0.extend(first);
            runtime.ran.1.extend(&last);
            if let Some(first) = last.first() {
                runtime.registered.push(first.address);
                actions.push(Action::RegisterFinalizers { arrays: last });
            }
        }
        actions.extend(initializers.into_iter().map(Action::RunArray));
        actions
    }

    /// Sets what initializers are given.
    ///
    /// # Errors
    /// The executor is gone.
    pub(crate) fn set_arguments(&self, arguments: &ProgramArguments) -> Result<(), LinkError> {
        // What dylibs that linked code opens are given: the first ones.
        let _ = self.arguments.set(*arguments);
        Ok(self.process.set_arguments(arguments)?)
    }

    /// Has linked code run where it is.
    ///
    /// # Errors
    /// What actions say; the executor is gone.
    ///
    /// # Safety
    /// The code must be fit to run now.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub(crate) unsafe fn perform(&self, actions: Vec<Action>) -> Result<(), LinkError> {
        // SAFETY: the caller's promise.
        Ok(unsafe { self.process.perform(actions, self.arguments.get()) }?)
    }

    /// Lets members of archives that a failed link took be found again, by those who can do
    /// without what was wrong.
    fn give_members_back(&self, info: &LinkInfo) {
        let (sources, members) = {
            let mut state = self.write();
            let members = state.drop_members(info.link);
            let dylib = state.dylib_mut(info.dylib);
            if !members.is_empty() {
                dylib.asked.clear();
            }
            (Arc::clone(&dylib.sources), members)
        };
        lock(&sources).give_back(members);
    }

    /// Gives back what a failed link had brought to memory.
    fn release(&self, info: &LinkInfo) {
        let (runtime, memory) = {
            let state = self.read();
            let link = state.link(info.link);
            (
                Arc::clone(&link.runtime),
                Arc::clone(&state.dylib(link.dylib).memory),
            )
        };
        // What the system says has nobody to be told: the link has failed already.
        run::give_back(&runtime, &*memory);
    }
}

impl State {
    /// The links of a dylib that run.
    fn running(&self, dylib: DylibId) -> Vec<LinkId> {
        let links = self.links.iter().enumerate();
        links
            .filter(|(_, link)| link.dylib == dylib && link.state < SymbolState::Ready)
            .map(|(number, _)| LinkId(u32_of(number)))
            .collect()
    }

    /// Takes the members of archives out of a link that failed.
    fn drop_members(&mut self, link: LinkId) -> Vec<MemberKey> {
        let mut members = Vec::new();
        for unit in self.link(link).units.clone() {
            let Some(member) = self.units[unit].member.take() else {
                continue;
            };
            members.push(member);
            let defines = std::mem::take(&mut self.units[unit].defines);
            let table = &mut self.dylibs[usize_of(self.units[unit].dylib.0)].table;
            for define in defines {
                if table
                    .get(define.name)
                    .is_some_and(|entry| entry.owner == Owner::Link(link))
                {
                    table.remove(define.name);
                }
            }
            self.forget_unit(unit);
        }
        members
    }

    /// What to say of a second definition in an object, when the first one is in another that was
    /// read and not linked: both places.
    fn duplicate(
        &self,
        clash: &Clash,
        (own, batch): (usize, &Batch),
        place: usize,
    ) -> Option<LinkError> {
        let Owner::Unit(first) = clash.first.owner else {
            return None;
        };
        let (number, index) = self.units[first].batch?;
        let first = if number == own {
            batch.place(index, clash.name)?
        } else {
            let other = self.batches[number].as_ref()?;
            other.place(index, clash.name)?
        };
        Some(LinkError::Duplicate(Duplicate {
            name: self.pool.display(clash.name),
            first,
            second: batch.place(place, clash.name)?,
        }))
    }

    /// Moves links to a state; answers the tasks that go on with it.
    fn advance(&mut self, links: &[LinkId], to: SymbolState) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for &link in links {
            let state = self.link_mut(link);
            if state.state >= to {
                continue;
            }
            state.state = to;
            let waiting = std::mem::take(&mut state.queries);
            for id in waiting {
                let Some(query) = self.queries.get_mut(&id) else {
                    continue;
                };
                if query.need > to {
                    self.link_mut(link).queries.push(id);
                    continue;
                }
                query.waiting -= 1;
                if query.waiting == 0
                    && let Some((then, answer)) = self.take_query(id)
                {
                    tasks.push(Box::new(move || then(answer)));
                }
            }
        }
        tasks
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("arch", &self.arch.graph.name)
            .finish_non_exhaustive()
    }
}
