//! Bytes as a run of choices. Bytes that have run out are zeros, and zero is always the choice
//! that makes least.

/// Choices still to be made.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Choices that these bytes make.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        match self.bytes {
            [first, rest @ ..] => {
                self.bytes = rest;
                *first
            }
            [] => 0,
        }
    }

    /// Any number of 64 bits; small ones are likely.
    pub fn number(&mut self) -> u64 {
        let n_bytes = self.byte() % 9;
        (0..n_bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let byte = usize::from(self.byte());
        let choice = if end > 256 {
            byte << 8 | usize::from(self.byte())
        } else {
            byte
        };
        choice.checked_rem(end).unwrap_or(0)
    }

    /// One in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// One of the list, its first when bytes have run out.
    ///
    /// # Panics
    /// The list is empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// One of the list, if it has any.
    pub fn pick_any<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.below(list.len())).copied()
    }

    /// Fewer than `end` bytes.
    pub fn bytes(&mut self, end: usize) -> Vec<u8> {
        let n_bytes = self.below(end);
        (0..n_bytes).map(|_| self.byte()).collect()
    }
}

/// `len` bytes that a seed makes: equally distributed, and the same on every machine.
pub fn seeded(seed: u64, len: usize) -> Vec<u8> {
    // Weyl's sequence through a mixer of multiplications and shifts.
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Choices, seeded};

    #[test]
    fn used_up_bytes_choose_the_least() {
        let mut choices = Choices::new(&[7]);
        assert!(!choices.is_empty());
        assert_eq!(choices.pick(&[1, 2, 3]), 2);
        assert!(choices.is_empty());
        assert_eq!(choices.pick(&[1, 2, 3]), 1);
        assert_eq!(choices.number(), 0);
        assert_eq!(choices.below(0), 0);
        assert_eq!(choices.pick_any::<u8>(&[]), None);
        assert!(!choices.one_in(2));
        assert!(choices.bytes(100).is_empty());
    }

    #[test]
    fn a_seed_always_makes_the_same() {
        assert_eq!(seeded(1, 9), seeded(1, 9));
        assert_ne!(seeded(1, 9), seeded(2, 9));
        assert_eq!(seeded(1, 3)[..], seeded(1, 9)[..3]);
    }
}
