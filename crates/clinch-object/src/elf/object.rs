//! One relocatable object to its part of the graph, top to bottom. Read this first.
//!
//! Reading has two halves, because a symbol's name must be known before it is known which COMDAT
//! groups stay, and sections of the others are not read at all: [`add_objects`] reads headers and
//! symbols, [`add_blocks`] the sections that stay. [`read_object`] does both for one file. The
//! `_with` variants look architectures up in another place than the registry.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::{Failure, architecture, name_of_section};
use super::raw::Header;
use super::{section, symbol};
use crate::error::{InputError, ReadError, ReadErrorKind};
use bytes::Bytes;
use clinch_graph::index::int::usize_of;
use clinch_graph::{
    Comdat, ComdatId, Endian, Id, IdRange, InputId, InputName, LinkGraph, NewInput, Selection,
    SymbolFlags, SymbolId, Workers,
};
use clinch_target::{Arch, elf_arch};
use std::sync::Arc;

pub use super::headers::ElfObject;

/// What to read of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// Also sections that are not in memory when the program runs: debug information and other
    /// metadata. Compressed ones are decompressed.
    pub metadata: bool,
}

/// Objects whose symbols are in the graph: their ids, and what [`add_blocks`] needs of each.
#[derive(Debug)]
pub struct AddedObjects {
    /// The inputs, in the order given.
    pub inputs: IdRange<InputId>,
    /// The objects, in the same order.
    pub objects: Vec<Arc<ElfObject>>,
}

/// Reads headers and symbols of relocatable objects into the graph, in parallel, in the order
/// given.
///
/// # Errors
/// Every object that cannot be read, each once, in the order given; the graph is then of no use.
pub fn add_objects(
    graph: &mut LinkGraph,
    workers: &Workers,
    inputs: Vec<(InputName, Bytes)>,
) -> Result<AddedObjects, Vec<InputError>> {
    add_objects_with(graph, workers, inputs, elf_arch)
}

