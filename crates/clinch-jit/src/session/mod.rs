//! Sessions: dylibs whose symbols are linked when somebody asks for them.
//!
//! A [`Session`] holds dylibs. What is added to a dylib ([`Dylib::add_objects`],
//! [`Dylib::add_archive`], [`Dylib::define`]) is read but not linked. [`Session::look_up`] links
//! what defines the names, and what that needs, and answers addresses when all of it can be used.
//!
//! - A [`SymbolState`] is: never searched, linking, resolved (it has an address), emitted
//!   (in memory), ready (so is all that it depends on), failed.
//! - A [`Tracker`] holds what was added with it; removing it gives back memory, unwind tables and
//!   names.
//! - A [`LinkPlugin`] sees and changes links.
//! - A [`MaterializationUnit`] makes an object when one of its symbols is asked for.
//!
//! ```no_run
//! use clinch_graph::InputName;
//! use clinch_jit::session::{DylibSources, Match, Session, SessionOptions};
//!
//! let arch = clinch_target::host_arch().ok_or("unknown host")?;
//! let session = Session::new(arch, SessionOptions::default());
//! let base = session.create_dylib("base", DylibSources::default())?;
//! let main = session.create_dylib("main", DylibSources::default())?;
//! main.set_link_order(&[(main.id(), Match::All), (base.id(), Match::Exported)]);
//! base.add_objects(vec![(InputName::file("base.o"), std::fs::read("base.o")?.into())])?;
//!
//! // What is added with a tracker can be removed again.
//! let tracker = main.create_tracker();
//! tracker.add_objects(vec![(InputName::file("a.o"), std::fs::read("a.o")?.into())])?;
//! let f = main.look_up("f")?;
//! println!("f is at {f:#x}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Functions may be linked when they are called first ([`Dylib::add_lazy_objects`]), be pointed
//! elsewhere while code runs ([`Dylib::redirect`]), and be replaced by new versions
//! ([`Dylib::replace`]), whose predecessors' code goes when no thread is in it any more
//! ([`Tracker::remove_code_when_unused`]). Linked code may open, ask and close dylibs itself: it finds
//! `clinch_dlopen`, `clinch_dlsym`, `clinch_dlclose` and `clinch_dlerror`, each of which takes
//! `__clinch_session` first.
//!
//! What was linked may be saved as an object ([`Dylib::save`]).
//!
//! Code may be in another process: see [`Session::in_executor`].
//!
//! Links run on as many threads as the session was given, and on those that wait for a look-up.
//! Nothing recurs: a chain of a million objects needs no stack.

mod cache;
mod close;
mod core;
mod define;
mod dylib;
mod executor;
mod lazy;
mod open;
#[expect(unsafe_code, reason = "is called by linked code")]
mod platform;
mod plugin;
mod pool;
mod query;
mod queue;
mod responsibility;
mod run;
mod save;
mod sources;
mod state;
#[expect(unsafe_code, reason = "changes where stubs lead")]
mod stubs;
mod table;
mod tracker;
mod unit;
mod wait;

use self::cache::ReadyCache;
use self::core::{Ask, Core};
use self::platform::Platform;
use self::queue::Queue;
use self::state::{DylibState, SearchOrder};
use self::stubs::{LazyLinker, Trampolines};
use crate::context::lock;
use crate::debug::Audience;
use crate::error::LinkError;
use crate::memory::{InProcess, MemoryManager, Remote};
use crate::process::Process;
use crate::resolver::Resolver;
use crate::runtime::reenter;
use clinch_graph::Workers;
use clinch_graph::index::int::u32_of;
use clinch_target::Arch;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

pub use dylib::Dylib;
pub use lazy::ReplaceError;
pub use plugin::{LinkInfo, LinkPlugin};
pub use query::{Addresses, LookUpError, OnFound};
pub use responsibility::Responsibility;
pub use save::SaveError;
pub use sources::Generator;
pub use state::{DylibId, LinkId, Match, SymbolState, TrackerId};
pub use tracker::Tracker;
pub use unit::MaterializationUnit;

