//! Interned names: one id per distinct name of a global symbol, so that later steps compare
//! numbers.
//!
//! A name's hash says which shard of the table it belongs to. Readers intern the names of some
//! objects while these are still in the cache ([`Names::begin`]): a thread sorts them by shard and
//! takes one shard's lock at a time. Which thread comes first decides how a shard numbers its
//! names, so they are put into the order of their first symbols in the end ([`Names::finish`]), and
//! ids do not depend on the number of threads. Interning waits for memory: the table, the record
//! and the name of each are anywhere. So it looks at some names at a time, step by step, and their
//! loads wait together.

use crate::graph::LinkGraph;
use crate::ids::{InputId, SymbolId};
use crate::index::column::Column;
use crate::index::id::{Id, IdRange};
use crate::index::int::{high_u32, low_u32, u32_of, usize_of};
use crate::index::map::short_hash;
use crate::index::workers::Workers;
use crate::input::Input;
use crate::part::SymbolPart;
use crate::symbol::SymbolFlags;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

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

/// Where a name's bytes are.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// `None` for names that [`Names::intern`] was given.
    input: Option<InputId>,
    /// Offset in the input's table of names, or among the names given.
    place: u32,
    len: u32,
    /// The first symbol of the name among those interned with it.
    first: u32,
}

