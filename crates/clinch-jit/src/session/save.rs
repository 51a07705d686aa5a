//! Saving what a dylib has linked as one relocatable object, to be linked again: into a file by
//! any linker, or by another session.
//!
//! A link ends in addresses of one process: instructions are rewritten for what is near in it,
//! thread-local variables have their offsets, stubs lead to its libraries. None of that may be in
//! an object. So a session that keeps graphs keeps each also as it is when the passes before
//! pruning have run, and saves that, less what pruning took away: relocations ask for tables as
//! they did in the inputs, and tables that the link made are not there.

use super::Dylib;
use super::state::SymbolState;
use crate::context::lock;
use crate::error::LinkErrors;
use crate::link::Finished;
use crate::passes::GraphPass;
use clinch_graph::{
    BlockId, GraphError, Lifetime, LinkGraph, NewBlock, NewContent, NewSection, Prot,
};
use clinch_link::{JoinError, Part, frames, join};
use clinch_object::{WriteError, write_object};
use clinch_target::Arch;
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// Why a dylib cannot be saved.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The session does not keep graphs
    /// ([`SessionOptions::keep_graphs`](super::SessionOptions::keep_graphs)).
    #[error("dylib {0} cannot be saved: its session does not keep graphs")]
    NotKept(String),
    /// Functions behind stubs that lead to addresses of this process.
    #[error("dylib {0} cannot be saved: it has functions behind stubs, which lead to addresses")]
    Stubs(String),
    /// Call frame records that cannot be split.
    #[error(transparent)]
    Frames(LinkErrors),
    /// The links cannot be joined.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The graph refused a change.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// What was linked cannot be said in an object.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A graph as it was before the link changed it; `None` until then.
pub(super) type Unlinked = Arc<Mutex<Option<LinkGraph>>>;

/// The last pass before pruning: keeps the graph.
pub(super) fn keep(slot: &Unlinked) -> (String, GraphPass) {
    let slot = Arc::clone(slot);
    let pass = move |graph: &mut LinkGraph| {
        *lock(&slot) = Some(graph.clone());
        Ok(())
    };
    ("keep".to_owned(), Box::new(pass))
}

impl Dylib {
    /// What the dylib has linked so far, as one relocatable object for
    /// [`Session::new`](super::Session::new)'s architecture: the definitions of all its links with
    /// their names and scopes, and references among them by name. What links of other dylibs, the
    /// process and libraries define stays undefined, and so do absolute symbols and aliases, which
    /// are addresses here. Debug information is not in it.
    ///
    /// What passes before pruning changed is in it. What later passes changed is not: they see
    /// tables and addresses, which belong to this process.
    ///
    /// # Errors
    /// The session does not keep graphs; the dylib has functions behind stubs
    /// ([`Dylib::add_redirectable`], [`Dylib::add_lazy_objects`]); what an object cannot say.
    pub fn save(&self) -> Result<Vec<u8>, SaveError> {
        let (name, kept) = {
            let state = self.core.read();
            let dylib = state.dylib(self.id);
            let links = state.links.iter().filter(|link| {
                let is_linked = matches!(link.state, SymbolState::Emitted | SymbolState::Ready);
                link.dylib == self.id && is_linked && !link.is_removed
            });
            let kept = links.map(|link| link.finished.clone().zip(link.unlinked.clone()));
            let is_lazy = dylib.bodies.is_some() || !dylib.words.is_empty();
            if is_lazy {
                return Err(SaveError::Stubs(dylib.name.clone()));
            }
            (dylib.name.clone(), kept.collect::<Option<Vec<_>>>())
        };
        let kept = kept
            .filter(|_| self.core.keep)
            .ok_or_else(|| SaveError::NotKept(name.clone()))?;
        let arch = self.core.arch;
        let mut links = Vec::with_capacity(kept.len());
        for (finished, unlinked) in kept {
            links.push(SavedLink::new(arch, finished, &unlinked)?);
        }
        let wants: Vec<_> = links
            .iter()
            .map(|link| move |block| link.wants(block))
            .collect();
        let parts: Vec<Part<'_>> = links
            .iter()
            .zip(&wants)
            .map(|(link, wants)| Part {
                graph: &link.graph,
                resolution: &link.finished.resolution,
                wants,
            })
            .collect();
        let mut joined = join(&name, &arch.graph, &parts)?;
        needs_no_executable_stack(&mut joined)?;
        Ok(write_object(&joined, arch)?)
    }
}

/// A link to be saved.
struct SavedLink {
    finished: Arc<Finished>,
    /// As before the link, but for call frames, which are split as the link did it: blocks have
    /// the numbers that they have in the finished graph.
    graph: LinkGraph,
}

impl SavedLink {
    fn new(arch: &Arch, finished: Arc<Finished>, unlinked: &LinkGraph) -> Result<Self, SaveError> {
        let mut graph = unlinked.clone();
        let split = frames::split(&mut graph, arch);
        split.map_err(|errors| SaveError::Frames(errors.into()))?;
        Ok(Self { finished, graph })
    }

    /// What pruning left. A note of what all code of an object holds to does not hold for that of
    /// several.
    fn wants(&self, block: BlockId) -> bool {
        let section = self.graph.block_section(block);
        self.finished.graph.has_block(block)
            && self.graph.section_name(section) != b".note.gnu.property"
    }
}

/// Says that no code here needs a stack that can be executed, which linkers assume of objects that
/// do not say so.
fn needs_no_executable_stack(graph: &mut LinkGraph) -> Result<(), GraphError> {
    let new = NewSection {
        lifetime: Lifetime::NoAlloc,
        ..NewSection::new(Prot::R)
    };
    let section = graph.add_section(b".note.GNU-stack", new);
    let content = NewContent::Owned(Vec::new());
    let block = NewBlock {
        section,
        content,
        align: 1,
        align_offset: 0,
    };
    graph.add_block(block).map(drop)
}
