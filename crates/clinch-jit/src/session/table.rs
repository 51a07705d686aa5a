//! The symbols of a dylib by name. Names are small numbers, those of one object mostly follow one
//! another, and a dylib of many defines few of all: so there is a place per name, in pages that are
//! there only where the dylib has symbols.

use super::pool::Name;
use super::state::Entry;
use clinch_graph::index::int::{u32_of, usize_of};

/// How many names a page has places for.
const PAGE: usize = 256;
/// No symbol.
const NONE: u32 = u32::MAX;

/// A dylib's symbols.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    /// By name, where among the entries its symbol is.
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    entries: Vec<Entry>,
    /// Places of entries that were removed.
    free: Vec<u32>,
}

impl SymbolTable {
    fn place(&self, name: Name) -> Option<usize> {
        let page = self.pages.get(name.index() / PAGE)?.as_ref()?;
        let place = page[name.index() % PAGE];
        (place != NONE).then(|| usize_of(place))
    }

    /// The symbol of a name.
    pub(crate) fn get(&self, name: Name) -> Option<&Entry> {
        self.entries.get(self.place(name)?)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, name: Name) -> Option<&mut Entry> {
        let place = self.place(name)?;
        self.entries.get_mut(place)
    }

    /// Whether a name has a symbol.
    pub(crate) fn contains(&self, name: Name) -> bool {
        self.place(name).is_some()
    }

    /// Gives a name a symbol, in place of the one that it has.
    pub(crate) fn insert(&mut self, name: Name, entry: Entry) {
        let number = name.index() / PAGE;
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, || None);
        }
        let page = self.pages[number].get_or_insert_with(|| Box::new([NONE; PAGE]));
        let slot = &mut page[name.index() % PAGE];
        if *slot != NONE {
            self.entries[usize_of(*slot)] = entry;
        } else if let Some(free) = self.free.pop() {
            self.entries[usize_of(free)] = entry;
            *slot = free;
        } else {
            *slot = u32_of(self.entries.len());
            self.entries.push(entry);
        }
    }

    /// Takes the symbol of a name out.
    pub(crate) fn remove(&mut self, name: Name) {
        if let Some(Some(page)) = self.pages.get_mut(name.index() / PAGE) {
            let slot = &mut page[name.index() % PAGE];
            if *slot != NONE {
                self.free.push(std::mem::replace(slot, NONE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::NamePool;
    use super::super::state::{Entry, Owner};
    use super::SymbolTable;
    use clinch_graph::SymbolFlags;

    #[test]
    fn places_of_removed_symbols_are_used_again() {
        let mut pool = NamePool::default();
        let names: Vec<_> = (0..1000)
            .map(|n: u32| pool.intern(&n.to_le_bytes()))
            .collect();
        let entry = |address| Entry {
            owner: Owner::Absolute,
            flags: SymbolFlags::empty(),
            in_group: false,
            address,
        };
        let mut table = SymbolTable::default();
        for round in 0..3 {
            for (n, &name) in (0..).zip(&names).step_by(7) {
                table.insert(name, entry(n + round));
            }
            for (n, &name) in (0..).zip(&names) {
                let found = table.get(name).map(|entry| entry.address);
                assert_eq!(found, (n % 7 == 0).then_some(n + round));
                assert_eq!(table.contains(name), n % 7 == 0);
            }
            assert_eq!(table.entries.len(), 143);
            for &name in names.iter().filter(|_| round != 1) {
                table.remove(name);
            }
        }
        assert!(names.iter().all(|&name| table.get_mut(name).is_none()));
    }
}
