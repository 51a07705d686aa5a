//! A dylib: objects, archives and libraries that are linked together into this process, in one
//! step or in several.

use crate::archives::Archives;
use crate::closure;
use crate::context::{Context, Runtime, lock};
use crate::debug::{Audience, Reporter};
use crate::error::{LinkError, LinkErrors, MemoryError};
use crate::link::{Finished, Job, Times, link};
use crate::linker_defined;
use crate::memory::MemoryManager;
use crate::passes::Passes;
use crate::process::Library;
use crate::resolver::Resolver;
use crate::runtime::exit::{self, ProgramArguments};
use crate::runtime::init;
use bytes::Bytes;
use clinch_graph::{InputName, LinkGraph, Workers};
use clinch_target::Arch;
use std::sync::{Arc, Mutex, PoisonError};

/// What a dylib does by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DylibOptions {
    /// Link every object that was added, as static linkers do; else only those that are needed.
    pub link_all: bool,
    /// Use the process's own symbols.
    pub process_symbols: bool,
    /// Open the libraries that compiler drivers link without being asked, when something is
    /// missing.
    pub default_libraries: bool,
    /// Give what is found nowhere the address 0.
    pub phony_externals: bool,
    /// Prepare for running: unwind tables, thread-local storage, initializers.
    pub execute: bool,
    /// Debuggers and profilers to tell of what is linked, when it is to be run.
    pub audience: Audience,
}

impl Default for DylibOptions {
    fn default() -> Self {
        Self {
            link_all: true,
            process_symbols: true,
            default_libraries: true,
            phony_externals: false,
            execute: true,
            audience: Audience::default(),
        }
    }
}

/// Objects, archives and libraries that are linked together.
#[derive(Debug)]
pub struct Dylib {
    name: String,
    arch: &'static Arch,
    options: DylibOptions,
    /// Before `memory`: what the process was told of is forgotten before its memory goes.
    runtime: Arc<Mutex<Runtime>>,
    memory: Arc<dyn MemoryManager>,
    workers: Arc<Workers>,
    inputs: Inputs,
    archives: Archives,
    fallback: Archives,
    n_libraries: usize,
    resolver: Arc<Resolver>,
    times: Times,
}

/// The objects of a dylib.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    objects: Vec<(InputName, Bytes, bool)>,
}

impl Inputs {
    /// Objects that no link has taken yet, with their numbers.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (usize, (InputName, Bytes))> + '_ {
        self.objects
            .iter()
            .enumerate()
            .filter(|(_, (_, _, linked))| !linked)
            .map(|(number, (name, bytes, _))| (number, (name.clone(), bytes.clone())))
    }
}

impl Dylib {
    /// A dylib without objects.
    pub fn new(
        name: &str,
        arch: &'static Arch,
        options: DylibOptions,
        memory: Arc<dyn MemoryManager>,
        workers: Arc<Workers>,
    ) -> Self {
        let resolver = Resolver {
            process: options.process_symbols,
            fallback: options.default_libraries,
            phony: options.phony_externals,
            ..Resolver::default()
        };
        let runtime = Runtime {
            reporter: Reporter::new(options.audience, &workers),
            ..Runtime::default()
        };
        Self {
            name: name.to_owned(),
            arch,
            options,
            memory,
            workers,
            inputs: Inputs::default(),
            archives: Archives::default(),
            fallback: Archives::default(),
            n_libraries: 0,
            resolver: Arc::new(resolver),
            runtime: Arc::new(Mutex::new(runtime)),
            times: Times::new(),
        }
    }

    /// Adds a relocatable object.
    pub fn add_object(&mut self, name: InputName, bytes: Bytes) {
        self.inputs.objects.push((name, bytes, false));
    }

    /// Adds an archive, whose members are linked when something needs them.
    ///
    /// # Errors
    /// Not an archive.
    pub fn add_archive(&mut self, path: &str, bytes: Bytes) -> Result<(), LinkError> {
        self.n_libraries += 1;
        self.archives.add(path, bytes, self.n_libraries)
    }

