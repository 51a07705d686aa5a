//! Relaxes loads of addresses by hand: where code loads the address of something that the graph
//! itself defines from the global offset table, the load becomes a computation, and no entry is
//! made. (clinch does this itself; here a pass comes before it.)

use clinch_graph::{Edge, LinkGraph};
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkInfo, LinkPlugin};
use clinch_target::x86_64::kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The plugin.
#[derive(Default)]
pub(crate) struct GotLoads {
    relaxed: Arc<AtomicUsize>,
}

impl GotLoads {
    /// How many loads were changed.
    pub(crate) fn relaxed(&self) -> usize {
        self.relaxed.load(Ordering::Relaxed)
    }
}

impl LinkPlugin for GotLoads {
    fn modify_passes(&self, _: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        let relaxed = Arc::clone(&self.relaxed);
        let relax = move |graph: &mut LinkGraph| {
            let n = relax_graph(graph).map_err(|error| error.to_string())?;
            relaxed.fetch_add(n, Ordering::Relaxed);
            Ok(())
        };
        passes
            .pre_prune
            .push(("GOT loads".to_owned(), Box::new(relax)));
    }
}

fn relax_graph(graph: &mut LinkGraph) -> Result<usize, Box<dyn std::error::Error>> {
    /// `mov` from memory to a register.
    const MOV: u8 = 0x8b;
    /// The address in place of what is there.
    const LEA: u8 = 0x8d;
    let mut n = 0;
    let mut edges = Vec::new();
    let blocks: Vec<_> = graph.blocks().collect();
    for block in blocks {
        graph.edges(block, &mut edges)?;
        let mut changed: Vec<Edge> = edges.clone();
        let mut places = Vec::new();
        for edge in &mut changed {
            let is_load = [
                kind::REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_RELAXABLE,
                kind::REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX_RELAXABLE,
            ]
            .contains(&edge.kind);
            if !is_load || graph.symbol_block(edge.target).is_none() {
                continue;
            }
            // The opcode stands two bytes before the operand, behind it the register.
            let opcode = usize::try_from(edge.offset)?.checked_sub(2);
            let content = graph.content(block).bytes();
            if let Some(opcode) = opcode
                && content.get(opcode) == Some(&MOV)
            {
                edge.kind = kind::PCREL32;
                places.push(opcode);
            }
        }
        if places.is_empty() {
            continue;
        }
        n += places.len();
        graph.set_edges(block, changed)?;
        let content = graph.content_mut(block).ok_or("a block without content")?;
        for place in places {
            content[place] = LEA;
        }
    }
    Ok(n)
}
