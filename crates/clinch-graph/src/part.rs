//! Reading into the graph: parts are disjoint slices of the columns, one per input, that
//! readers fill in parallel. Nothing is copied when parts are joined, since they are filled in
//! place.
//!
//! The order is: [`LinkGraph::add_inputs`], [`LinkGraph::symbol_parts`] (names and what they are
//! defined in), [`LinkGraph::add_comdats`]; then, when it is known which COMDAT groups stay,
//! [`LinkGraph::block_parts`].

use crate::block::{BlockFlags, BlockRecord};
use crate::comdat::Comdat;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, ComdatId, InputId, SectionId, SymbolId};
use crate::index::column::Column;
use crate::index::id::{Id, IdRange};
use crate::index::int::{high_u32, low_u32, u32_of, usize_of};
use crate::index::map::Map;
use crate::index::workers::Workers;
use crate::input::{Input, NewInput};
use crate::section::{Memory, NewSection, SectionFlags, SectionRecord};
use crate::symbol::{SymbolFlags, SymbolKind, SymbolRecord, Wide};

/// What a symbol of an input points at, before sections have blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolBase {
    /// Offset in the input's section of this number.
    Section {
        /// The section's number in the input.
        section: u32,
        /// Offset in it.
        offset: u64,
    },
    /// A fixed value.
    Absolute(u64),
    /// Defined elsewhere.
    External,
    /// A tentative definition.
    Common {
        /// Alignment, a power of two.
        align: u32,
    },
}

/// The symbols of one input, to be filled.
#[derive(Debug)]
pub struct SymbolPart<'g> {
    /// The input.
    pub input: InputId,
    /// The whole file or member.
    pub bytes: &'g [u8],
    pub(crate) inputs: &'g Column<InputId, Input>,
    pub(crate) symbols: &'g mut [SymbolRecord],
    flags: &'g mut [SymbolFlags],
    wide: Vec<(usize, Wide)>,
}

impl SymbolPart<'_> {
    /// How many symbols the input has.
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Whether the input has no symbol.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Sets the input's symbol of this number; one that is not set is a hole. Answers `false`
    /// when the input has no such symbol.
    #[inline]
    pub fn set(
        &mut self,
        index: usize,
        name: u32,
        base: SymbolBase,
        size: u64,
        flags: SymbolFlags,
    ) -> bool {
        let (Some(record), Some(slot)) = (self.symbols.get_mut(index), self.flags.get_mut(index))
        else {
            return false;
        };
        let (kind, base, offset) = match base {
            SymbolBase::Section { section, offset } => (SymbolKind::Pending, section, offset),
            SymbolBase::Absolute(value) => (
                SymbolKind::Absolute,
                high_u32(value),
                u64::from(low_u32(value)),
            ),
            SymbolBase::External => (SymbolKind::External, 0, 0),
            SymbolBase::Common { align } => (SymbolKind::Common, 0, u64::from(align)),
        };
        let mut flags = flags
            .difference(SymbolFlags::OWNED_NAME | SymbolFlags::WIDE)
            .with_kind(kind);
        if offset > u64::from(u32::MAX) || size > u64::from(u32::MAX) {
            flags |= SymbolFlags::WIDE;
            self.wide.push((index, Wide { offset, size }));
        }
        *record = SymbolRecord {
            name,
            base,
            offset: low_u32(offset),
            size: low_u32(size),
        };
        *slot = flags;
        true
    }

    /// What the graph cannot keep in the columns; give it back to [`LinkGraph::finish_symbols`].
    pub fn into_rest(self) -> SymbolRest {
        SymbolRest {
            input: self.input,
            wide: self.wide,
        }
    }
}

/// What is left of a [`SymbolPart`] when its columns are filled.
#[derive(Debug)]
pub struct SymbolRest {
    input: InputId,
    wide: Vec<(usize, Wide)>,
}

/// The sections and blocks of one input, to be filled: section `n` of the part holds block `n`.
#[derive(Debug)]
pub struct BlockPart<'g> {
    /// The input.
    pub input: InputId,
    /// The whole file or member.
    pub bytes: &'g [u8],
    first_block: usize,
    first_section: usize,
    first_symbol: usize,
    filled: usize,
    wide: &'g Map<SymbolId, Wide>,
    sections: &'g mut [SectionRecord],
    blocks: &'g mut [BlockRecord],
    symbols: &'g mut [SymbolRecord],
    flags: &'g mut [SymbolFlags],
}

/// A section with its one block, as a reader gives it.
#[derive(Clone, Copy, Debug)]
pub struct ReadBlock {
    /// Offset of the section's name in the input's table of section names.
    pub name: u32,
    /// The section.
    pub section: NewSection,
    /// Where in the input the content begins; `None` for zero-fill. The reader has checked that
    /// content and size lie inside the input.
    pub content: Option<u64>,
    /// Size in bytes.
    pub size: u64,
    /// Binary logarithm of the alignment, below 64.
    pub align_log2: u8,
    /// The edge source's word about the relocation records, 0 for none.
    pub table: u32,
}

