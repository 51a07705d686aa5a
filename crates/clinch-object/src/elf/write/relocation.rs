//! Edges to relocation records, or to the values they stand for.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::WriteError;
use super::sections::Sections;
use super::{describe_symbol, text};
use clinch_graph::index::int::signed;
use clinch_graph::{Addressable, BlockId, Edge, EdgeKind, Id, LinkGraph, SymbolFlags, SymbolId};
use clinch_target::{Arch, ElfArch, ElfSpelling, Expr, FixupContext};

/// The name of the GOT's base, in every ELF architecture.
const GOT_BASE: &[u8] = b"_GLOBAL_OFFSET_TABLE_";

/// A relocation record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// `r_offset`.
    pub(super) place: u64,
    pub(super) target: SymbolId,
    /// The relocation number.
    pub(super) number: u32,
    /// `r_addend`.
    pub(super) addend: i64,
}

/// An edge whose value is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    block: BlockId,
    edge: Edge,
    /// Offset of the target in the section.
    target: u64,
}

/// What the edges of the sections become.
#[derive(Debug, Default)]
pub(super) struct Relocations {
    /// Per section, in the order of the plan.
    of_section: Vec<(Vec<Record>, Vec<Known>)>,
}

impl Relocations {
    /// Looks at all edges.
    pub(super) fn collect(
        graph: &LinkGraph,
        arch: &Arch,
        elf: &ElfArch,
        sections: &Sections,
    ) -> Result<Self, WriteError> {
        // What is asked for every edge, per kind.
        let spellings: Vec<Option<ElfSpelling>> = (0..=u8::MAX)
            .map(|kind| elf.spelling(EdgeKind(kind), false))
            .collect();
        let mut of_section = Vec::with_capacity(sections.list.len());
        let mut edges = Vec::new();
        for (place, section) in sections.list.iter().enumerate() {
            let (mut records, mut known) = (Vec::new(), Vec::new());
            for &block in &section.blocks {
                if graph.has_no_edges(block) {
                    continue;
                }
                graph.edges(block, &mut edges)?;
                records.reserve(edges.len());
                let start = sections.offset(block);
                for edge in &edges {
                    let spelling = spellings.get(usize::from(edge.kind.0)).copied().flatten();
                    let spelling = if is_got_base(graph, edge.target) {
                        elf.spelling(edge.kind, true)
                    } else {
                        spelling
                    };
                    let offset = start.saturating_add(u64::from(edge.offset));
                    let fail = |why| WriteError::Edge {
                        section: text(graph.section_name(section.id)),
                        offset,
                        kind: arch.graph.kind_name(edge.kind),
                        target: describe_symbol(graph, edge.target),
                        why,
                    };
                    if graph.addressable(edge.target) == Addressable::Null {
                        return Err(fail("the target does not exist"));
                    }
                    let Some(spelling) = spelling else {
                        let target = inside(graph, arch, sections, place, edge);
                        let target = target.ok_or_else(|| fail("ELF has no such relocation"))?;
                        let edge = *edge;
                        known.push(Known {
                            block,
                            edge,
                            target,
                        });
                        continue;
                    };
                    let moved = moved(graph, arch, sections, edge)
                        .ok_or_else(|| fail("the target's section was joined to another"))?;
                    let addend = edge.addend.wrapping_sub(spelling.bias).wrapping_add(moved);
                    if !elf.is_64 && (i32::try_from(addend).is_err() || spelling.number > 0xff) {
                        return Err(fail("its addend does not fit a record"));
                    }
                    records.push(Record {
                        place: offset,
                        target: edge.target,
                        number: spelling.number,
                        addend,
                    });
                }
            }
            of_section.push((records, known));
        }
        Ok(Self { of_section })
    }

    /// The records of a section.
    pub(super) fn records(&self, place: usize) -> &[Record] {
        self.of_section
            .get(place)
            .map_or(&[], |(records, _)| records.as_slice())
    }

    /// All records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        self.of_section.iter().flat_map(|(records, _)| records)
    }

    /// Writes the values that are known into a section's content.
    pub(super) fn apply_known(
        &self,
        graph: &LinkGraph,
        arch: &Arch,
        sections: &Sections,
        place: usize,
        content: &mut [u8],
    ) -> Result<(), WriteError> {
        let known = self
            .of_section
            .get(place)
            .map_or(&[][..], |(_, known)| known);
        for Known {
            block,
            edge,
            target,
        } in known
        {
            let start = sections.offset(*block);
            let end = start.saturating_add(graph.block_size(*block));
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            let bytes = range.and_then(|(start, end)| content.get_mut(start..end));
            let context = FixupContext {
                addresses: &[*target],
                size_of: &|_| 0,
                got: 0,
                tls: None,
            };
            let edge_to_first = Edge {
                target: SymbolId::from_index(0),
                ..*edge
            };
            let applied = bytes.map(|bytes| (arch.apply)(&context, start, &[edge_to_first], bytes));
            if !matches!(applied, Some(Ok(()))) {
                let section = graph.block_section(*block);
                return Err(WriteError::Edge {
                    section: text(graph.section_name(section)),
                    offset: start.saturating_add(u64::from(edge.offset)),
                    kind: arch.graph.kind_name(edge.kind),
                    target: describe_symbol(graph, edge.target),
                    why: "the distance does not fit its field",
                });
            }
        }
        Ok(())
    }
}

fn is_got_base(graph: &LinkGraph, symbol: SymbolId) -> bool {
    graph.symbol_flags(symbol).is_external() && graph.symbol_name(symbol) == GOT_BASE
}

/// How far the section that an edge's target stands for is in the section it was joined to. Where
/// equal pieces may be merged, symbol and addend mean a piece only if the symbol is the section's;
/// so this cannot be in the symbol's value.
fn moved(graph: &LinkGraph, arch: &Arch, sections: &Sections, edge: &Edge) -> Option<i64> {
    if !graph
        .symbol_flags(edge.target)
        .contains(SymbolFlags::SECTION)
    {
        return Some(0);
    }
    let block = graph.symbol_block(edge.target);
    let start = block.and_then(|block| sections.of_block(graph, block));
    let start = start.map_or(0, |(_, start)| start);
    if start == 0 || edge.kind == EdgeKind::KEEP_ALIVE {
        return Some(0);
    }
    let row = arch.edge(edge.kind).filter(|row| row.request.is_none())?;
    match row.expr {
        Expr::Size | Expr::None => Some(0),
        Expr::NegRelative => None,
        Expr::Absolute | Expr::Relative | Expr::FromGot | Expr::TpRelative | Expr::DtpRelative => {
            Some(signed(start))
        }
    }
}

/// For an edge that writes a distance: the target's offset, when it is in the same section of the
/// file, so that nothing will change the distance.
fn inside(
    graph: &LinkGraph,
    arch: &Arch,
    sections: &Sections,
    place: usize,
    edge: &Edge,
) -> Option<u64> {
    let row = arch.edge(edge.kind)?;
    if !matches!(row.expr, Expr::Relative | Expr::NegRelative) || row.request.is_some() {
        return None;
    }
    let Addressable::Block { block, offset } = graph.addressable(edge.target) else {
        return None;
    };
    let (section, start) = sections.of_block(graph, block)?;
    (section == place).then(|| start.wrapping_add(offset))
}
