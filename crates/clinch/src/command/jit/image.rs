//! What was linked, as llvm-jitlink's texts and rules see it: file by file, though all files are
//! one graph. A GOT entry or stub that several files share belongs to each that refers to it.

use super::observe::{Observed, linked};
use crate::flags::jit::JitOptions;
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{
    Addressable, BlockId, Edge, EdgeKind, Endian, InputId, LinkGraph, SectionKind, SymbolId,
};
use clinch_jit::check::{self, Location};
use clinch_jit::link::Finished;
use clinch_target::{Arch, Instruction};
use std::sync::Arc;

/// The longest instruction of any architecture.
const MAX_INSTRUCTION: usize = 16;

/// Everything that was linked.
pub(super) struct Image<'l> {
    pub(super) arch: &'static Arch,
    pub(super) observed: &'l Observed,
    /// The links, each with its dylib's place among all.
    pub(super) links: &'l [(usize, Arc<Finished>)],
    pub(super) files: Vec<File>,
    /// What each name is, in the order of names; definitions before `-abs`.
    symbols: Map<String, Placed>,
}

/// One file that was linked.
#[derive(Debug)]
pub(super) struct File {
    /// Its link's number.
    pub(super) link: usize,
    pub(super) input: InputId,
    /// What messages call it.
    pub(super) name: String,
    /// The last part of the name, by which rules call it.
    pub(super) short: String,
    /// The sections by name; those of one name are one.
    pub(super) sections: Vec<Section>,
    pub(super) got: Vec<Entry>,
    pub(super) stubs: Vec<Entry>,
    /// The global names in it.
    names: Set<Vec<u8>>,
}

/// A section of a file.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: String,
    /// Its blocks that were linked, ascending by address.
    pub(super) blocks: Vec<BlockId>,
    /// The symbols in them, ascending by address, named ones first.
    pub(super) symbols: Vec<SymbolId>,
    kind: SectionKind,
}

/// A GOT entry or a stub.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// What it leads to.
    pub(super) target: String,
    is_local: bool,
    pub(super) block: BlockId,
}

/// Something with an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) has_content: bool,
}

/// What the linker made for all files of a link.
struct Tables {
    got: Map<BlockId, Entry>,
    stubs: Map<BlockId, (BlockId, Entry)>,
}

impl<'l> Image<'l> {
    /// Whether anything in the options looks at what was linked.
    pub(super) fn is_wanted(options: &JitOptions) -> bool {
        let show = &options.show;
        !options.checks.is_empty()
            || options.symbol_table.is_some()
            || show.addresses
            || show.contents
            || show.graphs.is_some()
            || show.final_symbols
            || show.size_before
            || show.size_after
    }

    pub(super) fn new(
        arch: &'static Arch,
        links: &'l [(usize, Arc<Finished>)],
        observed: &'l Observed,
        options: &JitOptions,
    ) -> Result<Self, String> {
        let mut image = Self {
            arch,
            observed,
            links,
            files: Vec::new(),
            symbols: Map::default(),
        };
        for (number, (_, link)) in links.iter().enumerate() {
            let tables = Tables::new(arch, link);
            let made = made(&link.graph);
            for input in linked(&link.graph) {
                let file = file(link, number, input, observed, &tables, &made);
                image.files.push(file);
            }
        }
        let is_named = !options.checks.is_empty() || options.show.addresses;
        let mut names: Set<&str> = Set::default();
        for file in &image.files {
            if is_named && !names.insert(&file.short) {
                return Err(format!(
                    "When -check is passed, file names must be distinct (duplicate: \"{}\")",
                    file.short
                ));
            }
        }
        image.name_symbols(options);
        Ok(image)
    }

    fn name_symbols(&mut self, options: &JitOptions) {
        let mut symbols: Map<String, Placed> = Map::default();
        // Global names first: a local one of the same name must not hide them.
        for local in [false, true] {
            for file in &self.files {
                let (_, link) = &self.links[file.link];
                let graph = &link.graph;
                for symbol in graph.input(file.input).symbols().iter() {
                    let name = graph.symbol_name(symbol);
                    let flags = graph.symbol_flags(symbol);
                    if name.is_empty() || flags.is_global() == local || is_mark(graph, symbol) {
                        continue;
                    }
                    // A definition that lost is one of another file.
                    if link.resolution.prevailing(symbol) != symbol {
                        continue;
                    }
                    let name = String::from_utf8_lossy(name).into_owned();
                    if let Some(placed) = placed(link, symbol) {
                        symbols.entry(name).or_insert(placed);
                    }
                }
            }
        }
        // A link without references to the GOT's base has one all the same.
        for (_, link) in self.links {
            if let Some((address, _)) = link.layout.range_of(&link.graph, SectionKind::Got) {
                let base = "_GLOBAL_OFFSET_TABLE_".to_owned();
                symbols.entry(base).or_insert(Placed {
                    address,
                    size: 0,
                    has_content: true,
                });
            }
        }
        for (name, address) in options.absolutes.iter().map(|own| &own.value) {
            symbols.entry(name.clone()).or_insert(Placed {
                address: *address,
                size: 0,
                has_content: false,
            });
        }
        self.symbols = symbols;
    }

