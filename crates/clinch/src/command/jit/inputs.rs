//! What the command line names, opened: objects, archives, libraries, in the order given.

use super::harness::Harness;
use super::sectcreate;
use crate::flags::jit::{Input, JitOptions};
use crate::render::Failure;
use bytes::Bytes;
use clinch_graph::InputName;
use clinch_graph::index::map::Map;
use clinch_jit::{Dylib, Library, LinkError, Search, process};
use clinch_object::elf::raw::Header;
use clinch_object::elf::shared::SharedObject;
use clinch_object::{Archive, FileBytes, FileKind, InputError, ReadError};
use clinch_target::Arch;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The inputs of a link.
pub(super) struct Inputs {
    opened: Vec<Opened>,
    /// The members of the archives, once somebody asks for a name.
    members: OnceLock<Members>,
    search: Search,
}

/// The number and content of each member, by the names of archive and member.
type Members = Map<(String, String), Vec<(usize, Bytes)>>;

/// An opened input.
enum Opened {
    Object(String, Bytes),
    Archive(String, Bytes),
    /// What the library search makes of a file: shared libraries, linker scripts.
    Other(PathBuf),
    /// Names that are 0 when nothing defines them.
    Missing(Vec<Vec<u8>>),
    Library(Library),
}

impl Inputs {
    /// Opens everything; all that cannot be opened is told.
    pub(super) fn open(options: &JitOptions) -> Result<Self, Failure> {
        let mut folders = options.folders.clone();
        if options.search_system
            && let Some(path) = std::env::var_os("LD_LIBRARY_PATH")
        {
            folders.extend(std::env::split_paths(&path).filter(|folder| folder.is_dir()));
        }
        let mut inputs = Self {
            opened: Vec::new(),
            members: OnceLock::new(),
            search: Search {
                folders,
                system: options.search_system,
            },
        };
        let mut failed = Vec::new();
        for path in &options.preload {
            match Library::open(path.as_os_str()) {
                Ok(library) => inputs.opened.push(Opened::Library(library)),
                Err(why) => failed.push(why),
            }
        }
        // The platform is clinch's own, so nothing of it is linked.
        if let Some(path) = &options.runtime
            && let Err(why) = check_archive(path)
        {
            failed.push(why);
        }
        let harness = harness(options, &mut failed);
        for input in &options.inputs {
            if let Err(why) = inputs.open_one(input, options, harness.as_ref()) {
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
        input: &Input,
        options: &JitOptions,
        harness: Option<&Harness>,
    ) -> Result<(), String> {
        match input {
            Input::File(path) => self.open_file(path, options, harness),
            Input::Harness(path) => self.open_file(path, options, None),
            Input::HiddenArchive(path) => self.open_archive(path, options),
            Input::WeakFile(path) => self.open_missing(path),
            Input::Library(name) => {
                let path = self.search.find(name).ok_or_else(|| not_found(name))?;
                self.open_file(&path, options, None)
            }
            Input::HiddenLibrary(name) => {
                let name = format!("lib{name}.a");
                let mut folders = self.search.all_folders();
                let path = folders.find_map(|folder| {
                    let path = folder.join(&name);
                    path.is_file().then_some(path)
                });
                drop(folders);
                let path =
                    path.ok_or_else(|| format!("While linking main, could not find {name}"))?;
                self.open_archive(&path, options)
            }
            Input::WeakLibrary(name) => {
                let path = self.search.find(name).ok_or_else(|| not_found(name))?;
                self.open_missing(&path)
            }
        }
    }

    fn open_file(
        &mut self,
        path: &Path,
        options: &JitOptions,
        harness: Option<&Harness>,
    ) -> Result<(), String> {
        let is_archive = path
            .extension()
            .is_some_and(|extension| extension == "a" || extension == "lib");
        if is_archive {
            return self.open_archive(path, options);
        }
        let bytes = read(path)?;
        match FileKind::of(&bytes) {
            FileKind::ElfRelocatable => {
                let name = path.display().to_string();
                let bytes = match harness {
                    Some(harness) => harness.fit(bytes).map_err(|why| wrong(path, why))?,
                    None => bytes,
                };
                self.opened.push(Opened::Object(name, bytes));
                Ok(())
            }
            FileKind::Archive | FileKind::ThinArchive => self.add_archive(path, bytes, options),
            FileKind::ElfShared | FileKind::LinkerScript => {
                self.opened.push(Opened::Other(path.to_owned()));
                Ok(())
            }
            kind => Err(format!(
                "{} does not contain a relocatable object file or archive ({})",
                path.display(),
                kind.describe()
            )),
        }
    }

    fn open_archive(&mut self, path: &Path, options: &JitOptions) -> Result<(), String> {
        let bytes = read(path)?;
        match FileKind::of(&bytes) {
            FileKind::Archive | FileKind::ThinArchive => self.add_archive(path, bytes, options),
            // Linker scripts are called so on some systems.
            FileKind::LinkerScript => {
                self.opened.push(Opened::Other(path.to_owned()));
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
        path: &Path,
        bytes: Bytes,
        options: &JitOptions,
    ) -> Result<(), String> {
        let name = path.display().to_string();
        let fail = |why| wrong(path, why);
        let archive = Archive::parse(bytes.clone()).map_err(fail)?;
        // Members of thin archives are files of their own, which the dylib opens.
        if !options.all_load || archive.is_thin() {
            self.opened.push(Opened::Archive(name, bytes));
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
                self.opened.push(Opened::Object(shown, content));
            }
        }
        Ok(())
    }

    /// A shared library that counts as missing.
    fn open_missing(&mut self, path: &Path) -> Result<(), String> {
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
        self.opened.push(Opened::Missing(names));
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
                let first = self.opened.iter().find_map(|input| match input {
                    Opened::Object(_, bytes) => arch_of(bytes),
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

    /// Hands everything to the dylib.
    pub(super) fn add_to(&self, dylib: &mut Dylib, options: &JitOptions) -> Result<(), Failure> {
        let arch = self.arch(options)?;
        for (name, other) in &options.aliases {
            // What no object defines is the process's, whose address is known.
            if options.process_symbols
                && let Some(found) = process::find(other.as_bytes())
            {
                dylib.define(name, found.address);
            }
        }
        for made in &options.sections {
            let shown = made.file.display();
            let content = FileBytes::open(&made.file)
                .map_err(|error| format!("'{shown}': {}", error.reason()))?;
            let object = sectcreate::object(arch, made, &content)
                .ok_or_else(|| format!("-sectcreate is not supported for {}", arch.graph.name))?;
            dylib.add_object(InputName::file(&sectcreate::name(made)), object);
        }
        let mut errors: Vec<LinkError> = Vec::new();
        for input in &self.opened {
            match input {
                Opened::Object(name, bytes) => {
                    dylib.add_object(InputName::file(name), bytes.clone());
                }
                Opened::Archive(path, bytes) => {
                    errors.extend(dylib.add_archive(path, bytes.clone()).err());
                }
                Opened::Other(path) => errors.extend(self.search.add_file(dylib, path).err()),
                Opened::Missing(names) => {
                    for name in names {
                        dylib.define(&String::from_utf8_lossy(name), 0);
                    }
                }
                Opened::Library(library) => dylib.add_library(*library),
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors.into())
        }
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
            let Opened::Archive(name, bytes) = input else {
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
        let Input::Harness(path) = input else {
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

fn not_found(name: &str) -> String {
    format!("While linking main, could not find library for -l{name}")
}
