//! Where the tables of a shared object are: by section headers, or by the program headers and the
//! dynamic section, which has addresses but few sizes.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::hash::count_symbols;
use super::{LoadSegment, Result, part};
use crate::elf::raw::{self, Format, Header, SectionHeader, sht};
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::ops::Range;

/// Tags of dynamic entries.
pub(super) mod dt {
    pub(crate) const NULL: u64 = 0;
    pub(crate) const NEEDED: u64 = 1;
    pub(crate) const HASH: u64 = 4;
    pub(crate) const STRTAB: u64 = 5;
    pub(crate) const SYMTAB: u64 = 6;
    pub(crate) const STRSZ: u64 = 10;
    pub(crate) const SONAME: u64 = 14;
    pub(crate) const RPATH: u64 = 15;
    pub(crate) const RUNPATH: u64 = 29;
    pub(crate) const GNU_HASH: u64 = 0x6fff_fef5;
    pub(crate) const VERSYM: u64 = 0x6fff_fff0;
    pub(crate) const FLAGS_1: u64 = 0x6fff_fffb;
    pub(crate) const VERDEF: u64 = 0x6fff_fffc;
    pub(crate) const VERDEFNUM: u64 = 0x6fff_fffd;
    pub(crate) const VERNEED: u64 = 0x6fff_fffe;
    pub(crate) const VERNEEDNUM: u64 = 0x6fff_ffff;
}

/// Types of program headers.
mod pt {
    pub(super) const LOAD: u32 = 1;
    pub(super) const DYNAMIC: u32 = 2;
    pub(super) const GNU_RELRO: u32 = 0x6474_e552;
}

/// `PF_W`.
const PF_W: u32 = 2;

/// A chain of version records: its bytes, or what begins with them, and how many there are.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) range: Range<usize>,
    pub(super) count: u64,
}

/// The places of all tables, inside the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) dynamic: Range<usize>,
    pub(super) dynamic_strings: Range<usize>,
    pub(super) symbols: Range<usize>,
    pub(super) strings: Range<usize>,
    pub(super) n_symbols: u32,
    pub(super) versym: Option<Range<usize>>,
    pub(super) verdef: Option<Records>,
    pub(super) verneed: Option<Records>,
    pub(super) gnu_hash: Option<Range<usize>>,
    pub(super) sysv_hash: Option<Range<usize>>,
    pub(super) segments: Vec<LoadSegment>,
    pub(super) relro: Option<Range<u64>>,
}

impl Tables {
    pub(super) fn find(header: &Header, bytes: &[u8]) -> Result<Self> {
        let segments = program_headers(header, bytes)?;
        let mut tables = match Self::from_sections(header, bytes)? {
            Some(tables) => tables,
            None => Self::from_segments(header, bytes, &segments)?,
        };
        for segment in &segments {
            match segment.kind {
                pt::LOAD => tables.segments.push(LoadSegment {
                    address: segment.address,
                    size: segment.memory_size,
                    is_writable: segment.flags & PF_W != 0,
                }),
                pt::GNU_RELRO => {
                    let end = segment.address.saturating_add(segment.memory_size);
                    tables.relro = Some(segment.address..end);
                }
                _ => {}
            }
        }
        Ok(tables)
    }

    /// `None` when there is no section for the dynamic section or the symbols.
    fn from_sections(header: &Header, bytes: &[u8]) -> Result<Option<Self>> {
        let sections = header.sections(bytes);
        let mut tables = Self::default();
        let mut dynamic = None;
        let mut symbols = None;
        for (_, section) in sections.iter() {
            let range = |what| section.data_range(bytes, what);
            let records = |what| -> Result<_> {
                Ok(Some(Records {
                    range: range(what)?,
                    count: section.info.into(),
                }))
            };
            match section.kind {
                sht::DYNAMIC => dynamic = Some(section),
                sht::DYNSYM => symbols = Some(section),
                sht::GNU_HASH => tables.gnu_hash = Some(range("GNU hash table")?),
                sht::HASH => tables.sysv_hash = Some(range("symbol hash table")?),
                sht::GNU_VERSYM => tables.versym = Some(range("symbol version table")?),
                sht::GNU_VERDEF => tables.verdef = records("version definitions")?,
                sht::GNU_VERNEED => tables.verneed = records("needed versions")?,
                _ => {}
            }
        }
        let (Some(dynamic), Some(symbols)) = (dynamic, symbols) else {
            return Ok(None);
        };
        let strings = |what, of: &SectionHeader| {
            sections
                .need(what, of.link.into())
                .and_then(|section| section.data_range(bytes, "dynamic string table"))
        };
        tables.dynamic = dynamic.data_range(bytes, "dynamic section")?;
        tables.dynamic_strings = strings("dynamic section", &dynamic)?;
        tables.symbols = symbols.data_range(bytes, "dynamic symbol table")?;
        tables.strings = strings("dynamic symbol table", &symbols)?;
        let entry = u64_of(header.format.symbol_size());
        if symbols.entry_size != entry {
            let kind = ReadErrorKind::EntrySize {
                what: "dynamic symbol table",
                found: symbols.entry_size,
                want: entry,
            };
            return Err(ReadError::new(symbols.offset, kind));
        }
        let count = tables.symbols.len() / header.format.symbol_size();
        tables.n_symbols = u32::try_from(count).map_err(|_| {
            ReadError::new(
                symbols.offset,
                ReadErrorKind::TooLarge("dynamic symbol table"),
            )
        })?;
        Ok(Some(tables))
    }

