//! `clinch jit`: links into memory with llvm-jitlink's options, checks, runs.

mod combine;
mod debug_only;
mod error;
mod executor;
mod harness;
mod image;
mod inputs;
mod lazy;
mod objects;
mod observe;
mod sectcreate;
mod show;
mod symtab;

use super::run::{find_thread_local_space, threads};
use crate::flags::jit::{self, Input, JitOptions};
use crate::flags::list;
use crate::render::{self, Failure};
use clinch_graph::SymbolFlags;
use clinch_graph::index::int::u64_of;
use clinch_jit::ProgramArguments;
use clinch_jit::check::{self, Outcome};
use clinch_jit::memory::{InProcess, Limited, MemoryManager, Slab};
use clinch_jit::runtime::restart;
use clinch_jit::session::{Dylib, DylibSources, LinkPlugin, Match, SessionOptions};
use clinch_object::FileBytes;
use debug_only::DebugOnly;
use image::Image;
use inputs::{FAR, Inputs};
use observe::{Observed, Observer};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// The page size of slabs.
const PAGE: u64 = 4096;

pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let mut options = jit::parse(words)?;
    if options.help {
        print!(
            "usage: clinch jit [OPTION...] FILE...\n\n{}",
            list::help(jit::FLAGS)
        );
        return Ok(0);
    }
    if options.version {
        println!("clinch {}", env!("CARGO_PKG_VERSION"));
        return Ok(0);
    }
    combine::check(&mut options)?;
    if options.inputs.is_empty() {
        return Err("no input files".into());
    }
    if let Some(table) = &options.symbolicate {
        let inputs: Vec<_> = options
            .inputs
            .into_iter()
            .map(|input| input.value)
            .collect();
        symtab::symbolicate(table, &inputs)?;
        return Ok(0);
    }
    let options = Arc::new(options);
    link_and_run(&options).map_err(|failure| error::Reported::new(failure, &options).into())
}

