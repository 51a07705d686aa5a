//! Graphs of the toy architecture: sound, with everything a graph can hold, with holes, some of
//! it made and changed by steps.

use super::Choices;
use crate::toy::{KINDS, TOY, edge_width};
use clinch_graph::{
    Addressable, BlockId, Comdat, Edge, EdgeKind, Id, Lifetime, LinkGraph, NewBlock, NewContent,
    NewSection, NewSymbol, Prot, Scope, SectionFlags, SectionId, SectionKind, Selection,
    SymbolFlags, SymbolId,
};

/// A sound graph.
pub fn graph(bytes: &[u8]) -> LinkGraph {
    let mut choices = Choices::new(bytes);
    let mut graph = LinkGraph::new("generated", &TOY);
    // Groups are named by symbols, so there is one from the start.
    let first = graph.add_external(&name(&mut choices, b"first"), choices.one_in(2));
    for _ in 0..choices.below(4) {
        let comdat = comdat(&mut choices, first);
        graph.add_comdat(comdat);
    }
    for _ in 0..choices.below(6) {
        let new = section(&mut choices, &graph);
        let name = name(&mut choices, b"");
        let id = graph.add_section(&name, new);
        if choices.one_in(4) {
            graph.set_section_ordinal(id, u32_of(choices.number()));
        }
    }
    grow(&mut graph, &mut choices);
    if choices.one_in(2) {
        shrink(&mut graph, &mut choices);
        graph.begin_step("again", None);
        grow(&mut graph, &mut choices);
    }
    graph
}

/// Adds blocks, symbols and edges.
fn grow(graph: &mut LinkGraph, choices: &mut Choices<'_>) {
    let sections: Vec<SectionId> = graph.sections().collect();
    for _ in 0..choices.below(8) {
        let Some(section) = choices.pick_any(&sections) else {
            break;
        };
        let new = block(choices, section);
        done(graph.add_block(new));
    }
    for _ in 0..choices.below(12) {
        let (name, base, size, flags) = symbol(choices, graph);
        let name = &name;
        done(graph.add_symbol(NewSymbol {
            name,
            base,
            size,
            flags,
        }));
    }
    let (blocks, symbols) = live(graph);
    for &block in &blocks {
        for _ in 0..choices.below(4) {
            if let Some(edge) = edge(choices, graph, block, &symbols) {
                done(graph.add_edge(block, edge));
            }
        }
    }
    for _ in 0..choices.below(3) {
        if let (Some(parent), Some(child)) = (choices.pick_any(&blocks), choices.pick_any(&blocks))
        {
            done(graph.associate(parent, child));
        }
    }
}

/// Makes holes, and moves and splits what is left.
fn shrink(graph: &mut LinkGraph, choices: &mut Choices<'_>) {
    let (blocks, _) = live(graph);
    for &block in &blocks {
        match choices.below(8) {
            1 | 2 => graph.drop_block(block),
            3 | 4 => {
                let size = usize::try_from(graph.block_size(block)).unwrap_or(usize::MAX);
                // Refused where it would cut what an edge writes.
                let at = u64::try_from(choices.below(size.min(256))).unwrap_or(0);
                let _ = graph.split_block(block, &[at]);
            }
            5 => {
                let sections: Vec<SectionId> = graph.sections().collect();
                if let Some(section) = choices.pick_any(&sections) {
                    done(graph.transfer_block(block, section));
                }
            }
            6 => {
                if let Some(bytes) = graph.content_mut(block) {
                    bytes.fill(choices.byte());
                }
            }
            _ => {}
        }
    }
    graph.discard_dangling_symbols();
    let sections: Vec<SectionId> = graph.sections().collect();
    for &section in &sections {
        if choices.one_in(4) {
            // Refused when it holds a block.
            let _ = graph.remove_section(section);
        }
    }
    let hole = graph.add_external(b"hole", false);
    done(graph.remove_symbol(hole));
}

/// The blocks and symbols that exist.
pub(super) fn live(graph: &LinkGraph) -> (Vec<BlockId>, Vec<SymbolId>) {
    (graph.blocks().collect(), graph.symbols().collect())
}

/// A name: often empty, a common one, or any bytes but zero.
pub(super) fn name(choices: &mut Choices<'_>, otherwise: &[u8]) -> Vec<u8> {
    let common: [&[u8]; 5] = [
        b".text",
        b"main",
        b"a \"quoted\" \\ name",
        b"caf\xc3\xa9;",
        b"\xff",
    ];
    let name = match choices.below(4) {
        0 => otherwise.to_vec(),
        1 | 2 => choices.pick(&common).to_vec(),
        _ => choices.bytes(40),
    };
    let name: Vec<u8> = name.into_iter().filter(|&byte| byte != 0).collect();
    if name.is_empty() {
        otherwise.to_vec()
    } else {
        name
    }
}

pub(super) fn comdat(choices: &mut Choices<'_>, signature: SymbolId) -> Comdat {
    Comdat {
        signature,
        input: LinkGraph::linker_input(),
        selection: choices.pick(&Selection::NAMES).0,
    }
}

