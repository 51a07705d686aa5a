//! Opening and closing dylibs, as a program opens and closes shared libraries: initializers run
//! when a dylib is opened first, after those of the dylibs it looks into, and handlers and
//! finalizers when it was closed as often as it was opened. What is in memory stays.

use super::Session;
use super::core::Core;
use super::dylib::Dylib;
use super::pool::Name;
use super::query::LookUpError;
use super::state::{DylibId, LinkId, Match, Owner, State, SymbolState};
use super::unit::UnitState;
use crate::context::{Runtime, lock};
use crate::runtime::exit::{self, ProgramArguments};
use crate::runtime::init::{self, Arguments};
use clinch_graph::index::int::u32_of;
use clinch_graph::index::map::Set;
use std::sync::{Arc, Mutex};

impl Dylib {
    /// Runs the initializers of what became ready since the last call, in the order of links, and
    /// registers finalizers to run when the process exits or their tracker is removed.
    ///
    /// # Safety
    /// Runs code of the inputs, which must be fit to run in this process.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn initialize(&self, arguments: &ProgramArguments) {
        let _ = self.core.arguments.set(*arguments);
        let initializers = self.core.take_initializers(self.id);
        // SAFETY: the caller's promise; the arrays are in finalized memory.
        unsafe { init::run(&initializers, arguments.arguments()) };
    }

    /// Links all of the dylib, and of the dylibs it looks into; where it was not open, runs
    /// initializers, theirs first. A dylib may be opened several times.
    ///
    /// # Errors
    /// What cannot be linked; nothing is then open that was not.
    ///
    /// # Safety
    /// Runs code of the inputs, which must be fit to run in this process.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn open(&self) -> Result<(), LookUpError> {
        // SAFETY: the caller's promise.
        unsafe { self.core.open(self.id) }
    }

    /// Takes back one [`Dylib::open`]. With the last, handlers that were registered for the dylib
    /// and its finalizers run, then those of the dylibs that only it kept open. Answers whether it
    /// was open.
    ///
    /// # Safety
    /// As [`Dylib::open`].
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn close(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.core.close_dylib(self.id) }
    }
}

impl Core {
    /// # Safety
    /// As [`Dylib::open`].
    #[expect(unsafe_code, reason = "runs linked code")]
    pub(crate) unsafe fn open(self: &Arc<Self>, dylib: DylibId) -> Result<(), LookUpError> {
        let all = self.read().with_dependences(dylib);
        let session = Session::of(Arc::clone(self));
        for &dylib in &all {
            let names = self.read().pending_names(dylib);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            session.look_up(&[(dylib, Match::All)], &names)?;
        }
        let arguments = self.arguments.get();
        let arguments = arguments.map_or_else(Arguments::none, ProgramArguments::arguments);
        for dylib in all {
            let was_open = {
                let mut state = self.write();
                let n_open = &mut state.dylib_mut(dylib).n_open;
                *n_open += 1;
                *n_open > 1
            };
            let initializers = self.take_initializers(dylib);
            if !was_open || !initializers.is_empty() {
                // SAFETY: the caller's promise; the arrays are in finalized memory.
                unsafe { init::run(&initializers, arguments) };
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Dylib::close`].
    #[expect(unsafe_code, reason = "runs linked code")]
    pub(crate) unsafe fn close_dylib(&self, dylib: DylibId) -> bool {
        if self.read().dylib(dylib).n_open == 0 {
            return false;
        }
        let all = self.read().with_dependences(dylib);
        for &dylib in all.iter().rev() {
            let (is_last, runtimes) = {
                let mut state = self.write();
                let n_open = &mut state.dylib_mut(dylib).n_open;
                *n_open = n_open.saturating_sub(1);
                (*n_open == 0, state.runtimes(dylib))
            };
            if !is_last {
                continue;
            }
            for runtime in runtimes.iter().rev() {
                // SAFETY: the caller's promise.
                unsafe { finalize(runtime) };
            }
        }
        true
    }
}

impl State {
    /// A dylib behind all that it looks into, directly or not.
    fn with_dependences(&self, dylib: DylibId) -> Vec<DylibId> {
        let mut seen: Set<DylibId> = Set::default();
        let (mut all, mut work) = (Vec::new(), vec![(dylib, false)]);
        while let Some((dylib, is_done)) = work.pop() {
            if is_done {
                all.push(dylib);
            } else if seen.insert(dylib) {
                work.push((dylib, true));
                let order = self.dylib(dylib).order.iter().rev();
                work.extend(order.map(|&(other, _)| (other, false)));
            }
        }
        all
    }

    /// A name of each unit of a dylib that nobody asked for, and of each link that is not ready:
    /// to look them up is to link all of the dylib, or to be told why that failed.
    fn pending_names(&self, dylib: DylibId) -> Vec<String> {
        let table = &self.dylib(dylib).table;
        let first_of = |owner: Owner, mut names: Box<dyn Iterator<Item = Name> + '_>| {
            names.find(|name| table.get(name).is_some_and(|entry| entry.owner == owner))
        };
        let units = self.units.iter().enumerate();
        let units = units
            .filter(|(_, unit)| unit.dylib == dylib && unit.state == UnitState::Pending)
            .filter_map(|(number, unit)| {
                let names = unit.defines.iter().map(|define| define.name);
                first_of(Owner::Unit(number), Box::new(names))
            });
        let links = self.links.iter().enumerate();
        let links = links
            .filter(|(_, link)| {
                link.dylib == dylib && link.state != SymbolState::Ready && !link.is_removed
            })
            .filter_map(|(number, link)| {
                let owner = Owner::Link(LinkId(u32_of(number)));
                first_of(owner, Box::new(link.names.iter().copied()))
            });
        units
            .chain(links)
            .map(|name| self.pool.display(name))
            .collect()
    }

    /// What the links of a dylib that are ready have in memory, in their order.
    pub(crate) fn runtimes(&self, dylib: DylibId) -> Vec<Arc<Mutex<Runtime>>> {
        let links = self.links.iter();
        links
            .filter(|link| {
                link.dylib == dylib && link.state == SymbolState::Ready && !link.is_removed
            })
            .map(|link| Arc::clone(&link.runtime))
            .collect()
    }
}

/// Runs handlers and finalizers of a link; its initializers may run again afterwards.
///
/// # Safety
/// No code of the link may be running.
#[expect(unsafe_code, reason = "runs linked code")]
pub(crate) unsafe fn finalize(runtime: &Mutex<Runtime>) {
    let (handles, registered) = {
        let mut runtime = lock(runtime);
        let (first, last) = std::mem::take(&mut runtime.ran);
        runtime.initializers.splice(0..0, first);
        runtime.finalizers.splice(0..0, last);
        let registered = std::mem::take(&mut runtime.registered);
        (runtime.handles.clone(), registered)
    };
    for handle in handles.into_iter().rev() {
        // SAFETY: the caller's promise; the code is still there.
        unsafe { exit::run_handlers(handle) };
    }
    for finalizers in registered.iter().rev() {
        // SAFETY: as above.
        unsafe { finalizers.run() };
    }
}

/// Runs what a link left for its end.
///
/// # Safety
/// No code of the link may be running, and nobody may use it afterwards.
#[expect(unsafe_code, reason = "takes linked code away")]
pub(crate) unsafe fn finish(runtime: &Mutex<Runtime>) {
    // SAFETY: the caller's promise.
    unsafe { finalize(runtime) };
    let copies = std::mem::take(&mut lock(runtime).copies);
    for copy in copies.into_iter().rev() {
        // SAFETY: as above.
        unsafe { copy.put_back() };
    }
}
