//! What a shared object offers to those that link with it: its names, the names it asks for, and
//! its dynamic symbols with their versions (gABI, Dynamic Section; LSB, Symbol Versioning).
//!
//! [`SharedObject::parse`] finds the tables, through the section headers or, where these were
//! stripped, through the program headers, and reads the few version records. Symbols are not
//! walked: [`SharedObject::find`] uses the library's own hash table. Names are not copied.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod hash;
mod tables;
#[cfg(test)]
mod tests;
mod version;

pub use hash::gnu_hash;

use super::raw::{ET_DYN, Format, Header, RawSymbol, name_at, shn, st};
use crate::error::{ReadError, ReadErrorKind};
use bytes::Bytes;
use clinch_graph::index::int::{u64_of, usize_of};
use hash::{Cursor, SymbolHash};
use std::ops::Range;
use tables::{Tables, dt, dynamic_entries};
use version::{VersionIndex, Versions};

type Result<T> = std::result::Result<T, ReadError>;

/// A shared object. Cloning it does not copy its bytes.
#[derive(Clone, Debug)]
pub struct SharedObject {
    bytes: Bytes,
    header: Header,
    tables: Tables,
    hash: SymbolHash,
    versions: Versions,
    soname: Option<Range<usize>>,
    needed: Vec<Range<usize>>,
    rpath: Option<Range<usize>>,
    runpath: Option<Range<usize>>,
    flags_1: u64,
}

/// A symbol of the dynamic symbol table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicSymbol<'a> {
    /// Its number in the table.
    pub index: u32,
    /// Its name, without a version.
    pub name: &'a [u8],
    /// Its version.
    pub version: SymbolVersion<'a>,
    /// Type, binding, visibility, section, value and size, as the file has them.
    pub raw: RawSymbol,
}

/// The version of a dynamic symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolVersion<'a> {
    /// None: the library has no versions, or this symbol is of its base version.
    Unversioned,
    /// Not visible outside of the library, whatever the binding says.
    Local,
    /// A version that the library defines.
    Defined {
        /// The version's name.
        name: &'a [u8],
        /// `name@@version`, which references without a version bind to, and not `name@version`.
        is_default: bool,
    },
    /// A version that the library asks for.
    Needed {
        /// The version's name.
        name: &'a [u8],
        /// The library that is to have it, by its soname.
        file: &'a [u8],
    },
}

impl<'a> SymbolVersion<'a> {
    /// The version's name.
    pub fn name(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Unversioned | Self::Local => None,
            Self::Defined { name, .. } | Self::Needed { name, .. } => Some(name),
        }
    }
}

impl DynamicSymbol<'_> {
    /// Whether the library defines it.
    pub fn is_defined(&self) -> bool {
        self.raw.section != shn::UNDEF
    }

    /// Whether the library defines it for others to use.
    pub fn is_export(&self) -> bool {
        is_export(&self.raw) && self.version != SymbolVersion::Local
    }

    /// Whether references without a version bind to it.
    pub fn is_default(&self) -> bool {
        self.is_export()
            && matches!(
                self.version,
                SymbolVersion::Unversioned
                    | SymbolVersion::Defined {
                        is_default: true,
                        ..
                    }
            )
    }
}

/// What the symbol itself tells about being usable from outside.
fn is_export(raw: &RawSymbol) -> bool {
    raw.section != shn::UNDEF
        && raw.binding() != st::LOCAL
        && !matches!(raw.visibility(), st::HIDDEN | st::INTERNAL)
}

/// A segment that is mapped, as far as a copy relocation asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadSegment {
    /// `p_vaddr`.
    pub address: u64,
    /// `p_memsz`.
    pub size: u64,
    /// Whether the program may write to it, `PF_W`.
    pub is_writable: bool,
}

