//! Changing a graph: what a pass may do with `&mut LinkGraph`. An entity keeps its id for life;
//! removing leaves a hole. Operations that would leave the graph unsound answer an error and
//! change nothing.
//!
//! Here is how entities are made and what the operations share; `section.rs`, `block.rs` (with
//! edges) and `symbol.rs` change what exists.

use crate::block::{BlockFlags, BlockRecord, NewBlock, NewContent};
use crate::comdat::Comdat;
use crate::edge::{Edge, EdgeKind};
use crate::graph::{BlockEdgeError, LinkGraph};
use crate::ids::{BlockId, ComdatId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::index::int::{high_u32, low_u32, u32_of, u64_of};
use crate::section::{Memory, NewSection, SectionFlags, SectionRecord};
use crate::symbol::{Addressable, NewSymbol, Scope, SymbolFlags, SymbolKind, SymbolRecord, Wide};
use thiserror::Error;

mod block;
mod section;
mod symbol;
#[cfg(test)]
mod tests;

/// Why an operation was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The graph has no such block.
    #[error("block {0} does not exist")]
    NoBlock(BlockId),
    /// The graph has no such symbol.
    #[error("symbol {0} does not exist")]
    NoSymbol(SymbolId),
    /// The graph has no such section.
    #[error("section {0} does not exist")]
    NoSection(SectionId),
    /// The symbol is not what the operation is for.
    #[error("symbol {0} is not {1}")]
    WrongSymbol(SymbolId, &'static str),
    /// A symbol still points at the block.
    #[error("block {0} still holds symbol {1}")]
    BlockInUse(BlockId, SymbolId),
    /// A section still holds the block.
    #[error("section {0} still holds block {1}")]
    SectionInUse(SectionId, BlockId),
    /// An offset is not inside the block, or offsets do not ascend.
    #[error("offset {offset:#x} is not inside block {block}, or not behind the one before it")]
    BadOffset {
        /// The block.
        block: BlockId,
        /// The offset.
        offset: u64,
    },
    /// A symbol would end outside its block.
    #[error("symbol {symbol} would end {by:#x} bytes behind block {block}")]
    SymbolOutsideBlock {
        /// The symbol.
        symbol: SymbolId,
        /// The block.
        block: BlockId,
        /// By how much.
        by: u64,
    },
    /// Alignment is not a power of two, or the alignment offset not below it.
    #[error("alignment {align:#x} with offset {offset:#x} is not a power of two above its offset")]
    BadAlignment {
        /// The alignment.
        align: u64,
        /// The alignment offset.
        offset: u64,
    },
    /// The architecture has no such edge kind.
    #[error("edge at offset {offset:#x} of block {block} has kind {kind}, which does not exist")]
    BadEdgeKind {
        /// The block.
        block: BlockId,
        /// The edge's offset.
        offset: u32,
        /// The kind's number.
        kind: u8,
    },
    /// What an edge writes is not all inside the block.
    #[error(
        "{width} bytes that the edge at offset {offset:#x} writes are not inside block {block}"
    )]
    EdgeOutsideBlock {
        /// The block.
        block: BlockId,
        /// The edge's offset.
        offset: u32,
        /// How many bytes it writes.
        width: u8,
    },
    /// A block would be split inside what an edge writes.
    #[error("offset {offset:#x} of block {block} cuts what the edge at offset {place:#x} writes")]
    EdgeCut {
        /// The block.
        block: BlockId,
        /// Where it would be split.
        offset: u64,
        /// The edge's offset.
        place: u32,
    },
    /// An edge writes where there is no content.
    #[error("edge at offset {offset:#x} writes into zero-fill block {block}")]
    EdgeInZeroFill {
        /// The block.
        block: BlockId,
        /// The edge's offset.
        offset: u32,
    },
    /// Scope or linkage does not go with the symbol.
    #[error("symbol {0}: {1}")]
    BadSymbol(SymbolId, &'static str),
    /// The block's relocation records cannot be decoded.
    #[error(transparent)]
    Edges(#[from] Box<BlockEdgeError>),
}

pub use block::{EdgeBatch, Split};

type Result<T> = std::result::Result<T, GraphError>;

impl LinkGraph {
    /// Keeps a name and answers its offset among the graph's own.
    pub(crate) fn own_name(&mut self, name: &[u8]) -> u32 {
        let name = &name[..memchr::memchr(0, name).unwrap_or(name.len())];
        if name.is_empty() {
            return 0;
        }
        let offset = u32_of(self.names.len());
        self.names.extend_from_slice(name);
        self.names.push(0);
        offset
    }

    /// Makes a section. A name ends at its first zero byte.
    pub fn add_section(&mut self, name: &[u8], new: NewSection) -> SectionId {
        let name = self.own_name(name);
        self.sections.push(SectionRecord {
            name,
            entry_size: new.entry_size,
            comdat: new.comdat,
            memory: Memory::new(new.prot, new.lifetime),
            kind: new.kind,
            flags: new.flags.difference(SectionFlags::REMOVED) | SectionFlags::OWNED_NAME,
        })
    }

    /// Makes a block without edges.
    ///
    /// # Errors
    /// An alignment that is not a power of two above its offset, or no such section.
    pub fn add_block(&mut self, new: NewBlock) -> Result<BlockId> {
        self.check_section(new.section)?;
        let align_log2 = check_align(new.align, new.align_offset)?;
        let mut flags = BlockFlags::empty();
        let (content, size) = match new.content {
            NewContent::Zero(size) => {
                flags |= BlockFlags::ZERO;
                (0, size)
            }
            NewContent::Owned(bytes) => {
                flags |= BlockFlags::OWNED_CONTENT;
                let size = u64_of(bytes.len());
                self.contents.push(bytes);
                (u64_of(self.contents.len() - 1), size)
            }
        };
        let id = self.blocks.push(BlockRecord {
            content,
            size,
            section: new.section,
            input: Self::linker_input(),
            edges: 0,
            align_log2,
            flags,
        });
        self.set_align_record(id, align_log2, new.align_offset);
        Ok(id)
    }

    /// Makes a symbol.
    ///
    /// # Errors
    /// A place outside its block, a name or scope that does not go with what it points at.
    pub fn add_symbol(&mut self, new: NewSymbol<'_>) -> Result<SymbolId> {
        let id = SymbolId::from_index(self.symbols.len());
        self.check_base(id, new.base, new.size)?;
        self.push_symbol(new)
    }

    /// Makes a symbol of a part of an input that does not take part: only a text has these to
    /// make, a step discards what exists.
    pub(crate) fn add_discarded(&mut self, new: NewSymbol<'_>) -> Result<SymbolId> {
        self.push_symbol(NewSymbol {
            base: Addressable::Discarded,
            ..new
        })
    }

    fn push_symbol(&mut self, new: NewSymbol<'_>) -> Result<SymbolId> {
        let id = SymbolId::from_index(self.symbols.len());
        let mut flags = new.flags.difference(SymbolFlags::KIND | SymbolFlags::WIDE);
        if is_anonymous(new.name) {
            flags = flags.with_scope(Scope::Local);
        }
        check_flags(id, is_anonymous(new.name), new.base, flags)?;
        let name = self.own_name(new.name);
        self.symbols.push(SymbolRecord {
            name,
            ..SymbolRecord::NULL
        });
        self.flags.push(flags | SymbolFlags::OWNED_NAME);
        self.set_base(id, new.base, new.size);
        Ok(id)
    }

    /// Makes a symbol that is defined elsewhere.
    pub fn add_external(&mut self, name: &[u8], weakly_referenced: bool) -> SymbolId {
        let flags = if weakly_referenced {
            SymbolFlags::WEAKLY_REFERENCED
        } else {
            SymbolFlags::empty()
        };
        let name = self.own_name(name);
        let id = self.symbols.push(SymbolRecord {
            name,
            ..SymbolRecord::NULL
        });
        self.flags
            .push((flags | SymbolFlags::OWNED_NAME).with_kind(SymbolKind::External));
        id
    }

    /// Makes a symbol of fixed value.
    ///
    /// # Errors
    /// A scope that does not go with it.
    pub fn add_absolute(
        &mut self,
        name: &[u8],
        value: u64,
        flags: SymbolFlags,
    ) -> Result<SymbolId> {
        self.add_symbol(NewSymbol {
            name,
            base: Addressable::Absolute(value),
            size: 0,
            flags,
        })
    }

    /// Makes a tentative definition.
    ///
    /// # Errors
    /// An alignment that is not a power of two.
    pub fn add_common(
        &mut self,
        name: &[u8],
        size: u64,
        align: u64,
        flags: SymbolFlags,
    ) -> Result<SymbolId> {
        check_align(align, 0)?;
        self.add_symbol(NewSymbol {
            name,
            base: Addressable::Common { align },
            size,
            flags,
        })
    }

    /// Makes a symbol without a name.
    ///
    /// # Errors
    /// A place outside its block.
    pub fn add_anonymous(
        &mut self,
        block: BlockId,
        offset: u64,
        size: u64,
        flags: SymbolFlags,
    ) -> Result<SymbolId> {
        self.add_symbol(NewSymbol {
            name: &[],
            base: Addressable::Block { block, offset },
            size,
            flags,
        })
    }

    /// Makes a symbol with a name in a block.
    ///
    /// # Errors
    /// A place outside its block, or a scope that does not go with it.
    pub fn add_defined(
        &mut self,
        name: &[u8],
        block: BlockId,
        offset: u64,
        size: u64,
        flags: SymbolFlags,
    ) -> Result<SymbolId> {
        let base = Addressable::Block { block, offset };
        self.add_symbol(NewSymbol {
            name,
            base,
            size,
            flags,
        })
    }

    /// Makes a COMDAT group of the linker's own.
    pub fn add_comdat(&mut self, comdat: Comdat) -> ComdatId {
        self.comdats.push(comdat)
    }

    /// Makes `child` live exactly when `parent` does.
    ///
    /// # Errors
    /// A block that does not exist.
    pub fn associate(&mut self, parent: BlockId, child: BlockId) -> Result<()> {
        self.check_block(parent)?;
        self.check_block(child)?;
        self.associations.push((parent, child));
        Ok(())
    }

    // What the operations share.

    pub(crate) fn set_base(&mut self, symbol: SymbolId, base: Addressable, size: u64) {
        let (kind, base, offset) = match base {
            Addressable::Block { block, offset } => (SymbolKind::Block, block.raw(), offset),
            Addressable::Absolute(value) => (
                SymbolKind::Absolute,
                high_u32(value),
                u64::from(low_u32(value)),
            ),
            Addressable::External => (SymbolKind::External, 0, 0),
            Addressable::Common { align } => (SymbolKind::Common, 0, align),
            Addressable::Discarded => (SymbolKind::Discarded, 0, 0),
            Addressable::Null => (SymbolKind::Null, 0, 0),
        };
        let wide = offset > u64::from(u32::MAX) || size > u64::from(u32::MAX);
        if wide {
            self.wide.insert(symbol, Wide { offset, size });
        }
        let record = &mut self.symbols[symbol];
        (record.base, record.offset, record.size) = (base, low_u32(offset), low_u32(size));
        let mut flags = self.flags[symbol].with_kind(kind);
        flags.set(SymbolFlags::WIDE, wide);
        self.flags[symbol] = flags;
    }

    fn set_align_record(&mut self, block: BlockId, align_log2: u8, offset: u64) {
        let record = &mut self.blocks[block];
        record.align_log2 = align_log2;
        record.flags.set(BlockFlags::ALIGN_OFFSET, offset != 0);
        if offset != 0 {
            self.align_offsets.insert(block, offset);
        }
    }

    pub(crate) fn check_block(&self, block: BlockId) -> Result<()> {
        if self.has_block(block) {
            Ok(())
        } else {
            Err(GraphError::NoBlock(block))
        }
    }

    pub(crate) fn check_section(&self, section: SectionId) -> Result<()> {
        match self.sections.get(section) {
            Some(record) if !record.flags.contains(SectionFlags::REMOVED) => Ok(()),
            _ => Err(GraphError::NoSection(section)),
        }
    }

    pub(crate) fn check_symbol(&self, symbol: SymbolId) -> Result<()> {
        match self.flags.get(symbol) {
            Some(flags) if !flags.is_null() => Ok(()),
            _ => Err(GraphError::NoSymbol(symbol)),
        }
    }

    fn check_base(&self, symbol: SymbolId, base: Addressable, size: u64) -> Result<()> {
        match base {
            Addressable::Block { block, offset } => {
                self.check_block(block)?;
                let room = self.block_size(block);
                match offset.checked_add(size) {
                    Some(end) if end <= room => Ok(()),
                    end => Err(GraphError::SymbolOutsideBlock {
                        symbol,
                        block,
                        by: end.map_or(u64::MAX, |end| end - room),
                    }),
                }
            }
            Addressable::Common { align } => check_align(align, 0).map(drop),
            Addressable::Absolute(_) | Addressable::External => Ok(()),
            Addressable::Discarded | Addressable::Null => Err(GraphError::BadSymbol(
                symbol,
                "a symbol must point at something",
            )),
        }
    }

    /// How many bytes an edge writes.
    pub(crate) fn edge_width(&self, kind: EdgeKind) -> u8 {
        if kind.is_relocation() {
            (self.target.edge_width)(kind)
        } else {
            0
        }
    }

    pub(crate) fn check_edge(&self, block: BlockId, edge: &Edge) -> Result<()> {
        self.check_symbol(edge.target)?;
        if !self.target.has_kind(edge.kind) {
            let EdgeKind(kind) = edge.kind;
            return Err(GraphError::BadEdgeKind {
                block,
                offset: edge.offset,
                kind,
            });
        }
        let width = self.edge_width(edge.kind);
        if width > 0 && self.is_zero_fill(block) {
            return Err(GraphError::EdgeInZeroFill {
                block,
                offset: edge.offset,
            });
        }
        if u64::from(edge.offset) + u64::from(width) > self.block_size(block) {
            return Err(GraphError::EdgeOutsideBlock {
                block,
                offset: edge.offset,
                width,
            });
        }
        Ok(())
    }
}

fn check_align(align: u64, offset: u64) -> Result<u8> {
    if !align.is_power_of_two() || offset >= align {
        return Err(GraphError::BadAlignment { align, offset });
    }
    // A power of two of 64 bits has fewer than 64 trailing zeros.
    Ok(u8::try_from(align.trailing_zeros()).unwrap_or(63))
}

/// Whether the graph would keep no name: one ends at its first zero byte.
fn is_anonymous(name: &[u8]) -> bool {
    name.first().is_none_or(|&byte| byte == 0)
}

fn check_flags(id: SymbolId, anonymous: bool, base: Addressable, flags: SymbolFlags) -> Result<()> {
    let weak = flags.contains(SymbolFlags::WEAK);
    let refuse = |why| Err(GraphError::BadSymbol(id, why));
    match base {
        _ if anonymous && flags.scope() != Scope::Local => refuse("an anonymous symbol is local"),
        _ if anonymous && weak => refuse("an anonymous symbol cannot be weak"),
        Addressable::External if anonymous => refuse("an external symbol has a name"),
        Addressable::External if flags.scope() == Scope::Local => {
            refuse("an external symbol cannot be local")
        }
        _ => Ok(()),
    }
}
