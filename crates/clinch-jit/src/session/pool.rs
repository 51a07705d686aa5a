//! The names of a session: one number per distinct name, so that everything else compares
//! numbers.

use clinch_graph::index::int::{u32_of, usize_of};
use clinch_graph::index::map::hash_name;
use hashbrown::HashTable;

/// A name of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Name(u32);

/// All names.
#[derive(Debug, Default)]
pub(crate) struct NamePool {
    bytes: Vec<u8>,
    /// Where each name ends in `bytes`.
    ends: Vec<usize>,
    table: HashTable<Name>,
}

impl NamePool {
    /// The number of a name, a new one where it has none.
    pub(crate) fn intern(&mut self, text: &[u8]) -> Name {
        if let Some(known) = self.find(text) {
            return known;
        }
        let name = Name(u32_of(self.ends.len()));
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        let rehash = |&name: &Name| hash_name(text_of(bytes, ends, name));
        self.table.insert_unique(hash_name(text), name, rehash);
        name
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
    let index = usize_of(name.0);
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