/// The same, with the architecture of an `e_machine`, a class (whether it is 64-bit) and an order
/// as `find_arch` says.
///
/// # Errors
/// As [`add_objects`].
pub fn add_objects_with(
    graph: &mut LinkGraph,
    workers: &Workers,
    inputs: Vec<(InputName, Bytes)>,
    find_arch: impl Fn(u16, bool, Endian) -> Option<&'static Arch> + Sync,
) -> Result<AddedObjects, Vec<InputError>> {
    // Headers: what tables there are and how much room symbols need.
    let want = graph.target();
    let cost = inputs.iter().map(|(_, bytes)| bytes.len() / 8).sum();
    let parsed = workers.map(cost, inputs, |(name, bytes)| {
        let object =
            ElfObject::read(&bytes, &find_arch).and_then(|object| match object.arch.graph.name {
                found if found == want.name => Ok(object),
                found => {
                    let kind = ReadErrorKind::WrongArchitecture {
                        found,
                        want: want.name,
                    };
                    Err(ReadError::new(18, kind).into())
                }
            });
        match object {
            Ok(object) => Ok((name, bytes, Arc::new(object))),
            Err(Failure { section, error }) => {
                let section = section.and_then(|section| name_of_section(&bytes, section));
                Err(InputError {
                    input: name,
                    section,
                    source: error,
                })
            }
        }
    });
    let (mut new, mut objects, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for result in parsed {
        match result {
            Ok((name, bytes, object)) => {
                new.push(NewInput {
                    name,
                    bytes,
                    symbol_names: object.strings.clone(),
                    section_names: object.names.clone(),
                    source: Some(Arc::clone(&object) as _),
                    n_symbols: object.n_symbols(),
                });
                objects.push(object);
            }
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }

    // Symbols: each input fills its own part.
    let inputs = graph.add_inputs(new);
    let parts: Vec<_> = graph
        .symbol_parts(inputs)
        .into_iter()
        .zip(&objects)
        .collect();
    let filled = workers.map(cost, parts, |(mut part, object)| {
        symbol::fill(object, &mut part).map(|()| part.into_rest())
    });
    let (mut rests, mut failures) = (Vec::with_capacity(filled.len()), Vec::new());
    for (input, result) in inputs.iter().zip(filled) {
        match result {
            Ok(rest) => rests.push(rest),
            Err(failure) => failures.push((input, failure)),
        }
    }
    if !failures.is_empty() {
        return Err(wrap(graph, &objects, inputs, failures));
    }
    graph.finish_symbols(rests);

    // Groups: few bytes each, so one after the other.
    for (input, object) in inputs.iter().zip(&objects) {
        let source = graph.input(input);
        let first = source.symbols();
        let (mut comdats, mut nameless) = (Vec::with_capacity(object.groups.len()), Vec::new());
        for group in object.groups(source.bytes()) {
            let Some(signature) = first.get(usize_of(group.signature)) else {
                continue;
            };
            let selection = if group.is_comdat {
                Selection::Any
            } else {
                Selection::All
            };
            comdats.push(Comdat {
                signature,
                input,
                selection,
            });
            if graph.symbol_flags(signature).contains(SymbolFlags::SECTION) {
                nameless.extend(signature_name(graph, object, input, signature));
            }
        }
        graph.add_comdats(input, comdats);
        for (signature, name) in nameless {
            // The symbol is the input's own and local, so any name will do.
            let _ = graph.set_symbol_name(signature, &name);
        }
    }
    Ok(AddedObjects { inputs, objects })
}

/// The name that a group has by a section symbol without one: the section's. (What GNU ld and
/// gold write with `-r` for groups whose signature was a local symbol.)
fn signature_name(
    graph: &LinkGraph,
    object: &ElfObject,
    input: InputId,
    signature: SymbolId,
) -> Option<(SymbolId, Vec<u8>)> {
    if !graph.symbol_name_in(input, signature).is_empty() {
        return None;
    }
    let section = graph.pending_section(signature)?;
    let name = object.section_name(graph.input(input).bytes(), section);
    (!name.is_empty()).then(|| (signature, name.to_vec()))
}

/// Reads the sections of objects that [`add_objects`] added and for which `takes_part` says yes,
/// but for those of groups that `keep` says no to. Symbols defined in what is not read become
/// discarded.
///
/// # Errors
/// Every object that cannot be read, each once, in order; the graph is then of no use.
pub fn add_blocks(
    graph: &mut LinkGraph,
    workers: &Workers,
    inputs: IdRange<InputId>,
    objects: &[Arc<ElfObject>],
    options: ReadOptions,
    takes_part: impl Fn(InputId) -> bool + Sync,
    keep: impl Fn(ComdatId) -> bool + Sync,
) -> Result<(), Vec<InputError>> {
    let cost = inputs
        .iter()
        .map(|input| graph.input(input).bytes().len() / 8)
        .sum();

    // Which sections stay: how many blocks each input has.
    let work: Vec<_> = inputs.iter().zip(objects).collect();
    let chosen = workers.map(cost, work, |(id, object)| {
        let input = graph.input(id);
        if !takes_part(id) {
            return Ok(Vec::new());
        }
        section::choose(object, input.bytes(), input.comdats(), options, &keep)
    });
    let (mut kept, mut errors) = (Vec::with_capacity(chosen.len()), Vec::new());
    for (input, result) in inputs.iter().zip(chosen) {
        match result {
            Ok(sections) => kept.push(sections),
            Err(failure) => errors.push((input, failure)),
        }
    }
    if !errors.is_empty() {
        return Err(wrap(graph, objects, inputs, errors));
    }

    // Sections and blocks: each input fills its own part.
    let counts: Vec<usize> = kept.iter().map(Vec::len).collect();
    let parts: Vec<_> = graph
        .block_parts(inputs, &counts)
        .into_iter()
        .zip(objects.iter().zip(&kept))
        .collect();
    let filled = workers.map(cost, parts, |(mut part, (object, kept))| {
        section::fill(object, &mut part, kept)
    });
    let mut rests = Vec::new();
    for (input, result) in inputs.iter().zip(filled) {
        match result {
            Ok(rest) => rests.push(rest),
            Err(failure) => errors.push((input, failure)),
        }
    }
    if !errors.is_empty() {
        return Err(wrap(graph, objects, inputs, errors));
    }
    for rest in rests {
        rest.finish(graph);
    }
    Ok(())
}

/// Reads one relocatable object whole into a graph of its own.
///
/// # Errors
/// What is wrong with the object.
pub fn read_object(name: InputName, bytes: Bytes) -> Result<LinkGraph, InputError> {
    read_object_with(name, bytes, elf_arch)
}

/// The same, with the architecture of an `e_machine`, a class (whether it is 64-bit) and an order
/// as `find_arch` says.
///
/// # Errors
/// What is wrong with the object.
pub fn read_object_with(
    name: InputName,
    bytes: Bytes,
    find_arch: impl Fn(u16, bool, Endian) -> Option<&'static Arch> + Sync,
) -> Result<LinkGraph, InputError> {
    let header = Header::parse(&bytes).and_then(|header| architecture(&header, &find_arch));
    let arch = match header {
        Ok(arch) => arch,
        Err(source) => {
            return Err(InputError {
                input: name,
                section: None,
                source,
            });
        }
    };
    let mut graph = LinkGraph::new(&name.to_string(), &arch.graph);
    let workers = Workers::new(1);
    let first = |errors: Vec<InputError>| {
        errors.into_iter().next().unwrap_or_else(|| InputError {
            input: InputName::file(""),
            section: None,
            source: ReadError::new(0, ReadErrorKind::NotElf("no reason given")),
        })
    };
    let added =
        add_objects_with(&mut graph, &workers, vec![(name, bytes)], find_arch).map_err(first)?;
    let options = ReadOptions { metadata: true };
    add_blocks(
        &mut graph,
        &workers,
        added.inputs,
        &added.objects,
        options,
        |_| true,
        |_| true,
    )
    .map_err(first)?;
    Ok(graph)
}

fn wrap(
    graph: &LinkGraph,
    objects: &[Arc<ElfObject>],
    inputs: IdRange<InputId>,
    failures: Vec<(InputId, Failure)>,
) -> Vec<InputError> {
    failures
        .into_iter()
        .map(|(id, failure)| {
            let input = graph.input(id);
            let object = objects.get(id.index() - inputs.start());
            let section = failure.section.zip(object).map(|(section, object)| {
                String::from_utf8_lossy(object.section_name(input.bytes(), section)).into_owned()
            });
            InputError {
                input: input.name.clone(),
                section,
                source: failure.error,
            }
        })
        .collect()
}