pub(super) fn section(choices: &mut Choices<'_>, graph: &LinkGraph) -> NewSection {
    let comdats: Vec<_> = graph.comdats().iter().collect();
    let with_group = choices.one_in(3);
    NewSection {
        prot: Prot::from_bits_truncate(choices.byte()),
        lifetime: choices.pick(&[Lifetime::Standard, Lifetime::Finalize, Lifetime::NoAlloc]),
        kind: choices.pick(&SectionKind::NAMES).0,
        flags: SectionFlags::from_bits_truncate(u16::from(choices.byte())),
        entry_size: u32_of(choices.number()),
        comdat: choices.pick_any(&comdats).filter(|_| with_group),
    }
}

pub(super) fn block(choices: &mut Choices<'_>, section: SectionId) -> NewBlock {
    let widest = if choices.one_in(8) { 64 } else { 8 };
    let align = 1 << choices.below(widest);
    let content = match choices.below(4) {
        0 => NewContent::Zero(choices.number()),
        1 => {
            let bytes = choices.bytes(100).into_iter();
            let mut string: Vec<u8> = bytes.map(|byte| byte.clamp(b' ', b'~')).collect();
            string.push(0);
            NewContent::Owned(string)
        }
        _ => NewContent::Owned(choices.bytes(100)),
    };
    let align_offset = if choices.one_in(4) {
        choices.number() % align
    } else {
        0
    };
    NewBlock {
        section,
        content,
        align,
        align_offset,
    }
}

/// Name, place, size and properties of a symbol that the graph can have.
pub(super) fn symbol(
    choices: &mut Choices<'_>,
    graph: &LinkGraph,
) -> (Vec<u8>, Addressable, u64, SymbolFlags) {
    const PROPERTIES: SymbolFlags = SymbolFlags::all()
        .difference(SymbolFlags::KIND)
        .difference(SymbolFlags::SCOPE)
        .difference(SymbolFlags::OWNED_NAME)
        .difference(SymbolFlags::WIDE);
    let blocks: Vec<BlockId> = graph.blocks().collect();
    let mut name = name(choices, b"");
    let (base, size) = match choices.below(6) {
        0 => (Addressable::External, choices.number()),
        1 => (Addressable::Absolute(choices.number()), choices.number()),
        2 => {
            let align = 1 << choices.below(64);
            (Addressable::Common { align }, choices.number())
        }
        _ => match choices.pick_any(&blocks) {
            Some(block) => {
                let room = graph.block_size(block);
                let offset = within(choices, room);
                let size = within(choices, room - offset);
                (Addressable::Block { block, offset }, size)
            }
            None => (Addressable::Absolute(0), 0),
        },
    };
    if name.is_empty() && base == Addressable::External {
        name = b"external".to_vec();
    }
    let bits = u32::from(choices.byte()) << 8 | u32::from(choices.byte());
    let mut flags = SymbolFlags::from_bits_truncate(bits).intersection(PROPERTIES);
    let scopes = [
        Scope::Default,
        Scope::Protected,
        Scope::Hidden,
        Scope::SideEffectsOnly,
    ];
    flags = flags.with_scope(choices.pick(&scopes));
    if name.is_empty() {
        flags = flags.with_scope(Scope::Local).difference(SymbolFlags::WEAK);
    } else if base != Addressable::External && choices.one_in(4) {
        flags = flags.with_scope(Scope::Local);
    }
    (name, base, size, flags)
}

/// A number up to and including `end`, often `end` itself.
fn within(choices: &mut Choices<'_>, end: u64) -> u64 {
    if choices.one_in(4) {
        return end;
    }
    match end.checked_add(1) {
        Some(end) => choices.number() % end,
        None => choices.number(),
    }
}

/// An edge that the block can have, unless it has no room for any.
pub(super) fn edge(
    choices: &mut Choices<'_>,
    graph: &LinkGraph,
    block: BlockId,
    symbols: &[SymbolId],
) -> Option<Edge> {
    let target = choices.pick_any(symbols)?;
    let mut kind = choices.pick(&KINDS);
    let mut room = graph
        .block_size(block)
        .checked_sub(u64::from(edge_width(kind)));
    if room.is_none() || graph.is_zero_fill(block) {
        kind = EdgeKind::KEEP_ALIVE;
        room = Some(graph.block_size(block));
    }
    let room = room.unwrap_or(0).min(u64::from(u32::MAX));
    Some(Edge {
        offset: u32_of(within(choices, room)),
        kind,
        target,
        addend: match choices.below(3) {
            0 => 0,
            1 => i64::from(choices.byte().cast_signed()),
            _ => choices.number().cast_signed(),
        },
    })
}

/// The low bits of a number.
pub(super) fn u32_of(number: u64) -> u32 {
    clinch_graph::index::int::low_u32(number)
}

/// What the generator makes is allowed.
#[track_caller]
fn done<T, E: std::fmt::Display>(result: Result<T, E>) {
    if let Err(error) = result {
        panic!("the generator made what is refused: {error}");
    }
}

/// An id that may or may not exist.
pub(super) fn any_id<I: Id>(choices: &mut Choices<'_>, n_ids: usize) -> I {
    I::from_index(choices.below(n_ids + 1))
}
