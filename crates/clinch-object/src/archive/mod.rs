//! Archives of object files, without copying: GNU (`/` or `/SYM64/` index, `//` long names), BSD
//! (`__.SYMDEF` and its kin, `#1/` names), COFF libraries as far as they are the GNU form, and
//! thin archives, whose members are files of their own.
//!
//! [`Archive::parse`] reads the special members at the front and nothing else. With an index,
//! [`IndexTable`] answers which member defines a name and [`Archive::member_at`] reads that
//! member's header; without one, read [`Archive::members`] all.
//!
//! Nothing here opens a file: for a member of a thin archive, see [`MemberContent::File`].
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod error;
mod index;
#[cfg(test)]
mod tests;

pub use error::ArchiveErrorKind;
pub use index::{ArchiveIndex, IndexEntries, IndexEntry, IndexTable};

use crate::error::{ReadError, ReadErrorKind};
use bytes::Bytes;
use clinch_graph::index::int::{u64_of, usize_of_u64};
use index::IndexLayout;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What an archive begins with.
pub const MAGIC: &[u8; 8] = b"!<arch>\n";
/// What a thin archive begins with.
pub const THIN_MAGIC: &[u8; 8] = b"!<thin>\n";

/// Size of a member header.
const HEADER_SIZE: usize = 60;

/// Result with an [`ReadError`].
pub type Result<T> = std::result::Result<T, ReadError>;

/// An archive. Cloning it does not copy its bytes.
#[derive(Clone, Debug)]
pub struct Archive {
    bytes: Bytes,
    is_thin: bool,
    /// The long-name table.
    long_names: Option<Range<usize>>,
    index: Option<(IndexLayout, Range<usize>)>,
    /// Offset of the first ordinary member.
    first: usize,
}

/// A member that is an input: not the index, not the long names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// Its name; in a thin archive the path of the file that holds its content, relative to the
    /// folder of the archive unless absolute ([`member_path`] joins them).
    pub name: &'a [u8],
    /// Offset of its header in the archive: what an index refers to, and what orders members.
    pub offset: u64,
    /// Where its content is.
    pub content: MemberContent,
}

/// Where the content of a member is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberContent {
    /// In the archive, at this range.
    Inside(Range<usize>),
    /// In the file that the member's name is the path of.
    File {
        /// Size of the content as the archive has it; a file of another size has changed since.
        size: u64,
        /// `None`: the content is the whole file (which may itself be an archive). Otherwise the
        /// file is an archive and the content is that of its member with the header at this
        /// offset: GNU `ar` writes this when an archive is added to a thin one.
        nested: Option<u64>,
    },
}

/// A member header, checked, its name not yet looked at.
struct Header<'a> {
    offset: usize,
    name: &'a [u8],
    size: u64,
}

impl Header<'_> {
    fn data(&self) -> usize {
        self.offset.saturating_add(HEADER_SIZE)
    }

    fn error(&self, kind: ArchiveErrorKind) -> ReadError {
        error(self.offset, kind)
    }
}

/// What a member is for, as its name tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Ordinary,
    Index(IndexLayout),
    LongNames,
    /// Special members of Microsoft's librarian.
    Other,
}

fn error(offset: usize, kind: ArchiveErrorKind) -> ReadError {
    ReadError::new(u64_of(offset), ReadErrorKind::Archive(kind))
}

