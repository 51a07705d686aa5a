//! Operations on blocks and their edges.

use super::{GraphError, Result, check_align};
use crate::block::{BlockFlags, BlockRecord};
use crate::edge::Edge;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, SectionId, SymbolId};
use crate::index::id::{Id, IdRange};
use crate::index::int::{low_u32, u32_of, u64_of, usize_of, usize_of_u64};
use crate::index::workers::Workers;
use crate::origin::Entity;
use crate::symbol::{Addressable, SymbolFlags, SymbolKind, SymbolRecord};

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
            self.edge_lists.set(usize_of(record.edges), &[]);
        }
    }

    /// Turns symbols whose block was removed into discarded ones, and forgets associations of
    /// removed blocks. Steps that call [`LinkGraph::drop_block`] call this once at their end.
    pub fn discard_dangling_symbols(&mut self) {
        self.discard_dangling_symbols_with(&Workers::new(1));
    }

    /// The same on many threads.
    pub fn discard_dangling_symbols_with(&mut self, workers: &Workers) {
        let cost = self.symbols.len() * (size_of::<SymbolRecord>() + size_of::<SymbolFlags>());
        let (symbols, blocks) = (self.symbols.as_slice(), self.blocks.as_slice());
        workers.each_run(cost, self.flags.as_mut_slice(), |run, flags| {
            for (symbol, flags) in symbols[run].iter().zip(flags) {
                let is_dangling = flags.kind() == SymbolKind::Block
                    && usize_of(symbol.base)
                        .checked_sub(1)
                        .and_then(|block| blocks.get(block))
                        .is_none_or(|block| block.flags.contains(BlockFlags::REMOVED));
                if is_dangling {
                    *flags = flags.with_kind(SymbolKind::Discarded);
                }
            }
        });
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
        let symbols = IdRange::new(0, self.symbols.len());
        let split = self.plan_split(block, offsets, symbols, 0)?;
        let new = self.split(split)?;
        Ok(std::iter::once(block).chain(new.iter()).collect())
    }

    /// The part of [`LinkGraph::split_block`] that only reads, so that many threads can plan for
    /// many blocks. The caller knows among which symbols those of the block are; only these will
    /// be moved. Each piece's list of edges gets room for `more`, to be added without a copy.
    ///
    /// # Errors
    /// As for [`LinkGraph::split_block`].
    pub fn plan_split(
        &self,
        block: BlockId,
        offsets: &[u64],
        symbols: IdRange<SymbolId>,
        more: usize,
    ) -> Result<Split> {
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
        if !edges.is_sorted_by_key(|edge| edge.offset) {
            edges.sort_by_key(|edge| edge.offset);
        }

        let mut pieces = Vec::with_capacity(offsets.len() + 1);
        let mut rebased = Vec::with_capacity(edges.len() + more * (offsets.len() + 1));
        let mut rest = edges.iter().peekable();
        let (mut start, mut offsets) = (0, offsets.iter().copied());
        loop {
            let next = offsets.next();
            let end = next.unwrap_or(size);
            let first_edge = rebased.len();
            let is_mine = |edge: &&Edge| next.is_none_or(|next| u64::from(edge.offset) < next);
            while let Some(&edge) = rest.next_if(is_mine) {
                let behind = u64::from(edge.offset) + u64::from(self.edge_width(edge.kind));
                if let Some(offset) = next.filter(|&next| behind > next) {
                    return Err(GraphError::EdgeCut {
                        block,
                        offset,
                        place: edge.offset,
                    });
                }
                rebased.push(Edge {
                    offset: edge.offset - low_u32(start),
                    ..edge
                });
            }
            let n_edges = rebased.len() - first_edge;
            if let Some(&any) = rebased.last() {
                rebased.resize(rebased.len() + more, any);
            }
            pieces.push(Piece {
                start,
                size: end - start,
                first_edge: u32_of(first_edge),
                n_edges: u32_of(n_edges),
                end_of_room: u32_of(rebased.len()),
            });
            if next.is_none() {
                break;
            }
            start = end;
        }
        let here = |&symbol: &SymbolId| self.symbol_block(symbol) == Some(block);
        Ok(Split {
            block,
            size,
            pieces,
            edges: rebased,
            symbols: symbols.iter().filter(here).collect(),
        })
    }

    /// Carries out what [`LinkGraph::plan_split`] found. Answers the new pieces: those but the
    /// first, which is the block.
    ///
    /// # Errors
    /// A block that is not any more what it was when the split was planned.
    pub fn split(&mut self, split: Split) -> Result<IdRange<BlockId>> {
        let Split {
            block,
            size,
            pieces,
            edges,
            symbols,
        } = split;
        self.check_block(block)?;
        if self.block_size(block) != size {
            return Err(GraphError::BadOffset {
                block,
                offset: size,
            });
        }
        let align_offset = self.block_align_offset(block);
        let whole = self.blocks[block];
        let within_align = (1_u64 << whole.align_log2) - 1;
        let owned = whole
            .flags
            .contains(BlockFlags::OWNED_CONTENT)
            .then(|| std::mem::take(&mut self.contents[usize_of_u64(whole.content)]));
        let taken = (!edges.is_empty()).then(|| self.edge_lists.take(edges));
        let first_new = self.blocks.len();
        for (n, piece) in pieces.iter().enumerate() {
            let bytes = owned.as_ref().map(|bytes| {
                let end = piece.start + piece.size;
                bytes[usize_of_u64(piece.start)..usize_of_u64(end)].to_vec()
            });
            let id = if n == 0 {
                self.blocks[block].size = piece.size;
                if let Some(bytes) = bytes {
                    self.contents[usize_of_u64(whole.content)] = bytes;
                }
                self.note_change(Entity::Block(block));
                block
            } else {
                let mut record = BlockRecord {
                    edges: 0,
                    size: piece.size,
                    ..whole
                };
                record
                    .flags
                    .remove(BlockFlags::OWNED_EDGES | BlockFlags::ALIGN_OFFSET);
                match bytes {
                    Some(bytes) => {
                        record.content = u64_of(self.contents.len());
                        self.contents.push(bytes);
                    }
                    None => record.content = whole.content + piece.start,
                }
                let id = self.blocks.push(record);
                let offset = (align_offset + piece.start) & within_align;
                self.set_align_record(id, whole.align_log2, offset);
                id
            };
            if n == 0 || piece.n_edges > 0 {
                let list = match taken {
                    Some(taken) => self.edge_lists.push_taken(
                        taken,
                        usize_of(piece.first_edge),
                        usize_of(piece.n_edges),
                        usize_of(piece.end_of_room),
                    ),
                    None => self.edge_lists.push(&[]),
                };
                let record = &mut self.blocks[id];
                record.flags.insert(BlockFlags::OWNED_EDGES);
                record.edges = u32_of(list);
            }
        }
        for symbol in symbols {
            let Addressable::Block { block: _, offset } = self.addressable(symbol) else {
                continue;
            };
            let n = pieces.partition_point(|piece| piece.start <= offset) - 1;
            let within = offset - pieces[n].start;
            let room = pieces[n].size.saturating_sub(within);
            let size = self.symbol_size(symbol).min(room);
            let block = match n {
                0 => block,
                n => BlockId::from_index(first_new + n - 1),
            };
            let base = Addressable::Block {
                block,
                offset: within,
            };
            self.set_base(symbol, base, size);
        }
        Ok(IdRange::new(first_new, self.blocks.len()))
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
        self.put_edges(block, &edges);
        self.note_change(Entity::Block(block));
        Ok(())
    }

    /// Gives many blocks lists of edges of their own, without copying the lists.
    ///
    /// # Errors
    /// A block that does not exist; those before it have their edges then.
    pub fn take_edges(&mut self, batch: EdgeBatch) -> Result<()> {
        let taken = self.edge_lists.take(batch.edges);
        let mut start = 0;
        for (block, end) in batch.blocks {
            self.check_block(block)?;
            let list = self.edge_lists.push_taken(taken, start, end - start, end);
            let record = &mut self.blocks[block];
            record.flags.insert(BlockFlags::OWNED_EDGES);
            record.edges = u32_of(list);
            self.note_change(Entity::Block(block));
            start = end;
        }
        Ok(())
    }

    /// Adds an edge to a block.
    ///
    /// # Errors
    /// As for [`LinkGraph::set_edges`], or relocation records that cannot be decoded.
    pub fn add_edge(&mut self, block: BlockId, edge: Edge) -> Result<()> {
        self.check_block(block)?;
        self.check_edge(block, &edge)?;
        let list = self.own_edges(block)?;
        self.edge_lists.add(list, edge);
        Ok(())
    }

    /// A block's edges to change in place; the first call decodes them from the input.
    ///
    /// # Errors
    /// A block that does not exist, or relocation records that cannot be decoded.
    pub fn edges_mut(&mut self, block: BlockId) -> Result<&mut [Edge]> {
        self.check_block(block)?;
        let list = self.own_edges(block)?;
        Ok(self.edge_lists.get_mut(list))
    }

    /// Keeps the edges of a block for which `keep` says so.
    ///
    /// # Errors
    /// A block that does not exist, or relocation records that cannot be decoded.
    pub fn retain_edges(&mut self, block: BlockId, keep: impl FnMut(&Edge) -> bool) -> Result<()> {
        self.check_block(block)?;
        let list = self.own_edges(block)?;
        self.edge_lists.retain(list, keep);
        Ok(())
    }

    /// The number of a block's list of edges; makes one of what its input says.
    fn own_edges(&mut self, block: BlockId) -> Result<usize> {
        if !self.blocks[block].flags.contains(BlockFlags::OWNED_EDGES) {
            let mut edges = Vec::new();
            self.edges(block, &mut edges)?;
            self.put_edges(block, &edges);
        }
        self.note_change(Entity::Block(block));
        Ok(usize_of(self.blocks[block].edges))
    }

    fn put_edges(&mut self, block: BlockId, edges: &[Edge]) {
        let record = &mut self.blocks[block];
        if record.flags.contains(BlockFlags::OWNED_EDGES) {
            self.edge_lists.set(usize_of(record.edges), edges);
        } else {
            record.flags.insert(BlockFlags::OWNED_EDGES);
            record.edges = u32_of(self.edge_lists.push(edges));
        }
    }
}

