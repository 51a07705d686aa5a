//! A dylib of a session, as its user sees it.

use super::Session;
use super::core::Core;
use super::query::{Addresses, LookUpError};
use super::sources::Generator;
use super::state::{DylibId, Entry, Match, Owner, State, SymbolState};
use super::tracker::Tracker;
use crate::context::lock;
use crate::error::{LinkError, LinkErrors};
use crate::library::LinkInput;
use crate::link::Finished;
use crate::process::Library;
use bytes::Bytes;
use clinch_graph::{InputName, SymbolFlags};
use std::sync::Arc;
use std::time::Duration;

/// A dylib of a session. Clones are the same dylib.
#[derive(Clone, Debug)]
pub struct Dylib {
    pub(super) core: Arc<Core>,
    pub(super) id: DylibId,
}

impl Dylib {
    pub(super) fn new(core: &Arc<Core>, id: DylibId) -> Self {
        let core = Arc::clone(core);
        Self { core, id }
    }

    /// Its id.
    pub fn id(&self) -> DylibId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.core.read().dylib(self.id).name.clone()
    }

    /// The tracker of what is added without one.
    pub fn default_tracker(&self) -> Tracker {
        Tracker::new(&self.core, self.core.read().dylib(self.id).default_tracker)
    }

    /// A new tracker.
    pub fn create_tracker(&self) -> Tracker {
        let id = self.core.write().add_tracker(self.id);
        Tracker::new(&self.core, id)
    }

    /// Adds relocatable objects; they are read, not linked.
    ///
    /// # Errors
    /// Objects that cannot be read, second strong definitions.
    pub fn add_objects(&self, objects: Vec<(InputName, Bytes)>) -> Result<(), LinkErrors> {
        self.default_tracker().add_objects(objects)
    }

    /// Adds what paths and library names stand for: archives and libraries in the order given,
    /// objects together.
    ///
    /// # Errors
    /// As [`Dylib::add_objects`] and [`Dylib::add_archive`]: everything that is wrong.
    pub fn add_inputs(&self, inputs: Vec<LinkInput>) -> Result<(), LinkErrors> {
        let (mut objects, mut errors) = (Vec::new(), Vec::new());
        for input in inputs {
            match input {
                LinkInput::Object(name, bytes) => objects.push((name, bytes)),
                LinkInput::Archive(path, bytes) => {
                    errors.extend(self.add_archive(&path, bytes).err());
                }
                LinkInput::Library { name, label } => match self.core.process.open_library(&name) {
                    Ok(library) => self.add_library(library),
                    Err(_) if label.starts_with("-l") => errors.push(LinkError::File {
                        path: label,
                        why: "library not found".to_owned(),
                    }),
                    Err(why) => errors.push(LinkError::File { path: label, why }),
                },
            }
        }
        if let Err(more) = self.add_objects(objects) {
            errors.extend(more.0);
        }
        LinkErrors::or(errors, ())
    }

    /// Adds an archive, whose members become part of the dylib when something needs them.
    ///
    /// # Errors
    /// Not an archive.
    pub fn add_archive(&self, path: &str, bytes: Bytes) -> Result<(), LinkError> {
        let sources = Arc::clone(&self.core.read().dylib(self.id).sources);
        let added = lock(&sources).add_archive(path, bytes);
        self.core.write().dylib_mut(self.id).asked.clear();
        added
    }

    /// Adds an archive that is searched only for what is found nowhere else.
    ///
    /// # Errors
    /// Not an archive.
    pub fn add_fallback_archive(&self, path: &str, bytes: Bytes) -> Result<(), LinkError> {
        let sources = Arc::clone(&self.core.read().dylib(self.id).sources);
        let added = lock(&sources).add_fallback(path, bytes);
        self.core.write().dylib_mut(self.id).asked.clear();
        added
    }

    /// Adds all members of its archives that are not part of it yet.
    ///
    /// # Errors
    /// As [`Dylib::add_objects`].
    pub fn load_archives(&self) -> Result<(), LinkErrors> {
        let sources = Arc::clone(&self.core.read().dylib(self.id).sources);
        let objects = lock(&sources).take_all()?;
        self.add_objects(objects)
    }

    /// Adds an opened shared library.
    pub fn add_library(&self, library: Library) {
        let sources = Arc::clone(&self.core.read().dylib(self.id).sources);
        lock(&sources).add_library(library);
    }

    /// Adds something that defines names when they are looked for.
    pub fn add_generator(&self, generator: Box<dyn Generator>) {
        let sources = Arc::clone(&self.core.read().dylib(self.id).sources);
        lock(&sources).add_generator(generator);
        self.core.write().dylib_mut(self.id).asked.clear();
    }

    /// Gives names fixed addresses. A function ([`SymbolFlags::CALLABLE`]) that is too far away is
    /// reached through a stub; what is none must be in reach. Weak ones give way to definitions in
    /// objects.
    ///
    /// # Errors
    /// A name that is defined already; nothing is then defined.
    pub fn define(&self, symbols: &[(&str, u64, SymbolFlags)]) -> Result<(), LinkError> {
        let mut state = self.core.write();
        let state = &mut *state;
        let tracker = state.dylib(self.id).default_tracker;
        for (text, ..) in symbols {
            self.refuse_known(state, text, "an absolute symbol")?;
        }
        for &(text, address, flags) in symbols {
            let name = state.pool.intern(text.as_bytes());
            let entry = Entry {
                owner: Owner::Absolute,
                flags,
                in_group: false,
                address,
            };
            state.dylib_mut(self.id).table.insert(name, entry);
            state.tracker_mut(tracker).names.push(name);
        }
        Ok(())
    }

    /// Makes a name stand for another, in this dylib or in another.
    ///
    /// # Errors
    /// The name is defined already, the other is not, or the two would stand for each other.
    pub fn alias(&self, alias: &str, of: DylibId, target: &str) -> Result<(), LinkError> {
        let mut state = self.core.write();
        let state = &mut *state;
        self.refuse_known(state, alias, "an alias")?;
        let (alias, target) = (
            state.pool.intern(alias.as_bytes()),
            state.pool.intern(target.as_bytes()),
        );
        let Some(entry) = state.dylib(of).table.get(target).copied() else {
            return Err(LinkError::File {
                path: state.pool.display(target),
                why: "is not defined, so nothing can stand for it".to_owned(),
            });
        };
        let owner = Owner::Alias(of, target);
        let dylib = state.dylib_mut(self.id);
        dylib.table.insert(alias, Entry { owner, ..entry });
        let tracker = dylib.default_tracker;
        state.tracker_mut(tracker).names.push(alias);
        Ok(())
    }

    fn refuse_known(&self, state: &State, text: &str, what: &str) -> Result<(), LinkError> {
        let dylib = state.dylib(self.id);
        let known = state.pool.find(text.as_bytes());
        match known.and_then(|name| dylib.table.get(name)) {
            None => Ok(()),
            Some(entry) => Err(LinkError::Defined {
                dylib: dylib.name.clone(),
                name: text.to_owned(),
                first: state.describe(entry),
                second: what.to_owned(),
            }),
        }
    }

    /// Sets where the dylib looks for what it refers to, in order.
    pub fn set_link_order(&self, order: &[(DylibId, Match)]) {
        let mut state = self.core.write();
        let dylib = state.dylib_mut(self.id);
        dylib.order = order.into();
        if let Some(bodies) = dylib.bodies {
            state.dylib_mut(bodies).order = order.into();
        }
    }

    /// Where the dylib looks.
    pub fn link_order(&self) -> Vec<(DylibId, Match)> {
        self.core.read().dylib(self.id).order.to_vec()
    }

    /// The finished links of the dylib that were not removed, in their order, when the session
    /// keeps them ([`SessionOptions::keep_graphs`](super::SessionOptions::keep_graphs)).
    pub fn links(&self) -> Vec<Arc<Finished>> {
        let state = self.core.read();
        let links = state.links.iter().filter(|link| link.dylib == self.id);
        links.filter_map(|link| link.finished.clone()).collect()
    }

    /// Links all that was added and that nobody asked for yet, as static linkers do, and what
    /// defines the names; answers the names' addresses, `None` for those that nothing in the
    /// session defines.
    ///
    /// # Errors
    /// Links of the dylib that failed; not those that had failed before.
    pub fn link_all(&self, names: &[&str]) -> Addresses {
        Session::of(Arc::clone(&self.core)).link_all(self.id, names)
    }

    /// How long the steps of its links took.
    pub fn times(&self) -> Vec<(&'static str, Duration)> {
        let state = self.core.read();
        let links = state.links.iter().filter(|link| link.dylib == self.id);
        links.flat_map(|link| link.times.iter().copied()).collect()
    }

    /// The state of a symbol.
    pub fn symbol_state(&self, name: &str) -> Option<SymbolState> {
        let state = self.core.read();
        let name = state.pool.find(name.as_bytes())?;
        let found = state.search(&[(self.id, Match::All)], name)?;
        Some(state.state_of(&found.entry))
    }

    /// Looks one name up, linking what is not linked yet.
    ///
    /// # Errors
    /// As [`Session::look_up`].
    pub fn look_up(&self, name: &str) -> Result<u64, LookUpError> {
        let order = [(self.id, Match::All)];
        if self.core.failure().is_none()
            && let Some(address) = self.core.ready_one(&order, name.as_bytes())
        {
            return Ok(address);
        }
        let session = Session {
            core: Arc::clone(&self.core),
        };
        let found = session.look_up(&order, &[name])?;
        Ok(found.first().copied().unwrap_or(0))
    }
}
