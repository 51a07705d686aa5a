//! The index of an archive: which member defines a name. Two views of it: [`ArchiveIndex`] walks
//! the entries, [`IndexTable`] finds one by name.

use super::{Archive, ArchiveErrorKind, HEADER_SIZE, MAGIC, Result, error};
use bytes::Bytes;
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use clinch_graph::index::map::hash_name;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::fmt;
use std::ops::Range;

/// How an index is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IndexLayout {
    /// `/`: big-endian count, that many member offsets, then the names one after the other.
    Gnu32,
    /// `/SYM64/`: the same with 64-bit numbers.
    Gnu64,
    /// `__.SYMDEF`: size of the table, pairs of name and member offset, size of the strings, the
    /// strings, in the byte order of the target.
    Bsd32,
    /// `__.SYMDEF_64`: the same with 64-bit numbers.
    Bsd64,
}

/// Reads a number of the index.
type ReadNumber = fn(&[u8]) -> Option<u64>;

/// The index of an archive, its sizes checked.
#[derive(Clone, Copy)]
pub struct ArchiveIndex<'a> {
    /// The whole archive: names are given as places in it.
    archive: &'a [u8],
    /// Offset of the index in the archive.
    offset: usize,
    /// What is before the names: offsets, or pairs of them.
    records: &'a [u8],
    /// Where the names are in the archive.
    strings_start: usize,
    strings_end: usize,
    has_pairs: bool,
    width: usize,
    number: ReadNumber,
}

/// One entry of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry<'a> {
    /// The name of a symbol.
    pub name: &'a [u8],
    /// Offset of the header of the member that defines it; it lies inside the archive.
    pub member: u64,
    /// Where in the archive the name is.
    pub name_offset: usize,
}

impl<'a> ArchiveIndex<'a> {
    pub(super) fn parse(
        archive: &'a [u8],
        layout: IndexLayout,
        range: Range<usize>,
    ) -> Result<Self> {
        let offset = range.start;
        let parsed = match layout {
            IndexLayout::Gnu32 => Self::gnu(archive, range, 4, big_u32),
            IndexLayout::Gnu64 => Self::gnu(archive, range, 8, big_u64),
            // The byte order is the target's, which the archive does not tell.
            IndexLayout::Bsd32 => Self::bsd(archive, range.clone(), 4, little_u32)
                .or_else(|| Self::bsd(archive, range, 4, big_u32)),
            IndexLayout::Bsd64 => Self::bsd(archive, range.clone(), 8, little_u64)
                .or_else(|| Self::bsd(archive, range, 8, big_u64)),
        };
        parsed.ok_or_else(|| error(offset, ArchiveErrorKind::IndexSize))
    }

    fn gnu(
        archive: &'a [u8],
        range: Range<usize>,
        width: usize,
        number: ReadNumber,
    ) -> Option<Self> {
        let index = archive.get(range.clone())?;
        if index.is_empty() {
            // Some tools write an index without even a count when there is no symbol.
            return Some(Self::new(archive, &range, &[], range.end, width, number));
        }
        let count = usize_of_u64(number(index.get(..width)?)?);
        let end = count.checked_mul(width)?.checked_add(width)?;
        let records = index.get(width..end)?;
        let start = range.start.checked_add(end)?;
        Some(Self::new(archive, &range, records, start, width, number))
    }

    fn bsd(
        archive: &'a [u8],
        range: Range<usize>,
        width: usize,
        number: ReadNumber,
    ) -> Option<Self> {
        let index = archive.get(range.clone())?;
        let size = usize_of_u64(number(index.get(..width)?)?);
        let end = size.checked_add(width)?;
        let records = index.get(width..end)?;
        if !size.is_multiple_of(width.checked_mul(2)?) {
            return None;
        }
        let start = end.checked_add(width)?;
        let strings_len = usize_of_u64(number(index.get(end..start)?)?);
        let strings_end = start.checked_add(strings_len)?;
        index.get(start..strings_end)?;
        let start_in_file = range.start.checked_add(start)?;
        let mut parsed = Self::new(archive, &range, records, start_in_file, width, number);
        parsed.strings_end = range.start.checked_add(strings_end)?;
        parsed.has_pairs = true;
        Some(parsed)
    }

    fn new(
        archive: &'a [u8],
        range: &Range<usize>,
        records: &'a [u8],
        strings_start: usize,
        width: usize,
        number: ReadNumber,
    ) -> Self {
        Self {
            archive,
            offset: range.start,
            records,
            strings_start,
            strings_end: range.end,
            has_pairs: false,
            width,
            number,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        let record = if self.has_pairs {
            self.width.saturating_mul(2)
        } else {
            self.width
        };
        self.records.len().checked_div(record).unwrap_or(0)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entries in the order of the index. After an error nothing follows.
    pub fn entries(&self) -> IndexEntries<'a> {
        IndexEntries {
            index: *self,
            rest: self.records,
            next_name: self.strings_start,
        }
    }
}

impl fmt::Debug for ArchiveIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveIndex")
            .field("offset", &self.offset)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Iterator over the entries of an index.
#[derive(Clone, Debug)]
pub struct IndexEntries<'a> {
    index: ArchiveIndex<'a>,
    rest: &'a [u8],
    next_name: usize,
}

