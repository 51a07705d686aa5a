//! Space for tentative definitions: a zero-fill block for each common symbol that prevails.
//!
//! Reads: graph, resolution. True after: no prevailing symbol is common.

use crate::resolve::Resolution;
use clinch_graph::{
    Addressable, BlockId, GraphError, LinkGraph, NewBlock, NewContent, NewSection, Prot,
    SectionFlags, SectionId, SymbolFlags, SymbolId,
};

/// Gives every prevailing common symbol its block.
///
/// # Errors
/// None in a graph that the verifier accepts.
pub fn allocate(graph: &mut LinkGraph, resolution: &Resolution) -> Result<(), GraphError> {
    let commons: Vec<(SymbolId, u64)> = graph
        .symbols()
        .filter(|&symbol| {
            graph.symbol_flags(symbol).is_common() && resolution.prevailing(symbol) == symbol
        })
        .filter_map(|symbol| match graph.addressable(symbol) {
            Addressable::Common { align } => Some((symbol, align)),
            _ => None,
        })
        .collect();
    let (mut plain, mut tls) = (None, None);
    for (symbol, align) in commons {
        let is_tls = graph.symbol_flags(symbol).contains(SymbolFlags::TLS);
        let (slot, name, flags) = if is_tls {
            (&mut tls, &b".tcommon"[..], SectionFlags::TLS)
        } else {
            (&mut plain, &b"COMMON"[..], SectionFlags::empty())
        };
        let section = *slot.get_or_insert_with(|| {
            graph.add_section(
                name,
                NewSection {
                    flags,
                    ..NewSection::new(Prot::RW)
                },
            )
        });
        let size = graph.symbol_size(symbol);
        define_zero_fill(graph, symbol, section, size, align)?;
    }
    Ok(())
}

/// Makes a symbol the whole of a new block of zeros.
///
/// # Errors
/// A section or symbol that does not exist, or an alignment that is none.
pub(crate) fn define_zero_fill(
    graph: &mut LinkGraph,
    symbol: SymbolId,
    section: SectionId,
    size: u64,
    align: u64,
) -> Result<BlockId, GraphError> {
    let content = NewContent::Zero(size);
    let block = graph.add_block(NewBlock {
        section,
        content,
        align,
        align_offset: 0,
    })?;
    graph.make_defined(symbol, block, 0, size)?;
    Ok(block)
}
