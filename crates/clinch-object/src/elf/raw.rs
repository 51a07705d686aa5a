//! Checked views of ELF's structures, generic over class and byte order. No method can panic or
//! read outside the file; nothing is copied. (gABI, chapters 4 and 5.)

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::Endian;
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use std::ops::Range;

/// `e_type` of a relocatable object.
pub const ET_REL: u16 = 1;
/// `e_type` of a shared object.
pub const ET_DYN: u16 = 3;

/// Section types (gABI, Section Types; and the GNU, LLVM additions).
pub mod sht {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const NULL: u32 = 0;
    pub const PROGBITS: u32 = 1;
    pub const SYMTAB: u32 = 2;
    pub const STRTAB: u32 = 3;
    pub const RELA: u32 = 4;
    pub const HASH: u32 = 5;
    pub const DYNAMIC: u32 = 6;
    pub const NOTE: u32 = 7;
    pub const NOBITS: u32 = 8;
    pub const REL: u32 = 9;
    pub const DYNSYM: u32 = 11;
    pub const INIT_ARRAY: u32 = 14;
    pub const FINI_ARRAY: u32 = 15;
    pub const PREINIT_ARRAY: u32 = 16;
    pub const GROUP: u32 = 17;
    pub const SYMTAB_SHNDX: u32 = 18;
    pub const RELR: u32 = 19;
    pub const CREL: u32 = 0x4000_0014;
    pub const LLVM_ADDRSIG: u32 = 0x6fff_4c03;
    pub const GNU_HASH: u32 = 0x6fff_fff6;
    pub const GNU_VERDEF: u32 = 0x6fff_fffd;
    pub const GNU_VERNEED: u32 = 0x6fff_fffe;
    pub const GNU_VERSYM: u32 = 0x6fff_ffff;
}

/// Section flags (gABI, Section Attribute Flags; and the GNU additions).
pub mod shf {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const WRITE: u64 = 0x1;
    pub const ALLOC: u64 = 0x2;
    pub const EXECINSTR: u64 = 0x4;
    pub const MERGE: u64 = 0x10;
    pub const STRINGS: u64 = 0x20;
    pub const INFO_LINK: u64 = 0x40;
    pub const LINK_ORDER: u64 = 0x80;
    pub const GROUP: u64 = 0x200;
    pub const TLS: u64 = 0x400;
    pub const COMPRESSED: u64 = 0x800;
    pub const GNU_RETAIN: u64 = 0x20_0000;
    pub const EXCLUDE: u64 = 0x8000_0000;
}

/// Special section numbers of symbols.
pub mod shn {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const UNDEF: u16 = 0;
    pub const LORESERVE: u16 = 0xff00;
    pub const ABS: u16 = 0xfff1;
    pub const COMMON: u16 = 0xfff2;
    pub const XINDEX: u16 = 0xffff;
}

/// Symbol bindings, types and visibilities.
pub mod st {
    #![allow(missing_docs, reason = "names of the specification")]
    pub const LOCAL: u8 = 0;
    pub const GLOBAL: u8 = 1;
    pub const WEAK: u8 = 2;
    pub const GNU_UNIQUE: u8 = 10;

    pub const NOTYPE: u8 = 0;
    pub const OBJECT: u8 = 1;
    pub const FUNC: u8 = 2;
    pub const SECTION: u8 = 3;
    pub const FILE: u8 = 4;
    pub const COMMON: u8 = 5;
    pub const TLS: u8 = 6;
    pub const GNU_IFUNC: u8 = 10;

    pub const INTERNAL: u8 = 1;
    pub const HIDDEN: u8 = 2;
    pub const PROTECTED: u8 = 3;
}

/// Reads integers of one byte order; every read is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// 64-bit structures.
    pub is_64: bool,
    /// Byte order.
    pub endian: Endian,
}

impl Format {
    /// What nearly all objects are. Loops over symbols, headers and records are compiled once for
    /// it and once for the others, since a choice per field costs more than the field.
    pub const LITTLE_64: Self = Self {
        is_64: true,
        endian: Endian::Little,
    };

