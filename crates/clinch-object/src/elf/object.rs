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
use super::scan::Scan;
use super::section;
use super::symbol::{self, Signatures};
use crate::error::{InputError, ReadError, ReadErrorKind};
use bytes::Bytes;
use clinch_graph::index::int::usize_of;
use clinch_graph::names::Interning;
use clinch_graph::{
    Comdat, ComdatId, Endian, IdRange, InputId, InputName, LinkGraph, Names, NewInput, Selection,
    SymbolPart, Workers,
};
use clinch_target::{Arch, elf_arch};
use std::sync::Arc;

pub use super::headers::ElfObject;
pub use super::scan::SectionList;

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
    pub objects: Vec<AddedObject>,
}

/// One of them.
#[derive(Debug)]
pub struct AddedObject {
    /// What its headers say.
    pub object: Arc<ElfObject>,
    /// Its sections that can take part.
    pub sections: SectionList,
}

/// Reads headers and symbols of relocatable objects into the graph, in parallel, in the order
/// given, and interns the names of their global symbols.
///
/// # Errors
/// Every object that cannot be read, each once, in the order given; the graph and the names are
/// then of no use.
pub fn add_objects(
    graph: &mut LinkGraph,
    names: &mut Names,
    workers: &Workers,
    inputs: Vec<(InputName, Bytes)>,
    options: ReadOptions,
) -> Result<AddedObjects, Vec<InputError>> {
    add_objects_with(graph, names, workers, inputs, options, elf_arch)
}

/// The same, with the architecture of an `e_machine`, a class (whether it is 64-bit) and an order
/// as `find_arch` says.
///
/// # Errors
/// As [`add_objects`].
pub fn add_objects_with(
    graph: &mut LinkGraph,
    names: &mut Names,
    workers: &Workers,
    inputs: Vec<(InputName, Bytes)>,
    options: ReadOptions,
    find_arch: impl Fn(u16, bool, Endian) -> Option<&'static Arch> + Sync,
) -> Result<AddedObjects, Vec<InputError>> {
    // Headers: where symbols are and how much room they need.
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

    // Symbols, groups, what sections there are: each input fills its own part.
    let inputs = graph.add_inputs(workers, new);
    let mut interning = names.begin(graph, workers, inputs);
    let Interning { table, slots, .. } = &mut interning;
    let runs = runs_of(objects.iter().map(|object| object.n_symbols()));
    let slots = slots.split(runs.iter().map(|&(_, n_symbols)| n_symbols));
    let parts = graph.symbol_parts(inputs).into_iter();
    let mut inputs_left = parts.zip(&objects);
    let work = runs.iter().zip(slots).map(|(&(n_inputs, _), slots)| {
        let run = inputs_left.by_ref().take(n_inputs);
        let (parts, objects): (Vec<_>, Vec<_>) = run.unzip();
        (parts, slots, objects)
    });
    let filled = workers.map(cost, work.collect(), |(mut parts, slots, objects)| {
        let mut rest = &mut *slots;
        let read = parts.iter_mut().zip(objects).map(|(part, object)| {
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(object.n_symbols());
            rest = others;
            read_symbols(object, part, mine, options)
        });
        let read: Vec<Result<_, Failure>> = read.collect();
        if read.iter().all(Result::is_ok) {
            table.intern(&parts, slots);
        }
        let rests = parts.into_iter().map(SymbolPart::into_rest);
        rests.zip(read).collect::<Vec<_>>()
    });
    let filled = filled.into_iter().flatten();
    let (mut rests, mut groups) = (Vec::with_capacity(objects.len()), Vec::new());
    let (mut lists, mut failures) = (Vec::with_capacity(objects.len()), Vec::new());
    for ((input, (rest, result)), object) in inputs.iter().zip(filled).zip(&objects) {
        match result {
            Ok((signatures, list)) => {
                rests.push(rest);
                groups.push((input, signatures));
                lists.push(list);
            }
            Err(failure) => failures.push((object, input, failure)),
        }
    }
    if !failures.is_empty() {
        let wrap = |(object, input, failure): (&Arc<_>, _, _)| wrap(graph, object, input, failure);
        return Err(failures.into_iter().map(wrap).collect());
    }
    names.finish(workers, interning);
    graph.finish_symbols(rests);
    for (input, signatures) in groups {
        add_groups(graph, input, signatures);
    }
    let objects = objects.into_iter().zip(lists);
    let objects = objects.map(|(object, sections)| AddedObject { object, sections });
    Ok(AddedObjects {
        inputs,
        objects: objects.collect(),
    })
}