    /// Adds an archive that is searched only for what is found nowhere else.
    ///
    /// # Errors
    /// Not an archive.
    pub fn add_fallback_archive(&mut self, path: &str, bytes: Bytes) -> Result<(), LinkError> {
        self.fallback.add(path, bytes, usize::MAX)
    }

    /// Adds all members of the archives that were added so far as objects.
    ///
    /// # Errors
    /// An archive that cannot be read.
    pub fn load_archives(&mut self) -> Result<(), LinkError> {
        for (name, bytes) in self.archives.take_all()? {
            self.add_object(name, bytes);
        }
        Ok(())
    }

    /// Adds an opened shared library.
    pub fn add_library(&mut self, library: Library) {
        self.n_libraries += 1;
        let position = self.n_libraries;
        self.resolver.add_library(position, library);
    }

    /// Gives a name a value. Unlike what [`Dylib::define`] defines, it is not reached through a
    /// stub where it is too far: such references fail.
    pub fn define_value(&mut self, name: &str, value: u64) {
        self.define(name, value);
        if let Some(resolver) = Arc::get_mut(&mut self.resolver) {
            resolver.values.insert(name.as_bytes().to_vec());
        }
    }

    /// Gives a name a fixed address.
    pub fn define(&mut self, name: &str, address: u64) {
        if let Some(resolver) = Arc::get_mut(&mut self.resolver) {
            resolver.absolutes.insert(name.as_bytes().to_vec(), address);
        }
    }

    /// How long each step took so far.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// Links what was added and not linked yet, with passes of the caller's: all objects, or those
    /// that define one of `wanted` and what they need. Objects that a link took are not linked
    /// again, even when it failed: one that is wrong must not fail every later link.
    ///
    /// # Errors
    /// Everything that is wrong with the inputs or their combination, in a fixed order.
    pub fn link(&mut self, wanted: &[&str], passes: Passes) -> Result<(), LinkErrors> {
        let result = self.link_once(wanted, passes);
        self.archives.settle(result.is_ok());
        self.fallback.settle(result.is_ok());
        result
    }

    fn link_once(&mut self, wanted: &[&str], passes: Passes) -> Result<(), LinkErrors> {
        let graph = LinkGraph::new(&self.name, &self.arch.graph);
        let wanted: Vec<&[u8]> = wanted.iter().map(|name| name.as_bytes()).collect();
        self.times = Times::new();
        let resolver = Arc::clone(&self.resolver);
        let mut search = Search {
            arch: self.arch,
            archives: &mut self.archives,
            fallback: &mut self.fallback,
            resolver: &resolver,
            wide: self.options.default_libraries,
        };
        let mut closed = closure::close(
            graph,
            &self.workers,
            &self.inputs,
            &mut search,
            &wanted,
            self.options.link_all,
        )?;
        resolver.share_variables(&mut closed.graph, &closed.names, &closed.resolution)?;
        for number in &closed.objects {
            self.inputs.objects[*number].2 = true;
        }
        self.times.step("read and resolve");

        let outcome: Arc<Mutex<Option<Result<Times, LinkErrors>>>> = Arc::default();
        let context = Context {
            resolver: Arc::clone(&self.resolver),
            runtime: Arc::clone(&self.runtime),
            arch: self.arch,
            execute: self.options.execute,
            block: Mutex::default(),
            outcome: Arc::clone(&outcome),
        };
        let job = Job {
            graph: closed.graph,
            arch: self.arch,
            names: closed.names,
            resolution: closed.resolution,
            roots: closed.roots,
            passes,
            memory: Arc::clone(&self.memory),
            workers: Arc::clone(&self.workers),
            times: std::mem::take(&mut self.times),
        };
        link(job, Arc::new(context));
        match lock(&outcome).take() {
            Some(Ok(times)) => {
                self.times = times;
                Ok(())
            }
            Some(Err(errors)) => Err(errors),
            None => Err(MemoryError::Runtime("the link did not end".to_owned()).into()),
        }
    }

