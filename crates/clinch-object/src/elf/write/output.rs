//! Bytes of one class and byte order, and tables of names.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::WriteError;
use crate::elf::raw::Format;
use clinch_graph::Endian;
use clinch_graph::index::int::{low_u32, u64_of};
use clinch_graph::index::map::Map;

/// Appends integers of one class and byte order.
#[derive(Debug)]
pub(super) struct Output {
    format: Format,
    pub(super) bytes: Vec<u8>,
}

impl Output {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            bytes: Vec::new(),
        }
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend(match self.format.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend(match self.format.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    /// An integer of the size of an address; the caller knows that it fits.
    pub(super) fn word(&mut self, value: u64) {
        if !self.format.is_64 {
            return self.u32(low_u32(value));
        }
        self.bytes.extend(match self.format.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    /// Fills up to a multiple of `align` and answers where that is.
    pub(super) fn align(&mut self, align: u64) -> u64 {
        let align = usize::try_from(align.max(1)).unwrap_or(1);
        self.bytes
            .resize(self.bytes.len().next_multiple_of(align), 0);
        self.len()
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> u64 {
        u64_of(self.bytes.len())
    }
}

/// A table of names and the offset of each, in their order. Names that end at the same place of
/// an input's table share their end here too, so the table is not larger than the inputs' are.
pub(super) fn strings(names: &[&[u8]]) -> Result<(Vec<u8>, Vec<u32>), WriteError> {
    // The longest name of each end. Ends of different tables are different addresses.
    let end_of = |name: &[u8]| name.as_ptr_range().end.addr();
    let mut longest: Map<usize, usize> = Map::default();
    for name in names.iter().filter(|name| !name.is_empty()) {
        let longest = longest.entry(end_of(name)).or_default();
        *longest = name.len().max(*longest);
    }
    let (mut table, mut offsets) = (vec![0], Vec::with_capacity(names.len()));
    let mut ends: Map<usize, usize> = Map::default();
    for name in names {
        if name.is_empty() {
            offsets.push(0);
            continue;
        }
        let end = end_of(name);
        let at = match ends.get(&end) {
            Some(&at) => at.saturating_sub(name.len()),
            None => {
                // Room for the longest, whose bytes are written when it comes.
                let len = longest.get(&end).copied().unwrap_or(name.len());
                let at = table.len() + len;
                table.resize(at + 1, 0);
                ends.insert(end, at);
                at.saturating_sub(name.len())
            }
        };
        if longest.get(&end) == Some(&name.len())
            && let Some(place) = table.get_mut(at..at.saturating_add(name.len()))
        {
            place.copy_from_slice(name);
        }
        let offset = u32::try_from(at).map_err(|_| WriteError::TooLarge("a table of names is"))?;
        offsets.push(offset);
    }
    if u32::try_from(table.len()).is_err() {
        return Err(WriteError::TooLarge("a table of names is"));
    }
    Ok((table, offsets))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "a test may panic"
    )]
    use super::*;

    #[test]
    fn names_share_what_they_shared() {
        let table = b"foobar";
        let (written, offsets) = strings(&[&table[3..], b"other", table, &table[5..]]).unwrap();
        assert_eq!(written, b"\0foobar\0other\0");
        assert_eq!(offsets, [4, 8, 1, 6]);
        let (written, offsets) = strings(&[b"", b"a", b""]).unwrap();
        assert_eq!(
            (written.as_slice(), offsets),
            (&b"\0a\0"[..], vec![0, 1, 0])
        );
    }
}