impl SharedObject {
    /// Finds the tables of a shared object and reads all but its symbols.
    ///
    /// # Errors
    ///
    /// When this is not a shared object, or a table is malformed or not inside the file.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let header = Header::parse(&bytes)?;
        if header.kind != ET_DYN {
            return Err(ReadError::new(16, ReadErrorKind::NotShared(header.kind)));
        }
        let tables = Tables::find(&header, &bytes)?;
        let hash = SymbolHash::parse(header.format, &bytes, &tables)?;
        let versions = Versions::parse(header.format, &bytes, &tables)?;
        let mut object = Self {
            bytes,
            header,
            tables,
            hash,
            versions,
            soname: None,
            needed: Vec::new(),
            rpath: None,
            runpath: None,
            flags_1: 0,
        };
        object.read_dynamic()?;
        Ok(object)
    }

    fn read_dynamic(&mut self) -> Result<()> {
        let bytes = self.bytes.clone();
        let strings = self.tables.dynamic_strings.clone();
        let name = |offset: u64| {
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            name_range(&bytes, &strings, "dynamic entry", offset)
        };
        let dynamic = part(&bytes, &self.tables.dynamic);
        for (tag, value) in dynamic_entries(self.header.format, dynamic) {
            match tag {
                dt::NEEDED => self.needed.push(name(value)?),
                dt::SONAME => self.soname = Some(name(value)?),
                dt::RPATH => self.rpath = Some(name(value)?),
                dt::RUNPATH => self.runpath = Some(name(value)?),
                dt::FLAGS_1 => self.flags_1 = value,
                _ => {}
            }
        }
        Ok(())
    }

    /// The whole file.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Class and byte order.
    pub fn format(&self) -> Format {
        self.header.format
    }

    /// `e_machine`.
    pub fn machine(&self) -> u16 {
        self.header.machine
    }

    /// `e_flags`.
    pub fn flags(&self) -> u32 {
        self.header.flags
    }

    /// The name by which those that link with it ask for it, `DT_SONAME`.
    pub fn soname(&self) -> Option<&[u8]> {
        self.soname.as_ref().map(|range| part(&self.bytes, range))
    }

    /// The libraries it asks for, `DT_NEEDED`, in order.
    pub fn needed(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.needed.iter().map(|range| part(&self.bytes, range))
    }

    /// Where it looks for libraries, `DT_RPATH`, folders parted by colons.
    pub fn rpath(&self) -> Option<&[u8]> {
        self.rpath.as_ref().map(|range| part(&self.bytes, range))
    }

    /// Where it looks for libraries, `DT_RUNPATH`, folders parted by colons.
    pub fn runpath(&self) -> Option<&[u8]> {
        self.runpath.as_ref().map(|range| part(&self.bytes, range))
    }

    /// Whether it says it is a program, which cannot be linked with (`DF_1_PIE`).
    pub fn is_program(&self) -> bool {
        self.flags_1 & 0x0800_0000 != 0
    }

    /// How many symbols the table has, the null symbol included.
    pub fn n_symbols(&self) -> u32 {
        self.tables.n_symbols
    }

    /// Symbol `index`.
    ///
    /// # Errors
    ///
    /// When there is no such symbol, or its name or version lies outside of the tables.
    pub fn symbol(&self, index: u32) -> Result<DynamicSymbol<'_>> {
        let raw = self.raw_symbol(index).ok_or_else(|| {
            self.symbols_error(ReadErrorKind::NoSymbol {
                what: "dynamic symbol table",
                index: index.into(),
                count: self.tables.n_symbols.into(),
            })
        })?;
        let strings = part(&self.bytes, &self.tables.strings);
        let name = name_at(strings, raw.name).ok_or_else(|| {
            self.symbols_error(ReadErrorKind::NameOutside {
                what: "dynamic symbol",
                offset: raw.name.into(),
                size: u64_of(strings.len()),
            })
        })?;
        Ok(DynamicSymbol {
            index,
            name,
            version: self.version(index)?,
            raw,
        })
    }

    /// All symbols but the null symbol, in the order of the table.
    pub fn symbols(&self) -> impl Iterator<Item = Result<DynamicSymbol<'_>>> {
        (1..self.tables.n_symbols).map(|index| self.symbol(index))
    }

    /// What the library exports under a name, one symbol to a version.
    pub fn versions_of<'a, 'n>(&'a self, name: &'n [u8]) -> Matches<'a, 'n> {
        self.versions_of_hashed(name, gnu_hash(name))
    }

    /// As [`SharedObject::versions_of`], with the name's [`gnu_hash`] known: worth it when many
    /// libraries are asked.
    #[inline]
    pub fn versions_of_hashed<'a, 'n>(&'a self, name: &'n [u8], hash: u32) -> Matches<'a, 'n> {
        Matches {
            object: self,
            name,
            cursor: self.hash.start(self.header.format, &self.bytes, name, hash),
        }
    }

    /// What a reference without a version binds to.
    ///
    /// # Errors
    ///
    /// When the symbol of this name has a version outside of the tables.
    pub fn find(&self, name: &[u8]) -> Result<Option<DynamicSymbol<'_>>> {
        self.find_hashed(name, gnu_hash(name))
    }

    /// As [`SharedObject::find`], with the name's [`gnu_hash`] known.
    ///
    /// # Errors
    ///
    /// As [`SharedObject::find`].
    #[inline]
    pub fn find_hashed(&self, name: &[u8], hash: u32) -> Result<Option<DynamicSymbol<'_>>> {
        self.pick(name, hash, |symbol| symbol.is_default())
    }

    /// What a reference `name@version` binds to.
    ///
    /// # Errors
    ///
    /// As [`SharedObject::find`].
    pub fn find_version(&self, name: &[u8], version: &[u8]) -> Result<Option<DynamicSymbol<'_>>> {
        self.pick(name, gnu_hash(name), |symbol| {
            symbol.version.name() == Some(version)
        })
    }

    fn pick(
        &self,
        name: &[u8],
        hash: u32,
        want: impl Fn(&DynamicSymbol<'_>) -> bool,
    ) -> Result<Option<DynamicSymbol<'_>>> {
        for symbol in self.versions_of_hashed(name, hash) {
            let symbol = symbol?;
            if want(&symbol) {
                return Ok(Some(symbol));
            }
        }
        Ok(None)
    }

    /// The alignment that a copy of the symbol needs: as much as its address and its section
    /// tell.
    pub fn alignment(&self, symbol: &RawSymbol) -> u64 {
        let section = self
            .header
            .sections(&self.bytes)
            .get(usize::from(symbol.section))
            .filter(|_| symbol.section < shn::LORESERVE)
            .map_or(1 << 12, |section| section.align.max(1));
        let address = match symbol.value {
            0 => section,
            value => 1 << value.trailing_zeros(),
        };
        section.min(address)
    }

    /// The segments that are mapped.
    pub fn load_segments(&self) -> &[LoadSegment] {
        &self.tables.segments
    }

    /// The addresses that become read-only once the library is relocated, `PT_GNU_RELRO`.
    pub fn relro(&self) -> Option<Range<u64>> {
        self.tables.relro.clone()
    }

    /// Whether the program cannot write to this address once the library is relocated.
    pub fn is_read_only(&self, address: u64) -> bool {
        let is_in = |start: u64, size: u64| {
            address
                .checked_sub(start)
                .is_some_and(|distance| distance < size)
        };
        let segment = self
            .tables
            .segments
            .iter()
            .find(|segment| is_in(segment.address, segment.size));
        segment.is_some_and(|segment| !segment.is_writable)
            || self.relro().is_some_and(|range| range.contains(&address))
    }

    /// The names of the versions that the library defines, without its base version.
    pub fn defined_versions(&self) -> impl Iterator<Item = &[u8]> {
        self.versions
            .defined()
            .map(|range| part(&self.bytes, range))
    }

    #[inline]
    fn raw_symbol(&self, index: u32) -> Option<RawSymbol> {
        if index >= self.tables.n_symbols {
            return None;
        }
        let size = self.header.format.symbol_size();
        let start = usize_of(index).checked_mul(size)?;
        let table = part(&self.bytes, &self.tables.symbols);
        RawSymbol::parse(self.header.format, table.get(start..)?)
    }

    /// Whether the symbol has this name and can be used from outside.
    #[inline]
    fn is_match(&self, index: u32, name: &[u8]) -> bool {
        let strings = part(&self.bytes, &self.tables.strings);
        self.raw_symbol(index).is_some_and(|raw| {
            strings
                .get(usize_of(raw.name)..)
                .and_then(|rest| rest.strip_prefix(name))
                .is_some_and(|rest| rest.first() == Some(&0))
                && is_export(&raw)
        })
    }

    fn version(&self, index: u32) -> Result<SymbolVersion<'_>> {
        let Some(table) = &self.tables.versym else {
            return Ok(SymbolVersion::Unversioned);
        };
        let numbers = part(&self.bytes, table);
        let number = usize_of(index)
            .checked_mul(2)
            .and_then(|place| self.header.format.u16(numbers, place))
            .map(VersionIndex::new);
        let number = number.ok_or_else(|| {
            let kind = ReadErrorKind::Version("table ends before the last symbol");
            ReadError::new(u64_of(table.start), kind)
        })?;
        self.versions.get(&self.bytes, number).ok_or_else(|| {
            let kind = ReadErrorKind::NoVersion {
                symbol: index,
                version: number.number(),
            };
            ReadError::new(u64_of(table.start), kind)
        })
    }

    fn symbols_error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError::new(u64_of(self.tables.symbols.start), kind)
    }
}

