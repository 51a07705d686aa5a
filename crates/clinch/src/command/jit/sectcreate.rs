//! `-sectcreate`: a file's bytes as an object with one section, so that they are linked, by name
//! and on demand, as any other object.

use crate::flags::jit::SectCreate;
use bytes::Bytes;
use clinch_graph::Endian;
use clinch_graph::index::int::{u32_of, u64_of};
use clinch_object::elf::raw::{ET_REL, sht, st};
use clinch_target::Arch;

/// `SHF_ALLOC`.
const ALLOC: u64 = 2;
/// The alignment of such a section.
const ALIGN: u64 = 16;
/// The number of the section with the bytes; the symbol table, its names and the sections' names
/// follow.
const CONTENT: u16 = 1;

/// What the object is called.
pub(super) fn name(made: &SectCreate) -> String {
    format!("orc_sectcreate_{}", made.section)
}

/// The object; `None` when the architecture has no objects of the kind that is made.
pub(super) fn object(arch: &Arch, made: &SectCreate, content: &[u8]) -> Option<Bytes> {
    let elf = arch.elf?;
    let mut writer = Writer {
        is_64: elf.is_64,
        is_big: arch.graph.endian == Endian::Big,
        bytes: Vec::new(),
    };

    let mut names = vec![0];
    let mut symbols = Writer {
        bytes: Vec::new(),
        ..writer
    };
    symbols.symbol(0, 0, 0, 0);
    for (name, offset) in &made.symbols {
        let info = (st::GLOBAL << 4) | st::OBJECT;
        symbols.symbol(u32_of(names.len()), info, CONTENT, *offset);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    let mut section_names = vec![0];
    let mut named = |name: &str| {
        let at = u32_of(section_names.len());
        section_names.extend_from_slice(name.as_bytes());
        section_names.push(0);
        at
    };
    let content_name = named(&made.section);
    let symbols_name = named(".symtab");
    let names_name = named(".strtab");
    let section_names_name = named(".shstrtab");

    let header_size = if elf.is_64 { 64 } else { 52 };
    let symbol_size = if elf.is_64 { 24 } else { 16 };
    let parts = [content, &symbols.bytes, &names, &section_names];
    let mut offsets = [0; 4];
    let mut at = u64_of(header_size);
    for (offset, part) in offsets.iter_mut().zip(parts) {
        at = at.next_multiple_of(ALIGN);
        *offset = at;
        at += u64_of(part.len());
    }
    let headers = at.next_multiple_of(ALIGN);

    writer.header(elf.machine, headers);
    for (offset, part) in offsets.iter().zip(parts) {
        writer.pad(*offset);
        writer.bytes.extend_from_slice(part);
    }
    writer.pad(headers);
    let size = |part: &[u8]| u64_of(part.len());
    writer.section([0; 10]);
    let kinds = [sht::PROGBITS, sht::SYMTAB, sht::STRTAB, sht::STRTAB].map(u64::from);
    let entry_names = [content_name, symbols_name, names_name, section_names_name].map(u64::from);
    // Flags, link, info, alignment, entry size.
    let rest = [
        [ALLOC, 0, 0, ALIGN, 0],
        [0, 3, 1, 8, symbol_size],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0],
    ];
    for index in 0..parts.len() {
        let [flags, link, info, align, entry] = rest[index];
        writer.section([
            entry_names[index],
            kinds[index],
            flags,
            0,
            offsets[index],
            size(parts[index]),
            link,
            info,
            align,
            entry,
        ]);
    }
    Some(writer.bytes.into())
}

/// Appends the fields of ELF's structures.
struct Writer {
    is_64: bool,
    is_big: bool,
    bytes: Vec<u8>,
}

impl Writer {
    /// The lowest bytes of a number.
    fn number(&mut self, width: usize, value: u64) {
        let bytes = value.to_le_bytes();
        let bytes = bytes.iter().take(width);
        if self.is_big {
            self.bytes.extend(bytes.rev());
        } else {
            self.bytes.extend(bytes);
        }
    }

    /// As wide as an address.
    fn word(&mut self, value: u64) {
        self.number(if self.is_64 { 8 } else { 4 }, value);
    }

    fn pad(&mut self, to: u64) {
        while u64_of(self.bytes.len()) < to {
            self.bytes.push(0);
        }
    }

    fn header(&mut self, machine: u16, headers: u64) {
        self.bytes.extend_from_slice(b"\x7fELF");
        self.bytes.push(if self.is_64 { 2 } else { 1 });
        self.bytes.push(if self.is_big { 2 } else { 1 });
        self.bytes.push(1);
        self.pad(16);
        self.number(2, ET_REL.into());
        self.number(2, machine.into());
        self.number(4, 1);
        self.word(0);
        self.word(0);
        self.word(headers);
        self.number(4, 0);
        let sizes = if self.is_64 {
            [64, 0, 0, 64]
        } else {
            [52, 0, 0, 40]
        };
        for size in sizes {
            self.number(2, size);
        }
        self.number(2, 5);
        self.number(2, 4);
    }

    fn symbol(&mut self, name: u32, info: u8, section: u16, value: u64) {
        self.number(4, name.into());
        if !self.is_64 {
            self.word(value);
            self.word(0);
        }
        self.bytes.push(info);
        self.bytes.push(0);
        self.number(2, section.into());
        if self.is_64 {
            self.word(value);
            self.word(0);
        }
    }

    /// Name, type, flags, address, offset, size, link, info, alignment, entry size.
    fn section(&mut self, fields: [u64; 10]) {
        const NARROW: [bool; 10] = [
            true, true, false, false, false, false, true, true, false, false,
        ];
        for (field, narrow) in fields.into_iter().zip(NARROW) {
            if narrow {
                self.number(4, field);
            } else {
                self.word(field);
            }
        }
    }
}
