//! What the link of a dylib asks of its surroundings, and what it has them do: the link's context
//! for code that runs in this process.

use crate::debug::{Registration, Reporter};
use crate::error::{LinkError, LinkErrors, MemoryError};
use crate::link::{External, Finished, LinkContext, Linked, OnLookedUp, Times};
use crate::memory::{Action, Allocation};
use crate::process::bindings;
use crate::resolver::Resolver;
use crate::runtime::exit::Finalizers;
use crate::runtime::frames::Registered;
use crate::runtime::init::{self, Array};
use crate::runtime::tls::ThreadBlock;
use clinch_graph::index::int::u64_of;
use clinch_graph::{LinkGraph, SectionKind, SymbolId};
use clinch_link::layout::Layout;
use clinch_link::start_stop;
use clinch_link::tables::Reach;
use clinch_target::Arch;
use std::sync::{Arc, Mutex, PoisonError};

/// What the process knows of a dylib.
#[derive(Debug, Default)]
pub(crate) struct Runtime {
    pub(crate) frames: Vec<Registered>,
    /// Who describes links to debuggers and profilers, when somebody is to be told.
    pub(crate) reporter: Option<Reporter>,
    /// What debuggers know.
    pub(crate) registrations: Vec<Registration>,
    pub(crate) blocks: Vec<ThreadBlock>,
    /// Initializers that are still to be run, and finalizers that go with them.
    pub(crate) initializers: Vec<Array>,
    pub(crate) finalizers: Vec<Array>,
    /// Initializers that ran, and the finalizers that go with them.
    pub(crate) ran: (Vec<Array>, Vec<Array>),
    /// Variables of libraries that have their place in the dylib.
    pub(crate) copies: Vec<Copied>,
    /// What handlers are registered with.
    pub(crate) handles: Vec<u64>,
    /// Finalizers whose initializers ran.
    pub(crate) registered: Vec<Finalizers>,
    pub(crate) allocations: Vec<Allocation>,
    /// Where the segments with code begin.
    pub(crate) code: Vec<u64>,
}

/// A library's variable that was copied to where linked code reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    from: u64,
    to: u64,
    size: u64,
    is_address: fn(u32) -> bool,
}

impl Copied {
    /// Gives the variable its old place, with the value it has now.
    ///
    /// # Safety
    /// The copy must still be there, and nobody may write to it.
    pub(crate) unsafe fn put_back(self) {
        // SAFETY: the caller's promise; the library is never closed.
        unsafe { init::copy(self.to, self.from, self.size) };
        bindings::rebind(self.to, self.from, self.is_address);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a dylib's link asks and tells.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) runtime: Arc<Mutex<Runtime>>,
    pub(crate) arch: &'static Arch,
    pub(crate) execute: bool,
    pub(crate) block: Mutex<Option<ThreadBlock>>,
    pub(crate) outcome: Arc<Mutex<Option<Result<Times, LinkErrors>>>>,
}

impl LinkContext for Context {
    fn reach(&self, graph: &LinkGraph, symbol: SymbolId, window: Option<(u64, u64)>) -> Reach {
        self.resolver.reach(graph, symbol, window)
    }

    fn is_linked(&self, name: &[u8]) -> bool {
        self.resolver.linked(name).is_some()
    }

    fn thread_local(&self, size: u64, align: u64) -> Result<i64, LinkError> {
        if !self.execute {
            // Where a program's block would end.
            return Ok(size
                .next_multiple_of(align.max(1))
                .cast_signed()
                .wrapping_neg());
        }
        let block = ThreadBlock::new(size, align)?;
        let offset = block.tp_offset();
        *lock(&self.block) = Some(block);
        Ok(offset)
    }

    fn look_up(&self, externals: Vec<External>, then: OnLookedUp) {
        then(self.resolver.look_up(&externals));
    }

