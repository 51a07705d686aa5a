//! The command line of `clinch jit`: all of llvm-jitlink's options. Those that need what clinch
//! does not have are known and refused, each with its reason.

use super::debug::DebugTypes;
use super::list::{self, Flag, Takes, number, size, size_in_kilobytes, text};
use clinch_jit::debug::Audience;
use regex_lite::Regex;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A file or library, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// An object, an archive, a shared library.
    File(PathBuf),
    /// `-lNAME`.
    Library(String),
    /// An archive whose symbols are the dylib's own.
    HiddenArchive(PathBuf),
    /// `-hidden-lNAME`: such an archive.
    HiddenLibrary(String),
    /// A shared library that counts as missing: all its symbols are 0.
    WeakFile(PathBuf),
    /// `-weak-lNAME`: such a library.
    WeakLibrary(String),
    /// An object whose definitions replace those of the others.
    Harness(PathBuf),
}

/// Something that belongs to a dylib.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InDylib<T> {
    /// The dylib's place among all.
    pub(crate) dylib: usize,
    pub(crate) value: T,
}

/// A name that stands for another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Alias {
    /// The dylibs of the two, where they are named; else the one that the option stands in.
    pub(crate) dylib: Option<String>,
    pub(crate) name: String,
    pub(crate) of_dylib: Option<String>,
    pub(crate) of: String,
}

/// A file whose bytes become a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SectCreate {
    pub(crate) section: String,
    pub(crate) file: PathBuf,
    /// Symbols in it with their offsets.
    pub(crate) symbols: Vec<(String, u64)>,
}

/// The process that a program runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ExecutorOptions {
    /// One that is started: a program, or this one again.
    Start(Option<PathBuf>),
    /// One that listens.
    Connect(String),
}

/// What is printed beside the program's own output.
#[derive(Debug, Default)]
pub(crate) struct Show {
    pub(crate) times: bool,
    pub(crate) contents: bool,
    pub(crate) addresses: bool,
    /// The files whose graphs are printed.
    pub(crate) graphs: Option<Regex>,
    pub(crate) linked_files: bool,
    pub(crate) initial_symbols: bool,
    pub(crate) final_symbols: bool,
    pub(crate) failed: bool,
    pub(crate) size_before: bool,
    pub(crate) size_after: bool,
}

/// What was typed.
#[derive(Debug)]
pub(crate) struct JitOptions {
    /// The dylibs' names, `main` first.
    pub(crate) dylibs: Vec<String>,
    pub(crate) inputs: Vec<InDylib<Input>>,
    /// The places among the inputs of those whose functions are linked when they are called.
    pub(crate) lazy: Vec<usize>,
    pub(crate) folders: Vec<InDylib<PathBuf>>,
    pub(crate) search_system: bool,
    pub(crate) entry: String,
    pub(crate) no_exec: bool,
    pub(crate) phony_externals: bool,
    pub(crate) process_symbols: bool,
    pub(crate) all_load: bool,
    pub(crate) absolutes: Vec<InDylib<(String, u64)>>,
    pub(crate) aliases: Vec<InDylib<Alias>>,
    pub(crate) sections: Vec<InDylib<SectCreate>>,
    /// Link lazy functions before they are called, when there is nothing else to do.
    pub(crate) speculate: bool,
    /// Lines `dylib,function`: what to link first.
    pub(crate) speculate_order: Option<PathBuf>,
    /// Where to write such lines, of the functions that were called.
    pub(crate) record_lazy: Option<PathBuf>,
    /// The archive of a runtime that is not needed, but that must be there.
    pub(crate) runtime: Option<PathBuf>,
    /// Shared libraries to open.
    pub(crate) preload: Vec<PathBuf>,
    pub(crate) triple: Option<String>,
    pub(crate) checks: Vec<PathBuf>,
    pub(crate) check_name: String,
    /// Where to write the symbol table.
    pub(crate) symbol_table: Option<PathBuf>,
    /// A symbol table with which the inputs, which are backtraces, are read.
    pub(crate) symbolicate: Option<PathBuf>,
    pub(crate) slab_size: Option<u64>,
    pub(crate) slab_address: Option<u64>,
    pub(crate) slab_page: Option<u64>,
    /// Never make pages executable that were writable.
    pub(crate) double_map: bool,
    /// Share memory with an executor that is started.
    pub(crate) shared_memory: bool,
    pub(crate) threads: Option<usize>,
    /// Where the program runs, when not in this process.
    pub(crate) executor: Option<ExecutorOptions>,
    pub(crate) executor_secret: Option<PathBuf>,
    pub(crate) show: Show,
    /// What is told of the work on standard error.
    pub(crate) debug: DebugTypes,
    pub(crate) audience: Audience,
    pub(crate) arguments: Vec<String>,
    pub(crate) help: bool,
    pub(crate) version: bool,
}

