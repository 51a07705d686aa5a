//! Call frame records: splits `.eh_frame` sections into a block per CIE and FDE, so that a record
//! lives exactly as long as its function (LSB Core, Exception Frames; DWARF, Call Frame
//! Information).
//!
//! Reads: graph. True after: every FDE whose function takes part is a block of its own, with an
//! edge to its CIE, associated with the block of its function; other records are gone. Records
//! touch one another (alignment 1), since a gap would end the list.

use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use clinch_graph::index::map::Map;
use clinch_graph::{
    BlockEdgeError, BlockId, Edge, Endian, GraphError, LinkGraph, NewBlock, NewContent, NewSection,
    Prot, SectionFlags, SectionKind, SymbolFlags, SymbolId,
};
use clinch_target::{Arch, Expr};
use thiserror::Error;

/// Why a call frame section cannot be split.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{input}:({section}+{offset:#x}): {why}")]
pub struct FrameError {
    /// The input.
    pub input: String,
    /// The section.
    pub section: String,
    /// Offset of the record in the section.
    pub offset: u64,
    /// What is wrong.
    pub why: FrameErrorKind,
}

/// What is wrong with a call frame section.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FrameErrorKind {
    /// A record does not fit the section.
    #[error("call frame record is truncated")]
    Truncated,
    /// An FDE names no CIE of the section.
    #[error("FDE refers to no CIE")]
    NoCie,
    /// A CIE of a version that is not known.
    #[error("CIE of version {0} is not known")]
    Version(u8),
    /// Relocation records that cannot be decoded.
    #[error(transparent)]
    Edges(BlockEdgeError),
    /// The graph refused a change.
    #[error(transparent)]
    Graph(GraphError),
}

/// One record of a section.
#[derive(Clone, Copy, Debug)]
struct Record {
    start: u64,
    size: u64,
    /// Offset in the section of the field that names the CIE.
    pointer: u64,
    /// Offset in the section of the CIE; `None` for a CIE.
    cie: Option<u64>,
}

