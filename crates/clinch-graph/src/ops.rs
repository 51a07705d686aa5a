//! Changing a graph: what a pass may do with `&mut LinkGraph`. An entity keeps its id for life;
//! removing leaves a hole. Operations that would leave the graph unsound answer an error and
//! change nothing.

use crate::block::{BlockFlags, BlockRecord, NewBlock, NewContent};
use crate::comdat::Comdat;
use crate::edge::{Edge, EdgeKind};
use crate::graph::{BlockEdgeError, LinkGraph};
use crate::ids::{BlockId, ComdatId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::index::int::{high_u32, low_u32, u32_of, u64_of, usize_of, usize_of_u64};
use crate::origin::Entity;
use crate::section::{Lifetime, NewSection, Prot, SectionFlags, SectionRecord};
use crate::symbol::{
    Addressable, Linkage, NewSymbol, Scope, SymbolFlags, SymbolKind, SymbolRecord, Wide,
};
use thiserror::Error;

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

type Result<T> = std::result::Result<T, GraphError>;

impl LinkGraph {
    // Making.

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
            prot: new.prot,
            kind: new.kind,
            lifetime: new.lifetime,
            flags: new.flags | SectionFlags::OWNED_NAME,
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
        let mut flags = new.flags.difference(SymbolFlags::KIND | SymbolFlags::WIDE);
        if new.name.is_empty() {
            flags = flags.with_scope(Scope::Local);
        }
        self.check_base(id, new.base, new.size)?;
        check_flags(id, new.name.is_empty(), new.base, flags)?;
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

    // Sections.

    /// Changes what a section's memory must allow.
    pub fn set_section_prot(&mut self, section: SectionId, prot: Prot) {
        self.sections[section].prot = prot;
        self.note_change(Entity::Section(section));
    }

    /// Changes how long a section's memory is needed.
    pub fn set_section_lifetime(&mut self, section: SectionId, lifetime: Lifetime) {
        self.sections[section].lifetime = lifetime;
        self.note_change(Entity::Section(section));
    }

    /// Changes a section's place among the others in a layout.
    pub fn set_section_ordinal(&mut self, section: SectionId, ordinal: u32) {
        self.ordinals.insert(section, ordinal);
        self.note_change(Entity::Section(section));
    }

    /// Moves all blocks of `from` to `to` and removes `from`.
    ///
    /// # Errors
    /// A section that does not exist.
    pub fn merge_sections(&mut self, to: SectionId, from: SectionId) -> Result<()> {
        self.check_section(to)?;
        self.check_section(from)?;
        if to == from {
            return Ok(());
        }
        for block in self.blocks.as_mut_slice() {
            if block.section == from {
                block.section = to;
            }
        }
        self.sections[from].flags |= SectionFlags::REMOVED;
        self.note_change(Entity::Section(to));
        Ok(())
    }

    /// Removes a section without blocks.
    ///
    /// # Errors
    /// A section that does not exist, or holds a block.
    pub fn remove_section(&mut self, section: SectionId) -> Result<()> {
        self.check_section(section)?;
        if let Some(block) = self.section_blocks(section).next() {
            return Err(GraphError::SectionInUse(section, block));
        }
        self.sections[section].flags |= SectionFlags::REMOVED;
        Ok(())
    }

    // Blocks.

    /// Moves a block, with the symbols in it, to another section.
    ///
    /// # Errors
    /// A block or section that does not exist.
    pub fn transfer_block(&mut self, block: BlockId, section: SectionId) -> Result<()> {
        self.check_block(block)?;
        self.check_section(section)?;
        self.blocks[block].section = section;
        self.note_change(Entity::Block(block));
        Ok(())
    }

    /// Changes a block's alignment and its address modulo it.
    ///
    /// # Errors
    /// An alignment that is not a power of two above its offset, or no such block.
    pub fn set_block_align(&mut self, block: BlockId, align: u64, offset: u64) -> Result<()> {
        self.check_block(block)?;
        let align_log2 = check_align(align, offset)?;
        self.set_align_record(block, align_log2, offset);
        self.note_change(Entity::Block(block));
        Ok(())
    }

    /// Gives a block new content; its size becomes the content's.
    ///
    /// # Errors
    /// A block that does not exist.
    pub fn set_content(&mut self, block: BlockId, bytes: Vec<u8>) -> Result<()> {
        self.check_block(block)?;
        self.note_change(Entity::Block(block));
        let record = &mut self.blocks[block];
        record.size = u64_of(bytes.len());
        record.flags.remove(BlockFlags::ZERO);
        if record.flags.contains(BlockFlags::OWNED_CONTENT) {
            self.contents[usize_of_u64(record.content)] = bytes;
        } else {
            record.flags.insert(BlockFlags::OWNED_CONTENT);
            record.content = u64_of(self.contents.len());
            self.contents.push(bytes);
        }
        Ok(())
    }

    /// A block's content to change in place; the first call copies it from the input. `None` for
    /// a zero-fill block or one that does not exist.
    pub fn content_mut(&mut self, block: BlockId) -> Option<&mut [u8]> {
        if !self.has_block(block) || self.is_zero_fill(block) {
            return None;
        }
        if !self.blocks[block].flags.contains(BlockFlags::OWNED_CONTENT) {
            let bytes = self.content(block).bytes().to_vec();
            self.set_content(block, bytes).ok()?;
        }
        Some(&mut self.contents[usize_of_u64(self.blocks[block].content)])
    }

    /// Changes the size of a zero-fill block.
    ///
    /// # Errors
    /// A block that does not exist or has content; [`GraphError::BadOffset`] for the latter.
    pub fn set_zero_fill_size(&mut self, block: BlockId, size: u64) -> Result<()> {
        self.check_block(block)?;
        if !self.is_zero_fill(block) {
            return Err(GraphError::BadOffset {
                block,
                offset: size,
            });
        }
        self.blocks[block].size = size;
        self.note_change(Entity::Block(block));
        Ok(())
    }

    /// Removes a block that no symbol points at.
    ///
    /// # Errors
    /// A block that does not exist, or that holds a symbol.
    pub fn remove_block(&mut self, block: BlockId) -> Result<()> {
        self.check_block(block)?;
        if let Some(symbol) = self
            .symbols()
            .find(|&id| self.symbol_block(id) == Some(block))
        {
            return Err(GraphError::BlockInUse(block, symbol));
        }
        self.drop_block(block);
        Ok(())
    }

    /// Removes a block; the symbols in it become discarded. For steps that remove many.
    pub fn drop_block(&mut self, block: BlockId) {
        let record = &mut self.blocks[block];
        record.flags.insert(BlockFlags::REMOVED);
        if record.flags.contains(BlockFlags::OWNED_CONTENT) {
            self.contents[usize_of_u64(record.content)] = Vec::new();
        }
        if record.flags.contains(BlockFlags::OWNED_EDGES) {
            self.edge_lists[usize_of(record.edges)] = Vec::new();
        }
    }

    /// Turns symbols whose block was removed into discarded ones. Steps that call
    /// [`LinkGraph::drop_block`] call this once at their end.
    pub fn discard_dangling_symbols(&mut self) {
        for index in 0..self.symbols.len() {
            let id = SymbolId::from_index(index);
            if self
                .symbol_block(id)
                .is_some_and(|block| !self.has_block(block))
            {
                self.flags[id] = self.flags[id].with_kind(SymbolKind::Discarded);
            }
        }
    }

    /// Splits a block at ascending offsets inside it. The block keeps the first piece; the new
    /// blocks follow. Edges move with their places; symbols move to the piece in which they begin
    /// and are cut to it. Answers all pieces, the block first.
    ///
    /// A symbol at the block's end stays at the end of the last piece. An edge elsewhere that
    /// reaches, by its addend, from its symbol into another piece is the caller's to change.
    ///
    /// # Errors
    /// A block that does not exist, offsets that do not ascend inside it, or edges that cannot be
    /// decoded.
    pub fn split_block(&mut self, block: BlockId, offsets: &[u64]) -> Result<Vec<BlockId>> {
        self.check_block(block)?;
        let pieces = self.split_block_content(block, offsets)?;
        let starts: Vec<u64> = std::iter::once(0).chain(offsets.iter().copied()).collect();
        for index in 0..self.symbols.len() {
            let symbol = SymbolId::from_index(index);
            if let Addressable::Block {
                block: holder,
                offset,
            } = self.addressable(symbol)
                && holder == block
            {
                let piece = starts.partition_point(|&start| start <= offset) - 1;
                let within = offset - starts[piece];
                let room = self.block_size(pieces[piece]).saturating_sub(within);
                let size = self.symbol_size(symbol).min(room);
                let base = Addressable::Block {
                    block: pieces[piece],
                    offset: within,
                };
                self.set_base(symbol, base, size);
            }
        }
        Ok(pieces)
    }

    /// [`LinkGraph::split_block`] without moving symbols, for a step that knows the symbols of
    /// the block itself (or that there are none worth moving).
    ///
    /// # Errors
    /// As for [`LinkGraph::split_block`].
    pub fn split_block_content(&mut self, block: BlockId, offsets: &[u64]) -> Result<Vec<BlockId>> {
        let size = self.block_size(block);
        let mut last = 0;
        for &offset in offsets {
            if offset <= last || offset >= size {
                return Err(GraphError::BadOffset { block, offset });
            }
            last = offset;
        }
        let mut edges = Vec::new();
        self.edges(block, &mut edges)?;
        edges.sort_by_key(|edge| edge.offset);

        let align = self.block_align(block);
        let align_offset = self.block_align_offset(block);
        let whole = self.blocks[block];
        let owned = whole
            .flags
            .contains(BlockFlags::OWNED_CONTENT)
            .then(|| self.contents[usize_of_u64(whole.content)].clone());
        let mut pieces = vec![block];
        for (n, &start) in offsets.iter().enumerate() {
            let end = offsets.get(n + 1).copied().unwrap_or(size);
            let mut record = BlockRecord {
                edges: 0,
                size: end - start,
                ..whole
            };
            record
                .flags
                .remove(BlockFlags::OWNED_EDGES | BlockFlags::ALIGN_OFFSET);
            match &owned {
                Some(bytes) => {
                    record.content = u64_of(self.contents.len());
                    self.contents
                        .push(bytes[usize_of_u64(start)..usize_of_u64(end)].to_vec());
                }
                None => record.content = whole.content + start,
            }
            let piece = self.blocks.push(record);
            self.set_align_record(
                piece,
                whole.align_log2,
                (align_offset + start) & (align - 1),
            );
            pieces.push(piece);
        }
        let first_size = offsets.first().copied().unwrap_or(size);
        self.blocks[block].size = first_size;
        if let Some(mut bytes) = owned {
            bytes.truncate(usize_of_u64(first_size));
            self.contents[usize_of_u64(whole.content)] = bytes;
        }
        self.note_change(Entity::Block(block));

        // Hand the edges out, rebased.
        let mut rest = edges.as_slice();
        for (n, &piece) in pieces.iter().enumerate() {
            let start = if n == 0 { 0 } else { offsets[n - 1] };
            let end = offsets.get(n).copied().unwrap_or(u64::MAX);
            let (mine, others) =
                rest.split_at(rest.partition_point(|edge| u64::from(edge.offset) < end));
            rest = others;
            if n == 0 || !mine.is_empty() {
                let rebase = |edge: &Edge| Edge {
                    offset: edge.offset - low_u32(start),
                    ..*edge
                };
                self.put_edges(piece, mine.iter().map(rebase).collect());
            }
        }
        Ok(pieces)
    }

    // Edges.

    /// Gives a block a list of edges of its own.
    ///
    /// # Errors
    /// A block or target that does not exist, a place outside the block, or an edge that writes
    /// into zero-fill.
    pub fn set_edges(&mut self, block: BlockId, edges: Vec<Edge>) -> Result<()> {
        self.check_block(block)?;
        for edge in &edges {
            self.check_edge(block, edge)?;
        }
        self.put_edges(block, edges);
        self.note_change(Entity::Block(block));
        Ok(())
    }

    /// Adds an edge to a block.
    ///
    /// # Errors
    /// As for [`LinkGraph::set_edges`], or relocation records that cannot be decoded.
    pub fn add_edge(&mut self, block: BlockId, edge: Edge) -> Result<()> {
        self.check_block(block)?;
        self.check_edge(block, &edge)?;
        self.own_edges(block)?.push(edge);
        Ok(())
    }

    /// A block's edges to change in place; the first call decodes them from the input.
    ///
    /// # Errors
    /// A block that does not exist, or relocation records that cannot be decoded.
    pub fn edges_mut(&mut self, block: BlockId) -> Result<&mut [Edge]> {
        self.check_block(block)?;
        Ok(self.own_edges(block)?)
    }

    /// Keeps the edges of a block for which `keep` says so.
    ///
    /// # Errors
    /// A block that does not exist, or relocation records that cannot be decoded.
    pub fn retain_edges(&mut self, block: BlockId, keep: impl FnMut(&Edge) -> bool) -> Result<()> {
        self.check_block(block)?;
        self.own_edges(block)?.retain(keep);
        Ok(())
    }

    fn own_edges(&mut self, block: BlockId) -> Result<&mut Vec<Edge>> {
        if !self.blocks[block].flags.contains(BlockFlags::OWNED_EDGES) {
            let mut edges = Vec::new();
            self.edges(block, &mut edges)?;
            self.put_edges(block, edges);
        }
        self.note_change(Entity::Block(block));
        Ok(&mut self.edge_lists[usize_of(self.blocks[block].edges)])
    }

    fn put_edges(&mut self, block: BlockId, edges: Vec<Edge>) {
        let record = &mut self.blocks[block];
        if record.flags.contains(BlockFlags::OWNED_EDGES) {
            self.edge_lists[usize_of(record.edges)] = edges;
        } else {
            record.flags.insert(BlockFlags::OWNED_EDGES);
            record.edges = u32_of(self.edge_lists.len());
            self.edge_lists.push(edges);
        }
    }

    // Symbols.

    /// Makes a defined, absolute or common symbol one that is defined elsewhere. Its block stays.
    ///
    /// # Errors
    /// A symbol that does not exist or has no name.
    pub fn make_external(&mut self, symbol: SymbolId) -> Result<()> {
        self.check_symbol(symbol)?;
        if self.symbol_name(symbol).is_empty() {
            return Err(GraphError::WrongSymbol(symbol, "named"));
        }
        self.set_base(symbol, Addressable::External, 0);
        let flags = self.flags[symbol].difference(SymbolFlags::LIVE | SymbolFlags::WEAK);
        self.flags[symbol] = flags.with_scope(Scope::Default);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Gives a symbol a fixed value.
    ///
    /// # Errors
    /// A symbol that does not exist.
    pub fn make_absolute(&mut self, symbol: SymbolId, value: u64) -> Result<()> {
        self.check_symbol(symbol)?;
        let size = self.symbol_size(symbol);
        self.set_base(symbol, Addressable::Absolute(value), size);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Defines a symbol at a place in a block, wherever it was before.
    ///
    /// # Errors
    /// A symbol or block that does not exist, or a place outside the block.
    pub fn make_defined(
        &mut self,
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: u64,
    ) -> Result<()> {
        self.check_symbol(symbol)?;
        let base = Addressable::Block { block, offset };
        self.check_base(symbol, base, size)?;
        self.set_base(symbol, base, size);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Moves a defined symbol to another place. Without a size it keeps its own, cut to the room
    /// that is left in the block.
    ///
    /// # Errors
    /// A symbol that is not defined in a block, a block that does not exist, or a place outside
    /// it.
    pub fn transfer_symbol(
        &mut self,
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: Option<u64>,
    ) -> Result<()> {
        if self.symbol_block(symbol).is_none() {
            return Err(GraphError::WrongSymbol(symbol, "defined in a block"));
        }
        self.check_block(block)?;
        let room = self.block_size(block).saturating_sub(offset);
        let size = size.unwrap_or_else(|| self.symbol_size(symbol).min(room));
        self.make_defined(symbol, block, offset, size)
    }

    /// Removes a symbol; edges that target it become invalid and are the caller's to change.
    ///
    /// # Errors
    /// A symbol that does not exist.
    pub fn remove_symbol(&mut self, symbol: SymbolId) -> Result<()> {
        self.check_symbol(symbol)?;
        self.flags[symbol] = self.flags[symbol].with_kind(SymbolKind::Null);
        Ok(())
    }

    /// Renames a symbol.
    ///
    /// # Errors
    /// A symbol that does not exist.
    pub fn set_symbol_name(&mut self, symbol: SymbolId, name: &[u8]) -> Result<()> {
        self.check_symbol(symbol)?;
        self.symbols[symbol].name = self.own_name(name);
        self.flags[symbol] |= SymbolFlags::OWNED_NAME;
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Sets or clears properties that are single bits: live, callable, weakly referenced.
    pub fn set_symbol_flag(&mut self, symbol: SymbolId, flag: SymbolFlags, on: bool) {
        const ALLOWED: SymbolFlags = SymbolFlags::LIVE
            .union(SymbolFlags::CALLABLE)
            .union(SymbolFlags::OBJECT)
            .union(SymbolFlags::WEAKLY_REFERENCED);
        self.flags[symbol].set(flag.intersection(ALLOWED), on);
    }

    /// Changes who can see a symbol.
    ///
    /// # Errors
    /// A scope that does not go with the symbol.
    pub fn set_symbol_scope(&mut self, symbol: SymbolId, scope: Scope) -> Result<()> {
        self.check_symbol(symbol)?;
        let flags = self.flags[symbol].with_scope(scope);
        check_flags(
            symbol,
            self.symbol_name(symbol).is_empty(),
            self.addressable(symbol),
            flags,
        )?;
        self.flags[symbol] = flags;
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Changes how definitions of a symbol's name clash.
    ///
    /// # Errors
    /// Weak for a symbol that has no name or a fixed value.
    pub fn set_symbol_linkage(&mut self, symbol: SymbolId, linkage: Linkage) -> Result<()> {
        self.check_symbol(symbol)?;
        let mut flags = self.flags[symbol];
        flags.set(SymbolFlags::WEAK, linkage == Linkage::Weak);
        check_flags(
            symbol,
            self.symbol_name(symbol).is_empty(),
            self.addressable(symbol),
            flags,
        )?;
        self.flags[symbol] = flags;
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Changes how many bytes a symbol names.
    ///
    /// # Errors
    /// A symbol that does not exist, or that would end outside its block.
    pub fn set_symbol_size(&mut self, symbol: SymbolId, size: u64) -> Result<()> {
        self.check_symbol(symbol)?;
        let base = self.addressable(symbol);
        self.check_base(symbol, base, size)?;
        self.set_base(symbol, base, size);
        self.note_change(Entity::Symbol(symbol));
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
                let end = offset.saturating_add(size);
                let room = self.block_size(block);
                if end > room {
                    return Err(GraphError::SymbolOutsideBlock {
                        symbol,
                        block,
                        by: end - room,
                    });
                }
                Ok(())
            }
            Addressable::Common { align } => check_align(align, 0).map(drop),
            Addressable::Absolute(_) | Addressable::External => Ok(()),
            Addressable::Discarded | Addressable::Null => Err(GraphError::BadSymbol(
                symbol,
                "a symbol must point at something",
            )),
        }
    }

    pub(crate) fn check_edge(&self, block: BlockId, edge: &Edge) -> Result<()> {
        self.check_symbol(edge.target)?;
        if edge.kind == EdgeKind::INVALID {
            return Err(GraphError::BadOffset {
                block,
                offset: u64::from(edge.offset),
            });
        }
        let width = (self.target.edge_width)(edge.kind);
        if edge.kind.is_relocation() && width > 0 && self.is_zero_fill(block) {
            return Err(GraphError::EdgeInZeroFill {
                block,
                offset: edge.offset,
            });
        }
        if u64::from(edge.offset) + u64::from(width) > self.block_size(block) {
            return Err(GraphError::BadOffset {
                block,
                offset: u64::from(edge.offset),
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
