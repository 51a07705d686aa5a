//! Functions behind stubs: those that can be pointed elsewhere while code runs, those that are
//! linked when they are called first, and new versions of what runs.
//!
//! A dylib with such functions has only their stubs in its own memory. The functions are in
//! dylibs of their own, which look for names where it looks: in it first, so that they reach one
//! another through the stubs.

use super::dylib::Dylib;
use super::state::{DylibId, Entry, Match, Owner, State};
use super::stubs::{Leads, Stub};
use super::tracker::Tracker;
use super::unit::Define;
use super::{DylibSources, LookUpError, Session};
use crate::error::{LinkError, LinkErrors};
use crate::runtime::reenter;
use bytes::Bytes;
use clinch_executor::wire::Action;
use clinch_graph::{InputName, SymbolFlags};
use std::sync::Arc;

impl Dylib {
    /// Defines functions that can be pointed elsewhere while code runs: a stub each, which leads
    /// to the address given until [`Dylib::redirect`] says otherwise.
    ///
    /// # Errors
    /// A second strong definition.
    pub fn add_redirectable(&self, functions: &[(&str, u64)]) -> Result<(), LinkErrors> {
        let mut state = self.core.write();
        let state = &mut *state;
        let tracker = state.dylib(self.id).default_tracker;
        let stub = |&(text, address): &(&str, u64)| Stub {
            name: state.pool.intern(text.as_bytes()),
            flags: SymbolFlags::CALLABLE,
            leads: Leads::To(address),
        };
        let stubs = functions.iter().map(stub).collect();
        state.add_stubs(self.id, tracker, stubs)
    }

    /// Points redirectable and lazy functions elsewhere. Each changes atomically: a caller goes to
    /// the old function or to the new one.
    ///
    /// # Errors
    /// A name that has no stub, or whose stub was not looked up yet; nothing is then changed.
    ///
    /// # Safety
    /// The addresses must be those of functions of the same types.
    #[expect(unsafe_code, reason = "changes where linked code jumps")]
    pub unsafe fn redirect(&self, functions: &[(&str, u64)]) -> Result<(), LinkError> {
        let state = self.core.read();
        let words = &state.dylib(self.id).words;
        let mut changes = Vec::with_capacity(functions.len());
        for &(text, address) in functions {
            let name = state.pool.find(text.as_bytes());
            match name.and_then(|name| words.get(&name)) {
                Some(&(_, word)) => changes.push((word, address)),
                None => {
                    return Err(LinkError::File {
                        path: text.to_owned(),
                        why: "has no stub that could lead elsewhere".to_owned(),
                    });
                }
            }
        }
        if self.core.process.other().is_some() {
            drop(state);
            let write = |(address, value)| Action::WriteWord { address, value };
            let writes = changes.into_iter().map(write).collect();
            // SAFETY: words of stubs that the session made; the caller's promise about functions.
            return unsafe { self.core.perform(writes) };
        }
        for (word, address) in changes {
            // SAFETY: the word of a stub that the session made and that is not removed while its
            // state is being read; the caller's promise about the function.
            unsafe { reenter::redirect(word, address) };
        }
        Ok(())
    }

    /// Adds relocatable objects whose functions are linked when they are called first: each name
    /// of a function stands for a stub until then. Variables are linked when something that is
    /// linked refers to them.
    ///
    /// # Errors
    /// As [`Dylib::add_objects`].
    pub fn add_lazy_objects(&self, objects: Vec<(InputName, Bytes)>) -> Result<(), LinkErrors> {
        self.core
            .only_here("linking functions when they are called")?;
        let bodies = self.bodies()?;
        let tracker = bodies.default_tracker().id();
        let units = self.core.add_objects(bodies.id, tracker, objects, None)?;
        let mut state = self.core.write();
        let mut stubs = Vec::new();
        for Define { name, flags, .. } in state.own_definitions(&units) {
            if flags.contains(SymbolFlags::CALLABLE) {
                let leads = Leads::Lazily(bodies.id, name);
                stubs.push(Stub { name, flags, leads });
            } else {
                state.share(self.id, bodies.id, name, flags);
            }
        }
        let tracker = state.dylib(self.id).default_tracker;
        state.add_stubs(self.id, tracker, stubs)
    }

    /// The functions of lazy objects, in the order in which they were added.
    pub fn lazy_functions(&self) -> Vec<String> {
        let state = self.core.read();
        let Some(bodies) = state.dylib(self.id).bodies else {
            return Vec::new();
        };
        let units = state.units.iter().filter(|unit| unit.dylib == bodies);
        let functions = units.flat_map(|unit| &unit.defines);
        let functions = functions.filter(|define| define.flags.contains(SymbolFlags::CALLABLE));
        functions
            .map(|define| state.pool.display(define.name))
            .collect()
    }

    /// Links a lazy function before it is called. Its initializers run when it is.
    ///
    /// # Errors
    /// As [`Session::look_up`].
    pub fn link_lazy(&self, function: &str) -> Result<(), LookUpError> {
        let bodies = self.core.read().dylib(self.id).bodies;
        let Some(bodies) = bodies else {
            return Err(LookUpError::NotFound(vec![function.to_owned()]));
        };
        let session = Session::of(Arc::clone(&self.core));
        session
            .look_up(&[(bodies, Match::All)], &[function])
            .map(drop)
    }