/// Splits all call frame sections.
///
/// # Errors
/// Every section that cannot be split, in id order.
pub fn split(graph: &mut LinkGraph, arch: &Arch) -> Result<(), Vec<FrameError>> {
    let frames: Vec<BlockId> = graph
        .blocks()
        .filter(|&block| graph.section_kind(graph.block_section(block)) == SectionKind::EhFrame)
        .collect();
    let mut errors = Vec::new();
    for block in frames {
        if let Err((offset, why)) = split_section(graph, arch, block) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            errors.push(FrameError {
                input: graph.input(graph.block_input(block)).name.to_string(),
                section: text(graph.section_name(graph.block_section(block))),
                offset,
                why,
            });
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Adds the zero length that ends the list, as the last block of its kind; `None` when there is no
/// record.
///
/// # Errors
/// None in a graph that the verifier accepts.
pub fn terminate(graph: &mut LinkGraph) -> Result<Option<BlockId>, GraphError> {
    let is_record =
        |&block: &BlockId| graph.section_kind(graph.block_section(block)) == SectionKind::EhFrame;
    if !graph.blocks().any(|block| is_record(&block)) {
        return Ok(None);
    }
    let section = graph.add_section(
        b".eh_frame",
        NewSection {
            kind: SectionKind::EhFrame,
            flags: SectionFlags::RETAIN,
            ..NewSection::new(Prot::R)
        },
    );
    let content = NewContent::Owned(vec![0; 4]);
    let end = NewBlock {
        section,
        content,
        align: 1,
        align_offset: 0,
    };
    graph.add_block(end).map(Some)
}

fn split_section(
    graph: &mut LinkGraph,
    arch: &Arch,
    block: BlockId,
) -> Result<(), (u64, FrameErrorKind)> {
    let at_start = |error: GraphError| (0, FrameErrorKind::Graph(error));
    let content = graph.content(block).bytes();
    let records = read(content, arch.graph.endian)?;
    // What follows the last record is a terminator or nothing.
    let Some(last) = records.last() else {
        if graph.block_size(block) > 0 {
            clear(graph, block).map_err(at_start)?;
        }
        return Ok(());
    };
    let end = last.start + last.size;
    let has_rest = end < graph.block_size(block);
    let mut offsets: Vec<u64> = records.iter().map(|record| record.start).skip(1).collect();
    if has_rest {
        offsets.push(end);
    }
    let symbols = graph.input(graph.block_input(block)).symbols();
    let pieces = graph
        .split_block_among(block, &offsets, symbols)
        .map_err(at_start)?;
    if has_rest && let Some(&rest) = pieces.last() {
        clear(graph, rest).map_err(at_start)?;
    }

    let to_cie = arch.kind_of(Expr::NegRelative, 4);
    let function_at = usize_of_u64(8);
    let mut cies: Map<u64, (BlockId, Option<SymbolId>)> = Map::default();
    for (record, &piece) in records.iter().zip(&pieces) {
        if record.cie.is_none() {
            cies.insert(record.start, (piece, None));
        }
    }
    let mut edges = Vec::new();
    for (record, &piece) in records.iter().zip(&pieces) {
        let at = |error| (record.start, FrameErrorKind::Graph(error));
        graph.set_block_align(piece, 1, 0).map_err(at)?;
        let Some(cie) = record.cie else { continue };
        graph
            .edges(piece, &mut edges)
            .map_err(|error| (record.start, FrameErrorKind::Edges(*error)))?;
        let head = record.pointer - record.start;
        let function = edges
            .iter()
            .find(|edge| usize_of(edge.offset) == usize_of_u64(head) + function_at - 4)
            .and_then(|edge| graph.symbol_block(edge.target));
        let Some(function) = function else {
            // Its function was discarded, or was never there.
            graph.drop_block(piece);
            continue;
        };
        let Some(&(cie_block, symbol)) = cies.get(&cie) else {
            return Err((record.start, FrameErrorKind::NoCie));
        };
        let cie_symbol = match symbol {
            Some(symbol) => symbol,
            None => {
                let symbol = graph
                    .add_anonymous(cie_block, 0, 0, SymbolFlags::empty())
                    .map_err(at)?;
                cies.insert(cie, (cie_block, Some(symbol)));
                symbol
            }
        };
        if let Some(kind) = to_cie {
            // The field holds its distance from the CIE.
            let offset = u32::try_from(head).unwrap_or(u32::MAX);
            let edge = Edge {
                offset,
                kind,
                target: cie_symbol,
                addend: 0,
            };
            graph.add_edge(piece, edge).map_err(at)?;
        }
        graph.associate(function, piece).map_err(at)?;
    }
    Ok(())
}

/// Makes a block vanish from memory without making it go away, since symbols may point at it.
fn clear(graph: &mut LinkGraph, block: BlockId) -> Result<(), GraphError> {
    graph.set_edges(block, Vec::new())?;
    graph.set_content(block, Vec::new())?;
    graph.set_block_align(block, 1, 0)
}

/// The records of a section, up to a terminator or its end.
fn read(content: &[u8], endian: Endian) -> Result<Vec<Record>, (u64, FrameErrorKind)> {
    let word = |offset: u64| -> Option<u32> {
        let start = usize::try_from(offset).ok()?;
        let raw = content.get(start..start.checked_add(4)?)?.try_into().ok()?;
        Some(match endian {
            Endian::Little => u32::from_le_bytes(raw),
            Endian::Big => u32::from_be_bytes(raw),
        })
    };
    let mut records = Vec::new();
    let mut start = 0;
    while start < u64_of(content.len()) {
        let truncated = || (start, FrameErrorKind::Truncated);
        let (mut size, mut head) = (u64::from(word(start).ok_or_else(truncated)?), 4);
        if size == 0 {
            break;
        }
        if size == 0xffff_ffff {
            // The 64-bit form: the length follows in eight bytes.
            let halves = (
                word(start + 4).ok_or_else(truncated)?,
                word(start + 8).ok_or_else(truncated)?,
            );
            let (low, high) = match endian {
                Endian::Little => halves,
                Endian::Big => (halves.1, halves.0),
            };
            (size, head) = (u64::from(high) << 32 | u64::from(low), 12);
        }
        let whole = size.checked_add(head).ok_or_else(truncated)?;
        let end = start.checked_add(whole).ok_or_else(truncated)?;
        if end > u64_of(content.len()) || size < 4 {
            return Err(truncated());
        }
        let pointer = start + head;
        let distance = word(pointer).ok_or_else(truncated)?;
        let cie = if distance == 0 {
            let version = content.get(usize_of_u64(pointer + 4)).copied().unwrap_or(0);
            if !matches!(version, 1 | 3 | 4) {
                return Err((start, FrameErrorKind::Version(version)));
            }
            None
        } else {
            let cie = pointer.checked_sub(u64::from(distance));
            Some(cie.ok_or((start, FrameErrorKind::NoCie))?)
        };
        records.push(Record {
            start,
            size: whole,
            pointer,
            cie,
        });
        start = end;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn records_end_at_the_terminator() {
        // A CIE of 12 bytes, an FDE of 20 that points back to it, the terminator, rubbish.
        let data = words(&[8, 0, 1, 16, 16, 0, 0, 0, 0, 0, 7]);
        let records = read(&data, Endian::Little).unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].size, records[0].cie), (12, None));
        assert_eq!(
            (records[1].start, records[1].size, records[1].cie),
            (12, 20, Some(0))
        );
    }

    #[test]
    fn malformed_records_are_errors() {
        let read = |data: &[u32]| read(&words(data), Endian::Little).map(drop);
        assert_eq!(read(&[100, 0, 1]), Err((0, FrameErrorKind::Truncated)));
        assert_eq!(read(&[8, 0, 9]), Err((0, FrameErrorKind::Version(9))));
        assert_eq!(read(&[8, 400, 1]), Err((0, FrameErrorKind::NoCie)));
        assert_eq!(read(&[0xffff_ffff, 1]), Err((0, FrameErrorKind::Truncated)));
    }
}