    /// Two bytes at `offset`.
    #[inline]
    pub fn u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let raw = array(bytes, offset)?;
        Some(match self.endian {
            Endian::Little => u16::from_le_bytes(raw),
            Endian::Big => u16::from_be_bytes(raw),
        })
    }

    /// Four bytes at `offset`.
    #[inline]
    pub fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let raw = array(bytes, offset)?;
        Some(match self.endian {
            Endian::Little => u32::from_le_bytes(raw),
            Endian::Big => u32::from_be_bytes(raw),
        })
    }

    /// Eight bytes at `offset`.
    #[inline]
    pub fn u64(self, bytes: &[u8], offset: usize) -> Option<u64> {
        let raw = array(bytes, offset)?;
        Some(match self.endian {
            Endian::Little => u64::from_le_bytes(raw),
            Endian::Big => u64::from_be_bytes(raw),
        })
    }

    /// An address-sized integer at `offset`.
    #[inline]
    pub fn word(self, bytes: &[u8], offset: usize) -> Option<u64> {
        if self.is_64 {
            self.u64(bytes, offset)
        } else {
            self.u32(bytes, offset).map(u64::from)
        }
    }

    /// Size of an address in bytes.
    pub const fn word_size(self) -> usize {
        if self.is_64 { 8 } else { 4 }
    }

    /// Size of a section header.
    pub const fn section_header_size(self) -> usize {
        if self.is_64 { 64 } else { 40 }
    }

    /// Size of a symbol.
    pub const fn symbol_size(self) -> usize {
        if self.is_64 { 24 } else { 16 }
    }

    /// Size of a program header.
    pub const fn program_header_size(self) -> usize {
        if self.is_64 { 56 } else { 32 }
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The part of `bytes` at `offset`, or where it would end.
pub fn slice<'d>(
    bytes: &'d [u8],
    what: &'static str,
    offset: u64,
    size: u64,
) -> Result<&'d [u8], ReadError> {
    range(bytes, what, offset, size).map(|range| bytes.get(range).unwrap_or(&[]))
}

/// The range of `size` bytes at `offset`, checked to lie in `bytes`.
pub fn range(
    bytes: &[u8],
    what: &'static str,
    offset: u64,
    size: u64,
) -> Result<Range<usize>, ReadError> {
    let have = u64_of(bytes.len());
    match offset.checked_add(size) {
        Some(end) if end <= have => Ok(usize_of_u64(offset)..usize_of_u64(end)),
        end => {
            let size = end.unwrap_or(u64::MAX);
            Err(ReadError::new(
                offset,
                ReadErrorKind::Truncated { what, size, have },
            ))
        }
    }
}