    fn actions(&self, linked: &Linked<'_>) -> Result<Vec<Action>, LinkErrors> {
        if !self.execute {
            return Ok(Vec::new());
        }
        let mut actions: Vec<Action> = Vec::new();
        let address = |symbol| linked.layout.symbol(symbol);

        // Copies of a library's variables, to which the libraries are then pointed.
        let is_address = self.arch.elf.map(|elf| elf.is_dynamic_address);
        for &(copy, real) in &linked.tables.copies {
            let (from, to) = (address(real), address(copy));
            let size = linked.graph.symbol_size(copy);
            let runtime = Arc::clone(&self.runtime);
            actions.push(Box::new(move || {
                // SAFETY: a library's variable and the block that was made for its copy.
                unsafe { init::copy(from, to, size) };
                if let Some(is_address) = is_address {
                    bindings::rebind(from, to, is_address);
                    lock(&runtime).copies.push(Copied {
                        from,
                        to,
                        size,
                        is_address,
                    });
                }
                Ok(())
            }));
        }
        // Functions that choose their implementation.
        for &(entry, resolver) in &linked.tables.ifuncs {
            let (entry, resolver) = (address(entry), address(resolver));
            actions.push(Box::new(move || {
                // SAFETY: code is executable and its other fixups are applied; the entry is a
                // word of the GOT, which is sealed later.
                unsafe { init::write_word(entry, init::resolve_ifunc(resolver)) };
                Ok(())
            }));
        }
        if let Some((image, _)) = linked.thread_local
            && let Some(block) = lock(&self.block).take()
        {
            let image = image.to_vec();
            let runtime = Arc::clone(&self.runtime);
            actions.push(Box::new(move || {
                block.initialize(&image)?;
                lock(&runtime).blocks.push(block);
                Ok(())
            }));
        }
        if let Some((begin, size)) = linked.layout.range_of(linked.graph, SectionKind::EhFrame)
            && size > 4
        {
            let runtime = Arc::clone(&self.runtime);
            actions.push(Box::new(move || {
                // SAFETY: records that the link laid out as one list with its end, in memory that
                // lives until the registration is dropped.
                lock(&runtime)
                    .frames
                    .push(unsafe { Registered::new(begin) });
                Ok(())
            }));
        }
        let reporter = lock(&self.runtime).reporter.clone();
        if let Some(reporter) = reporter {
            let description = reporter.describe(linked.graph, linked.layout, self.arch)?;
            let runtime = Arc::clone(&self.runtime);
            actions.push(Box::new(move || {
                let mut read = |address, bytes: &mut [u8]| {
                    let to = u64_of(bytes.as_mut_ptr().expose_provenance());
                    // SAFETY: the description names nothing but what the link placed, and that
                    // memory is filled.
                    unsafe { init::copy(address, to, u64_of(bytes.len())) };
                };
                let registration = description
                    .publish(&mut read)
                    .map_err(|error| MemoryError::Runtime(error.to_string()))?;
                lock(&runtime).registrations.extend(registration);
                Ok(())
            }));
        }
        let arrays = |fini| -> Vec<Array> { arrays(linked.graph, linked.layout, fini) };
        let (initializers, finalizers) = (arrays(false), arrays(true));
        let (runtime, handle) = (Arc::clone(&self.runtime), linked.handle);
        actions.push(Box::new(move || {
            let mut runtime = lock(&runtime);
            runtime.handles.extend(handle);
            runtime.initializers.extend(initializers);
            runtime.finalizers.splice(0..0, finalizers);
            Ok(())
        }));
        Ok(actions)
    }

    fn notify_finalized(&self, finished: Finished) {
        lock(&self.runtime)
            .allocations
            .push(finished.allocation.clone());
        *lock(&self.outcome) = Some(Ok(finished.times.clone()));
        let mut all = self
            .resolver
            .finished
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(finished);
    }

    fn notify_failed(&self, errors: LinkErrors) {
        *lock(&self.outcome) = Some(Err(errors));
    }
}

fn arrays(graph: &LinkGraph, layout: &Layout, fini: bool) -> Vec<Array> {
    let word = u64::from(graph.target().pointer_size);
    start_stop::arrays(graph, |block| layout.block(block).is_some(), fini)
        .into_iter()
        .filter_map(|(block, kind)| {
            Some(Array {
                address: layout.block(block)?,
                len: graph.block_size(block) / word,
                backward: start_stop::runs_backward(kind),
            })
        })
        .collect()
}
