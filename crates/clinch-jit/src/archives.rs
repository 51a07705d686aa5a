//! The archives of a dylib: one table from names to members over all of them, the first archive
//! that has a name answering for it.

use crate::error::LinkError;
use bytes::Bytes;
use clinch_graph::index::int::{low_u32, u32_of, u64_of, usize_of, usize_of_u64};
use clinch_graph::index::map::{Set, hash_name};
use clinch_graph::{InputName, LinkGraph, Names, Workers};
use clinch_object::archive::{ArchiveIndex, MemberContent, member_path};
use clinch_object::error::InputError;
use clinch_object::{Archive, FileBytes, FileKind, ReadError, ReadOptions, add_objects};
use clinch_target::Arch;
use hashbrown::HashTable;
use std::path::Path;
use std::sync::Arc;

/// How many parts the table has: as many threads can fill it at once.
const SHARDS: usize = 8;

/// What it takes to put a name into the table, as if so many bytes were read.
const COST: usize = 256;

/// Archives in the order in which they are searched.
#[derive(Debug)]
pub(crate) struct Archives {
    arch: &'static Arch,
    workers: Arc<Workers>,
    list: Vec<Entry>,
    /// How many archives the table covers.
    covered: usize,
    table: [HashTable<Definition>; SHARDS],
    /// Names that are not in an archive's own bytes.
    pool: Vec<u8>,
}

/// An archive member to be read.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its archive and its place in it.
    pub(crate) order: (usize, u64),
    pub(crate) name: InputName,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
struct Entry {
    path: Arc<str>,
    archive: Archive,
    /// Place among all libraries.
    position: usize,
    taken: Set<u64>,
}

/// A name and the member that defines it.
#[derive(Clone, Copy, Debug)]
struct Definition {
    hash: u32,
    archive: u32,
    /// Offset of the name in the archive, or in the pool.
    name: u64,
    len: u32,
    pooled: bool,
    member: u64,
}

/// What an archive's index defines, by shard.
type ByShard = [Vec<Definition>; SHARDS];

impl Archives {
    /// None, of an architecture.
    pub(crate) fn new(arch: &'static Arch, workers: Arc<Workers>) -> Self {
        Self {
            arch,
            workers,
            list: Vec::new(),
            covered: 0,
            table: Default::default(),
            pool: Vec::new(),
        }
    }

    /// Adds an archive behind the others; `position` is its place among all libraries.
    pub(crate) fn add(
        &mut self,
        path: &str,
        bytes: Bytes,
        position: usize,
    ) -> Result<(), LinkError> {
        let archive = Archive::parse(bytes).map_err(|source| input_error(path, source))?;
        self.list.push(Entry {
            path: path.into(),
            archive,
            position,
            taken: Set::default(),
        });
        Ok(())
    }

    /// The place among all libraries of the archive that defines a name.
    pub(crate) fn position_of(&mut self, name: &[u8]) -> Result<Option<usize>, LinkError> {
        self.cover()?;
        Ok(self
            .find(name)
            .map(|found| self.list[usize_of(found.archive)].position))
    }

    /// The member that defines a name, unless it was taken before.
    pub(crate) fn take(&mut self, name: &[u8]) -> Result<Option<Member>, LinkError> {
        let Some(found) = self.find(name) else {
            return Ok(None);
        };
        let index = usize_of(found.archive);
        let entry = &mut self.list[index];
        if !entry.taken.insert(found.member) {
            return Ok(None);
        }
        let entry = &self.list[index];
        let (input, bytes) = entry.read(found.member)?;
        match FileKind::of(&bytes) {
            FileKind::ElfRelocatable => Ok(Some(Member {
                order: (index, found.member),
                name: input,
                bytes,
            })),
            kind => Err(LinkError::File {
                path: input.to_string(),
                why: format!("cannot link this kind of file: {}", kind.describe()),
            }),
        }
    }