/// The file header, with the numbers that overflow into section header 0 resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Class and byte order.
    pub format: Format,
    /// `e_type`.
    pub kind: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`.
    pub flags: u32,
    /// Where the program headers are.
    pub program_headers: u64,
    /// How many there are.
    pub n_program_headers: u64,
    /// Where the section headers are.
    pub section_headers: u64,
    /// How many there are.
    pub n_sections: u64,
    /// The section with the sections' names.
    pub names: u64,
}

impl Header {
    /// Reads the header and checks that the table of section headers lies in the file.
    ///
    /// # Errors
    /// Not ELF, unknown class, order or version, tables outside the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        let bad = |why| ReadError::new(0, ReadErrorKind::NotElf(why));
        let ident: [u8; 16] = array(bytes, 0).ok_or_else(|| truncated("ELF header", 16, bytes))?;
        let [0x7f, b'E', b'L', b'F', class, data, version, ..] = ident else {
            return Err(bad("wrong magic number"));
        };
        let is_64 = match class {
            1 => false,
            2 => true,
            _ => return Err(bad("unknown class")),
        };
        let endian = match data {
            1 => Endian::Little,
            2 => Endian::Big,
            _ => return Err(bad("unknown byte order")),
        };
        if version != 1 {
            return Err(bad("unknown version"));
        }
        let format = Format { is_64, endian };
        let size = if is_64 { 64 } else { 52 };
        let head = bytes
            .get(..size)
            .ok_or_else(|| truncated("ELF header", u64_of(size), bytes))?;
        let header = Self::fields(format, head).ok_or_else(|| bad("truncated header"))?;
        header.resolve(head, bytes)
    }

    fn fields(format: Format, head: &[u8]) -> Option<Self> {
        let (tables, rest) = if format.is_64 { (32, 48) } else { (28, 36) };
        Some(Self {
            format,
            kind: format.u16(head, 16)?,
            machine: format.u16(head, 18)?,
            flags: format.u32(head, rest)?,
            program_headers: format.word(head, tables)?,
            n_program_headers: u64::from(format.u16(head, rest + 8)?),
            section_headers: format.word(head, tables + format.word_size())?,
            n_sections: u64::from(format.u16(head, rest + 12)?),
            names: u64::from(format.u16(head, rest + 14)?),
        })
    }

    /// Takes the numbers that do not fit their fields from section header 0 and checks the
    /// table's place.
    fn resolve(mut self, head: &[u8], bytes: &[u8]) -> Result<Self, ReadError> {
        if self.section_headers == 0 {
            (self.n_sections, self.names) = (0, 0);
            return Ok(self);
        }
        let entry = self.format.section_header_size();
        let rest = if self.format.is_64 { 48 } else { 36 };
        let found = u64::from(self.format.u16(head, rest + 10).unwrap_or(0));
        if found != u64_of(entry) {
            let kind = ReadErrorKind::EntrySize {
                what: "section header",
                found,
                want: u64_of(entry),
            };
            return Err(ReadError::new(u64_of(rest + 10), kind));
        }
        let first = slice(
            bytes,
            "section header 0",
            self.section_headers,
            u64_of(entry),
        )?;
        let first = SectionHeader::parse(self.format, first)
            .ok_or_else(|| truncated("section header 0", self.section_headers, bytes))?;
        if self.n_sections == 0 {
            self.n_sections = first.size;
        }
        if self.names == u64::from(shn::XINDEX) {
            self.names = u64::from(first.link);
        }
        if self.n_program_headers == 0xffff {
            self.n_program_headers = u64::from(first.info);
        }
        let size = self.n_sections.checked_mul(u64_of(entry)).ok_or_else(|| {
            ReadError::new(
                self.section_headers,
                ReadErrorKind::TooLarge("section header table"),
            )
        })?;
        range(bytes, "section header table", self.section_headers, size)?;
        // Half of what numbers of four bytes could count: the reader has a use for the other half.
        if self.n_sections >= 1 << 31 {
            let kind = ReadErrorKind::TooLarge("section header table");
            return Err(ReadError::new(self.section_headers, kind));
        }
        Ok(self)
    }

    /// The table of section headers.
    pub fn sections<'d>(&self, bytes: &'d [u8]) -> Sections<'d> {
        let start = usize_of_u64(self.section_headers);
        let size = usize_of_u64(self.n_sections) * self.format.section_header_size();
        let table = bytes.get(start..start + size).unwrap_or(&[]);
        Sections {
            format: self.format,
            table,
            offset: self.section_headers,
        }
    }
}

fn truncated(what: &'static str, size: u64, bytes: &[u8]) -> ReadError {
    ReadError::new(
        0,
        ReadErrorKind::Truncated {
            what,
            size,
            have: u64_of(bytes.len()),
        },
    )
}

/// A section header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionHeader {
    /// `sh_name`.
    pub name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_offset`.
    pub offset: u64,
    /// `sh_size`.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
}

impl SectionHeader {
    #[inline]
    fn parse(format: Format, raw: &[u8]) -> Option<Self> {
        Some(if format.is_64 {
            let raw: &[u8; 64] = raw.get(..64)?.try_into().ok()?;
            Self {
                name: format.u32(raw, 0)?,
                kind: format.u32(raw, 4)?,
                flags: format.u64(raw, 8)?,
                offset: format.u64(raw, 24)?,
                size: format.u64(raw, 32)?,
                link: format.u32(raw, 40)?,
                info: format.u32(raw, 44)?,
                align: format.u64(raw, 48)?,
                entry_size: format.u64(raw, 56)?,
            }
        } else {
            let raw: &[u8; 40] = raw.get(..40)?.try_into().ok()?;
            let word = |offset| format.u32(raw, offset).map(u64::from);
            Self {
                name: format.u32(raw, 0)?,
                kind: format.u32(raw, 4)?,
                flags: word(8)?,
                offset: word(16)?,
                size: word(20)?,
                link: format.u32(raw, 24)?,
                info: format.u32(raw, 28)?,
                align: word(32)?,
                entry_size: word(36)?,
            }
        })
    }

