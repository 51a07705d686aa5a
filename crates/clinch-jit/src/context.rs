//! What the link of a dylib asks of its surroundings, and what it has them do.

use crate::debug::Reporter;
use crate::error::{LinkError, LinkErrors};
use crate::link::Linked;
use crate::memory::{Action, Allocation};
use crate::resolver::Resolver;
use clinch_executor::wire::{self, Array, Step, ThreadLocal};
use clinch_graph::{LinkGraph, SectionKind};
use clinch_link::layout::Layout;
use clinch_link::start_stop;
use clinch_target::Arch;
use std::sync::{Arc, Mutex, PoisonError};

/// What a process knows of a link.
#[derive(Debug, Default)]
pub(crate) struct Runtime {
    /// Who describes links to debuggers and profilers, when somebody is to be told.
    pub(crate) reporter: Option<Reporter>,
    /// Initializers that are still to be run, and finalizers that go with them.
    pub(crate) initializers: Vec<Array>,
    pub(crate) finalizers: Vec<Array>,
    /// Initializers that ran, and the finalizers that go with them.
    pub(crate) ran: (Vec<Array>, Vec<Array>),
    /// What handlers are registered with.
    pub(crate) handles: Vec<u64>,
    /// Finalizers whose initializers ran, by the addresses that they are registered with.
    pub(crate) registered: Vec<u64>,
    pub(crate) allocations: Vec<Allocation>,
    /// Where the segments with code begin.
    pub(crate) code: Vec<u64>,
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
    pub(crate) made: Mutex<Made>,
}

/// What a link made that is the process's to know when it is done.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Given back unless the link gets to be done.
    block: Option<ThreadLocal>,
    initializers: Vec<Array>,
    finalizers: Vec<Array>,
    handle: Option<u64>,
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(ThreadLocal { block, .. }) = lock(&self.made).block {
            self.resolver.at.release_thread_local(block);
        }
    }
}

impl Context {
    /// The offset from the thread pointer of a new thread-local block.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn thread_local(&self, size: u64, align: u64) -> Result<i64, LinkError> {
        if !self.execute {
            // Where a program's block would end.
            return Ok(size
                .next_multiple_of(align.max(1))
                .cast_signed()
                .wrapping_neg());
        }
        let block = self.resolver.at.reserve_thread_local(size, align)?;
        lock(&self.made).block = Some(block);
        Ok(block.offset)
    }

    /// What to do where the code is.
    ///
    /// # Errors
    /// What cannot be described to debuggers.
    pub(crate) fn actions(
        &self,
        linked: &Linked<'_>,
        read: &mut dyn FnMut(u64, &mut [u8]),
    ) -> Result<Vec<Action>, LinkErrors> {
        if !self.execute {
            return Ok(Vec::new());
        }
        let mut actions: Vec<Action> = Vec::new();
        let address = |symbol| linked.layout.symbol(symbol);
        let mut made = lock(&self.made);

        // Copies of a library's variables, to which the libraries are then pointed.
        for &(copy, real) in &linked.tables.copies {
            let (from, to) = (address(real), address(copy));
            let size = linked.graph.symbol_size(copy);
            let moved = |from, to| wire::Action::MoveVariable { from, to, size };
            actions.push(with_undo(moved(from, to), moved(to, from)));
        }
        // Functions that choose their implementation.
        for &(entry, resolver) in &linked.tables.ifuncs {
            let (slot, resolver) = (address(entry), address(resolver));
            actions.push(Action::Do(Step {
                action: wire::Action::ResolveIfunc { slot, resolver },
                undo: None,
            }));
        }
        if let Some((image, size)) = linked.thread_local
            && let Some(ThreadLocal { block, .. }) = made.block
        {
            actions.push(with_undo(
                wire::Action::InitializeThreadLocal { block, image, size },
                wire::Action::ReleaseThreadLocal { block },
            ));
        }
        if let Some((begin, size)) = linked.layout.range_of(linked.graph, SectionKind::EhFrame)
            && size > 4
        {
            actions.push(with_undo(
                wire::Action::RegisterFrames { begin },
                wire::Action::DeregisterFrames { begin },
            ));
        }
        let reporter = lock(&self.runtime).reporter.clone();
        if let Some(reporter) = reporter {
            let image = reporter.describe(linked.graph, linked.layout, self.arch, read)?;
            actions.extend(image.map(Action::RegisterImage));
        }
        made.handle = linked.handle;
        made.initializers = arrays(linked.graph, linked.layout, false);
        made.finalizers = arrays(linked.graph, linked.layout, true);
        Ok(actions)
    }

    /// The link is done: what it made is the process's.
    pub(crate) fn finalized(&self, allocation: Allocation, code: impl Iterator<Item = u64>) {
        let Made {
            initializers,
            finalizers,
            handle,
            ..
        } = std::mem::take(&mut *lock(&self.made));
        let mut runtime = lock(&self.runtime);
        runtime.allocations.push(allocation);
        runtime.code.extend(code);
        runtime.handles.extend(handle);
        runtime.initializers.extend(initializers);
        runtime.finalizers.splice(0..0, finalizers);
    }
}

fn with_undo(action: wire::Action, undo: wire::Action) -> Action {
    Action::Do(Step {
        action,
        undo: Some(undo),
    })
}

fn arrays(graph: &LinkGraph, layout: &Layout, fini: bool) -> Vec<Array> {
    let word = u64::from(graph.target().pointer_size);
    start_stop::arrays(graph, |block| layout.block(block).is_some(), fini)
        .into_iter()
        .filter_map(|(block, kind)| {
            Some(Array {
                address: layout.block(block)?,
                count: graph.block_size(block) / word,
                backward: start_stop::runs_backward(kind),
            })
        })
        .collect()
}