/// How a block is to be split. Made by [`LinkGraph::plan_split`].
#[derive(Debug)]
pub struct Split {
    block: BlockId,
    /// The block's size, to see that nobody changed it meanwhile.
    size: u64,
    pieces: Vec<Piece>,
    /// The edges of all pieces, with what fills the room behind them.
    edges: Vec<Edge>,
    /// The symbols in the block.
    symbols: Vec<SymbolId>,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    size: u64,
    first_edge: u32,
    n_edges: u32,
    end_of_room: u32,
}

impl Split {
    /// How many pieces there will be.
    pub fn n_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The edges of a piece, by ascending offset in it.
    pub fn edges(&self, piece: usize) -> &[Edge] {
        let Some(piece) = self.pieces.get(piece) else {
            return &[];
        };
        let first = usize_of(piece.first_edge);
        &self.edges[first..first + usize_of(piece.n_edges)]
    }
}

/// Lists of edges for many blocks, for [`LinkGraph::take_edges`]. Many threads can fill some.
#[derive(Debug, Default)]
pub struct EdgeBatch {
    edges: Vec<Edge>,
    /// Each block, with the end of its edges.
    blocks: Vec<(BlockId, usize)>,
}

impl EdgeBatch {
    /// Adds a block's edges.
    ///
    /// # Errors
    /// As for [`LinkGraph::set_edges`].
    pub fn add(&mut self, graph: &LinkGraph, block: BlockId, edges: &[Edge]) -> Result<()> {
        graph.check_block(block)?;
        for edge in edges {
            graph.check_edge(block, edge)?;
        }
        self.edges.extend_from_slice(edges);
        self.blocks.push((block, self.edges.len()));
        Ok(())
    }

    /// How many edges there are, those of all blocks.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there is no edge.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Lets the `n`-th edge refer to another symbol.
    ///
    /// # Errors
    /// A symbol that does not exist.
    pub fn set_target(&mut self, graph: &LinkGraph, n: usize, target: SymbolId) -> Result<()> {
        graph.check_symbol(target)?;
        if let Some(edge) = self.edges.get_mut(n) {
            edge.target = target;
        }
        Ok(())
    }
}
