//! Which sections the file has, what their headers say, and where in them blocks lie.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::WriteError;
use super::relocation::Relocations;
use super::symbols::Symbols;
use super::text;
use crate::elf::addrsig;
use crate::elf::raw::{SectionHeader, shf, sht};
use crate::elf::section::describe;
use clinch_graph::index::int::{u32_of, u64_of, usize_of};
use clinch_graph::{
    BlockId, Column, Id, InputId, Lifetime, LinkGraph, Prot, Section, SectionFlags, SectionId,
    SectionKind, SymbolFlags,
};
use clinch_target::ElfArch;
use std::borrow::Cow;

/// How many zero bytes a file holds at most, between blocks and for zero-fill that stands before
/// content. A block may ask for any number of them.
const MOST_ZEROS: u64 = 1 << 30;

/// A section to be written.
#[derive(Debug)]
pub(super) struct Planned {
    /// The graph's section.
    pub(super) id: SectionId,
    /// `sh_type`.
    pub(super) kind: u32,
    /// `sh_flags`, but for those of groups and order.
    pub(super) flags: u64,
    /// `sh_size`.
    pub(super) size: u64,
    /// `sh_addralign`.
    pub(super) align: u64,
    /// `sh_entsize`.
    pub(super) entry_size: u64,
    /// Its blocks, in order.
    pub(super) blocks: Vec<BlockId>,
    /// The place in the plan of the section that it is ordered by.
    pub(super) ordered_by: Option<usize>,
    pub(super) is_in_group: bool,
    /// What is written instead of the blocks' content.
    pub(super) content: Option<Vec<u8>>,
}

/// The sections to be written, in order.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) list: Vec<Planned>,
    /// Each section's place in the list, and [`NONE`] for those without blocks.
    place_of: Column<SectionId, u32>,
    /// Each block's offset in its section.
    offset_of: Column<BlockId, u64>,
    /// The number of each section's header, in the list's order, and that of the next one.
    numbers: Vec<u32>,
    pub(super) next_number: u32,
}

const NONE: u32 = u32::MAX;

impl Sections {
    /// Finds the sections and places their blocks.
    pub(super) fn plan(graph: &LinkGraph, elf: &ElfArch) -> Result<Self, WriteError> {
        let mut ids: Vec<(u32, SectionId)> = graph
            .sections()
            .map(|id| (graph.section_ordinal(id), id))
            .collect();
        ids.sort_unstable();
        let mut blocks: Column<SectionId, Vec<BlockId>> =
            Column::filled(graph.n_sections(), Vec::new());
        for block in graph.blocks() {
            if let Some(blocks) = blocks.get_mut(graph.block_section(block)) {
                blocks.push(block);
            }
        }
        let mut sections = Self {
            list: Vec::with_capacity(ids.len()),
            place_of: Column::filled(graph.n_sections(), NONE),
            offset_of: Column::filled(graph.n_blocks(), 0),
            numbers: Vec::new(),
            next_number: 0,
        };
        let mut room = Room::new(graph);
        for (_, id) in ids {
            let blocks = blocks.get_mut(id).map(std::mem::take).unwrap_or_default();
            if blocks.is_empty() {
                continue;
            }
            if let Some(place) = sections.place_of.get_mut(id) {
                *place = u32_of(sections.list.len());
            }
            sections.add(graph, elf, id, blocks, &mut room)?;
        }
        sections.keep_live(graph);
        sections.order(graph)?;
        Ok(sections)
    }

    fn add(
        &mut self,
        graph: &LinkGraph,
        elf: &ElfArch,
        id: SectionId,
        blocks: Vec<BlockId>,
        room: &mut Room,
    ) -> Result<(), WriteError> {
        let section = graph.section(id);
        let fail = |why| WriteError::Section {
            section: text(section.name),
            why,
        };
        let all_zero = blocks.iter().all(|&block| graph.is_zero_fill(block));
        let (kind, flags, entry_size) = header(&section, all_zero, elf).map_err(fail)?;
        let (mut size, mut align) = (0_u64, 1_u64);
        for &block in &blocks {
            let alignment = graph.block_align(block);
            let padding =
                graph.block_align_offset(block).wrapping_sub(size) & alignment.wrapping_sub(1);
            let len = graph.block_size(block);
            let offset = size.checked_add(padding);
            let end = offset.and_then(|offset| offset.checked_add(len));
            let (Some(offset), Some(end)) = (offset, end) else {
                return Err(WriteError::TooLarge("a section is"));
            };
            if kind != sht::NOBITS {
                room.take(graph, block, padding)?;
            }
            if let Some(slot) = self.offset_of.get_mut(block) {
                *slot = offset;
            }
            (size, align) = (end, align.max(alignment));
        }
        if !elf.is_64 && size.max(align) > u64::from(u32::MAX) {
            return Err(WriteError::TooLarge("a section is"));
        }
        self.list.push(Planned {
            id,
            kind,
            flags,
            size,
            align,
            entry_size,
            blocks,
            ordered_by: None,
            is_in_group: false,
            content: None,
        });
        Ok(())
    }

