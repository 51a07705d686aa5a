//! Interned names: one id per distinct name of a global symbol, so that later steps compare
//! numbers.
//!
//! Reads: the graph's symbols. Parallel: by shard. A name's hash says which shard of the table it
//! belongs to, each thread has some shards, walks all hashes and takes those of its own. So ids do
//! not depend on the number of threads. Interning waits for memory: the table, the record and the
//! name of each are anywhere. So it looks at some names at a time, step by step, and their loads
//! wait together.

use clinch_graph::index::id::IdRange;
use clinch_graph::index::int::{high_u32, low_u32, u32_of, usize_of};
use clinch_graph::index::map::short_hash;
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

/// How many parts the table has: as many threads can fill it at once. A power of two.
const SHARDS: usize = 16;

/// The distinct names of a graph's global symbols.
#[derive(Debug, Default)]
pub struct Names {
    shards: [Shard; SHARDS],
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
    /// once, and none had a symbol interned yet. `hashes` has, per symbol of the inputs, the [`short_hash`] of its name, or 0 for
    /// those that take no part, as readers answer it.
    pub fn add_inputs(
        &mut self,
        graph: &LinkGraph,
        workers: &Workers,
        inputs: IdRange<InputId>,
        mut hashes: Vec<u32>,
    ) {
        let Some(first) = inputs.get(0) else { return };
        let first_symbol = graph.input(first).symbols().start();
        self.cover(first_symbol);
        if self.of_symbol.is_empty() {
            self.of_symbol = hashes;
        } else {
            self.of_symbol.append(&mut hashes);
        }
        let slots = &mut self.of_symbol[first_symbol..];
        let source = Source {
            graph,
            given: &self.given,
            inputs,
            first_symbol,
            hashes: slots,
        };

        // A name is some 80 bytes of reading.
        let cost = source.hashes.len() * 80;
        let per_thread = SHARDS.div_ceil(workers.threads(cost));
        let groups: Vec<_> = self.shards.chunks_mut(per_thread).enumerate().collect();
        let found = workers.map(cost, groups, |(number, shards)| {
            let first = number * per_thread;
            let mut group = Group { first, shards };
            group.reserve(&source);
            group.intern_all(&source)
        });

        // Each group answered its own in the symbols' order.
        let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
        for slot in slots.iter_mut().filter(|slot| **slot != 0) {
            let ids = &mut found[shard_of(*slot) / per_thread];
            *slot = ids.next().unwrap_or(0);
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
        let record = Record {
            input: None,
            place: u32_of(self.given.len()),
            len: u32_of(name.len()),
            hash: short_hash(name),
        };
        self.given.extend_from_slice(name);
        let shard = shard_of(record.hash);
        id_of(shard, self.shards[shard].insert(record))
    }

    /// The id of a name, when a symbol has it or it was given.
    pub fn find(&self, graph: &LinkGraph, name: &[u8]) -> Option<NameId> {
        let hash = short_hash(name);
        let number = shard_of(hash);
        let shard = &self.shards[number];
        let found = shard.table.find(hash, |local| {
            let record = &shard.records[usize_of(local) - 1];
            record.hash == hash && bytes(graph, &self.given, record) == name
        });
        found.map(|local| id_of(number, local))
    }

    /// The name of a symbol; `None` for local ones.
    #[inline]
    pub fn of(&self, symbol: SymbolId) -> Option<NameId> {
        let raw = self.of_symbol.get(symbol.index()).copied().unwrap_or(0);
        NonZeroU32::new(raw).map(NameId)
    }

    /// A name's bytes.
    pub fn name<'g>(&'g self, graph: &'g LinkGraph, id: NameId) -> &'g [u8] {
        let shard = &self.shards[id.index() % SHARDS];
        bytes(graph, &self.given, &shard.records[id.index() / SHARDS])
    }

    /// How many distinct names there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.records.len()).sum()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.records.is_empty())
    }

    /// A bound of all ids' positions: what a column by name must hold. Shards are not equally
    /// full, so some positions below it have no name.
    pub fn bound(&self) -> usize {
        let fullest = self.shards.iter().map(|shard| shard.records.len()).max();
        fullest.unwrap_or(0) * SHARDS
    }

    /// A column with a value per name.
    pub fn column<T: Clone>(&self, value: T) -> Column<NameId, T> {
        Column::filled(self.bound(), value)
    }