impl Default for JitOptions {
    fn default() -> Self {
        Self {
            dylibs: vec!["main".to_owned()],
            inputs: Vec::new(),
            lazy: Vec::new(),
            folders: Vec::new(),
            search_system: false,
            entry: "main".to_owned(),
            no_exec: false,
            phony_externals: false,
            process_symbols: true,
            all_load: false,
            absolutes: Vec::new(),
            aliases: Vec::new(),
            sections: Vec::new(),
            speculate: false,
            speculate_order: None,
            record_lazy: None,
            runtime: None,
            preload: Vec::new(),
            triple: None,
            checks: Vec::new(),
            check_name: "jitlink-check".to_owned(),
            symbol_table: None,
            symbolicate: None,
            slab_size: None,
            slab_address: None,
            slab_page: None,
            double_map: false,
            shared_memory: false,
            threads: None,
            executor: None,
            executor_secret: None,
            show: Show::default(),
            debug: DebugTypes::default(),
            audience: Audience::default(),
            arguments: Vec::new(),
            help: false,
            version: false,
        }
    }
}

impl JitOptions {
    /// What belongs to the dylib that was named last.
    fn here<T>(&self, value: T) -> InDylib<T> {
        let dylib = self.dylibs.len() - 1;
        InDylib { dylib, value }
    }

    fn set_executor(&mut self, executor: ExecutorOptions) -> Result<(), String> {
        if self
            .executor
            .as_ref()
            .is_some_and(|known| *known != executor)
        {
            return Err(
                "only one of -oop-executor and -oop-executor-connect can be specified".into(),
            );
        }
        self.executor = Some(executor);
        Ok(())
    }

