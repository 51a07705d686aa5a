//! `clinch run`: compiles sources with the system's compiler, links everything in memory, runs
//! `main`, exits with its status.

use crate::flags::run::{HELP, Input, RunOptions, parse};
use crate::render::{self, Failure};
use clinch_graph::InputName;
use clinch_jit::library::host_path;
use clinch_jit::runtime::restart;
use clinch_jit::session::{Dylib, DylibSources, Session, SessionOptions};
use clinch_jit::{LinkError, LinkInput, MemoryError, ProgramArguments, Search};
use clinch_object::FileBytes;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Archives that compiler drivers link without being asked, by where distributions put them; `*`
/// stands for the host's architecture.
const DEFAULT_ARCHIVES: [&str; 3] = [
    "/usr/lib/*-linux-gnu/libc_nonshared.a",
    "/usr/lib64/libc_nonshared.a",
    "/usr/lib/libc_nonshared.a",
];
/// Folders in which each version of GCC has one of its own.
const GCC_FOLDERS: [&str; 2] = ["/usr/lib/gcc/*-linux-gnu", "/usr/lib/gcc/*-pc-linux-gnu"];

pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let options = parse(words)?;
    if options.help {
        print!("{HELP}");
        return Ok(0);
    }
    if options.inputs.is_empty() {
        return Err("no input files".into());
    }
    // The compilers, too, are to find the environment as it was.
    restart::restore();
    let started = Instant::now();
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let inputs = compile(&options, folder.path())?;
    let compiled = started.elapsed();

    let linked = link(&options, &inputs);
    // Nothing in the folder is needed any longer, and the program may never come back.
    drop(folder);
    let (dylib, read, main) = linked.inspect_err(find_thread_local_space)?;
    if options.time {
        let mut steps = vec![("compile", compiled), ("read", read)];
        steps.extend(dylib.times());
        render::times(&steps);
    }
    let Some(main) = main else {
        let entry = entry(&options);
        return Err(format!("undefined symbol: {entry} (the program's entry)").into());
    };
    let arguments = ProgramArguments::new(
        std::iter::once(program_name(&options.inputs)).chain(options.arguments.iter().cloned()),
    );
    super::start(&[dylib], main, &arguments, Ok)
}

/// Starts clinch again, once, if all that was wrong is that a program's thread-local variables
/// need more space than processes have; comes back if it was something else. The program did not
/// run yet; sources are compiled again.
pub(super) fn find_thread_local_space(failure: &Failure) {
    if let Failure::Link(errors) = failure
        && let [LinkError::Memory(MemoryError::NoThreadLocalSpace { want, align, .. })] = errors[..]
    {
        restart::again(want, align);
    }
}

/// As many threads as the user wants, or 0 for all that there are. Threads pay for thread-local space with stack: with much
/// of it, only the first has enough.
pub(super) fn threads(wanted: Option<usize>) -> usize {
    const MUCH: u64 = 1 << 20;
    match restart::restore() {
        Some(space) if space > MUCH => 1,
        _ => wanted.map_or(0, |threads| threads.max(1)),
    }
}