/// Fills an object's part of the columns, and the hashes of its global names; answers its groups and
/// what sections there are.
fn read_symbols(
    object: &ElfObject,
    part: &mut SymbolPart<'_>,
    hashes: &mut [u32],
    options: ReadOptions,
) -> Result<(Signatures, SectionList), Failure> {
    let scan = Scan::of(object, part.bytes, options)?;
    symbol::fill(object, &scan, part, hashes)?;
    let signatures = symbol::signatures(object, &scan, part.bytes);
    Ok((signatures, scan.list))
}

/// How many inputs are read together, one run after the other, and how many symbols they have, from
/// each one's: as many as have names enough to look up, and no more than the cache holds.
fn runs_of(sizes: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    const SYMBOLS: usize = 8192;
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for size in sizes {
        match runs.last_mut() {
            Some((inputs, symbols)) if *symbols + size <= SYMBOLS => {
                *inputs += 1;
                *symbols += size;
            }
            _ => runs.push((1, size)),
        }
    }
    runs
}

fn add_groups(graph: &mut LinkGraph, input: InputId, signatures: Signatures) {
    let symbols = graph.input(input).symbols();
    let mut ties = signatures.ties.into_iter().peekable();
    let comdat = |(place, symbol)| {
        let is_tie = ties.next_if_eq(&place).is_some();
        Some(Comdat {
            signature: symbols.get(usize_of(symbol))?,
            input,
            selection: if is_tie {
                Selection::All
            } else {
                Selection::Any
            },
        })
    };
    let groups = signatures.groups.into_iter().enumerate();
    graph.add_comdats(input, groups.filter_map(comdat));
    for (symbol, name) in signatures.names {
        if let Some(symbol) = symbols.get(usize_of(symbol)) {
            // The symbol is the input's own and local, so any name will do.
            let _ = graph.set_symbol_name(symbol, &name);
        }
    }
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
    objects: Vec<AddedObject>,
    takes_part: impl Fn(InputId) -> bool + Sync,
    keep: impl Fn(ComdatId) -> bool + Sync,
) -> Result<(), Vec<InputError>> {
    let cost = inputs
        .iter()
        .map(|input| graph.input(input).bytes().len() / 8)
        .sum();

    // Which sections stay: how many blocks each input has.
    let work: Vec<_> = inputs.iter().zip(objects).collect();
    let kept = workers.map(cost, work, |(id, mut added)| {
        if takes_part(id) {
            section::choose(&mut added.sections, graph.input(id).comdats(), &keep);
        } else {
            added.sections = SectionList::default();
        }
        added
    });

    // Sections and blocks: each input fills its own part.
    let counts = kept.iter().map(|added| added.sections.sections.len());
    let counts: Vec<usize> = counts.collect();
    let comdats: Vec<_> = inputs.iter().map(|id| graph.input(id).comdats()).collect();
    let parts = graph.block_parts(workers, inputs, &counts);
    let work = parts.into_iter().zip(comdats).zip(kept).collect();
    let filled = workers.map(cost, work, |((mut part, comdats), added)| {
        let AddedObject { object, sections } = added;
        section::fill(&object, &mut part, comdats, &sections).map_err(|failure| (object, failure))
    });
    let (mut rests, mut errors) = (Vec::new(), Vec::new());
    for (input, result) in inputs.iter().zip(filled) {
        match result {
            Ok(rest) => rests.push(rest),
            Err((object, failure)) => errors.push(wrap(graph, &object, input, failure)),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
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
    let options = ReadOptions { metadata: true };
    let inputs = vec![(name, bytes)];
    let added = add_objects_with(
        &mut graph,
        &mut Names::new(),
        &workers,
        inputs,
        options,
        find_arch,
    )
    .map_err(first)?;
    let (inputs, objects) = (added.inputs, added.objects);
    add_blocks(&mut graph, &workers, inputs, objects, |_| true, |_| true).map_err(first)?;
    Ok(graph)
}

fn wrap(graph: &LinkGraph, object: &ElfObject, id: InputId, failure: Failure) -> InputError {
    let input = graph.input(id);
    let section = failure.section.map(|section| {
        String::from_utf8_lossy(object.section_name(input.bytes(), section)).into_owned()
    });
    InputError {
        input: input.name.clone(),
        section,
        source: failure.error,
    }
}
