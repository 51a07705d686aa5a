//! Running one link of a session: its graph, and what the link asks of its surroundings.

use super::core::{Ask, Core};
use super::platform;
use super::plugin::LinkInfo;
use super::pool::Name;
use super::query::Addresses;
use super::save;
use super::state::{LinkId, Owner, SearchOrder, State, SymbolState};
use super::stubs::{self, MadeStubs, StubSet};
use super::unit::{Batch, Content};
use crate::context::{Context, Runtime, lock};
use crate::debug::Reporter;
use crate::error::{LinkError, LinkErrors, MemoryError};
use crate::link::{
    External, Finished, Job, LinkContext, Linked, OnLookedUp, Resolved, Times, link,
};
use crate::memory::{Action, MemoryManager};
use crate::passes::Passes;
use bytes::Bytes;
use clinch_graph::index::map::Set;
use clinch_graph::{IdSet, InputId, InputName, LinkGraph, NameId, SymbolFlags, SymbolId, Workers};
use clinch_link::layout::SegmentKind;
use clinch_link::resolve;
use clinch_link::tables::Reach;
use clinch_object::add_blocks;
use std::sync::{Arc, Mutex};

/// Names that the linker makes in every dylib and that its later links use.
const MADE: [&[u8]; 2] = [b"__dso_handle", b"atexit"];

/// Gives the link of a unit that makes its definitions itself the object to link.
pub(crate) fn set_object(core: &Core, link: LinkId, name: InputName, bytes: Bytes) {
    let mut state = core.write();
    if let Some(&unit) = state.link(link).units.first() {
        state.units[unit].content = Content::Object(name, bytes);
        state.units[unit].is_promise = true;
    }
}

/// Runs a link up to where it waits.
pub(crate) fn run(core: &Arc<Core>, id: LinkId) {
    let info = core.read().info(id);
    core.each_plugin(|plugin| plugin.notify_loaded(&info));
    match prepare(core, &info) {
        Ok((job, context)) => link(job, Arc::new(context)),
        Err(errors) => core.failed(id, errors),
    }
}