    /// Links a new version of what was added with [`Dylib::add_lazy_objects`], and of earlier
    /// versions, and moves all callers over: each stub leads to the old function or to the new
    /// one, never elsewhere. Variables of a global name that is known already keep their place
    /// and their value; for their sake initializers are not run again. Nothing changes when it
    /// fails.
    ///
    /// The answer holds the new version. The one before it may be removed, or only its code
    /// ([`Tracker::remove_code`]), when no thread is in it any more.
    /// [`Tracker::remove_code_when_unused`] finds that out.
    ///
    /// # Errors
    /// As [`Dylib::add_objects`] and [`Session::look_up`].
    ///
    /// # Safety
    /// Functions must have the types that they had.
    #[expect(unsafe_code, reason = "changes where linked code jumps")]
    pub unsafe fn replace(
        &self,
        objects: Vec<(InputName, Bytes)>,
    ) -> Result<Tracker, ReplaceError> {
        let version = self.version()?;
        let tracker = version.default_tracker();
        let units = self
            .core
            .add_objects(version.id, tracker.id(), objects, None)?;
        let mut functions = Vec::new();
        {
            let mut state = self.core.write();
            let mut stubs = Vec::new();
            for Define { name, flags, .. } in state.own_definitions(&units) {
                let is_known = state.dylib(self.id).table.contains(name);
                if flags.contains(SymbolFlags::CALLABLE) {
                    functions.push(state.pool.display(name));
                    if !is_known {
                        let leads = Leads::Lazily(version.id, name);
                        stubs.push(Stub { name, flags, leads });
                    }
                } else if is_known {
                    state.alias(version.id, self.id, name, flags);
                } else {
                    state.share(self.id, version.id, name, flags);
                }
            }
            let tracker = state.dylib(self.id).default_tracker;
            state.add_stubs(self.id, tracker, stubs)?;
        }
        let session = Session::of(Arc::clone(&self.core));
        let names: Vec<&str> = functions.iter().map(String::as_str).collect();
        let addresses = session.look_up(&[(version.id, Match::All)], &names)?;
        session.look_up(&[(self.id, Match::All)], &names)?;
        let mut actions = self.core.take_initializers(version.id);
        actions.retain(|action| !matches!(action, Action::RunArray(_)));
        // SAFETY: finalizers are registered, nothing runs.
        unsafe { self.core.perform(actions)? };
        let changes: Vec<(&str, u64)> = names.into_iter().zip(addresses).collect();
        // SAFETY: the caller's promise.
        unsafe { self.redirect(&changes)? };
        Ok(tracker)
    }

    /// The dylib that holds the functions of lazy stubs.
    fn bodies(&self) -> Result<Self, LinkError> {
        let known = self.core.read().dylib(self.id).bodies;
        if let Some(id) = known {
            return Ok(Self::new(&self.core, id));
        }
        let bodies = self.beside("bodies")?;
        self.core.write().dylib_mut(self.id).bodies = Some(bodies.id);
        Ok(bodies)
    }

    /// A dylib for a new version.
    fn version(&self) -> Result<Self, LinkError> {
        let n_dylibs = self.core.read().dylibs.len();
        self.beside(&format!("version{n_dylibs}"))
    }

    /// A dylib that looks for names where this one looks.
    fn beside(&self, name: &str) -> Result<Self, LinkError> {
        let name = format!("{}${name}", self.name());
        let session = Session::of(Arc::clone(&self.core));
        let beside = session.create_dylib(&name, DylibSources::default())?;
        let mut state = self.core.write();
        let own = state.dylib(self.id);
        let (order, sources) = (Arc::clone(&own.order), Arc::clone(&own.sources));
        let dylib = state.dylib_mut(beside.id);
        (dylib.order, dylib.sources) = (order, sources);
        drop(state);
        Ok(beside)
    }
}

/// Why a version was not replaced.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The objects cannot be added.
    #[error(transparent)]
    Objects(#[from] LinkErrors),
    /// They cannot be linked.
    #[error(transparent)]
    Link(#[from] LookUpError),
}

impl From<LinkError> for ReplaceError {
    fn from(error: LinkError) -> Self {
        Self::Objects(error.into())
    }
}

impl State {
    /// The name of the dylib that has the stubs of lazy functions.
    pub(crate) fn owner_of_bodies(&self, bodies: DylibId) -> String {
        let owner = self
            .dylibs
            .iter()
            .find(|dylib| dylib.bodies == Some(bodies));
        owner.map_or_else(String::new, |dylib| dylib.name.clone())
    }

    /// What units define themselves, each name once, in order.
    fn own_definitions(&self, units: &[usize]) -> Vec<Define> {
        let mut all = Vec::new();
        for &number in units {
            let unit = &self.units[number];
            let table = &self.dylib(unit.dylib).table;
            let is_own = |define: &&Define| {
                let entry = table.get(define.name);
                entry.is_some_and(|entry| entry.owner == Owner::Unit(number))
            };
            all.extend(unit.defines.iter().filter(is_own).copied());
        }
        all
    }

    /// Lets a dylib have a variable of another, unless it has one of the name.
    fn share(&mut self, dylib: DylibId, of: DylibId, name: super::pool::Name, flags: SymbolFlags) {
        if !self.dylib(dylib).table.contains(name) {
            self.alias(dylib, of, name, flags);
        }
    }

    /// Makes a name of one dylib stand for that of another.
    fn alias(&mut self, dylib: DylibId, of: DylibId, name: super::pool::Name, flags: SymbolFlags) {
        let entry = Entry {
            owner: Owner::Alias(of, name),
            flags,
            in_group: false,
            address: 0,
        };
        let dylib = self.dylib_mut(dylib);
        dylib.table.insert(name, entry);
        let tracker = dylib.default_tracker;
        self.tracker_mut(tracker).names.push(name);
    }
}
