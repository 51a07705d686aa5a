//! Opening and closing dylibs, as a program opens and closes shared libraries: initializers run
//! when a dylib is opened first, after those of the dylibs it looks into, and handlers and
//! finalizers when it was closed as often as it was opened. What is in memory stays.

use super::core::Core;
use super::dylib::Dylib;
use super::query::LookUpError;
use super::state::{DylibId, State, SymbolState};
use crate::context::{Runtime, lock};
use crate::error::LinkError;
use crate::error::LinkErrors;
use crate::runtime::exit::ProgramArguments;
use clinch_executor::wire::Action;
use clinch_graph::index::map::Set;
use std::sync::{Arc, Mutex};

impl Dylib {
    /// Runs the initializers of what became ready since the last call, in the order of links, and
    /// registers finalizers to run when the process exits or their tracker is removed.
    ///
    /// # Errors
    /// The executor is gone, or cannot run them. In this process there are none.
    ///
    /// # Safety
    /// Runs code of the inputs, which must be fit to run in this process. What it leaves for the end
    /// must have run ([`Dylib::finalize`], [`Dylib::close`], or removal) when the session is dropped:
    /// the process's end would call into memory that is gone.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn initialize(&self, arguments: &ProgramArguments) -> Result<(), LinkError> {
        self.core.set_arguments(arguments)?;
        let initializers = self.core.take_initializers(self.id);
        // SAFETY: the caller's promise; the arrays are in finalized memory.
        Ok(unsafe { self.core.process.perform(initializers, Some(arguments)) }?)
    }

    /// The dylibs that it looks into, directly or not, each behind those that it looks into itself;
    /// the dylib itself is the last.
    pub fn dependences(&self) -> Vec<Self> {
        let all = self.core.read().with_dependences(self.id);
        all.into_iter()
            .map(|id| Self::new(&self.core, id))
            .collect()
    }

    /// Runs handlers and finalizers of what was initialized, as [`Dylib::close`] does with the
    /// last. Initializers may run again afterwards.
    ///
    /// # Errors
    /// As [`Dylib::initialize`].
    ///
    /// # Safety
    /// As [`Dylib::initialize`]; no code of the dylib may be running.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn finalize(&self) -> Result<(), LinkError> {
        let runtimes = self.core.read().runtimes(self.id);
        // SAFETY: the caller's promise.
        unsafe { self.core.finalize(&runtimes) }
    }

    /// Links all of the dylib, and of the dylibs it looks into; where it was not open, runs
    /// initializers, theirs first. A dylib may be opened several times.
    ///
    /// # Errors
    /// What cannot be linked; nothing is then open that was not.
    ///
    /// # Safety
    /// As [`Dylib::initialize`].
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn open(&self) -> Result<(), LookUpError> {
        // SAFETY: the caller's promise.
        unsafe { self.core.open(self.id) }
    }

    /// Takes back one [`Dylib::open`]. With the last, handlers that were registered for the dylib
    /// and its finalizers run, then those of the dylibs that only it kept open. Answers whether it
    /// was open.
    ///
    /// # Errors
    /// As [`Dylib::initialize`].
    ///
    /// # Safety
    /// As [`Dylib::open`].
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn close(&self) -> Result<bool, LinkError> {
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
        for &dylib in &all {
            let failure = self.read().failure_of(dylib);
            if let Some(errors) = failure {
                return Err(LookUpError::Failed(vec![errors]));
            }
            Dylib::new(self, dylib).link_all(&[])?;
        }
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
                unsafe { self.perform(initializers)? };
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Dylib::close`].
    #[expect(unsafe_code, reason = "runs linked code")]
    pub(crate) unsafe fn close_dylib(&self, dylib: DylibId) -> Result<bool, LinkError> {
        if self.read().dylib(dylib).n_open == 0 {
            return Ok(false);
        }
        let all = self.read().with_dependences(dylib);
        for &dylib in all.iter().rev() {
            let (is_last, runtimes) = {
                let mut state = self.write();
                let n_open = &mut state.dylib_mut(dylib).n_open;
                *n_open = n_open.saturating_sub(1);
                (*n_open == 0, state.runtimes(dylib))
            };
            if is_last {
                // SAFETY: the caller's promise.
                unsafe { self.finalize(&runtimes)? };
            }
        }
        Ok(true)
    }

    /// Runs handlers and finalizers of links, last to first; their initializers may run again
    /// afterwards. All of it is tried; the error is the first one.
    ///
    /// # Safety
    /// No code of the links may be running.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub(crate) unsafe fn finalize(
        &self,
        runtimes: &[Arc<Mutex<Runtime>>],
    ) -> Result<(), LinkError> {
        let mut result = Ok(());
        for runtime in runtimes.iter().rev() {
            let actions = finalizing(runtime);
            // SAFETY: the caller's promise; the code is still there.
            let finalized = unsafe { self.perform(actions) };
            result = result.and(finalized);
        }
        result
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

    /// Why the first link of a dylib that failed did.
    fn failure_of(&self, dylib: DylibId) -> Option<Arc<LinkErrors>> {
        let mut links = self.links.iter();
        links.find_map(|link| {
            let (_, errors) = link.failure.as_ref()?;
            (link.dylib == dylib && !link.is_removed).then(|| Arc::clone(errors))
        })
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

/// What runs a link's handlers and finalizers.
fn finalizing(runtime: &Mutex<Runtime>) -> Vec<Action> {
    let mut runtime = lock(runtime);
    let (first, last) = std::mem::take(&mut runtime.ran);
    runtime.initializers.splice(0..0, first);
    runtime.finalizers.splice(0..0, last);
    let registered = std::mem::take(&mut runtime.registered);
    let handles = runtime.handles.iter().rev();
    let handlers = handles.map(|&handle| Action::RunHandlers { handle });
    let finalizers = registered
        .into_iter()
        .rev()
        .map(|first| Action::RunFinalizers { first });
    handlers.chain(finalizers).collect()
}
