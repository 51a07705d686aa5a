//! The link, in four phases. Read this first.
//!
//! 1. Before memory: pre-prune passes, call frame records, prune, what the linker defines, tables,
//!    post-prune passes, plan; then allocate.
//! 2. Blocks have addresses: post-allocation passes; the context is told; then externals are
//!    looked up.
//! 3. Everything has an address: pre-fixup passes, bypasses, contents and fixups, post-fixup
//!    passes; then memory is finalized.
//! 4. The context is told.
//!
//! Each phase ends by handing the next one, as a continuation, to whoever does the slow thing in
//! between. What a phase found out is in the state that it hands on; an error ends the link, gives
//! memory back, and goes to the context once.

use crate::error::{LinkError, LinkErrors};
use crate::linker_defined::{self, AfterLayout};
use crate::memory::{Action, Allocation, InFlight, MemoryManager, Request};
use crate::passes::{Passes, failed};
use crate::undefined;
use clinch_graph::index::int::usize_of_u64;
use clinch_graph::index::map::Map;
use clinch_graph::{BlockId, Id, LinkGraph, Names, SymbolFlags, SymbolId, Workers};
use clinch_link::layout::{self, Layout, Plan, SegmentKind};
use clinch_link::start_stop::{self, Bounds};
use clinch_link::tables::{self, Reach, TableRules};
use clinch_link::{Liveness, Resolution, Tables, bypass, common, fixup, frames, prune};
use clinch_target::{Arch, TlsBlock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a link needs from who wants it. Methods may be called from any thread, one at a time.
pub trait LinkContext: Send + Sync {
    /// These are the external symbols that live blocks refer to; how each is reached is asked next.
    fn prepare(&self, _graph: &LinkGraph, _externals: &[SymbolId]) {}

    /// How code anywhere in `window` reaches an external symbol.
    fn reach(&self, graph: &LinkGraph, symbol: SymbolId, window: Option<(u64, u64)>) -> Reach;

    /// Whether an earlier link of the same dylib defined a name.
    fn is_linked(&self, _name: &[u8]) -> bool {
        false
    }

    /// The offset from the thread pointer of a new thread-local block.
    ///
    /// # Errors
    /// There is no room for it.
    fn thread_local(&self, size: u64, align: u64) -> Result<i64, LinkError>;

    /// Blocks have addresses, but contents are not there yet.
    fn notify_resolved(&self, _resolved: &Resolved<'_>) {}

    /// Finds the addresses of external symbols that live blocks refer to, and goes on with the
    /// answers in the same order.
    fn look_up(&self, externals: Vec<External>, then: OnLookedUp);

    /// What to do where the code is, in order, when it is executable. `read` fills a buffer with
    /// the linked bytes at an address.
    ///
    /// # Errors
    /// What makes the link fail.
    fn actions(
        &self,
        linked: &Linked<'_>,
        read: &mut dyn FnMut(u64, &mut [u8]),
    ) -> Result<Vec<Action>, LinkErrors>;

    /// The link is done.
    fn notify_finalized(&self, finished: Finished);

    /// The link failed.
    fn notify_failed(&self, errors: LinkErrors);
}

/// An external symbol that is to be found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct External {
    /// The symbol.
    pub symbol: SymbolId,
    /// Its name.
    pub name: Vec<u8>,
    /// Whether it may be missing.
    pub weak: bool,
    /// Whether it is a thread-local variable: the answer is then its offset from the thread
    /// pointer.
    pub is_tls: bool,
}

/// An answer of a look-up: the address, or `None` when nothing defines the name.
pub type Found = Result<Option<u64>, LinkError>;
/// What to go on with when externals were looked up.
pub type OnLookedUp = Box<dyn FnOnce(Vec<Found>) + Send>;

/// A graph whose definitions have addresses.
#[derive(Debug)]
pub struct Resolved<'a> {
    /// The graph.
    pub graph: &'a LinkGraph,
    /// The names of its global symbols.
    pub names: &'a Names,
    /// Which definition prevails.
    pub resolution: &'a Resolution,
    /// Addresses.
    pub layout: &'a Layout,
    /// Where its thread-local variables are.
    pub tls: Option<TlsBlock>,
}

