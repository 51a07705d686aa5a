//! What to tell about undefined symbols: who refers to them, and what may have been meant.

use crate::error::Undefined;
use clinch_graph::index::map::Map;
use clinch_graph::{BlockId, LinkGraph, Names, SymbolId};
use clinch_link::{Liveness, Place, Resolution, Tables};

/// How many places are named for each symbol.
const PLACES: usize = 3;

/// Describes symbols that nothing defines, in the order of the first place that refers to them.
pub(crate) fn describe(
    graph: &LinkGraph,
    resolution: &Resolution,
    names: &Names,
    liveness: &Liveness,
    tables: &Tables,
    missing: &[SymbolId],
) -> Vec<Undefined> {
    // Several symbols may stand for one name.
    let mut of_name: Map<&[u8], usize> = Map::default();
    let mut found: Vec<(Undefined, bool)> = Vec::new();
    let mut index_of: Map<SymbolId, usize> = Map::default();
    for &symbol in missing {
        let name = graph.symbol_name(symbol);
        let index = *of_name.entry(name).or_insert_with(|| {
            let undefined = Undefined {
                name: String::from_utf8_lossy(name).into_owned(),
                referrers: Vec::new(),
                n_referrers: 0,
                near_miss: near_miss(graph, names, resolution, name),
            };
            found.push((undefined, false));
            found.len() - 1
        });
        index_of.insert(symbol, index);
    }
    // A symbol that was given a place of its own in reach stands for the one that is missing.
    for &(real, stand_in) in &tables.externals {
        if let Some(&index) = index_of.get(&real) {
            index_of.insert(stand_in, index);
        }
    }
    let mut order = Vec::new();
    let mut edges = Vec::new();
    let of_inputs = |&block: &BlockId| graph.block_input(block) != LinkGraph::linker_input();
    for block in liveness.blocks.iter().filter(of_inputs) {
        if graph.edges(block, &mut edges).is_err() {
            continue;
        }
        for edge in &edges {
            let target = tables.leads_to(edge.target).unwrap_or(edge.target);
            let Some(&index) = index_of.get(&resolution.prevailing(target)) else {
                continue;
            };
            let (undefined, seen) = &mut found[index];
            if !std::mem::replace(seen, true) {
                order.push(index);
            }
            undefined.n_referrers += 1;
            if undefined.referrers.len() < PLACES {
                undefined
                    .referrers
                    .push(Place::of(graph, block, u64::from(edge.offset)));
            }
        }
    }
    let unseen: Vec<usize> = (0..found.len()).filter(|&index| !found[index].1).collect();
    order.extend(unseen);
    order
        .into_iter()
        .map(|index| found[index].0.clone())
        .collect()
}

/// The defined name that differs least, when it differs little.
fn near_miss(
    graph: &LinkGraph,
    names: &Names,
    resolution: &Resolution,
    wanted: &[u8],
) -> Option<String> {
    let limit = match wanted.len() {
        0..=3 => return None,
        4..=7 => 1,
        _ => 2,
    };
    names
        .ids()
        .filter(|&name| {
            resolution
                .of_name(name)
                .is_some_and(|symbol| graph.symbol_flags(symbol).is_definition())
        })
        .filter_map(|name| {
            let name = names.name(graph, name);
            // A name that was given a place of its own in reach is its own neighbor.
            if name == wanted {
                return None;
            }
            Some((distance(wanted, name, limit)?, name))
        })
        .min()
        .map(|(_, name)| String::from_utf8_lossy(name).into_owned())
}

/// How many insertions, removals, replacements and swaps of neighbors make one name of the other;
/// `None` above `limit`.
fn distance(a: &[u8], b: &[u8], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let width = b.len() + 1;
    let mut before = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    let mut row = vec![0; width];
    for (i, &x) in a.iter().enumerate() {
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        if row.iter().min().is_some_and(|&least| least > limit) {
            return None;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    (last[b.len()] <= limit).then_some(last[b.len()])
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn edit_distances() {
        assert_eq!(distance(b"print", b"print", 2), Some(0));
        assert_eq!(distance(b"pritn", b"print", 2), Some(1));
        assert_eq!(distance(b"prnt", b"print", 2), Some(1));
        assert_eq!(distance(b"sprint", b"print", 2), Some(1));
        assert_eq!(distance(b"prime", b"print", 2), Some(2));
        assert_eq!(distance(b"other", b"print", 2), None);
    }
}