/// What a session does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionOptions {
    /// How many threads work, those that wait among them; 0 for as many as the machine offers.
    pub threads: usize,
    /// Prepare for running: unwind tables, thread-local storage, initializers.
    pub execute: bool,
    /// Keep the graphs of links, for checks and dumps, and to save them ([`Dylib::save`]).
    pub keep_graphs: bool,
    /// Who is told of linked code: debuggers, profilers.
    pub audience: Audience,
    /// Never make pages executable that were writable: memory that the session makes itself is
    /// written through one view and used through another ([`InProcess::double_mapped`]).
    pub double_map: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            execute: true,
            keep_graphs: false,
            audience: Audience::default(),
            double_map: false,
        }
    }
}

/// Where a dylib may find what it does not define.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DylibSources {
    /// The process's own symbols.
    pub process: bool,
    /// The libraries that compiler drivers link without being asked.
    pub default_libraries: bool,
    /// Give what is found nowhere the address 0.
    pub phony: bool,
}

impl Default for DylibSources {
    fn default() -> Self {
        Self {
            process: true,
            default_libraries: true,
            phony: false,
        }
    }
}

/// Dylibs and the links that fill them. Clones are the same session.
#[derive(Clone, Debug)]
pub struct Session {
    core: Arc<Core>,
}

impl Session {
    /// A session without dylibs.
    pub fn new(arch: &'static Arch, options: SessionOptions) -> Self {
        Self::build(arch, options, Process::Own)
    }

    fn build(arch: &'static Arch, options: SessionOptions, process: Process) -> Self {
        let is_here = process.other().is_none();
        let workers = Arc::new(match options.threads {
            0 => Workers::available(),
            threads => Workers::new(threads),
        });
        let core = Arc::new_cyclic(|core| {
            let lazy = LazyLinker { core: core.clone() };
            let platform = Platform::new(core.clone());
            Core {
                arch,
                process,
                workers,
                execute: options.execute,
                keep: options.keep_graphs,
                audience: options.audience,
                double_map: options.double_map,
                state: RwLock::default(),
                platform,
                search: Mutex::default(),
                queue: Queue::new(options.threads),
                plugins: RwLock::default(),
                cache: ReadyCache::default(),
                arguments: OnceLock::new(),
                trampolines: Trampolines::default(),
                reentry: reenter::Context::new(Box::new(lazy)),
            }
        });
        if is_here {
            let mut state = core.write();
            for (text, address) in core.platform.symbols() {
                let name = state.pool.intern(text);
                state.provided.insert(name, address);
            }
        }
        Self { core }
    }

    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Adds a plugin behind the others. It sees links that begin from now on.
    pub fn add_plugin(&self, plugin: Arc<dyn LinkPlugin>) {
        let mut plugins = match self.core.plugins.write() {
            Ok(plugins) => plugins,
            Err(poisoned) => poisoned.into_inner(),
        };
        plugins.push(plugin);
    }

    /// Adds a dylib, in memory of the process where code is. Its first place to look is itself.
    ///
    /// # Errors
    /// There is one of this name.
    pub fn create_dylib(&self, name: &str, sources: DylibSources) -> Result<Dylib, LinkError> {
        let memory: Arc<dyn MemoryManager> = match self.executor() {
            None if self.core.double_map => Arc::new(InProcess::double_mapped()),
            None => Arc::new(InProcess::new()),
            Some(client) => Arc::new(Remote::new(client.clone())),
        };
        self.create_dylib_in(name, sources, memory)
    }