    /// The section's bytes; empty for `SHT_NOBITS`.
    ///
    /// # Errors
    /// They do not lie in the file.
    pub fn data<'d>(&self, bytes: &'d [u8], what: &'static str) -> Result<&'d [u8], ReadError> {
        self.data_range(bytes, what)
            .map(|range| bytes.get(range).unwrap_or(&[]))
    }

    /// Where the section's bytes are; an empty range for `SHT_NOBITS`.
    ///
    /// # Errors
    /// They do not lie in the file.
    pub fn data_range(&self, bytes: &[u8], what: &'static str) -> Result<Range<usize>, ReadError> {
        if self.kind == sht::NOBITS {
            return Ok(0..0);
        }
        range(bytes, what, self.offset, self.size)
    }
}

/// The table of section headers.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'d> {
    format: Format,
    table: &'d [u8],
    offset: u64,
}

impl Sections<'_> {
    /// The same in a format that the compiler knows.
    #[inline]
    pub(super) fn in_format(self, format: Format) -> Self {
        debug_assert_eq!(self.format, format, "the same format");
        Self { format, ..self }
    }

    /// How many sections there are.
    pub fn len(&self) -> usize {
        self.table.len() / self.format.section_header_size()
    }

    /// Whether there is no section.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Section header `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<SectionHeader> {
        let size = self.format.section_header_size();
        let start = index.checked_mul(size)?;
        SectionHeader::parse(
            self.format,
            self.table.get(start..start.checked_add(size)?)?,
        )
    }

    /// Section header `index`, on behalf of `what`.
    ///
    /// # Errors
    /// There is no such section.
    pub fn need(&self, what: &'static str, index: u64) -> Result<SectionHeader, ReadError> {
        self.get(usize_of_u64(index)).ok_or_else(|| {
            let kind = ReadErrorKind::NoSection {
                what,
                index,
                count: u64_of(self.len()),
            };
            ReadError::new(self.offset, kind)
        })
    }

    /// All section headers with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, SectionHeader)> + '_ {
        let (format, size) = (self.format, self.format.section_header_size());
        self.table
            .chunks_exact(size)
            .enumerate()
            .filter_map(move |(index, raw)| Some((index, SectionHeader::parse(format, raw)?)))
    }

    /// File offset of section header `index`.
    pub fn header_offset(&self, index: usize) -> u64 {
        self.offset + u64_of(index * self.format.section_header_size())
    }
}

/// A symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawSymbol {
    /// `st_name`.
    pub name: u32,
    /// `st_info`.
    pub info: u8,
    /// `st_other`.
    pub other: u8,
    /// `st_shndx`.
    pub section: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

impl RawSymbol {
    /// Reads one symbol from its bytes.
    #[inline]
    pub fn parse(format: Format, raw: &[u8]) -> Option<Self> {
        Some(if format.is_64 {
            let raw: &[u8; 24] = raw.get(..24)?.try_into().ok()?;
            let [_, _, _, _, info, other, ..] = *raw;
            Self {
                name: format.u32(raw, 0)?,
                info,
                other,
                section: format.u16(raw, 6)?,
                value: format.u64(raw, 8)?,
                size: format.u64(raw, 16)?,
            }
        } else {
            let raw: &[u8; 16] = raw.get(..16)?.try_into().ok()?;
            let [_, _, _, _, _, _, _, _, _, _, _, _, info, other, ..] = *raw;
            Self {
                name: format.u32(raw, 0)?,
                info,
                other,
                section: format.u16(raw, 14)?,
                value: u64::from(format.u32(raw, 4)?),
                size: u64::from(format.u32(raw, 8)?),
            }
        })
    }

    /// The binding, such as [`st::GLOBAL`].
    pub const fn binding(&self) -> u8 {
        self.info >> 4
    }

    /// The type, such as [`st::FUNC`].
    pub const fn kind(&self) -> u8 {
        self.info & 15
    }

    /// The visibility, such as [`st::HIDDEN`]; 0 for default.
    pub const fn visibility(&self) -> u8 {
        self.other & 3
    }
}

/// The name at `offset` in a string table, up to its zero byte.
pub fn name_at(table: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = table.get(usize_of(offset)..)?;
    rest.get(..memchr::memchr(0, rest)?)
}