/// Reads a link's objects into one graph and resolves what they define among themselves.
fn prepare(core: &Arc<Core>, info: &LinkInfo) -> Result<(Job, LinkTask), LinkErrors> {
    let mut times = Times::new();
    let (batch, mut objects, mut stubs, order, memory, sources, runtime) = {
        let mut state = core.write();
        if let Some((_, errors)) = &state.link(info.link).failure {
            return Err((**errors).clone());
        }
        let units = state.link(info.link).units.clone();
        let (mut objects, mut stubs) = (Vec::with_capacity(units.len()), Vec::new());
        let mut of_objects = Vec::with_capacity(units.len());
        for unit in units {
            match std::mem::replace(&mut state.units[unit].content, Content::Taken) {
                Content::Object(name, bytes) => {
                    objects.push((name, bytes));
                    of_objects.push(unit);
                }
                Content::Stubs(set) => stubs.push(set),
                Content::Custom(_) | Content::Taken => {}
            }
        }
        let batch = state.take_batch(&of_objects);
        let dylib = state.dylib(info.dylib);
        (
            batch,
            objects,
            stubs,
            Arc::clone(&dylib.order),
            Arc::clone(&dylib.memory),
            Arc::clone(&dylib.sources),
            Arc::clone(&state.link(info.link).runtime),
        )
    };
    lock(&runtime).reporter = Reporter::new(core.audience, &core.workers);
    let resolver = Arc::clone(&lock(&sources).resolver);
    let workers = &core.workers;
    let (mut batch, mut places) = match batch {
        Some((batch, places)) => {
            objects.drain(..places.len());
            (batch, places)
        }
        None => {
            let objects = std::mem::take(&mut objects);
            let batch = Batch::read(core.arch, workers, &info.dylib_name, objects)?;
            let places = (0..batch.objects.len()).collect();
            (batch, places)
        }
    };
    if !objects.is_empty() {
        let first = batch.objects.len();
        batch.add(workers, objects)?;
        places.extend(first..batch.objects.len());
    }
    batch.find(&core.read().pool);
    let (mut symbols, lost) = {
        let state = core.read();
        let (symbols, lost) = state.divide(info, &batch, &places, workers);
        let missing = state.missing(info.link, &symbols, &stubs);
        if !missing.is_empty() {
            return Err(LinkError::Missing { symbols: missing }.into());
        }
        (symbols, lost)
    };
    let Batch {
        mut graph,
        names,
        inputs,
        objects,
        ..
    } = batch;
    let mut active = IdSet::default();
    for input in places.iter().filter_map(|&place| inputs.get(place)) {
        active.insert(input);
    }
    let takes_part = |input: InputId| active.contains(input);

    let chosen = resolve::choose_comdats(&graph, &names, takes_part);
    // A group whose name another link defines is a copy of that one's.
    let lost_names: Set<NameId> = lost.iter().filter_map(|&symbol| names.of(symbol)).collect();
    let mut copies = IdSet::default();
    for comdat in graph.comdats().iter().filter(|_| !lost.is_empty()) {
        let name = names.of(graph.comdat(comdat).signature);
        if name.is_some_and(|name| lost_names.contains(&name)) {
            copies.insert(comdat);
        }
    }
    let keep = |comdat| chosen.contains(comdat) && !copies.contains(comdat);
    add_blocks(&mut graph, workers, inputs, objects, takes_part, keep)?;
    for symbol in lost {
        if graph.symbol_flags(symbol).is_definition() {
            graph.make_external(symbol)?;
        }
    }
    let resolution = resolve::resolve(&mut graph, &names, takes_part, workers)?;
    resolver.share_variables(&mut graph, &names, &resolution)?;
    let mut roots: Vec<SymbolId> = symbols.iter().map(|&(_, symbol)| symbol).collect();
    let mut made_stubs = Vec::with_capacity(stubs.len());
    for set in &mut stubs {
        let state = core.read();
        let table = &state.dylib(info.dylib).table;
        // Those that a stronger definition replaced are not made.
        set.stubs.retain(|stub| {
            let entry = table.get(stub.name);
            entry.is_some_and(|entry| entry.owner == Owner::Link(info.link))
        });
        let text = |name| state.pool.text(name).to_vec();
        if set.is_lazy() {
            core.only_here("linking functions when they are called")?;
        }
        let made = stubs::make(&mut graph, core.arch, set, core.reentry.words(), text)?;
        roots.extend(made.roots());
        symbols.extend(&made.symbols);
        made_stubs.push(made);
    }
    times.step("read and resolve");

    let mut passes = Passes::default();
    core.each_plugin(|plugin| plugin.modify_passes(info, &graph, &mut passes));
    let unlinked = save::Unlinked::default();
    if core.keep {
        passes.pre_prune.push(save::keep(&unlinked));
    }
    let context = LinkTask {
        core: Arc::clone(core),
        info: info.clone(),
        order,
        symbols,
        stubs: made_stubs,
        unlinked,
        base: Context {
            resolver,
            runtime,
            arch: core.arch,
            execute: core.execute,
            made: Mutex::default(),
        },
    };
    let job = Job {
        graph,
        arch: core.arch,
        names,
        resolution,
        roots,
        passes,
        memory,
        workers: Arc::clone(&core.workers),
        times,
    };
    Ok((job, context))
}

impl State {
    /// Which definitions of objects are a link's own, and which are copies of what is defined
    /// elsewhere.
    fn divide(
        &self,
        info: &LinkInfo,
        batch: &Batch,
        places: &[usize],
        workers: &Workers,
    ) -> (Vec<(Name, SymbolId)>, Vec<SymbolId>) {
        /// Of a symbol, its records and what the dylib has of its name.
        const BYTES_PER_SYMBOL: usize = 32;
        let table = &self.dylib(info.dylib).table;
        let cost = batch.graph.n_symbols() * BYTES_PER_SYMBOL;
        // Nothing that workers do takes the session's lock.
        let parts = workers.map(cost, workers.cut(cost, places.len()), |run| {
            let (mut own, mut lost) = (Vec::new(), Vec::new());
            for (name, symbol) in places[run]
                .iter()
                .flat_map(|&place| batch.definitions(place))
            {
                match table.get(name) {
                    Some(entry) if entry.owner == Owner::Link(info.link) => {
                        own.push((name, symbol));
                    }
                    Some(_) => lost.push(symbol),
                    None => {}
                }
            }
            (own, lost)
        });
        let (mut own, mut lost) = (Vec::new(), Vec::new());
        for (part, others) in parts {
            own.extend(part);
            lost.extend(others);
        }
        (own, lost)
    }

