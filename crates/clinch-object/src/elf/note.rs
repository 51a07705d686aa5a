//! Notes, and the GNU properties in them (gABI, Note Section; x86-64 psABI, GNU Property).

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::raw::Format;
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};

/// `n_type` of the note that holds GNU properties.
pub const NT_GNU_PROPERTY_TYPE_0: u32 = 5;

/// One note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note<'d> {
    /// Who defines what the type means, such as `GNU`; without its zero byte.
    pub name: &'d [u8],
    /// The type.
    pub kind: u32,
    /// What the note says.
    pub description: &'d [u8],
}

/// One property.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Property<'d> {
    /// `pr_type`.
    pub kind: u32,
    /// `pr_data`, without padding.
    pub data: &'d [u8],
}

/// The notes of a section with alignment `align` (4 or 8; others count as 4).
///
/// # Errors
/// A note that does not fit the section; offsets are those in the section.
pub fn notes(format: Format, data: &[u8], align: u64) -> Result<Vec<Note<'_>>, ReadError> {
    let align = if align == 8 { 8 } else { 4 };
    let mut notes = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let fail = |why| ReadError::new(u64_of(at), ReadErrorKind::Note(why));
        let field = |n: usize| {
            format
                .u32(data, at + n)
                .ok_or_else(|| fail("the header is truncated"))
        };
        let (name_size, size, kind) = (usize_of(field(0)?), usize_of(field(4)?), field(8)?);
        let name_end = (at + 12)
            .checked_add(name_size)
            .ok_or_else(|| fail("name too long"))?;
        let name = data
            .get(at + 12..name_end)
            .ok_or_else(|| fail("the name is truncated"))?;
        let start = name_end.next_multiple_of(align);
        let end = start
            .checked_add(size)
            .ok_or_else(|| fail("description too long"))?;
        let description = data
            .get(start..end)
            .ok_or_else(|| fail("the description is truncated"))?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        notes.push(Note {
            name,
            kind,
            description,
        });
        at = end.next_multiple_of(align);
    }
    Ok(notes)
}

/// The properties in the description of a `NT_GNU_PROPERTY_TYPE_0` note.
///
/// # Errors
/// A property that does not fit; offsets are those in the description.
pub fn properties(format: Format, description: &[u8]) -> Result<Vec<Property<'_>>, ReadError> {
    let mut properties = Vec::new();
    let mut at = 0;
    while at < description.len() {
        let fail = |why| ReadError::new(u64_of(at), ReadErrorKind::Note(why));
        let field = |n: usize| {
            format
                .u32(description, at + n)
                .ok_or_else(|| fail("a property is truncated"))
        };
        let (kind, size) = (field(0)?, u64::from(field(4)?));
        let end = usize_of_u64(u64_of(at + 8) + size);
        let data = description
            .get(at + 8..end)
            .ok_or_else(|| fail("a property is truncated"))?;
        properties.push(Property { kind, data });
        at = end.next_multiple_of(format.word_size());
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "a test may panic"
    )]
    use super::*;
    use clinch_graph::Endian;

    const LE64: Format = Format {
        is_64: true,
        endian: Endian::Little,
    };

    #[test]
    fn property_note_of_a_compiler() {
        // What GCC writes for -fcf-protection: IBT and SHSTK.
        let mut data = Vec::new();
        for word in [4_u32, 16, 5] {
            data.extend(word.to_le_bytes());
        }
        data.extend(b"GNU\0");
        for word in [0xc000_0002_u32, 4, 3, 0] {
            data.extend(word.to_le_bytes());
        }
        let notes = notes(LE64, &data, 8).unwrap();
        assert_eq!(notes.len(), 1);
        assert_eq!(
            (notes[0].name, notes[0].kind),
            (&b"GNU"[..], NT_GNU_PROPERTY_TYPE_0)
        );
        let properties = properties(LE64, notes[0].description).unwrap();
        assert_eq!(
            properties,
            [Property {
                kind: 0xc000_0002,
                data: &[3, 0, 0, 0]
            }]
        );
    }

    #[test]
    fn truncated_notes_are_errors() {
        let data = [4, 0, 0, 0, 200, 0, 0, 0, 5, 0, 0, 0, b'G', b'N', b'U', 0];
        assert!(notes(LE64, &data, 4).is_err());
        assert!(notes(LE64, &data[..10], 4).is_err());
        assert!(properties(LE64, &[1, 0, 0, 0, 9, 0, 0, 0, 1]).is_err());
    }
}