/// A linked graph whose contents are final, for the context to tell what has to be done with it.
#[derive(Debug)]
pub struct Linked<'a> {
    /// The graph.
    pub graph: &'a LinkGraph,
    /// What is in memory.
    pub liveness: &'a Liveness,
    /// Addresses.
    pub layout: &'a Layout,
    /// What tables were made.
    pub tables: &'a Tables,
    /// Address and size of the initial image of thread-local variables.
    pub thread_local: Option<(u64, u64)>,
    /// The address by which handlers for the dylib's end are registered, when the link made it.
    pub handle: Option<u64>,
}

/// A finished link.
#[derive(Debug)]
pub struct Finished {
    /// The graph.
    pub graph: LinkGraph,
    /// Names and what they mean.
    pub names: Names,
    /// Which definition prevails.
    pub resolution: Resolution,
    /// Addresses.
    pub layout: Layout,
    /// Where its thread-local variables are.
    pub tls: Option<TlsBlock>,
    /// The memory.
    pub allocation: Allocation,
    /// How long each step took.
    pub times: Times,
}

/// Steps with the time they took, in the order in which they ran.
#[derive(Clone, Debug)]
pub struct Times {
    /// Names and durations.
    pub steps: Vec<(&'static str, Duration)>,
    last: Instant,
}

impl Times {
    /// Starts the clock.
    pub fn new() -> Self {
        Self {
            steps: Vec::new(),
            last: Instant::now(),
        }
    }