    /// What a unit promised that its object does not define.
    fn missing(
        &self,
        link: LinkId,
        symbols: &[(Name, SymbolId)],
        stubs: &[StubSet],
    ) -> Vec<String> {
        let link = self.link(link);
        if !link.units.iter().any(|&unit| self.units[unit].is_promise) {
            return Vec::new();
        }
        let mut owed: Set<Name> = link.names.iter().copied().collect();
        for (name, _) in symbols {
            owed.remove(name);
        }
        for stub in stubs.iter().flat_map(|set| &set.stubs) {
            owed.remove(&stub.name);
        }
        let mut missing: Vec<String> = owed.iter().map(|&name| self.pool.display(name)).collect();
        missing.sort_unstable();
        missing
    }
}

/// What a link of a session asks, and what it tells.
struct LinkTask {
    core: Arc<Core>,
    info: LinkInfo,
    order: SearchOrder,
    /// The definitions that the session knows.
    symbols: Vec<(Name, SymbolId)>,
    stubs: Vec<MadeStubs>,
    /// The graph before the link, where it is kept.
    unlinked: save::Unlinked,
    base: Context,
}

/// Where something is that is not of a link's own graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// In the dylib, all of which one reservation holds.
    Own,
    /// At an address.
    At(u64),
    /// Nowhere: it is a number, which no stub could stand for.
    Value(u64),
    /// Not yet anywhere.
    Later,
}

impl LinkTask {
    /// What the session says of a name.
    fn known(&self, text: &[u8]) -> Option<Known> {
        let state = self.core.read();
        let name = state.pool.find(text)?;
        if state.dylib(self.info.dylib).made.contains_key(&name) {
            return Some(Known::Own);
        }
        let mut found = state.search(&self.order, name);
        // A definition that its own link asks for was discarded or made external.
        if found.is_some_and(|found| {
            found.name == name && found.entry.owner == Owner::Link(self.info.link)
        }) {
            let others = self
                .order
                .iter()
                .filter(|(dylib, _)| *dylib != self.info.dylib);
            found = state.search(&others.copied().collect::<Vec<_>>(), name);
        }
        let Some(found) = found else {
            let &address = state.provided.get(&name)?;
            return Some(Known::At(address));
        };
        let entry = found.entry;
        Some(match entry.owner {
            Owner::Absolute if entry.flags.contains(SymbolFlags::CALLABLE) => {
                Known::At(entry.address)
            }
            Owner::Absolute => Known::Value(entry.address),
            _ if found.dylib == self.info.dylib => Known::Own,
            _ if state.state_of(&entry) >= SymbolState::Resolved => Known::At(entry.address),
            _ => Known::Later,
        })
    }
}

impl LinkContext for LinkTask {
    fn prepare(&self, graph: &LinkGraph, externals: &[SymbolId]) {
        let ask = |&symbol: &SymbolId| {
            let (name, flags) = (graph.symbol_name(symbol), graph.symbol_flags(symbol));
            let is_weak = flags.contains(SymbolFlags::WEAKLY_REFERENCED);
            let is_wanted = !flags.contains(SymbolFlags::TLS) && self.known(name).is_none();
            is_wanted.then_some((name, is_weak))
        };
        self.base.resolver.forget_missing();
        self.base
            .resolver
            .prefetch(externals.iter().filter_map(ask));
    }

    fn reach(&self, graph: &LinkGraph, symbol: SymbolId, window: Option<(u64, u64)>) -> Reach {
        const REACH: u64 = (1 << 31) - (1 << 16);
        if graph.symbol_flags(symbol).contains(SymbolFlags::TLS) {
            return Reach::Near;
        }
        let is_near = |address: u64| {
            window.is_some_and(|(start, end)| {
                address.abs_diff(start) < REACH && address.abs_diff(end) < REACH
            })
        };
        match self.known(graph.symbol_name(symbol)) {
            Some(Known::Own) => Reach::Near,
            Some(Known::At(address) | Known::Value(address)) if is_near(address) => Reach::Near,
            Some(Known::Value(_)) => Reach::FarValue,
            Some(Known::At(_) | Known::Later) => Reach::Far,
            None => self.base.resolver.reach(graph, symbol, window),
        }
    }

