//! Records the names of all symbols that pruning left: the first example of the specification.

use clinch_graph::LinkGraph;
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkInfo, LinkPlugin};
use std::sync::{Arc, Mutex, PoisonError};

/// The plugin.
#[derive(Default)]
pub(crate) struct Symbols {
    names: Arc<Mutex<Vec<String>>>,
}

impl Symbols {
    /// What was seen, in the order of the links and of their symbols.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.clone()
    }
}

impl LinkPlugin for Symbols {
    fn modify_passes(&self, _: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        let names = Arc::clone(&self.names);
        let record = move |graph: &mut LinkGraph| {
            let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
            for symbol in graph.symbols() {
                let name = graph.symbol_name(symbol);
                if graph.symbol_flags(symbol).is_definition() && !name.is_empty() {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            Ok(())
        };
        passes
            .post_prune
            .push(("symbols".to_owned(), Box::new(record)));
    }
}
