//! Address-significance tables (`.llvm_addrsig`): the symbols whose addresses an object compares
//! or passes on, so that folding must leave them apart. (LLVM, "Extensions to the ELF format",
//! `SHT_LLVM_ADDRSIG`.) A table is a row of symbol numbers as ULEB128.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::relocation::uleb128;
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use clinch_graph::{BlockId, InputId, LinkGraph, SectionKind, SymbolId};

const WHAT: &str = "address-significance table";

/// The symbols that an input's address-significance table names, in the table's order; `None`
/// when the input has no table, so that every symbol's address may matter. A table is read with
/// [`ReadOptions::metadata`](crate::ReadOptions::metadata) only.
///
/// # Errors
/// A table that ends inside a number, or names a symbol the input does not have; a second table.
pub fn address_significant(
    graph: &LinkGraph,
    input: InputId,
) -> Result<Option<Vec<SymbolId>>, ReadError> {
    let mut significant: Option<Vec<SymbolId>> = None;
    for block in graph
        .input(input)
        .blocks()
        .iter()
        .filter(|&block| graph.has_block(block))
    {
        if graph.section_kind(graph.block_section(block)) != SectionKind::Addrsig {
            continue;
        }
        if significant.is_some() {
            return Err(ReadError::new(
                graph.content_file_offset(block).unwrap_or(0),
                ReadErrorKind::Several(WHAT),
            ));
        }
        significant = Some(symbols_of(graph, block)?);
    }
    Ok(significant)
}

/// The symbols that one table names, in its order.
pub(super) fn symbols_of(graph: &LinkGraph, block: BlockId) -> Result<Vec<SymbolId>, ReadError> {
    let symbols = graph.input(graph.block_input(block)).symbols();
    let table = graph.content(block).bytes();
    let start = graph.content_file_offset(block).unwrap_or(0);
    let (mut found, mut cursor) = (Vec::new(), 0);
    while cursor < table.len() {
        let fail = |kind| ReadError::new(start + u64_of(cursor), kind);
        let mut next = cursor;
        let index =
            uleb128(table, &mut next).ok_or_else(|| fail(ReadErrorKind::UnendedNumber(WHAT)))?;
        let symbol = symbols.get(usize_of_u64(index)).ok_or_else(|| {
            fail(ReadErrorKind::NoSymbol {
                what: WHAT,
                index,
                count: u64_of(symbols.len()),
            })
        })?;
        found.push(symbol);
        cursor = next;
    }
    Ok(found)
}

/// Appends a number as it stands in a table.
pub(super) fn push_uleb128(table: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            table.push(low & 0x7f);
            return;
        }
        table.push(low | 0x80);
    }
}
