//! What `clinch run --perf` leaves for `perf`: the map, and the jitdump with its records.

use super::line_of;
use crate::support::{Source, clinch, run, scratch};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "\
//--- main.c
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) unsigned busy(unsigned n) {
  unsigned x = 1;
  for (unsigned i = 0; i < n; i++)
    x = x * 69069u + i; // the work
  return x;
}
int main(int argc, char **argv) {
  unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 10;
  printf(\"%p %u\\n\", (void *)busy, busy(n)); // from main
  return 0;
}
";

/// A function's record, with the lines that were given for it.
#[derive(Debug)]
struct Loaded {
    address: u64,
    code: Vec<u8>,
    lines: Vec<(u64, u32, String)>,
}

/// A jitdump's functions by name, read by the format's specification.
fn read_dump(bytes: &[u8], pid: u32) -> BTreeMap<String, Loaded> {
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let text_at = |at: usize| {
        let end = at + bytes[at..].iter().position(|&c| c == 0).unwrap();
        (String::from_utf8(bytes[at..end].to_vec()).unwrap(), end + 1)
    };
    assert_eq!([u32_at(0), u32_at(4), u32_at(8)], [0x4a69_5444, 1, 40]);
    assert_eq!((u32_at(12), u32_at(20), u64_at(32)), (62, pid, 0));
    let mut time = u64_at(24);
    let (mut at, mut closed) = (40, false);
    let (mut loaded, mut lines) = (BTreeMap::new(), Vec::new());
    let mut indices = Vec::new();
    while at < bytes.len() {
        assert!(!closed, "a record behind the last");
        let (id, size) = (u32_at(at), usize::try_from(u32_at(at + 4)).unwrap());
        assert!(u64_at(at + 8) >= time);
        time = u64_at(at + 8);
        let body = at + 16;
        match id {
            0 => {
                assert_eq!(u32_at(body), pid);
                let address = u64_at(body + 8);
                assert_eq!(address, u64_at(body + 16));
                indices.push(u64_at(body + 32));
                let (name, code) = text_at(body + 40);
                let code = bytes[code..at + size].to_vec();
                assert_eq!(u64::try_from(code.len()).unwrap(), u64_at(body + 24));
                let lines = std::mem::take(&mut lines);
                loaded.insert(
                    name,
                    Loaded {
                        address,
                        code,
                        lines,
                    },
                );
            }
            2 => {
                let mut entry = body + 16;
                for _ in 0..u64_at(body + 8) {
                    let (file, next) = text_at(entry + 16);
                    lines.push((u64_at(entry), u32_at(entry + 8), file));
                    entry = next;
                }
                assert_eq!(entry, at + size);
            }
            3 => closed = true,
            other => panic!("record {other}"),
        }
        at += size;
    }
    assert!(closed, "no last record");
    let n = indices.len();
    indices.dedup();
    assert_eq!(indices.len(), n, "two functions of one number");
    loaded
}

/// The dump below a folder, and whose it is.
fn find_dump(folder: &Path) -> (PathBuf, u32) {
    let only = |folder: &Path| {
        let mut entries = fs::read_dir(folder).expect("it was made");
        entries.next().expect("it is not empty").unwrap().path()
    };
    let path = only(&only(&folder.join(".debug/jit")));
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let pid = name
        .strip_prefix("jit-")
        .and_then(|name| name.strip_suffix(".dump"));
    let pid = pid.unwrap_or_else(|| panic!("{name}")).parse().unwrap();
    (path, pid)
}

#[test]
fn map_and_dump_name_functions() {
    for flags in [
        "-g -O1",
        "-g -O1 -gdwarf-4 -gz=zlib -ffunction-sections",
        "-O1",
    ] {
        let source = Source::new(PROGRAM);
        let object = source.object("main.c", flags);
        let folder = scratch();
        let mut command = Command::new(clinch());
        command
            .args(["run", "--perf"])
            .arg(&object)
            .env("JITDUMPDIR", folder.path());
        let output = run(&mut command, b"");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = output.text();
        let address = text
            .split(' ')
            .next()
            .and_then(|word| word.strip_prefix("0x"));
        let address = u64::from_str_radix(address.expect("it is printed"), 16).unwrap();

        let (path, pid) = find_dump(folder.path());
        let dump = read_dump(&fs::read(path).unwrap(), pid);
        let busy = &dump["busy"];
        assert_eq!(busy.address, address);
        // It ends by returning.
        assert_eq!(busy.code.last(), Some(&0xc3));
        if flags.contains("-g") {
            let wanted = line_of(source.text("main.c"), "the work");
            let end = address + u64::try_from(busy.code.len()).unwrap();
            let found = busy.lines.iter().find(|(_, line, _)| *line == wanted);
            let (at, _, file) = found.expect("the line is there");
            assert!((address..end).contains(at));
            assert!(file.ends_with("main.c"), "{file}");
            let wanted = line_of(source.text("main.c"), "from main");
            assert!(
                dump["main"]
                    .lines
                    .iter()
                    .any(|(_, line, _)| *line == wanted)
            );
        } else {
            assert!(busy.lines.is_empty());
        }
        // Calls of the C library go through a stub or the GOT; a stub has its function's name.
        let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let lines = fs::read_to_string(&map).unwrap();
        let _ = fs::remove_file(map);
        let line = format!("{address:x} {:x} busy", busy.code.len());
        assert!(lines.lines().any(|other| other == line), "{lines}");
        assert_eq!(lines.lines().count(), dump.len());
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let object = Source::new(PROGRAM).object("main.c", "-g -O1");
    let mut command = Command::new(clinch());
    command
        .args(["run", "--perf"])
        .arg(&object)
        .env("JITDUMPDIR", "/dev/null");
    let output = run(&mut command, b"");
    assert_eq!(output.status.code(), Some(1));
    let errors = output.errors();
    assert!(
        errors.starts_with("clinch: error: /dev/null/.debug/jit/llvm-IR-jit-"),
        "{errors}"
    );
    assert!(errors.ends_with(": Not a directory\n"), "{errors}");
}

#[test]
fn perf_itself_reads_them() {
    let folder = scratch();
    let object = Source::new(PROGRAM).object("main.c", "-g -O1");
    let perf = |words: &[&str]| {
        let mut command = Command::new("perf");
        command.args(words).current_dir(folder.path());
        command
    };
    let mut record = perf(&[
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-k",
        "mono",
        "-o",
        "data",
    ]);
    record
        .arg(clinch())
        .args(["run", "--perf"])
        .arg(&object)
        .args(["--", "300000000"])
        .env("JITDUMPDIR", folder.path());
    // Not every machine has perf, or lets its users sample.
    if !record.output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let (_, pid) = find_dump(folder.path());
    let report = |data: &str| {
        let mut command = perf(&["report", "--stdio", "--sort", "dso,sym", "-i", data]);
        let text = run(&mut command, b"").text();
        let is_it = |line: &&str| line.contains("busy");
        text.lines()
            .find(is_it)
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    // By the map.
    report("data");
    let injected = run(
        &mut perf(&["inject", "--jit", "-i", "data", "-o", "more"]),
        b"",
    );
    assert_eq!(injected.status.code(), Some(0), "{injected:?}");
    let line = report("more");
    assert!(line.contains(&format!("jitted-{pid}-")), "{line}");
    let _ = fs::remove_file(format!("/tmp/perf-{pid}.map"));
}
