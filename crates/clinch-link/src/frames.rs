//! Call frame records: splits `.eh_frame` sections into a block per CIE and FDE, so that a record
//! lives exactly as long as its function (LSB Core, Exception Frames; DWARF, Call Frame
//! Information).
//!
//! Reads: graph. True after: every FDE whose function takes part is a block of its own, with an
//! edge to its CIE, associated with the block of its function; other records are gone. Records
//! touch one another (alignment 1), since a gap would end the list. Parallel: over sections for
//! what is read; the graph is then changed by one thread, in id order.

use clinch_graph::index::int::{u64_of, usize_of_u64};
use clinch_graph::index::map::Map;
use clinch_graph::{
    BlockId, Edge, Endian, GraphError, LinkGraph, NewBlock, NewContent, NewSection, Prot,
    SectionFlags, SectionKind, Split, SymbolFlags, SymbolId, Workers,
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

/// What becomes of a record.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// A CIE, which stays while an FDE refers to it.
    Cie,
    /// An FDE, which lives as long as this function.
    Of {
        function: Function,
        /// The CIE by number among the section's records.
        cie: usize,
        /// Offset in the record of the field that names the CIE.
        pointer: u32,
    },
    /// Its function was discarded, or was never there.
    Gone,
}

/// Where a function is.
#[derive(Clone, Copy, Debug)]
enum Function {
    Block(BlockId),
    /// In a call frame section, of all places, which may be split first.
    Moving(SymbolId),
}

/// What is to be done with a section.
struct Plan {
    block: BlockId,
    split: Option<Split>,
    /// What becomes of the pieces; one that has no entry is not a record.
    fates: Vec<Fate>,
}

/// Splits all call frame sections.
///
/// # Errors
/// Every section that cannot be split, in id order.
pub fn split(graph: &mut LinkGraph, arch: &Arch) -> Result<(), Vec<FrameError>> {
    split_with(graph, arch, &Workers::new(1))
}

/// The same on many threads.
///
/// # Errors
/// As for [`split`].
pub fn split_with(
    graph: &mut LinkGraph,
    arch: &Arch,
    workers: &Workers,
) -> Result<(), Vec<FrameError>> {
    let frames: Vec<BlockId> = graph
        .blocks()
        .filter(|&block| graph.section_kind(graph.block_section(block)) == SectionKind::EhFrame)
        .collect();
    let sizes = frames.iter().map(|&block| graph.block_size(block));
    // A record has some bytes and about as many for the places in it.
    let cost = usize_of_u64(sizes.fold(0, u64::saturating_add)).saturating_mul(2);
    let plans = {
        let graph = &*graph;
        let runs = workers.cut(cost, frames.len());
        workers.map(cost, runs, |run| {
            let plan = |&block| plan_section(graph, arch, block);
            frames[run].iter().map(plan).collect::<Vec<_>>()
        })
    };
    let mut errors = Vec::new();
    for (&block, plan) in frames.iter().zip(plans.into_iter().flatten()) {
        if let Err((offset, why)) = plan.and_then(|plan| carry_out(graph, arch, plan)) {
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

/// Reads a section's records and finds out what becomes of each.
fn plan_section(
    graph: &LinkGraph,
    arch: &Arch,
    block: BlockId,
) -> Result<Plan, (u64, FrameErrorKind)> {
    let content = graph.content(block).bytes();
    let records = read(content, arch.graph.endian)?;
    // What follows the last record is a terminator or nothing.
    let Some(last) = records.last() else {
        return Ok(Plan {
            block,
            split: None,
            fates: Vec::new(),
        });
    };
    let end = last.start + last.size;
    let mut offsets: Vec<u64> = records.iter().map(|record| record.start).skip(1).collect();
    if end < graph.block_size(block) {
        offsets.push(end);
    }
    let symbols = graph.input(graph.block_input(block)).symbols();
    // An FDE gets an edge to its CIE.
    let split = graph
        .plan_split(block, &offsets, symbols, 1)
        .map_err(|error| (0, FrameErrorKind::Graph(error)))?;
    let mut fates = Vec::with_capacity(records.len());
    for (number, record) in records.iter().enumerate() {
        let Some(cie) = record.cie else {
            fates.push(Fate::Cie);
            continue;
        };
        let pointer = record.pointer - record.start;
        // The function's address is the next field.
        let edge = split
            .edges(number)
            .iter()
            .find(|edge| u64::from(edge.offset) == pointer + 4);
        let function = edge.and_then(|edge| {
            let block = graph.symbol_block(edge.target)?;
            let kind = graph.section_kind(graph.block_section(block));
            Some(if kind == SectionKind::EhFrame {
                Function::Moving(edge.target)
            } else {
                Function::Block(block)
            })
        });
        let Some(function) = function else {
            fates.push(Fate::Gone);
            continue;
        };
        let is_cie = |&cie: &usize| records[cie].cie.is_none();
        let cie = records.binary_search_by_key(&cie, |record| record.start);
        fates.push(Fate::Of {
            function,
            cie: cie
                .ok()
                .filter(is_cie)
                .ok_or((record.start, FrameErrorKind::NoCie))?,
            pointer: u32::try_from(pointer).unwrap_or(u32::MAX),
        });
    }
    Ok(Plan {
        block,
        split: Some(split),
        fates,
    })
}

fn carry_out(graph: &mut LinkGraph, arch: &Arch, plan: Plan) -> Result<(), (u64, FrameErrorKind)> {
    let refused = |error: GraphError| (0, FrameErrorKind::Graph(error));
    let Plan {
        block,
        split,
        fates,
    } = plan;
    let Some(split) = split else {
        if graph.block_size(block) > 0 {
            clear(graph, block).map_err(refused)?;
        }
        return Ok(());
    };
    let n_pieces = split.n_pieces();
    // The pieces inherit it.
    graph.set_block_align(block, 1, 0).map_err(refused)?;
    let new = graph.split(split).map_err(refused)?;
    let piece = |number: usize| match number.checked_sub(1) {
        Some(behind) => new.get(behind).unwrap_or(block),
        None => block,
    };
    for rest in fates.len()..n_pieces {
        clear(graph, piece(rest)).map_err(refused)?;
    }

    let to_cie = arch.kind_of(Expr::NegRelative, 4);
    // The symbols of the CIEs that are referred to, by number.
    let mut cies: Map<usize, SymbolId> = Map::default();
    for (number, &fate) in fates.iter().enumerate() {
        let block = piece(number);
        let (function, cie, pointer) = match fate {
            Fate::Cie => continue,
            Fate::Gone => {
                graph.drop_block(block);
                continue;
            }
            Fate::Of {
                function,
                cie,
                pointer,
            } => (function, cie, pointer),
        };
        let function = match function {
            Function::Block(function) => Some(function),
            Function::Moving(symbol) => graph.symbol_block(symbol),
        };
        let Some(function) = function else {
            graph.drop_block(block);
            continue;
        };
        let cie = match cies.get(&cie) {
            Some(&symbol) => symbol,
            None => {
                let symbol = graph
                    .add_anonymous(piece(cie), 0, 0, SymbolFlags::empty())
                    .map_err(refused)?;
                cies.insert(cie, symbol);
                symbol
            }
        };
        if let Some(kind) = to_cie {
            // The field holds its distance from the CIE.
            let edge = Edge {
                offset: pointer,
                kind,
                target: cie,
                addend: 0,
            };
            graph.add_edge(block, edge).map_err(refused)?;
        }
        graph.associate(function, block).map_err(refused)?;
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
