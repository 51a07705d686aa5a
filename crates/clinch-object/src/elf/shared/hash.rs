//! The hash tables of a shared object: `DT_GNU_HASH`, and `DT_HASH` (gABI, Hash Table). They are
//! the library's, so nothing in them is believed: each step is checked and their number bounded.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::tables::Tables;
use super::{Result, part};
use crate::elf::raw::Format;
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{low_u32, u64_of, usize_of};
use std::ops::Range;

/// The hash of a name in `DT_GNU_HASH`.
#[inline]
pub fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| {
        hash.wrapping_mul(33).wrapping_add(byte.into())
    })
}

/// The hash of a name in `DT_HASH`.
fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// How symbols are found by name.
#[derive(Clone, Debug)]
pub(super) enum SymbolHash {
    Gnu(Gnu),
    Sysv(Sysv),
    /// There is no table: all symbols are looked at.
    None,
}

/// `DT_GNU_HASH`, its arrays as places in the file.
#[derive(Clone, Debug)]
pub(super) struct Gnu {
    /// The first symbol that the table has.
    first: u32,
    n_buckets: u32,
    /// The words of the filter.
    n_filter: u32,
    shift: u32,
    filter: Range<usize>,
    buckets: Range<usize>,
    chains: Range<usize>,
}

/// `DT_HASH`, its arrays as places in the file.
#[derive(Clone, Debug)]
pub(super) struct Sysv {
    n_buckets: u32,
    n_chains: u32,
    buckets: Range<usize>,
    chains: Range<usize>,
}

/// Array `count` of `size` bytes each from `start` on, inside `table`.
fn array(table: &Range<usize>, start: usize, count: u32, size: usize) -> Option<Range<usize>> {
    let end = usize_of(count).checked_mul(size)?.checked_add(start)?;
    (end <= table.end).then_some(start..end)
}

#[inline]
fn word_at(format: Format, bytes: &[u8], array: &Range<usize>, index: u32) -> Option<u32> {
    format.u32(part(bytes, array), usize_of(index).checked_mul(4)?)
}

impl Gnu {
    fn parse(format: Format, bytes: &[u8], table: &Range<usize>) -> Option<Self> {
        let start = part(bytes, table);
        let (n_buckets, n_filter) = (format.u32(start, 0)?, format.u32(start, 8)?);
        let filter = array(
            table,
            table.start.checked_add(16)?,
            n_filter,
            format.word_size(),
        )?;
        let buckets = array(table, filter.end, n_buckets, 4)?;
        Some(Self {
            first: format.u32(start, 4)?,
            n_buckets,
            n_filter,
            shift: format.u32(start, 12)?,
            chains: buckets.end..table.end,
            filter,
            buckets,
        })
    }

    /// The first symbol of the chain that has all symbols with this hash, if there may be one.
    #[inline]
    fn start(&self, format: Format, bytes: &[u8], hash: u32) -> Option<u32> {
        let bits = if format.is_64 { 64 } else { 32 };
        if let Some(word) = (hash / bits).checked_rem(self.n_filter) {
            let place = usize_of(word).checked_mul(format.word_size())?;
            let word = format.word(part(bytes, &self.filter), place)?;
            let second = hash.checked_shr(self.shift).unwrap_or(0);
            let mask = (1_u64 << (hash % bits)) | (1_u64 << (second % bits));
            if word & mask != mask {
                return None;
            }
        }
        let bucket = hash.checked_rem(self.n_buckets)?;
        word_at(format, bytes, &self.buckets, bucket).filter(|&symbol| symbol >= self.first)
    }

    /// The hash of a symbol, its lowest bit replaced by whether its chain ends there.
    #[inline]
    fn chain(&self, format: Format, bytes: &[u8], symbol: u32) -> Option<u32> {
        word_at(format, bytes, &self.chains, symbol.checked_sub(self.first)?)
    }

    /// One more than the number of the last symbol in the table.
    fn count(&self, format: Format, bytes: &[u8]) -> Option<u32> {
        let buckets = part(bytes, &self.buckets).chunks_exact(4);
        let last = buckets
            .filter_map(|bucket| format.u32(bucket, 0))
            .max()
            .unwrap_or(0);
        if last < self.first {
            return Some(self.first);
        }
        let mut symbol = last;
        while self.chain(format, bytes, symbol)? & 1 == 0 {
            symbol = symbol.checked_add(1)?;
        }
        symbol.checked_add(1)
    }
}