    /// What a program must keep is kept by the section's flag.
    fn keep_live(&mut self, graph: &LinkGraph) {
        for symbol in graph.symbols() {
            if graph.symbol_flags(symbol).contains(SymbolFlags::LIVE)
                && let Some(block) = graph.symbol_block(symbol)
                && let Some(place) = self.place(graph.block_section(block))
                && let Some(section) = self.list.get_mut(place)
                && section.flags & shf::ALLOC != 0
            {
                section.flags |= shf::GNU_RETAIN;
            }
        }
    }

    /// Notes which section is ordered by which. Call frame records go with their functions
    /// without being told.
    fn order(&mut self, graph: &LinkGraph) -> Result<(), WriteError> {
        for &(parent, child) in graph.associations() {
            let [parent, child] = [parent, child].map(|block| graph.block_section(block));
            if graph.section_kind(child) == SectionKind::EhFrame {
                continue;
            }
            let (Some(parent), Some(place)) = (self.place(parent), self.place(child)) else {
                continue;
            };
            let Some(section) = self.list.get_mut(place) else {
                continue;
            };
            if section.ordered_by.is_some_and(|known| known != parent) {
                return Err(WriteError::Section {
                    section: text(graph.section_name(child)),
                    why: "its blocks go with blocks of several sections",
                });
            }
            section.ordered_by = Some(parent);
        }
        Ok(())
    }

    /// Gives sections their numbers: groups come first, each section's records follow it.
    pub(super) fn number(
        &mut self,
        n_groups: usize,
        relocations: &Relocations,
    ) -> Result<(), WriteError> {
        let too_large = || WriteError::TooLarge("the number of sections is");
        // The reader's own bound.
        let most = usize::try_from(i32::MAX).unwrap_or(usize::MAX);
        let total = self.list.len().saturating_mul(2).saturating_add(n_groups);
        if total > most.saturating_sub(8) {
            return Err(too_large());
        }
        let mut next = 1 + u32_of(n_groups);
        for place in 0..self.list.len() {
            self.numbers.push(next);
            next += 1 + u32::from(!relocations.records(place).is_empty());
        }
        self.next_number = next;
        Ok(())
    }

    /// A section's place in the list.
    pub(super) fn place(&self, section: SectionId) -> Option<usize> {
        let place = self.place_of.get(section).copied()?;
        (place != NONE).then(|| usize_of(place))
    }

    /// Where a block lies: its section's place in the list, and its offset there.
    pub(super) fn of_block(&self, graph: &LinkGraph, block: BlockId) -> Option<(usize, u64)> {
        if !graph.has_block(block) {
            return None;
        }
        let place = self.place(graph.block_section(block))?;
        Some((place, self.offset_of.get(block).copied()?))
    }

    /// A block's offset in its section.
    pub(super) fn offset(&self, block: BlockId) -> u64 {
        self.offset_of.get(block).copied().unwrap_or(0)
    }

    /// The number of a section's header.
    pub(super) fn number_of(&self, place: usize) -> u32 {
        self.numbers.get(place).copied().unwrap_or(0)
    }

    /// Writes tables of address-significant symbols anew, with the symbols' new numbers.
    pub(super) fn renumber_significant(
        &mut self,
        graph: &LinkGraph,
        symbols: &Symbols,
    ) -> Result<(), WriteError> {
        for section in &mut self.list {
            if section.kind != sht::LLVM_ADDRSIG {
                continue;
            }
            let fail = |why| WriteError::Section {
                section: text(graph.section_name(section.id)),
                why,
            };
            let &[block] = section.blocks.as_slice() else {
                return Err(fail("a table of symbol numbers in several blocks"));
            };
            let significant = addrsig::symbols_of(graph, block)
                .map_err(|_| fail("names symbols that its input does not have"))?;
            let first = graph.input(graph.block_input(block)).symbols().start();
            let is_same = significant
                .iter()
                .all(|&symbol| u64_of(symbol.index()) == u64_of(first) + symbols.number_of(symbol));
            if is_same {
                continue;
            }
            let mut table = Vec::new();
            for symbol in significant {
                if symbols.has(symbol) {
                    addrsig::push_uleb128(&mut table, symbols.number_of(symbol));
                }
            }
            section.size = u64_of(table.len());
            section.content = Some(table);
        }
        Ok(())
    }
}

/// How much more a file may hold.
struct Room {
    zeros: u64,
    /// Of each input, how many bytes no section has yet.
    unused: Column<InputId, u64>,
}

