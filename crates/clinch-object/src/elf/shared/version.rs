//! The versions that a shared object defines and needs (LSB, Symbol Versioning).
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::tables::{Records, Tables};
use super::{Result, SymbolVersion, name_range, part};
use crate::elf::raw::Format;
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u64_of, usize_of};
use std::ops::Range;

/// `VER_FLG_BASE`: the version is the library itself.
const BASE: u16 = 1;

/// What the version table has for a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct VersionIndex(u16);

impl VersionIndex {
    pub(super) fn new(raw: u16) -> Self {
        Self(raw)
    }

    pub(super) fn number(self) -> u16 {
        self.0 & 0x7fff
    }

    /// Whether only references with a version bind to the symbol.
    fn is_hidden(self) -> bool {
        self.0 & 0x8000 != 0
    }
}

/// One version.
#[derive(Clone, Debug)]
struct Version {
    name: Range<usize>,
    /// The library that has it, when it is a needed one.
    file: Option<Range<usize>>,
    is_base: bool,
}

/// All versions by their number, which has 15 bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    by_number: Vec<Option<Version>>,
}

impl Versions {
    pub(super) fn parse(format: Format, bytes: &[u8], tables: &Tables) -> Result<Self> {
        let mut versions = Self::default();
        let Some(versym) = &tables.versym else {
            return Ok(versions);
        };
        if u64_of(versym.len()) < u64::from(tables.n_symbols) * 2 {
            let kind = ReadErrorKind::Version("table ends before the last symbol");
            return Err(ReadError::new(u64_of(versym.start), kind));
        }
        let reader = |records: &Records| Reader {
            format,
            bytes,
            strings: tables.strings.clone(),
            at: records.range.clone(),
            left: records.range.len() / 8,
        };
        if let Some(records) = &tables.verdef {
            versions.read_defined(&mut reader(records), records.count)?;
        }
        if let Some(records) = &tables.verneed {
            versions.read_needed(&mut reader(records), records.count)?;
        }
        Ok(versions)
    }

    /// `Elfxx_Verdef` with the name in the first `Elfxx_Verdaux`; the others are its parents.
    fn read_defined(&mut self, reader: &mut Reader<'_>, count: u64) -> Result<()> {
        let mut place = 0;
        for _ in 0..count {
            reader.step()?;
            if reader.u16(place)? != 1 {
                return Err(reader.error("definition of unknown revision"));
            }
            let is_base = reader.u16(place + 2)? & BASE != 0;
            let number = reader.u16(place + 4)?;
            let aux = reader.follow(place, place + 12)?;
            let version = Version {
                name: reader.name(aux)?,
                file: None,
                is_base,
            };
            self.set(number, version)
                .ok_or_else(|| reader.error("number out of range"))?;
            let next = reader.follow(place, place + 16)?;
            if next == place {
                break;
            }
            place = next;
        }
        Ok(())
    }

    /// `Elfxx_Verneed`, one to a library, each with its `Elfxx_Vernaux`, one to a version.
    fn read_needed(&mut self, reader: &mut Reader<'_>, count: u64) -> Result<()> {
        let mut place = 0;
        for _ in 0..count {
            reader.step()?;
            if reader.u16(place)? != 1 {
                return Err(reader.error("need of unknown revision"));
            }
            let file = reader.name(place + 4)?;
            let mut aux = reader.follow(place, place + 8)?;
            for _ in 0..reader.u16(place + 2)? {
                reader.step()?;
                let number = reader.u16(aux + 6)? & 0x7fff;
                let version = Version {
                    name: reader.name(aux + 8)?,
                    file: Some(file.clone()),
                    is_base: false,
                };
                self.set(number, version)
                    .ok_or_else(|| reader.error("number out of range"))?;
                let next = reader.follow(aux, aux + 12)?;
                if next == aux {
                    break;
                }
                aux = next;
            }
            let next = reader.follow(place, place + 12)?;
            if next == place {
                break;
            }
            place = next;
        }
        Ok(())
    }

    /// `None` when the number has more than 15 bits.
    fn set(&mut self, number: u16, version: Version) -> Option<()> {
        if number > 0x7fff {
            return None;
        }
        let number = usize::from(number);
        if self.by_number.len() <= number {
            self.by_number.resize(number.saturating_add(1), None);
        }
        *self.by_number.get_mut(number)? = Some(version);
        Some(())
    }

    /// `None` when no version has this number.
    pub(super) fn get<'a>(
        &self,
        bytes: &'a [u8],
        index: VersionIndex,
    ) -> Option<SymbolVersion<'a>> {
        match index.number() {
            0 => return Some(SymbolVersion::Local),
            1 => return Some(SymbolVersion::Unversioned),
            _ => {}
        }
        let version = self.by_number.get(usize::from(index.number()))?.as_ref()?;
        let name = part(bytes, &version.name);
        Some(match &version.file {
            Some(file) => SymbolVersion::Needed {
                name,
                file: part(bytes, file),
            },
            None => SymbolVersion::Defined {
                name,
                is_default: !index.is_hidden(),
            },
        })
    }

    /// The names of the defined versions but the base version.
    pub(super) fn defined(&self) -> impl Iterator<Item = &Range<usize>> {
        self.by_number
            .iter()
            .flatten()
            .filter(|version| version.file.is_none() && !version.is_base)
            .map(|version| &version.name)
    }
}

/// Reads linked records. Links only lead forward, but records may overlap; so the number of steps
/// is bounded by how many records there is room for.
struct Reader<'a> {
    format: Format,
    bytes: &'a [u8],
    strings: Range<usize>,
    at: Range<usize>,
    left: usize,
}

impl Reader<'_> {
    fn error(&self, why: &'static str) -> ReadError {
        ReadError::new(u64_of(self.at.start), ReadErrorKind::Version(why))
    }

    /// Counts a record.
    fn step(&mut self) -> Result<()> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| self.error("more records than there is room for"))?;
        Ok(())
    }

    fn u16(&self, place: usize) -> Result<u16> {
        self.format
            .u16(part(self.bytes, &self.at), place)
            .ok_or_else(|| self.error("record extends past the table"))
    }

    fn u32(&self, place: usize) -> Result<u32> {
        self.format
            .u32(part(self.bytes, &self.at), place)
            .ok_or_else(|| self.error("record extends past the table"))
    }

    /// The place that the link at `link` leads to, counted from `from`; inside the table.
    fn follow(&self, from: usize, link: usize) -> Result<usize> {
        from.checked_add(usize_of(self.u32(link)?))
            .filter(|&place| place < self.at.len())
            .ok_or_else(|| self.error("link leads out of the table"))
    }

    fn name(&self, place: usize) -> Result<Range<usize>> {
        name_range(self.bytes, &self.strings, "version", self.u32(place)?)
    }
}