    /// Looks at the finished links, in the order in which they were done.
    pub fn look_at_links<R>(&self, look: impl FnOnce(&[Finished]) -> R) -> R {
        let finished = &self.resolver.finished;
        look(&finished.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The address of a symbol that was linked.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.resolver.linked(name.as_bytes())
    }

    /// Runs the initializers of what was linked since the last call, and registers finalizers to
    /// run when the process exits.
    ///
    /// # Safety
    /// Runs code of the inputs, which must be fit to run in this process.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn initialize(&self, arguments: &ProgramArguments) {
        let (initializers, finalizers) = {
            let mut runtime = lock(&self.runtime);
            (
                std::mem::take(&mut runtime.initializers),
                std::mem::take(&mut runtime.finalizers),
            )
        };
        lock(&self.runtime)
            .registered
            .extend(exit::finalize_at_exit(finalizers));
        // SAFETY: the caller's promise; the arrays are in finalized memory.
        unsafe { init::run(&initializers, arguments.arguments()) };
    }

    /// Runs what was left for the dylib's end: handlers that were registered for it, last to
    /// first, then finalizers. Each runs once.
    ///
    /// # Safety
    /// Runs code of the inputs, none of which may be running.
    #[expect(unsafe_code, reason = "runs linked code")]
    pub unsafe fn finalize(&self) {
        let handles = std::mem::take(&mut lock(&self.runtime).handles);
        for handle in handles
            .into_iter()
            .rev()
            .chain(self.address("__dso_handle"))
        {
            // SAFETY: the caller's promise; the code is still there.
            unsafe { exit::run_handlers(handle) };
        }
        let registered = std::mem::take(&mut lock(&self.runtime).registered);
        for finalizers in registered.iter().rev() {
            // SAFETY: as above.
            unsafe { finalizers.run() };
        }
    }

    /// Gives back everything the process holds for the dylib: handlers and finalizers are run,
    /// unwind tables forgotten, memory released.
    ///
    /// # Errors
    /// What the system says when memory is given back.
    ///
    /// # Safety
    /// No code of the dylib may be running, and nobody may use its addresses afterwards.
    #[expect(unsafe_code, reason = "takes linked code away")]
    pub unsafe fn unload(self) -> Result<(), MemoryError> {
        // SAFETY: the caller's promise.
        unsafe { self.finalize() };
        let copies = std::mem::take(&mut lock(&self.runtime).copies);
        for copy in copies.into_iter().rev() {
            // SAFETY: as above.
            unsafe { copy.put_back() };
        }
        let mut runtime = lock(&self.runtime);
        runtime.registrations.clear();
        runtime.frames.clear();
        runtime.blocks.clear();
        for allocation in std::mem::take(&mut runtime.allocations) {
            self.memory.deallocate(allocation)?;
        }
        Ok(())
    }
}

/// Where a closure finds members of archives.
pub(crate) struct Search<'a> {
    pub(crate) arch: &'static Arch,
    pub(crate) archives: &'a mut Archives,
    pub(crate) fallback: &'a mut Archives,
    pub(crate) resolver: &'a Resolver,
    pub(crate) wide: bool,
}

impl Search<'_> {
    /// The archive member to link for a name that no object defines.
    pub(crate) fn member(
        &mut self,
        name: &[u8],
        is_tls: bool,
    ) -> Result<Option<closure::Member>, LinkError> {
        if let Some(position) = self.archives.position_of(self.arch, name)? {
            if self.resolver.knows_before(name, position, is_tls) {
                return Ok(None);
            }
            return self.archives.take(name);
        }
        if !self.wide
            || is_tls
            || linker_defined::is_linker_defined(name)
            || self.resolver.knows_before(name, usize::MAX, is_tls)
            || self.resolver.shared(name, false).is_some()
        {
            return Ok(None);
        }
        match self.fallback.position_of(self.arch, name)? {
            Some(_) => self.fallback.take(name),
            None => Ok(None),
        }
    }
}