impl Record {
    /// No name's: it has no length.
    const NONE: Self = Self {
        input: None,
        place: 0,
        len: 0,
        first: 0,
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

    /// Lends the table to readers, who intern the names of the symbols of `inputs`, which were just
    /// added and follow one another. Until [`Names::finish`] there are no names here.
    pub fn begin(
        &mut self,
        graph: &LinkGraph,
        workers: &Workers,
        inputs: IdRange<InputId>,
    ) -> Interning {
        let range = symbols_of(graph, inputs);
        let expected = range.len() / EXPECTED_NEW / SHARDS;
        let shards = std::mem::take(&mut self.shards);
        let known = shards.each_ref().map(|shard| shard.records.len());
        let shards = shards.map(|mut shard| {
            shard.reserve(expected);
            Mutex::new(shard)
        });
        let mut raw = Vec::new();
        workers.extend(&mut raw, range.len(), 0);
        Interning {
            table: SharedNames {
                shards,
                given: std::mem::take(&mut self.given),
            },
            slots: NameSlots {
                raw,
                first_symbol: range.start(),
            },
            known,
        }
    }

    /// Takes the table back.
    pub fn finish(&mut self, workers: &Workers, interning: Interning) {
        let Interning {
            table,
            slots: NameSlots {
                mut raw,
                first_symbol,
            },
            known,
        } = interning;
        self.given = table.given;

        // Each shard's new names into the order of their first symbols.
        let cost = raw.len() * size_of::<Record>();
        let shards = table.shards.into_iter().zip(known).collect();
        let sorted = workers.map(cost, shards, |(shard, known)| {
            let mut shard = shard.into_inner().unwrap_or_else(PoisonError::into_inner);
            let moved = shard.sort_from(known);
            (shard, moved)
        });
        let mut moved = Vec::with_capacity(SHARDS);
        for (slot, (shard, places)) in self.shards.iter_mut().zip(sorted) {
            *slot = shard;
            moved.push(places);
        }
        if moved.iter().any(Option::is_some) {
            let chunks = raw.chunks_mut(1 << 16).collect();
            workers.map(cost, chunks, |ids| renumber(ids, &moved, &known));
        }
        self.cover(first_symbol);
        if self.of_symbol.is_empty() {
            self.of_symbol = raw;
        } else {
            self.of_symbol.append(&mut raw);
        }
    }

    /// Interns the names of the inputs' global symbols, for graphs that no reader made.
    pub fn add_inputs(&mut self, graph: &LinkGraph, workers: &Workers, inputs: IdRange<InputId>) {
        let mut interning = self.begin(graph, workers, inputs);
        let Interning { table, slots, .. } = &mut interning;
        for input in inputs.iter() {
            let symbols = graph.input(input).symbols();
            let ids = slots.of(symbols);
            let in_input = |symbol: SymbolId| {
                graph.symbol_flags(symbol).is_global()
                    && !graph.flags[symbol].contains(SymbolFlags::OWNED_NAME)
            };
            for (id, symbol) in ids.iter_mut().zip(symbols.iter()) {
                if in_input(symbol) {
                    *id = short_hash(graph.symbol_name_in(input, symbol));
                }
            }
            let own = OwnNames {
                input,
                first_symbol: symbols.start(),
                table: graph.input(input).symbol_names(),
                place: |index: u32| {
                    graph.symbols[SymbolId::from_index(symbols.start() + usize_of(index))].name
                },
            };
            table.intern_inputs(&graph.inputs, &[own], ids);
        }
        self.finish(workers, interning);
        for symbol in symbols_of(graph, inputs).iter() {
            if graph.symbol_flags(symbol).is_global() && self.of(symbol).is_none() {
                self.add_symbol(graph, symbol);
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
        let record = Record {
            input: None,
            place: u32_of(self.given.len()),
            len: u32_of(name.len()),
            first: 0,
        };
        self.given.extend_from_slice(name);
        let hash = short_hash(name);
        let shard = shard_of(hash);
        id_of(shard, self.shards[shard].insert(hash, record))
    }

    /// The id of a name, when a symbol has it or it was given.
    pub fn find(&self, graph: &LinkGraph, name: &[u8]) -> Option<NameId> {
        let hash = short_hash(name);
        let number = shard_of(hash);
        let shard = &self.shards[number];
        let found = shard.table.find(hash, |local| {
            bytes(
                &graph.inputs,
                &self.given,
                &shard.records[usize_of(local) - 1],
            ) == name
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
        bytes(
            &graph.inputs,
            &self.given,
            &shard.records[id.index() / SHARDS],
        )
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

/// The shard of a hash. The table goes by other bits.
fn shard_of(hash: u32) -> usize {
    usize_of(hash) % SHARDS
}

/// The id of a shard's `local`-th name, counted from 1.
fn id_of(shard: usize, local: u32) -> NameId {
    NameId::from_index((usize_of(local) - 1) * SHARDS + shard)
}

/// The symbols of inputs that follow one another.
fn symbols_of(graph: &LinkGraph, inputs: IdRange<InputId>) -> IdRange<SymbolId> {
    let of = |index| inputs.get(index).map(|input| graph.input(input).symbols());
    match (of(0), of(inputs.len().wrapping_sub(1))) {
        (Some(first), Some(last)) => IdRange::new(first.start(), last.end()),
        _ => IdRange::new(graph.n_symbols(), graph.n_symbols()),
    }
}

type Inputs = Column<InputId, Input>;

fn bytes<'g>(inputs: &'g Inputs, given: &'g [u8], record: &Record) -> &'g [u8] {
    let table = match record.input {
        None => given,
        Some(input) => inputs[input].symbol_names(),
    };
    let start = usize_of(record.place);
    &table[start..start + usize_of(record.len)]
}

/// One new name is expected for so many symbols, as large programs have it; more make the table
/// grow.
const EXPECTED_NEW: usize = 6;

/// Names that are being filled: see [`Names::begin`].
#[derive(Debug)]
pub struct Interning {
    /// What all threads share.
    pub table: SharedNames,
    /// The symbols' slots.
    pub slots: NameSlots,
    /// How many names each shard had before.
    known: [usize; SHARDS],
}

/// The table while several threads fill it.
#[derive(Debug)]
pub struct SharedNames {
    shards: [Mutex<Shard>; SHARDS],
    given: Vec<u8>,
}

/// A number per symbol: first the [`short_hash`] of its name or 0 when it takes no part in
/// resolution by name, then the id.
#[derive(Debug)]
pub struct NameSlots {
    raw: Vec<u32>,
    first_symbol: usize,
}

impl NameSlots {
    /// Those of one input's symbols.
    pub fn of(&mut self, symbols: IdRange<SymbolId>) -> &mut [u32] {
        let start = symbols.start() - self.first_symbol;
        &mut self.raw[start..start + symbols.len()]
    }

    /// Those of each of some inputs, by how many symbols they have.
    pub fn split(
        &mut self,
        counts: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = &mut [u32]> {
        let mut rest = self.raw.as_mut_slice();
        counts.map(move |count| {
            let (head, behind) = std::mem::take(&mut rest).split_at_mut(count);
            rest = behind;
            head
        })
    }
}

/// The names of one input's symbols, which follow those of the input before it.
struct OwnNames<'g, P> {
    input: InputId,
    first_symbol: usize,
    table: &'g [u8],
    /// The place in the table of the name of the input's symbol of a number.
    place: P,
}

/// A name to be interned, and how far its look-up is.
#[derive(Clone, Copy)]
struct Wanted<'g> {
    /// The symbol's number among those that are interned together.
    index: u32,
    input: InputId,
    place: u32,
    hash: u32,
    /// The name with what follows it in its input's table.
    name: &'g [u8],
    /// The name in the first slot of the hash, counted from 1; 0 for none.
    likely: u32,
    /// Its record.
    record: Record,
    /// Whether it is the one.
    is_it: bool,
}

impl Wanted<'_> {
    /// Whether a record's name, whose bytes are given, is this one: equal so far, and this ends
    /// there.
    fn is(&self, other: &[u8]) -> bool {
        let len = other.len();
        len > 0
            && self.name.get(len).is_none_or(|&end| end == 0)
            && self.name.get(..len).is_some_and(|name| name == other)
    }
}

/// How many names are looked up together.
const BATCH: usize = 24;

impl SharedNames {
    /// Interns the names of the symbols of parts that follow one another: `ids` has their hashes,
    /// and has ids then. Several small inputs together are faster than one by one.
    pub fn intern(&self, parts: &[SymbolPart<'_>], ids: &mut [u32]) {
        let Some(first) = parts.first() else {
            return;
        };
        let own = parts.iter().map(|part| OwnNames {
            input: part.input,
            first_symbol: part.inputs[part.input].symbols.start(),
            table: part.inputs[part.input].symbol_names(),
            place: |index: u32| part.symbols[usize_of(index)].name,
        });
        self.intern_inputs(first.inputs, &own.collect::<Vec<_>>(), ids);
    }

    fn intern_inputs(
        &self,
        inputs: &Inputs,
        own: &[OwnNames<'_, impl Fn(u32) -> u32>],
        ids: &mut [u32],
    ) {
        let Some(first) = own.first() else {
            return;
        };
        // The symbols by shard.
        let mut ends = [0; SHARDS];
        for &hash in ids.iter().filter(|&&hash| hash != 0) {
            ends[shard_of(hash)] += 1;
        }
        let mut n = 0;
        let mut starts = [0; SHARDS];
        for (start, end) in starts.iter_mut().zip(&mut ends) {
            *start = n;
            n += *end;
            *end = *start;
        }
        let mut order = vec![0; n];
        for (index, &hash) in (0_u32..).zip(&*ids) {
            if hash != 0 {
                let end = &mut ends[shard_of(hash)];
                order[*end] = index;
                *end += 1;
            }
        }

        let mut batch = Vec::with_capacity(BATCH.min(n));
        let mut intern = |number: usize, shard: &mut Shard| {
            let mut of = 0;
            for symbols in order[starts[number]..ends[number]].chunks(BATCH) {
                batch.clear();
                batch.extend(symbols.iter().map(|&index| {
                    let symbol = first.first_symbol + usize_of(index);
                    while own
                        .get(of + 1)
                        .is_some_and(|next| next.first_symbol <= symbol)
                    {
                        of += 1;
                    }
                    let own = &own[of];
                    let place = (own.place)(u32_of(symbol - own.first_symbol));
                    Wanted {
                        index,
                        input: own.input,
                        place,
                        hash: ids[usize_of(index)],
                        name: own.table.get(usize_of(place)..).unwrap_or(&[]),
                        likely: 0,
                        record: Record::NONE,
                        is_it: false,
                    }
                }));
                self.look_up(shard, inputs, &mut batch);
                for wanted in &batch {
                    let symbol = u32_of(first.first_symbol + usize_of(wanted.index));
                    let local = if wanted.is_it {
                        wanted.likely
                    } else {
                        self.intern_one(shard, inputs, symbol, wanted)
                    };
                    let record = &mut shard.records[usize_of(local) - 1];
                    record.first = record.first.min(symbol);
                    ids[usize_of(wanted.index)] = id_of(number, local).0.get();
                }
            }
        };
        // Not all threads begin with the same shard, and those that another one has come last:
        // else the threads would go through the shards one behind the other.
        let mut busy = Vec::new();
        for number in (0..SHARDS).map(|number| (first.input.index() + number) % SHARDS) {
            if starts[number] == ends[number] {
                continue;
            }
            match self.shards[number].try_lock() {
                Ok(mut shard) => intern(number, &mut shard),
                Err(_) => busy.push(number),
            }
        }
        for number in busy {
            let shard = self.shards[number].lock();
            intern(number, &mut shard.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Finds most of the names that are known, all of them one step at a time.
    fn look_up(&self, shard: &Shard, inputs: &Inputs, batch: &mut [Wanted<'_>]) {
        for wanted in &mut *batch {
            wanted.likely = shard.table.first(wanted.hash);
        }
        for wanted in &mut *batch {
            let some = usize_of(wanted.likely.saturating_sub(1));
            if let Some(record) = shard.records.get(some) {
                wanted.record = *record;
            }
        }
        for wanted in &mut *batch {
            let name = bytes(inputs, &self.given, &wanted.record);
            wanted.is_it = wanted.likely != 0 && wanted.is(name);
        }
    }

    fn intern_one(
        &self,
        shard: &mut Shard,
        inputs: &Inputs,
        symbol: u32,
        wanted: &Wanted<'_>,
    ) -> u32 {
        let found = shard.table.find(wanted.hash, |local| {
            wanted.is(bytes(
                inputs,
                &self.given,
                &shard.records[usize_of(local) - 1],
            ))
        });
        found.unwrap_or_else(|| {
            let end = memchr::memchr(0, wanted.name);
            let record = Record {
                input: Some(wanted.input),
                place: wanted.place,
                len: u32_of(end.unwrap_or(wanted.name.len())),
                first: symbol,
            };
            shard.insert(wanted.hash, record)
        })
    }
}

/// Ids that shards gave, to those they have since. `moved` has, per shard, the new places of the
/// names behind the `known` ones.
fn renumber(ids: &mut [u32], moved: &[Option<Vec<u32>>], known: &[usize; SHARDS]) {
    for raw in ids.iter_mut().filter(|raw| **raw != 0) {
        let index = usize_of(*raw - 1);
        let (shard, local) = (index % SHARDS, index / SHARDS);
        if let (Some(places), Some(new)) = (&moved[shard], local.checked_sub(known[shard])) {
            *raw = id_of(shard, places[new]).0.get();
        }
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
        self.table.reserve(more);
    }

    /// Adds a name that is not there; answers its number in the shard, counted from 1.
    fn insert(&mut self, hash: u32, record: Record) -> u32 {
        self.records.push(record);
        let local = u32_of(self.records.len());
        self.table.reserve(1);
        self.table.place(hash, local);
        local
    }

    /// Puts the names behind the first `known` into the order of their first symbols; answers
    /// their new numbers, or `None` when they had it.
    fn sort_from(&mut self, known: usize) -> Option<Vec<u32>> {
        let new = &mut self.records[known..];
        if new.is_sorted_by_key(|record| record.first) {
            return None;
        }
        // One number each, which sorts faster than two.
        let order = (0_u64..).zip(&*new);
        let mut order: Vec<u64> = order
            .map(|(n, record)| u64::from(record.first) << 32 | n)
            .collect();
        order.sort_unstable();
        let old = new.to_vec();
        let mut places = vec![0; old.len()];
        for ((slot, &key), local) in new.iter_mut().zip(&order).zip(u32_of(known) + 1..) {
            let from = usize_of(low_u32(key));
            *slot = old[from];
            places[from] = local;
        }
        self.table.renumber(known, &places);
        Some(places)
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

    /// Puts a name that is not there where there is room.
    fn place(&mut self, hash: u32, local: u32) {
        let mut at = self.start(hash);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = u64::from(hash) << 32 | u64::from(local);
        self.used += 1;
    }

    /// Makes room for so many more.
    fn reserve(&mut self, more: usize) {
        let want = (self.used + more) * 2;
        if want <= self.slots.len() {
            return;
        }
        let slots = vec![0; want.next_power_of_two().max(16)];
        let old = std::mem::replace(&mut self.slots, slots);
        self.used = 0;
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            self.place(high_u32(slot), low_u32(slot));
        }
    }

    /// Gives the names behind the first `known` the numbers of `places`.
    fn renumber(&mut self, known: usize, places: &[u32]) {
        for slot in self.slots.iter_mut().filter(|slot| **slot != 0) {
            let new = (usize_of(low_u32(*slot)) - 1).checked_sub(known);
            if let Some(&local) = new.and_then(|new| places.get(new)) {
                *slot = u64::from(high_u32(*slot)) << 32 | u64::from(local);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphTarget;

    static TARGET: GraphTarget = GraphTarget {
        name: "test",
        pointer_size: 8,
        endian: crate::Endian::Little,
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
