//! One relocatable object to its part of the graph, top to bottom. Read this first.
//!
//! Reading has two halves, because a symbol's name must be known before it is known which COMDAT
//! groups stay, and sections of the others are not read at all: [`add_objects`] reads headers and
//! symbols, [`add_blocks`] the sections that stay. [`read_object`] does both for one file.

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::raw::{ET_REL, Format, Header, SectionHeader, Sections, name_at, sht, slice};
use super::{section, symbol};
use crate::error::{InputError, ReadError, ReadErrorKind};
use bytes::Bytes;
use clinch_graph::index::int::{u32_of, u64_of, usize_of};
use clinch_graph::{
    Comdat, ComdatId, Id, IdRange, InputId, InputName, LinkGraph, NewInput, Selection, Workers,
};
use clinch_target::{Arch, ElfArch, elf_arch};
use std::ops::Range;
use std::sync::Arc;

/// What one object's headers say: the facts that reading its symbols, sections and relocation
/// records starts from. It is also the source of its blocks' edges.
#[derive(Debug)]
pub struct ElfObject {
    /// The architecture.
    pub arch: &'static Arch,
    pub(super) elf: &'static ElfArch,
    pub(super) header: Header,
    pub(super) symbols: Range<usize>,
    pub(super) strings: Range<usize>,
    pub(super) extended_sections: Option<Range<usize>>,
    pub(super) names: Range<usize>,
    /// Section numbers of the groups.
    pub(super) groups: Vec<u32>,
}

/// A section group as the file says it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) section: u32,
    pub(super) signature: u32,
    pub(super) is_comdat: bool,
    /// Where the members' section numbers are.
    pub(super) members: Range<usize>,
}

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

/// A failure, with the number of the section it is about.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) section: Option<u32>,
    pub(super) error: ReadError,
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self { section: None, error }
    }
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
    // Headers: what tables there are and how much room symbols need.
    let want = graph.target();
    let cost = inputs.iter().map(|(_, bytes)| bytes.len() / 8).sum();
    let parsed = workers.map(cost, inputs, |(name, bytes)| {
        let object = ElfObject::parse(&bytes).and_then(|object| match object.arch.graph.name {
            found if found == want.name => Ok(object),
            found => {
                let kind = ReadErrorKind::WrongArchitecture { found, want: want.name };
                Err(ReadError::new(18, kind))
            }
        });
        match object {
            Ok(object) => Ok((name, bytes, Arc::new(object))),
            Err(source) => Err(InputError { input: name, section: None, source }),
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
    let parts: Vec<_> = graph.symbol_parts(inputs).into_iter().zip(&objects).collect();
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
        let comdats: Vec<Comdat> = object
            .groups(source.bytes())
            .filter_map(|group| {
                let signature = first.get(usize_of(group.signature))?;
                let selection = if group.is_comdat { Selection::Any } else { Selection::All };
                Some(Comdat { signature, input, selection })
            })
            .collect();
        graph.add_comdats(input, comdats);
    }
    Ok(AddedObjects { inputs, objects })
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
    let cost = inputs.iter().map(|input| graph.input(input).bytes().len() / 8).sum();

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
    let parts: Vec<_> =
        graph.block_parts(inputs, &counts).into_iter().zip(objects.iter().zip(&kept)).collect();
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
    let header = Header::parse(&bytes).and_then(|header| architecture(&header));
    let arch = match header {
        Ok(arch) => arch,
        Err(source) => return Err(InputError { input: name, section: None, source }),
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
    let added = add_objects(&mut graph, &workers, vec![(name, bytes)]).map_err(first)?;
    let options = ReadOptions { metadata: true };
    add_blocks(&mut graph, &workers, added.inputs, &added.objects, options, |_| true, |_| true)
        .map_err(first)?;
    Ok(graph)
}

fn architecture(header: &Header) -> Result<&'static Arch, ReadError> {
    elf_arch(header.machine, header.format.is_64, header.format.endian)
        .ok_or_else(|| ReadError::new(18, ReadErrorKind::UnknownMachine(header.machine)))
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
            InputError { input: input.name.clone(), section, source: failure.error }
        })
        .collect()
}