    fn is_linked(&self, name: &[u8]) -> bool {
        self.known(name).is_some()
    }

    fn thread_local(&self, size: u64, align: u64) -> Result<i64, LinkError> {
        self.base.thread_local(size, align)
    }

    fn notify_resolved(&self, resolved: &Resolved<'_>) {
        let Resolved {
            graph,
            names,
            resolution,
            layout,
            tls,
        } = *resolved;
        let address = |symbol: SymbolId| {
            let symbol = resolution.prevailing(symbol);
            let address = layout.symbol(symbol);
            if graph.symbol_flags(symbol).contains(SymbolFlags::TLS)
                && let Some(tls) = tls
                && let Some(offset) = tls.tp_offset
            {
                return address
                    .wrapping_sub(tls.image)
                    .wrapping_add(offset.cast_unsigned());
            }
            address
        };
        let (mut symbols, mut gone) = (Vec::with_capacity(self.symbols.len()), Vec::new());
        for &(name, symbol) in &self.symbols {
            let prevailing = resolution.prevailing(symbol);
            if graph.symbol_flags(prevailing).is_definition() {
                symbols.push((name, address(symbol)));
            } else {
                gone.push(name);
            }
        }
        let mut made = Vec::new();
        for text in MADE {
            let symbol = names
                .find(graph, text)
                .and_then(|name| resolution.of_name(name));
            if let Some(symbol) = symbol
                && graph.symbol_flags(symbol).is_definition()
            {
                let name = self.core.write().pool.intern(text);
                made.push((name, address(symbol)));
            }
        }
        let mut words = Vec::new();
        for stubs in &self.stubs {
            words.extend(
                stubs
                    .words
                    .iter()
                    .map(|&(name, word)| (name, address(word))),
            );
            let core = &self.core;
            stubs.place(&core.trampolines, core.arch, self.info.link, address);
        }
        self.core
            .resolved(self.info.link, &symbols, &made, &words, &gone);
    }

    fn look_up(&self, externals: Vec<External>, then: OnLookedUp) {
        // What is neither the session's nor becomes so is asked for where the dylib's libraries
        // are.
        let asks: Vec<Ask> = externals
            .iter()
            .map(|external| Ask {
                name: external.name.clone(),
                is_weak: external.weak,
                is_tls: external.is_tls,
            })
            .collect();
        let resolver = Arc::clone(&self.base.resolver);
        let asking = Arc::clone(&self.core);
        let made: Vec<Option<u64>> = {
            let state = self.core.read();
            let made = &state.dylib(self.info.dylib).made;
            let address = |external: &External| {
                let name = state.pool.find(&external.name)?;
                match made.get(&name) {
                    Some(&(_, address)) => Some(address),
                    None if state.search(&self.order, name).is_some() => None,
                    None => state.provided.get(&name).copied(),
                }
            };
            externals.iter().map(address).collect()
        };
        let (core, order, own) = (
            Arc::clone(&self.core),
            Arc::clone(&self.order),
            self.info.dylib,
        );
        // Libraries of the other dylibs, which come behind this one's.
        let others = move |external: &External| {
            let others = order.iter().filter(|(dylib, _)| *dylib != own).copied();
            let others: Vec<_> = others.collect();
            core.outside(&others, external)
        };
        let on_found = move |answer: Addresses| match answer {
            Ok(addresses) => {
                let inside: Vec<Option<u64>> = made
                    .iter()
                    .zip(addresses)
                    .map(|(made, found)| made.or(found))
                    .collect();
                let outside: Vec<External> = externals
                    .iter()
                    .zip(&inside)
                    .filter(|(_, found)| found.is_none())
                    .map(|(external, _)| external.clone())
                    .collect();
                let mut found = resolver.look_up(&outside).into_iter();
                let answers = inside.into_iter().zip(&externals);
                let answers = answers.map(|(address, external)| match address {
                    Some(address) => Ok(Some(address)),
                    None => match found.next() {
                        Some(Ok(None)) | None => match others(external) {
                            None if platform::is_symbol(&external.name) => {
                                let here = asking.only_here("asking the session from linked code");
                                here.map(|()| None)
                            }
                            found => Ok(found),
                        },
                        Some(found) => found,
                    },
                });
                then(answers.collect());
            }
            // The link failed with the one that it depends on, which has told why; or nobody can be
            // asked any more.
            Err(error) => {
                let gone = asking.failure();
                let answer = externals.iter().map(|external| {
                    if let Some(error) = &gone {
                        return Err(error.clone());
                    }
                    Err(LinkError::Dependence {
                        name: String::from_utf8_lossy(&external.name).into_owned(),
                        why: error.to_string(),
                    })
                });
                then(answer.collect());
            }
        };
        self.core.look_up(
            &self.order,
            asks,
            SymbolState::Resolved,
            Some(self.info.link),
            Box::new(on_found),
        );
    }