    /// Adds an input to the dylib that was named last.
    pub(crate) fn add_input(&mut self, input: Input) {
        let input = self.here(input);
        self.inputs.push(input);
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
        let absolute = o.here(absolute(&text(v)?)?);
        o.absolutes.push(absolute);
        Ok(())
    }),
    flag!("L", Joined "folder", "look for libraries there", |o, v| {
        let folder = PathBuf::from(v);
        if !folder.is_dir() {
            let (dylib, folder) = (&o.dylibs[o.dylibs.len() - 1], folder.display());
            return Err(format!("While linking {dylib}, -L{folder} does not point to a directory"));
        }
        let folder = o.here(folder);
        o.folders.push(folder);
        Ok(())
    }),
    flag!("l", Joined "name", "link library <name>", |o, v| {
        o.add_input(Input::Library(text(v)?));
        Ok(())
    }),
    flag!(
        "search-sys-lib", Nothing "", "look for libraries in the system's folders too",
        |o, _| { o.search_system = true; Ok(()) }
    ),
    flag!("slab-allocate", Value "size", "link into a slab of this size (Kb, Mb, Gb)", |o, v| {
        o.slab_size = Some(size_in_kilobytes(v)?);
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
        // As with the peer, 0 is not given.
        o.slab_page = Some(size(v)?).filter(|&size| size != 0);
        let is_fit = o.slab_page.is_none_or(u64::is_power_of_two);
        if is_fit { Ok(()) } else { Err("is not a power of two".into()) }
    }),
    flag!("num-threads", Value "n", "link on so many threads (default: all)", |o, v| {
        let n = usize::try_from(number(v)?).map_err(|error| error.to_string())?;
        o.threads = Some(n);
        Ok(())
    }),
    flag!(
        "show-times", Nothing "", "print how long each step took",
        |o, _| { o.show.times = true; Ok(()) }
    ),
    flag!("time", Nothing "", "the same", |o, _| { o.show.times = true; Ok(()) }),
    flag!(
        "show-relocated-section-contents", Nothing "", "print the bytes that were linked",
        |o, _| { o.show.contents = true; Ok(()) }
    ),
    flag!(
        "show-addrs", Nothing "", "print addresses of symbols, sections, GOT entries and stubs",
        |o, _| { o.show.addresses = true; Ok(()) }
    ),
    flag!(
        "show-graphs", Value "regex", "print the linked graphs of files that match",
        |o, v| {
            let regex = Regex::new(&text(v)?).map_err(|why| why.to_string())?;
            o.show.graphs = Some(regex);
            Ok(())
        }
    ),
    flag!(
        "show-linked-files", Nothing "", "print the name of each file that is linked",
        |o, _| { o.show.linked_files = true; Ok(()) }
    ),
    flag!(
        "show-init-es", Nothing "", "print what is defined, before linking",
        |o, _| { o.show.initial_symbols = true; Ok(()) }
    ),
    flag!(
        "show-entry-es", Nothing "", "print what is defined, after linking",
        |o, _| { o.show.final_symbols = true; Ok(()) }
    ),
    flag!(
        "show-err-failed-to-materialize", Nothing "", "print what errors leave undone",
        |o, _| { o.show.failed = true; Ok(()) }
    ),
    flag!(
        "pre-prune-total-block-size", Nothing "", "print the size of all blocks before pruning",
        |o, _| { o.show.size_before = true; Ok(()) }
    ),
    flag!(
        "post-fixup-total-block-size", Nothing "", "print the size of all blocks that were linked",
        |o, _| { o.show.size_after = true; Ok(()) }
    ),
    flag!("debug", Nothing "", "tell of each step of linking", |o, _| {
        o.debug.all();
        Ok(())
    }),
    flag!(
        "debug-only", Value "type,...", "the same, of some kinds: jitlink, orc, llvm_jitlink",
        |o, v| { o.debug.only(&text(v)?); Ok(()) }
    ),
    flag!("check", Value "file", "evaluate the rules in <file>; false ones fail", |o, v| {
        o.checks.push(v.into());
        Ok(())
    }),
    flag!("check-name", Value "name", "what rules begin with (default: jitlink-check)", |o, v| {
        o.check_name = text(v)?;
        Ok(())
    }),
    flag!("write-symtab", Value "file", "write the symbol table of what was linked", |o, v| {
        o.symbol_table = Some(v.into());
        Ok(())
    }),
    flag!(
        "symbolicate-with", Value "file", "name the addresses in backtraces by a symbol table",
        |o, v| { o.symbolicate = Some(v.into()); Ok(()) }
    ),
    flag!("alias", Value "[dylib:]name=[dylib:]other", "let a name stand for another", |o, v| {
        let alias = o.here(alias(&text(v)?)?);
        o.aliases.push(alias);
        Ok(())
    }),
    flag!(
        "sectcreate", Value "section,file[@symbol=offset,...]", "make a section of a file",
        |o, v| {
            let section = o.here(sect_create(&text(v)?)?);
            o.sections.push(section);
            Ok(())
        }
    ),
    flag!(
        "harness", Rest "file", "objects whose definitions replace those of the other objects",
        |o, v| { o.add_input(Input::Harness(v.into())); Ok(()) }
    ),
    flag!("hidden-l", Joined "name", "link archive <name>, for this dylib alone", |o, v| {
        o.add_input(Input::HiddenLibrary(text(v)?));
        Ok(())
    }),
    flag!("load_hidden", Value "file", "link an archive, for this dylib alone", |o, v| {
        o.add_input(Input::HiddenArchive(v.into()));
        Ok(())
    }),
    flag!("weak-l", Joined "name", "let all symbols of library <name> be 0", |o, v| {
        o.add_input(Input::WeakLibrary(text(v)?));
        Ok(())
    }),
    flag!("weak_library", Value "file", "let all symbols of a library be 0", |o, v| {
        o.add_input(Input::WeakFile(v.into()));
        Ok(())
    }),
    flag!("preload", Value "library", "open a shared library first", |o, v| {
        o.preload.push(v.into());
        Ok(())
    }),
    flag!("triple", Value "triple", "the target (default: that of the first object)", |o, v| {
        o.triple = Some(text(v)?);
        Ok(())
    }),
    flag!(
        "ObjC", Nothing "", "load members that define Objective-C classes (ELF has none)",
        |_, _| Ok(())
    ),
    flag!(
        "add-self-relocations", Nothing "", "test aid of another architecture: no effect",
        |_, _| Ok(())
    ),
    flag!("color", Nothing "", "accepted for llvm-jitlink's sake: no effect", |_, _| Ok(())),
    flag!("version", Nothing "", "print clinch's version", |o, _| {
        o.version = true;
        Ok(())
    }),
    flag!(
        "speculate", Value "none|simple", "link lazy functions ahead when nothing else is to be done",
        |o, v| {
            o.speculate = match v.to_str() {
                Some("none") => false,
                Some("simple") => true,
                _ => return Err(format!("'{}': one of none, simple", v.to_string_lossy())),
            };
            Ok(())
        }
    ),
    flag!(
        "use-memmgr", Value "default|generic|simple-remote|shared",
        "shared: contents go to -oop-executor through shared memory; the others are the same",
        |o, v| {
            o.shared_memory = match v.to_str() {
                Some("default" | "generic" | "simple-remote") => false,
                Some("shared") => true,
                _ => {
                    let value = v.to_string_lossy();
                    let all = "one of default, generic, simple-remote, shared";
                    return Err(format!("'{value}': {all}"));
                }
            };
            Ok(())
        }
    ),
    flag!(
        "double-map", Nothing "",
        "write code through a second mapping: where it runs it was never writable",
        |o, _| { o.double_map = true; Ok(()) }
    ),
    flag!("jd", Value "name", "a further dylib, to which all that follows belongs", |o, v| {
        let name = text(v)?;
        if o.dylibs.contains(&name) {
            return Err(format!("there is a dylib '{name}' already"));
        }
        o.dylibs.push(name);
        Ok(())
    }),
    flag!("lazy", Nothing "", "link the next input's functions when they are called", |o, _| {
        o.lazy.push(o.inputs.len());
        Ok(())
    }),
    flag!(
        "speculate-order", Value "file", "lines 'dylib,function': what to link ahead first",
        |o, v| { o.speculate_order = Some(v.into()); Ok(()) }
    ),
    flag!(
        "record-lazy-execs", Value "file", "write such lines of the lazy functions that are called",
        |o, v| { o.record_lazy = Some(v.into()); Ok(()) }
    ),
    flag!(
        "oop-executor", Optional "path",
        "run in another process: a clinch at <path>, or this one again",
        |o, v| { o.set_executor(ExecutorOptions::Start((!v.is_empty()).then(|| v.into()))) }
    ),
    flag!(
        "oop-executor-connect", Value "host:port",
        "run in an executor that listens there (clinch executor)",
        |o, v| { o.set_executor(ExecutorOptions::Connect(text(v)?)) }
    ),
    flag!(
        "oop-executor-secret", Value "file",
        "the secret that an executor that listens was given",
        |o, v| { o.executor_secret = Some(v.into()); Ok(()) }
    ),
    flag!(
        "orc-runtime", Value "archive",
        "an archive that must be there; what it offers clinch has of its own",
        |o, v| { o.runtime = Some(v.into()); Ok(()) }
    ),
    flag!("vtune-support", Nothing "", "refused: there is no such support", |_, _| {
        Err("not supported; -perf-support tells Linux's perf of linked code".into())
    }),
    flag!(
        "debugger-support", Nothing "", "tell debuggers (GDB, LLDB) of linked code",
        |o, _| { o.audience.debugger = true; Ok(()) }
    ),
    flag!(
        "perf-support", Nothing "", "name linked code for Linux's perf (map and jitdump)",
        |o, _| { o.audience.perf = true; Ok(()) }
    ),
];

