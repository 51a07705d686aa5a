//! The same graph once more, with names, contents and edges borrowed from an input, as readers
//! make graphs.

use crate::toy::TOY;
use bytes::Bytes;
use clinch_graph::{
    Addressable, BlockId, Comdat, Edge, EdgeError, EdgeErrorKind, EdgeKind, EdgeRequest,
    EdgeSource, Id, InputId, InputName, LinkGraph, NewInput, NewSection, Prot, ReadBlock,
    SectionId, SymbolBase, SymbolId, SymbolPart, Workers,
};
use std::sync::Arc;

/// A graph that means the same as a sound one of the toy architecture, all of it borrowed from
/// one input.
///
/// # Panics
/// The graph is not sound.
pub fn borrowed(graph: &LinkGraph) -> LinkGraph {
    let sections: Vec<SectionId> = graph.sections().collect();
    let blocks: Vec<BlockId> = graph.blocks().collect();
    let symbols: Vec<SymbolId> = graph.symbols().collect();

    // The file: names, contents and records, one after the other. Table word 0 means none.
    let mut file = vec![0];
    let section_names = names(&mut file, sections.iter().map(|&id| graph.section_name(id)));
    let symbol_names = names(&mut file, symbols.iter().map(|&id| graph.symbol_name(id)));
    let mut edges = Vec::new();
    let mut places = Vec::new();
    for &block in &blocks {
        let content = (!graph.is_zero_fill(block)).then(|| {
            let start = file.len();
            file.extend_from_slice(graph.content(block).bytes());
            u64_of(start)
        });
        graph
            .edges(block, &mut edges)
            .expect("a sound graph's edges can be decoded");
        let table = write_records(&mut file, &edges, &symbols);
        places.push((content, table));
    }

    let mut new = LinkGraph::new(graph.name(), &TOY);
    let inputs = new.add_inputs(
        &Workers::new(1),
        vec![NewInput {
            name: InputName::file("borrowed"),
            bytes: Bytes::from(file),
            symbol_names: symbol_names.0,
            section_names: section_names.0,
            source: Some(Arc::new(Records)),
            n_symbols: symbols.len(),
        }],
    );
    let input = InputId::from_index(inputs.start());

    // Section `n` of the input is the dummy section of block `n`.
    let n_sections = sections.len();
    let mut parts = new.symbol_parts(inputs);
    for (n, (&symbol, &name)) in symbols.iter().zip(&symbol_names.1).enumerate() {
        let base = match graph.addressable(symbol) {
            Addressable::Block { block, offset } => SymbolBase::Section {
                section: u32_of(n_sections + position(&blocks, block)),
                offset,
            },
            Addressable::Absolute(value) => SymbolBase::Absolute(value),
            Addressable::External => SymbolBase::External,
            // Set below, with all its bits.
            Addressable::Common { .. } => SymbolBase::Common { align: 1 },
            Addressable::Discarded | Addressable::Null => SymbolBase::Section {
                section: u32::MAX,
                offset: 0,
            },
        };
        let flags = graph.symbol_flags(symbol);
        assert!(parts[0].set(n, name, base, graph.symbol_size(symbol), flags));
    }
    let rests = parts.into_iter().map(SymbolPart::into_rest).collect();
    new.finish_symbols(rests);
    new.add_comdats(
        input,
        graph.comdats().iter().map(|id| {
            let comdat = graph.comdat(id);
            let signature = SymbolId::from_index(position(&symbols, comdat.signature));
            Comdat {
                signature,
                input,
                ..comdat
            }
        }),
    );

    // A part has one block a section: first each section with a block to be dropped, then each
    // block with a section to be removed.
    let mut parts = new.block_parts(&Workers::new(1), inputs, &[n_sections + blocks.len()]);
    for (&id, &name) in sections.iter().zip(&section_names.1) {
        let section = graph.section(id);
        let read = ReadBlock {
            name,
            section: NewSection {
                prot: section.prot,
                lifetime: section.lifetime,
                kind: section.kind,
                flags: section.flags,
                entry_size: section.entry_size,
                comdat: section.comdat,
            },
            content: None,
            size: 0,
            align_log2: 0,
            table: 0,
        };
        assert!(parts[0].push(&read).is_some());
    }
    for (&block, &(content, table)) in blocks.iter().zip(&places) {
        let read = ReadBlock {
            name: 0,
            section: NewSection::new(Prot::R),
            content,
            size: graph.block_size(block),
            align_log2: u8::try_from(graph.block_align(block).trailing_zeros()).unwrap_or(63),
            table,
        };
        assert!(parts[0].push(&read).is_some());
    }
    let resolved = parts[0].resolve_symbols(|section| (section != u32::MAX).then_some(section));
    assert_eq!(resolved, Ok(()), "a sound graph's symbols lie inside");
    drop(parts);
    arrange(graph, &mut new, (&sections, &blocks, &symbols));
    new
}