    /// All names' ids, ascending.
    pub fn ids(&self) -> impl Iterator<Item = NameId> + '_ {
        (0..self.bound())
            .filter(|index| index / SHARDS < self.shards[index % SHARDS].records.len())
            .map(NameId::from_index)
    }

    fn cover(&mut self, n_symbols: usize) {
        let more = n_symbols.saturating_sub(self.of_symbol.len());
        self.of_symbol
            .reserve_exact(if more > self.of_symbol.len() { more } else { 0 });
        self.of_symbol
            .resize(n_symbols.max(self.of_symbol.len()), 0);
    }
}

/// The short hashes of the inputs' global names, for graphs that no reader made.
pub fn short_hashes(graph: &LinkGraph, inputs: IdRange<InputId>) -> Vec<u32> {
    let hash = |(input, symbol)| {
        if graph.symbol_flags(symbol).is_global() {
            short_hash(graph.symbol_name_in(input, symbol))
        } else {
            0
        }
    };
    let symbols = |input| {
        graph
            .input(input)
            .symbols()
            .iter()
            .map(move |id| (input, id))
    };
    inputs.iter().flat_map(symbols).map(hash).collect()
}

/// The shard of a hash. The table goes by other bits.
fn shard_of(hash: u32) -> usize {
    usize_of(hash) % SHARDS
}

/// The id of a shard's `local`-th name, counted from 1.
fn id_of(shard: usize, local: u32) -> NameId {
    NameId::from_index((usize_of(local) - 1) * SHARDS + shard)
}

fn bytes<'g>(graph: &'g LinkGraph, given: &'g [u8], record: &Record) -> &'g [u8] {
    let table = match record.input {
        None => given,
        Some(input) => graph.input(input).symbol_names(),
    };
    let start = usize_of(record.place);
    &table[start..start + usize_of(record.len)]
}

/// What is interned at once.
struct Source<'g> {
    graph: &'g LinkGraph,
    given: &'g [u8],
    inputs: IdRange<InputId>,
    /// Position of the first hash's symbol.
    first_symbol: usize,
    hashes: &'g [u32],
}

/// A name to be interned, with what follows it in its input's table.
#[derive(Clone, Copy)]
struct Wanted<'g> {
    place: u32,
    hash: u32,
    name: &'g [u8],
}

impl Wanted<'_> {
    const NONE: Self = Self {
        place: 0,
        hash: 0,
        name: &[],
    };

    /// Whether a record is of the name: equal so far, and the name ends there.
    fn is_of(&self, source: &Source<'_>, record: &Record) -> bool {
        let len = usize_of(record.len);
        record.hash == self.hash
            && len > 0
            && self.name.get(len).is_none_or(|&end| end == 0)
            && self
                .name
                .get(..len)
                .is_some_and(|name| name == bytes(source.graph, source.given, record))
    }
}

/// How many names are looked up together.
const BATCH: usize = 24;

/// The shards that one thread fills.
struct Group<'n> {
    /// Number of the first shard.
    first: usize,
    shards: &'n mut [Shard],
}

