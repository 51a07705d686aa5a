//! `-debug` and `-debug-only`: what an LLVM with assertions tells of its work on standard error,
//! told of clinch's. LLVM links each file as a graph of its own; clinch links many as one, so what
//! a step does to many files is told file by file.
//!
//! A plugin of the session looks at each link by passes. Without the options there is none.

mod frames;
mod graph;
mod orc;
mod phases;
mod reader;

use crate::flags::debug::DebugTypes;
use crate::flags::jit::{Input as Argument, JitOptions};
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{Input, LinkGraph};
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkId, LinkInfo, LinkPlugin};
use clinch_link::layout::Layout;
use clinch_target::Arch;
use std::sync::{Arc, Mutex, PoisonError};

/// The debug types that clinch has something to say of.
const JITLINK: &str = "jitlink";
const ORC: &str = "orc";
const TOOL: &str = "llvm_jitlink";

/// What messages call an input.
type NameOf = dyn Fn(&Input) -> String + Send + Sync;

/// Tells of a session and of each of its links.
pub(super) struct DebugOnly {
    told: Arc<Told>,
    /// The links that have begun and not ended.
    links: Mutex<Map<LinkId, Arc<Mutex<Link>>>>,
}

/// What is told, and what must be known for it.
struct Told {
    types: DebugTypes,
    arch: &'static Arch,
    name: Box<NameOf>,
    /// Names that dylibs define without a file.
    absolutes: Set<String>,
    process: bool,
    /// Whether files are registered for rules and lists of addresses.
    registers_files: bool,
}

/// What was seen of a link so far.
struct Link {
    scope: orc::Scope,
    files: phases::Files,
    units: orc::Files,
    is_fixed: bool,
}

impl DebugOnly {
    /// `name` is what messages call an input. `None` when there is nothing to tell.
    pub(super) fn new(
        options: &JitOptions,
        arch: &'static Arch,
        name: impl Fn(&Input) -> String + Send + Sync + 'static,
    ) -> Option<Self> {
        let types = options.debug.clone();
        let is_on = [JITLINK, ORC, TOOL].iter().any(|name| types.has(name));
        let absolutes = options.absolutes.iter().map(|own| own.value.0.clone());
        let aliases = options.aliases.iter().map(|alias| alias.value.name.clone());
        is_on.then(|| Self {
            told: Arc::new(Told {
                types,
                arch,
                name: Box::new(name),
                absolutes: absolutes.chain(aliases).collect(),
                process: options.process_symbols,
                registers_files: !options.checks.is_empty() || options.show.addresses,
            }),
            links: Mutex::default(),
        })
    }

    /// What the command line asks for, before anything is linked.
    pub(super) fn session(&self, options: &JitOptions) {
        self.told.say(TOOL, || session(options));
        self.told.say(ORC, || {
            let names = std::iter::once((options.entry.as_str(), false));
            self.told.scope("main").look_up(names, "Ready")
        });
    }

    /// The entry point was found, and rules are about to be evaluated.
    pub(super) fn entry(&self, options: &JitOptions, address: u64) {
        let name = &options.entry;
        self.told.say(TOOL, || {
            let checks = match options.checks.as_slice() {
                [] => "",
                _ => "Running checks...\n",
            };
            format!("Using entry point \"{name}\": {address:#018x}\n{checks}")
        });
    }

    /// The program is about to run.
    pub(super) fn runs(&self, options: &JitOptions) {
        let name = &options.entry;
        self.told.say(TOOL, || format!("Running \"{name}\"...\n"));
    }

    fn end(&self, link: LinkId) -> Option<Arc<Mutex<Link>>> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.remove(&link)
    }
}

impl LinkPlugin for DebugOnly {
    fn modify_passes(&self, link: &LinkInfo, _graph: &LinkGraph, passes: &mut Passes) {
        let seen = Arc::new(Mutex::new(Link {
            scope: self.told.scope(&link.dylib_name),
            files: phases::Files::default(),
            units: orc::Files::default(),
            is_fixed: false,
        }));
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.insert(link.link, Arc::clone(&seen));
        drop(links);
        let name = || "debug-only".to_owned();

        let (told, link) = (Arc::clone(&self.told), Arc::clone(&seen));
        let pass = move |graph: &mut LinkGraph| {
            told.read(&mut locked(&link), graph);
            Ok(())
        };
        passes.pre_prune.push((name(), Box::new(pass)));
        let (told, link) = (Arc::clone(&self.told), Arc::clone(&seen));
        let pass = move |graph: &mut LinkGraph| {
            told.say(JITLINK, || locked(&link).files.pruned(graph));
            Ok(())
        };
        passes.post_prune.push((name(), Box::new(pass)));
        let (told, link) = (Arc::clone(&self.told), Arc::clone(&seen));
        let pass = move |graph: &mut LinkGraph, layout: &Layout| {
            told.allocated(&mut locked(&link), graph, layout);
            Ok(())
        };
        passes.post_allocation.push((name(), Box::new(pass)));
        let (told, link) = (Arc::clone(&self.told), Arc::clone(&seen));
        let pass = move |graph: &mut LinkGraph, layout: &Layout| {
            told.resolved(&mut locked(&link), graph, layout);
            Ok(())
        };
        passes.pre_fixup.push((name(), Box::new(pass)));
        let told = Arc::clone(&self.told);
        let pass = move |graph: &LinkGraph, layout: &Layout, _: u64, _: &mut [u8]| {
            told.fixed(&mut locked(&seen), graph, layout);
            Ok(())
        };
        passes.post_fixup.push((name(), Box::new(pass)));
    }

