//! What the command line names, opened: objects, archives, libraries, in the order given.

use super::harness::Harness;
use super::sectcreate;
use super::show::Unit;
use crate::flags::jit::{Alias, InDylib, Input, JitOptions};
use crate::render::Failure;
use bytes::Bytes;
use clinch_graph::index::map::Map;
use clinch_graph::{InputName, SymbolFlags};
use clinch_jit::session::{Dylib, LookUpError, Match, Session};
use clinch_jit::{LinkInput, Search};
use clinch_object::elf::raw::Header;
use clinch_object::elf::shared::SharedObject;
use clinch_object::{Archive, FileBytes, FileKind, InputError, ReadError};
use clinch_target::Arch;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The inputs of a session.
pub(super) struct Inputs {
    opened: Vec<InDylib<Opened>>,
    /// The members of the archives, once somebody asks for a name.
    members: OnceLock<Members>,
    /// Where each dylib's libraries are looked for.
    searches: Vec<Search>,
    /// The objects that were made of files for sections.
    sections: Mutex<Vec<InDylib<(String, Bytes)>>>,
}

/// What is reached through a stub where it is too far away.
pub(super) const FAR: SymbolFlags = SymbolFlags::CALLABLE;

/// The number and content of each member, by the names of archive and member.
type Members = Map<(String, String), Vec<(usize, Bytes)>>;

/// An opened input.
enum Opened {
    Object(String, Bytes),
    /// An object whose functions are linked when they are called.
    Lazy(String, Bytes),
    /// Another dylib to look into, by its place among all.
    Dylib(usize),
    Archive(String, Bytes),
    /// What the library search makes of a file: shared libraries, linker scripts.
    Other(PathBuf),
    /// Names that are 0 when nothing defines them.
    Missing(Vec<Vec<u8>>),
    /// A shared library for the dynamic linker to find.
    Preload(PathBuf),
}

impl Inputs {
    /// Opens everything; all that cannot be opened is told.
    pub(super) fn open(options: &JitOptions) -> Result<Self, Failure> {
        let system = std::env::var_os("LD_LIBRARY_PATH").filter(|_| options.search_system);
        let system: Vec<PathBuf> = system.iter().flat_map(std::env::split_paths).collect();
        let search = |dylib| {
            let own = options.folders.iter().filter(|own| own.dylib == dylib);
            let own = own.map(|own| own.value.clone());
            let system = system.iter().filter(|folder| folder.is_dir()).cloned();
            Search {
                folders: own.chain(system).collect(),
                system: options.search_system,
            }
        };
        let mut inputs = Self {
            opened: Vec::new(),
            members: OnceLock::new(),
            searches: (0..options.dylibs.len()).map(search).collect(),
            sections: Mutex::default(),
        };
        let mut failed = Vec::new();
        for path in &options.preload {
            inputs.push(0, Opened::Preload(path.clone()));
        }
        // The platform is clinch's own, so nothing of it is linked.
        if let Some(path) = &options.runtime
            && let Err(why) = check_archive(path)
        {
            failed.push(why);
        }
        let harness = harness(options, &mut failed);
        for (place, input) in options.inputs.iter().enumerate() {
            let first = inputs.opened.len();
            if let Err(why) = inputs.open_one(input, options, harness.as_ref()) {
                failed.push(why);
            } else if options.lazy.contains(&place)
                && let Err(why) = inputs.make_lazy(first)
            {
                failed.push(why);
            }
        }
        if failed.is_empty() {
            Ok(inputs)
        } else {
            Err(Failure::Messages(failed))
        }
    }

