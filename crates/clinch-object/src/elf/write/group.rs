//! Section groups: one `SHT_GROUP` for each COMDAT group, in id order.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::WriteError;
use super::sections::Sections;
use super::text;
use clinch_graph::index::map::Map;
use clinch_graph::{Addressable, ComdatId, InputId, LinkGraph, Selection, SymbolId};

/// A group to be written.
#[derive(Debug)]
pub(super) struct Group {
    /// The symbol that names it.
    pub(super) signature: SymbolId,
    /// Whether one copy stays, rather than every.
    pub(super) is_comdat: bool,
    /// The places of its sections in the plan.
    pub(super) members: Vec<usize>,
}

/// The groups to be written. Those whose sections went, since another input's copy stays, are not
/// there.
pub(super) fn plan(graph: &LinkGraph, sections: &mut Sections) -> Result<Vec<Group>, WriteError> {
    let mut members: Map<ComdatId, Vec<usize>> = Map::default();
    for (place, section) in sections.list.iter().enumerate() {
        if let Some(comdat) = graph.section(section.id).comdat {
            if !graph.comdats().contains(comdat) {
                return Err(WriteError::Section {
                    section: text(graph.section_name(section.id)),
                    why: "its group does not exist",
                });
            }
            members.entry(comdat).or_default().push(place);
        }
    }
    // Which input's copy has sections, by the name of the signature.
    let mut stays: Map<&[u8], InputId> = Map::default();
    for id in graph.comdats().iter().filter(|id| members.contains_key(id)) {
        let comdat = graph.comdat(id);
        stays.insert(graph.symbol_name(comdat.signature), comdat.input);
    }
    let mut groups = Vec::new();
    for id in graph.comdats().iter() {
        let comdat = graph.comdat(id);
        let name = graph.symbol_name(comdat.signature);
        let members = members.remove(&id).unwrap_or_default();
        let is_elsewhere = stays.get(name).is_some_and(|&input| input != comdat.input);
        if members.is_empty() && is_elsewhere {
            continue;
        }
        let fail = |why| WriteError::Group {
            signature: text(name),
            why,
        };
        let is_comdat = match comdat.selection {
            Selection::Any => true,
            Selection::All => false,
            Selection::NoDuplicates
            | Selection::SameSize
            | Selection::ExactMatch
            | Selection::Largest => {
                return Err(fail("ELF has no rule to select one of its copies by"));
            }
        };
        if graph.addressable(comdat.signature) == Addressable::Null {
            return Err(fail("the symbol that names it does not exist"));
        }
        for &member in &members {
            if let Some(section) = sections.list.get_mut(member) {
                section.is_in_group = true;
            }
        }
        groups.push(Group {
            signature: comdat.signature,
            is_comdat,
            members,
        });
    }
    Ok(groups)
}
