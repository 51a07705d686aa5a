//! Look-ups that wait for links.

use super::state::{FoundEntry, LinkId, State, SymbolState};
use crate::error::{LinkError, LinkErrors};
use clinch_graph::index::int::usize_of;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// What a look-up answers: an address for each name, in order; `None` for weak references that
/// nothing defines.
pub type Addresses = Result<Vec<Option<u64>>, LookUpError>;
/// What to go on with when a look-up ends.
pub type OnFound = Box<dyn FnOnce(Addresses) + Send>;

/// Why a look-up failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LookUpError {
    /// Nothing defines these names.
    #[error("Symbols not found: [ {} ]", .0.join(", "))]
    NotFound(Vec<String>),
    /// Links failed that the look-up depends on: each cause once, in the order of the links.
    #[error("{}", causes(.0))]
    Failed(Vec<Arc<LinkErrors>>),
    /// What was looked for was removed in the meantime.
    #[error("symbols were removed while they were looked up: [ {} ]", .0.join(", "))]
    Removed(Vec<String>),
}

impl From<LinkError> for LookUpError {
    fn from(error: LinkError) -> Self {
        Self::Failed(vec![Arc::new(error.into())])
    }
}

fn causes(causes: &[Arc<LinkErrors>]) -> String {
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

/// What a look-up waits for.
pub(crate) struct Query {
    /// Per name what defines it: a symbol of the session, or an address from outside.
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) need: SymbolState,
    /// Links that are not as far as is needed.
    pub(crate) waiting: usize,
    /// All links that names are of, ascending.
    pub(crate) links: Vec<LinkId>,
    pub(crate) then: Mutex<OnFound>,
}

/// What defines a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    Entry(FoundEntry),
    /// An address from outside the session, or nothing for a weak reference.
    Address(Option<u64>),
}

impl State {
    /// Takes a look-up out that waits for nothing any more, with its answer.
    pub(crate) fn take_query(&mut self, id: usize) -> Option<(OnFound, Addresses)> {
        let query = self.queries.remove(&id)?;
        let answer = self.answer(&query);
        let then = query.then.into_inner();
        Some((then.unwrap_or_else(PoisonError::into_inner), answer))
    }

    fn answer(&self, query: &Query) -> Addresses {
        let mut failed: Vec<(LinkId, Arc<LinkErrors>)> = query
            .links
            .iter()
            .filter_map(|&link| self.links[usize_of(link.0)].failure.clone())
            .collect();
        failed.sort_by_key(|(link, _)| *link);
        failed.dedup_by_key(|(link, _)| *link);
        // An executor that is gone is one cause for all links.
        failed.dedup_by(|(_, second), (_, first)| second == first);
        if !failed.is_empty() {
            let causes = failed.into_iter().map(|(_, errors)| errors);
            return Err(LookUpError::Failed(causes.collect()));
        }
        let mut addresses = Vec::with_capacity(query.wanted.len());
        let mut gone = Vec::new();
        for wanted in &query.wanted {
            match wanted {
                Wanted::Address(address) => addresses.push(*address),
                Wanted::Entry(found) => match self.dylib(found.dylib).table.get(found.name) {
                    Some(entry) => addresses.push(Some(entry.address)),
                    None => gone.push(self.pool.display(found.name)),
                },
            }
        }
        if gone.is_empty() {
            Ok(addresses)
        } else {
            Err(LookUpError::Removed(gone))
        }
    }
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query")
            .field("wanted", &self.wanted)
            .field("need", &self.need)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