    /// Ends a step, which began at the end of the one before it.
    pub fn step(&mut self, name: &'static str) {
        let now = Instant::now();
        self.steps.push((name, now - self.last));
        self.last = now;
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

/// A link to be done: a graph with all inputs read and resolved.
#[derive(Debug)]
pub struct Job {
    /// The graph.
    pub graph: LinkGraph,
    /// Its architecture.
    pub arch: &'static Arch,
    /// The names of its global symbols.
    pub names: Names,
    /// Which definition prevails.
    pub resolution: Resolution,
    /// Symbols that must be in memory.
    pub roots: Vec<SymbolId>,
    /// Passes to run.
    pub passes: Passes,
    /// Where to place things.
    pub memory: Arc<dyn MemoryManager>,
    /// Who works.
    pub workers: Arc<Workers>,
    /// The clock.
    pub times: Times,
}

/// What phase 1 found out.
struct State {
    job: Job,
    bounds: Vec<Bounds>,
    after_layout: AfterLayout,
    liveness: Liveness,
    tables: Tables,
    /// The dylib's thread-local block, from phase 2 on.
    tls: Option<TlsBlock>,
    /// Symbols with ids from here on were made after pruning.
    first_made: usize,
}

/// Links a graph; everything else is told to the context.
pub fn link(job: Job, context: Arc<dyn LinkContext>) {
    match phase_1(job, &*context) {
        Ok((state, plan)) => {
            let memory = Arc::clone(&state.job.memory);
            let low = state.liveness.needs_low;
            let request = plan.outline();
            let then = move |allocated: Result<Box<dyn InFlight>, _>| match allocated {
                Ok(memory) => phase_2(state, plan, memory, context),
                Err(error) => context.notify_failed(LinkError::from(error).into()),
            };
            memory.allocate(
                Request {
                    plan: &request,
                    low,
                },
                Box::new(then),
            );
        }
        Err(errors) => context.notify_failed(errors),
    }
}

/// Up to the plan of what is to be placed.
fn phase_1(mut job: Job, context: &dyn LinkContext) -> Result<(State, Plan), LinkErrors> {
    let graph = &mut job.graph;
    for (name, pass) in &mut job.passes.pre_prune {
        pass(graph).map_err(|why| failed(name, why))?;
    }
    graph.begin_step("frames", None);
    frames::split_with(graph, job.arch, &job.workers)?;
    job.times.step("call frame records");

    graph.begin_step("define", None);
    common::allocate(graph, &job.resolution)?;
    let bounds = start_stop::find(graph, &job.names, &job.resolution);
    let is_linked = |name: &[u8]| context.is_linked(name);
    let after_layout =
        linker_defined::define(graph, job.arch, &job.names, &job.resolution, is_linked)?;
    let roots = job.roots.iter().copied();
    let workers = &job.workers;
    let mut liveness = prune::prune(graph, job.arch, &job.resolution, &bounds, roots, workers)?;
    drop_dead(graph, &liveness, workers);
    job.times.step("prune");

    let (first_block, first_made) = (graph.n_blocks(), graph.n_symbols());
    graph.begin_step("tables", None);
    let window = job.memory.window(liveness.needs_low);
    let externals = liveness.externals.iter().copied();
    let externals: Vec<SymbolId> = externals
        .filter(|&symbol| !after_layout.contains(symbol))
        .collect();
    context.prepare(graph, &externals);
    let mut reaches: Map<SymbolId, Reach> = externals
        .into_iter()
        .map(|symbol| (symbol, context.reach(graph, symbol, window)))
        .collect();
    // What the link itself places is in the window.
    let placed = bounds
        .iter()
        .flat_map(|bounds| [bounds.start, bounds.stop])
        .flatten();
    reaches.extend(
        placed
            .chain(after_layout.ids())
            .map(|symbol| (symbol, Reach::Near)),
    );
    let reach = |symbol| reaches.get(&symbol).copied().unwrap_or(Reach::Far);
    let rules = TableRules {
        reach: &reach,
        static_tls: true,
    };
    let tables = tables::build(
        graph,
        job.arch,
        &job.resolution,
        &liveness,
        &rules,
        &job.workers,
    )?;
    for (name, pass) in &mut job.passes.post_prune {
        pass(graph).map_err(|why| failed(name, why))?;
    }
    frames::terminate(graph)?;
    for index in first_block..graph.n_blocks() {
        liveness.blocks.insert(BlockId::from_index(index));
    }
    job.times.step("tables");

    let plan = layout::plan(graph, &liveness, &bounds);
    job.times.step("plan");
    let tls = None;
    Ok((
        State {
            job,
            bounds,
            after_layout,
            liveness,
            tables,
            tls,
            first_made,
        },
        plan,
    ))
}

/// Removes the blocks that pruning did not reach, so that passes see what will be there.
fn drop_dead(graph: &mut LinkGraph, liveness: &Liveness, workers: &Workers) {
    for index in 0..graph.n_blocks() {
        let block = BlockId::from_index(index);
        if graph.has_block(block) && !liveness.blocks.contains(block) {
            graph.drop_block(block);
        }
    }
    graph.discard_dangling_symbols_with(workers);
}

/// From addresses of blocks to the look-up of externals.
fn phase_2(mut state: State, plan: Plan, memory: Box<dyn InFlight>, context: Arc<dyn LinkContext>) {
    let graph = &mut state.job.graph;
    let mut layout = Layout::new(graph, plan, &memory.bases());
    state.job.times.step("allocate");
    for (name, pass) in &mut state.job.passes.post_allocation {
        if let Err(why) = pass(graph, &layout) {
            return abandon(memory, &*context, failed(name, why).into());
        }
    }
    let workers = &state.job.workers;
    layout.resolve_symbols(graph, &state.job.resolution, |_| None, workers);
    state.tls = match State::thread_local(&layout, &*context) {
        Ok(tls) => tls,
        Err(error) => return abandon(memory, &*context, error.into()),
    };
    context.notify_resolved(&Resolved {
        graph,
        names: &state.job.names,
        resolution: &state.job.resolution,
        layout: &layout,
        tls: state.tls,
    });

    let externals = state.externals();
    let symbols: Vec<SymbolId> = externals.iter().map(|external| external.symbol).collect();
    let next = Arc::clone(&context);
    let then = move |found: Vec<Found>| {
        state.job.times.step("look up");
        phase_3(state, layout, memory, context, &symbols, found);
    };
    next.look_up(externals, Box::new(then));
}

/// From addresses of everything to final memory.
fn phase_3(
    mut state: State,
    mut layout: Layout,
    mut memory: Box<dyn InFlight>,
    context: Arc<dyn LinkContext>,
    externals: &[SymbolId],
    found: Vec<Found>,
) {
    let actions = match fix_up(
        &mut state,
        &mut layout,
        &mut *memory,
        &*context,
        externals,
        found,
    ) {
        Ok(actions) => actions,
        Err(errors) => return abandon(memory, &*context, errors),
    };
    let then = move |finalized: Result<Allocation, _>| match finalized {
        Ok(allocation) => phase_4(state, layout, allocation, &*context),
        Err(error) => context.notify_failed(LinkError::from(error).into()),
    };
    memory.finalize(actions, Box::new(then));
}

fn fix_up(
    state: &mut State,
    layout: &mut Layout,
    memory: &mut dyn InFlight,
    context: &dyn LinkContext,
    externals: &[SymbolId],
    found: Vec<Found>,
) -> Result<Vec<Action>, LinkErrors> {
    let tls = state.tls;
    let addresses = state.addresses(layout, externals, found, tls)?;
    let job = &mut state.job;
    let external = |symbol| addresses.get(&symbol).copied();
    layout.resolve_symbols(&job.graph, &job.resolution, external, &job.workers);
    for (name, pass) in &mut job.passes.pre_fixup {
        pass(&mut job.graph, layout).map_err(|why| failed(name, why))?;
        // It may have made symbols, or moved some.
        layout.resolve_symbols(&job.graph, &job.resolution, external, &job.workers);
    }
    job.graph.begin_step("bypass", None);
    bypass::run(
        &mut job.graph,
        job.arch,
        &job.resolution,
        &state.tables,
        layout,
        &job.workers,
    )?;
    job.times.step("bypass");

    let got = state.after_layout.got.map_or_else(
        || {
            layout
                .range_of(&job.graph, clinch_graph::SectionKind::Got)
                .map_or(0, |(at, _)| at)
        },
        |symbol| layout.symbol(symbol),
    );
    let mut errors = Vec::new();
    for segment in 0..layout.segments.len() {
        let memory = memory.working(segment);
        let result = fixup::apply(
            &job.graph,
            job.arch,
            &job.resolution,
            layout,
            segment,
            memory,
            got,
            tls,
            &job.workers,
        );
        errors.extend(result.err().unwrap_or_default());
    }
    if !errors.is_empty() {
        return Err(errors.into());
    }
    job.times.step("fix up");
    for (name, pass) in &mut job.passes.post_fixup {
        for segment in 0..layout.segments.len() {
            let base = layout.segments[segment].0;
            pass(&job.graph, layout, base, memory.working(segment))
                .map_err(|why| failed(name, why))?;
        }
    }

    let thread_local = tls_segment(layout).map(|segment| {
        let (base, segment) = &layout.segments[segment];
        (*base, segment.content_size)
    });
    let linked = Linked {
        graph: &job.graph,
        liveness: &state.liveness,
        layout,
        tables: &state.tables,
        thread_local,
        handle: state
            .after_layout
            .handle
            .map(|symbol| layout.symbol(symbol)),
    };
    context.actions(&linked, &mut |address, bytes| {
        read(layout, memory, address, bytes);
    })
}

/// Fills a buffer with the linked bytes at an address; what was not linked stays as it is.
fn read(layout: &Layout, memory: &mut dyn InFlight, address: u64, bytes: &mut [u8]) {
    for (number, (base, segment)) in layout.segments.iter().enumerate() {
        let Some(offset) = address.checked_sub(*base).filter(|&at| at < segment.size) else {
            continue;
        };
        let linked = memory.working(number).get(usize_of_u64(offset)..);
        let linked = linked.unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(linked) {
            *to = *from;
        }
        return;
    }
}

fn phase_4(state: State, layout: Layout, allocation: Allocation, context: &dyn LinkContext) {
    let Job {
        graph,
        names,
        resolution,
        mut times,
        ..
    } = state.job;
    times.step("finalize");
    let tls = state.tls;
    let finished = Finished {
        graph,
        names,
        resolution,
        layout,
        tls,
        allocation,
        times,
    };
    context.notify_finalized(finished);
}

fn abandon(memory: Box<dyn InFlight>, context: &dyn LinkContext, errors: LinkErrors) {
    memory.abandon();
    context.notify_failed(errors);
}

fn tls_segment(layout: &Layout) -> Option<usize> {
    layout
        .segments
        .iter()
        .position(|(_, segment)| segment.kind == SegmentKind::ThreadLocal)
}

impl State {
    /// The external symbols that live blocks refer to, but for those that the link itself knows.
    fn externals(&self) -> Vec<External> {
        let graph = &self.job.graph;
        let known = |symbol| {
            self.after_layout.contains(symbol)
                || self
                    .bounds
                    .iter()
                    .any(|bounds| bounds.start == Some(symbol) || bounds.stop == Some(symbol))
        };
        let made = (self.first_made..graph.n_symbols()).map(SymbolId::from_index);
        self.liveness
            .externals
            .iter()
            .copied()
            .chain(made)
            .filter(|&symbol| graph.symbol_flags(symbol).is_external() && !known(symbol))
            .map(|symbol| External {
                symbol,
                name: graph.symbol_name(symbol).to_vec(),
                weak: graph
                    .symbol_flags(symbol)
                    .contains(SymbolFlags::WEAKLY_REFERENCED),
                is_tls: graph.symbol_flags(symbol).contains(SymbolFlags::TLS),
            })
            .collect()
    }

    /// The dylib's thread-local block: there is none when it has no such variables, and then
    /// offsets count from the thread pointer itself.
    fn thread_local(
        layout: &Layout,
        context: &dyn LinkContext,
    ) -> Result<Option<TlsBlock>, LinkError> {
        let Some(segment) = tls_segment(layout) else {
            return Ok(Some(TlsBlock {
                image: 0,
                tp_offset: Some(0),
            }));
        };
        let (image, segment) = &layout.segments[segment];
        let offset = context.thread_local(segment.size, segment.align)?;
        Ok(Some(TlsBlock {
            image: *image,
            tp_offset: Some(offset),
        }))
    }

    /// The addresses of symbols that the graph does not define.
    fn addresses(
        &self,
        layout: &Layout,
        externals: &[SymbolId],
        found: Vec<Found>,
        tls: Option<TlsBlock>,
    ) -> Result<Map<SymbolId, u64>, LinkErrors> {
        let graph = &self.job.graph;
        let mut addresses: Map<SymbolId, u64> =
            self.after_layout.addresses(layout).into_iter().collect();
        for bounds in &self.bounds {
            if let Some((start, end)) = layout.extent(graph, &bounds.blocks) {
                addresses.extend(bounds.start.map(|symbol| (symbol, start)));
                addresses.extend(bounds.stop.map(|symbol| (symbol, end)));
            }
        }
        let (mut missing, mut errors) = (Vec::new(), Vec::new());
        for (&symbol, found) in externals.iter().zip(found) {
            let flags = graph.symbol_flags(symbol);
            match found {
                Ok(Some(address)) if flags.contains(SymbolFlags::TLS) => {
                    // Thread-local symbols have addresses in the image of this dylib's block,
                    // at the distance that the offsets have.
                    let block = tls.unwrap_or(TlsBlock {
                        image: 0,
                        tp_offset: Some(0),
                    });
                    let offset = block.tp_offset.unwrap_or(0).cast_unsigned();
                    addresses.insert(
                        symbol,
                        block.image.wrapping_sub(offset).wrapping_add(address),
                    );
                }
                Ok(Some(address)) => drop(addresses.insert(symbol, address)),
                Ok(None) if flags.contains(SymbolFlags::WEAKLY_REFERENCED) => {}
                Ok(None) => missing.push(symbol),
                // Many may fail for one cause.
                Err(error) if errors.last() == Some(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        if !missing.is_empty() {
            let undefined = undefined::describe(
                graph,
                &self.job.resolution,
                &self.job.names,
                &self.liveness,
                &self.tables,
                &missing,
            );
            errors.extend(undefined.into_iter().map(LinkError::from));
        }
        LinkErrors::or(errors, addresses)
    }
}