fn link_and_run(options: &Arc<JitOptions>) -> Result<u8, Failure> {
    restart::restore();
    let inputs = Inputs::open(options)?;
    let arch = inputs.arch(options)?;
    let slab = options.slab_size.map(|size| {
        // An address that a program could have, out of reach of nothing that is linked.
        let address = options.slab_address.unwrap_or(0x1000_0000);
        Slab::new(address, size, options.slab_page.unwrap_or(PAGE))
    });
    let memory = || -> Option<Arc<dyn MemoryManager>> {
        let slab = slab.as_ref()?;
        Some(if options.no_exec {
            Arc::new(slab.clone())
        } else {
            // Code that runs is where the system has room, and as much as the slab would have.
            let size = options.slab_size.unwrap_or(u64::MAX);
            let memory = if options.double_map {
                InProcess::double_mapped()
            } else {
                InProcess::new()
            };
            Arc::new(Limited::new(Arc::new(memory), size))
        })
    };
    let session_options = SessionOptions {
        threads: threads(options.threads),
        execute: !options.no_exec,
        keep_graphs: Image::is_wanted(options),
        audience: options.audience,
        double_map: options.double_map,
    };
    let session = executor::session(arch, session_options, options)?;
    let observed = Arc::new(Observed::new(inputs));
    let observer = Observer::new(Arc::clone(&observed), Arc::clone(options));
    session.add_plugin(Arc::new(observer));
    let names = Arc::clone(&observed);
    let debug = DebugOnly::new(options, arch, move |input| names.inputs.name_of(input));
    let debug = debug.map(Arc::new);
    if let Some(debug) = &debug {
        session.add_plugin(Arc::clone(debug) as Arc<dyn LinkPlugin>);
        debug.session(options);
    }
    let sources = DylibSources {
        process: options.process_symbols,
        // What the peer has in its own process: the C++ runtime among others.
        default_libraries: options.process_symbols && !options.phony_externals,
        phony: options.phony_externals,
    };
    let mut dylibs = Vec::with_capacity(options.dylibs.len());
    for (place, name) in options.dylibs.iter().enumerate() {
        let dylib = match memory() {
            Some(memory) => session.create_dylib_in(name, sources, memory)?,
            None => session.create_dylib(name, sources)?,
        };
        let values = options.absolutes.iter().filter(|own| own.dylib == place);
        let values = values.map(|own| (own.value.0.as_str(), own.value.1, SymbolFlags::empty()));
        dylib.define(&values.collect::<Vec<_>>())?;
        if session.executor().is_none() {
            let override_result = u64_of((set_result as *const ()).addr());
            let flags = FAR.union(SymbolFlags::WEAK);
            dylib.define(&[("llvm_jitlink_setTestResultOverride", override_result, flags)])?;
        }
        dylibs.push(dylib);
    }

    let started = Instant::now();
    observed.inputs.add_to(&session, &dylibs, options)?;
    let read = started.elapsed();
    if options.show.initial_symbols {
        show::initial(&observed, options);
    }
    let order: Vec<_> = dylibs
        .iter()
        .map(|dylib| (dylib.id(), Match::All))
        .collect();
    let linked = session.look_up(&order, &[&options.entry]);
    let linked = linked.map_err(Failure::from);
    let found = linked.inspect_err(find_thread_local_space)?;
    let entry = found.first().copied().unwrap_or(0);
    if let Some(debug) = &debug {
        debug.entry(options, entry);
    }
    if options.show.times {
        let mut steps = vec![("read", read)];
        steps.extend(dylibs.iter().flat_map(Dylib::times));
        render::times(&steps);
    }
    if Image::is_wanted(options) {
        let links = dylibs.iter().enumerate();
        let links = links.flat_map(|(place, dylib)| {
            let links = dylib.links().into_iter();
            links.map(move |link| (place, link))
        });
        let links: Vec<_> = links.collect();
        let image = Image::new(arch, &links, &observed, options)?;
        show::linked(&image, options)?;
        check_rules(&image, options)?;
    }
    if options.no_exec {
        // The process ends here; taking everything apart first would only cost time.
        clinch_jit::runtime::exit::exit(0);
    }
    if let Some(debug) = &debug {
        debug.runs(options);
    }
    if session.executor().is_some() {
        return executor::run(&dylibs, entry, &program_arguments(options));
    }
    lazy::speculate(&dylibs, options)?;
    super::start(&dylibs, entry, &program_arguments(options), |status| {
        // Handlers may change the result, so they run before it is asked for.
        super::finalize(&dylibs)?;
        lazy::record(&observed, options)?;
        Ok(match RESULT.load(Ordering::Relaxed) {
            NO_RESULT => status,
            // Exit statuses are their lowest bits.
            result => i32::try_from(result & 0xff).unwrap_or(status),
        })
    })
}

/// The status that the program asked for in place of its own, if any.
static RESULT: AtomicI64 = AtomicI64::new(NO_RESULT);
const NO_RESULT: i64 = i64::MIN;

/// `llvm_jitlink_setTestResultOverride`, which programs call.
extern "C" fn set_result(value: i64) {
    RESULT.store(value, Ordering::Relaxed);
}

/// Evaluates the rules of all check files; prints those that do not hold.
fn check_rules(image: &Image<'_>, options: &JitOptions) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for path in &options.checks {
        let shown = path.display();
        let bytes =
            FileBytes::open(path).map_err(|error| format!("'{shown}': {}", error.reason()))?;
        let rules = check::rules(&String::from_utf8_lossy(&bytes), &options.check_name);
        let mut holds = !rules.is_empty();
        for rule in &rules {
            let text = &rule.text;
            match check::evaluate(rule, image) {
                Outcome::True => continue,
                Outcome::False { left, right } => {
                    eprintln!("Expression '{text}' is false: {left:#x} != {right:#x}");
                }
                Outcome::Error(why) => {
                    eprintln!("Error evaluating expression '{text}': {why}");
                }
            }
            holds = false;
        }
        if !holds {
            failed.push(format!("Some checks in {shown} failed"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Messages(failed))
    }
}

/// What the program is given: the first file's name and the words behind `-args`.
fn program_arguments(options: &JitOptions) -> ProgramArguments {
    let name = options.inputs.iter().find_map(|input| match &input.value {
        Input::File(path) => Some(path.clone().into_os_string()),
        _ => None,
    });
    let words = options.arguments.iter().map(OsString::from);
    ProgramArguments::new(name.into_iter().chain(words))
}
