//! The names of a session: one number per distinct name, so that everything else compares
//! numbers.

use clinch_graph::index::int::{u32_of, usize_of};
use clinch_graph::index::map::hash_name;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::num::NonZeroU32;

/// A name of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Name(NonZeroU32);

impl Name {
    fn from_index(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(u32_of(index)))
    }

    /// Its number, from 0 on.
    pub(crate) fn index(self) -> usize {
        usize_of(self.0.get()) - 1
    }
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct NamePool {
    bytes: Vec<u8>,
    /// Where each name ends in `bytes`.
    ends: Vec<usize>,
    table: HashTable<Name>,
}

impl NamePool {
    /// Makes room for so many more names.
    pub(crate) fn reserve(&mut self, more: usize) {
        let Self { bytes, ends, table } = self;
        ends.reserve(more);
        table.reserve(more, |&name| hash_name(text_of(bytes, ends, name)));
    }

    /// The number of a name, a new one where it has none.
    pub(crate) fn intern(&mut self, text: &[u8]) -> Name {
        let Self { bytes, ends, table } = self;
        let is_it = |&name: &Name| text_of(bytes, ends, name) == text;
        let rehash = |&name: &Name| hash_name(text_of(bytes, ends, name));
        match table.entry(hash_name(text), is_it, rehash) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let name = Name::from_index(ends.len());
                place.insert(name);
                bytes.extend_from_slice(text);
                ends.push(bytes.len());
                name
            }
        }
    }

    /// The number of a name that was interned.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Name> {
        let is_it = |&name: &Name| self.text(name) == text;
        self.table.find(hash_name(text), is_it).copied()
    }

    /// A name's bytes.
    pub(crate) fn text(&self, name: Name) -> &[u8] {
        text_of(&self.bytes, &self.ends, name)
    }

    /// A name for messages.
    pub(crate) fn display(&self, name: Name) -> String {
        String::from_utf8_lossy(self.text(name)).into_owned()
    }
}

fn text_of<'p>(bytes: &'p [u8], ends: &[usize], name: Name) -> &'p [u8] {
    let index = name.index();
    let start = match index.checked_sub(1) {
        Some(before) => ends[before],
        None => 0,
    };
    &bytes[start..ends[index]]
}

#[cfg(test)]
mod tests {
    use super::NamePool;

    #[test]
    fn equal_names_have_one_number() {
        let mut pool = NamePool::default();
        let names = [&b"a"[..], b"", b"ab", b"a"].map(|text| pool.intern(text));
        assert_eq!(names[0], names[3]);
        assert_ne!(names[0], names[2]);
        assert_eq!(pool.text(names[1]), b"");
        assert_eq!(pool.text(names[2]), b"ab");
        assert_eq!(pool.find(b"b"), None);
    }
}
