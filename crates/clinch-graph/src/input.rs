//! Inputs: where blocks, names and relocation records are read from.

use crate::edge::EdgeSource;
use crate::ids::{BlockId, ComdatId, SectionId, SymbolId};
use crate::index::id::IdRange;
use crate::index::int::usize_of;
use bytes::Bytes;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How messages name an input: a file, or `archive(member)`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InputName {
    /// The file.
    pub file: Arc<str>,
    /// The member, when the file is an archive.
    pub member: Option<Arc<str>>,
}

impl InputName {
    /// An input that is a whole file.
    pub fn file(file: &str) -> Self {
        Self {
            file: file.into(),
            member: None,
        }
    }

    /// An input that is a member of an archive.
    pub fn member(file: Arc<str>, member: &str) -> Self {
        Self {
            file,
            member: Some(member.into()),
        }
    }
}

impl fmt::Display for InputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member {
            Some(member) => write!(f, "{}({member})", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// One input of a graph.
#[derive(Clone, Debug)]
pub struct Input {
    /// How messages name it.
    pub name: InputName,
    pub(crate) bytes: Bytes,
    pub(crate) symbol_names: Range<usize>,
    pub(crate) section_names: Range<usize>,
    pub(crate) source: Option<Arc<dyn EdgeSource>>,
    pub(crate) symbols: IdRange<SymbolId>,
    pub(crate) sections: IdRange<SectionId>,
    pub(crate) blocks: IdRange<BlockId>,
    pub(crate) comdats: IdRange<ComdatId>,
}

impl Input {
    /// The whole file or member.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its symbols, in its own numbering: symbol `n` of the file is the `n`-th of the range.
    pub fn symbols(&self) -> IdRange<SymbolId> {
        self.symbols
    }

    /// The sections read from it.
    pub fn sections(&self) -> IdRange<SectionId> {
        self.sections
    }

    /// The blocks read from it.
    pub fn blocks(&self) -> IdRange<BlockId> {
        self.blocks
    }

    /// Its COMDAT groups.
    pub fn comdats(&self) -> IdRange<ComdatId> {
        self.comdats
    }

    /// The table of its symbols' names; empty when the reader named a range outside its bytes.
    #[inline]
    pub fn symbol_names(&self) -> &[u8] {
        self.bytes.get(self.symbol_names.clone()).unwrap_or(&[])
    }

    /// The table of its sections' names, likewise.
    #[inline]
    pub(crate) fn section_names(&self) -> &[u8] {
        self.bytes.get(self.section_names.clone()).unwrap_or(&[])
    }

    pub(crate) fn symbol_name(&self, offset: u32) -> &[u8] {
        c_string(self.symbol_names(), offset)
    }

    pub(crate) fn section_name(&self, offset: u32) -> &[u8] {
        c_string(self.section_names(), offset)
    }
}

/// What a reader gives to add an input to a graph.
#[derive(Debug)]
pub struct NewInput {
    /// How messages name it.
    pub name: InputName,
    /// The whole file or member.
    pub bytes: Bytes,
    /// Where in it the symbols' names are; inside `bytes`.
    pub symbol_names: Range<usize>,
    /// Where in it the sections' names are; inside `bytes`.
    pub section_names: Range<usize>,
    /// Decodes its relocation records.
    pub source: Option<Arc<dyn EdgeSource>>,
    /// How many symbols it has, the null symbol included.
    pub n_symbols: usize,
}

/// The bytes from `offset` up to a zero byte or the end of the table; empty when the offset lies
/// outside.
#[inline]
pub(crate) fn c_string(table: &[u8], offset: u32) -> &[u8] {
    let rest = table.get(usize_of(offset)..).unwrap_or(&[]);
    &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
}
