//! Operations on blocks and their edges.

use super::{GraphError, Result, check_align};
use crate::block::{BlockFlags, BlockRecord};
use crate::edge::Edge;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, SectionId, SymbolId};
use crate::index::id::{Id, IdRange};
use crate::index::int::{low_u32, u32_of, u64_of, usize_of, usize_of_u64};
use crate::origin::Entity;
use crate::symbol::{Addressable, SymbolKind};

impl LinkGraph {
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
    /// A block that does not exist, or relocation records that keep their addends in the content
    /// and cannot be decoded.
    pub fn set_content(&mut self, block: BlockId, bytes: Vec<u8>) -> Result<()> {
        self.check_block(block)?;
        self.keep_addends(block)?;
        self.note_change(Entity::Block(block));
        self.put_content(block, bytes);
        Ok(())
    }

    /// Gives a block that was just read the content that its input holds in another form, such
    /// as compressed; its relocation records are about this content.
    ///
    /// # Errors
    /// A block that does not exist.
    pub fn fill_content(&mut self, block: BlockId, bytes: Vec<u8>) -> Result<()> {
        self.check_block(block)?;
        self.put_content(block, bytes);
        Ok(())
    }

    fn put_content(&mut self, block: BlockId, bytes: Vec<u8>) {
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
    }

    /// Takes over the edges of a block whose content is about to change, when its relocation
    /// records keep their addends in it: they must go on to mean what they meant.
    fn keep_addends(&mut self, block: BlockId) -> Result<()> {
        let record = &self.blocks[block];
        if record.edges == 0 || record.flags.contains(BlockFlags::OWNED_EDGES) {
            return Ok(());
        }
        let source = self.inputs[record.input].source.as_ref();
        if source.is_some_and(|source| source.reads_content(&self.edge_request(record))) {
            self.own_edges(block)?;
        }
        Ok(())
    }

    /// A block's content to change in place; the first call copies it from the input. `None` for
    /// a zero-fill block, one that does not exist, and where [`LinkGraph::set_content`] fails.
    pub fn content_mut(&mut self, block: BlockId) -> Option<&mut [u8]> {
        if !self.has_block(block) || self.is_zero_fill(block) {
            return None;
        }
        self.content_to_change(block).ok()
    }

    pub(crate) fn content_to_change(&mut self, block: BlockId) -> Result<&mut [u8]> {
        self.check_block(block)?;
        if self.is_zero_fill(block) {
            return Ok(&mut []);
        }
        self.keep_addends(block)?;
        if !self.blocks[block].flags.contains(BlockFlags::OWNED_CONTENT) {
            let bytes = self.content(block).bytes().to_vec();
            self.put_content(block, bytes);
        }
        self.note_change(Entity::Block(block));
        Ok(&mut self.contents[usize_of_u64(self.blocks[block].content)])
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

    /// Removes a block that no symbol points at, and its associations.
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
        self.associations
            .retain(|&(parent, child)| parent != block && child != block);
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

    /// Turns symbols whose block was removed into discarded ones, and forgets associations of
    /// removed blocks. Steps that call [`LinkGraph::drop_block`] call this once at their end.
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
        let mut associations = std::mem::take(&mut self.associations);
        associations.retain(|&(parent, child)| self.has_block(parent) && self.has_block(child));
        self.associations = associations;
    }

    /// Splits a block at ascending offsets inside it. The block keeps the first piece; the new
    /// blocks follow. Edges move with their places; symbols move to the piece in which they begin
    /// and are cut to it. Answers all pieces, the block first.
    ///
    /// A symbol at the block's end stays at the end of the last piece. An edge elsewhere that
    /// reaches, by its addend, from its symbol into another piece is the caller's to change.
    ///
    /// # Errors
    /// A block that does not exist, offsets that do not ascend inside it or that cut what an edge
    /// writes, or edges that cannot be decoded.
    pub fn split_block(&mut self, block: BlockId, offsets: &[u64]) -> Result<Vec<BlockId>> {
        self.split_block_among(block, offsets, IdRange::new(0, self.symbols.len()))
    }

    /// [`LinkGraph::split_block`] for a caller that knows among which symbols those of the block
    /// are; only these are moved.
    ///
    /// # Errors
    /// As for [`LinkGraph::split_block`].
    pub fn split_block_among(
        &mut self,
        block: BlockId,
        offsets: &[u64],
        symbols: IdRange<SymbolId>,
    ) -> Result<Vec<BlockId>> {
        self.check_block(block)?;
        let pieces = self.split_block_content(block, offsets)?;
        let starts: Vec<u64> = std::iter::once(0).chain(offsets.iter().copied()).collect();
        for symbol in symbols.iter() {
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

    /// The pieces, with the edges in them.
    fn split_block_content(&mut self, block: BlockId, offsets: &[u64]) -> Result<Vec<BlockId>> {
        self.check_block(block)?;
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
        for edge in &edges {
            let first = u64::from(edge.offset);
            let end = first + u64::from(self.edge_width(edge.kind));
            let split = offsets.get(offsets.partition_point(|&offset| offset <= first));
            if let Some(&offset) = split.filter(|&&offset| offset < end) {
                let place = edge.offset;
                return Err(GraphError::EdgeCut {
                    block,
                    offset,
                    place,
                });
            }
        }

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
}