impl<'a> IndexEntries<'a> {
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.rest.split_at_checked(self.index.width)?;
        self.rest = rest;
        (self.index.number)(number)
    }

    #[inline]
    fn step(&mut self) -> Result<Option<IndexEntry<'a>>> {
        let index = self.index;
        let Some(mut member) = self.number() else {
            return Ok(None);
        };
        let mut name_offset = self.next_name;
        if index.has_pairs {
            name_offset = index.strings_start.saturating_add(usize_of_u64(member));
            member = self.number().unwrap_or(0);
        }
        let name = index
            .archive
            .get(name_offset..index.strings_end)
            .and_then(|rest| rest.get(..memchr::memchr(0, rest)?))
            .ok_or_else(|| error(index.offset, ArchiveErrorKind::IndexName))?;
        // The terminator was found, so this is inside.
        self.next_name = name_offset.saturating_add(name.len()).saturating_add(1);
        let header_end = usize_of_u64(member).saturating_add(HEADER_SIZE);
        if member < u64_of(MAGIC.len()) || header_end > index.archive.len() {
            let kind = ArchiveErrorKind::IndexOffset { member };
            return Err(error(index.offset, kind));
        }
        Ok(Some(IndexEntry {
            name,
            member,
            name_offset,
        }))
    }
}

impl<'a> Iterator for IndexEntries<'a> {
    type Item = Result<IndexEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let result = self.step();
        if result.is_err() {
            self.rest = &[];
        }
        result.transpose()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.rest.len()))
    }
}

impl std::iter::FusedIterator for IndexEntries<'_> {}

/// Finds the member that defines a name. Of several members with the same name the first in the
/// index counts, as in other linkers. Names are not copied: the table shares the archive's bytes.
pub struct IndexTable {
    bytes: Bytes,
    /// Start of all names in `bytes`.
    strings: usize,
    entries: Vec<TableEntry>,
    /// Positions in `entries`, by the hash of the name.
    table: HashTable<u32>,
}

/// A name, as a place counted from the start of the strings, and its member.
struct TableEntry {
    name: u32,
    len: u32,
    member: u64,
}

impl IndexTable {
    /// Builds the table; `None` when the archive has no index.
    ///
    /// # Errors
    ///
    /// When the index is malformed in any entry, or larger than 4 GiB.
    pub fn new(archive: &Archive) -> Result<Option<Self>> {
        let Some(index) = archive.index()? else {
            return Ok(None);
        };
        let too_large = || error(index.offset, ArchiveErrorKind::IndexTooLarge);
        // The count is bounded by the bytes that were there.
        let mut entries: Vec<TableEntry> = Vec::with_capacity(index.len());
        let mut table = HashTable::with_capacity(index.len());
        let strings = index.strings_start;
        let names = index.archive.get(strings..).unwrap_or(&[]);
        for entry in index.entries() {
            let entry = entry?;
            let place = entry.name_offset.saturating_sub(strings);
            let name_at = |number: u32| entries.get(usize_of(number)).map(|at| name_of(names, at));
            let vacant = match table.entry(
                hash_name(entry.name),
                |&other| name_at(other) == Some(entry.name),
                |&other| name_at(other).map_or(0, hash_name),
            ) {
                Entry::Occupied(_) => continue,
                Entry::Vacant(vacant) => vacant,
            };
            vacant.insert(u32::try_from(entries.len()).map_err(|_| too_large())?);
            entries.push(TableEntry {
                name: u32::try_from(place).map_err(|_| too_large())?,
                len: u32::try_from(entry.name.len()).map_err(|_| too_large())?,
                member: entry.member,
            });
        }
        Ok(Some(Self {
            bytes: archive.bytes().clone(),
            strings,
            entries,
            table,
        }))
    }

    /// Offset of the header of the member that defines `name`.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u64> {
        self.find_hashed(name, hash_name(name))
    }

    /// As [`IndexTable::find`], with the name's [`hash_name`] known.
    #[inline]
    pub fn find_hashed(&self, name: &[u8], hash: u64) -> Option<u64> {
        let names = self.bytes.get(self.strings..)?;
        let same = |&number: &u32| {
            self.entries
                .get(usize_of(number))
                .is_some_and(|entry| name_of(names, entry) == name)
        };
        let number = *self.table.find(hash, same)?;
        self.entries.get(usize_of(number)).map(|entry| entry.member)
    }

    /// How many names there are, each counted once.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and members in the order of the index, each name once.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let names = self.bytes.get(self.strings..).unwrap_or(&[]);
        self.entries
            .iter()
            .map(move |entry| (name_of(names, entry), entry.member))
    }
}

impl fmt::Debug for IndexTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexTable")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[inline]
fn name_of<'a>(names: &'a [u8], entry: &TableEntry) -> &'a [u8] {
    let start = usize_of(entry.name);
    names
        .get(start..start.saturating_add(usize_of(entry.len)))
        .unwrap_or(&[])
}

fn big_u32(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u32::from_be_bytes).map(u64::from)
}

fn little_u32(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u32::from_le_bytes).map(u64::from)
}

fn big_u64(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn little_u64(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
