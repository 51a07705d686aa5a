//! A set of ids as bits.

use super::id::Id;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

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
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = int_len(rest.trailing_zeros());
                // Without its lowest bit.
                rest = rest.checked_sub(1)? & rest;
                Some(I::from_index(index * 64 + bit))
            })
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

/// A set of ids of a fixed number, to which many threads can add at the same time.
#[derive(Debug)]
pub struct SharedIdSet<I> {
    words: Vec<AtomicU64>,
    marker: PhantomData<I>,
}

impl<I: Id> SharedIdSet<I> {
    /// The empty set for ids below position `len`.
    pub fn with_len(len: usize) -> Self {
        let mut words = Vec::new();
        words.resize_with(len.div_ceil(64), AtomicU64::default);
        Self {
            words,
            marker: PhantomData,
        }
    }

    /// Adds an id; answers whether it was new, to one of those who add it. An id that is not below
    /// the set's length is not added.
    #[inline]
    pub fn insert(&self, id: I) -> bool {
        let bit = 1_u64 << (id.index() % 64);
        // Most are there already, and looking costs less than adding.
        self.words.get(id.index() / 64).is_some_and(|word| {
            word.load(Ordering::Relaxed) & bit == 0
                && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        })
    }

    /// The set, when nobody adds any more.
    pub fn into_set(self) -> IdSet<I> {
        IdSet {
            words: self.words.into_iter().map(AtomicU64::into_inner).collect(),
            marker: PhantomData,
        }
    }
}

fn int_len(n: u32) -> usize {
    super::int::usize_of(n)
}
