//! The same bytes and the same messages for 1, 2 and 7 threads. The inputs are large enough for
//! the workers to use threads: above 4 MiB of names for reading, of contents for fixing up.

use crate::support::elf::{At, Object, R_32S, R_64, R_PC32, R_PLT32};
use crate::support::{self, DylibOptions, LinkedDylib, skip};
use bytes::Bytes;
use clinch_jit::memory::Slab;
use clinch_jit::session::DylibSources;
use std::path::Path;
use std::sync::Arc;

const THREADS: [usize; 3] = [1, 2, 7];
const BASE: u64 = 0x7000_0000_0000;

/// What a link leaves: contents and the addresses of some symbols, or messages.
type Outcome = Result<(Vec<(u64, Vec<u8>)>, Vec<Option<u64>>), String>;

fn dylib(threads: usize, phony: bool) -> (LinkedDylib, Slab) {
    let slab = Slab::new(BASE, 1 << 30, 4096);
    let options = DylibOptions {
        threads,
        sources: DylibSources {
            process: false,
            default_libraries: false,
            phony,
        },
        execute: false,
        ..DylibOptions::default()
    };
    (LinkedDylib::new(options, Arc::new(slab.clone())), slab)
}

fn finish((mut dylib, slab): (LinkedDylib, Slab), ask: &[&str]) -> Outcome {
    match dylib.link() {
        Ok(()) => {
            let addresses = ask.iter().map(|name| dylib.find(name)).collect();
            Ok((slab.take_contents(), addresses))
        }
        Err(errors) => Err(errors.to_string()),
    }
}

/// Links objects on each number of threads; all must come out the same.
fn link_on_all(objects: &[Vec<u8>], ask: &[&str]) -> Outcome {
    let mut outcomes = THREADS.map(|threads| {
        let (mut dylib, slab) = dylib(threads, false);
        for (n, object) in objects.iter().enumerate() {
            dylib.add(&format!("{n}.o"), Bytes::from(object.clone()));
        }
        finish((dylib, slab), ask)
    });
    assert!(
        outcomes[0] == outcomes[1],
        "2 threads make another result than 1"
    );
    assert!(
        outcomes[0] == outcomes[2],
        "7 threads make another result than 1"
    );
    std::mem::replace(&mut outcomes[0], Err(String::new()))
}

/// Objects of many functions that call those of the next object, with pointers to them and names
/// long enough to be work.
fn objects(n_objects: usize, n_functions: usize, data_size: usize) -> Vec<Object> {
    let name = |object: usize, function: usize| {
        format!("a_function_with_a_name_of_usual_length_{object}_{function}")
    };
    let mut objects = Vec::new();
    for n in 0..n_objects {
        let mut object = Object::new();
        for m in 0..n_functions {
            let next = object.symbol(&name((n + 1) % n_objects, m), At::Undefined);
            // call next; lea next(%rip), %rax
            let bytes = [0xe8, 0, 0, 0, 0, 0x48, 0x8d, 0x05, 0, 0, 0, 0];
            let start = object.code(&bytes, &[(1, R_PLT32, next, -4), (8, R_PC32, next, -4)]);
            object.symbol(&name(n, m), At::Text(start));
            object.data(&[0; 8], &[(0, R_64, next, 0)]);
        }
        let filler: Vec<u8> = (0..data_size).map(|k| (k * 31 + n) as u8).collect();
        object.data(&filler, &[]);
        object.symbol(&format!("data_{n}"), At::Data(0));
        objects.push(object);
    }
    objects
}

#[test]
fn generated_objects() {
    let objects: Vec<Vec<u8>> = objects(300, 100, 16 << 10)
        .iter()
        .map(Object::write)
        .collect();
    let first = "a_function_with_a_name_of_usual_length_0_0";
    let last = "a_function_with_a_name_of_usual_length_299_99";
    let (contents, addresses) =
        link_on_all(&objects, &[first, last]).unwrap_or_else(|error| panic!("{error}"));
    let size: usize = contents.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(size > 4 << 20, "too small for threads to be used: {size}");

    // The first function calls the first of the next object, 100 functions of 12 bytes on.
    let (base, code) = contents
        .iter()
        .find(|(base, bytes)| Some(*base) == addresses[0] && !bytes.is_empty())
        .expect("code begins with the first function");
    assert_eq!(code[..5], [0xe8, 0xab, 0x04, 0, 0]);
    assert_eq!(addresses[1], Some(base + 299 * 1200 + 99 * 12));
}