    /// All symbols, by name.
    pub(super) fn symbols(&self) -> Vec<(&str, Placed)> {
        let mut all: Vec<(&str, Placed)> = Vec::with_capacity(self.symbols.len());
        #[expect(
            clippy::iter_over_hash_type,
            reason = "the order is that of names, below"
        )]
        for (name, placed) in &self.symbols {
            all.push((name, *placed));
        }
        all.sort_unstable_by_key(|&(name, _)| name);
        all
    }

    /// The address of a global name, when the input that defines it was linked.
    pub(super) fn linked_address(&self, input: &str, name: &str) -> Option<u64> {
        let mut files = self.files.iter();
        let file = files.find(|file| file.name == input)?;
        file.names.contains(name.as_bytes()).then_some(())?;
        Some(self.symbols.get(name)?.address)
    }

    pub(super) fn link(&self, file: &File) -> &'l Finished {
        &self.links[file.link].1
    }

    /// Where a section of a file is.
    pub(super) fn placed_section(
        &self,
        file: &File,
        section: &Section,
    ) -> Option<Result<Placed, String>> {
        let link = self.link(file);
        let graph = &link.graph;
        // Call frame records have symbols in llvm-jitlink's graphs.
        let start = match section.symbols.first() {
            Some(&symbol) => address(link, symbol)?,
            None if section.kind == SectionKind::EhFrame => {
                link.layout.block(*section.blocks.first()?)?
            }
            None => return None,
        };
        let &last = section.blocks.last()?;
        let end = link.layout.block(last)? + graph.block_size(last);
        let zero = |&block: &BlockId| graph.is_zero_fill(block);
        let (any, all) = (
            section.blocks.iter().any(zero),
            section.blocks.iter().all(zero),
        );
        if any && !all {
            return Some(Err(
                "Mixed zero-fill and content sections not supported yet".to_owned(),
            ));
        }
        Some(Ok(Placed {
            address: start,
            size: end.saturating_sub(start),
            has_content: !any,
        }))
    }

    pub(super) fn placed_entry(&self, file: &File, entry: &Entry) -> Placed {
        let link = self.link(file);
        Placed {
            address: link.layout.block(entry.block).unwrap_or(0),
            size: link.graph.block_size(entry.block),
            has_content: true,
        }
    }

    fn file(&self, name: &str) -> Result<&File, String> {
        self.files
            .iter()
            .find(|file| file.short == name)
            .ok_or_else(|| format!("file \"{name}\" not recognized"))
    }

    /// An entry that a file refers to. Where the linker did without it, the one that others use
    /// for the same global symbol.
    fn entry<'f>(
        &'f self,
        file: &'f File,
        entries: impl Fn(&'f File) -> &'f [Entry],
        symbol: &str,
    ) -> Option<Placed> {
        let own = entries(file).iter().find(|entry| entry.target == symbol);
        if let Some(entry) = own {
            return Some(self.placed_entry(file, entry));
        }
        if !file.names.contains(symbol.as_bytes()) {
            return None;
        }
        let others = self.files.iter().filter(|other| other.link == file.link);
        others
            .flat_map(|other| entries(other).iter().map(move |entry| (other, entry)))
            .find(|(_, entry)| entry.target == symbol && !entry.is_local)
            .map(|(other, entry)| self.placed_entry(other, entry))
    }
}

impl From<Placed> for Location {
    /// Contents are kept by their address in the executor.
    fn from(placed: Placed) -> Self {
        Self {
            target: placed.address,
            working: placed.has_content.then_some(placed.address),
        }
    }
}