/// Parses the words behind `jit`.
pub(crate) fn parse(words: &[OsString]) -> Result<JitOptions, String> {
    let mut options = JitOptions::default();
    list::parse(FLAGS, words, &mut options, |options, word| {
        options.add_input(Input::File(word.into()));
        Ok(())
    })?;
    Ok(options)
}

/// `name=address`
fn absolute(value: &str) -> Result<(String, u64), String> {
    let (name, address) = value
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("Invalid absolute define \"{value}\". Syntax: <name>=<addr>"))?;
    let address = number(OsStr::new(address)).map_err(|_| {
        format!(
            "Invalid address expression \"{address}\" in absolute symbol definition \"{value}\""
        )
    })?;
    Ok((name.to_owned(), address))
}

/// `[dylib:]name=[dylib:]other`
fn alias(value: &str) -> Result<Alias, String> {
    let bad = || {
        format!(
            "Invalid alias definition \"{value}\". Syntax: [<dst-jd>:]<alias>=[<src-jd>:]<aliasee>"
        )
    };
    let (name, of) = value.split_once('=').ok_or_else(bad)?;
    let split = |text: &str| match text.split_once(':') {
        Some((dylib, name)) => (Some(dylib.to_owned()), name.to_owned()),
        None => (None, text.to_owned()),
    };
    let ((dylib, name), (of_dylib, of)) = (split(name), split(of));
    if name.is_empty() || of.is_empty() {
        return Err(bad());
    }
    // What is said of the one goes for the other.
    let of_dylib = of_dylib.or_else(|| dylib.clone());
    Ok(Alias {
        dylib,
        name,
        of_dylib,
        of,
    })
}

