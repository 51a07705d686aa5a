//! Interned names: one id per distinct name of a global symbol, so that later steps compare
//! numbers.
//!
//! Reads: the graph's symbols. Parallel: hashing, per input; filling the table is one pass in id
//! order, which costs less than handing names to other threads.

use clinch_graph::index::id::IdRange;
use clinch_graph::index::int::{low_u32, u32_of, usize_of};
use clinch_graph::index::map::hash_name;
use clinch_graph::{Column, Id, InputId, LinkGraph, SymbolId, Workers};
use hashbrown::HashTable;
use std::fmt;
use std::num::NonZeroU32;

/// A distinct name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(NonZeroU32);

impl Id for NameId {
    fn from_index(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(u32_of(index)))
    }

    fn index(self) -> usize {
        usize_of(self.0.get()) - 1
    }
}

impl fmt::Debug for NameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// Where a name's bytes are, and its hash.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// `None` for names that [`Names::intern`] was given.
    input: Option<InputId>,
    /// Offset in the input's table of names, or among the names given.
    place: u32,
    len: u32,
    hash: u32,
}

/// The distinct names of a graph's global symbols.
#[derive(Debug, Default)]
pub struct Names {
    records: Vec<Record>,
    table: HashTable<u32>,
    /// Per symbol the raw name id; 0 for symbols that take no part.
    of_symbol: Vec<u32>,
    given: Vec<u8>,
}

impl Names {
    /// No names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Interns the names of the inputs' global symbols. Inputs come in ascending order, each
    /// once.
    pub fn add_inputs(&mut self, graph: &LinkGraph, workers: &Workers, inputs: IdRange<InputId>) {
        self.cover(graph.n_symbols());
        let mut parts = Vec::with_capacity(inputs.len());
        let mut rest = self.of_symbol.as_mut_slice();
        let mut offset = 0;
        let mut n_symbols = 0;
        for id in inputs.iter() {
            let symbols = graph.input(id).symbols();
            let (_, tail) = rest.split_at_mut(symbols.start() - offset);
            let (part, tail) = tail.split_at_mut(symbols.len());
            (rest, offset) = (tail, symbols.end());
            n_symbols += symbols.len();
            parts.push((id, part));
        }
        // A name is some 80 bytes of reading.
        let counts = workers.map(n_symbols * 80, parts, |(id, part)| {
            hash_input(graph, id, part)
        });
        // In a large program about one global symbol in three brings a new name.
        let n_new = counts.iter().sum::<usize>() / 3;
        let records = &self.records;
        self.table
            .reserve(n_new, |&raw| spread(records[usize_of(raw) - 1].hash));
        for id in inputs.iter() {
            for (symbol, offset, name) in graph.global_names(id) {
                let hash = self.of_symbol[symbol.index()];
                let name = self.intern_symbol(graph, id, offset, name, hash);
                self.of_symbol[symbol.index()] = name;
            }
        }
    }

    /// Interns the name of one symbol that a step made.
    pub fn add_symbol(&mut self, graph: &LinkGraph, symbol: SymbolId) -> NameId {
        self.cover(graph.n_symbols());
        let name = self.intern(graph, graph.symbol_name(symbol));
        self.of_symbol[symbol.index()] = name.0.get();
        name
    }

    /// The id of a name that need not be in the graph.
    pub fn intern(&mut self, graph: &LinkGraph, name: &[u8]) -> NameId {
        if let Some(found) = self.find(graph, name) {
            return found;
        }
        let hash = low_u32(hash_name(name));
        let record = Record {
            input: None,
            place: u32_of(self.given.len()),
            len: u32_of(name.len()),
            hash,
        };
        self.given.extend_from_slice(name);
        NameId::from_index(usize_of(self.insert(record)) - 1)
    }

    /// The id of a name, when a symbol has it or it was given.
    pub fn find(&self, graph: &LinkGraph, name: &[u8]) -> Option<NameId> {
        let hash = low_u32(hash_name(name));
        self.table
            .find(spread(hash), |&raw| {
                let record = &self.records[usize_of(raw) - 1];
                record.hash == hash
                    && usize_of(record.len) == name.len()
                    && self.bytes(graph, record) == name
            })
            .map(|&raw| NameId::from_index(usize_of(raw) - 1))
    }

