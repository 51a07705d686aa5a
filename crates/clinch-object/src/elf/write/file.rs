//! The file: header, contents with their records, tables, section headers.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::WriteError;
use super::group::Group;
use super::names::strings;
use super::relocation::{Record, Relocations};
use super::sections::{Planned, Sections, written_name};
use super::symbols::{Entry, SectionNumber, Symbols};
use crate::elf::raw::{ET_REL, Format, shf, shn, sht, st};
use crate::elf::writer::Writer;
use clinch_graph::index::int::{low_u32, u32_of, u64_of, unsigned, usize_of_u64};
use clinch_graph::{Content, Endian, LinkGraph};
use clinch_target::{Arch, ElfArch};
use std::borrow::Cow;

/// What a file is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) graph: &'a LinkGraph,
    pub(super) arch: &'a Arch,
    pub(super) elf: &'a ElfArch,
    pub(super) format: Format,
    pub(super) sections: &'a Sections,
    pub(super) groups: &'a [Group],
    pub(super) relocations: &'a Relocations,
    pub(super) symbols: &'a Symbols,
}

/// A section header in the making.
#[derive(Clone, Debug, Default)]
struct Header<'a> {
    name: Cow<'a, [u8]>,
    /// The name is the end of the next header's name.
    is_tail_of_next: bool,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry_size: u64,
}

/// The prefix of the names of tables of records.
const RECORDS_OF: &[u8] = b".rela";
/// The greatest alignment in the file. Nothing runs from it.
const FILE_ALIGN: u64 = 16;
/// `GRP_COMDAT`.
const GRP_COMDAT: u32 = 1;
/// `EI_OSABI` of files with what GNU added to ELF.
const ELFOSABI_GNU: u8 = 3;

/// Writes the file.
pub(super) fn write(parts: &Parts<'_>) -> Result<Vec<u8>, WriteError> {
    let entries = entries(parts)?;
    let first_reserved = u32::from(shn::LORESERVE);
    let is_extended = |entry: &Entry| matches!(entry.section, SectionNumber::Section(number) if number >= first_reserved);
    let symtab = parts.sections.next_number;
    let strtab = symtab + 1 + u32::from(entries.iter().any(is_extended));
    let mut file = File {
        parts,
        out: Writer::new(parts.format),
        headers: vec![Header::default()],
        symtab,
        name_room: name_room(parts.graph),
    };
    file.out.bytes.resize(header_size(parts.format), 0);
    for group in parts.groups {
        file.group(group);
    }
    for (place, section) in parts.sections.list.iter().enumerate() {
        file.section(place, section)?;
    }
    if has_symbol_table(parts) {
        file.symbol_tables(&entries, strtab)?;
    }
    file.finish(is_gnu(parts, &entries))
}

/// How many bytes names of tables of records may have in all: enough for those that say what
/// section they are of, but for files whose sections share long names.
fn name_room(graph: &LinkGraph) -> usize {
    const EVER: usize = 1 << 20;
    let inputs = graph.inputs().map(|(_, input)| input.bytes().len());
    inputs.fold(EVER, usize::saturating_add)
}

fn entries(parts: &Parts<'_>) -> Result<Vec<Entry>, WriteError> {
    let is_64 = parts.format.is_64;
    let entry = |&symbol| {
        parts
            .symbols
            .entry(parts.graph, parts.sections, symbol, is_64)
    };
    parts.symbols.order.iter().map(entry).collect()
}

/// Whether the file has what only GNU's additions to ELF give a meaning.
fn is_gnu(parts: &Parts<'_>, entries: &[Entry]) -> bool {
    let retains = |section: &Planned| section.flags & shf::GNU_RETAIN != 0;
    let is_addition =
        |entry: &Entry| entry.kind == st::GNU_IFUNC || entry.binding == st::GNU_UNIQUE;
    parts.sections.list.iter().any(retains) || entries.iter().any(is_addition)
}

/// Whether there is a symbol, or a section that names the table.
fn has_symbol_table(parts: &Parts<'_>) -> bool {
    let names_it = |section: &Planned| section.kind == sht::LLVM_ADDRSIG;
    parts.graph.symbols().next().is_some() || parts.sections.list.iter().any(names_it)
}

fn header_size(format: Format) -> usize {
    if format.is_64 { 64 } else { 52 }
}

struct File<'a> {
    parts: &'a Parts<'a>,
    out: Writer,
    headers: Vec<Header<'a>>,
    /// The number of the symbol table.
    symtab: u32,
    name_room: usize,
}

impl<'a> File<'a> {
    fn group(&mut self, group: &Group) {
        let Parts {
            sections,
            relocations,
            symbols,
            ..
        } = *self.parts;
        let offset = self.out.align(4);
        self.out.u32(if group.is_comdat { GRP_COMDAT } else { 0 });
        for &member in &group.members {
            let number = sections.number_of(member);
            self.out.u32(number);
            if !relocations.records(member).is_empty() {
                self.out.u32(number + 1);
            }
        }
        self.headers.push(Header {
            name: Cow::Borrowed(b".group"),
            kind: sht::GROUP,
            offset,
            size: u64_of(self.out.bytes.len()) - offset,
            link: self.symtab,
            info: low_u32(symbols.number_of(group.signature)),
            align: 4,
            entry_size: 4,
            ..Header::default()
        });
    }

