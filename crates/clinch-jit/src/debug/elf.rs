//! Writes an ELF file: header, contents, section headers. Sizes and positions are those of vectors
//! in memory, so nothing here can overflow a 64-bit field; what a 32-bit file cannot hold is cut,
//! and its caller gives addresses that fit.

use clinch_graph::Endian;
use clinch_graph::index::int::{u32_of, u64_of};
use clinch_object::elf::raw::{Format, sht};
use clinch_object::elf::writer::Writer;

/// `e_type` of a file with addresses.
const ET_EXEC: u16 = 2;

/// A section to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) name: Vec<u8>,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) address: u64,
    pub(super) content: Vec<u8>,
    /// The size of a section without content.
    pub(super) size: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) align: u64,
    pub(super) entry_size: u64,
}

/// A string table under construction.
#[derive(Debug)]
pub(super) struct Strings(Vec<u8>);

impl Strings {
    pub(super) fn new() -> Self {
        Self(vec![0])
    }

    /// Adds a name and answers its offset.
    pub(super) fn add(&mut self, name: &[u8]) -> u32 {
        let offset = u32::try_from(self.0.len()).unwrap_or(0);
        if offset != 0 {
            self.0.extend_from_slice(name);
            self.0.push(0);
        }
        offset
    }

    pub(super) fn into_section(self, name: &[u8]) -> Section {
        Section {
            name: name.to_vec(),
            kind: sht::STRTAB,
            content: self.0,
            align: 1,
            ..Section::default()
        }
    }
}

/// A symbol to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub(super) name: u32,
    pub(super) binding: u8,
    pub(super) kind: u8,
    /// The number of its section.
    pub(super) section: u16,
    pub(super) value: u64,
    pub(super) size: u64,
}

/// A symbol table. Local symbols stand before others, as the format wants.
pub(super) fn symbol_table(format: Format, symbols: &[Symbol], names: u32) -> Section {
    let (locals, others): (Vec<&Symbol>, Vec<&Symbol>) =
        symbols.iter().partition(|symbol| symbol.binding == 0);
    let mut writer = Writer::new(format);
    writer.bytes.resize(format.symbol_size(), 0);
    for symbol in locals.iter().chain(&others) {
        let info = symbol.binding << 4 | symbol.kind & 15;
        writer.u32(symbol.name);
        if format.is_64 {
            writer.u8(info);
            writer.u8(0);
            writer.u16(symbol.section);
        }
        writer.word(symbol.value);
        writer.word(symbol.size);
        if !format.is_64 {
            writer.u8(info);
            writer.u8(0);
            writer.u16(symbol.section);
        }
    }
    Section {
        name: b".symtab".to_vec(),
        kind: sht::SYMTAB,
        content: writer.bytes,
        link: names,
        info: u32_of(locals.len() + 1),
        align: u64_of(format.word_size()),
        entry_size: u64_of(format.symbol_size()),
        ..Section::default()
    }
}

/// A file, and where in it the contents of its sections are.
#[derive(Debug)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) offsets: Vec<usize>,
}

/// A file of these sections, numbered from 1, and a last one with their names.
pub(super) fn write(format: Format, machine: u16, mut sections: Vec<Section>) -> File {
    let mut strings = Strings::new();
    let mut names: Vec<u32> = Vec::with_capacity(sections.len() + 1);
    for section in &sections {
        names.push(strings.add(&section.name));
    }
    names.push(strings.add(b".shstrtab"));
    sections.push(strings.into_section(b".shstrtab"));

    let mut writer = Writer::new(format);
    let header_size = if format.is_64 { 64 } else { 52 };
    writer.bytes.resize(header_size, 0);
    let mut offsets = Vec::with_capacity(sections.len());
    for section in &mut sections {
        let align = usize::try_from(section.align.clamp(1, 16)).unwrap_or(1);
        let offset = writer.bytes.len().next_multiple_of(align);
        writer.bytes.resize(offset, 0);
        offsets.push(offset);
        if section.kind != sht::NOBITS {
            section.size = u64_of(section.content.len());
            writer.bytes.append(&mut section.content);
        }
    }
    let table = writer.bytes.len().next_multiple_of(8);
    writer.bytes.resize(table + format.section_header_size(), 0);
    for ((section, name), offset) in sections.iter().zip(names).zip(&offsets) {
        writer.u32(name);
        writer.u32(section.kind);
        writer.word(section.flags);
        writer.word(section.address);
        writer.word(u64_of(*offset));
        writer.word(section.size);
        writer.u32(section.link);
        writer.u32(section.info);
        writer.word(section.align);
        writer.word(section.entry_size);
    }
    let head = header(format, machine, table, sections.len() + 1);
    writer.bytes[..head.len()].copy_from_slice(&head);
    File {
        bytes: writer.bytes,
        offsets,
    }
}

fn header(format: Format, machine: u16, table: usize, n_sections: usize) -> Vec<u8> {
    let mut writer = Writer::new(format);
    let class = if format.is_64 { 2 } else { 1 };
    let order = match format.endian {
        Endian::Little => 1,
        Endian::Big => 2,
    };
    writer
        .bytes
        .extend([0x7f, b'E', b'L', b'F', class, order, 1]);
    writer.bytes.resize(16, 0);
    let n_sections = u16::try_from(n_sections).unwrap_or(0);
    writer.u16(ET_EXEC);
    writer.u16(machine);
    writer.u32(1);
    // No entry, no program headers.
    writer.word(0);
    writer.word(0);
    writer.word(u64_of(table));
    writer.u32(0);
    writer.u16(if format.is_64 { 64 } else { 52 });
    writer.u16(0);
    writer.u16(0);
    writer.u16(if format.is_64 { 64 } else { 40 });
    writer.u16(n_sections);
    writer.u16(n_sections.saturating_sub(1));
    writer.bytes
}
