//! `clinch jit`: links into memory with llvm-jitlink's options, checks, runs.

mod error;
mod harness;
mod image;
mod inputs;
mod objects;
mod observe;
mod sectcreate;
mod show;
mod symtab;

use super::run::{find_thread_local_space, workers};
use crate::flags::jit::{FLAGS, Input, JitOptions};
use crate::flags::list;
use crate::render::{self, Failure};
use clinch_jit::check::{self, Outcome};
use clinch_jit::memory::{InProcess, MemoryManager, Slab};
use clinch_jit::runtime::restart;
use clinch_jit::{Dylib, DylibOptions, ProgramArguments};
use clinch_object::FileBytes;
use image::Image;
use inputs::Inputs;
use observe::Observed;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let mut options = JitOptions::default();
    list::parse(FLAGS, words, &mut options, |options, word| {
        options.inputs.push(Input::File(word.into()));
        Ok(())
    })?;
    if options.help {
        print!(
            "usage: clinch jit [OPTION...] FILE...\n\n{}",
            list::help(FLAGS)
        );
        return Ok(0);
    }
    if options.version {
        println!("clinch {}", env!("CARGO_PKG_VERSION"));
        return Ok(0);
    }
    if options.inputs.is_empty() {
        return Err("no input files".into());
    }
    if let Some(table) = &options.symbolicate {
        symtab::symbolicate(table, &options.inputs)?;
        return Ok(0);
    }
    if options.slab_address.is_some() && (options.slab_size.is_none() || !options.no_exec) {
        return Err("-slab-address needs -slab-allocate and -noexec".into());
    }
    link_and_run(&options).map_err(|failure| error::Reported::new(failure, &options).into())
}

fn link_and_run(options: &JitOptions) -> Result<u8, Failure> {
    restart::restore();
    let inputs = Inputs::open(options)?;
    let arch = inputs.arch(options)?;
    let slab = options.slab_size.map(|size| {
        // An address that a program could have, out of reach of nothing that is linked.
        let address = options.slab_address.unwrap_or(0x1000_0000);
        Slab::new(address, size, options.slab_page)
    });
    let memory: Arc<dyn MemoryManager> = match slab {
        Some(slab) if options.no_exec => Arc::new(slab),
        _ => Arc::new(InProcess::new()),
    };
    let dylib_options = DylibOptions {
        link_all: false,
        process_symbols: options.process_symbols,
        // What the peer has in its own process: the C++ runtime among others.
        default_libraries: options.process_symbols && !options.phony_externals && !options.no_exec,
        phony_externals: options.phony_externals,
        execute: !options.no_exec,
        audience: options.audience,
    };
    let workers = workers(options.threads);
    let mut dylib = Dylib::new("main", arch, dylib_options, memory, Arc::new(workers));
    for (name, address) in &options.absolutes {
        dylib.define_value(name, *address);
    }
    dylib.define(
        "llvm_jitlink_setTestResultOverride",
        clinch_graph::index::int::u64_of((set_result as *const ()).addr()),
    );
    inputs.add_to(&mut dylib, options)?;

    let observed = Arc::new(Observed::new(inputs));
    let passes = observe::passes(&observed, options);
    // What an alias stands for is linked before anybody knows whether it is used.
    let wanted: Vec<&str> = std::iter::once(options.entry.as_str())
        .chain(options.aliases.iter().map(|(_, other)| other.as_str()))
        .collect();
    let linked = dylib.link(&wanted, passes).map_err(Failure::from);
    linked.inspect_err(find_thread_local_space)?;
    if options.show.times {
        render::times(&dylib.times().steps);
    }
    let entry = dylib.address(&options.entry).or_else(|| {
        let (_, other) = options
            .aliases
            .iter()
            .find(|(name, _)| *name == options.entry)?;
        dylib.address(other)
    });
    let Some(entry) = entry else {
        return Err(format!("Symbols not found: [ {} ]", options.entry).into());
    };
    if Image::is_wanted(options) {
        dylib.look_at_links(|links| {
            let image = Image::new(arch, links, &observed, options)?;
            show::linked(&image, options)?;
            check_rules(&image, options)
        })?;
    }
    if options.no_exec {
        // The process ends here; taking everything apart first would only cost time.
        clinch_jit::runtime::exit::exit(0);
    }
    super::start(&dylib, entry, &program_arguments(options), |status| {
        // Handlers may change the result, so they run before it is asked for.
        super::finalize(&dylib);
        match RESULT.load(Ordering::Relaxed) {
            NO_RESULT => status,
            // Exit statuses are their lowest bits.
            result => i32::try_from(result & 0xff).unwrap_or(status),
        }
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
    let name = options.inputs.iter().find_map(|input| match input {
        Input::File(path) => Some(path.clone().into_os_string()),
        _ => None,
    });
    let words = options.arguments.iter().map(OsString::from);
    ProgramArguments::new(name.into_iter().chain(words))
}