impl Archive {
    /// Reads the magic number and the special members at the front.
    ///
    /// # Errors
    ///
    /// When this is no archive, or one of the headers looked at is malformed.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let is_thin = bytes.starts_with(THIN_MAGIC);
        if !is_thin && !bytes.starts_with(MAGIC) {
            return Err(error(0, ArchiveErrorKind::Magic));
        }
        let mut archive = Self {
            bytes,
            is_thin,
            long_names: None,
            index: None,
            first: MAGIC.len(),
        };
        while archive.first < archive.bytes.len() {
            let header = archive.header_at(archive.first)?;
            let role = archive.role(&header)?;
            if role == Role::Ordinary {
                break;
            }
            let (_, data) = archive.split_bsd_name(&header)?;
            archive.first = next_header(data.end);
            match role {
                // A COFF library has two indexes; the first is the one all linkers know.
                Role::Index(layout) if archive.index.is_none() => {
                    archive.index = Some((layout, data));
                }
                Role::LongNames if archive.long_names.is_none() => archive.long_names = Some(data),
                Role::Index(_) | Role::LongNames | Role::Other | Role::Ordinary => {}
            }
        }
        Ok(archive)
    }

    /// The whole archive.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether members are files of their own.
    pub fn is_thin(&self) -> bool {
        self.is_thin
    }

    /// The ordinary members in the order of the file. After an error nothing follows.
    pub fn members(&self) -> Members<'_> {
        Members {
            archive: self,
            next: self.first,
        }
    }

    /// The member whose header is at `offset`, as an index or a [`MemberContent::File`] gives it.
    ///
    /// # Errors
    ///
    /// When no ordinary member can be read there.
    pub fn member_at(&self, offset: u64) -> Result<Member<'_>> {
        // The magic number is not part of any member.
        let offset = usize_of_u64(offset);
        if offset < MAGIC.len() {
            return Err(error(offset, ArchiveErrorKind::TruncatedHeader));
        }
        let header = self.header_at(offset)?;
        match self.role(&header)? {
            Role::Ordinary => self.member(&header).map(|(member, _)| member),
            Role::Index(_) | Role::LongNames | Role::Other => {
                Err(header.error(ArchiveErrorKind::SpecialMember))
            }
        }
    }

    /// The content of a member of this archive, sharing its bytes; `None` when the content is in
    /// a file of its own.
    pub fn content(&self, member: &Member<'_>) -> Option<Bytes> {
        match &member.content {
            // The range was checked, but a member of another archive may have been given.
            MemberContent::Inside(range) if range.end <= self.bytes.len() => {
                Some(self.bytes.slice(range.clone()))
            }
            MemberContent::Inside(_) | MemberContent::File { .. } => None,
        }
    }

    /// The index, `None` when the archive has none: then each member has to be read.
    ///
    /// # Errors
    ///
    /// When the index is too small for what it says it holds.
    pub fn index(&self) -> Result<Option<ArchiveIndex<'_>>> {
        self.index
            .as_ref()
            .map(|(layout, range)| ArchiveIndex::parse(&self.bytes, *layout, range.clone()))
            .transpose()
    }

    /// Whether the archive has an index.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    fn header_at(&self, offset: usize) -> Result<Header<'_>> {
        let header = self
            .bytes
            .get(offset..)
            .and_then(|rest| rest.first_chunk::<HEADER_SIZE>())
            .ok_or_else(|| error(offset, ArchiveErrorKind::TruncatedHeader))?;
        let [name @ .., _, _] = header;
        if !header.ends_with(b"`\n") {
            return Err(error(offset, ArchiveErrorKind::Terminator));
        }
        // Name, date, user, group, mode: 16 + 12 + 6 + 6 + 8 bytes; then the size.
        let (name, size) = (name.get(..16), name.get(48..));
        let size = size
            .and_then(decimal)
            .ok_or_else(|| error(offset, ArchiveErrorKind::Size))?;
        Ok(Header {
            offset,
            name: trim_end(name.unwrap_or_default(), b' '),
            size,
        })
    }

    fn role(&self, header: &Header<'_>) -> Result<Role> {
        Ok(match header.name {
            b"/" => Role::Index(IndexLayout::Gnu32),
            b"/SYM64/" => Role::Index(IndexLayout::Gnu64),
            b"//" => Role::LongNames,
            [b'/', b'<', ..] => Role::Other,
            [b'#', b'1', b'/', ..] => bsd_role(self.split_bsd_name(header)?.0),
            name => bsd_role(name),
        })
    }

    /// The range of a member that is in the archive.
    fn data(&self, header: &Header<'_>) -> Result<Range<usize>> {
        let start = header.data();
        usize_of_u64(header.size)
            .checked_add(start)
            .filter(|&end| end <= self.bytes.len())
            .map(|end| start..end)
            .ok_or_else(|| header.error(ArchiveErrorKind::PastEnd { size: header.size }))
    }

    /// The name as the BSD form has it, in the header or before the content, and the content.
    fn split_bsd_name<'a>(&'a self, header: &Header<'a>) -> Result<(&'a [u8], Range<usize>)> {
        let data = self.data(header)?;
        let Some(length) = header.name.strip_prefix(b"#1/") else {
            return Ok((header.name, data));
        };
        decimal(length)
            .and_then(|length| data.start.checked_add(usize_of_u64(length)))
            .filter(|&end| end <= data.end)
            .and_then(|end| Some((self.bytes.get(data.start..end)?, end..data.end)))
            .map(|(name, content)| (trim_end(name, 0), content))
            .ok_or_else(|| header.error(ArchiveErrorKind::BsdName))
    }

    /// Reads an ordinary member, and answers where the next header is.
    fn member<'a>(&'a self, header: &Header<'a>) -> Result<(Member<'a>, usize)> {
        let offset = u64_of(header.offset);
        let (name, nested) = match header.name {
            [b'/', place @ ..] if !place.is_empty() => self.long_name(header, place)?,
            [name @ .., b'/'] => (name, None),
            name => (name, None),
        };
        if self.is_thin {
            let content = MemberContent::File {
                size: header.size,
                nested,
            };
            let member = Member {
                name,
                offset,
                content,
            };
            return Ok((member, header.data()));
        }
        let (split, data) = self.split_bsd_name(header)?;
        let name = if header.name.starts_with(b"#1/") {
            split
        } else {
            name
        };
        let end = data.end;
        let content = MemberContent::Inside(data);
        let member = Member {
            name,
            offset,
            content,
        };
        Ok((member, next_header(end)))
    }

    /// A name of the long-name table, `place` being `offset` or, in a thin archive,
    /// `offset:nested`.
    fn long_name(&self, header: &Header<'_>, place: &[u8]) -> Result<(&[u8], Option<u64>)> {
        let bad = || header.error(ArchiveErrorKind::LongName);
        let (place, nested) = match memchr::memchr(b':', place) {
            Some(colon) if self.is_thin => {
                let (place, nested) = place.split_at_checked(colon).ok_or_else(bad)?;
                let nested = nested.strip_prefix(b":").and_then(decimal);
                (place, Some(nested.ok_or_else(bad)?))
            }
            _ => (place, None),
        };
        let start = usize_of_u64(decimal(place).ok_or_else(bad)?);
        let table = self
            .long_names
            .clone()
            .and_then(|range| self.bytes.get(range))
            .ok_or_else(|| header.error(ArchiveErrorKind::NoLongNames))?;
        // GNU ends a name with a slash and a newline (a path may have slashes), Microsoft with
        // a zero byte.
        let name = table
            .get(start..)
            .and_then(|rest| rest.get(..memchr::memchr2(b'\n', 0, rest)?))
            .ok_or_else(bad)?;
        Ok((name.strip_suffix(b"/").unwrap_or(name), nested))
    }
}