impl BlockPart<'_> {
    /// Adds the next section with its block and answers its number in the part, or `None` when
    /// the part is full.
    #[inline]
    pub fn push(&mut self, block: &ReadBlock) -> Option<u32> {
        let n = self.filled;
        let (section, slot) = (self.sections.get_mut(n)?, self.blocks.get_mut(n)?);
        *section = SectionRecord {
            name: block.name,
            entry_size: block.section.entry_size,
            comdat: block.section.comdat,
            memory: Memory::new(block.section.prot, block.section.lifetime),
            kind: block.section.kind,
            flags: block
                .section
                .flags
                .difference(SectionFlags::OWNED_NAME | SectionFlags::REMOVED),
        };
        *slot = BlockRecord {
            content: block.content.unwrap_or(0),
            size: block.size,
            section: SectionId::from_index(self.first_section + n),
            input: self.input,
            edges: block.table,
            align_log2: block.align_log2.min(63),
            flags: if block.content.is_none() {
                BlockFlags::ZERO
            } else {
                BlockFlags::empty()
            },
        };
        self.filled += 1;
        Some(u32_of(n))
    }

    /// The id of the part's `n`-th block.
    pub fn block_id(&self, n: u32) -> BlockId {
        BlockId::from_index(self.first_block + usize_of(n))
    }

    /// Points every symbol that waits for its section at the section's block. `block_of` maps a
    /// section's number in the input to its number in the part; symbols of a section without
    /// one are discarded. A symbol that ends behind its block is cut to it, since assemblers
    /// write such sizes and linkers take them.
    ///
    /// # Errors
    /// A symbol that begins behind its block (or, beyond 4 GiB, ends there).
    pub fn resolve_symbols(
        &mut self,
        block_of: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), SymbolOutside> {
        for (index, (record, flags)) in self
            .symbols
            .iter_mut()
            .zip(self.flags.iter_mut())
            .enumerate()
        {
            if flags.kind() != SymbolKind::Pending {
                continue;
            }
            let Some(n) = block_of(record.base) else {
                *flags = flags.with_kind(SymbolKind::Discarded);
                continue;
            };
            let size = self.blocks.get(usize_of(n)).map_or(0, |block| block.size);
            if flags.contains(SymbolFlags::WIDE) {
                let id = SymbolId::from_index(self.first_symbol + index);
                let wide = self
                    .wide
                    .get(&id)
                    .copied()
                    .unwrap_or(Wide { offset: 0, size: 0 });
                let outside = wide.offset > size;
                let cut = wide.size.min(size.saturating_sub(wide.offset));
                let narrow = wide.offset.max(cut) <= u64::from(u32::MAX);
                // The side table is lent to all parts, so what stays in it cannot be cut.
                if outside || (cut != wide.size && !narrow) {
                    return Err(SymbolOutside {
                        index,
                        offset: wide.offset,
                        size,
                    });
                }
                if narrow {
                    (record.offset, record.size) = (low_u32(wide.offset), low_u32(cut));
                    flags.remove(SymbolFlags::WIDE);
                }
            } else {
                let offset = u64::from(record.offset);
                if offset > size {
                    return Err(SymbolOutside {
                        index,
                        offset,
                        size,
                    });
                }
                record.size = record
                    .size
                    .min(low_u32((size - offset).min(u64::from(u32::MAX))));
            }
            record.base = u32_of(self.first_block + usize_of(n) + 1);
            *flags = flags.with_kind(SymbolKind::Block);
        }
        Ok(())
    }
}

/// A symbol whose place is not in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SymbolOutside {
    /// The symbol's number in its input.
    pub index: usize,
    /// Its offset.
    pub offset: u64,
    /// The block's size.
    pub size: u64,
}

impl LinkGraph {
    /// Adds inputs with all their symbols as holes, and answers the inputs' ids.
    pub fn add_inputs(&mut self, workers: &Workers, inputs: Vec<NewInput>) -> IdRange<InputId> {
        let first = self.inputs.len();
        let mut n_symbols = self.symbols.len();
        for new in inputs {
            let symbols = IdRange::new(n_symbols, n_symbols + new.n_symbols);
            n_symbols = symbols.end();
            self.inputs.push(Input {
                name: new.name,
                bytes: new.bytes,
                symbol_names: new.symbol_names,
                section_names: new.section_names,
                source: new.source,
                symbols,
                sections: IdRange::new(self.sections.len(), self.sections.len()),
                blocks: IdRange::new(self.blocks.len(), self.blocks.len()),
                comdats: IdRange::new(self.comdats.len(), self.comdats.len()),
            });
        }
        self.symbols
            .grow_with(workers, n_symbols, SymbolRecord::NULL);
        self.flags
            .grow_with(workers, n_symbols, SymbolFlags::empty());
        IdRange::new(first, self.inputs.len())
    }

