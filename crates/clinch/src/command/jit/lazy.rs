//! Functions that are linked when they are called: linking ahead, and the record of what was called.

use super::observe::Observed;
use crate::flags::jit::JitOptions;
use crate::render::Failure;
use clinch_jit::session::Dylib;
use std::fs;
use std::path::Path;

/// Begins to link lazy functions ahead, beside the program: first what the file says, then the
/// others in the order of the inputs. A function that cannot be linked is told when it is called.
pub(super) fn speculate(dylibs: &[Dylib], options: &JitOptions) -> Result<(), Failure> {
    if !options.speculate {
        return Ok(());
    }
    let mut wanted: Vec<(Dylib, String)> = Vec::new();
    if let Some(path) = &options.speculate_order {
        for (name, function) in order(path)? {
            let place = options.dylibs.iter().position(|dylib| *dylib == name);
            // As with the peer, what is not there is not linked.
            wanted.extend(place.map(|place| (dylibs[place].clone(), function)));
        }
    }
    for dylib in dylibs {
        let functions = dylib.lazy_functions().into_iter();
        wanted.extend(functions.map(|function| (dylib.clone(), function)));
    }
    if options.threads.is_none_or(|threads| threads > 1) {
        std::thread::spawn(move || {
            for (dylib, function) in wanted {
                let _ = dylib.link_lazy(&function);
            }
        });
    }
    Ok(())
}

/// Writes which lazy functions were called, in the order of their first calls.
pub(super) fn record(observed: &Observed, options: &JitOptions) -> Result<(), Failure> {
    let Some(path) = &options.record_lazy else {
        return Ok(());
    };
    let lines = observed.called();
    let lines = lines
        .iter()
        .map(|(dylib, function)| format!("{dylib}, {function}\n"));
    let written = fs::write(path, lines.collect::<String>());
    written.map_err(|why| format!("'{}': {why}", path.display()).into())
}

/// The lines of a file: dylibs and functions.
fn order(path: &Path) -> Result<Vec<(String, String)>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|why| format!("'{shown}': {why}"))?;
    let mut order = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let fail = |why: &str| {
            Err(format!(
                "Error in speculation order file \"{shown}\" on line {number}: {why}"
            ))
        };
        let Some((dylib, function)) = line.split_once(',') else {
            return fail("missing ',' separator");
        };
        let (dylib, function) = (dylib.trim(), function.trim());
        if dylib.is_empty() {
            return fail("no value for column 1 (JIT Dylib name)");
        }
        if function.is_empty() {
            return fail("no value for column 2 (function name)");
        }
        order.push((dylib.to_owned(), function.to_owned()));
    }
    Ok(order)
}
