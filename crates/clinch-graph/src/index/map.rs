//! Hash maps with a fixed seed: the same table on every run. No code iterates one.

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

/// The hash of a name, the same on every run of one build.
#[inline]
pub fn hash_name(name: &[u8]) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(0x636c_696e_6368).build_hasher();
    hasher.write(name);
    hasher.finish()
}