    /// The symbols of these inputs, which must follow one another, as parts to fill in parallel.
    pub fn symbol_parts(&mut self, range: IdRange<InputId>) -> Vec<SymbolPart<'_>> {
        let mut parts = Vec::with_capacity(range.len());
        let mut symbols = Slices::of(self.symbols.as_mut_slice());
        let mut flags = Slices::of(self.flags.as_mut_slice());
        for (id, input) in range.iter().zip(self.inputs.range(range)) {
            parts.push(SymbolPart {
                input: id,
                bytes: &input.bytes,
                inputs: &self.inputs,
                symbols: symbols.take(input.symbols),
                flags: flags.take(input.symbols),
                wide: Vec::new(),
            });
        }
        parts
    }

    /// Takes what filled parts could not keep in the columns.
    pub fn finish_symbols(&mut self, rests: Vec<SymbolRest>) {
        for rest in rests {
            let first = self.inputs[rest.input].symbols.start();
            for (index, wide) in rest.wide {
                self.wide.insert(SymbolId::from_index(first + index), wide);
            }
        }
    }

    /// Adds an input's COMDAT groups; once per input, in the inputs' order.
    pub fn add_comdats(
        &mut self,
        input: InputId,
        comdats: impl IntoIterator<Item = Comdat>,
    ) -> IdRange<ComdatId> {
        let first = self.comdats.len();
        for comdat in comdats {
            self.comdats.push(comdat);
        }
        let range = IdRange::new(first, self.comdats.len());
        self.inputs[input].comdats = range;
        range
    }

    /// Adds sections and blocks, `counts[n]` for the `n`-th input of the range, as parts to fill
    /// in parallel. A reader fills each part whole. Once per input, in the inputs' order.
    pub fn block_parts(
        &mut self,
        workers: &Workers,
        range: IdRange<InputId>,
        counts: &[usize],
    ) -> Vec<BlockPart<'_>> {
        let total: usize = counts.iter().sum();
        let (n_sections, n_blocks) = (self.sections.len(), self.blocks.len());
        self.sections
            .grow_with(workers, n_sections + total, SectionRecord::NONE);
        let none = BlockRecord {
            content: 0,
            size: 0,
            section: SectionId::from_index(0),
            input: Self::linker_input(),
            edges: 0,
            align_log2: 0,
            flags: BlockFlags::REMOVED,
        };
        self.blocks.grow_with(workers, n_blocks + total, none);
        let (mut next_section, mut next_block) = (n_sections, n_blocks);
        for (id, &count) in range.iter().zip(counts) {
            let input = &mut self.inputs[id];
            input.sections = IdRange::new(next_section, next_section + count);
            input.blocks = IdRange::new(next_block, next_block + count);
            (next_section, next_block) = (input.sections.end(), input.blocks.end());
        }

        // Inputs that have none yet begin where the next one's will, so that the ranges ascend.
        for input in &mut self.inputs.as_mut_slice()[range.end()..] {
            if input.sections.is_empty() && input.blocks.is_empty() {
                input.sections = IdRange::new(next_section, next_section);
                input.blocks = IdRange::new(next_block, next_block);
            }
        }

        let mut symbols = Slices::of(self.symbols.as_mut_slice());
        let mut flags = Slices::of(self.flags.as_mut_slice());
        let mut sections = Slices::of(self.sections.as_mut_slice());
        let mut blocks = Slices::of(self.blocks.as_mut_slice());
        let mut parts = Vec::with_capacity(range.len());
        for (id, input) in range.iter().zip(self.inputs.range(range)) {
            parts.push(BlockPart {
                input: id,
                bytes: &input.bytes,
                first_block: input.blocks.start(),
                first_section: input.sections.start(),
                first_symbol: input.symbols.start(),
                filled: 0,
                wide: &self.wide,
                sections: sections.take(input.sections),
                blocks: blocks.take(input.blocks),
                symbols: symbols.take(input.symbols),
                flags: flags.take(input.symbols),
            });
        }
        parts
    }
}

/// A column's values, of which ascending ranges are lent out one after the other.
struct Slices<'g, T> {
    rest: &'g mut [T],
    /// Position in the column of the first value of the rest.
    start: usize,
}

impl<'g, T> Slices<'g, T> {
    fn of(column: &'g mut [T]) -> Self {
        Self {
            rest: column,
            start: 0,
        }
    }

    /// The values of a range that begins where the one before it ended or later.
    fn take<I: Id>(&mut self, range: IdRange<I>) -> &'g mut [T] {
        let gap = range.start() - self.start;
        let rest = &mut std::mem::take(&mut self.rest)[gap..];
        let (head, tail) = rest.split_at_mut(range.len());
        (self.rest, self.start) = (tail, range.end());
        head
    }
}

#[cfg(test)]
mod tests;
