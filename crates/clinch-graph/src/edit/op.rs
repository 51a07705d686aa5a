//! The operations of an edit as values, and how each is applied.

use crate::block::NewBlock;
use crate::comdat::Comdat;
use crate::edge::Edge;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, SectionId, SymbolId};
use crate::index::int::{u64_of, usize_of_u64};
use crate::ops::GraphError;
use crate::section::{Lifetime, NewSection, Prot};
use crate::symbol::{Addressable, Linkage, NewSymbol, Scope, SymbolFlags};

/// One staged operation: that of the same name of [`LinkGraph`].
#[derive(Clone, Debug)]
pub(super) enum Op {
    AddSection {
        name: Vec<u8>,
        new: NewSection,
    },
    AddBlock(NewBlock),
    AddSymbol {
        name: Vec<u8>,
        base: Addressable,
        size: u64,
        flags: SymbolFlags,
    },
    AddComdat(Comdat),
    Associate {
        parent: BlockId,
        child: BlockId,
    },
    SetSectionProt {
        section: SectionId,
        prot: Prot,
    },
    SetSectionLifetime {
        section: SectionId,
        lifetime: Lifetime,
    },
    SetSectionOrdinal {
        section: SectionId,
        ordinal: u32,
    },
    MergeSections {
        to: SectionId,
        from: SectionId,
    },
    RemoveSection(SectionId),
    TransferBlock {
        block: BlockId,
        section: SectionId,
    },
    SetBlockAlign {
        block: BlockId,
        align: u64,
        offset: u64,
    },
    SetContent {
        block: BlockId,
        bytes: Vec<u8>,
    },
    WriteContent {
        block: BlockId,
        offset: u64,
        bytes: Vec<u8>,
    },
    SetZeroFillSize {
        block: BlockId,
        size: u64,
    },
    RemoveBlock(BlockId),
    SplitBlock {
        block: BlockId,
        offsets: Vec<u64>,
    },
    SetEdges {
        block: BlockId,
        edges: Vec<Edge>,
    },
    AddEdge {
        block: BlockId,
        edge: Edge,
    },
    MakeExternal(SymbolId),
    MakeAbsolute {
        symbol: SymbolId,
        value: u64,
    },
    MakeDefined {
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: u64,
    },
    TransferSymbol {
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: Option<u64>,
    },
    RemoveSymbol(SymbolId),
    SetSymbolName {
        symbol: SymbolId,
        name: Vec<u8>,
    },
    SetSymbolFlag {
        symbol: SymbolId,
        flag: SymbolFlags,
        on: bool,
    },
    SetSymbolScope {
        symbol: SymbolId,
        scope: Scope,
    },
    SetSymbolLinkage {
        symbol: SymbolId,
        linkage: Linkage,
    },
    SetSymbolSize {
        symbol: SymbolId,
        size: u64,
    },
}

