//! `--double-map`: pages that were writable never become executable, whatever is linked.

use crate::support::{Source, available, clinch, clinch_run, run, scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Prints what the process's mappings say of a function here, one elsewhere, a constant and a
/// variable; and how many mappings are writable and executable, or writable and of memory files.
const PROGRAM: &str = "\
//--- main.c
#include <stdio.h>
#include <string.h>
const int constant = 3;
int variable = 4;
void *other(void);
static void show(const char *name, const void *address) {
  FILE *maps = fopen(\"/proc/self/maps\", \"r\");
  char line[4096], access[8];
  unsigned long start, end;
  while (fgets(line, sizeof line, maps))
    if (sscanf(line, \"%lx-%lx %7s\", &start, &end, access) == 3 &&
        start <= (unsigned long)address && (unsigned long)address < end)
      printf(\"%s %s%s\\n\", name, access, strstr(line, \"memfd\") ? \" file\" : \"\");
  fclose(maps);
}
int main(void) {
  FILE *maps = fopen(\"/proc/self/maps\", \"r\");
  char line[4096], access[8];
  int wrong = 0;
  show(\"main\", main);
  show(\"other\", other());
  show(\"constant\", &constant);
  show(\"variable\", &variable);
  while (fgets(line, sizeof line, maps))
    if (sscanf(line, \"%*s %7s\", access) == 1 && access[1] == 'w' &&
        (access[2] == 'x' || strstr(line, \"memfd\")))
      wrong++;
  printf(\"%d wrong\\n\", wrong);
  return variable;
}
//--- other.c
void *other(void) { return __builtin_return_address(0) ? (void *)other : 0; }
//--- lazy.c
static int here(void) { return 1; }
void *other(void) { return (void *)here; }
";

const TWICE: &str = "main r-xp file\nother r-xp file\nconstant r--p file\nvariable rw-p\n0 wrong\n";
const ONCE: &str = "main r-xp\nother r-xp\nconstant r--p\nvariable rw-p\n0 wrong\n";

/// The program's objects, in a folder.
fn objects() -> tempfile::TempDir {
    let source = Source::new(PROGRAM);
    let folder = scratch();
    for name in ["main", "other", "lazy"] {
        let object = source.object(&format!("{name}.c"), "-O1 -fPIC");
        let there = folder.path().join(format!("{name}.o"));
        fs::copy(object, there).expect("a scratch file");
    }
    folder
}

fn jit(folder: &Path, words: &[&str]) -> crate::support::Output {
    let mut command = Command::new(clinch());
    run(command.arg("jit").args(words).current_dir(folder), b"")
}

#[test]
fn code_comes_from_files_that_nobody_writes() {
    if !available(&["cc"]) {
        return;
    }
    let folder = objects();
    let path = folder.path();
    for (words, text) in [
        (&["main.o", "other.o"][..], ONCE),
        (&["--double-map", "main.o", "other.o"], TWICE),
        (&["main.o", "-double-map", "other.o"], TWICE),
    ] {
        let output = clinch_run(path, words.iter().copied());
        assert_eq!(output.text(), text, "{words:?}: {output:?}");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
    for (words, text) in [
        (&["main.o", "other.o"][..], ONCE),
        (&["-double-map", "main.o", "other.o"], TWICE),
        (
            &["-double-map", "-slab-allocate=1Mb", "main.o", "other.o"],
            TWICE,
        ),
        (
            &["-double-map", "main.o", "-lB", "-jd", "B", "other.o"],
            TWICE,
        ),
        // What is linked when it is called is no exception.
        (&["-double-map", "main.o", "-lazy", "lazy.o"], TWICE),
    ] {
        let output = jit(path, words);
        assert_eq!(output.text(), text, "{words:?}: {output:?}");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
    }
}

#[test]
fn what_it_does_not_go_with() {
    let folder = objects();
    let output = jit(
        folder.path(),
        &["-double-map", "-oop-executor", "main.o", "other.o"],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = output.errors();
    assert!(
        said.contains("-double-map cannot be used with oop-executor"),
        "{said}"
    );
    let words = [
        "-double-map",
        "-noexec",
        "-slab-allocate=1Mb",
        "main.o",
        "other.o",
    ];
    let output = jit(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = output.errors();
    assert!(said.starts_with("Warning: -double-map ignored"), "{said}");
}

/// A system that gives no memory files: an error that says so, and no signal.
#[test]
fn without_memory_files() {
    let folder = objects();
    let command = format!(
        "ulimit -f 0; exec '{}' run --double-map main.o other.o",
        clinch().display()
    );
    let mut shell = Command::new("sh");
    let output = run(shell.args(["-c", &command]).current_dir(folder.path()), b"");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = output.errors();
    assert!(
        said.contains("cannot make a memory file so large"),
        "{said}"
    );
}
