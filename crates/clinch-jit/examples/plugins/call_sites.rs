//! Records where a function is called, so that the calls can be pointed at another one later.

use clinch_graph::LinkGraph;
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkInfo, LinkPlugin};
use clinch_link::layout::Layout;
use clinch_target::x86_64::kind;
use std::sync::{Arc, Mutex, PoisonError};

/// The plugin.
pub(crate) struct CallSites {
    function: Vec<u8>,
    sites: Arc<Mutex<Vec<u64>>>,
}

impl CallSites {
    /// Looks for calls of this function.
    pub(crate) fn new(function: &str) -> Self {
        Self {
            function: function.as_bytes().to_vec(),
            sites: Arc::default(),
        }
    }

    /// The addresses of the calls' operands: four bytes with the distance from their end.
    pub(crate) fn sites(&self) -> Vec<u64> {
        self.sites
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl LinkPlugin for CallSites {
    fn modify_passes(&self, _: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        // Before pruning calls still lead to what they name; afterwards to stubs, some of them.
        let calls: Arc<Mutex<Vec<_>>> = Arc::default();
        let (function, found) = (self.function.clone(), Arc::clone(&calls));
        let find = move |graph: &mut LinkGraph| {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            let mut edges = Vec::new();
            for block in graph.blocks() {
                graph
                    .edges(block, &mut edges)
                    .map_err(|error| error.to_string())?;
                for edge in &edges {
                    let is_call = edge.kind == kind::BRANCH_PCREL32;
                    if is_call && graph.symbol_name(edge.target) == function {
                        found.push((block, edge.offset));
                    }
                }
            }
            Ok(())
        };
        passes
            .pre_prune
            .push(("find calls".to_owned(), Box::new(find)));
        let sites = Arc::clone(&self.sites);
        let place = move |_: &mut LinkGraph, layout: &Layout| {
            let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            let place =
                |&(block, offset): &(_, u32)| Some(layout.block(block)? + u64::from(offset));
            let mut sites = sites.lock().unwrap_or_else(PoisonError::into_inner);
            sites.extend(calls.iter().filter_map(place));
            Ok(())
        };
        passes
            .post_allocation
            .push(("place calls".to_owned(), Box::new(place)));
    }
}
