//! Leaves out table entries that the layout made unneeded: a branch to a stub whose target is in
//! reach goes there directly, a load from the GOT becomes the address itself.
//!
//! Reads: graph, tables, addresses. Writes: edges and content of touched blocks.

use crate::layout::Layout;
use crate::resolve::Resolution;
use crate::tables::Tables;
use clinch_graph::{Edge, GraphError, LinkGraph, SymbolFlags, SymbolId};
use clinch_target::{Arch, EdgeFlags};

/// Bypasses what can be bypassed.
///
/// # Errors
/// None in a graph that the verifier accepts.
pub fn run(
    graph: &mut LinkGraph,
    arch: &Arch,
    resolution: &Resolution,
    tables: &Tables,
    layout: &Layout,
) -> Result<(), GraphError> {
    let mut edges = Vec::new();
    for &block in &tables.touched {
        graph.edges(block, &mut edges)?;
        let Some(base) = layout.block(block) else {
            continue;
        };
        let mut changed = false;
        for edge in &mut edges {
            let Some(info) = arch.edge(edge.kind) else {
                continue;
            };
            if !info
                .flags
                .intersects(EdgeFlags::BRANCH | EdgeFlags::RELAXABLE)
            {
                continue;
            }
            let Some(target) = tables.leads_to(edge.target) else {
                continue;
            };
            let target = resolution.prevailing(target);
            let address = layout.symbol(target);
            // Within a margin of the range, so that no addend or instruction length matters.
            let place = base.wrapping_add(u64::from(edge.offset));
            let distance = i128::from(address) - i128::from(place);
            const MARGIN: i128 = 1 << 12;
            if distance < info.field.min + MARGIN || distance > info.field.max - MARGIN {
                continue;
            }
            let direct = if info.flags.contains(EdgeFlags::BRANCH) {
                direct_branch(arch, edge, target)
            } else if graph.symbol_flags(target).contains(SymbolFlags::TLS) {
                None
            } else {
                graph
                    .content_mut(block)
                    .and_then(|content| (arch.relax.got_to_direct)(content, edge))
                    .map(|direct| Edge { target, ..direct })
            };
            if let Some(direct) = direct {
                *edge = direct;
                changed = true;
            }
        }
        if changed {
            graph.set_edges(block, std::mem::take(&mut edges))?;
        }
    }
    Ok(())
}

fn direct_branch(arch: &Arch, edge: &Edge, target: SymbolId) -> Option<Edge> {
    let &(kind, _) = arch
        .stub_branches
        .iter()
        .find(|(_, through)| *through == edge.kind)?;
    Some(Edge {
        kind,
        target,
        ..*edge
    })
}
