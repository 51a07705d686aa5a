//! Counts the bytes of each section that is in memory.

use clinch_graph::LinkGraph;
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkInfo, LinkPlugin};
use clinch_link::layout::Layout;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The plugin.
#[derive(Default)]
pub(crate) struct SectionSizes {
    sizes: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl SectionSizes {
    /// Bytes by section name, over all links.
    pub(crate) fn sizes(&self) -> BTreeMap<String, u64> {
        let sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.clone()
    }
}

impl LinkPlugin for SectionSizes {
    fn modify_passes(&self, _: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        let sizes = Arc::clone(&self.sizes);
        let count = move |graph: &mut LinkGraph, layout: &Layout| {
            let mut sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
            for block in graph
                .blocks()
                .filter(|&block| layout.block(block).is_some())
            {
                let name = graph.section_name(graph.block_section(block));
                let name = String::from_utf8_lossy(name).into_owned();
                *sizes.entry(name).or_default() += graph.block_size(block);
            }
            Ok(())
        };
        passes
            .pre_fixup
            .push(("section sizes".to_owned(), Box::new(count)));
    }
}
