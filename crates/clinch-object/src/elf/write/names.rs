//! Tables of names.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::WriteError;
use clinch_graph::index::map::Map;

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