    /// Lets a member be taken again.
    pub(crate) fn give_back(&mut self, (index, member): (usize, u64)) {
        if let Some(entry) = self.list.get_mut(index) {
            entry.taken.remove(&member);
        }
    }

    /// All members of all archives that were not taken yet.
    pub(crate) fn take_all(&mut self) -> Result<Vec<(InputName, Bytes)>, LinkError> {
        let mut members = Vec::new();
        for entry in &mut self.list {
            let mut offsets = Vec::new();
            for member in entry.archive.members() {
                let member = member.map_err(|source| input_error(&entry.path, source))?;
                offsets.push(member.offset);
            }
            for offset in offsets {
                if entry.taken.insert(offset) {
                    members.push(entry.read(offset)?);
                }
            }
        }
        Ok(members)
    }

    fn find(&self, name: &[u8]) -> Option<Definition> {
        let hash = low_u32(hash_name(name));
        self.find_hashed(hash, name).copied()
    }

    fn find_hashed(&self, hash: u32, name: &[u8]) -> Option<&Definition> {
        let is_it = |found: &Definition| found.hash == hash && self.text(found) == name;
        self.table[shard_of(hash)].find(spread(hash), is_it)
    }

    fn text(&self, found: &Definition) -> &[u8] {
        text(&self.list, &self.pool, found)
    }

    /// Puts the names of archives that were added since into the table.
    fn cover(&mut self) -> Result<(), LinkError> {
        if self.covered == self.list.len() {
            return Ok(());
        }
        let first = std::mem::replace(&mut self.covered, self.list.len());
        let entries = self.list.iter().enumerate().skip(first);
        let indexes: Vec<_> = entries
            .map(|(number, entry)| (number, entry.archive.index()))
            .collect();
        let sound = indexes
            .iter()
            .filter_map(|(_, index)| *index.as_ref().ok()?);
        let cost = sound.map(|index| index.len()).sum::<usize>() * COST;
        let read = self.workers.map(cost, indexes, |(number, index)| {
            let definitions = index?.map(|index| definitions(number, &index));
            definitions.transpose()
        });

        let mut failed = Ok(());
        let mut ready = Vec::with_capacity(read.len());
        for (number, definitions) in (first..).zip(read) {
            match definitions {
                Ok(Some(definitions)) => ready.push(definitions),
                // Without an index: the members tell what they define.
                Ok(None) => match self.cover_members(number) {
                    Ok(definitions) => ready.push(definitions),
                    Err(error) => failed = failed.and(Err(error)),
                },
                Err(source) => {
                    let error = input_error(&self.list[number].path, source);
                    failed = failed.and(Err(error));
                }
            }
        }
        self.insert(cost, &ready);
        failed
    }

    /// The first definition of a name stays.
    fn insert(&mut self, cost: usize, archives: &[ByShard]) {
        let (list, pool) = (&self.list, &self.pool);
        let shards = self.table.iter_mut().enumerate().collect();
        self.workers.map(cost, shards, |(shard, table)| {
            let rehash = |found: &Definition| spread(found.hash);
            let more = archives.iter().map(|archive| archive[shard].len());
            table.reserve(more.sum(), rehash);
            for &new in archives.iter().flat_map(|archive| &archive[shard]) {
                let is_it = |old: &Definition| {
                    old.hash == new.hash && text(list, pool, old) == text(list, pool, &new)
                };
                table.entry(spread(new.hash), is_it, rehash).or_insert(new);
            }
        });
    }

