//! Hash maps with a fixed seed: the same table on every run. No code iterates one.

use super::int::low_u32;

/// A hash map whose layout does not change from run to run.
#[expect(
    clippy::disallowed_types,
    reason = "this is where the standard map gets its fixed seed"
)]
pub type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

/// A hash set whose layout does not change from run to run.
#[expect(
    clippy::disallowed_types,
    reason = "this is where the standard set gets its fixed seed"
)]
pub type Set<K> = std::collections::HashSet<K, foldhash::fast::FixedState>;

/// A short hash of a global symbol's name, never 0: what stands for "no name" in a column.
#[inline]
pub fn short_hash(name: &[u8]) -> u32 {
    low_u32(hash_name(name)).max(1)
}

/// The hash of a name, the same on every run of one build.
#[inline]
pub fn hash_name(name: &[u8]) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(0x636c_696e_6368).build_hasher();
    hasher.write(name);
    hasher.finish()
}