impl Sysv {
    fn parse(format: Format, bytes: &[u8], table: &Range<usize>) -> Option<Self> {
        let start = part(bytes, table);
        let (n_buckets, n_chains) = (format.u32(start, 0)?, format.u32(start, 4)?);
        let buckets = array(table, table.start.checked_add(8)?, n_buckets, 4)?;
        let chains = array(table, buckets.end, n_chains, 4)?;
        Some(Self {
            n_buckets,
            n_chains,
            buckets,
            chains,
        })
    }
}

impl SymbolHash {
    pub(super) fn parse(format: Format, bytes: &[u8], tables: &Tables) -> Result<Self> {
        if let Some(range) = tables.gnu_hash.as_ref().filter(|range| !range.is_empty()) {
            return Gnu::parse(format, bytes, range)
                .map(Self::Gnu)
                .ok_or_else(|| malformed(range));
        }
        if let Some(range) = tables.sysv_hash.as_ref().filter(|range| !range.is_empty()) {
            return Sysv::parse(format, bytes, range)
                .map(Self::Sysv)
                .ok_or_else(|| malformed(range));
        }
        Ok(Self::None)
    }

    /// Where the search for a name begins.
    #[inline]
    pub(super) fn start(&self, format: Format, bytes: &[u8], name: &[u8], hash: u32) -> Cursor {
        match self {
            Self::Gnu(table) => match table.start(format, bytes, hash) {
                Some(next) => Cursor::Gnu { next, hash },
                None => Cursor::Done,
            },
            Self::Sysv(table) => {
                let bucket = sysv_hash(name).checked_rem(table.n_buckets);
                let next = bucket.and_then(|n| word_at(format, bytes, &table.buckets, n));
                match next {
                    Some(next) => Cursor::Sysv { next, steps: 0 },
                    None => Cursor::Done,
                }
            }
            Self::None => Cursor::All { next: 1 },
        }
    }
}

/// A search for a name, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cursor {
    Gnu { next: u32, hash: u32 },
    Sysv { next: u32, steps: u32 },
    All { next: u32 },
    Done,
}

impl Cursor {
    /// The next symbol that may have the name.
    #[inline]
    pub(super) fn next(
        &mut self,
        format: Format,
        bytes: &[u8],
        hash: &SymbolHash,
        n_symbols: u32,
    ) -> Option<u32> {
        let found = match (&mut *self, hash) {
            (Self::Gnu { next, hash }, SymbolHash::Gnu(table)) => loop {
                let symbol = *next;
                let Some(chain) = table.chain(format, bytes, symbol) else {
                    break None;
                };
                let is_last = chain & 1 != 0;
                let is_same = chain | 1 == *hash | 1;
                if is_last {
                    *self = Self::Done;
                    break is_same.then_some(symbol);
                }
                *next = symbol.saturating_add(1);
                if is_same {
                    break Some(symbol);
                }
            },
            (Self::Sysv { next, steps }, SymbolHash::Sysv(table)) => {
                let symbol = *next;
                // A chain that is longer than there are symbols runs in a circle.
                if symbol == 0 || *steps >= table.n_chains {
                    None
                } else {
                    *steps = steps.saturating_add(1);
                    *next = word_at(format, bytes, &table.chains, symbol).unwrap_or(0);
                    Some(symbol)
                }
            }
            (Self::All { next }, _) if *next < n_symbols => {
                let symbol = *next;
                *next = symbol.saturating_add(1);
                Some(symbol)
            }
            _ => None,
        };
        if found.is_none() {
            *self = Self::Done;
        }
        found
    }
}

/// How many symbols there are, when no section header tells.
pub(super) fn count_symbols(format: Format, bytes: &[u8], tables: &Tables) -> Result<u32> {
    if let Some(range) = &tables.sysv_hash {
        return format
            .u32(part(bytes, range), 4)
            .ok_or_else(|| malformed(range));
    }
    let Some(range) = &tables.gnu_hash else {
        return Ok(0);
    };
    Gnu::parse(format, bytes, range)
        .and_then(|table| table.count(format, bytes))
        .filter(|&count| count < low_u32(u64::MAX))
        .ok_or_else(|| malformed(range))
}

fn malformed(range: &Range<usize>) -> ReadError {
    ReadError::new(u64_of(range.start), ReadErrorKind::SymbolHash)
}
