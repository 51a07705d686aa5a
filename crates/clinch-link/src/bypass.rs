//! Leaves out table entries that the layout made unneeded: a branch to a stub whose target is in
//! reach goes there directly, a load from the GOT becomes the address itself.
//!
//! Reads: graph, tables, addresses. Writes: edges and content of touched blocks. Parallel: over
//! runs of blocks, for all that is only read.

use crate::layout::Layout;
use crate::resolve::Resolution;
use crate::tables::Tables;
use clinch_graph::{
    BlockId, Edge, EdgeBatch, GraphError, LinkGraph, SymbolFlags, SymbolId, Workers,
};
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
    workers: &Workers,
) -> Result<(), GraphError> {
    /// Of a block, its edges and what they lead to.
    const BYTES_PER_BLOCK: usize = 256;
    let cost = tables.touched.len().saturating_mul(BYTES_PER_BLOCK);
    let runs = workers.cut(cost, tables.touched.len());
    let reader = Reader {
        graph,
        arch,
        resolution,
        tables,
        layout,
    };
    let found = workers.map(cost, runs, |run| {
        let mut found = Found::default();
        let mut edges = Vec::new();
        for &block in &tables.touched[run] {
            reader.bypass(block, &mut edges, &mut found)?;
        }
        Ok::<Found, GraphError>(found)
    });
    for found in found {
        let Found { edges, contents } = found?;
        graph.take_edges(edges)?;
        for (block, content) in contents {
            graph.set_content(block, content)?;
        }
    }
    Ok(())
}

struct Reader<'a> {
    graph: &'a LinkGraph,
    arch: &'a Arch,
    resolution: &'a Resolution,
    tables: &'a Tables,
    layout: &'a Layout,
}

/// What becomes of a run of blocks.
#[derive(Default)]
struct Found {
    edges: EdgeBatch,
    contents: Vec<(BlockId, Vec<u8>)>,
}

impl Reader<'_> {
    fn bypass(
        &self,
        block: BlockId,
        edges: &mut Vec<Edge>,
        found: &mut Found,
    ) -> Result<(), GraphError> {
        let Self {
            graph,
            arch,
            resolution,
            tables,
            layout,
        } = *self;
        let Some(base) = layout.block(block) else {
            return Ok(());
        };
        graph.edges(block, edges)?;
        let mut changed = false;
        let mut content: Option<Vec<u8>> = None;
        let mut is_rewritten = false;
        for edge in &mut *edges {
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
            } else if graph.symbol_flags(target).contains(SymbolFlags::TLS)
                || graph.is_zero_fill(block)
            {
                None
            } else {
                let content = content.get_or_insert_with(|| graph.content(block).bytes().to_vec());
                let direct = (arch.relax.got_to_direct)(content, edge);
                is_rewritten |= direct.is_some();
                direct.map(|direct| Edge { target, ..direct })
            };
            if let Some(direct) = direct {
                *edge = direct;
                changed = true;
            }
        }
        if changed {
            found.edges.add(graph, block, edges)?;
        }
        let content = content.filter(|_| is_rewritten);
        found
            .contents
            .extend(content.map(|content| (block, content)));
        Ok(())
    }
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