    fn open_one(
        &mut self,
        input: &InDylib<Input>,
        options: &JitOptions,
        harness: Option<&Harness>,
    ) -> Result<(), String> {
        let dylib = input.dylib;
        let found = |search: &Search, name: &str| {
            let dylib = &options.dylibs[dylib];
            let why = || format!("While linking {dylib}, could not find library for -l{name}");
            search.find(name).ok_or_else(why)
        };
        match &input.value {
            Input::File(path) => self.open_file(dylib, path, options, harness),
            Input::Harness(path) => self.open_file(dylib, path, options, None),
            Input::HiddenArchive(path) => self.open_archive(dylib, path, options),
            Input::WeakFile(path) => self.open_missing(dylib, path),
            Input::Library(name) | Input::HiddenLibrary(name) | Input::WeakLibrary(name)
                if options.dylibs.contains(name) =>
            {
                if matches!(input.value, Input::WeakLibrary(_)) {
                    return Err(format!(
                        "Can't use -weak-lx or -weak_library to load JITDylib {name}"
                    ));
                }
                let other = options.dylibs.iter().position(|other| other == name);
                self.push(dylib, Opened::Dylib(other.unwrap_or(0)));
                Ok(())
            }
            Input::Library(name) => {
                let path = found(&self.searches[dylib], name)?;
                self.open_file(dylib, &path, options, None)
            }
            Input::HiddenLibrary(name) => {
                let name = format!("lib{name}.a");
                let mut folders = self.searches[dylib].all_folders();
                let path = folders.find_map(|folder| {
                    let path = folder.join(&name);
                    path.is_file().then_some(path)
                });
                drop(folders);
                let path = path.ok_or_else(|| {
                    format!(
                        "While linking {}, could not find {name}",
                        options.dylibs[dylib]
                    )
                })?;
                self.open_archive(dylib, &path, options)
            }
            Input::WeakLibrary(name) => {
                let path = found(&self.searches[dylib], name)?;
                self.open_missing(dylib, &path)
            }
        }
    }

    fn push(&mut self, dylib: usize, value: Opened) {
        self.opened.push(InDylib { dylib, value });
    }

    /// Lets functions of what was opened since be linked when they are called.
    fn make_lazy(&mut self, first: usize) -> Result<(), String> {
        for opened in &mut self.opened[first..] {
            opened.value = match std::mem::replace(&mut opened.value, Opened::Dylib(0)) {
                Opened::Object(name, bytes) => Opened::Lazy(name, bytes),
                Opened::Archive(name, _) => {
                    return Err(format!(
                        "'{name}': -lazy takes objects (-all_load makes them of an archive)"
                    ));
                }
                other => other,
            };
        }
        Ok(())
    }

    fn open_file(
        &mut self,
        dylib: usize,
        path: &Path,
        options: &JitOptions,
        harness: Option<&Harness>,
    ) -> Result<(), String> {
        let is_archive = path
            .extension()
            .is_some_and(|extension| extension == "a" || extension == "lib");
        if is_archive {
            return self.open_archive(dylib, path, options);
        }
        let bytes = read(path)?;
        match FileKind::of(&bytes) {
            FileKind::ElfRelocatable => {
                let name = path.display().to_string();
                let bytes = match harness {
                    Some(harness) => harness.fit(bytes).map_err(|why| wrong(path, why))?,
                    None => bytes,
                };
                self.push(dylib, Opened::Object(name, bytes));
                Ok(())
            }
            FileKind::Archive | FileKind::ThinArchive => {
                self.add_archive(dylib, path, bytes, options)
            }
            FileKind::ElfShared | FileKind::LinkerScript => {
                self.push(dylib, Opened::Other(path.to_owned()));
                Ok(())
            }
            kind => Err(format!(
                "{} does not contain a relocatable object file or archive ({})",
                path.display(),
                kind.describe()
            )),
        }
    }

    fn open_archive(
        &mut self,
        dylib: usize,
        path: &Path,
        options: &JitOptions,
    ) -> Result<(), String> {
        let bytes = read(path)?;
        match FileKind::of(&bytes) {
            FileKind::Archive | FileKind::ThinArchive => {
                self.add_archive(dylib, path, bytes, options)
            }
            // Linker scripts are called so on some systems.
            FileKind::LinkerScript => {
                self.push(dylib, Opened::Other(path.to_owned()));
                Ok(())
            }
            _ => {
                let shown = path.display();
                Err(format!("'{shown}': {shown} does not contain an archive"))
            }
        }
    }

    fn add_archive(
        &mut self,
        dylib: usize,
        path: &Path,
        bytes: Bytes,
        options: &JitOptions,
    ) -> Result<(), String> {
        let name = path.display().to_string();
        let fail = |why| wrong(path, why);
        let archive = Archive::parse(bytes.clone()).map_err(fail)?;
        // Members of thin archives are files of their own, which the dylib opens.
        if !options.all_load || archive.is_thin() {
            self.push(dylib, Opened::Archive(name, bytes));
            return Ok(());
        }
        for (index, member) in archive.members().enumerate() {
            let member = member.map_err(fail)?;
            let Some(content) = archive.content(&member) else {
                continue;
            };
            if FileKind::of(&content) == FileKind::ElfRelocatable {
                let text = String::from_utf8_lossy(member.name);
                let shown = member_name(&name, index, &text);
                self.push(dylib, Opened::Object(shown, content));
            }
        }
        Ok(())
    }

