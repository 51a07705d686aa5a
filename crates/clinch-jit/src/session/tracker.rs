//! Resource trackers: what was added together and goes together.

use super::core::Core;
use super::run;
use super::state::{DylibId, LinkId, Owner, State, SymbolState, TrackerId};
use super::unit::{Content, Define, Interface, MaterializationUnit, UnitState};
use crate::context::Runtime;
use crate::error::{LinkError, LinkErrors};
use crate::memory::MemoryManager;
use crate::runtime::occupancy;
use bytes::Bytes;
use clinch_graph::index::int::{u64_of, usize_of};
use clinch_graph::{InputName, SymbolFlags};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Holds what was added with it. Clones are the same tracker.
#[derive(Clone, Debug)]
pub struct Tracker {
    core: Arc<Core>,
    id: TrackerId,
}

impl Tracker {
    pub(super) fn new(core: &Arc<Core>, id: TrackerId) -> Self {
        let core = Arc::clone(core);
        Self { core, id }
    }

    /// Its id.
    pub fn id(&self) -> TrackerId {
        self.id
    }

    /// Adds relocatable objects; they are read, not linked.
    ///
    /// # Errors
    /// Objects that cannot be read, second strong definitions, a tracker that was removed.
    pub fn add_objects(&self, objects: Vec<(InputName, Bytes)>) -> Result<(), LinkErrors> {
        let dylib = self.dylib()?;
        self.core
            .add_objects(dylib, self.id, objects, None)
            .map(drop)
    }

    /// Adds what makes definitions on demand.
    ///
    /// # Errors
    /// As [`Tracker::add_objects`].
    pub fn add_unit(&self, unit: Box<dyn MaterializationUnit>) -> Result<(), LinkErrors> {
        let dylib = self.dylib()?;
        let symbols = unit.symbols();
        let mut state = self.core.write();
        let define = |(text, flags): (Vec<u8>, SymbolFlags)| Define {
            name: state.pool.intern(&text),
            flags,
            in_group: false,
        };
        let interface = Interface {
            defines: symbols.into_iter().map(define).collect(),
            ..Interface::default()
        };
        let content = Content::Custom(Mutex::new(unit));
        let added = state.add_unit(dylib, self.id, content, interface);
        added
            .map(drop)
            .map_err(|clashes| state.refusal(dylib, &clashes))
    }

    fn dylib(&self) -> Result<DylibId, LinkError> {
        let state = self.core.read();
        let tracker = &state.trackers[usize_of(self.id.0)];
        if tracker.is_defunct {
            return Err(LinkError::Defunct);
        }
        Ok(tracker.dylib)
    }

    /// Removes everything that was added with the tracker: names go, handlers and finalizers of
    /// what was linked run, unwind tables are forgotten, memory is given back. Look-ups that wait
    /// for it fail.
    ///
    /// # Errors
    /// What plugins or the system say; everything is gone all the same.
    ///
    /// # Safety
    /// No code of the tracker may be running, and nobody may use its addresses afterwards.
    #[expect(unsafe_code, reason = "takes linked code away")]
    pub unsafe fn remove(self) -> Result<(), LinkErrors> {
        let dylib = self.dylib()?;
        let mut errors: Vec<LinkError> = Vec::new();
        self.core.each_plugin(|plugin| {
            if let Err(why) = plugin.notify_removing(dylib, self.id) {
                let pass = "notify_removing".to_owned();
                errors.push(LinkError::Pass { pass, why });
            }
        });
        let detached = {
            let mut state = self.core.write();
            let is_default = state.dylib(dylib).default_tracker == self.id;
            state.trackers[usize_of(self.id.0)].is_defunct = !is_default;
            self.core.cache.clear();
            state.detach(self.id)
        };
        for &link in &detached.links {
            self.core.trampolines.forget(link);
        }
        for link in detached.running {
            self.core.failed(link, LinkError::Defunct.into());
        }
        for runtime in detached.runtimes.iter().rev() {
            // SAFETY: the caller's promise.
            let finalized = unsafe { self.core.finalize(std::slice::from_ref(runtime)) };
            errors.extend(finalized.err());
            let refused = run::give_back(runtime, &*detached.memory);
            errors.extend(refused.into_iter().map(LinkError::from));
        }
        LinkErrors::or(errors, ())
    }

    /// Removes the code of what was linked with the tracker, with its unwind tables, and leaves
    /// the rest: names and variables stay.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Safety
    /// No code of the tracker may be running, and nobody may call it afterwards.
    #[expect(unsafe_code, reason = "takes linked code away")]
    pub unsafe fn remove_code(&self) -> Result<(), LinkErrors> {
        self.placed()?.give_code_back()
    }

    /// The same as soon as no thread of this process is in the code, which threads are asked for
    /// again and again; answers whether that came to be in time. If not, nothing is changed.
    ///
    /// A thread is in the code while it runs it or will return to it. To be sure, addresses of the
    /// code in a thread's registers, or anywhere on the part of its stack that is in use, count
    /// as well, and so does a thread that does not answer in time: one that blocks all signals,
    /// one that was stopped, and one that runs on its alternate signal stack. So false may stay
    /// the answer, for instance when the caller has the address of a function of the code in a
    /// variable. On systems and architectures where nobody has said yet how to ask, it is always
    /// false.
    ///
    /// Threads are asked by a signal: while this runs, the last real-time signal that has no handler
    /// and that the calling thread does not block is the session's. Its handler restarts system
    /// calls; those that never restart, such as `poll` and `nanosleep`, end with `EINTR`. Debuggers
    /// stop at signals that they do not know; they can be told to pass it on.
    ///
    /// # Errors
    /// What the system says; code in another process.
    ///
    /// # Safety
    /// Nobody may call the code any more but who is in it, once stubs lead elsewhere
    /// ([`Dylib::replace`](super::Dylib::replace)): neither by an address that was looked up, nor
    /// by a pointer in data, such as a registered handler, nor by what is linked with the tracker
    /// meanwhile. Nothing may return to it but what a thread has on the stack that it uses:
    /// no coroutine that is switched out, no `longjmp`. The handler of the signal must be able to
    /// run: nobody else may take the signal meanwhile, by waiting for signals of all kinds, say.
    #[expect(unsafe_code, reason = "takes linked code away")]
    #[inline(never)]
    pub unsafe fn remove_code_when_unused(&self, wait: Duration) -> Result<bool, LinkErrors> {
        // What lies below on the stack is the session's, which knows the code's addresses. This
        // function does nothing itself, so that its frame has no room for what was there before.
        let here = 0_u8;
        self.remove_code_when_left(u64_of((&raw const here).expose_provenance()), wait)
    }

