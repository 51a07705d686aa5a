//! Files and libraries by name: what a path or `-l` stands for.

use crate::error::LinkError;
use bytes::Bytes;
use clinch_graph::InputName;
use clinch_object::script::{ScriptInput, ScriptInputKind, parse_library_script};
use clinch_object::{FileBytes, FileKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Something that a dylib can be given.
#[derive(Debug)]
pub enum LinkInput {
    /// A relocatable object.
    Object(InputName, Bytes),
    /// An archive, by its path.
    Archive(String, Bytes),
    /// A shared library, which the process where the code is opens.
    Library {
        /// What the dynamic linker is given: a path, or a name that it looks for.
        name: OsString,
        /// What messages call it.
        label: String,
    },
}

/// Where libraries are looked for.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Folders that the user named, in order.
    pub folders: Vec<PathBuf>,
    /// Whether to look in the system's folders as well.
    pub system: bool,
}

/// The system's folders, in the order in which linkers search them; `*` stands for the host's
/// architecture.
const SYSTEM_FOLDERS: [&str; 7] = [
    "/usr/local/lib",
    "/lib/*-linux-gnu",
    "/usr/lib/*-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// A path in which `*` stands for the host's architecture.
pub fn host_path(pattern: &str) -> PathBuf {
    pattern.replace('*', std::env::consts::ARCH).into()
}

/// How deep scripts may name scripts.
const MAX_DEPTH: usize = 8;

impl Search {
    /// The file that `-lNAME` stands for: in each folder a shared library, then an archive.
    /// `:NAME` is a file of that name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let names: Vec<String> = match name.strip_prefix(':') {
            Some(file) => vec![file.to_owned()],
            None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
        };
        self.all_folders()
            .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
            .find(|path| path.is_file())
    }

    /// The folders to search, in order.
    pub fn all_folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let system = if self.system {
            &SYSTEM_FOLDERS[..]
        } else {
            &[]
        };
        self.folders
            .iter()
            .cloned()
            .chain(system.iter().copied().map(host_path))
    }

    /// What `-lNAME` stands for.
    ///
    /// # Errors
    /// There is no such library, or it cannot be used.
    pub fn open_library(&self, name: &str) -> Result<Vec<LinkInput>, LinkError> {
        match self.find(name) {
            Some(path) => self.open_file(&path),
            // A library may be installed without the link that development packages bring.
            None if self.system => {
                let (label, name) = (format!("-l{name}"), format!("lib{name}.so").into());
                Ok(vec![LinkInput::Library { name, label }])
            }
            None => Err(LinkError::File {
                path: format!("-l{name}"),
                why: "library not found".to_owned(),
            }),
        }
    }

    /// What a file is: an object, an archive, a shared library or a script that stands for
    /// libraries.
    ///
    /// # Errors
    /// It cannot be opened, or is nothing that can be linked.
    pub fn open_file(&self, path: &Path) -> Result<Vec<LinkInput>, LinkError> {
        let mut opened = Vec::new();
        self.open_at_depth(path, 0, &mut opened)?;
        Ok(opened)
    }

    fn open_at_depth(
        &self,
        path: &Path,
        depth: usize,
        opened: &mut Vec<LinkInput>,
    ) -> Result<(), LinkError> {
        let text = path.display().to_string();
        let fail = |why: String| LinkError::File {
            path: text.clone(),
            why,
        };
        let bytes = FileBytes::open(path).map_err(|error| fail(error.reason()))?;
        match FileKind::of(&bytes) {
            FileKind::ElfRelocatable => {
                opened.push(LinkInput::Object(InputName::file(&text), bytes));
                Ok(())
            }
            FileKind::Archive | FileKind::ThinArchive => {
                opened.push(LinkInput::Archive(text, bytes));
                Ok(())
            }
            FileKind::ElfShared => {
                // The dynamic linker searches its own folders for a name without a slash.
                let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                opened.push(LinkInput::Library {
                    name: full.into_os_string(),
                    label: text,
                });
                Ok(())
            }
            FileKind::LinkerScript if depth < MAX_DEPTH => {
                let script =
                    parse_library_script(&bytes).map_err(|error| fail(error.to_string()))?;
                for input in &script.inputs {
                    self.open_script_input(path, input, depth + 1, opened)?;
                }
                Ok(())
            }
            FileKind::LinkerScript => Err(fail("linker scripts name one another".to_owned())),
            kind => Err(fail(format!(
                "cannot link this kind of file: {}",
                kind.describe()
            ))),
        }
    }

    fn open_script_input(
        &self,
        script: &Path,
        input: &ScriptInput,
        depth: usize,
        opened: &mut Vec<LinkInput>,
    ) -> Result<(), LinkError> {
        let found = match input.kind {
            ScriptInputKind::Library => self.find(&input.name),
            ScriptInputKind::Path => {
                let name = Path::new(input.name.trim_start_matches('='));
                let beside = script.parent().map(|folder| folder.join(name));
                std::iter::once(name.to_owned())
                    .chain(beside)
                    .chain(self.all_folders().map(|folder| folder.join(name)))
                    .find(|path| path.is_file())
            }
        };
        match found {
            Some(path) => self.open_at_depth(&path, depth, opened),
            None if input.as_needed => Ok(()),
            None => Err(LinkError::File {
                path: script.display().to_string(),
                why: format!("cannot find {}", input.name),
            }),
        }
    }
}
