//! Symbols that were looked up and are ready, once per group of threads: a look-up that is
//! answered from here writes to no memory that threads of another group use, so look-ups from
//! many threads do not wait for one another.

use super::state::DylibId;
use clinch_graph::index::map::hash_name;
use hashbrown::HashTable;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// How many groups of threads there are.
const GROUPS: usize = 16;

/// The caches of all groups.
#[derive(Debug, Default)]
pub(crate) struct ReadyCache {
    groups: [Group; GROUPS],
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Group {
    known: RwLock<HashTable<Known>>,
}

#[derive(Debug)]
struct Known {
    dylib: DylibId,
    name: Box<[u8]>,
    address: u64,
}

impl ReadyCache {
    /// The address of a symbol that the dylib itself defines, when it is known here.
    pub(crate) fn get(&self, dylib: DylibId, name: &[u8]) -> Option<u64> {
        let known = self
            .group()
            .known
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &Known| known.dylib == dylib && *known.name == *name;
        known
            .find(hash_name(name), is_it)
            .map(|known| known.address)
    }

    /// Notes the address of a symbol that is ready. The caller holds the session's lock, so that
    /// nothing is removed in between.
    pub(crate) fn insert(&self, dylib: DylibId, name: &[u8], address: u64) {
        let mut known = self
            .group()
            .known
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let hash = hash_name(name);
        let is_it = |known: &Known| known.dylib == dylib && *known.name == *name;
        if known.find(hash, is_it).is_none() {
            let new = Known {
                dylib,
                name: name.into(),
                address,
            };
            known.insert_unique(hash, new, |known| hash_name(&known.name));
        }
    }

    /// Forgets everything, before something is removed.
    pub(crate) fn clear(&self) {
        for group in &self.groups {
            let mut known = group.known.write().unwrap_or_else(PoisonError::into_inner);
            known.clear();
        }
    }

    /// The calling thread's group.
    fn group(&self) -> &Group {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static GROUP: usize = NEXT.fetch_add(1, Ordering::Relaxed) % GROUPS;
        }
        &self.groups[GROUP.with(|&group| group)]
    }
}
