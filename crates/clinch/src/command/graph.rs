//! `clinch graph`: prints objects' graphs in the text form, or writes them as an object.

use crate::render::Failure;
use bytes::Bytes;
use clinch_graph::{InputName, LinkGraph, Names, SectionKind, Workers};
use clinch_jit::LinkErrors;
use clinch_link::{Part, frames, join, resolve};
use clinch_object::{
    Archive, ElfObject, FileBytes, FileKind, ReadOptions, add_blocks, add_objects, read_object,
    write_object,
};
use clinch_target::Arch;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const HELP: &str = "usage: clinch graph [--emit-object=OUTPUT] FILE...

Prints the link graph of each object in its text form. FILE is an object or an archive.

  --emit-object=OUTPUT  write one relocatable object instead: the graph of the one
                        object as it is, of several with references resolved";

pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let (mut files, mut output) = (Vec::new(), None);
    for word in words {
        match word.to_string_lossy().as_ref() {
            "--help" | "-help" | "-h" => {
                println!("{HELP}");
                return Ok(0);
            }
            option if option.starts_with("--emit-object=") => {
                output = word.as_bytes().get("--emit-object=".len()..);
            }
            option if option.starts_with('-') => {
                return Err(format!("unknown option {option}").into());
            }
            _ => files.push(word),
        }
    }
    if files.is_empty() {
        return Err("no input files".into());
    }
    let Some(output) = output else {
        for file in files {
            let mut print = |name, bytes| print_graph(&read_object(name, bytes)?);
            each_object(Path::new(file), &mut print)?;
        }
        return Ok(0);
    };
    if output.is_empty() {
        return Err("--emit-object needs the name of a file".into());
    }
    let mut objects = Vec::new();
    for file in files {
        each_object(Path::new(file), &mut |name, bytes| {
            objects.push((name, bytes));
            Ok(())
        })?;
    }
    emit(objects, Path::new(OsStr::from_bytes(output)))?;
    Ok(0)
}

/// Writes the graph of an object, or that of several with one symbol for each name, as an object.
fn emit(mut objects: Vec<(InputName, Bytes)>, output: &Path) -> Result<(), Failure> {
    let only = if objects.len() == 1 {
        objects.pop()
    } else {
        None
    };
    let (graph, arch) = match only {
        Some((name, bytes)) => {
            let arch = ElfObject::parse(&bytes).map(|object| object.arch);
            let graph = read_object(name, bytes)?;
            (graph, arch.map_err(|error| error.to_string())?)
        }
        None => joined(objects)?,
    };
    let bytes = write_object(&graph, arch).map_err(|error| format!("{}: {error}", graph.name()))?;
    write_whole(output, &bytes)
        .map_err(|error| format!("cannot write {}: {error}", output.display()).into())
}

/// The graph of several objects, as a relocatable link makes it: definitions are chosen among, and
/// references meet them.
fn joined(objects: Vec<(InputName, Bytes)>) -> Result<(LinkGraph, &'static Arch), Failure> {
    let Some((name, bytes)) = objects.first() else {
        return Err("no objects".into());
    };
    let first = ElfObject::parse(bytes).map_err(|error| format!("{name}: {error}"))?;
    let (arch, workers, mut names) = (first.arch, Workers::new(1), Names::new());
    let mut graph = LinkGraph::new("joined", &arch.graph);
    let options = ReadOptions { metadata: true };
    let added = add_objects(&mut graph, &mut names, &workers, objects, options)
        .map_err(LinkErrors::from)?;
    let chosen = resolve::choose_comdats(&graph, &names, |_| true);
    let (all, keep) = (|_| true, |comdat| chosen.contains(comdat));
    let (inputs, objects) = (added.inputs, added.objects);
    add_blocks(&mut graph, &workers, inputs, objects, all, keep).map_err(LinkErrors::from)?;
    let resolution =
        resolve::resolve(&mut graph, &names, |_| true, &workers).map_err(LinkErrors::from)?;
    // Records of functions that went must go too.
    frames::split(&mut graph, arch).map_err(LinkErrors::from)?;
    // What all symbols or all code of an object hold to does not hold for that of several.
    let wants = |block| {
        let section = graph.section(graph.block_section(block));
        section.kind != SectionKind::Addrsig && section.name != b".note.gnu.property"
    };
    let part = Part {
        graph: &graph,
        resolution: &resolution,
        wants: &wants,
    };
    let joined = join("joined", &arch.graph, &[part]).map_err(|error| error.to_string())?;
    Ok((joined, arch))
}

/// Writes a file so that nobody sees a part of it: what was there stays until all is written.
fn write_whole(output: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a link names is replaced, not the link.
    let path = match fs::canonicalize(output) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => output.to_owned(),
        Err(error) => return Err(error),
    };
    if let Ok(found) = fs::metadata(&path)
        && !found.is_file()
        && !found.is_dir()
    {
        // A pipe or a device cannot be replaced.
        return fs::write(&path, bytes);
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // The permissions that any new file has.
    let mut file = tempfile::Builder::new().make_in(folder, |path| fs::File::create_new(path))?;
    file.write_all(bytes)?;
    file.persist(&path)?;
    Ok(())
}

/// The objects of a file: itself, or the members of an archive.
fn each_object(
    path: &Path,
    with: &mut dyn FnMut(InputName, Bytes) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let text = path.display().to_string();
    let bytes = FileBytes::open(path).map_err(|error| error.to_string())?;
    match FileKind::of(&bytes) {
        FileKind::ElfRelocatable => with(InputName::file(&text), bytes),
        FileKind::Archive => {
            let archive = Archive::parse(bytes).map_err(|error| format!("{text}: {error}"))?;
            for member in archive.members() {
                let member = member.map_err(|error| format!("{text}: {error}"))?;
                let name = String::from_utf8_lossy(member.name).into_owned();
                let Some(bytes) = archive.content(&member) else {
                    continue;
                };
                if FileKind::of(&bytes) == FileKind::ElfRelocatable {
                    with(InputName::member(text.as_str().into(), &name), bytes)?;
                }
            }
            Ok(())
        }
        kind => Err(format!(
            "{text}: no graph for this kind of file: {}",
            kind.describe()
        )
        .into()),
    }
}

fn print_graph(graph: &LinkGraph) -> Result<(), Failure> {
    let text = graph.to_text().map_err(|error| error.to_string())?;
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| format!("cannot write: {error}").into()),
    }
}
