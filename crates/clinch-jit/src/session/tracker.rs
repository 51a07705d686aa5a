//! Resource trackers: what was added together and goes together.

use super::core::Core;
use super::run;
use super::state::{DylibId, LinkId, Owner, State, SymbolState, TrackerId};
use super::unit::{Content, Define, Interface, MaterializationUnit, UnitState};
use crate::context::Runtime;
use crate::error::{LinkError, LinkErrors};
use crate::memory::MemoryManager;
use bytes::Bytes;
use clinch_graph::index::int::usize_of;
use clinch_graph::{InputName, SymbolFlags};
use std::sync::{Arc, Mutex};

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
        if errors.is_empty() {
            Ok(())
        } else {
            Err(LinkErrors(errors))
        }
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
        let dylib = self.dylib()?;
        let (memory, runtimes) = {
            let mut state = self.core.write();
            let links = state.tracker_mut(self.id).links.clone();
            let runtime = |link: LinkId| Arc::clone(&state.link(link).runtime);
            let runtimes: Vec<_> = links.into_iter().map(runtime).collect();
            (Arc::clone(&state.dylib(dylib).memory), runtimes)
        };
        let mut errors: Vec<LinkError> = Vec::new();
        for runtime in runtimes {
            let refused = run::give_code_back(&runtime, &*memory);
            errors.extend(refused.into_iter().map(LinkError::from));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(LinkErrors(errors))
        }
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