impl check::Image for Image<'_> {
    fn endian(&self) -> Endian {
        self.arch.graph.endian
    }

    fn symbol(&self, name: &str) -> Option<Location> {
        self.symbols.get(name).copied().map(Location::from)
    }

    fn section(&self, file: &str, section: &str) -> Result<Location, String> {
        let file = self.file(file)?;
        file.sections
            .iter()
            .find(|candidate| candidate.name == section)
            .and_then(|section| self.placed_section(file, section))
            .unwrap_or_else(|| {
                Err(format!(
                    "no section \"{section}\" registered for file \"{}\"",
                    file.short
                ))
            })
            .map(Location::from)
    }

    fn got(&self, file: &str, symbol: &str) -> Result<Location, String> {
        let file = self.file(file)?;
        self.entry(file, |file| &file.got, symbol)
            .map(Location::from)
            .ok_or_else(|| {
                format!(
                    "no GOT entry for \"{symbol}\" registered for file \"{}\"",
                    file.short
                )
            })
    }

    fn stub(&self, file: &str, symbol: &str, kind: Option<&str>) -> Result<Location, String> {
        let file = self.file(file)?;
        if let Some(kind) = kind {
            return Err(format!(
                "no stub of kind \"{kind}\" for \"{symbol}\": stubs of {} have no kinds",
                self.arch.graph.name
            ));
        }
        self.entry(file, |file| &file.stubs, symbol)
            .map(Location::from)
            .ok_or_else(|| {
                format!(
                    "no stub for \"{symbol}\" registered for file \"{}\"",
                    file.short
                )
            })
    }

    fn read(&self, working: u64, bytes: &mut [u8]) -> bool {
        self.observed.read(working, bytes)
    }

    fn decode(&self, working: u64) -> Result<Instruction, String> {
        let decode = self
            .arch
            .decode
            .ok_or_else(|| format!("there is no decoder for {}", self.arch.graph.name))?;
        let bytes = self.observed.read_up_to(working, MAX_INSTRUCTION);
        decode(&bytes)
            .map_err(|why| format!("couldn't decode the instruction at {working:#x}: {why}"))
    }
}

impl Tables {
    fn new(arch: &Arch, link: &Finished) -> Self {
        let graph = &link.graph;
        let mut got: Map<BlockId, Entry> = Map::default();
        let mut stubs: Map<BlockId, (BlockId, Entry)> = Map::default();
        let of_kind = |kind| {
            let blocks = graph.blocks();
            blocks.filter(move |&block| {
                graph.section_kind(graph.block_section(block)) == kind
                    && link.layout.block(block).is_some()
            })
        };
        let mut edges = Vec::new();
        for block in of_kind(SectionKind::Got) {
            // What cannot be decoded failed the link.
            let _ = graph.edges(block, &mut edges);
            let Some(edge) = edges.first().filter(|edge| edge.kind == arch.pointer) else {
                continue;
            };
            let target = link.resolution.prevailing(edge.target);
            let name = graph.symbol_name(target);
            if name.is_empty() {
                continue;
            }
            let entry = Entry {
                target: String::from_utf8_lossy(name).into_owned(),
                is_local: !graph.symbol_flags(target).is_global(),
                block,
            };
            got.insert(block, entry);
        }
        for block in of_kind(SectionKind::Stubs) {
            let _ = graph.edges(block, &mut edges);
            let through = edges
                .iter()
                .filter_map(|edge| block_of(link, edge.target))
                .find_map(|block| Some((block, got.get(&block)?.clone())));
            if let Some((entry, led)) = through {
                stubs.insert(block, (entry, Entry { block, ..led }));
            }
        }
        Self { got, stubs }
    }
}

