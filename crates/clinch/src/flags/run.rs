//! The command line of `clinch run`: files in any order, what goes to the compiler, libraries,
//! and behind `--` the program's arguments.

use super::list::number;
use clinch_jit::debug::Audience;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A file or library, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// A file: source, object, archive, shared library.
    File(PathBuf),
    /// What a source was compiled to.
    Compiled {
        /// The source, by which messages name it.
        source: PathBuf,
        /// The object.
        object: PathBuf,
    },
    /// `-lNAME`.
    Library(String),
}

/// What was typed.
#[derive(Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) inputs: Vec<Input>,
    pub(crate) folders: Vec<PathBuf>,
    /// What goes to the compiler.
    pub(crate) compiler: Vec<OsString>,
    /// The program's arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Print how long each step took.
    pub(crate) time: bool,
    pub(crate) threads: Option<usize>,
    pub(crate) entry: Option<String>,
    /// Who is to be told of the code.
    pub(crate) audience: Audience,
    /// Never make pages executable that were writable.
    pub(crate) double_map: bool,
    pub(crate) help: bool,
}

/// The help's list of options.
pub(crate) const HELP: &str = "\
usage: clinch run FILE... [-- ARGUMENT...]

Links the files in memory, runs main with the arguments and exits with its status.
FILE is a source (.c .cc .cpp .cxx .C .c++ .s .S, compiled with $CC, $CXX, or cc and c++), an
object, an archive, a shared library or a linker script that stands for libraries.

  -l<name>                     link library <name>
  -L<folder>                   look for libraries there first
  -O<level> -g -std=<s> -f<x> -m<x> -W<x> -w -I<folder> -D<macro> -U<macro> -include <file>
  -isystem <folder> -pthread -ansi -pedantic
                               given to the compiler
  -entry=<symbol>              call this in place of main
  -num-threads=<n>             link on so many threads
  --time                       print how long each step took
  --gdb                        tell debuggers (GDB, LLDB) of the program
  --perf                       name its functions for Linux's perf (map and jitdump)
  --double-map                 write code through a second mapping: where it runs it was never
                               writable
  @<file>                      options and files from a response file
";

/// Options that go to the compiler with the word that follows.
const WITH_WORD: [&str; 7] = [
    "-I",
    "-D",
    "-U",
    "-include",
    "-isystem",
    "-iquote",
    "-idirafter",
];
/// Options that go to the compiler as they are: by what they begin with.
const COMPILER: [&str; 13] = [
    "-O",
    "-g",
    "-std=",
    "-f",
    "-m",
    "-W",
    "-w",
    "-I",
    "-D",
    "-U",
    "-pthread",
    "-ansi",
    "-pedantic",
];

/// Parses the words behind `run`.
pub(crate) fn parse(words: &[OsString]) -> Result<RunOptions, String> {
    let mut options = RunOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let mut value = |what: &str| {
            words
                .next()
                .cloned()
                .ok_or_else(|| format!("option {text} needs a value ({what})"))
        };
        match text.as_ref() {
            "--" => {
                options.arguments = words.cloned().collect();
                break;
            }
            "--help" | "-help" | "-h" => options.help = true,
            "--time" | "-time" => options.time = true,
            "--gdb" => options.audience.debugger = true,
            "--perf" => options.audience.perf = true,
            "--double-map" | "-double-map" => options.double_map = true,
            "-l" => options
                .inputs
                .push(Input::Library(lossy(&value("library")?))),
            "-L" => options.folders.push(value("folder")?.into()),
            "-entry" | "--entry" => options.entry = Some(lossy(&value("symbol")?)),
            "-num-threads" | "--num-threads" => {
                options.threads = Some(threads(&value("number")?)?);
            }
            text if WITH_WORD.contains(&text) => {
                let next = value("word")?;
                options.compiler.extend([word.clone(), next]);
            }
            text if !text.starts_with('-') || text == "-" => {
                options.inputs.push(Input::File(word.into()));
            }
            text => {
                if let Some(name) = text.strip_prefix("-l") {
                    options.inputs.push(Input::Library(name.to_owned()));
                } else if text.starts_with("-L") {
                    let folder = OsStr::from_bytes(&word.as_bytes()[2..]);
                    options.folders.push(folder.into());
                } else if let Some(name) = value_of(text, "entry") {
                    options.entry = Some(name.to_owned());
                } else if let Some(number) = value_of(text, "num-threads") {
                    options.threads = Some(threads(OsStr::new(number))?);
                } else if COMPILER.iter().any(|prefix| text.starts_with(prefix)) {
                    options.compiler.push(word.clone());
                } else {
                    return Err(format!("unknown option {text}"));
                }
            }
        }
    }
    Ok(options)
}

fn value_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.trim_start_matches('-')
        .strip_prefix(name)?
        .strip_prefix('=')
}

fn threads(value: &OsStr) -> Result<usize, String> {
    number(value).and_then(|n| usize::try_from(n).map_err(|error| error.to_string()))
}

fn lossy(value: &OsStr) -> String {
    value.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn files_libraries_and_compiler_options_keep_their_order() {
        let options = parse(&words(&[
            "a.c", "-O2", "-lm", "-L", "x", "-Ly", "-DA=1", "-I", "inc", "b.o", "--", "-l", "z",
        ]))
        .unwrap();
        let file = |name: &str| Input::File(name.into());
        assert_eq!(
            options.inputs,
            [file("a.c"), Input::Library("m".into()), file("b.o")]
        );
        assert_eq!(options.compiler, ["-O2", "-DA=1", "-I", "inc"]);
        assert_eq!(options.folders, [PathBuf::from("x"), PathBuf::from("y")]);
        assert_eq!(options.arguments, ["-l", "z"]);
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(
            parse(&words(&["-shared", "a.o"]))
                .unwrap_err()
                .contains("-shared")
        );
        assert!(parse(&words(&["-L"])).is_err());
        assert!(parse(&words(&["-num-threads=x"])).is_err());
    }
}
