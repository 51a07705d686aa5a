//! The archives of a dylib: one table from names to members over all of them, the first archive
//! that has a name answering for it.

use crate::error::LinkError;
use bytes::Bytes;
use clinch_graph::index::int::{low_u32, u32_of, u64_of, usize_of, usize_of_u64};
use clinch_graph::index::map::{Set, hash_name};
use clinch_graph::{InputName, LinkGraph, Names, Workers};
use clinch_object::archive::{MemberContent, member_path};
use clinch_object::error::InputError;
use clinch_object::{Archive, FileBytes, FileKind, ReadOptions, add_objects};
use clinch_target::Arch;
use hashbrown::HashTable;
use std::path::Path;
use std::sync::Arc;

/// Archives in the order in which they are searched.
#[derive(Debug, Default)]
pub(crate) struct Archives {
    list: Vec<Entry>,
    /// How many archives the table covers.
    covered: usize,
    table: HashTable<Definition>,
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

impl Archives {
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
    pub(crate) fn position_of(
        &mut self,
        arch: &'static Arch,
        name: &[u8],
    ) -> Result<Option<usize>, LinkError> {
        self.cover(arch)?;
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
        self.table
            .find(spread(hash), |found| {
                found.hash == hash && self.text(found) == name
            })
            .copied()
    }

    fn text(&self, found: &Definition) -> &[u8] {
        let start = usize_of_u64(found.name);
        let table = if found.pooled {
            &self.pool[..]
        } else {
            self.list[usize_of(found.archive)].archive.bytes()
        };
        table.get(start..start + usize_of(found.len)).unwrap_or(&[])
    }

    /// Puts the names of archives that were added since into the table.
    fn cover(&mut self, arch: &'static Arch) -> Result<(), LinkError> {
        while self.covered < self.list.len() {
            let number = self.covered;
            self.covered += 1;
            let entry = &self.list[number];
            let bytes = entry.archive.bytes().clone();
            let fail = |source| input_error(&entry.path, source);
            let Some(index) = entry.archive.index().map_err(fail)? else {
                self.cover_members(arch, number)?;
                continue;
            };
            let base = bytes.as_ptr().addr();
            self.table.reserve(index.len(), |found| spread(found.hash));
            let mut definitions = Vec::with_capacity(index.len());
            for item in index.entries() {
                let item = item.map_err(fail)?;
                definitions.push(Definition {
                    hash: low_u32(hash_name(item.name)),
                    archive: u32_of(number),
                    name: u64_of(item.name.as_ptr().addr() - base),
                    len: u32_of(item.name.len()),
                    pooled: false,
                    member: item.member,
                });
            }
            for definition in definitions {
                self.insert(definition);
            }
        }
        Ok(())
    }

    /// An archive without index: reads the symbols of every member.
    fn cover_members(&mut self, arch: &'static Arch, number: usize) -> Result<(), LinkError> {
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
        let mut graph = LinkGraph::new(&entry.path, &arch.graph);
        let options = ReadOptions { metadata: false };
        let added = add_objects(
            &mut graph,
            &mut Names::new(),
            &Workers::new(1),
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
                let definition = Definition {
                    hash: low_u32(hash_name(name)),
                    archive: u32_of(number),
                    name: u64_of(self.pool.len()),
                    len: u32_of(name.len()),
                    pooled: true,
                    member,
                };
                self.pool.extend_from_slice(name);
                self.insert(definition);
            }
        }
        Ok(())
    }

    /// The first definition of a name stays.
    fn insert(&mut self, new: Definition) {
        let known = self
            .table
            .find(spread(new.hash), |old| {
                old.hash == new.hash && self.text(old) == self.text(&new)
            })
            .is_some();
        if !known {
            self.table
                .insert_unique(spread(new.hash), new, |found| spread(found.hash));
        }
    }
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

fn input_error(path: &str, source: clinch_object::ReadError) -> LinkError {
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

/// The table wants its bits in the high part too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