    /// A shared library that counts as missing.
    fn open_missing(&mut self, dylib: usize, path: &Path) -> Result<(), String> {
        let bytes = read(path)?;
        let shown = path.display();
        if FileKind::of(&bytes) != FileKind::ElfShared {
            return Err(format!(
                "Cannot get interface for {shown} unrecognized file type"
            ));
        }
        let library = SharedObject::parse(bytes).map_err(|why| wrong(path, why))?;
        let mut names = Vec::new();
        for symbol in library.symbols() {
            let symbol = symbol.map_err(|why| wrong(path, why))?;
            if symbol.is_default() {
                names.push(symbol.name.to_vec());
            }
        }
        self.push(dylib, Opened::Missing(names));
        Ok(())
    }

    /// The architecture to link for: that of the first object.
    pub(super) fn arch(&self, options: &JitOptions) -> Result<&'static Arch, Failure> {
        let host = clinch_target::host_arch();
        let arch = match &options.triple {
            Some(triple) => {
                let name = triple.split('-').next().unwrap_or_default();
                clinch_target::arch_named(name).ok_or_else(|| {
                    format!("no available targets are compatible with triple \"{triple}\"")
                })?
            }
            None => {
                let first = self.opened.iter().find_map(|input| match &input.value {
                    Opened::Object(_, bytes) | Opened::Lazy(_, bytes) => arch_of(bytes),
                    _ => None,
                });
                first
                    .or(host)
                    .ok_or("clinch has no architecture for these inputs")?
            }
        };
        let is_host = host.is_some_and(|host| std::ptr::eq(host, arch));
        if !options.no_exec && !is_host {
            return Err(format!("code for {} cannot run on this machine", arch.graph.name).into());
        }
        Ok(arch)
    }

    /// Hands everything to the dylibs.
    pub(super) fn add_to(
        &self,
        session: &Session,
        dylibs: &[Dylib],
        options: &JitOptions,
    ) -> Result<(), Failure> {
        let arch = self.arch(options)?;
        for (place, dylib) in dylibs.iter().enumerate() {
            let (mut given, mut lazy) = (Vec::new(), Vec::new());
            for made in options.sections.iter().filter(|made| made.dylib == place) {
                let made = &made.value;
                let shown = made.file.display();
                let content = FileBytes::open(&made.file)
                    .map_err(|error| format!("'{shown}': {}", error.reason()))?;
                let object = sectcreate::object(arch, made, &content).ok_or_else(|| {
                    format!("-sectcreate is not supported for {}", arch.graph.name)
                })?;
                let name = sectcreate::name(made);
                given.push(LinkInput::Object(InputName::file(&name), object.clone()));
                let mut sections = self.sections.lock().unwrap_or_else(PoisonError::into_inner);
                sections.push(InDylib {
                    dylib: place,
                    value: (name, object),
                });
            }
            let mut order = vec![(dylib.id(), Match::All)];
            for input in self.opened.iter().filter(|input| input.dylib == place) {
                match &input.value {
                    Opened::Object(name, bytes) => {
                        given.push(LinkInput::Object(InputName::file(name), bytes.clone()));
                    }
                    Opened::Lazy(name, bytes) => lazy.push((InputName::file(name), bytes.clone())),
                    Opened::Dylib(other) => order.push((dylibs[*other].id(), Match::Exported)),
                    Opened::Archive(path, bytes) => {
                        given.push(LinkInput::Archive(path.clone(), bytes.clone()));
                    }
                    Opened::Other(path) => given.extend(self.searches[place].open_file(path)?),
                    Opened::Missing(names) => {
                        let names = names.iter().map(|name| String::from_utf8_lossy(name));
                        let names: Vec<_> = names.collect();
                        let missing = |name| (name, 0, FAR.union(SymbolFlags::WEAK));
                        let missing = names.iter().map(AsRef::as_ref).map(missing);
                        dylib.define(&missing.collect::<Vec<_>>())?;
                    }
                    Opened::Preload(path) => {
                        dylib.add_library(session.open_library(path.as_os_str())?);
                    }
                }
            }
            dylib.set_link_order(&order);
            dylib.add_inputs(given)?;
            if !lazy.is_empty() {
                dylib.add_lazy_objects(lazy)?;
            }
        }
        for alias in &options.aliases {
            add_alias(dylibs, alias, options)?;
        }
        Ok(())
    }

    /// The objects of a dylib, in the order in which it was given them.
    pub(super) fn units(&self, dylib: usize) -> Vec<Unit> {
        let unit = |name: &str, bytes: &Bytes| Unit {
            name: name.to_owned(),
            is_member: false,
            bytes: bytes.clone(),
        };
        let sections = self.sections.lock().unwrap_or_else(PoisonError::into_inner);
        let sections = sections.iter().filter(|made| made.dylib == dylib);
        let sections = sections.map(|made| unit(&made.value.0, &made.value.1));
        let opened = self.opened.iter().filter(|opened| opened.dylib == dylib);
        let opened = opened.filter_map(|opened| match &opened.value {
            Opened::Object(name, bytes) | Opened::Lazy(name, bytes) => Some(unit(name, bytes)),
            _ => None,
        });
        sections.chain(opened).collect()
    }

    /// What an input is called: a member of an archive with its number, since there may be
    /// several of one name.
    pub(super) fn name_of(&self, input: &clinch_graph::Input) -> String {
        let Some(member) = &input.name.member else {
            return input.name.to_string();
        };
        let key = (input.name.file.to_string(), member.to_string());
        let members = self.members.get_or_init(|| self.members());
        let same = members.get(&key).map_or(&[][..], Vec::as_slice);
        let place = input.bytes().as_ptr();
        let own = same
            .iter()
            .find(|(_, content)| content.as_ptr() == place)
            .or(same.first());
        match own {
            Some((index, _)) => member_name(&key.0, *index, member),
            None => input.name.to_string(),
        }
    }

    fn members(&self) -> Members {
        let mut members = Members::default();
        for input in &self.opened {
            let Opened::Archive(name, bytes) = &input.value else {
                continue;
            };
            // It was parsed before.
            let Ok(archive) = Archive::parse(bytes.clone()) else {
                continue;
            };
            for (index, member) in archive.members().flatten().enumerate() {
                let text = String::from_utf8_lossy(member.name).into_owned();
                let content = archive.content(&member).unwrap_or_default();
                let same = members.entry((name.clone(), text)).or_default();
                same.push((index, content));
            }
        }
        members
    }
}