    fn notify_emitted(&self, link: &LinkInfo) -> Result<(), String> {
        if let Some(link) = self.end(link.link) {
            let link = locked(&link);
            self.told.say(JITLINK, || link.files.finished());
            self.told.say(ORC, || link.units.finished(&link.scope));
        }
        Ok(())
    }

    fn notify_failed(&self, link: &LinkInfo) {
        self.end(link.link);
    }
}

impl Told {
    fn scope(&self, dylib: &str) -> orc::Scope {
        orc::Scope {
            dylib: dylib.to_owned(),
            process: self.process,
        }
    }

    fn say(&self, debug_type: &str, text: impl FnOnce() -> String) {
        if self.types.has(debug_type) {
            eprint!("{}", text());
        }
    }

    fn read(&self, link: &mut Link, graph: &LinkGraph) {
        self.say(ORC, || link.units.read(graph, &link.scope, &self.name));
        if self.types.has(JITLINK) || self.registers_files {
            let text = link.files.read(graph, self.arch, &self.name);
            self.say(JITLINK, || text);
        }
    }

    fn allocated(&self, link: &mut Link, graph: &LinkGraph, layout: &Layout) {
        self.say(JITLINK, || link.files.allocated(graph, layout));
        self.say(ORC, || link.units.allocated(graph, &link.scope, layout));
    }

    fn resolved(&self, link: &mut Link, graph: &LinkGraph, layout: &Layout) {
        self.say(JITLINK, || link.files.resolved(graph, layout));
        if self.types.has(ORC) {
            let absolute = |name: &str| self.absolutes.contains(name);
            let units = &mut link.units;
            units.resolved(graph, &link.scope, layout, &absolute);
        }
    }

    /// Is called for each segment, and tells once.
    fn fixed(&self, link: &mut Link, graph: &LinkGraph, layout: &Layout) {
        if std::mem::replace(&mut link.is_fixed, true) {
            return;
        }
        self.say(JITLINK, || link.files.fixed(graph, self.arch, layout));
        if self.registers_files {
            self.say(TOOL, || link.files.registered(graph, layout));
        }
    }
}

fn locked(link: &Mutex<Link>) -> std::sync::MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The session that a command line asks for.
fn session(options: &JitOptions) -> String {
    let mut text = String::new();
    if let Some(triple) = &options.triple {
        text += &format!("Triple from -triple override: {triple}\n");
    }
    text.push_str("Creating JITDylibs...\n");
    for (number, name) in options.dylibs.iter().enumerate() {
        text += &format!("  {number}: {name}\n");
    }
    text += &format!("Dylib search order is [ {} ", options.dylibs.join(" "));
    if options.process_symbols {
        text += &format!("{} ", orc::PROCESS);
    }
    text.push_str("]\nDefining absolute symbols...\nDefining aliases...\n");
    let harness = options
        .inputs
        .iter()
        .filter_map(|input| match &input.value {
            Argument::Harness(path) => Some(path),
            _ => None,
        });
    text.push_str("Adding test harness objects...\n");
    for path in harness {
        text += &format!("  {}\n", path.display());
    }
    text.push_str("Adding objects...\n");
    for (index, input) in (1..).zip(&options.inputs) {
        if let Argument::File(path) = &input.value
            && !path
                .extension()
                .is_some_and(|end| end == "a" || end == "lib")
        {
            let dylib = &options.dylibs[input.dylib];
            let lazy = if options.lazy.contains(&(index - 1)) {
                " (lazy-linked)"
            } else {
                ""
            };
            text += &format!("  {index}: \"{}\" {lazy} to {dylib}\n", path.display());
        }
    }
    if !options.folders.is_empty() {
        text.push_str("Search paths:\n");
        for (number, name) in options.dylibs.iter().enumerate() {
            let own = options.folders.iter().filter(|own| own.dylib == number);
            let own: Vec<String> = own
                .map(|own| format!(" \"{}\"", own.value.display()))
                .collect();
            if !own.is_empty() {
                text += &format!("  {name}: [{} ]\n", own.concat());
            }
        }
    }
    text
}