    /// The same with memory of the caller's.
    ///
    /// # Errors
    /// As [`Session::create_dylib`].
    pub fn create_dylib_in(
        &self,
        name: &str,
        sources: DylibSources,
        memory: Arc<dyn MemoryManager>,
    ) -> Result<Dylib, LinkError> {
        let resolver = Resolver {
            at: self.core.process.clone(),
            process: sources.process,
            fallback: sources.default_libraries,
            phony: sources.phony,
            ..Resolver::default()
        };
        let sources = sources::Sources::new(self.core.arch, &self.core.workers, resolver);
        let mut state = self.core.write();
        if state.dylibs.iter().any(|dylib| dylib.name == name) {
            return Err(LinkError::File {
                path: name.to_owned(),
                why: "the session has a dylib of this name".to_owned(),
            });
        }
        let id = DylibId(u32_of(state.dylibs.len()));
        let default_tracker = state.add_tracker(id);
        state.dylibs.push(DylibState {
            name: name.to_owned(),
            table: Default::default(),
            order: Arc::new([(id, Match::All)]),
            sources: Arc::new(Mutex::new(sources)),
            asked: Default::default(),
            default_tracker,
            memory,
            running: None,
            backlog: Default::default(),
            made: Default::default(),
            words: Default::default(),
            bodies: None,
            n_open: 0,
        });
        drop(state);
        Ok(Dylib::new(&self.core, id))
    }

    /// The dylib of a name.
    pub fn dylib(&self, name: &str) -> Option<Dylib> {
        let state = self.core.read();
        let index = state.dylibs.iter().position(|dylib| dylib.name == name)?;
        Some(Dylib::new(&self.core, DylibId(u32_of(index))))
    }

    /// The addresses of names, all of which must be defined, linking what is not linked yet.
    ///
    /// # Errors
    /// Names that nothing defines; links that failed.
    pub fn look_up(
        &self,
        order: &[(DylibId, Match)],
        names: &[&str],
    ) -> Result<Vec<u64>, LookUpError> {
        let asks: Vec<(&str, bool)> = names.iter().map(|&name| (name, false)).collect();
        let found = self.look_up_some(order, &asks, SymbolState::Ready)?;
        Ok(found
            .into_iter()
            .map(|address| address.unwrap_or(0))
            .collect())
    }

    /// The same for names of which some may be missing (`true`), up to a state.
    ///
    /// # Errors
    /// As [`Session::look_up`].
    pub fn look_up_some(
        &self,
        order: &[(DylibId, Match)],
        names: &[(&str, bool)],
        need: SymbolState,
    ) -> Addresses {
        let texts: Vec<&[u8]> = names.iter().map(|(name, _)| name.as_bytes()).collect();
        if let Some(addresses) = self.core.ready(order, &texts) {
            return Ok(addresses);
        }
        let slot: Arc<Mutex<Option<Addresses>>> = Arc::default();
        let there = Arc::clone(&slot);
        let then: OnFound = Box::new(move |answer| *lock(&there) = Some(answer));
        self.start_look_up(order, names, need, then);
        self.core.queue.run_until(|| lock(&slot).take())
    }

    /// Looks names up and goes on with the answer on any thread; does not wait.
    pub fn look_up_async(
        &self,
        order: &[(DylibId, Match)],
        names: &[(&str, bool)],
        need: SymbolState,
        then: OnFound,
    ) {
        self.start_look_up(order, names, need, then);
        self.core.queue.run_if_alone();
    }

    /// Links all that was added to a dylib and that nobody asked for yet, and what it needs, with
    /// what defines the names; answers the names' addresses, `None` for those that nothing in the
    /// session defines.
    fn link_all(&self, dylib: DylibId, names: &[&str]) -> Addresses {
        let slot: Arc<Mutex<Option<Addresses>>> = Arc::default();
        let there = Arc::clone(&slot);
        let then: OnFound = Box::new(move |answer| *lock(&there) = Some(answer));
        let ask = |name: &&str| Ask {
            name: name.as_bytes().to_vec(),
            is_weak: false,
            is_tls: false,
        };
        let asks = names.iter().map(ask).collect();
        self.core.link_all(dylib, asks, then);
        self.core.queue.run_until(|| lock(&slot).take())
    }

    fn start_look_up(
        &self,
        order: &[(DylibId, Match)],
        names: &[(&str, bool)],
        need: SymbolState,
        then: OnFound,
    ) {
        let ask = |&(name, is_weak): &(&str, bool)| Ask {
            name: name.as_bytes().to_vec(),
            is_weak,
            is_tls: false,
        };
        let asks = names.iter().map(ask).collect();
        let order: SearchOrder = order.into();
        self.core.look_up(&order, asks, need, None, then);
    }
}