#[test]
fn real_archives() {
    let folder = Path::new("/usr/lib/llvm-22/lib");
    let archives = ["libLLVMOption.a", "libLLVMDemangle.a"].map(|name| folder.join(name));
    if let Some(missing) = archives.iter().find(|archive| !archive.is_file()) {
        return skip(&format!("no {}", missing.display()));
    }
    let outcomes = THREADS.map(|threads| {
        let (dylib, slab) = dylib(threads, true);
        for archive in &archives {
            let path = archive.display().to_string();
            dylib
                .dylib
                .add_archive(&path, support::read(archive))
                .expect("it is an archive");
        }
        dylib
            .dylib
            .load_archives()
            .expect("all members can be read");
        finish(
            (dylib, slab),
            &["_ZN4llvm8demangleB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE"],
        )
    });
    let (contents, _) = outcomes[0]
        .as_ref()
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(contents.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 200 << 10);
    assert!(outcomes[0] == outcomes[1] && outcomes[0] == outcomes[2]);
}

#[test]
fn fixup_errors() {
    let mut objects = objects(64, 4, 128 << 10);
    for (n, object) in objects.iter_mut().enumerate().step_by(3) {
        let here = object.symbol(&format!("here_{n}"), At::Text(0));
        object.code(&[0x48, 0xc7, 0xc0, 0, 0, 0, 0], &[(3, R_32S, here, 0)]);
        object.data(&[0; 4], &[(0, R_PC32, here, 1 << 40)]);
    }
    let objects: Vec<Vec<u8>> = objects.iter().map(Object::write).collect();
    let messages = link_on_all(&objects, &[]).expect_err("addresses do not fit 32 bits");
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(lines.len(), 44, "{messages}");
    assert!(
        lines[0].starts_with("0.o:(.text+0x33): Pointer32Signed to "),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("3.o:(.text+0x33): "), "{}", lines[1]);
    assert!(
        lines[43].starts_with("63.o:(.data+0x20020): Delta32 to "),
        "{}",
        lines[43]
    );
}

#[test]
fn undefined_and_duplicate_symbols() {
    let mut all = objects(100, 100, 0);
    for (n, object) in all.iter_mut().enumerate() {
        // Every name is missed in two objects.
        let missing = object.symbol(&format!("missing_{}", n / 2), At::Undefined);
        object.code(&[0xe8, 0, 0, 0, 0], &[(1, R_PLT32, missing, -4)]);
    }
    let written: Vec<Vec<u8>> = all.iter().map(Object::write).collect();
    let messages = link_on_all(&written, &[]).expect_err("symbols are missing");
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(lines.len(), 50, "{messages}");
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(*line, format!("undefined symbol: missing_{n}"));
    }

    for object in all.iter_mut().skip(90) {
        object.symbol("twice", At::Data(0));
    }
    let written: Vec<Vec<u8>> = all.iter().map(Object::write).collect();
    let messages = link_on_all(&written, &[]).expect_err("a symbol is defined ten times");
    assert_eq!(
        messages.matches("duplicate symbol: twice").count(),
        9,
        "{messages}"
    );
    assert_eq!(
        messages.matches(">>> defined at 90.o:(.data+0x0)").count(),
        9,
        "{messages}"
    );
}

#[test]
fn corrupt_objects() {
    let mut objects: Vec<Vec<u8>> = objects(300, 100, 16 << 10)
        .iter()
        .map(Object::write)
        .collect();
    for object in objects.iter_mut().skip(10).step_by(50) {
        // The table of sections is cut off.
        let half = object.len() / 2;
        object.truncate(half);
    }
    let messages = link_on_all(&objects, &[]).expect_err("six objects are cut");
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(lines.len(), 6, "{messages}");
    for (line, n) in lines.iter().zip((10..).step_by(50)) {
        assert!(line.starts_with(&format!("{n}.o: ")), "{line}");
    }
}
