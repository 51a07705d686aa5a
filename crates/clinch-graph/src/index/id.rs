//! Typed 32-bit handles and contiguous ranges of them.

use std::fmt;
use std::marker::PhantomData;

/// What every handle type answers. Implemented by the `id!` macro only.
pub trait Id: Copy + Eq + Ord + fmt::Debug {
    /// The id of the `index`-th entity, counting from 0.
    fn from_index(index: usize) -> Self;
    /// The position of the entity in its column, counting from 0.
    fn index(self) -> usize;
}

/// Defines a handle type. The value is never zero, so `Option` of it takes 4 bytes; `Display`
/// and `Debug` print its spelling in the text form.
macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::num::NonZeroU32);

        impl $name {
            /// What ids of this type begin with in the text form.
            pub const PREFIX: &'static str = $prefix;

            /// The raw value: the index plus one, never zero.
            pub const fn raw(self) -> u32 {
                self.0.get()
            }

            /// The id with this raw value, `None` for zero.
            pub fn from_raw(raw: u32) -> Option<Self> {
                std::num::NonZeroU32::new(raw).map(Self)
            }
        }

        impl $crate::index::id::Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                let raw = $crate::index::int::u32_of(index).wrapping_add(1);
                match std::num::NonZeroU32::new(raw) {
                    Some(raw) => Self(raw),
                    None => panic!("more than 2^32 - 2 entities of one kind"),
                }
            }

            #[inline]
            fn index(self) -> usize {
                $crate::index::int::usize_of(self.0.get()) - 1
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}{}", $prefix, self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use id;

/// A contiguous run of ids: what one input, or one step, brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdRange<I> {
    start: usize,
    end: usize,
    marker: PhantomData<I>,
}

impl<I: Id> IdRange<I> {
    /// The ids of the entities at positions `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end, "an id range runs forward");
        Self {
            start,
            end,
            marker: PhantomData,
        }
    }

    /// The range without ids.
    pub fn empty() -> Self {
        Self::new(0, 0)
    }

    /// Position of the first id.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Position behind the last id.
    pub fn end(&self) -> usize {
        self.end
    }

    /// How many ids the range holds.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the range holds no id.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether `id` lies in the range.
    pub fn contains(&self, id: I) -> bool {
        (self.start..self.end).contains(&id.index())
    }

    /// The `n`-th id of the range; `None` behind its end.
    pub fn get(&self, n: usize) -> Option<I> {
        (n < self.len()).then(|| I::from_index(self.start + n))
    }

    /// The ids in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I> {
        (self.start..self.end).map(I::from_index)
    }

    /// The positions as a plain range, to slice a column's storage.
    pub fn positions(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }
}

impl<I: Id> fmt::Debug for IdRange<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.get(0), self.len()) {
            (Some(first), n) => write!(f, "{first:?} and {} more", n - 1),
            (None, _) => f.write_str("none"),
        }
    }
}
