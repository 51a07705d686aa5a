//! Sections: named groups of blocks as read, with what the memory that holds them must allow.

use crate::ids::ComdatId;
use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// What memory allows.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub struct Prot: u8 {
        /// May be read.
        const READ = 1;
        /// May be written.
        const WRITE = 2;
        /// May be executed.
        const EXEC = 4;
    }
}

impl Prot {
    /// Read only.
    pub const R: Self = Self::READ;
    /// Data.
    pub const RW: Self = Self::READ.union(Self::WRITE);
    /// Code.
    pub const RX: Self = Self::READ.union(Self::EXEC);
}

impl fmt::Display for Prot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |flag, letter| if self.contains(flag) { letter } else { '-' };
        let (r, w, x) = (
            letter(Self::READ, 'r'),
            letter(Self::WRITE, 'w'),
            letter(Self::EXEC, 'x'),
        );
        write!(f, "{r}{w}{x}")
    }
}

/// How long a section's memory is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Lifetime {
    /// Until its allocation is given back.
    #[default]
    Standard,
    /// Until the allocation's finalize actions ran.
    Finalize,
    /// Never in the executor: debug information and other metadata.
    NoAlloc,
}

/// What a section is for, as far as a step needs to know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum SectionKind {
    /// Code and data without further meaning.
    #[default]
    Regular,
    /// Array of functions to call before the other initializers.
    PreinitArray,
    /// Array of functions to call at start, first to last.
    InitArray,
    /// Array of functions to call at the end, last to first.
    FiniArray,
    /// `.ctors`: array of functions to call at start, last to first.
    Ctors,
    /// `.dtors`: array of functions to call at the end, first to last.
    Dtors,
    /// DWARF call frame records.
    EhFrame,
    /// A note.
    Note,
    /// The symbols whose addresses matter (`.llvm_addrsig`).
    Addrsig,
    /// DWARF and other debug information.
    Debug,
    /// Made by the linker: GOT.
    Got,
    /// Made by the linker: stubs that jump through the GOT.
    Stubs,
}

impl SectionKind {
    /// All kinds with their names in the text form.
    pub const NAMES: [(Self, &'static str); 12] = [
        (Self::Regular, "regular"),
        (Self::PreinitArray, "preinit-array"),
        (Self::InitArray, "init-array"),
        (Self::FiniArray, "fini-array"),
        (Self::Ctors, "ctors"),
        (Self::Dtors, "dtors"),
        (Self::EhFrame, "eh-frame"),
        (Self::Note, "note"),
        (Self::Addrsig, "addrsig"),
        (Self::Debug, "debug"),
        (Self::Got, "got"),
        (Self::Stubs, "stubs"),
    ];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("regular", |(_, name)| name)
    }
}

bitflags! {
    /// Further facts about a section.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct SectionFlags: u16 {
        /// Equal pieces may be merged.
        const MERGE = 1;
        /// Its pieces are strings that end with a zero character.
        const STRINGS = 2;
        /// Holds initial values of thread-local variables.
        const TLS = 4;
        /// Live even when nothing refers to it.
        const RETAIN = 8;
        /// Not written after relocation: may become read-only.
        const RELRO = 16;
        /// May lie outside the range of ordinary code (large code model).
        const LARGE = 32;
        /// Not to be in an output.
        const EXCLUDE = 64;
        /// Its name is the graph's, not its input's.
        const OWNED_NAME = 128;
        /// A step removed it.
        const REMOVED = 256;
    }
}

/// One section's column values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SectionRecord {
    pub(crate) name: u32,
    pub(crate) entry_size: u32,
    pub(crate) comdat: Option<ComdatId>,
    pub(crate) memory: Memory,
    pub(crate) kind: SectionKind,
    pub(crate) flags: SectionFlags,
}

/// What a section's memory must allow and for how long it is needed, in one byte: a program has
/// hundreds of thousands of sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Memory(u8);

impl Memory {
    pub(crate) const fn new(prot: Prot, lifetime: Lifetime) -> Self {
        Self(prot.bits() | (lifetime as u8) << 3)
    }

    pub(crate) const fn prot(self) -> Prot {
        Prot::from_bits_truncate(self.0)
    }

    pub(crate) const fn lifetime(self) -> Lifetime {
        match self.0 >> 3 {
            0 => Lifetime::Standard,
            1 => Lifetime::Finalize,
            _ => Lifetime::NoAlloc,
        }
    }
}

const _: () = assert!(size_of::<SectionRecord>() == 16);

impl SectionRecord {
    pub(crate) const NONE: Self = Self {
        name: 0,
        entry_size: 0,
        comdat: None,
        memory: Memory::new(Prot::R, Lifetime::Standard),
        kind: SectionKind::Regular,
        flags: SectionFlags::REMOVED,
    };
}

/// A section as a reader or a step sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section<'g> {
    /// The name, as bytes.
    pub name: &'g [u8],
    /// What its memory must allow.
    pub prot: Prot,
    /// How long its memory is needed.
    pub lifetime: Lifetime,
    /// What it is for.
    pub kind: SectionKind,
    /// Further facts.
    pub flags: SectionFlags,
    /// Size of one entry of a section of equal entries, else 0.
    pub entry_size: u32,
    /// The group it belongs to.
    pub comdat: Option<ComdatId>,
}

impl Section<'_> {
    /// Whether the section is in memory when the program runs.
    pub fn is_alloc(&self) -> bool {
        self.lifetime != Lifetime::NoAlloc
    }
}

/// What a reader or a step gives to make a section.
#[derive(Clone, Copy, Debug)]
pub struct NewSection {
    /// What its memory must allow.
    pub prot: Prot,
    /// How long its memory is needed.
    pub lifetime: Lifetime,
    /// What it is for.
    pub kind: SectionKind,
    /// Further facts.
    pub flags: SectionFlags,
    /// Size of one entry of a section of equal entries, else 0.
    pub entry_size: u32,
    /// The group it belongs to.
    pub comdat: Option<ComdatId>,
}

impl NewSection {
    /// An ordinary section.
    pub const fn new(prot: Prot) -> Self {
        Self {
            prot,
            lifetime: Lifetime::Standard,
            kind: SectionKind::Regular,
            flags: SectionFlags::empty(),
            entry_size: 0,
            comdat: None,
        }
    }
}