impl ElfObject {
    /// Reads what the headers say.
    ///
    /// # Errors
    /// Not a relocatable object, an unknown architecture, or tables that are malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        let header = Header::parse(bytes)?;
        if header.kind != ET_REL {
            return Err(ReadError::new(16, ReadErrorKind::NotRelocatable(header.kind)));
        }
        let arch = architecture(&header)?;
        let elf = arch
            .elf
            .ok_or_else(|| ReadError::new(18, ReadErrorKind::UnknownMachine(header.machine)))?;
        let mut object = Self {
            arch,
            elf,
            header,
            symbols: 0..0,
            strings: 0..0,
            extended_sections: None,
            names: 0..0,
            groups: Vec::new(),
        };
        let sections = header.sections(bytes);
        if header.n_sections > 0 {
            let names = sections.need("section name table", header.names)?;
            if header.names != 0 {
                object.names = string_table(bytes, &names, header.names)?;
            }
        }
        let mut symtab = None;
        for (index, section) in sections.iter() {
            match section.kind {
                sht::SYMTAB if symtab.is_some() => {
                    let offset = sections.header_offset(index);
                    return Err(ReadError::new(offset, ReadErrorKind::Several("symbol table")));
                }
                sht::SYMTAB => {
                    object.take_symbols(bytes, &sections, &section)?;
                    symtab = Some(index);
                }
                sht::SYMTAB_SHNDX => {
                    object.extended_sections =
                        Some(section.data_range(bytes, "table of section numbers")?);
                }
                _ => {}
            }
        }
        // Groups name symbols, and the symbol table may stand behind them.
        for (index, section) in sections.iter() {
            if section.kind == sht::GROUP {
                object.group(bytes, index, &section)?;
                object.groups.push(u32_of(index));
            }
        }
        Ok(object)
    }

    /// How many symbols the object has, the null symbol included.
    pub fn n_symbols(&self) -> usize {
        self.symbols.len() / self.format().symbol_size()
    }

    /// Class and byte order.
    pub fn format(&self) -> Format {
        self.header.format
    }

    /// The name of a section, empty when it has none.
    pub fn section_name<'d>(&self, bytes: &'d [u8], section: u32) -> &'d [u8] {
        self.header
            .sections(bytes)
            .get(usize_of(section))
            .and_then(|header| name_at(bytes.get(self.names.clone())?, header.name))
            .unwrap_or(&[])
    }

    fn take_symbols(
        &mut self,
        bytes: &[u8],
        sections: &Sections<'_>,
        symtab: &SectionHeader,
    ) -> Result<(), ReadError> {
        let entry = u64_of(self.format().symbol_size());
        if symtab.entry_size != entry {
            let found = symtab.entry_size;
            let kind = ReadErrorKind::EntrySize { what: "symbol table", found, want: entry };
            return Err(ReadError::new(symtab.offset, kind));
        }
        if symtab.size % entry != 0 {
            let kind =
                ReadErrorKind::UnevenTable { what: "symbol table", size: symtab.size, entry };
            return Err(ReadError::new(symtab.offset, kind));
        }
        if symtab.size / entry >= u64::from(u32::MAX) {
            return Err(ReadError::new(symtab.offset, ReadErrorKind::TooLarge("symbol table")));
        }
        self.symbols = symtab.data_range(bytes, "symbol table")?;
        let link = u64::from(symtab.link);
        let strings = sections.need("symbol table", link)?;
        self.strings = string_table(bytes, &strings, link)?;
        Ok(())
    }

    fn group(
        &self,
        bytes: &[u8],
        index: usize,
        section: &SectionHeader,
    ) -> Result<Group, ReadError> {
        const GRP_COMDAT: u32 = 1;
        let range = section.data_range(bytes, "section group")?;
        let data = slice(bytes, "section group", section.offset, section.size)?;
        if data.len() < 4 || data.len() % 4 != 0 {
            let size = section.size;
            let kind = ReadErrorKind::UnevenTable { what: "section group", size, entry: 4 };
            return Err(ReadError::new(section.offset, kind));
        }
        if usize_of(section.info) >= self.n_symbols() {
            let kind = ReadErrorKind::NoSymbol {
                what: "section group",
                index: u64::from(section.info),
                count: u64_of(self.n_symbols()),
            };
            return Err(ReadError::new(section.offset, kind));
        }
        let flags = self.format().u32(data, 0).unwrap_or(0);
        Ok(Group {
            section: u32_of(index),
            signature: section.info,
            is_comdat: flags & GRP_COMDAT != 0,
            members: range.start + 4..range.end,
        })
    }

    /// The groups, in the order of their sections.
    pub(super) fn groups<'d>(&self, bytes: &'d [u8]) -> impl Iterator<Item = Group> + use<'_, 'd> {
        let sections = self.header.sections(bytes);
        self.groups.iter().filter_map(move |&index| {
            let section = sections.get(usize_of(index))?;
            // Was read before, so it can be read again.
            self.group(bytes, usize_of(index), &section).ok()
        })
    }

    /// The section numbers of a group's members.
    pub(super) fn members<'d>(
        &self,
        bytes: &'d [u8],
        group: &Group,
    ) -> impl Iterator<Item = u32> + use<'d> {
        let format = self.format();
        let members = bytes.get(group.members.clone()).unwrap_or(&[]);
        members.chunks_exact(4).filter_map(move |raw| format.u32(raw, 0))
    }

    /// A section number that did not fit a symbol's own field.
    pub(super) fn extended_section(&self, bytes: &[u8], symbol: usize) -> Option<u32> {
        let table = bytes.get(self.extended_sections.clone()?)?;
        self.format().u32(table, symbol.checked_mul(4)?)
    }
}

fn string_table(
    bytes: &[u8],
    section: &SectionHeader,
    index: u64,
) -> Result<Range<usize>, ReadError> {
    if section.kind != sht::STRTAB {
        let kind =
            ReadErrorKind::SectionType { what: "string table", index, found: section.kind };
        return Err(ReadError::new(section.offset, kind));
    }
    section.data_range(bytes, "string table")
}

/// Where a table's `index`-th entry lies, for messages.
pub(super) fn entry_offset(table: &Range<usize>, index: usize, entry: usize) -> u64 {
    u64_of(table.start + index * entry)
}

/// Checks that a name offset lies in its table.
pub(super) fn check_name(
    what: &'static str,
    name: u32,
    table: &Range<usize>,
    at: u64,
) -> Result<(), ReadError> {
    if name != 0 && usize_of(name) >= table.len() {
        let size = u64_of(table.len());
        let kind = ReadErrorKind::NameOutside { what, offset: u64::from(name), size };
        return Err(ReadError::new(at, kind));
    }
    Ok(())
}

/// The binary logarithm of an alignment; 0 means 1.
pub(super) fn align_log2(align: u64, at: u64) -> Result<u8, ReadError> {
    match align {
        0 => Ok(0),
        align if align.is_power_of_two() => {
            Ok(u8::try_from(align.trailing_zeros()).unwrap_or_default())
        }
        align => Err(ReadError::new(at, ReadErrorKind::Alignment(align))),
    }
}

