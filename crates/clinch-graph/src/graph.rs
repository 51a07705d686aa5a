//! The LinkGraph: the columns, and read access to them.
//!
//! The graph holds what the inputs say. What steps find out (resolution, liveness, layout) lies
//! beside it, in columns over the same ids, so an address cannot be read before there is one.

use crate::block::{BlockFlags, BlockRecord, Content};
use crate::comdat::Comdat;
use crate::edge::{Edge, EdgeError, EdgeRequest};
use crate::edge_lists::EdgeLists;
use crate::ids::{BlockId, ComdatId, InputId, SectionId, SymbolId};
use crate::index::column::Column;
use crate::index::id::{Id, IdRange};
use crate::index::int::{u32_of, usize_of, usize_of_u64};
use crate::index::map::Map;
use crate::input::{Input, InputName, c_string};
use crate::origin::Provenance;
use crate::section::{Lifetime, Prot, Section, SectionFlags, SectionKind, SectionRecord};
use crate::symbol::{Addressable, Symbol, SymbolFlags, SymbolKind, SymbolRecord, Wide};
use crate::target::GraphTarget;
use bytes::Bytes;
use std::fmt;
use thiserror::Error;

/// A program as sections, blocks, symbols and edges. See the crate's documentation. A clone shares
/// the inputs' bytes.
#[derive(Clone)]
pub struct LinkGraph {
    pub(crate) name: String,
    pub(crate) target: &'static GraphTarget,
    pub(crate) inputs: Column<InputId, Input>,
    pub(crate) sections: Column<SectionId, SectionRecord>,
    pub(crate) blocks: Column<BlockId, BlockRecord>,
    pub(crate) symbols: Column<SymbolId, SymbolRecord>,
    pub(crate) flags: Column<SymbolId, SymbolFlags>,
    pub(crate) comdats: Column<ComdatId, Comdat>,
    /// Names that steps made, each ended by a zero byte; offset 0 is the empty name.
    pub(crate) names: Vec<u8>,
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) edge_lists: EdgeLists,
    pub(crate) wide: Map<SymbolId, Wide>,
    pub(crate) align_offsets: Map<BlockId, u64>,
    pub(crate) ordinals: Map<SectionId, u32>,
    /// Parent and child: the child lives when the parent does. In the order they were made.
    pub(crate) associations: Vec<(BlockId, BlockId)>,
    pub(crate) provenance: Provenance,
    pub(crate) generation: u64,
}

/// An edge that cannot be decoded, with the place it was read from.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{input}:({section}): {source}")]
pub struct BlockEdgeError {
    /// The input.
    pub input: InputName,
    /// The section's name.
    pub section: String,
    /// What is wrong.
    pub source: EdgeError,
}

impl LinkGraph {
    /// An empty graph. Its first input stands for the linker itself.
    pub fn new(name: &str, target: &'static GraphTarget) -> Self {
        let linker = Input {
            name: InputName::file("<linker>"),
            bytes: Bytes::new(),
            symbol_names: 0..0,
            section_names: 0..0,
            source: None,
            symbols: IdRange::empty(),
            sections: IdRange::empty(),
            blocks: IdRange::empty(),
            comdats: IdRange::empty(),
        };
        Self {
            name: name.to_owned(),
            target,
            inputs: vec![linker].into(),
            sections: Column::new(),
            blocks: Column::new(),
            symbols: Column::new(),
            flags: Column::new(),
            comdats: Column::new(),
            names: vec![0],
            contents: Vec::new(),
            edge_lists: EdgeLists::default(),
            wide: Map::default(),
            align_offsets: Map::default(),
            ordinals: Map::default(),
            associations: Vec::new(),
            provenance: Provenance::default(),
            generation: 0,
        }
    }

    /// The input that stands for the linker itself.
    pub fn linker_input() -> InputId {
        InputId::from_index(0)
    }