    /// The name of a symbol; `None` for local ones.
    #[inline]
    pub fn of(&self, symbol: SymbolId) -> Option<NameId> {
        let raw = self.of_symbol.get(symbol.index()).copied().unwrap_or(0);
        NonZeroU32::new(raw).map(NameId)
    }

    /// A name's bytes.
    pub fn name<'g>(&'g self, graph: &'g LinkGraph, id: NameId) -> &'g [u8] {
        self.bytes(graph, &self.records[id.index()])
    }

    /// How many distinct names there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// All names' ids.
    pub fn ids(&self) -> IdRange<NameId> {
        IdRange::new(0, self.records.len())
    }

    /// A column with a value per name.
    pub fn column<T: Clone>(&self, value: T) -> Column<NameId, T> {
        Column::filled(self.records.len(), value)
    }

    fn cover(&mut self, n_symbols: usize) {
        let more = n_symbols.saturating_sub(self.of_symbol.len());
        self.of_symbol
            .reserve_exact(if more > self.of_symbol.len() { more } else { 0 });
        self.of_symbol
            .resize(n_symbols.max(self.of_symbol.len()), 0);
    }

    /// `name` is the name with what follows it in the input's table, where it lies at `offset`.
    fn intern_symbol(
        &mut self,
        graph: &LinkGraph,
        input: InputId,
        offset: u32,
        name: &[u8],
        hash: u32,
    ) -> u32 {
        let found = self.table.find(spread(hash), |&raw| {
            let record = &self.records[usize_of(raw) - 1];
            let len = usize_of(record.len);
            // Equal so far, and the name ends there.
            record.hash == hash
                && name.get(len).is_none_or(|&end| end == 0)
                && name
                    .get(..len)
                    .is_some_and(|name| name == self.bytes(graph, record))
        });
        if let Some(&raw) = found {
            return raw;
        }
        let len = u32_of(length(name));
        self.insert(Record {
            input: Some(input),
            place: offset,
            len,
            hash,
        })
    }

    fn insert(&mut self, record: Record) -> u32 {
        self.records.push(record);
        let raw = u32_of(self.records.len());
        let records = &self.records;
        self.table.insert_unique(spread(record.hash), raw, |&raw| {
            spread(records[usize_of(raw) - 1].hash)
        });
        raw
    }

    fn bytes<'g>(&'g self, graph: &'g LinkGraph, record: &Record) -> &'g [u8] {
        let table = match record.input {
            None => &self.given,
            Some(input) => graph.input(input).symbol_names(),
        };
        let start = usize_of(record.place);
        &table[start..start + usize_of(record.len)]
    }
}

/// Hashes the names of an input's global symbols into the slots of its symbols; answers how many
/// there are.
fn hash_input(graph: &LinkGraph, input: InputId, slots: &mut [u32]) -> usize {
    let mut n_globals = 0;
    let first = graph.input(input).symbols().start();
    for (symbol, _, name) in graph.global_names(input) {
        if let Some(slot) = slots.get_mut(symbol.index() - first) {
            *slot = low_u32(hash_name(&name[..length(name)]));
            n_globals += 1;
        }
    }
    n_globals
}

/// Where a name ends that is followed by others.
fn length(name: &[u8]) -> usize {
    memchr::memchr(0, name).unwrap_or(name.len())
}

/// The table wants its bits in the high part too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clinch_graph::GraphTarget;

    static TARGET: GraphTarget = GraphTarget {
        name: "test",
        pointer_size: 8,
        endian: clinch_graph::Endian::Little,
        edge_kinds: &[],
        edge_width: |_| 0,
        is_request: |_| false,
    };

    #[test]
    fn equal_names_have_equal_ids() {
        let mut graph = LinkGraph::new("test", &TARGET);
        let (a, b, c) = (
            graph.add_external(b"foo", false),
            graph.add_external(b"bar", false),
            graph.add_external(b"foo", false),
        );
        let mut names = Names::new();
        let ids = [a, b, c].map(|symbol| names.add_symbol(&graph, symbol));
        assert_eq!(ids[0], ids[2]);
        assert_ne!(ids[0], ids[1]);
        assert_eq!(names.len(), 2);
        assert_eq!(names.name(&graph, ids[1]), b"bar");
        assert_eq!(names.find(&graph, b"foo"), Some(ids[0]));
        assert_eq!(names.find(&graph, b"fo"), None);
        assert_eq!(names.of(a), Some(ids[0]));
        let new = names.intern(&graph, b"new");
        assert_eq!(names.name(&graph, new), b"new");
    }
}