    /// Removes the code when nobody is in it, as far as the caller's stack from an address and
    /// other threads tell.
    #[inline(never)]
    fn remove_code_when_left(&self, from: u64, wait: Duration) -> Result<bool, LinkErrors> {
        self.core
            .only_here("finding out whether somebody is in code")?;
        let placed = self.placed()?;
        if !occupancy::wait_until_left(placed.code(), from, wait) {
            return Ok(false);
        }
        placed.give_code_back()?;
        Ok(true)
    }

    /// What the tracker's links have in memory.
    fn placed(&self) -> Result<Placed, LinkError> {
        let dylib = self.dylib()?;
        let mut state = self.core.write();
        let links = state.tracker_mut(self.id).links.clone();
        let runtime = |link: LinkId| Arc::clone(&state.link(link).runtime);
        Ok(Placed {
            runtimes: links.into_iter().map(runtime).collect(),
            memory: Arc::clone(&state.dylib(dylib).memory),
        })
    }

    /// Makes everything that the tracker holds another's, of the same dylib.
    ///
    /// # Errors
    /// Trackers of two dylibs, or one that was removed.
    pub fn transfer_to(self, other: &Self) -> Result<(), LinkError> {
        let (from, to) = (self.dylib()?, other.dylib()?);
        if from != to {
            return Err(LinkError::Defunct);
        }
        {
            let mut state = self.core.write();
            let from = std::mem::take(state.tracker_mut(self.id));
            for &unit in &from.units {
                state.units[unit].tracker = other.id;
            }
            for &link in &from.links {
                state.link_mut(link).tracker = other.id;
            }
            let to = state.tracker_mut(other.id);
            to.units.extend(from.units);
            to.links.extend(from.links);
            to.names.extend(from.names);
        }
        self.core
            .each_plugin(|plugin| plugin.notify_transferring(from, other.id, self.id));
        Ok(())
    }
}

/// What links have in memory, and whose that is.
struct Placed {
    runtimes: Vec<Arc<Mutex<Runtime>>>,
    memory: Arc<dyn MemoryManager>,
}

impl Placed {
    /// Where code is: start and size of each range.
    fn code(&self) -> Vec<(u64, u64)> {
        let runtimes = self.runtimes.iter();
        runtimes.flat_map(|it| run::code_of(it)).collect()
    }

    /// Gives back the code, and what unwinders and debuggers know of it.
    fn give_code_back(&self) -> Result<(), LinkErrors> {
        let mut errors: Vec<LinkError> = Vec::new();
        for runtime in &self.runtimes {
            let refused = run::give_code_back(runtime, &*self.memory);
            errors.extend(refused.into_iter().map(LinkError::from));
        }
        LinkErrors::or(errors, ())
    }
}

/// What is left of a tracker when its names are gone.
struct Detached {
    /// Links that still run.
    running: Vec<LinkId>,
    /// All links.
    links: Vec<LinkId>,
    /// What links have in memory, in their order.
    runtimes: Vec<Arc<Mutex<Runtime>>>,
    memory: Arc<dyn MemoryManager>,
}

impl State {
    /// Takes a tracker's names, units and links out of the session.
    fn detach(&mut self, id: TrackerId) -> Detached {
        let dylib = self.trackers[usize_of(id.0)].dylib;
        let tracker = std::mem::take(self.tracker_mut(id));
        for unit in tracker.units {
            if self.units[unit].state == UnitState::Pending {
                self.drop_unit(unit);
            }
        }
        let mut names = tracker.names;
        let (mut running, mut runtimes, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for id in tracker.links {
            let link = self.link_mut(id);
            link.is_removed = true;
            link.finished = None;
            link.unlinked = None;
            links.push(id);
            if link.state < SymbolState::Ready {
                running.push(id);
            }
            runtimes.push(Arc::clone(&link.runtime));
            names.append(&mut link.names);
            for unit in std::mem::take(&mut link.units) {
                self.forget_unit(unit);
            }
        }
        let (all, dylib) = (&self.links, &mut self.dylibs[usize_of(dylib.0)]);
        let is_removed = |link: LinkId| all[usize_of(link.0)].is_removed;
        for name in names {
            let goes = dylib
                .table
                .get(name)
                .is_some_and(|entry| match entry.owner {
                    Owner::Link(link) => is_removed(link),
                    Owner::Absolute | Owner::Alias(..) => true,
                    Owner::Unit(_) => false,
                });
            if goes {
                dylib.table.remove(name);
            }
        }
        dylib.made.retain(|_, (link, _)| !is_removed(*link));
        dylib.words.retain(|_, (link, _)| !is_removed(*link));
        Detached {
            running,
            links,
            runtimes,
            memory: Arc::clone(&dylib.memory),
        }
    }
}