/// Iterator over what a library exports under one name.
#[derive(Clone, Debug)]
pub struct Matches<'a, 'n> {
    object: &'a SharedObject,
    name: &'n [u8],
    cursor: Cursor,
}

impl<'a> Iterator for Matches<'a, '_> {
    type Item = Result<DynamicSymbol<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let object = self.object;
        loop {
            let index = self.cursor.next(
                object.header.format,
                &object.bytes,
                &object.hash,
                object.tables.n_symbols,
            )?;
            if object.is_match(index, self.name) {
                let symbol = object.symbol(index);
                if symbol.as_ref().map_or(true, DynamicSymbol::is_export) {
                    return Some(symbol);
                }
            }
        }
    }
}

/// The bytes at a range that was checked when it was made.
#[inline]
fn part<'a>(bytes: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    bytes.get(range.clone()).unwrap_or(&[])
}

/// Where in the file the name at `offset` of a string table is.
fn name_range(
    bytes: &[u8],
    strings: &Range<usize>,
    what: &'static str,
    offset: u32,
) -> Result<Range<usize>> {
    let table = part(bytes, strings);
    let range = name_at(table, offset).and_then(|name| {
        let start = strings.start.checked_add(usize_of(offset))?;
        Some(start..start.checked_add(name.len())?)
    });
    range.ok_or_else(|| {
        let kind = ReadErrorKind::NameOutside {
            what,
            offset: offset.into(),
            size: u64_of(table.len()),
        };
        ReadError::new(u64_of(strings.start), kind)
    })
}
