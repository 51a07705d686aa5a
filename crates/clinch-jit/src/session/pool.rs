//! The names of a session: one number per distinct name, so that everything else compares
//! numbers.

use clinch_graph::Workers;
use clinch_graph::index::int::{u32_of, usize_of, usize_of_u64};
use clinch_graph::index::map::hash_name;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::num::NonZeroU32;

/// How many parts the table has: as many threads can fill it at once.
const SHARDS: usize = 8;

/// What it takes to look a name up, as if so many bytes were read: its bytes, and those that the
/// table has, are anywhere.
const COST: usize = 256;

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
    table: [HashTable<Name>; SHARDS],
}

impl NamePool {
    /// The number of a name, a new one where it has none.
    pub(crate) fn intern(&mut self, text: &[u8]) -> Name {
        let Self { bytes, ends, table } = self;
        let hash = hash_name(text);
        let is_it = |&name: &Name| text_of(bytes, ends, name) == text;
        let rehash = |&name: &Name| hash_name(text_of(bytes, ends, name));
        match table[shard_of(hash)].entry(hash, is_it, rehash) {
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

    /// The numbers of many names, which differ from one another: new ones have the numbers that
    /// follow, in the order given.
    pub(crate) fn intern_distinct(&mut self, workers: &Workers, texts: &[&[u8]]) -> Vec<Name> {
        let cost = texts.len() * COST;
        let hashes = self.look_up_all(workers, cost, texts);
        let mut next = self.ends.len();
        let names = hashes.iter().map(|&(_, known)| {
            known.unwrap_or_else(|| {
                next += 1;
                Name::from_index(next - 1)
            })
        });
        let names: Vec<Name> = names.collect();
        let first = self.ends.len();
        let is_new = |index: &usize| names[*index].index() >= first;

        // The bytes, in as many pieces as there are threads for.
        let runs = workers.cut(cost, texts.len());
        let sizes = runs.iter().map(|run| {
            let new = run.clone().filter(is_new);
            new.map(|index| texts[index].len()).sum::<usize>()
        });
        let sizes: Vec<usize> = sizes.collect();
        let start = self.bytes.len();
        workers.extend(&mut self.bytes, sizes.iter().sum(), 0);
        let (mut rest, mut at) = (&mut self.bytes[start..], start);
        let mut pieces = Vec::with_capacity(runs.len());
        for (run, size) in runs.into_iter().zip(sizes) {
            let (piece, behind) = rest.split_at_mut(size);
            pieces.push((run, piece, at));
            rest = behind;
            at += size;
        }
        let ends = workers.map(cost, pieces, |(run, mut rest, mut end)| {
            let mut ends = Vec::with_capacity(run.len());
            for index in run.filter(is_new) {
                let (to, behind) = rest.split_at_mut(texts[index].len());
                to.copy_from_slice(texts[index]);
                rest = behind;
                end += to.len();
                ends.push(end);
            }
            ends
        });
        for ends in ends {
            self.ends.extend(ends);
        }

        let Self { bytes, ends, table } = self;
        let (bytes, ends) = (&*bytes, &*ends);
        let shards = table.iter_mut().enumerate().collect();
        workers.map(cost, shards, |(shard, table)| {
            let rehash = |&name: &Name| hash_name(text_of(bytes, ends, name));
            let new = hashes.iter().zip(&names);
            let new = new.filter(|((hash, known), _)| known.is_none() && shard_of(*hash) == shard);
            table.reserve(new.clone().count(), rehash);
            for (&(hash, _), &name) in new {
                table.insert_unique(hash, name, rehash);
            }
        });
        names
    }

    /// Names' hashes, and the numbers that they have.
    fn look_up_all(
        &self,
        workers: &Workers,
        cost: usize,
        texts: &[&[u8]],
    ) -> Vec<(u64, Option<Name>)> {
        let runs = workers.cut(cost, texts.len());
        let found = workers.map(cost, runs, |run| {
            let look_up = |text: &&[u8]| {
                let hash = hash_name(text);
                (hash, self.find_hashed(hash, text))
            };
            texts[run].iter().map(look_up).collect::<Vec<_>>()
        });
        found.into_iter().flatten().collect()
    }

    /// The number of a name that was interned.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Name> {
        self.find_hashed(hash_name(text), text)
    }

    fn find_hashed(&self, hash: u64, text: &[u8]) -> Option<Name> {
        let is_it = |&name: &Name| self.text(name) == text;
        self.table[shard_of(hash)].find(hash, is_it).copied()
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

/// The shard of a hash, by bits that its table does not go by.
fn shard_of(hash: u64) -> usize {
    usize_of_u64(hash >> 40) % SHARDS
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
    use clinch_graph::Workers;
    use std::collections::BTreeSet;

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

    /// As when they are interned one by one, on any number of threads.
    #[test]
    fn many_names_are_numbered_in_order() {
        let texts: Vec<Vec<u8>> = (0..20_000_u32)
            .map(|n| {
                n.to_string()
                    .repeat(usize::from(n % 7 == 0) + 1)
                    .into_bytes()
            })
            .collect();
        let (known, texts): (Vec<&[u8]>, Vec<&[u8]>) = (
            texts.iter().step_by(3).map(Vec::as_slice).collect(),
            texts.iter().map(Vec::as_slice).collect(),
        );
        let mut one_by_one = NamePool::default();
        let distinct: BTreeSet<&[u8]> = texts.iter().copied().collect();
        assert_eq!(distinct.len(), texts.len());
        let expected = |pool: &mut NamePool| -> Vec<_> {
            let all = known.iter().chain(&texts);
            all.map(|text| pool.intern(text)).collect()
        };
        let expected = expected(&mut one_by_one);
        for threads in [1, 2, 7] {
            let workers = Workers::new(threads);
            let mut pool = NamePool::default();
            let mut names = pool.intern_distinct(&workers, &known);
            names.extend(pool.intern_distinct(&workers, &texts));
            assert_eq!(names, expected);
            for (&name, text) in names.iter().zip(known.iter().chain(&texts)) {
                assert_eq!(pool.text(name), *text);
                assert_eq!(pool.find(text), Some(name));
            }
            assert_eq!(pool.find(b"x"), None);
        }
    }
}
