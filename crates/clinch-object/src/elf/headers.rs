//! Where one object's symbols and names lie, to begin with. Everything is checked to lie in the
//! file before anything is read through it.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::raw::{ET_REL, Format, Header, SectionHeader, Sections, name_at, sht};
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::Endian;
use clinch_graph::index::int::{u32_of, u64_of, usize_of};
use clinch_target::{Arch, ElfArch, elf_arch};
use std::ops::Range;

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
    pub(super) names: Range<usize>,
    /// Number of the symbol table's header.
    pub(super) symtab: Option<u32>,
}

/// A failure, with the number of the section it is about.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) section: Option<u32>,
    pub(super) error: ReadError,
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self {
            section: None,
            error,
        }
    }
}

impl ElfObject {
    /// Reads what the headers say.
    ///
    /// # Errors
    /// Not a relocatable object, an unknown architecture, or tables that are malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        Self::parse_with(bytes, elf_arch)
    }

    /// The same, with the architecture of an `e_machine`, a class (whether it is 64-bit) and an
    /// order as `find_arch` says.
    ///
    /// # Errors
    /// As [`ElfObject::parse`].
    pub fn parse_with(
        bytes: &[u8],
        find_arch: impl Fn(u16, bool, Endian) -> Option<&'static Arch>,
    ) -> Result<Self, ReadError> {
        Self::read(bytes, find_arch).map_err(|failure| failure.error)
    }

    pub(super) fn read(
        bytes: &[u8],
        find_arch: impl Fn(u16, bool, Endian) -> Option<&'static Arch>,
    ) -> Result<Self, Failure> {
        let header = Header::parse(bytes)?;
        let arch = architecture(&header, find_arch)?;
        let elf = arch
            .elf
            .ok_or_else(|| ReadError::new(18, ReadErrorKind::UnknownMachine(header.machine)))?;
        let mut object = Self {
            arch,
            elf,
            header,
            symbols: 0..0,
            strings: 0..0,
            names: 0..0,
            symtab: None,
        };
        let sections = header.sections(bytes);
        if header.n_sections > 0 {
            let names = sections.need("section name table", header.names)?;
            if header.names != 0 {
                object.names = string_table(bytes, &names, header.names)?;
            }
        }
        // It stands near the end, and all of a large object's headers are looked at only once.
        let symtab = (0..sections.len())
            .rev()
            .filter_map(|index| Some((u32_of(index), sections.get(index)?)))
            .find(|(_, section)| section.kind == sht::SYMTAB);
        if let Some((index, symtab)) = symtab {
            object
                .take_symbols(bytes, &sections, &symtab)
                .map_err(|error| Failure {
                    section: Some(index),
                    error,
                })?;
            object.symtab = Some(index);
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

    /// The object's table of symbols.
    pub(super) fn symbol_table<'d>(&self, bytes: &'d [u8]) -> &'d [u8] {
        bytes.get(self.symbols.clone()).unwrap_or(&[])
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
            let kind = ReadErrorKind::EntrySize {
                what: "symbol table",
                found,
                want: entry,
            };
            return Err(ReadError::new(symtab.offset, kind));
        }
        if !symtab.size.is_multiple_of(entry) {
            let kind = ReadErrorKind::UnevenTable {
                what: "symbol table",
                size: symtab.size,
                entry,
            };
            return Err(ReadError::new(symtab.offset, kind));
        }
        // A table without symbols may say 1, as if it had the null symbol.
        if u64::from(symtab.info) > (symtab.size / entry).max(1) {
            let kind = ReadErrorKind::NoSymbol {
                what: "symbol table's end of local symbols",
                index: u64::from(symtab.info),
                count: symtab.size / entry,
            };
            return Err(ReadError::new(symtab.offset, kind));
        }
        if symtab.size / entry >= u64::from(u32::MAX) {
            return Err(ReadError::new(
                symtab.offset,
                ReadErrorKind::TooLarge("symbol table"),
            ));
        }
        self.symbols = symtab.data_range(bytes, "symbol table")?;
        let link = u64::from(symtab.link);
        let strings = sections.need("symbol table", link)?;
        self.strings = string_table(bytes, &strings, link)?;
        Ok(())
    }
}

/// The architecture of a relocatable object.
pub(super) fn architecture(
    header: &Header,
    find_arch: impl Fn(u16, bool, Endian) -> Option<&'static Arch>,
) -> Result<&'static Arch, ReadError> {
    if header.kind != ET_REL {
        return Err(ReadError::new(
            16,
            ReadErrorKind::NotRelocatable(header.kind),
        ));
    }
    find_arch(header.machine, header.format.is_64, header.format.endian)
        .ok_or_else(|| ReadError::new(18, ReadErrorKind::UnknownMachine(header.machine)))
}

/// The name of a section of a file that could not be read, where its headers can be.
pub(super) fn name_of_section(bytes: &[u8], section: u32) -> Option<String> {
    let header = Header::parse(bytes).ok()?;
    let sections = header.sections(bytes);
    let names = sections.need("section name table", header.names).ok()?;
    let names = names.data(bytes, "section name table").ok()?;
    let name = name_at(names, sections.get(usize_of(section))?.name)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

fn string_table(
    bytes: &[u8],
    section: &SectionHeader,
    index: u64,
) -> Result<Range<usize>, ReadError> {
    if section.kind != sht::STRTAB {
        let kind = ReadErrorKind::SectionType {
            what: "string table",
            index,
            found: section.kind,
        };
        return Err(ReadError::new(section.offset, kind));
    }
    let range = section.data_range(bytes, "string table")?;
    if bytes
        .get(range.clone())
        .and_then(<[u8]>::last)
        .is_some_and(|&last| last != 0)
    {
        return Err(ReadError::new(
            section.offset,
            ReadErrorKind::Unterminated("string table"),
        ));
    }
    Ok(range)
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
        return Err(ReadError::new(at, outside(what, name, table.len())));
    }
    Ok(())
}

/// What is wrong with a name offset that does not lie in its table.
#[cold]
pub(super) fn outside(what: &'static str, name: u32, table_size: usize) -> ReadErrorKind {
    ReadErrorKind::NameOutside {
        what,
        offset: u64::from(name),
        size: u64_of(table_size),
    }
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