impl Group<'_> {
    /// Makes room for the new names to be expected: in a large program about one global symbol
    /// in three brings one.
    fn reserve(&mut self, source: &Source<'_>) {
        let n_globals = source.hashes.iter().filter(|&&hash| hash != 0).count();
        for shard in self.shards.iter_mut() {
            shard.reserve(n_globals / 3 / SHARDS);
        }
    }

    /// Interns the names that belong to the group; answers their raw ids, in the symbols' order.
    fn intern_all(&mut self, source: &Source<'_>) -> Vec<u32> {
        let mut ids = Vec::with_capacity(source.hashes.len() * self.shards.len() / SHARDS);
        for input in source.inputs.iter() {
            let symbols = source.graph.input(input).symbols();
            let start = symbols.start() - source.first_symbol;
            let hashes = &source.hashes[start..start + symbols.len()];
            let (mut batch, mut n) = ([(SymbolId::from_index(0), 0); BATCH], 0);
            for (symbol, &hash) in symbols.iter().zip(hashes) {
                // Every other name is another thread's: no branch could be predicted.
                batch[n] = (symbol, hash);
                n += usize::from(self.has(hash) & (hash != 0));
                if n == BATCH {
                    self.intern_batch(source, input, &batch, &mut ids);
                    n = 0;
                }
            }
            self.intern_batch(source, input, &batch[..n], &mut ids);
        }
        ids
    }

    fn has(&self, hash: u32) -> bool {
        shard_of(hash).wrapping_sub(self.first) < self.shards.len()
    }

    /// Interns names of one input.
    fn intern_batch(
        &mut self,
        source: &Source<'_>,
        input: InputId,
        symbols: &[(SymbolId, u32)],
        ids: &mut Vec<u32>,
    ) {
        let mut batch = [Wanted::NONE; BATCH];
        for (wanted, &(symbol, hash)) in batch.iter_mut().zip(symbols) {
            let (table, place) = source.graph.name_in_input(input, symbol);
            let name = table.get(usize_of(place)..).unwrap_or(&[]);
            *wanted = Wanted { place, hash, name };
        }
        let batch = &batch[..symbols.len()];
        let mut likely = [0_u32; BATCH];
        for (likely, wanted) in likely.iter_mut().zip(batch) {
            *likely = self.shard(wanted.hash).table.first(wanted.hash);
        }
        let mut records = [Record::NONE; BATCH];
        for ((record, &likely), wanted) in records.iter_mut().zip(&likely).zip(batch) {
            let some = usize_of(likely.saturating_sub(1));
            *record = *self.shard(wanted.hash).records.get(some).unwrap_or(record);
        }
        let mut is_it = [false; BATCH];
        for ((is_it, record), wanted) in is_it.iter_mut().zip(&records).zip(batch) {
            *is_it = wanted.is_of(source, record);
        }
        for ((&likely, &is_it), wanted) in likely.iter().zip(&is_it).zip(batch) {
            let local = if is_it && likely != 0 {
                likely
            } else {
                self.intern_one(source, input, wanted)
            };
            ids.push(id_of(shard_of(wanted.hash), local).0.get());
        }
    }

    fn intern_one(&mut self, source: &Source<'_>, input: InputId, wanted: &Wanted<'_>) -> u32 {
        let shard = &mut self.shards[shard_of(wanted.hash) - self.first];
        let found = shard.table.find(wanted.hash, |local| {
            wanted.is_of(source, &shard.records[usize_of(local) - 1])
        });
        found.unwrap_or_else(|| {
            let end = memchr::memchr(0, wanted.name);
            shard.insert(Record {
                input: Some(input),
                place: wanted.place,
                len: u32_of(end.unwrap_or(wanted.name.len())),
                hash: wanted.hash,
            })
        })
    }

    fn shard(&self, hash: u32) -> &Shard {
        &self.shards[shard_of(hash) - self.first]
    }
}

/// The names whose hashes have certain low bits.
#[derive(Debug, Default)]
struct Shard {
    records: Vec<Record>,
    table: Table,
}

impl Shard {
    fn reserve(&mut self, more: usize) {
        self.records.reserve(more);
        self.table.reserve(more, &self.records);
    }

    /// Adds a name that is not there; answers its number in the shard, counted from 1.
    fn insert(&mut self, record: Record) -> u32 {
        self.records.push(record);
        let local = u32_of(self.records.len());
        self.table.insert(record.hash, local, &self.records);
        local
    }
}

/// A shard's names by hash: open addressing, at most half full, so that a look-up mostly ends at
/// its first slot. Names are numbered from 1.
#[derive(Debug, Default)]
struct Table {
    /// Each 0, or a hash in the high half and a name's number in the low half. As many as a power
    /// of two.
    slots: Vec<u64>,
    used: usize,
}

impl Table {
    fn start(&self, hash: u32) -> usize {
        // The bits above the shard's are as good as any.
        (usize_of(hash) / SHARDS) & (self.slots.len() - 1)
    }

    /// The name in the first slot for a hash, when it is of that hash; else 0.
    fn first(&self, hash: u32) -> u32 {
        if self.slots.is_empty() {
            return 0;
        }
        let slot = self.slots[self.start(hash)];
        // Without a branch, which would often be predicted wrongly and wait for the slot.
        low_u32(slot) * u32::from(high_u32(slot) == hash)
    }

    /// The name of a hash for which `is_it` says yes.
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

    /// Adds a name that is not there.
    fn insert(&mut self, hash: u32, local: u32, records: &[Record]) {
        self.reserve(1, records);
        self.place(hash, local);
    }

    fn place(&mut self, hash: u32, local: u32) {
        let mut at = self.start(hash);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = u64::from(hash) << 32 | u64::from(local);
        self.used += 1;
    }

    /// Makes room for so many more.
    fn reserve(&mut self, more: usize, records: &[Record]) {
        let want = (self.used + more) * 2;
        if want <= self.slots.len() {
            return;
        }
        self.slots = vec![0; want.next_power_of_two().max(16)];
        let used = std::mem::take(&mut self.used);
        for (local, record) in (1..).zip(records.iter().take(used)) {
            self.place(record.hash, local);
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