impl Room {
    fn new(graph: &LinkGraph) -> Self {
        let inputs = graph.inputs().map(|(_, input)| u64_of(input.bytes().len()));
        Self {
            zeros: MOST_ZEROS,
            unused: inputs.collect::<Vec<u64>>().into(),
        }
    }

    fn take(&mut self, graph: &LinkGraph, block: BlockId, padding: u64) -> Result<(), WriteError> {
        let size = graph.block_size(block);
        let zeros = if graph.is_zero_fill(block) {
            padding.saturating_add(size)
        } else {
            padding
        };
        let left = self.zeros.checked_sub(zeros);
        self.zeros = left.ok_or(WriteError::TooLarge("the space between blocks is"))?;
        let input = graph.block_input(block);
        if graph.content_file_offset(block).is_some()
            && let Some(unused) = self.unused.get_mut(input)
        {
            let left = unused.checked_sub(size);
            *unused = left.ok_or_else(|| WriteError::Overlap(graph.input(input).name.clone()))?;
        }
        Ok(())
    }
}

/// Type, flags and entry size of a section's header: those that the reader takes for such a
/// section.
fn header(
    section: &Section<'_>,
    all_zero: bool,
    elf: &ElfArch,
) -> Result<(u32, u64, u64), &'static str> {
    let (is_alloc, has) = (section.is_alloc(), |flag| section.flags.contains(flag));
    if !section.prot.contains(Prot::READ) {
        return Err("ELF has no sections that may not be read");
    }
    let kind = match section.kind {
        SectionKind::PreinitArray => sht::PREINIT_ARRAY,
        SectionKind::InitArray => sht::INIT_ARRAY,
        SectionKind::FiniArray => sht::FINI_ARRAY,
        SectionKind::Note => sht::NOTE,
        SectionKind::Addrsig => sht::LLVM_ADDRSIG,
        SectionKind::EhFrame if elf.unwind_section_type != 0 => elf.unwind_section_type,
        SectionKind::EhFrame | SectionKind::Ctors | SectionKind::Dtors => sht::PROGBITS,
        SectionKind::Regular | SectionKind::Debug | SectionKind::Got | SectionKind::Stubs => {
            if all_zero {
                sht::NOBITS
            } else {
                sht::PROGBITS
            }
        }
    };
    let mut flags = 0;
    for (bit, on) in [
        (shf::ALLOC, is_alloc),
        (shf::WRITE, section.prot.contains(Prot::WRITE)),
        (shf::EXECINSTR, section.prot.contains(Prot::EXEC)),
        (shf::MERGE, has(SectionFlags::MERGE)),
        (shf::STRINGS, has(SectionFlags::STRINGS)),
        (shf::TLS, has(SectionFlags::TLS)),
        (shf::EXCLUDE, has(SectionFlags::EXCLUDE)),
        (elf.large_section_flag, has(SectionFlags::LARGE)),
    ] {
        if on {
            flags |= bit;
        }
    }
    let entry_size = match kind {
        sht::PREINIT_ARRAY | sht::INIT_ARRAY | sht::FINI_ARRAY if section.entry_size == 0 => {
            if elf.is_64 { 8 } else { 4 }
        }
        _ => u64::from(section.entry_size),
    };

    // What the reader would take it for must be what it is.
    let read = describe(
        elf,
        &SectionHeader {
            name: 0,
            kind,
            flags,
            offset: 0,
            size: 0,
            link: 1,
            info: 0,
            align: 1,
            entry_size,
        },
        &written_name(section),
    );
    let want = match section.kind {
        SectionKind::Got | SectionKind::Stubs => SectionKind::Regular,
        kind => kind,
    };
    let differ = read.flags ^ section.flags;
    if read.kind != want {
        return Err("ELF tells what it is for by its name, which says something else");
    }
    if differ.contains(SectionFlags::LARGE) {
        return Err("the architecture has no sections of large data");
    }
    if differ.contains(SectionFlags::RELRO) && read.flags.contains(SectionFlags::RELRO) {
        return Err("its name says that it is not written after relocation");
    }
    if differ.contains(SectionFlags::RETAIN) && has(SectionFlags::RETAIN) {
        flags |= shf::GNU_RETAIN;
    }
    Ok((kind, flags, entry_size))
}

/// A section's name in the file. The old name of compressed debug sections is not that of their
/// content.
pub(super) fn written_name<'g>(section: &Section<'g>) -> Cow<'g, [u8]> {
    match section.name.strip_prefix(b".z") {
        Some(rest) if rest.starts_with(b"debug") && section.lifetime == Lifetime::NoAlloc => {
            Cow::Owned([b".", rest].concat())
        }
        _ => Cow::Borrowed(section.name),
    }
}
