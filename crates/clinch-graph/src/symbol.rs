//! Symbols: names and anchors, and what they point at.

use crate::ids::{BlockId, SymbolId};
use bitflags::bitflags;

/// What a symbol points at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressable {
    /// A place in a block of this graph.
    Block {
        /// The block.
        block: BlockId,
        /// Offset in it, in bytes; at most its size.
        offset: u64,
    },
    /// A fixed value.
    Absolute(u64),
    /// Defined elsewhere.
    External,
    /// A tentative definition: so much space, shared by all of this name.
    Common {
        /// Alignment of the space, a power of two.
        align: u64,
    },
    /// Was defined in a part of the input that does not take part: a COMDAT copy that did not
    /// prevail, or a section that is never linked.
    Discarded,
    /// Not a symbol: a hole in the input's numbering, or one that a step removed.
    Null,
}

/// How definitions of one name clash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Linkage {
    /// There may be one.
    #[default]
    Strong,
    /// Gives way to any other.
    Weak,
}

/// Who can see a symbol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Scope {
    /// Everybody.
    #[default]
    Default,
    /// Everybody, but nobody replaces it inside its dylib.
    Protected,
    /// Its dylib.
    Hidden,
    /// May be looked up to make its definition happen, but has no address.
    SideEffectsOnly,
    /// Its input.
    Local,
}

bitflags! {
    /// A symbol's properties; the low bits hold what it points at.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SymbolFlags: u32 {
        /// The bits that tell what the symbol points at.
        const KIND = 7;
        /// [`Linkage::Weak`].
        const WEAK = 1 << 3;
        /// The bits of the [`Scope`].
        const SCOPE = 7 << 4;
        /// A function.
        const CALLABLE = 1 << 7;
        /// A root of pruning.
        const LIVE = 1 << 8;
        /// A thread-local variable.
        const TLS = 1 << 9;
        /// A function that answers the address to use (`STT_GNU_IFUNC`).
        const IFUNC = 1 << 10;
        /// One per process (`STB_GNU_UNIQUE`).
        const UNIQUE = 1 << 11;
        /// An external that may stay undefined, with address 0.
        const WEAKLY_REFERENCED = 1 << 12;
        /// Stands for the start of a section.
        const SECTION = 1 << 13;
        /// A data object.
        const OBJECT = 1 << 14;
        /// Its name is the graph's, not its input's.
        const OWNED_NAME = 1 << 15;
        /// Offset or size needs more than 32 bits and is in the side table.
        const WIDE = 1 << 16;
    }
}

/// The values of [`SymbolFlags::KIND`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum SymbolKind {
    Null = 0,
    Block = 1,
    Absolute = 2,
    External = 3,
    Common = 4,
    Discarded = 5,
    /// Defined in a section that has no block yet; `base` is the section's number in its input.
    Pending = 6,
}

impl SymbolFlags {
    pub(crate) const fn of_kind(kind: SymbolKind) -> Self {
        Self::from_bits_retain(kind as u32)
    }

    #[inline]
    pub(crate) fn kind(self) -> SymbolKind {
        match self.bits() & Self::KIND.bits() {
            1 => SymbolKind::Block,
            2 => SymbolKind::Absolute,
            3 => SymbolKind::External,
            4 => SymbolKind::Common,
            5 => SymbolKind::Discarded,
            6 => SymbolKind::Pending,
            _ => SymbolKind::Null,
        }
    }

    pub(crate) fn with_kind(self, kind: SymbolKind) -> Self {
        self.difference(Self::KIND).union(Self::of_kind(kind))
    }

    /// The same with this scope.
    #[must_use]
    pub const fn with_scope(self, scope: Scope) -> Self {
        self.difference(Self::SCOPE)
            .union(Self::from_bits_retain((scope as u32) << 4))
    }

    /// Who can see the symbol.
    #[inline]
    pub fn scope(self) -> Scope {
        match (self.bits() & Self::SCOPE.bits()) >> 4 {
            0 => Scope::Default,
            1 => Scope::Protected,
            2 => Scope::Hidden,
            3 => Scope::SideEffectsOnly,
            _ => Scope::Local,
        }
    }

    /// How definitions of the name clash.
    #[inline]
    pub fn linkage(self) -> Linkage {
        if self.contains(Self::WEAK) {
            Linkage::Weak
        } else {
            Linkage::Strong
        }
    }

    /// Whether the symbol is a definition: in a block, absolute or common; also one in a section
    /// that has no block yet.
    #[inline]
    pub fn is_definition(self) -> bool {
        matches!(
            self.kind(),
            SymbolKind::Block | SymbolKind::Absolute | SymbolKind::Common | SymbolKind::Pending
        )
    }

    /// Whether the symbol is to be found elsewhere.
    #[inline]
    pub fn is_external(self) -> bool {
        self.kind() == SymbolKind::External
    }

    /// Whether the symbol is a tentative definition.
    #[inline]
    pub fn is_common(self) -> bool {
        self.kind() == SymbolKind::Common
    }

    /// Whether the symbol was defined in what does not take part.
    #[inline]
    pub fn is_discarded(self) -> bool {
        self.kind() == SymbolKind::Discarded
    }

    /// Whether there is no such symbol.
    #[inline]
    pub fn is_null(self) -> bool {
        self.kind() == SymbolKind::Null
    }

    /// Whether the symbol takes part in resolution by name.
    #[inline]
    pub fn is_global(self) -> bool {
        !self.is_null() && self.scope() != Scope::Local
    }
}

/// One symbol's column values but its flags: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SymbolRecord {
    /// Offset in the table of names, of the input or of the graph.
    pub(crate) name: u32,
    /// Raw id of the block; the input's section number while pending; the high half of an
    /// absolute value.
    pub(crate) base: u32,
    /// Offset in the block; the low half of an absolute value; a common's alignment.
    pub(crate) offset: u32,
    pub(crate) size: u32,
}

impl SymbolRecord {
    pub(crate) const NULL: Self = Self {
        name: 0,
        base: 0,
        offset: 0,
        size: 0,
    };
}

/// Offset and size of the rare symbol that needs more than 32 bits for one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wide {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// A symbol as a step sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol<'g> {
    /// Its id.
    pub id: SymbolId,
    /// The name as bytes; empty for an anonymous symbol.
    pub name: &'g [u8],
    /// What it points at.
    pub base: Addressable,
    /// How many bytes it names, 0 where that is not known.
    pub size: u64,
    /// Its properties.
    pub flags: SymbolFlags,
}

impl Symbol<'_> {
    /// How definitions of the name clash.
    pub fn linkage(&self) -> Linkage {
        self.flags.linkage()
    }

    /// Who can see it.
    pub fn scope(&self) -> Scope {
        self.flags.scope()
    }
}

/// What a step gives to make a symbol.
#[derive(Clone, Copy, Debug)]
pub struct NewSymbol<'a> {
    /// The name, empty for an anonymous symbol (which is then local).
    pub name: &'a [u8],
    /// What it points at.
    pub base: Addressable,
    /// How many bytes it names.
    pub size: u64,
    /// Its properties (the bits of what it points at are ignored).
    pub flags: SymbolFlags,
}