    /// An archive without index: reads the symbols of every member.
    fn cover_members(&mut self, number: usize) -> Result<ByShard, LinkError> {
        let mut found = ByShard::default();
        let entry = &self.list[number];
        let (mut objects, mut offsets) = (Vec::new(), Vec::new());
        for member in entry.archive.members() {
            let member = member.map_err(|source| input_error(&entry.path, source))?;
            let (name, bytes) = entry.read(member.offset)?;
            if FileKind::of(&bytes) == FileKind::ElfRelocatable {
                objects.push((name, bytes));
                offsets.push(member.offset);
            }
        }
        let mut graph = LinkGraph::new(&entry.path, &self.arch.graph);
        let options = ReadOptions { metadata: false };
        let added = add_objects(
            &mut graph,
            &mut Names::new(),
            &self.workers,
            objects,
            options,
        )
        .map_err(|errors| first(errors, &entry.path))?;
        for (input, member) in added.inputs.iter().zip(offsets) {
            for symbol in graph.input(input).symbols().iter() {
                let flags = graph.symbol_flags(symbol);
                if !flags.is_definition() || !flags.is_global() {
                    continue;
                }
                let name = graph.symbol_name_in(input, symbol);
                let hash = low_u32(hash_name(name));
                found[shard_of(hash)].push(Definition {
                    hash,
                    archive: u32_of(number),
                    name: u64_of(self.pool.len()),
                    len: u32_of(name.len()),
                    pooled: true,
                    member,
                });
                self.pool.extend_from_slice(name);
            }
        }
        Ok(found)
    }
}

/// What an archive's index defines.
fn definitions(number: usize, index: &ArchiveIndex<'_>) -> Result<ByShard, ReadError> {
    let mut found = ByShard::default();
    for shard in &mut found {
        shard.reserve(index.len() / SHARDS);
    }
    for item in index.entries() {
        let item = item?;
        let hash = low_u32(hash_name(item.name));
        found[shard_of(hash)].push(Definition {
            hash,
            archive: u32_of(number),
            name: u64_of(item.name_offset),
            len: u32_of(item.name.len()),
            pooled: false,
            member: item.member,
        });
    }
    Ok(found)
}

/// The name of a definition of one of some archives.
fn text<'a>(list: &'a [Entry], pool: &'a [u8], found: &Definition) -> &'a [u8] {
    let start = usize_of_u64(found.name);
    let table = if found.pooled {
        pool
    } else {
        list[usize_of(found.archive)].archive.bytes()
    };
    table.get(start..start + usize_of(found.len)).unwrap_or(&[])
}

impl Entry {
    fn read(&self, offset: u64) -> Result<(InputName, Bytes), LinkError> {
        let member = self
            .archive
            .member_at(offset)
            .map_err(|source| input_error(&self.path, source))?;
        let text = String::from_utf8_lossy(member.name).into_owned();
        let name = InputName::member(Arc::clone(&self.path), &text);
        if let Some(bytes) = self.archive.content(&member) {
            return Ok((name, bytes));
        }
        let path = member_path(Path::new(&*self.path), member.name);
        let bytes = FileBytes::open(&path).map_err(|error| LinkError::File {
            path: name.to_string(),
            why: error.to_string(),
        })?;
        let MemberContent::File {
            nested: Some(offset),
            ..
        } = member.content
        else {
            return Ok((name, bytes));
        };
        // A member of an archive that a thin archive holds.
        let path = path.display().to_string();
        let inner = Archive::parse(bytes).map_err(|source| input_error(&path, source))?;
        let member = inner
            .member_at(offset)
            .map_err(|source| input_error(&path, source))?;
        let bytes = inner.content(&member).ok_or_else(|| LinkError::File {
            path: name.to_string(),
            why: "a thin archive in a thin archive".to_owned(),
        })?;
        Ok((name, bytes))
    }
}

fn input_error(path: &str, source: ReadError) -> LinkError {
    InputError {
        input: InputName::file(path),
        section: None,
        source,
    }
    .into()
}

fn first(errors: Vec<InputError>, path: &str) -> LinkError {
    errors.into_iter().next().map_or_else(
        || LinkError::File {
            path: path.to_owned(),
            why: "cannot be read".to_owned(),
        },
        LinkError::from,
    )
}

/// The shard of a hash, by bits that its table does not go by.
fn shard_of(hash: u32) -> usize {
    usize_of(hash >> 20) % SHARDS
}

/// The table wants its bits in the high part too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
