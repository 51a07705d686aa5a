//! Passes: closures that look at a graph, or change it, at five points of the link.

use crate::error::LinkError;
use clinch_graph::LinkGraph;
use clinch_link::layout::Layout;

/// What a pass answers: nothing, or why the link must stop.
pub type PassResult = Result<(), String>;

/// A pass over the graph alone.
pub type GraphPass = Box<dyn FnMut(&mut LinkGraph) -> PassResult + Send>;
/// A pass over the graph when everything has an address.
pub type PlacedPass = Box<dyn FnMut(&mut LinkGraph, &Layout) -> PassResult + Send>;
/// A pass over the finished contents, segment by segment: the segment's address and its bytes.
pub type FixedPass = Box<dyn FnMut(&LinkGraph, &Layout, u64, &mut [u8]) -> PassResult + Send>;

/// The five lists, in the order in which they run. A pass has a name for messages.
#[derive(Default)]
pub struct Passes {
    /// Before pruning: mark what must live, read what will go.
    pub pre_prune: Vec<(String, GraphPass)>,
    /// After pruning, before memory is allocated: the last place to add content.
    pub post_prune: Vec<(String, GraphPass)>,
    /// When blocks have addresses and externals do not.
    pub post_allocation: Vec<(String, PlacedPass)>,
    /// When everything has an address and contents are still the inputs'.
    pub pre_fixup: Vec<(String, PlacedPass)>,
    /// When the bytes are what will run.
    pub post_fixup: Vec<(String, FixedPass)>,
}

impl std::fmt::Debug for Passes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passes")
            .field("pre_prune", &self.pre_prune.len())
            .field("post_prune", &self.post_prune.len())
            .field("post_allocation", &self.post_allocation.len())
            .field("pre_fixup", &self.pre_fixup.len())
            .field("post_fixup", &self.post_fixup.len())
            .finish()
    }
}

pub(crate) fn failed(pass: &str, why: String) -> LinkError {
    LinkError::Pass {
        pass: pass.to_owned(),
        why,
    }
}
