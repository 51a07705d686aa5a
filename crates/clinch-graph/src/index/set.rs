//! A set of ids as bits.

use super::id::Id;
use std::marker::PhantomData;

/// A set of ids; grows on insertion, answers "no" behind its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdSet<I> {
    words: Vec<u64>,
    marker: PhantomData<I>,
}

impl<I: Id> IdSet<I> {
    /// The empty set with room for ids up to position `len`.
    pub fn with_len(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            marker: PhantomData,
        }
    }

    /// Adds an id; answers whether it was new.
    #[inline]
    pub fn insert(&mut self, id: I) -> bool {
        let (word, bit) = (id.index() / 64, 1_u64 << (id.index() % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Whether the set holds `id`.
    #[inline]
    pub fn contains(&self, id: I) -> bool {
        self.words
            .get(id.index() / 64)
            .is_some_and(|word| word >> (id.index() % 64) & 1 != 0)
    }

    /// How many ids the set holds.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| int_len(word.count_ones()))
            .sum()
    }

    /// Whether the set holds no id.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 != 0)
                .map(move |bit| I::from_index(index * 64 + bit))
        })
    }
}

impl<I> Default for IdSet<I> {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            marker: PhantomData,
        }
    }
}

fn int_len(n: u32) -> usize {
    super::int::usize_of(n)
}