/// Lets a name stand for another.
fn add_alias(
    dylibs: &[Dylib],
    alias: &InDylib<Alias>,
    options: &JitOptions,
) -> Result<(), Failure> {
    let Alias {
        dylib,
        name,
        of_dylib,
        of,
    } = &alias.value;
    let find = |named: &Option<String>| match named {
        None => Ok(&dylibs[alias.dylib]),
        Some(named) => {
            let place = options.dylibs.iter().position(|dylib| dylib == named);
            let place = place.ok_or_else(|| {
                format!("In alias definition \"{name}={of}\" no dylib named {named}")
            })?;
            Ok::<_, String>(&dylibs[place])
        }
    };
    let (dylib, of_dylib) = (find(dylib)?, find(of_dylib)?);
    if dylib.alias(name, of_dylib.id(), of).is_ok() {
        return Ok(());
    }
    // What no object defines may be in an archive, or the process's.
    match of_dylib.look_up(of) {
        Ok(address) => {
            if dylib.alias(name, of_dylib.id(), of).is_err() {
                dylib.define(&[(name, address, FAR)])?;
            }
        }
        // Who needs an alias of nothing is told that nothing defines it.
        Err(LookUpError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn member_name(archive: &str, index: usize, member: &str) -> String {
    format!("{archive}[{index}]({member})")
}

fn arch_of(object: &[u8]) -> Option<&'static Arch> {
    let header = Header::parse(object).ok()?;
    clinch_target::elf_arch(header.machine, header.format.is_64, header.format.endian)
}

/// What the harness defines and wants; `None` when there is none.
fn harness(options: &JitOptions, failed: &mut Vec<String>) -> Option<Harness> {
    let mut harness = None;
    for input in &options.inputs {
        let Input::Harness(path) = &input.value else {
            continue;
        };
        let harness = harness.get_or_insert_with(Harness::default);
        // What cannot be opened is told when it is opened as an input.
        if let Ok(bytes) = read(path)
            && FileKind::of(&bytes) == FileKind::ElfRelocatable
            && let Err(why) = harness.add(&bytes)
        {
            failed.push(wrong(path, why));
        }
    }
    harness
}

fn read(path: &Path) -> Result<Bytes, String> {
    FileBytes::open(path).map_err(|error| format!("'{}': {}", path.display(), error.reason()))
}

fn check_archive(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match FileKind::of(&read(path)?) {
        FileKind::Archive | FileKind::ThinArchive => Ok(()),
        _ => Err(format!("'{shown}': {shown} does not contain an archive")),
    }
}

fn wrong(path: &Path, source: ReadError) -> String {
    let error = InputError {
        input: InputName::file(&path.display().to_string()),
        section: None,
        source,
    };
    error.to_string()
}
