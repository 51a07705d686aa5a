//! The bounds of sections that a program asks for by name: `__start_X` and `__stop_X` for the
//! sections called X of all inputs, where X is a C identifier; and the bounds of the arrays of
//! initializers, where something asks for them.
//!
//! Reads: graph, names, resolution. The layout keeps the blocks of each group together; the
//! symbols' addresses follow from it.

use crate::resolve::Resolution;
use clinch_graph::Names;
use clinch_graph::index::map::Map;
use clinch_graph::{BlockId, LinkGraph, SectionFlags, SectionKind, SymbolId};

/// Sections whose bounds something asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The sections' name.
    pub name: Vec<u8>,
    /// Their blocks, in input order.
    pub blocks: Vec<BlockId>,
    /// The external symbol that stands for the start.
    pub start: Option<SymbolId>,
    /// The external symbol that stands for the end.
    pub stop: Option<SymbolId>,
}

/// Finds what the undefined names ask for, in the order of first reference.
pub fn find(graph: &LinkGraph, names: &Names, resolution: &Resolution) -> Vec<Bounds> {
    let mut found: Vec<Bounds> = Vec::new();
    let mut by_name: Map<Vec<u8>, usize> = Map::default();
    for &name in resolution.undefined() {
        let text = names.name(graph, name);
        let (section, is_start) = match (text.strip_prefix(b"__start_"), text) {
            (Some(section), _) => (section, true),
            (None, text) => match text.strip_prefix(b"__stop_") {
                Some(section) => (section, false),
                None => continue,
            },
        };
        if !is_c_identifier(section) {
            continue;
        }
        let index = *by_name.entry(section.to_vec()).or_insert_with(|| {
            found.push(Bounds {
                name: section.to_vec(),
                blocks: Vec::new(),
                start: None,
                stop: None,
            });
            found.len() - 1
        });
        let symbol = resolution.of_name(name);
        if is_start {
            found[index].start = symbol;
        } else {
            found[index].stop = symbol;
        }
    }
    if found.is_empty() {
        return found;
    }
    for block in graph.blocks() {
        let section = graph.block_section(block);
        if graph.section(section).is_alloc()
            && let Some(&index) = by_name.get(graph.section_name(section))
        {
            found[index].blocks.push(block);
        }
    }
    // Without such a section the names stay undefined.
    found.retain(|bounds| !bounds.blocks.is_empty());
    found
}

/// Whether an array of initializers of this kind is made of pointers that run last to first.
pub fn runs_backward(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::Ctors | SectionKind::FiniArray)
}

/// The blocks of initializer (or, with `fini`, finalizer) arrays of all inputs in the order in
/// which they run: preinit arrays, then by priority, then in input order; `.ctors` and `.dtors`
/// count their priority from the other end. What runs without priority comes last of the
/// initializers and first of the finalizers.
pub fn arrays(
    graph: &LinkGraph,
    is_live: impl Fn(BlockId) -> bool,
    fini: bool,
) -> Vec<(BlockId, SectionKind)> {
    let mut arrays: Vec<((u8, u32), BlockId, SectionKind)> = Vec::new();
    for block in graph.blocks() {
        let section = graph.section(graph.block_section(block));
        let wanted = if fini {
            matches!(section.kind, SectionKind::FiniArray | SectionKind::Dtors)
        } else {
            matches!(
                section.kind,
                SectionKind::PreinitArray | SectionKind::InitArray | SectionKind::Ctors
            )
        };
        if wanted && is_live(block) && !section.flags.contains(SectionFlags::EXCLUDE) {
            let early = u8::from(section.kind != SectionKind::PreinitArray);
            arrays.push((
                (early, priority(section.name, section.kind)),
                block,
                section.kind,
            ));
        }
    }
    arrays.sort_by_key(|&(key, block, _)| (key, block));
    // Within one priority `.init_array` runs first to last over all objects, `.ctors` last to
    // first; finalizers mirror initializers.
    let mut from = 0;
    while from < arrays.len() {
        let key = arrays[from].0;
        let to = from
            + arrays[from..]
                .iter()
                .take_while(|array| array.0 == key)
                .count();
        if arrays[from..to]
            .iter()
            .all(|&(_, _, kind)| kind == SectionKind::Ctors)
        {
            arrays[from..to].reverse();
        }
        from = to;
    }
    if fini {
        arrays.reverse();
    }
    arrays
        .into_iter()
        .map(|(_, block, kind)| (block, kind))
        .collect()
}

/// The priority that a section's name gives, 65,536 for none; small ones run first at start.
fn priority(name: &[u8], kind: SectionKind) -> u32 {
    const NONE: u32 = 65_536;
    let digits = name
        .iter()
        .rposition(|&c| c == b'.')
        .map_or(&[][..], |dot| &name[dot + 1..]);
    let number = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse::<u32>().ok());
    match (number, kind) {
        (Some(number), SectionKind::Ctors | SectionKind::Dtors) => {
            65_535_u32.saturating_sub(number)
        }
        (Some(number), _) => number.min(NONE),
        (None, _) => NONE,
    }
}

fn is_c_identifier(name: &[u8]) -> bool {
    name.first()
        .is_some_and(|&c| c.is_ascii_alphabetic() || c == b'_')
        && name.iter().all(|&c| c.is_ascii_alphanumeric() || c == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities() {
        assert_eq!(priority(b".init_array.00101", SectionKind::InitArray), 101);
        assert_eq!(priority(b".init_array", SectionKind::InitArray), 65_536);
        assert_eq!(priority(b".ctors.65434", SectionKind::Ctors), 101);
        assert_eq!(priority(b".ctors", SectionKind::Ctors), 65_536);
    }

    #[test]
    fn c_identifiers() {
        assert!(is_c_identifier(b"my_section2"));
        assert!(!is_c_identifier(b".text"));
        assert!(!is_c_identifier(b"2x"));
        assert!(!is_c_identifier(b""));
    }
}
