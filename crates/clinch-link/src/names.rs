//! Interned names: one id per distinct name of a global symbol, so that later steps compare
//! numbers.
//!
//! Reads: the graph's symbols. Parallel: hashing, per input; filling the table is one pass in id
//! order, which costs less than handing names to other threads. That pass waits for memory: the
//! table, the record and the name of each are anywhere. So it looks at some names at a time, step
//! by step, and their loads wait together.

use clinch_graph::index::id::IdRange;
use clinch_graph::index::int::{high_u32, low_u32, u32_of, usize_of};
use clinch_graph::index::map::hash_name;
use clinch_graph::{Column, Id, InputId, LinkGraph, SymbolId, Workers};
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

impl Record {
    /// No name's: it has no length.
    const NONE: Self = Self {
        input: None,
        place: 0,
        len: 0,
        hash: 0,
    };
}

/// The distinct names of a graph's global symbols.
#[derive(Debug, Default)]
pub struct Names {
    records: Vec<Record>,
    table: Table,
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
        self.table.reserve(n_new, &self.records);
        for id in inputs.iter() {
            let mut symbols = graph.global_names(id);
            let mut batch = [Wanted::NONE; BATCH];
            loop {
                let mut n = 0;
                for (slot, (symbol, offset, name)) in batch.iter_mut().zip(&mut symbols) {
                    let hash = self.of_symbol[symbol.index()];
                    *slot = Wanted {
                        symbol: symbol.index(),
                        offset,
                        hash,
                        name,
                    };
                    n += 1;
                }
                if n == 0 {
                    break;
                }
                self.intern_batch(graph, id, &batch[..n]);
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
        let found = self.table.find(hash, |raw| {
            let record = &self.records[usize_of(raw) - 1];
            record.hash == hash && self.bytes(graph, record) == name
        });
        found.map(|raw| NameId::from_index(usize_of(raw) - 1))
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

    /// Interns names of one input.
    fn intern_batch(&mut self, graph: &LinkGraph, input: InputId, batch: &[Wanted<'_>]) {
        let mut likely = [0_u32; BATCH];
        for (likely, wanted) in likely.iter_mut().zip(batch) {
            *likely = self.table.first(wanted.hash);
        }
        let mut records = [Record::NONE; BATCH];
        for (record, &likely) in records.iter_mut().zip(&likely) {
            *record = match usize_of(likely).checked_sub(1) {
                Some(index) => self.records[index],
                None => Record::NONE,
            };
        }
        let mut is_it = [false; BATCH];
        for ((is_it, record), wanted) in is_it.iter_mut().zip(&records).zip(batch) {
            *is_it = self.is_name(graph, record, wanted);
        }
        for ((&likely, &is_it), wanted) in likely.iter().zip(&is_it).zip(batch) {
            self.of_symbol[wanted.symbol] = if is_it {
                likely
            } else {
                self.intern_one(graph, input, wanted)
            };
        }
    }

    fn intern_one(&mut self, graph: &LinkGraph, input: InputId, wanted: &Wanted<'_>) -> u32 {
        let found = self.table.find(wanted.hash, |raw| {
            self.is_name(graph, &self.records[usize_of(raw) - 1], wanted)
        });
        found.unwrap_or_else(|| {
            self.insert(Record {
                input: Some(input),
                place: wanted.offset,
                len: u32_of(length(wanted.name)),
                hash: wanted.hash,
            })
        })
    }

    /// Whether a record is of the name: equal so far, and the name ends there.
    fn is_name(&self, graph: &LinkGraph, record: &Record, wanted: &Wanted<'_>) -> bool {
        let len = usize_of(record.len);
        record.hash == wanted.hash
            && len > 0
            && wanted.name.get(len).is_none_or(|&end| end == 0)
            && wanted
                .name
                .get(..len)
                .is_some_and(|name| name == self.bytes(graph, record))
    }

    fn insert(&mut self, record: Record) -> u32 {
        self.records.push(record);
        let raw = u32_of(self.records.len());
        self.table.insert(record.hash, raw, &self.records);
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

/// How many names are looked up together.
const BATCH: usize = 24;

/// A name to be interned, with what follows it in its input's table.
#[derive(Clone, Copy)]
struct Wanted<'g> {
    symbol: usize,
    offset: u32,
    hash: u32,
    name: &'g [u8],
}

impl Wanted<'_> {
    const NONE: Self = Self {
        symbol: 0,
        offset: 0,
        hash: 0,
        name: &[],
    };
}

/// Raw name ids by hash: open addressing, at most half full, so that a look-up mostly ends at
/// its first slot.
#[derive(Debug, Default)]
struct Table {
    /// Each 0, or a hash in the high half and the raw id in the low half. As many as a power of
    /// two.
    slots: Vec<u64>,
    used: usize,
}

impl Table {
    fn start(&self, hash: u32) -> usize {
        // The low bits of the hash are as good as any.
        usize_of(hash) & (self.slots.len() - 1)
    }

    /// The id in the first slot for a hash, when it is of that hash; else 0.
    fn first(&self, hash: u32) -> u32 {
        if self.slots.is_empty() {
            return 0;
        }
        let slot = self.slots[self.start(hash)];
        if high_u32(slot) == hash {
            low_u32(slot)
        } else {
            0
        }
    }

    /// The id of a hash for which `is_it` says yes.
    fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.start(hash);
        while self.slots[at] != 0 {
            let slot = self.slots[at];
            if high_u32(slot) == hash && is_it(low_u32(slot)) {
                return Some(low_u32(slot));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Adds an id that is not there.
    fn insert(&mut self, hash: u32, raw: u32, records: &[Record]) {
        self.reserve(1, records);
        self.place(hash, raw);
    }

    fn place(&mut self, hash: u32, raw: u32) {
        let mut at = self.start(hash);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = u64::from(hash) << 32 | u64::from(raw);
        self.used += 1;
    }

    /// Makes room for so many more.
    fn reserve(&mut self, more: usize, records: &[Record]) {
        let want = (self.used + more) * 2;
        if want <= self.slots.len() {
            return;
        }
        self.slots = vec![0; want.next_power_of_two().max(64)];
        let used = std::mem::take(&mut self.used);
        for (raw, record) in (1..).zip(records.iter().take(used)) {
            self.place(record.hash, raw);
        }
    }
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
