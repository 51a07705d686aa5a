//! A column: one value per id, in id order. It does not deref to a slice, so nobody indexes with
//! a bare integer.

use super::id::{Id, IdRange};
use super::workers::Workers;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Owner of one value per `I`.
#[derive(Clone, PartialEq, Eq)]
pub struct Column<I, T> {
    values: Vec<T>,
    marker: PhantomData<I>,
}

impl<I: Id, T> Column<I, T> {
    /// The column without values.
    pub const fn new() -> Self {
        Self {
            values: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Appends a value and answers its id.
    pub fn push(&mut self, value: T) -> I {
        let id = I::from_index(self.values.len());
        self.values.push(value);
        id
    }

    /// The value of `id`, `None` when the column ends before it.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.values.get(id.index())
    }

    /// The value of `id` to change, `None` when the column ends before it.
    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.values.get_mut(id.index())
    }

    /// How many values the column holds.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the column holds no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Every id of the column.
    pub fn ids(&self) -> IdRange<I> {
        IdRange::new(0, self.values.len())
    }

    /// Ids and values in id order.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.values
            .iter()
            .enumerate()
            .map(|(index, value)| (I::from_index(index), value))
    }

    /// The values of a range of ids.
    pub fn range(&self, range: IdRange<I>) -> &[T] {
        &self.values[range.positions()]
    }

    /// The values of a range of ids, to change them.
    pub fn range_mut(&mut self, range: IdRange<I>) -> &mut [T] {
        &mut self.values[range.positions()]
    }

    /// All values in id order.
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// All values in id order, to change them.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Shortens the column to `len` values.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
    }

    /// Lengthens the column to `len` values, exactly, with copies of `value`.
    pub fn grow(&mut self, len: usize, value: T)
    where
        T: Clone,
    {
        let more = self.make_room(len);
        self.values.resize(self.values.len() + more, value);
    }

    /// The same for much at once: fresh memory comes page by page, which takes longer than
    /// filling it, and so it pays to have every worker fetch some.
    pub fn grow_with(&mut self, workers: &Workers, len: usize, value: T)
    where
        T: Clone + Send + Sync,
    {
        let more = self.make_room(len);
        workers.extend(&mut self.values, more, value);
    }

    /// Makes room for `len` values and answers how many are missing.
    fn make_room(&mut self, len: usize) -> usize {
        let more = len.saturating_sub(self.values.len());
        if more > self.values.capacity() - self.values.len() {
            // Many small rounds must not copy the column each time; one big round should not
            // take twice the memory it needs.
            self.values.reserve_exact(more.max(self.values.len() / 8));
        }
        more
    }
}

impl<I: Id, T: Clone> Column<I, T> {
    /// A column of `len` copies of `value`.
    pub fn filled(len: usize, value: T) -> Self {
        Self {
            values: vec![value; len],
            marker: PhantomData,
        }
    }
}

impl<I: Id, T> Default for Column<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> From<Vec<T>> for Column<I, T> {
    fn from(values: Vec<T>) -> Self {
        Self {
            values,
            marker: PhantomData,
        }
    }
}

impl<I: Id, T> Index<I> for Column<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.values[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Column<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.values[id.index()]
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for Column<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