/// `section,file[@symbol=offset,...]`: symbols stand behind the last `@`.
fn sect_create(value: &str) -> Result<SectCreate, String> {
    let fail = |why: &str| format!("In -sectcreate={value}, {why}");
    let (section, rest) = value.split_once(',').unwrap_or((value, ""));
    let (file, symbols) = rest.rsplit_once('@').unwrap_or((rest, ""));
    if section.is_empty() {
        return Err(fail("section name component cannot be empty"));
    }
    if file.is_empty() {
        return Err(fail("filename component cannot be empty"));
    }
    let symbols = symbols
        .split(',')
        .filter(|symbol| !symbol.is_empty())
        .map(|symbol| {
            let (name, offset) = symbol.split_once('=').unwrap_or((symbol, ""));
            let offset = number(OsStr::new(offset))
                .map_err(|_| fail(&format!("{offset} is not a valid integer")))?;
            if name.is_empty() {
                return Err(fail("symbol name component cannot be empty"));
            }
            Ok((name.to_owned(), offset))
        });
    Ok(SectCreate {
        section: section.to_owned(),
        file: file.into(),
        symbols: symbols.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Alias, Input, JitOptions, absolute, alias, sect_create};
    use std::ffi::OsString;

    fn parse(words: &[&str]) -> Result<JitOptions, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        super::parse(&words)
    }

    #[test]
    fn values_of_definitions() {
        assert_eq!(absolute("X=0x10"), Ok(("X".into(), 16)));
        assert!(
            absolute("X")
                .unwrap_err()
                .contains("Invalid absolute define")
        );
        assert!(
            absolute("X=y")
                .unwrap_err()
                .contains("Invalid address expression")
        );
        let of = |text| {
            let Alias {
                dylib,
                name,
                of_dylib,
                of,
            } = alias(text)?;
            Ok::<_, String>((
                dylib.unwrap_or_default(),
                name,
                of_dylib.unwrap_or_default(),
                of,
            ))
        };
        let same = |text, [dylib, name, of_dylib, target]: [&str; 4]| {
            let expected = (dylib.into(), name.into(), of_dylib.into(), target.into());
            assert_eq!(of(text), Ok(expected));
        };
        same("a=b", ["", "a", "", "b"]);
        same("x:a=b", ["x", "a", "x", "b"]);
        same("x:a=y:b", ["x", "a", "y", "b"]);
        same("a=y:b", ["", "a", "y", "b"]);
        assert!(alias("a").is_err() && alias("=b").is_err() && alias("a=").is_err());
        let made = sect_create("__data,some@dir/f@foo=0,bar=0x4").unwrap();
        assert_eq!(made.section, "__data");
        assert_eq!(made.file.to_str(), Some("some@dir/f"));
        assert_eq!(made.symbols, [("foo".into(), 0), ("bar".into(), 4)]);
        assert!(sect_create("__data").is_err() && sect_create(",f").is_err());
        assert!(sect_create("s,f@x").is_err() && sect_create("s,f@x=y").is_err());
    }

    #[test]
    fn words_behind_args_and_harness() {
        let options = parse(&[
            "a.o",
            "-args",
            "x",
            "-noexec",
            "--harness",
            "h.o",
            "-lfoo",
            "-args",
            "y",
        ])
        .unwrap();
        assert_eq!(options.arguments, ["x", "-noexec", "y"]);
        let inputs: Vec<Input> = options.inputs.into_iter().map(|own| own.value).collect();
        assert_eq!(
            inputs,
            [
                Input::File("a.o".into()),
                Input::Harness("h.o".into()),
                Input::Harness("-lfoo".into()),
            ]
        );
        assert!(!options.no_exec);
    }

    #[test]
    fn what_follows_a_dylib_belongs_to_it() {
        let words = [
            "-abs=a=1", "a.o", "-jd", "Foo", "-lazy", "b.o", "-abs=b=2", "-jd=Bar", "-lx",
        ];
        let options = parse(&words).unwrap();
        assert_eq!(options.dylibs, ["main", "Foo", "Bar"]);
        let places: Vec<usize> = options.inputs.iter().map(|own| own.dylib).collect();
        assert_eq!(places, [0, 1, 2]);
        assert_eq!(options.lazy, [1]);
        let places: Vec<usize> = options.absolutes.iter().map(|own| own.dylib).collect();
        assert_eq!(places, [0, 1]);
        assert!(parse(&["-jd", "main"]).is_err() && parse(&["-jd=x", "-jd=x"]).is_err());
    }

    #[test]
    fn what_is_missing_is_refused_by_name() {
        let refused: &[&[&str]] = &[
            &["-speculate=other"],
            &["-oop-executor-connect=x:1", "-oop-executor"],
            &["-use-memmgr=other"],
            &["-vtune-support"],
        ];
        for words in refused {
            let name = words[0].split('=').next().unwrap();
            let said = parse(words).unwrap_err();
            assert!(
                said.contains(name) && said.contains("not") || said.contains("one"),
                "{said}"
            );
        }
        assert!(parse(&["-speculate=none", "-use-memmgr=default"]).is_ok());
        assert!(parse(&["-speculate=simple"]).is_ok_and(|options| options.speculate));
    }
}