/// What parts cannot say: blocks to their sections, and what is beside the columns.
fn arrange(
    graph: &LinkGraph,
    new: &mut LinkGraph,
    (sections, blocks, symbols): (&[SectionId], &[BlockId], &[SymbolId]),
) {
    const EXISTS: &str = "it was just made";
    let new_block = |n| BlockId::from_index(sections.len() + n);
    for (n, &id) in sections.iter().enumerate() {
        new.drop_block(BlockId::from_index(n));
        if let Some(ordinal) = graph.explicit_ordinal(id) {
            new.set_section_ordinal(SectionId::from_index(n), ordinal);
        }
    }
    for (n, &id) in blocks.iter().enumerate() {
        let dummy = new.block_section(new_block(n));
        let section = SectionId::from_index(position(sections, graph.block_section(id)));
        new.transfer_block(new_block(n), section).expect(EXISTS);
        new.remove_section(dummy).expect("its block was moved");
        let (align, offset) = (graph.block_align(id), graph.block_align_offset(id));
        new.set_block_align(new_block(n), align, offset)
            .expect(EXISTS);
    }
    for (n, &id) in symbols.iter().enumerate() {
        if let Addressable::Common { align } = graph.addressable(id) {
            new.set_common(SymbolId::from_index(n), graph.symbol_size(id), align);
        }
    }
    for &(parent, child) in graph.associations() {
        let pair = [parent, child].map(|block| new_block(position(blocks, block)));
        new.associate(pair[0], pair[1]).expect(EXISTS);
    }
}

/// Writes a table of names; answers its range and each name's offset in it.
fn names<'n>(
    file: &mut Vec<u8>,
    names: impl Iterator<Item = &'n [u8]>,
) -> (std::ops::Range<usize>, Vec<u32>) {
    let start = file.len();
    let offsets = names.map(|name| {
        let offset = u32_of(file.len() - start);
        file.extend_from_slice(name);
        file.push(0);
        offset
    });
    let offsets = offsets.collect();
    (start..file.len(), offsets)
}

/// Bytes of one record: place, kind, symbol, addend.
const RECORD: usize = 4 + 1 + 4 + 8;

/// Writes a count and records; answers the block's word about them.
fn write_records(file: &mut Vec<u8>, edges: &[Edge], symbols: &[SymbolId]) -> u32 {
    if edges.is_empty() {
        return 0;
    }
    let word = u32_of(file.len());
    file.extend_from_slice(&u32_of(edges.len()).to_le_bytes());
    for edge in edges {
        let EdgeKind(kind) = edge.kind;
        file.extend_from_slice(&edge.offset.to_le_bytes());
        file.push(kind);
        let symbol = u32_of(position(symbols, edge.target));
        file.extend_from_slice(&symbol.to_le_bytes());
        file.extend_from_slice(&edge.addend.to_le_bytes());
    }
    word
}

/// Decodes what [`write_records`] wrote.
#[derive(Debug)]
struct Records;

impl EdgeSource for Records {
    fn decode(&self, request: &EdgeRequest<'_>, out: &mut Vec<Edge>) -> Result<(), EdgeError> {
        let error = |kind| EdgeError {
            offset: u64::from(request.table),
            kind,
        };
        let truncated = error(EdgeErrorKind::Truncated);
        let start = clinch_graph::index::int::usize_of(request.table) + 4;
        let table = request.bytes.get(start..).ok_or(truncated)?;
        let (records, _) = table.as_chunks::<RECORD>();
        let records = records.get(..self.count(request)).ok_or(truncated)?;
        for &[p0, p1, p2, p3, kind, s0, s1, s2, s3, ref addend @ ..] in records {
            let symbol = u32::from_le_bytes([s0, s1, s2, s3]);
            let target = SymbolId::from_raw(request.first_symbol.wrapping_add(symbol))
                .filter(|_| symbol < request.n_symbols)
                .ok_or(error(EdgeErrorKind::NoSymbol(symbol)))?;
            out.push(Edge {
                offset: u32::from_le_bytes([p0, p1, p2, p3]),
                kind: EdgeKind(kind),
                target,
                addend: i64::from_le_bytes(*addend),
            });
        }
        Ok(())
    }

    fn reads_content(&self, _: &EdgeRequest<'_>) -> bool {
        false
    }

    fn count(&self, request: &EdgeRequest<'_>) -> usize {
        let start = clinch_graph::index::int::usize_of(request.table);
        let count = request.bytes.get(start..).and_then(<[u8]>::first_chunk);
        count.map_or(0, |&count| {
            clinch_graph::index::int::usize_of(u32::from_le_bytes(count))
        })
    }
}

/// Where an id stands in a list in id order.
fn position<I: Id>(ids: &[I], id: I) -> usize {
    ids.binary_search(&id)
        .expect("a sound graph refers to what exists")
}

fn u32_of(n: usize) -> u32 {
    clinch_graph::index::int::u32_of(n)
}

fn u64_of(n: usize) -> u64 {
    clinch_graph::index::int::u64_of(n)
}