fn file(
    link: &Finished,
    number: usize,
    id: InputId,
    observed: &Observed,
    tables: &Tables,
    made: &Map<BlockId, Vec<SymbolId>>,
) -> File {
    let graph = &link.graph;
    let input = graph.input(id);
    let name = observed.inputs.name_of(input);
    let short = name.rsplit('/').next().unwrap_or_default().to_owned();

    let mut sections: Vec<Section> = Vec::new();
    let mut section_of: Map<BlockId, usize> = Map::default();
    let mut by_name: Map<Vec<u8>, usize> = Map::default();
    let mut add = |sections: &mut Vec<Section>, section, block: Option<BlockId>| -> usize {
        let name = match graph.section_name(section) {
            // Space of common symbols, under the name that it has in llvm-jitlink's graphs.
            b"COMMON" => b".common",
            name => name,
        };
        let index = *by_name.entry(name.to_vec()).or_insert_with(|| {
            sections.push(Section {
                name: String::from_utf8_lossy(name).into_owned(),
                blocks: Vec::new(),
                symbols: Vec::new(),
                kind: graph.section_kind(section),
            });
            sections.len() - 1
        });
        sections[index].blocks.extend(block);
        index
    };
    let is_placed =
        |block: &BlockId| graph.has_block(*block) && link.layout.block(*block).is_some();
    for section in input.sections().iter() {
        add(&mut sections, section, None);
        for block in graph.section_blocks(section).filter(is_placed) {
            section_of.insert(block, add(&mut sections, section, Some(block)));
        }
    }

    // Entries that the blocks so far refer to, with what those refer to.
    let (mut got, mut stubs): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
    let mut entries: Set<BlockId> = Set::default();
    let mut edges: Vec<Edge> = Vec::new();
    let own: Vec<BlockId> = sections.iter().flat_map(|s| s.blocks.clone()).collect();
    for block in own {
        let _ = graph.edges(block, &mut edges);
        for edge in edges
            .iter()
            .filter(|edge| edge.kind != EdgeKind::KEEP_ALIVE)
        {
            let Some(target) = block_of(link, edge.target) else {
                continue;
            };
            if let Some((entry, stub)) = tables.stubs.get(&target)
                && entries.insert(target)
            {
                stubs.push(stub.clone());
                if entries.insert(*entry) {
                    got.extend(tables.got.get(entry).cloned());
                }
            } else if let Some(entry) = tables.got.get(&target)
                && entries.insert(target)
            {
                got.push(entry.clone());
            }
        }
    }
    for entry in got.iter().chain(&stubs) {
        let block = entry.block;
        let section = graph.block_section(block);
        section_of.insert(block, add(&mut sections, section, Some(block)));
    }
    // What the linker made of the file's symbols: space of common ones, the GOT's base.
    let mut names: Set<Vec<u8>> = Set::default();
    for symbol in input.symbols().iter() {
        let name = graph.symbol_name(symbol);
        if !name.is_empty() && graph.symbol_flags(symbol).is_global() {
            names.insert(name.to_vec());
        }
        if link.resolution.prevailing(symbol) == symbol
            && let Some(block) = block_of(link, symbol)
            && is_placed(&block)
            && graph.block_input(block) == LinkGraph::linker_input()
            && !section_of.contains_key(&block)
        {
            let section = graph.block_section(block);
            section_of.insert(block, add(&mut sections, section, Some(block)));
        }
    }

    for symbol in input.symbols().iter() {
        if let Addressable::Block { block, .. } = graph.addressable(symbol)
            && let Some(&section) = section_of.get(&block)
        {
            sections[section].symbols.push(symbol);
        }
    }
    for section in &mut sections {
        section
            .blocks
            .sort_by_key(|&block| link.layout.block(block));
        section.blocks.dedup();
        let made = section.blocks.iter().filter_map(|block| made.get(block));
        section.symbols.extend(made.flatten());
        section.symbols.sort_by_key(|&symbol| {
            let anonymous = graph.symbol_name(symbol).is_empty();
            (address(link, symbol), anonymous)
        });
    }
    sections.sort_by(|a, b| a.name.cmp(&b.name));
    File {
        link: number,
        input: id,
        name,
        short,
        sections,
        got,
        stubs,
        names,
    }
}

/// Whether a symbol only says something, such as the source's name, and has no place or value.
pub(super) fn is_mark(graph: &LinkGraph, symbol: SymbolId) -> bool {
    !graph.symbol_flags(symbol).is_global() && graph.addressable(symbol) == Addressable::Absolute(0)
}

/// The symbols that steps made, by their block.
fn made(graph: &LinkGraph) -> Map<BlockId, Vec<SymbolId>> {
    let mut made: Map<BlockId, Vec<SymbolId>> = Map::default();
    for symbol in graph.symbols() {
        if graph.symbol_input(symbol) == LinkGraph::linker_input()
            && let Some(block) = graph.symbol_block(symbol)
        {
            made.entry(block).or_default().push(symbol);
        }
    }
    made
}

/// The block that a reference leads to.
pub(super) fn block_of(link: &Finished, symbol: SymbolId) -> Option<BlockId> {
    link.graph.symbol_block(link.resolution.prevailing(symbol))
}

/// The address of a symbol's own definition.
pub(super) fn address(link: &Finished, symbol: SymbolId) -> Option<u64> {
    match link.graph.addressable(symbol) {
        Addressable::Block { block, offset } => Some(link.layout.block(block)? + offset),
        Addressable::Absolute(value) => Some(value),
        _ => None,
    }
}

fn placed(link: &Finished, symbol: SymbolId) -> Option<Placed> {
    let block = link.graph.symbol_block(symbol);
    Some(Placed {
        address: address(link, symbol)?,
        size: link.graph.symbol_size(symbol),
        has_content: block.is_some_and(|block| !link.graph.is_zero_fill(block)),
    })
}
