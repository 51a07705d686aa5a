//! `clinch jit`: links into memory with llvm-jitlink's options, checks, runs.

use super::run::{find_thread_local_space, workers};
use crate::flags::jit::{FLAGS, Input, JitOptions};
use crate::flags::list;
use crate::render::{self, Failure};
use clinch_jit::memory::{InProcess, MemoryManager, Slab};
use clinch_jit::passes::Passes;
use clinch_jit::runtime::restart;
use clinch_jit::{Dylib, DylibOptions, ProgramArguments, Search};
use std::ffi::OsString;
use std::sync::Arc;

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
    if options.inputs.is_empty() {
        return Err("no input files".into());
    }
    if options.slab_address.is_some() && (options.slab_size.is_none() || !options.no_exec) {
        return Err("-slab-address needs -slab-allocate and -noexec".into());
    }

    restart::restore();
    let arch = clinch_target::host_arch().ok_or("clinch cannot run code on this machine")?;
    let slab = options.slab_size.map(|size| {
        // An address that a program could have, out of reach of nothing that is linked.
        let address = options.slab_address.unwrap_or(0x1000_0000);
        Slab::new(address, size, options.slab_page)
    });
    let memory: Arc<dyn MemoryManager> = match &slab {
        Some(slab) if options.no_exec => Arc::new(slab.clone()),
        _ => Arc::new(InProcess::new()),
    };
    let dylib_options = DylibOptions {
        link_all: false,
        process_symbols: options.process_symbols,
        default_libraries: false,
        phony_externals: options.phony_externals,
        execute: !options.no_exec,
    };
    let workers = workers(options.threads);
    let mut dylib = Dylib::new("main", arch, dylib_options, memory, Arc::new(workers));
    add_inputs(&mut dylib, &options)?;
    let linked = dylib
        .link(&[&options.entry], Passes::default())
        .map_err(Failure::from);
    linked.inspect_err(find_thread_local_space)?;
    if options.show_times {
        render::times(&dylib.times().steps);
    }
    if let Some(slab) = &slab
        && options.show_contents
    {
        render::contents(&slab.take_contents());
    }
    let Some(entry) = dylib.address(&options.entry) else {
        return Err(format!("Symbols not found: [ {} ]", options.entry).into());
    };
    if options.no_exec {
        // The process ends here; taking everything apart first would only cost time.
        clinch_jit::runtime::exit::exit(0);
    }
    super::start(&dylib, entry, &program_arguments(&options))
}

fn add_inputs(dylib: &mut Dylib, options: &JitOptions) -> Result<(), Failure> {
    for (name, address) in &options.absolutes {
        dylib.define(name, *address);
    }
    let search = Search {
        folders: options.folders.clone(),
        system: options.search_system,
    };
    let mut errors = Vec::new();
    for input in &options.inputs {
        let added = match input {
            Input::File(path) => search.add_file(dylib, path),
            Input::Library(name) => search.add_library(dylib, name),
        };
        errors.extend(added.err());
    }
    if !errors.is_empty() {
        return Err(Failure::from(errors));
    }
    if options.all_load {
        dylib.load_archives()?;
    }
    Ok(())
}

/// What the program is given: the first file's name and the words behind `-args`.
fn program_arguments(options: &JitOptions) -> ProgramArguments {
    let name = options.inputs.iter().find_map(|input| match input {
        Input::File(path) => Some(path.clone().into_os_string()),
        Input::Library(_) => None,
    });
    let words = options.arguments.iter().map(OsString::from);
    ProgramArguments::new(name.into_iter().chain(words))
}