    fn from_segments(header: &Header, bytes: &[u8], segments: &[Segment]) -> Result<Self> {
        let format = header.format;
        let segment = segments
            .iter()
            .find(|segment| segment.kind == pt::DYNAMIC)
            .ok_or_else(|| ReadError::new(0, ReadErrorKind::Dynamic("there is none")))?;
        let at = segment.offset;
        let bad = |why| ReadError::new(at, ReadErrorKind::Dynamic(why));
        let dynamic = raw::range(bytes, "dynamic section", at, segment.file_size)?;

        let (mut strings, mut string_size, mut symbols) = (None, 0, None);
        let (mut verdef, mut n_verdef, mut verneed, mut n_verneed) = (None, 0, None, 0);
        let mut tables = Self::default();
        for (tag, value) in dynamic_entries(format, part(bytes, &dynamic)) {
            let place = || {
                at_address(bytes, segments, value)
                    .ok_or_else(|| bad("an address in it is in no loaded segment"))
            };
            match tag {
                dt::STRTAB => strings = Some(place()?),
                dt::STRSZ => string_size = value,
                dt::SYMTAB => symbols = Some(place()?),
                dt::HASH => tables.sysv_hash = Some(place()?),
                dt::GNU_HASH => tables.gnu_hash = Some(place()?),
                dt::VERSYM => tables.versym = Some(place()?),
                dt::VERDEF => verdef = Some(place()?),
                dt::VERDEFNUM => n_verdef = value,
                dt::VERNEED => verneed = Some(place()?),
                dt::VERNEEDNUM => n_verneed = value,
                _ => {}
            }
        }
        let strings = strings.ok_or_else(|| bad("it has no string table"))?;
        tables.strings = head(&strings, string_size)
            .ok_or_else(|| bad("its string table extends past its segment"))?;
        tables.dynamic_strings = tables.strings.clone();
        tables.dynamic = dynamic;
        let records =
            |range: Option<Range<usize>>, count| range.map(|range| Records { range, count });
        tables.verdef = records(verdef, n_verdef);
        tables.verneed = records(verneed, n_verneed);
        // The dynamic section does not say how many symbols there are; a hash table does.
        if let Some(symbols) = symbols {
            tables.n_symbols = count_symbols(format, bytes, &tables)?;
            let size = u64::from(tables.n_symbols).saturating_mul(u64_of(format.symbol_size()));
            tables.symbols = head(&symbols, size)
                .ok_or_else(|| bad("its symbol table extends past its segment"))?;
        }
        Ok(tables)
    }
}

/// The first `size` bytes of a range.
fn head(range: &Range<usize>, size: u64) -> Option<Range<usize>> {
    let end = range.start.checked_add(usize_of_u64(size))?;
    (end <= range.end).then_some(range.start..end)
}

/// Where in the file an address is, up to the end of its segment.
fn at_address(bytes: &[u8], segments: &[Segment], address: u64) -> Option<Range<usize>> {
    segments
        .iter()
        .filter(|segment| segment.kind == pt::LOAD)
        .find_map(|segment| {
            let distance = address.checked_sub(segment.address)?;
            let size = segment.file_size.checked_sub(distance)?;
            let offset = segment.offset.checked_add(distance)?;
            let range = raw::range(bytes, "segment", offset, size).ok()?;
            (!range.is_empty()).then_some(range)
        })
}

/// Tags and values up to `DT_NULL` or the end.
pub(super) fn dynamic_entries(format: Format, dynamic: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let word = format.word_size();
    dynamic
        .chunks_exact(word * 2)
        .map_while(move |entry| Some((format.word(entry, 0)?, format.word(entry, word)?)))
        .take_while(|&(tag, _)| tag != dt::NULL)
}

/// A program header.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
}

fn program_headers(header: &Header, bytes: &[u8]) -> Result<Vec<Segment>> {
    if header.program_headers == 0 {
        return Ok(Vec::new());
    }
    let size = header.format.program_header_size();
    let total = header.n_program_headers.saturating_mul(u64_of(size));
    let table = raw::slice(bytes, "program header table", header.program_headers, total)?;
    let format = header.format;
    let parse = |raw: &[u8]| {
        let (flags, rest) = if format.is_64 { (4, 8) } else { (24, 4) };
        let word = |number: usize| format.word(raw, rest + number * format.word_size());
        Some(Segment {
            kind: format.u32(raw, 0)?,
            flags: format.u32(raw, flags)?,
            offset: word(0)?,
            address: word(1)?,
            file_size: word(3)?,
            memory_size: word(4)?,
        })
    };
    Ok(table.chunks_exact(size).filter_map(parse).collect())
}