/// Links the inputs and, when nothing else has a name, what compiler drivers link unasked; answers
/// how long reading took and where the program begins.
fn link(options: &RunOptions, inputs: &[Input]) -> Result<(Dylib, Duration, Option<u64>), Failure> {
    let started = Instant::now();
    let arch = clinch_target::host_arch().ok_or("clinch cannot run code on this machine")?;
    let session_options = SessionOptions {
        threads: threads(options.threads),
        audience: options.audience,
        double_map: options.double_map,
        ..SessionOptions::default()
    };
    let session = Session::new(arch, session_options);
    let dylib = session.create_dylib("main", DylibSources::default())?;
    // The user's folders, then those that compiler drivers add for their own libraries.
    let folders = options
        .folders
        .iter()
        .cloned()
        .chain(gcc_folders())
        .collect();
    let search = Search {
        folders,
        system: true,
    };
    let (mut opened, mut errors) = (Vec::new(), Vec::new());
    for input in inputs {
        let found = match input {
            Input::File(path) => search.open_file(path),
            Input::Library(name) => search.open_library(name),
            Input::Compiled { source, object } => match FileBytes::open(object) {
                Ok(bytes) => {
                    let name = InputName::file(&source.display().to_string());
                    Ok(vec![LinkInput::Object(name, bytes)])
                }
                Err(error) => return Err(error.to_string().into()),
            },
        };
        match found {
            Ok(found) => opened.extend(found),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(Failure::from(errors));
    }
    dylib.add_inputs(opened)?;
    for path in default_archives() {
        // One that cannot be read has nothing to offer.
        if let Ok(bytes) = FileBytes::open(&path) {
            dylib.add_fallback_archive(&path.display().to_string(), bytes)?;
        }
    }
    let read = started.elapsed();
    let main = dylib.link_all(&[entry(options)])?;
    Ok((dylib, read, main.first().copied().flatten()))
}

fn entry(options: &RunOptions) -> &str {
    options.entry.as_deref().unwrap_or("main")
}

/// Where GCC keeps its own libraries, the newest version first.
fn gcc_folders() -> Vec<PathBuf> {
    let versions = GCC_FOLDERS
        .iter()
        .filter_map(|folder| std::fs::read_dir(host_path(folder)).ok());
    let mut folders: Vec<PathBuf> = versions
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    let version = |path: &PathBuf| -> Vec<u32> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        name.split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect()
    };
    folders.sort_by_key(version);
    folders.reverse();
    folders
}

fn default_archives() -> Vec<PathBuf> {
    gcc_folders()
        .into_iter()
        .map(|folder| folder.join("libgcc.a"))
        .chain(DEFAULT_ARCHIVES.iter().copied().map(host_path))
        .filter(|path| path.is_file())
        .collect()
}

/// What the program is told it is called: the first file's name without its ending.
fn program_name(inputs: &[Input]) -> OsString {
    let first = inputs.iter().find_map(|input| match input {
        Input::File(path) | Input::Compiled { source: path, .. } => path.file_stem(),
        Input::Library(_) => None,
    });
    first.unwrap_or(OsStr::new("main")).to_owned()
}

/// Compiles the sources among the inputs, two at a time, and answers all inputs with objects in
/// place of sources.
fn compile(options: &RunOptions, folder: &Path) -> Result<Vec<Input>, Failure> {
    let mut inputs = options.inputs.clone();
    let mut running = Vec::new();
    let mut failed = Vec::new();
    for (number, input) in inputs.iter_mut().enumerate() {
        let Input::File(path) = input else { continue };
        let Some((variable, compiler)) = compiler_of(path) else {
            continue;
        };
        if !path.exists() {
            failed.push(format!(
                "cannot open {}: No such file or directory",
                path.display()
            ));
            continue;
        }
        let program = std::env::var_os(variable).unwrap_or_else(|| compiler.into());
        let object = folder.join(format!("{number}.o"));
        let child = Command::new(&program)
            .arg("-c")
            .args(&options.compiler)
            .arg("-o")
            .arg(&object)
            .arg(path.as_path())
            .spawn()
            .map_err(|error| {
                format!(
                    "cannot start the compiler {}: {error}",
                    program.to_string_lossy()
                )
            })?;
        let source = path.clone();
        running.push((source.clone(), child));
        *input = Input::Compiled { source, object };
        if running.len() > 1 {
            finish(running.remove(0), &mut failed);
        }
    }
    for child in running {
        finish(child, &mut failed);
    }
    if failed.is_empty() {
        Ok(inputs)
    } else {
        Err(Failure::Messages(failed))
    }
}

fn finish((path, mut child): (PathBuf, std::process::Child), failed: &mut Vec<String>) {
    match child.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => failed.push(format!("compiling {} failed: {status}", path.display())),
        Err(error) => failed.push(format!("compiling {} failed: {error}", path.display())),
    }
}

/// The environment variable and the default of the compiler for a source.
fn compiler_of(path: &Path) -> Option<(&'static str, &'static str)> {
    match path.extension()?.to_str()? {
        "c" | "i" | "s" | "S" | "sx" => Some(("CC", "cc")),
        "cc" | "cpp" | "cxx" | "c++" | "C" | "CPP" | "cp" | "ii" => Some(("CXX", "c++")),
        _ => None,
    }
}