/// Iterator over the ordinary members of an archive.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    archive: &'a Archive,
    /// Offset of the next header.
    next: usize,
}

impl<'a> Members<'a> {
    fn step(&mut self) -> Result<Option<Member<'a>>> {
        while self.next < self.archive.bytes.len() {
            let header = self.archive.header_at(self.next)?;
            if self.archive.role(&header)? == Role::Ordinary {
                let (member, next) = self.archive.member(&header)?;
                self.next = next;
                return Ok(Some(member));
            }
            self.next = next_header(self.archive.data(&header)?.end);
        }
        Ok(None)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = self.step();
        if result.is_err() {
            self.next = usize::MAX;
        }
        result.transpose()
    }
}

impl std::iter::FusedIterator for Members<'_> {}

/// The path of a member of a thin archive: relative names start at the archive's folder.
pub fn member_path(archive: &Path, name: &[u8]) -> PathBuf {
    #[cfg(unix)]
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
    #[cfg(not(unix))]
    let name: String = String::from_utf8_lossy(name).into_owned();
    match archive.parent() {
        Some(folder) => folder.join(name),
        None => PathBuf::from(name),
    }
}

/// Members begin at even offsets.
fn next_header(end: usize) -> usize {
    end.saturating_add(end & 1)
}

/// An index of the BSD kind has a name that a file could have.
fn bsd_role(name: &[u8]) -> Role {
    match name {
        b"__.SYMDEF" | b"__.SYMDEF/" | b"__.SYMDEF SORTED" => Role::Index(IndexLayout::Bsd32),
        b"__.SYMDEF_64" | b"__.SYMDEF_64/" | b"__.SYMDEF_64 SORTED" => {
            Role::Index(IndexLayout::Bsd64)
        }
        _ => Role::Ordinary,
    }
}

/// A decimal number with spaces around it.
fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        number
            .checked_mul(10)?
            .checked_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

/// `text` without the padding at its end.
fn trim_end(text: &[u8], padding: u8) -> &[u8] {
    let len = text
        .iter()
        .rposition(|&byte| byte != padding)
        .map_or(0, |last| last.saturating_add(1));
    text.get(..len).unwrap_or(text)
}