impl Op {
    /// The operation's name in messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::AddSection { .. } => "add_section",
            Self::AddBlock(_) => "add_block",
            Self::AddSymbol { .. } => "add_symbol",
            Self::AddComdat(_) => "add_comdat",
            Self::Associate { .. } => "associate",
            Self::SetSectionProt { .. } => "set_section_prot",
            Self::SetSectionLifetime { .. } => "set_section_lifetime",
            Self::SetSectionOrdinal { .. } => "set_section_ordinal",
            Self::MergeSections { .. } => "merge_sections",
            Self::RemoveSection(_) => "remove_section",
            Self::TransferBlock { .. } => "transfer_block",
            Self::SetBlockAlign { .. } => "set_block_align",
            Self::SetContent { .. } => "set_content",
            Self::WriteContent { .. } => "write_content",
            Self::SetZeroFillSize { .. } => "set_zero_fill_size",
            Self::RemoveBlock(_) => "remove_block",
            Self::SplitBlock { .. } => "split_block",
            Self::SetEdges { .. } => "set_edges",
            Self::AddEdge { .. } => "add_edge",
            Self::MakeExternal(_) => "make_external",
            Self::MakeAbsolute { .. } => "make_absolute",
            Self::MakeDefined { .. } => "make_defined",
            Self::TransferSymbol { .. } => "transfer_symbol",
            Self::RemoveSymbol(_) => "remove_symbol",
            Self::SetSymbolName { .. } => "set_symbol_name",
            Self::SetSymbolFlag { .. } => "set_symbol_flag",
            Self::SetSymbolScope { .. } => "set_symbol_scope",
            Self::SetSymbolLinkage { .. } => "set_symbol_linkage",
            Self::SetSymbolSize { .. } => "set_symbol_size",
        }
    }

    /// Applies the operation. One that is refused changes nothing.
    pub(super) fn apply(self, graph: &mut LinkGraph) -> Result<(), GraphError> {
        match self {
            Self::AddSection { name, new } => {
                graph.add_section(&name, new);
                Ok(())
            }
            Self::AddBlock(new) => graph.add_block(new).map(drop),
            Self::AddSymbol {
                name,
                base,
                size,
                flags,
            } => {
                let name = &name;
                let new = NewSymbol {
                    name,
                    base,
                    size,
                    flags,
                };
                graph.add_symbol(new).map(drop)
            }
            Self::AddComdat(comdat) => {
                graph.add_comdat(comdat);
                Ok(())
            }
            Self::Associate { parent, child } => graph.associate(parent, child),
            Self::SetSectionProt { section, prot } => {
                graph.check_section(section)?;
                graph.set_section_prot(section, prot);
                Ok(())
            }
            Self::SetSectionLifetime { section, lifetime } => {
                graph.check_section(section)?;
                graph.set_section_lifetime(section, lifetime);
                Ok(())
            }
            Self::SetSectionOrdinal { section, ordinal } => {
                graph.check_section(section)?;
                graph.set_section_ordinal(section, ordinal);
                Ok(())
            }
            Self::MergeSections { to, from } => graph.merge_sections(to, from),
            Self::RemoveSection(section) => graph.remove_section(section),
            Self::TransferBlock { block, section } => graph.transfer_block(block, section),
            Self::SetBlockAlign {
                block,
                align,
                offset,
            } => graph.set_block_align(block, align, offset),
            Self::SetContent { block, bytes } => graph.set_content(block, bytes),
            Self::WriteContent {
                block,
                offset,
                bytes,
            } => write_content(graph, block, offset, &bytes),
            Self::SetZeroFillSize { block, size } => graph.set_zero_fill_size(block, size),
            Self::RemoveBlock(block) => graph.remove_block(block),
            Self::SplitBlock { block, offsets } => graph.split_block(block, &offsets).map(drop),
            Self::SetEdges { block, edges } => graph.set_edges(block, edges),
            Self::AddEdge { block, edge } => graph.add_edge(block, edge),
            Self::MakeExternal(symbol) => graph.make_external(symbol),
            Self::MakeAbsolute { symbol, value } => graph.make_absolute(symbol, value),
            Self::MakeDefined {
                symbol,
                block,
                offset,
                size,
            } => graph.make_defined(symbol, block, offset, size),
            Self::TransferSymbol {
                symbol,
                block,
                offset,
                size,
            } => graph.transfer_symbol(symbol, block, offset, size),
            Self::RemoveSymbol(symbol) => graph.remove_symbol(symbol),
            Self::SetSymbolName { symbol, name } => graph.set_symbol_name(symbol, &name),
            Self::SetSymbolFlag { symbol, flag, on } => {
                graph.check_symbol(symbol)?;
                graph.set_symbol_flag(symbol, flag, on);
                Ok(())
            }
            Self::SetSymbolScope { symbol, scope } => graph.set_symbol_scope(symbol, scope),
            Self::SetSymbolLinkage { symbol, linkage } => graph.set_symbol_linkage(symbol, linkage),
            Self::SetSymbolSize { symbol, size } => graph.set_symbol_size(symbol, size),
        }
    }
}

fn write_content(
    graph: &mut LinkGraph,
    block: BlockId,
    offset: u64,
    bytes: &[u8],
) -> Result<(), GraphError> {
    graph.check_block(block)?;
    let end = offset.checked_add(u64_of(bytes.len()));
    let room = u64_of(graph.content(block).bytes().len());
    if end.is_none_or(|end| end > room) {
        return Err(GraphError::BadOffset { block, offset });
    }
    let start = usize_of_u64(offset);
    graph.content_to_change(block)?[start..start + bytes.len()].copy_from_slice(bytes);
    Ok(())
}
