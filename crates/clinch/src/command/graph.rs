//! `clinch graph`: prints objects' graphs in the text form.

use crate::render::Failure;
use clinch_graph::{InputName, LinkGraph};
use clinch_object::{Archive, FileBytes, FileKind, read_object};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let mut files = Vec::new();
    for word in words {
        match word.to_string_lossy().as_ref() {
            "--help" | "-help" | "-h" => {
                println!("usage: clinch graph FILE...\n\nFILE is an object or an archive.");
                return Ok(0);
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
    for file in files {
        print_file(Path::new(file))?;
    }
    Ok(0)
}

fn print_file(path: &Path) -> Result<(), Failure> {
    let text = path.display().to_string();
    let bytes = FileBytes::open(path).map_err(|error| error.to_string())?;
    match FileKind::of(&bytes) {
        FileKind::ElfRelocatable => print_graph(&read_object(InputName::file(&text), bytes)?),
        FileKind::Archive => {
            let archive = Archive::parse(bytes).map_err(|error| format!("{text}: {error}"))?;
            for member in archive.members() {
                let member = member.map_err(|error| format!("{text}: {error}"))?;
                let name = String::from_utf8_lossy(member.name).into_owned();
                let Some(bytes) = archive.content(&member) else {
                    continue;
                };
                if FileKind::of(&bytes) == FileKind::ElfRelocatable {
                    let name = InputName::member(text.as_str().into(), &name);
                    print_graph(&read_object(name, bytes)?)?;
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
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| format!("cannot write: {error}").into()),
    }
}