    fn section(&mut self, place: usize, section: &Planned) -> Result<(), WriteError> {
        let Parts {
            graph,
            sections,
            relocations,
            ..
        } = *self.parts;
        let offset = self.out.align(section.align.min(FILE_ALIGN));
        if section.kind != sht::NOBITS {
            self.content(place, section)?;
        }
        let name = written_name(&graph.section(section.id));
        let mut flags = section.flags;
        if section.is_in_group {
            flags |= shf::GROUP;
        }
        let link = match section.ordered_by {
            Some(parent) => {
                flags |= shf::LINK_ORDER;
                sections.number_of(parent)
            }
            None if section.kind == sht::LLVM_ADDRSIG => self.symtab,
            None => 0,
        };
        let records = relocations.records(place);
        let has_room = name.len() + RECORDS_OF.len() <= self.name_room;
        let records_name = if has_room && !records.is_empty() {
            self.name_room -= name.len() + RECORDS_OF.len();
            [RECORDS_OF, &name].concat().into()
        } else {
            Cow::Borrowed(RECORDS_OF)
        };
        self.headers.push(Header {
            name,
            is_tail_of_next: has_room && !records.is_empty(),
            kind: section.kind,
            flags,
            offset,
            size: section.size,
            link,
            info: 0,
            align: section.align,
            entry_size: section.entry_size,
        });
        if records.is_empty() {
            return Ok(());
        }
        let offset = self.table_start();
        for record in records {
            self.record(record)?;
        }
        let group = if section.is_in_group { shf::GROUP } else { 0 };
        self.headers.push(Header {
            name: records_name,
            kind: sht::RELA,
            flags: shf::INFO_LINK | group,
            offset,
            size: u64_of(self.out.bytes.len()) - offset,
            link: self.symtab,
            info: sections.number_of(place),
            align: u64_of(self.parts.format.word_size()),
            entry_size: u64_of(self.parts.format.word_size() * 3),
            ..Header::default()
        });
        Ok(())
    }

    fn content(&mut self, place: usize, section: &Planned) -> Result<(), WriteError> {
        let Parts {
            graph,
            arch,
            sections,
            relocations,
            ..
        } = *self.parts;
        let start = self.out.bytes.len();
        if let Some(content) = &section.content {
            self.out.bytes.extend_from_slice(content);
            return Ok(());
        }
        for &block in &section.blocks {
            let at = start + usize_of_u64(sections.offset(block));
            self.out.bytes.resize(at, 0);
            if let Content::Bytes(bytes) = graph.content(block) {
                self.out.bytes.extend_from_slice(bytes);
            }
        }
        self.out.bytes.resize(start + usize_of_u64(section.size), 0);
        let content = self.out.bytes.get_mut(start..).unwrap_or(&mut []);
        relocations.apply_known(graph, arch, sections, place, content)
    }

    fn record(&mut self, record: &Record) -> Result<(), WriteError> {
        let symbol = self.parts.symbols.number_of(record.target);
        let number = u64::from(record.number);
        self.out.word(record.place);
        if self.parts.format.is_64 {
            self.out.word(symbol << 32 | number);
        } else if symbol < 1 << 24 {
            self.out.word(symbol << 8 | number);
        } else {
            return Err(WriteError::TooLarge("the number of symbols is"));
        }
        self.out.word(unsigned(record.addend));
        Ok(())
    }

    fn table_start(&mut self) -> u64 {
        self.out.align(u64_of(self.parts.format.word_size()))
    }