    fn actions(
        &self,
        linked: &Linked<'_>,
        read: &mut dyn FnMut(u64, &mut [u8]),
    ) -> Result<Vec<Action>, LinkErrors> {
        self.base.actions(linked, read)
    }

    fn notify_finalized(&self, mut finished: Finished) {
        let link = self.info.link;
        let segments = finished.layout.segments.iter();
        let code = segments.filter(|(_, segment)| segment.kind == SegmentKind::Code);
        let code = code.map(|(base, _)| *base);
        self.base.finalized(finished.allocation.clone(), code);
        let failure = {
            let mut state = self.core.write();
            let keep = self.core.keep;
            let state = state.link_mut(link);
            state.times = std::mem::take(&mut finished.times.steps);
            state.finished = keep.then(|| Arc::new(finished));
            state.unlinked = lock(&self.unlinked).take().map(Arc::new);
            state.failure.is_some() || state.is_removed
        };
        if failure {
            let memory = Arc::clone(&self.core.read().dylib(self.info.dylib).memory);
            // What the system says has nobody to be told: the link has failed already.
            give_back(&self.base.runtime, &*memory);
            return;
        }
        let mut refusals = Vec::new();
        self.core.each_plugin(|plugin| {
            refusals.extend(plugin.notify_emitted(&self.info).err());
        });
        if refusals.is_empty() {
            self.core.emitted(link);
        } else {
            let refused = |why| LinkError::Pass {
                pass: "notify_emitted".to_owned(),
                why,
            };
            let errors = refusals.into_iter().map(refused).collect();
            self.core.failed(link, LinkErrors(errors));
        }
    }

    fn notify_failed(&self, errors: LinkErrors) {
        self.core.failed(self.info.link, errors);
    }
}

/// Gives back what a link brought to memory, last things first; answers what the system says.
pub(crate) fn give_back(runtime: &Mutex<Runtime>, memory: &dyn MemoryManager) -> Vec<MemoryError> {
    let allocations = {
        let mut runtime = lock(runtime);
        runtime.initializers.clear();
        runtime.finalizers.clear();
        std::mem::take(&mut runtime.allocations)
    };
    allocations
        .into_iter()
        .rev()
        .filter_map(|allocation| memory.deallocate(allocation).err())
        .collect()
}

/// Where the code is that a link brought to memory: start and size of each range.
pub(crate) fn code_of(runtime: &Mutex<Runtime>) -> Vec<(u64, u64)> {
    let runtime = lock(runtime);
    let ranges = runtime.allocations.iter().flat_map(|it| &it.ranges);
    let code = ranges.filter(|(start, _)| runtime.code.contains(start));
    code.copied().collect()
}

/// Gives back the code that a link brought to memory, and what unwinders and debuggers know of it.
pub(crate) fn give_code_back(
    runtime: &Mutex<Runtime>,
    memory: &dyn MemoryManager,
) -> Vec<MemoryError> {
    let mut runtime = lock(runtime);
    let code = std::mem::take(&mut runtime.code);
    let allocations = runtime.allocations.iter_mut();
    allocations
        .filter_map(|allocation| memory.withdraw(allocation, &code).err())
        .collect()
}