    /// The graph's name, mostly that of its input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The architecture.
    pub fn target(&self) -> &'static GraphTarget {
        self.target
    }

    /// How often an edit was published.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    // Inputs.

    /// All inputs, the linker itself first.
    pub fn inputs(&self) -> impl Iterator<Item = (InputId, &Input)> {
        self.inputs.iter()
    }

    /// How many inputs there are, the linker itself included.
    pub fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// One input.
    pub fn input(&self, id: InputId) -> &Input {
        &self.inputs[id]
    }

    /// The input that brought a symbol: the linker for one that a step made.
    pub fn symbol_input(&self, symbol: SymbolId) -> InputId {
        self.owner(
            |input| input.symbols.start(),
            |input| input.symbols.contains(symbol),
            symbol.index(),
        )
    }

    /// The input that brought a section: the linker for one that a step made.
    pub fn section_input(&self, section: SectionId) -> InputId {
        self.owner(
            |input| input.sections.start(),
            |input| input.sections.contains(section),
            section.index(),
        )
    }

    /// The input that brought a group: the linker for one that a step made.
    pub fn comdat_input(&self, comdat: ComdatId) -> InputId {
        self.comdats[comdat].input
    }

    /// The input whose range holds the entity at `index`. Ranges ascend with the input's id, with
    /// gaps for what steps made in between.
    fn owner(
        &self,
        start: impl Fn(&Input) -> usize,
        contains: impl Fn(&Input) -> bool,
        index: usize,
    ) -> InputId {
        let behind = self.inputs.as_slice()[1..].partition_point(|input| start(input) <= index);
        // An input without entities may share its start with the next: step over it.
        (1..=behind)
            .rev()
            .map(InputId::from_index)
            .take_while(|&id| start(&self.inputs[id]) <= index)
            .take(2)
            .find(|&id| contains(&self.inputs[id]))
            .unwrap_or_else(Self::linker_input)
    }

    // Sections.

    /// Ids of the sections that exist, in order.
    pub fn sections(&self) -> impl Iterator<Item = SectionId> + '_ {
        self.sections
            .ids()
            .iter()
            .filter(|&id| !self.sections[id].flags.contains(SectionFlags::REMOVED))
    }

    /// How many section ids were given out, those of removed sections included.
    pub fn n_sections(&self) -> usize {
        self.sections.len()
    }

    /// One section.
    pub fn section(&self, id: SectionId) -> Section<'_> {
        let record = &self.sections[id];
        Section {
            name: self.section_name(id),
            prot: record.memory.prot(),
            lifetime: record.memory.lifetime(),
            kind: record.kind,
            flags: record.flags,
            entry_size: record.entry_size,
            comdat: record.comdat,
        }
    }

    /// A section's name.
    pub fn section_name(&self, id: SectionId) -> &[u8] {
        let record = &self.sections[id];
        if record.flags.contains(SectionFlags::OWNED_NAME) {
            c_string(&self.names, record.name)
        } else {
            self.inputs[self.section_input(id)].section_name(record.name)
        }
    }

    /// What a section's memory must allow.
    #[inline]
    pub fn section_prot(&self, id: SectionId) -> Prot {
        self.sections[id].memory.prot()
    }

    /// How long a section's memory is needed.
    #[inline]
    pub fn section_lifetime(&self, id: SectionId) -> Lifetime {
        self.sections[id].memory.lifetime()
    }

    /// What a section is for.
    #[inline]
    pub fn section_kind(&self, id: SectionId) -> SectionKind {
        self.sections[id].kind
    }

    /// A section's place among the others in a layout: smaller ones first. Its id's position
    /// unless a step set another.
    pub fn section_ordinal(&self, id: SectionId) -> u32 {
        self.explicit_ordinal(id)
            .unwrap_or_else(|| u32_of(id.index()))
    }

    /// The place that a step set, if one did.
    pub fn explicit_ordinal(&self, id: SectionId) -> Option<u32> {
        self.ordinals.get(&id).copied()
    }

    /// The first section of this name.
    pub fn find_section(&self, name: &[u8]) -> Option<SectionId> {
        self.sections().find(|&id| self.section_name(id) == name)
    }

    /// The blocks of a section, in order.
    pub fn section_blocks(&self, section: SectionId) -> impl Iterator<Item = BlockId> + '_ {
        self.blocks()
            .filter(move |&block| self.blocks[block].section == section)
    }

    // Blocks.

    /// Ids of the blocks that exist, in order.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.blocks.ids().iter().filter(|&id| self.has_block(id))
    }

    /// How many block ids were given out, those of removed blocks included.
    pub fn n_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Whether the block exists and was not removed.
    #[inline]
    pub fn has_block(&self, id: BlockId) -> bool {
        self.blocks
            .get(id)
            .is_some_and(|block| !block.flags.contains(BlockFlags::REMOVED))
    }

    /// The section a block belongs to.
    #[inline]
    pub fn block_section(&self, id: BlockId) -> SectionId {
        self.blocks[id].section
    }

    /// The flags of the section a block belongs to.
    #[inline]
    pub fn block_section_flags(&self, id: BlockId) -> SectionFlags {
        self.sections[self.blocks[id].section].flags
    }

    /// The input that brought a block: the linker for one that a step made.
    #[inline]
    pub fn block_input(&self, id: BlockId) -> InputId {
        self.blocks[id].input
    }

    /// A block's size in bytes.
    #[inline]
    pub fn block_size(&self, id: BlockId) -> u64 {
        self.blocks[id].size
    }

    /// A block's alignment, a power of two.
    #[inline]
    pub fn block_align(&self, id: BlockId) -> u64 {
        1 << self.blocks[id].align_log2
    }

    /// A block's address modulo its alignment.
    #[inline]
    pub fn block_align_offset(&self, id: BlockId) -> u64 {
        if self.blocks[id].flags.contains(BlockFlags::ALIGN_OFFSET) {
            self.align_offsets.get(&id).copied().unwrap_or(0)
        } else {
            0
        }
    }

    /// Whether the block has no content of its own: all zero.
    #[inline]
    pub fn is_zero_fill(&self, id: BlockId) -> bool {
        self.blocks[id].flags.contains(BlockFlags::ZERO)
    }

    /// A block's content.
    #[inline]
    pub fn content(&self, id: BlockId) -> Content<'_> {
        let record = &self.blocks[id];
        if record.flags.contains(BlockFlags::ZERO) {
            return Content::Zero(record.size);
        }
        Content::Bytes(self.record_bytes(record))
    }

    fn record_bytes(&self, record: &BlockRecord) -> &[u8] {
        let start = usize_of_u64(record.content);
        if record.flags.contains(BlockFlags::ZERO) {
            &[]
        } else if record.flags.contains(BlockFlags::OWNED_CONTENT) {
            &self.contents[start]
        } else {
            // Readers promise that this lies inside; the verifier checks that they kept it.
            let bytes = self.inputs[record.input].bytes.get(start..).unwrap_or(&[]);
            bytes.get(..usize_of_u64(record.size)).unwrap_or(&[])
        }
    }

    /// Where in its input an untouched block's content begins.
    pub fn content_file_offset(&self, id: BlockId) -> Option<u64> {
        let record = &self.blocks[id];
        (!record
            .flags
            .intersects(BlockFlags::ZERO | BlockFlags::OWNED_CONTENT))
        .then_some(record.content)
    }

    // Edges.

    /// Fills `edges` with the edges of a block, in the order of its relocation records; what was
    /// in the buffer goes. The one way to read edges, whether they are the input's or the
    /// graph's own.
    ///
    /// # Errors
    /// A relocation record that cannot be decoded; the buffer then holds what stood before it.
    #[inline]
    pub fn edges(&self, id: BlockId, edges: &mut Vec<Edge>) -> Result<(), Box<BlockEdgeError>> {
        edges.clear();
        let record = &self.blocks[id];
        if record.flags.contains(BlockFlags::OWNED_EDGES) {
            edges.extend_from_slice(self.edge_lists.get(usize_of(record.edges)));
            return Ok(());
        }
        if record.edges == 0 {
            return Ok(());
        }
        let input = &self.inputs[record.input];
        let Some(source) = &input.source else {
            return Ok(());
        };
        source
            .decode(&self.edge_request(record), edges)
            .map_err(|source| {
                Box::new(BlockEdgeError {
                    input: input.name.clone(),
                    section: String::from_utf8_lossy(self.section_name(record.section))
                        .into_owned(),
                    source,
                })
            })
    }

    /// How many edges a block has, without decoding them.
    pub fn n_edges(&self, id: BlockId) -> usize {
        let record = &self.blocks[id];
        if record.flags.contains(BlockFlags::OWNED_EDGES) {
            return self.edge_lists.get(usize_of(record.edges)).len();
        }
        match &self.inputs[record.input].source {
            Some(source) if record.edges != 0 => source.count(&self.edge_request(record)),
            _ => 0,
        }
    }

    /// Whether a block has no edge, without decoding them.
    #[inline]
    pub fn has_no_edges(&self, id: BlockId) -> bool {
        let record = &self.blocks[id];
        if record.flags.contains(BlockFlags::OWNED_EDGES) {
            self.edge_lists.get(usize_of(record.edges)).is_empty()
        } else {
            record.edges == 0
        }
    }

    #[inline]
    pub(crate) fn edge_request<'g>(&'g self, record: &BlockRecord) -> EdgeRequest<'g> {
        let input = &self.inputs[record.input];
        EdgeRequest {
            bytes: &input.bytes,
            content: self.record_bytes(record),
            size: record.size,
            table: record.edges,
            first_symbol: u32_of(input.symbols.start() + 1),
            n_symbols: u32_of(input.symbols.len()),
        }
    }

    // Symbols.

    /// Ids of the symbols that exist, in order.
    pub fn symbols(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.flags
            .ids()
            .iter()
            .filter(|&id| !self.flags[id].is_null())
    }

    /// How many symbol ids were given out, those of holes and removed symbols included.
    pub fn n_symbols(&self) -> usize {
        self.symbols.len()
    }

    /// One symbol.
    pub fn symbol(&self, id: SymbolId) -> Symbol<'_> {
        Symbol {
            id,
            name: self.symbol_name(id),
            base: self.addressable(id),
            size: self.symbol_size(id),
            flags: self.flags[id],
        }
    }

    /// A symbol's properties.
    #[inline]
    pub fn symbol_flags(&self, id: SymbolId) -> SymbolFlags {
        self.flags[id]
    }

    /// The properties of a range of symbols, in order.
    pub fn flags_of(&self, range: IdRange<SymbolId>) -> &[SymbolFlags] {
        self.flags.range(range)
    }

    /// A symbol's name, empty for an anonymous one.
    pub fn symbol_name(&self, id: SymbolId) -> &[u8] {
        let record = &self.symbols[id];
        if self.flags[id].contains(SymbolFlags::OWNED_NAME) {
            c_string(&self.names, record.name)
        } else {
            self.inputs[self.symbol_input(id)].symbol_name(record.name)
        }
    }

    /// The name of a symbol whose input the caller knows.
    #[inline]
    pub fn symbol_name_in(&self, input: InputId, symbol: SymbolId) -> &[u8] {
        let (table, offset) = self.name_in_input(input, symbol);
        c_string(table, offset)
    }

    /// The table that holds a symbol's name and the name's offset in it; the caller knows the
    /// symbol's input.
    #[inline]
    pub fn name_in_input(&self, input: InputId, symbol: SymbolId) -> (&[u8], u32) {
        let record = &self.symbols[symbol];
        if self.flags[symbol].contains(SymbolFlags::OWNED_NAME) {
            (&self.names, record.name)
        } else {
            (self.inputs[input].symbol_names(), record.name)
        }
    }

    /// What a symbol points at.
    #[inline]
    pub fn addressable(&self, id: SymbolId) -> Addressable {
        let (record, flags) = (&self.symbols[id], self.flags[id]);
        match flags.kind() {
            SymbolKind::Block => Addressable::Block {
                block: block_of(record.base),
                offset: self.symbol_offset(id),
            },
            SymbolKind::Absolute => {
                Addressable::Absolute(u64::from(record.base) << 32 | u64::from(record.offset))
            }
            SymbolKind::External => Addressable::External,
            SymbolKind::Common => Addressable::Common {
                align: self.symbol_offset(id).max(1),
            },
            SymbolKind::Discarded | SymbolKind::Pending => Addressable::Discarded,
            SymbolKind::Null => Addressable::Null,
        }
    }

    /// A symbol's offset in its block, or a common's alignment.
    #[inline]
    fn symbol_offset(&self, id: SymbolId) -> u64 {
        if self.flags[id].contains(SymbolFlags::WIDE) {
            self.wide[&id].offset
        } else {
            u64::from(self.symbols[id].offset)
        }
    }

    /// The block a symbol is defined in.
    #[inline]
    pub fn symbol_block(&self, id: SymbolId) -> Option<BlockId> {
        (self.flags[id].kind() == SymbolKind::Block).then(|| block_of(self.symbols[id].base))
    }

    /// While sections have no blocks yet: the number, in its input, of the section that defines
    /// the symbol, and the offset in it.
    pub fn pending_place(&self, id: SymbolId) -> Option<(u32, u64)> {
        let is_pending = self.flags[id].kind() == SymbolKind::Pending;
        is_pending.then(|| (self.symbols[id].base, self.symbol_offset(id)))
    }

    /// How many bytes a symbol names.
    #[inline]
    pub fn symbol_size(&self, id: SymbolId) -> u64 {
        if self.flags[id].contains(SymbolFlags::WIDE) {
            self.wide[&id].size
        } else {
            u64::from(self.symbols[id].size)
        }
    }

    /// The first symbol of this name that exists; walks all names.
    pub fn find_symbol(&self, name: &[u8]) -> Option<SymbolId> {
        self.symbols().find(|&id| self.symbol_name(id) == name)
    }

    // Groups and associations.

    /// Ids of the COMDAT groups, in order.
    pub fn comdats(&self) -> IdRange<ComdatId> {
        self.comdats.ids()
    }

    /// One group.
    pub fn comdat(&self, id: ComdatId) -> Comdat {
        self.comdats[id]
    }

    /// Pairs of blocks, the second of which lives when the first does: an FDE with its function,
    /// a section with the one it is ordered by.
    pub fn associations(&self) -> &[(BlockId, BlockId)] {
        &self.associations
    }
}

fn block_of(raw: u32) -> BlockId {
    BlockId::from_index(usize_of(raw) - 1)
}

impl fmt::Debug for LinkGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkGraph")
            .field("name", &self.name)
            .field("target", &self.target.name)
            .field("inputs", &self.inputs.len())
            .field("sections", &self.sections.len())
            .field("blocks", &self.blocks.len())
            .field("symbols", &self.symbols.len())
            .finish_non_exhaustive()
    }
}