    /// The symbols, their section numbers that do not fit, their names.
    fn symbol_tables(&mut self, entries: &[Entry], strtab: u32) -> Result<(), WriteError> {
        let Parts {
            graph,
            format,
            symbols,
            ..
        } = *self.parts;
        let name = |(entry, &symbol): (&Entry, _)| match entry.is_nameless {
            true => &[],
            false => graph.symbol_name(symbol),
        };
        let names: Vec<&[u8]> = entries.iter().zip(&symbols.order).map(name).collect();
        let (names, offsets) = strings(&names)?;

        let offset = self.table_start();
        let (out, mut extended) = (&mut self.out, Writer::new(format));
        out.bytes.resize(out.bytes.len() + format.symbol_size(), 0);
        extended.u32(0);
        for (entry, name) in entries.iter().zip(offsets) {
            let (short, long) = match entry.section {
                SectionNumber::Special(number) => (number, 0),
                SectionNumber::Section(number) => match u16::try_from(number) {
                    Ok(short) if short < shn::LORESERVE => (short, 0),
                    _ => (shn::XINDEX, number),
                },
            };
            extended.u32(long);
            let about = [entry.binding << 4 | entry.kind, entry.visibility];
            out.u32(name);
            if format.is_64 {
                out.bytes.extend(about);
                out.u16(short);
            }
            out.word(entry.value);
            out.word(entry.size);
            if !format.is_64 {
                out.bytes.extend(about);
                out.u16(short);
            }
        }
        self.headers.push(Header {
            name: Cow::Borrowed(b".symtab"),
            kind: sht::SYMTAB,
            offset,
            size: u64_of(self.out.bytes.len()) - offset,
            link: strtab,
            info: symbols.n_locals,
            align: u64_of(format.word_size()),
            entry_size: u64_of(format.symbol_size()),
            ..Header::default()
        });
        if strtab - self.symtab > 1 {
            let offset = self.table_start();
            self.out.bytes.append(&mut extended.bytes);
            self.headers.push(Header {
                name: Cow::Borrowed(b".symtab_shndx"),
                kind: sht::SYMTAB_SHNDX,
                offset,
                size: u64_of(self.out.bytes.len()) - offset,
                link: self.symtab,
                align: 4,
                entry_size: 4,
                ..Header::default()
            });
        }
        self.string_table(b".strtab", names);
        Ok(())
    }

    fn string_table(&mut self, name: &'static [u8], mut table: Vec<u8>) {
        let offset = u64_of(self.out.bytes.len());
        self.out.bytes.append(&mut table);
        self.headers.push(Header {
            name: Cow::Borrowed(name),
            kind: sht::STRTAB,
            offset,
            size: u64_of(self.out.bytes.len()) - offset,
            align: 1,
            ..Header::default()
        });
    }

    /// The sections' names, the headers, and the file's header.
    fn finish(mut self, is_gnu: bool) -> Result<Vec<u8>, WriteError> {
        const LAST: &[u8] = b".shstrtab";
        let headers = std::mem::take(&mut self.headers);
        let own = headers.iter().map(|header| match header.is_tail_of_next {
            true => &[],
            false => &*header.name,
        });
        let names: Vec<&[u8]> = own.chain([LAST]).collect();
        let (table, offsets) = strings(&names)?;
        self.string_table(LAST, table);
        let last = std::mem::take(&mut self.headers);

        let Parts { format, elf, .. } = *self.parts;
        let n_sections = u32_of(headers.len() + last.len());
        let table = self.table_start();
        for (place, header) in headers.iter().chain(&last).enumerate() {
            let mut header = header.clone();
            let offset = |place| offsets.get(place).copied().unwrap_or(0);
            let name = if header.is_tail_of_next {
                offset(place + 1) + u32_of(RECORDS_OF.len())
            } else {
                offset(place)
            };
            // What does not fit the file's header stands in section header 0.
            if place == 0 {
                if n_sections >= u32::from(shn::LORESERVE) {
                    header.size = u64::from(n_sections);
                }
                if n_sections > u32::from(shn::LORESERVE) {
                    header.link = n_sections - 1;
                }
            }
            self.header(name, &header);
        }
        if !format.is_64 && u32::try_from(self.out.bytes.len()).is_err() {
            return Err(WriteError::TooLarge("the file is"));
        }
        let head = file_header(format, elf.machine, is_gnu, table, n_sections);
        if let Some(place) = self.out.bytes.get_mut(..head.len()) {
            place.copy_from_slice(&head);
        }
        Ok(self.out.bytes)
    }

    fn header(&mut self, name: u32, header: &Header<'_>) {
        let out = &mut self.out;
        out.u32(name);
        out.u32(header.kind);
        out.word(header.flags);
        out.word(0);
        out.word(header.offset);
        out.word(header.size);
        out.u32(header.link);
        out.u32(header.info);
        out.word(header.align);
        out.word(header.entry_size);
    }
}

fn file_header(format: Format, machine: u16, is_gnu: bool, table: u64, n_sections: u32) -> Vec<u8> {
    let mut out = Writer::new(format);
    let class = if format.is_64 { 2 } else { 1 };
    let order = match format.endian {
        Endian::Little => 1,
        Endian::Big => 2,
    };
    let system = if is_gnu { ELFOSABI_GNU } else { 0 };
    out.bytes
        .extend([0x7f, b'E', b'L', b'F', class, order, 1, system]);
    out.bytes.resize(16, 0);
    let short = |number: u32, otherwise| match u16::try_from(number) {
        Ok(short) if short < shn::LORESERVE => short,
        _ => otherwise,
    };
    let size_of = |size: usize| u16::try_from(size).unwrap_or(0);
    out.u16(ET_REL);
    out.u16(machine);
    out.u32(1);
    // No entry, no program headers.
    out.word(0);
    out.word(0);
    out.word(table);
    out.u32(0);
    out.u16(size_of(header_size(format)));
    out.u16(0);
    out.u16(0);
    out.u16(size_of(format.section_header_size()));
    out.u16(short(n_sections, 0));
    out.u16(short(n_sections.saturating_sub(1), shn::XINDEX));
    out.bytes
}
