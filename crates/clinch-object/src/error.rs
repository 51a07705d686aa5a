//! Why an input cannot be read. [`ReadError`] is made deep inside, small and without names; it is
//! wrapped once, at the reader's border, in an [`InputError`] that says which input and section.

use crate::archive::ArchiveErrorKind;
use crate::compressed::CompressedErrorKind;
use crate::kind::machine_name;
use clinch_graph::InputName;
use thiserror::Error;

/// What is wrong, and where in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{kind} (file offset {offset:#x})")]
pub struct ReadError {
    /// Offset in the file or member, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

impl ReadError {
    /// An error at a place.
    pub const fn new(offset: u64, kind: ReadErrorKind) -> Self {
        Self { offset, kind }
    }
}

/// What is wrong with an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    // Any format.
    /// The file ends before something it announces.
    #[error("file is truncated: {what} needs {size:#x} bytes, file has {have:#x}")]
    Truncated {
        /// What does not fit.
        what: &'static str,
        /// Where it would end.
        size: u64,
        /// How long the file is.
        have: u64,
    },

    // ELF.
    /// Not an ELF file, or one of an unknown class, byte order or version.
    #[error("not an ELF file: {0}")]
    NotElf(&'static str),
    /// An ELF file, but not a relocatable object.
    #[error("not a relocatable object (ELF type {0})")]
    NotRelocatable(u16),
    /// Of an architecture clinch does not have.
    #[error("is for {}, an architecture that clinch does not link", machine(*.0))]
    UnknownMachine(u16),
    /// Of another architecture than the rest of the link.
    #[error("is for {found}, but this link is for {want}")]
    WrongArchitecture {
        /// What the file is for.
        found: &'static str,
        /// What the link is for.
        want: &'static str,
    },
    /// A size field of a header is not what the format fixes.
    #[error("{what} entries have {found} bytes instead of {want}")]
    EntrySize {
        /// Of which table.
        what: &'static str,
        /// The file's value.
        found: u64,
        /// The format's value.
        want: u64,
    },
    /// A table's size is no multiple of its entries'.
    #[error("size {size:#x} of {what} is not a multiple of its entry size {entry}")]
    UnevenTable {
        /// Of which table.
        what: &'static str,
        /// Its size.
        size: u64,
        /// Its entries' size.
        entry: u64,
    },
    /// A section number that is not below the number of sections.
    #[error("{what} refers to section {index}, but there are {count}")]
    NoSection {
        /// What refers to it.
        what: &'static str,
        /// The number.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// A symbol number that is not below the number of symbols.
    #[error("{what} refers to symbol {index}, but there are {count}")]
    NoSymbol {
        /// What refers to it.
        what: &'static str,
        /// The number.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// A section is not of the type that one referring to it needs.
    #[error("{what} is section {index}, which is of type {found:#x}")]
    SectionType {
        /// What refers to it.
        what: &'static str,
        /// The section's number.
        index: u64,
        /// Its type.
        found: u32,
    },
    /// A name's offset is outside its string table.
    #[error("name offset {offset:#x} of {what} is outside the string table of {size:#x} bytes")]
    NameOutside {
        /// Whose name.
        what: &'static str,
        /// The offset.
        offset: u64,
        /// The table's size.
        size: u64,
    },
    /// The file has more than one of something.
    #[error("more than one {0}")]
    Several(&'static str),
    /// An alignment that is no power of two.
    #[error("alignment {0:#x} is not a power of two")]
    Alignment(u64),
    /// A symbol of a kind that an object must not have.
    #[error("symbol {index}: {why}")]
    BadSymbol {
        /// The symbol's number.
        index: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A symbol's place is outside its section.
    #[error("symbol {index} has offset {offset:#x} in a section of {size:#x} bytes")]
    SymbolOutside {
        /// The symbol's number.
        index: u64,
        /// Its offset.
        offset: u64,
        /// The section's size.
        size: u64,
    },
    /// A section that belongs to two groups.
    #[error("section {0} is a member of two groups")]
    TwoGroups(u64),
    /// A section that no group can have.
    #[error("section {0} cannot be a member of a group")]
    GroupMember(u64),
    /// A table of names whose last name has no end.
    #[error("{0} does not end with a zero byte")]
    Unterminated(&'static str),
    /// Tables or contents that use the same bytes of the file, which no tool writes.
    #[error("{0} overlap")]
    Overlap(&'static str),
    /// A table of LEB128 numbers whose last number has no end.
    #[error("{0} ends inside a number")]
    UnendedNumber(&'static str),
    /// A note that cannot be read.
    #[error("malformed note: {0}")]
    Note(&'static str),
    /// An ELF file, but not a shared object.
    #[error("not a shared object (ELF type {0})")]
    NotShared(u16),
    /// A dynamic section that cannot be used.
    #[error("dynamic section: {0}")]
    Dynamic(&'static str),
    /// A hash table of symbols that is smaller than it says.
    #[error("hash table of dynamic symbols is truncated")]
    SymbolHash,
    /// Version records that cannot be read.
    #[error("symbol versions: {0}")]
    Version(&'static str),
    /// A version number that no record has.
    #[error("dynamic symbol {symbol} has version {version}, which is not defined")]
    NoVersion {
        /// The symbol's number.
        symbol: u32,
        /// The version's number.
        version: u16,
    },
    /// Sizes add up to more than can be addressed.
    #[error("{0} is too large")]
    TooLarge(&'static str),

    // Containers.
    /// Something about an archive.
    #[error(transparent)]
    Archive(#[from] ArchiveErrorKind),
    /// Something about a compressed section.
    #[error(transparent)]
    Compressed(#[from] CompressedErrorKind),
}

fn machine(number: u16) -> String {
    machine_name(number).map_or_else(|| format!("ELF machine {number}"), str::to_owned)
}

/// An input that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{input}: {}{source}", section.as_ref().map(|name| format!("section {name}: ")).unwrap_or_default())]
pub struct InputError {
    /// The input.
    pub input: InputName,
    /// The section, where one is concerned.
    pub section: Option<String>,
    /// What is wrong.
    pub source: ReadError,
}
