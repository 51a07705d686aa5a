//! Edits of a graph: some are refused, some leave an unsound graph, some are published.

use super::Choices;
use super::graph::{any_id, block, comdat, edge, live, name, section, symbol, u32_of};
use crate::toy::KINDS;
use clinch_graph::{
    BlockId, Edge, Edit, Lifetime, LinkGraph, Linkage, NewSymbol, Prot, Scope, SectionId,
    SymbolFlags, SymbolId,
};

/// An edit of this graph.
pub fn edit(choices: &mut Choices<'_>, graph: &LinkGraph) -> Edit {
    let mut edit = Edit::new(graph);
    let mut ids = Ids {
        sections: graph.n_sections(),
        blocks: graph.n_blocks(),
        symbols: graph.n_symbols(),
    };
    for _ in 0..=choices.below(12) {
        stage(choices, graph, &mut edit, &mut ids);
    }
    edit
}

/// How many ids there are, the edit's own included.
struct Ids {
    sections: usize,
    blocks: usize,
    symbols: usize,
}

impl Ids {
    fn section(&self, choices: &mut Choices<'_>) -> SectionId {
        any_id(choices, self.sections)
    }

    fn block(&self, choices: &mut Choices<'_>) -> BlockId {
        any_id(choices, self.blocks)
    }

    fn symbol(&self, choices: &mut Choices<'_>) -> SymbolId {
        any_id(choices, self.symbols)
    }
}

fn stage(choices: &mut Choices<'_>, graph: &LinkGraph, edit: &mut Edit, ids: &mut Ids) {
    match choices.below(29) {
        0 => {
            let new = section(choices, graph);
            edit.add_section(&name(choices, b""), new);
            ids.sections += 1;
        }
        1 => {
            let section = ids.section(choices);
            edit.add_block(block(choices, section));
            ids.blocks += 1;
        }
        2 => {
            let (name, base, size, flags) = symbol(choices, graph);
            let name = &name;
            edit.add_symbol(NewSymbol {
                name,
                base,
                size,
                flags,
            });
            ids.symbols += 1;
        }
        3 => {
            let signature = ids.symbol(choices);
            edit.add_comdat(comdat(choices, signature));
        }
        4 => edit.associate(ids.block(choices), ids.block(choices)),
        5 => {
            let prot = Prot::from_bits_truncate(choices.byte());
            edit.set_section_prot(ids.section(choices), prot);
        }
        6 => edit.set_section_lifetime(ids.section(choices), Lifetime::NoAlloc),
        7 => {
            let ordinal = u32_of(choices.number());
            edit.set_section_ordinal(ids.section(choices), ordinal);
        }
        8 => edit.merge_sections(ids.section(choices), ids.section(choices)),
        9 => edit.remove_section(ids.section(choices)),
        10 => edit.transfer_block(ids.block(choices), ids.section(choices)),
        11 => {
            let (align, offset) = (1 << choices.below(8), choices.number() % 4);
            edit.set_block_align(ids.block(choices), align, offset);
        }
        12 => edit.set_content(ids.block(choices), choices.bytes(200)),
        13 => {
            let offset = u64::from(choices.byte());
            edit.write_content(ids.block(choices), offset, choices.bytes(8));
        }
        14 => edit.set_zero_fill_size(ids.block(choices), choices.number()),
        15 => edit.remove_block(ids.block(choices)),
        16 => {
            let offset = 1 + u64::from(choices.byte() % 32);
            let offsets = [offset, offset + 1 + u64::from(choices.byte() % 8)];
            let n_offsets = choices.below(3);
            edit.split_block(ids.block(choices), &offsets[..n_offsets]);
            ids.blocks += n_offsets;
        }
        17 | 18 => {
            let (blocks, symbols) = live(graph);
            let any = Edge {
                offset: u32::from(choices.byte() % 32),
                kind: choices.pick(&KINDS),
                target: ids.symbol(choices),
                addend: 1,
            };
            let fitting = choices
                .pick_any(&blocks)
                .and_then(|block| Some((block, edge(choices, graph, block, &symbols)?)));
            let (block, edge) = fitting.unwrap_or((ids.block(choices), any));
            if choices.one_in(3) {
                edit.set_edges(block, vec![edge, any]);
            } else {
                edit.add_edge(block, edge);
            }
        }
        19 => edit.make_external(ids.symbol(choices)),
        20 => edit.make_absolute(ids.symbol(choices), choices.number()),
        21 => {
            let (offset, size) = (u64::from(choices.byte() % 32), choices.number());
            edit.make_defined(ids.symbol(choices), ids.block(choices), offset, size);
        }
        22 => {
            let offset = u64::from(choices.byte() % 32);
            edit.transfer_symbol(ids.symbol(choices), ids.block(choices), offset, None);
        }
        23 => edit.remove_symbol(ids.symbol(choices)),
        24 => edit.set_symbol_name(ids.symbol(choices), &name(choices, b"")),
        25 => {
            let flag = choices.pick(&[SymbolFlags::LIVE, SymbolFlags::CALLABLE]);
            edit.set_symbol_flag(ids.symbol(choices), flag, choices.one_in(2));
        }
        26 => {
            let scope = choices.pick(&[Scope::Hidden, Scope::Default, Scope::Local]);
            edit.set_symbol_scope(ids.symbol(choices), scope);
        }
        27 => edit.set_symbol_linkage(ids.symbol(choices), Linkage::Weak),
        _ => edit.set_symbol_size(ids.symbol(choices), choices.number()),
    }
}
