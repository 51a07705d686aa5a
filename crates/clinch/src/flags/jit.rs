//! The command line of `clinch jit`: llvm-jitlink's options, as far as they are there.

use super::list::{Flag, Takes, number, size, text};
use std::path::PathBuf;

/// A file or library, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    File(PathBuf),
    Library(String),
}

/// What was typed.
#[derive(Debug)]
pub(crate) struct JitOptions {
    pub(crate) inputs: Vec<Input>,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) search_system: bool,
    pub(crate) entry: String,
    pub(crate) no_exec: bool,
    pub(crate) phony_externals: bool,
    pub(crate) process_symbols: bool,
    pub(crate) all_load: bool,
    pub(crate) absolutes: Vec<(String, u64)>,
    pub(crate) slab_size: Option<u64>,
    pub(crate) slab_address: Option<u64>,
    pub(crate) slab_page: u64,
    pub(crate) threads: Option<usize>,
    pub(crate) show_times: bool,
    pub(crate) show_contents: bool,
    pub(crate) arguments: Vec<String>,
    pub(crate) help: bool,
}

impl Default for JitOptions {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            folders: Vec::new(),
            search_system: false,
            entry: "main".to_owned(),
            no_exec: false,
            phony_externals: false,
            process_symbols: true,
            all_load: false,
            absolutes: Vec::new(),
            slab_size: None,
            slab_address: None,
            slab_page: 4096,
            threads: None,
            show_times: false,
            show_contents: false,
            arguments: Vec::new(),
            help: false,
        }
    }
}

macro_rules! flag {
    ($name:literal, $takes:ident $value:literal, $doc:literal, $set:expr) => {
        Flag {
            name: $name,
            takes: Takes::$takes,
            value: $value,
            doc: $doc,
            set: $set,
        }
    };
}

/// All options.
pub(crate) const FLAGS: &[Flag<JitOptions>] = &[
    flag!("help", Nothing "", "print this", |o, _| { o.help = true; Ok(()) }),
    flag!("noexec", Nothing "", "link, but do not run", |o, _| { o.no_exec = true; Ok(()) }),
    flag!("entry", Value "symbol", "what to run (default: main)", |o, v| {
        o.entry = text(v)?;
        Ok(())
    }),
    flag!("args", Rest "argument", "arguments of the program: all words that follow", |o, v| {
        o.arguments.push(text(v)?);
        Ok(())
    }),
    flag!(
        "phony-externals", Nothing "", "what is defined nowhere has address 0",
        |o, _| { o.phony_externals = true; Ok(()) }
    ),
    flag!(
        "no-process-syms", Nothing "", "do not use this process's symbols",
        |o, _| { o.process_symbols = false; Ok(()) }
    ),
    flag!(
        "all_load", Nothing "", "link all members of archives",
        |o, _| { o.all_load = true; Ok(()) }
    ),
    flag!("abs", Value "name=address", "define an absolute symbol", |o, v| {
        let v = text(v)?;
        let (name, address) = v.split_once('=').ok_or("needs name=address")?;
        o.absolutes.push((name.to_owned(), number(std::ffi::OsStr::new(address))?));
        Ok(())
    }),
    flag!("L", Joined "folder", "look for libraries there", |o, v| {
        let folder = PathBuf::from(v);
        if !folder.is_dir() {
            return Err(format!("{} is not a folder", folder.display()));
        }
        o.folders.push(folder);
        Ok(())
    }),
    flag!("l", Joined "name", "link library <name>", |o, v| {
        o.inputs.push(Input::Library(text(v)?));
        Ok(())
    }),
    flag!(
        "search-sys-lib", Nothing "", "look for libraries in the system's folders too",
        |o, _| { o.search_system = true; Ok(()) }
    ),
    flag!("slab-allocate", Value "size", "link into a slab of this size (Kb, Mb, Gb)", |o, v| {
        o.slab_size = Some(size(v)?);
        Ok(())
    }),
    flag!(
        "slab-address", Value "address", "pretend that the slab lies there (with -noexec)",
        |o, v| {
            o.slab_address = Some(number(v)?);
            Ok(())
        }
    ),
    flag!("slab-page-size", Value "size", "the slab's page size", |o, v| {
        o.slab_page = size(v)?;
        if o.slab_page.is_power_of_two() { Ok(()) } else { Err("is not a power of two".into()) }
    }),
    flag!("num-threads", Value "n", "link on so many threads (default: all)", |o, v| {
        let n = usize::try_from(number(v)?).map_err(|error| error.to_string())?;
        o.threads = Some(n);
        Ok(())
    }),
    flag!(
        "show-times", Nothing "", "print how long each step took",
        |o, _| { o.show_times = true; Ok(()) }
    ),
    flag!("time", Nothing "", "the same", |o, _| { o.show_times = true; Ok(()) }),
    flag!(
        "show-relocated-section-contents", Nothing "", "print the bytes that were linked",
        |o, _| { o.show_contents = true; Ok(()) }
    ),
];
