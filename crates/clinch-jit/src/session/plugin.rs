//! Plugins: who wants to see, or to change, the links of a session.

use super::state::{DylibId, LinkId, TrackerId};
use crate::passes::Passes;
use clinch_graph::LinkGraph;

/// Which link a notification is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkInfo {
    /// The link.
    pub link: LinkId,
    /// The dylib it adds to.
    pub dylib: DylibId,
    /// The dylib's name.
    pub dylib_name: String,
    /// The tracker that its resources belong to.
    pub tracker: TrackerId,
}

/// Sees and changes links. Every method has a default that does nothing. Methods are called on
/// any thread, for one link one at a time; plugins are called in the order in which they were
/// added.
pub trait LinkPlugin: Send + Sync {
    /// A graph is about to be linked: install passes. (`modifyPassConfig`)
    fn modify_passes(&self, _link: &LinkInfo, _graph: &LinkGraph, _passes: &mut Passes) {}

    /// A link is about to begin: set up state for it. (`notifyLoaded`)
    fn notify_loaded(&self, _link: &LinkInfo) {}

    /// A link's code is in memory, its symbols not yet ready. (`notifyEmitted`)
    ///
    /// # Errors
    /// Makes the link fail.
    fn notify_emitted(&self, _link: &LinkInfo) -> Result<(), String> {
        Ok(())
    }

    /// A link failed: give back what was kept for it. (`notifyFailed`)
    fn notify_failed(&self, _link: &LinkInfo) {}

    /// A function that is linked when it is called was called first, by the name of its dylib.
    fn notify_called(&self, _dylib: &str, _function: &str) {}

    /// What a tracker holds is about to go. (`notifyRemovingResources`)
    ///
    /// # Errors
    /// Is told to who removes it; the resources go all the same.
    fn notify_removing(&self, _dylib: DylibId, _tracker: TrackerId) -> Result<(), String> {
        Ok(())
    }

    /// What one tracker holds becomes another's. (`notifyTransferringResources`)
    fn notify_transferring(&self, _dylib: DylibId, _to: TrackerId, _from: TrackerId) {}
}
