//! What a session knows: dylibs with their symbols, units that can be linked, links in flight.
//! All of it is behind one lock, which is held for look-ups in tables and never while something
//! is read, linked or run.

use super::plugin::LinkInfo;
use super::pool::{Name, NamePool};
use super::query::Query;
use super::sources::Sources;
use super::table::SymbolTable;
use super::unit::{Batch, Content, Unit, UnitState};
use super::wait::WaitGraph;
use crate::context::Runtime;
use crate::error::LinkErrors;
use crate::link::Finished;
use crate::memory::MemoryManager;
use clinch_graph::index::int::{u32_of, usize_of};
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{LinkGraph, Scope, SymbolFlags};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A dylib of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DylibId(pub(crate) u32);

/// A resource tracker of a session: what was added with it can be removed together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TrackerId(pub(crate) u32);

/// A link of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub(crate) u32);

/// Which symbols of a dylib a look-up sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// Those that it exports.
    Exported,
    /// Hidden ones too: what the dylib itself sees.
    All,
}

/// Dylibs in the order in which they are searched.
pub(crate) type SearchOrder = Arc<[(DylibId, Match)]>;

/// How far a symbol is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SymbolState {
    /// Nobody asked for it yet.
    NeverSearched,
    /// Its link runs.
    Linking,
    /// It has an address.
    Resolved,
    /// It is in memory; something that it depends on is not.
    Emitted,
    /// It can be used.
    Ready,
    /// Its link failed, or that of something it depends on.
    Failed,
}

/// Who defines a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Has an address from the beginning.
    Absolute,
    /// Nobody asked for it yet.
    Unit(usize),
    /// A link, running or ended.
    Link(LinkId),
    /// Another name, in this dylib or another.
    Alias(DylibId, Name),
}

/// A symbol of a dylib.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) flags: SymbolFlags,
    /// In a COMDAT group: another definition is another copy.
    pub(crate) in_group: bool,
    /// Of thread-local variables the offset from the thread pointer.
    pub(crate) address: u64,
}

impl Entry {
    pub(crate) fn is_visible(&self, to: Match) -> bool {
        match self.flags.scope() {
            Scope::Local => false,
            Scope::Hidden => to == Match::All,
            Scope::Default | Scope::Protected | Scope::SideEffectsOnly => true,
        }
    }
}

/// A dylib.
#[derive(Debug)]
pub(crate) struct DylibState {
    pub(crate) name: String,
    pub(crate) table: SymbolTable,
    pub(crate) order: SearchOrder,
    /// Archives, libraries and the process.
    pub(crate) sources: Arc<Mutex<Sources>>,
    /// Names that its generators were asked for in vain.
    pub(crate) asked: Set<Name>,
    pub(crate) default_tracker: TrackerId,
    pub(crate) memory: Arc<dyn MemoryManager>,
    /// The link that is not resolved yet; others of the dylib wait, so that what is placed where
    /// does not depend on threads.
    pub(crate) running: Option<LinkId>,
    pub(crate) backlog: VecDeque<LinkId>,
    /// What the linker itself defined, such as the dylib's handle.
    pub(crate) made: Map<Name, (LinkId, u64)>,
    /// The words that stubs jump through.
    pub(crate) words: Map<Name, (LinkId, u64)>,
    /// The dylib with the functions that this one's lazy stubs lead to.
    pub(crate) bodies: Option<DylibId>,
    /// How often it was opened and not closed.
    pub(crate) n_open: usize,
}

/// A tracker.
#[derive(Debug)]
pub(crate) struct TrackerState {
    pub(crate) dylib: DylibId,
    pub(crate) is_defunct: bool,
    pub(crate) holds: Holds,
}

/// What a tracker holds.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    pub(crate) units: Vec<usize>,
    pub(crate) links: Vec<LinkId>,
    /// Absolute symbols and aliases.
    pub(crate) names: Vec<Name>,
}

/// A link.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub(crate) dylib: DylibId,
    pub(crate) tracker: TrackerId,
    pub(crate) units: Vec<usize>,
    /// What it defines.
    pub(crate) names: Vec<Name>,
    pub(crate) state: SymbolState,
    /// Look-ups that wait for it.
    pub(crate) queries: Vec<usize>,
    pub(crate) runtime: Arc<Mutex<Runtime>>,
    pub(crate) finished: Option<Arc<Finished>>,
    /// The graph as the link began with it, where graphs are kept.
    pub(crate) unlinked: Option<Arc<LinkGraph>>,
    /// Why it failed: the link that was wrong, and its errors.
    pub(crate) failure: Option<(LinkId, Arc<LinkErrors>)>,
    /// Its resources were removed while it ran.
    pub(crate) is_removed: bool,
    /// How long its steps took.
    pub(crate) times: Vec<(&'static str, Duration)>,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Before the dylibs: what the process was told of is forgotten before its memory goes.
    pub(crate) links: Vec<LinkState>,
    pub(crate) pool: NamePool,
    pub(crate) dylibs: Vec<DylibState>,
    pub(crate) trackers: Vec<TrackerState>,
    pub(crate) units: Vec<Unit>,
    /// Objects as they were read, until the first link takes some of them.
    pub(crate) batches: Vec<Option<Batch>>,
    pub(crate) waits: WaitGraph,
    pub(crate) queries: Map<usize, Query>,
    pub(crate) next_query: usize,
    /// What the session itself provides to dylibs that do not define it.
    pub(crate) provided: Map<Name, u64>,
}

/// A symbol that a search found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundEntry {
    pub(crate) dylib: DylibId,
    pub(crate) name: Name,
    pub(crate) entry: Entry,
}

impl State {
    pub(crate) fn dylib(&self, id: DylibId) -> &DylibState {
        &self.dylibs[usize_of(id.0)]
    }

    pub(crate) fn dylib_mut(&mut self, id: DylibId) -> &mut DylibState {
        &mut self.dylibs[usize_of(id.0)]
    }

    /// The address of what the session itself provides.
    pub(crate) fn provided(&self, text: &[u8]) -> Option<u64> {
        self.provided.get(&self.pool.find(text)?).copied()
    }

    /// What a tracker holds.
    pub(crate) fn tracker_mut(&mut self, id: TrackerId) -> &mut Holds {
        &mut self.trackers[usize_of(id.0)].holds
    }

    pub(crate) fn add_tracker(&mut self, dylib: DylibId) -> TrackerId {
        let id = TrackerId(u32_of(self.trackers.len()));
        self.trackers.push(TrackerState {
            dylib,
            is_defunct: false,
            holds: Holds::default(),
        });
        id
    }

    pub(crate) fn link(&self, id: LinkId) -> &LinkState {
        &self.links[usize_of(id.0)]
    }

    pub(crate) fn link_mut(&mut self, id: LinkId) -> &mut LinkState {
        &mut self.links[usize_of(id.0)]
    }

    /// What plugins are told of a link.
    pub(crate) fn info(&self, id: LinkId) -> LinkInfo {
        let link = self.link(id);
        LinkInfo {
            link: id,
            dylib: link.dylib,
            dylib_name: self.dylib(link.dylib).name.clone(),
            tracker: link.tracker,
        }
    }

    pub(crate) fn add_link(&mut self, dylib: DylibId, tracker: TrackerId) -> LinkId {
        let id = LinkId(u32_of(self.links.len()));
        self.links.push(LinkState {
            dylib,
            tracker,
            units: Vec::new(),
            names: Vec::new(),
            state: SymbolState::Linking,
            queries: Vec::new(),
            runtime: Arc::default(),
            finished: None,
            unlinked: None,
            failure: None,
            is_removed: false,
            times: Vec::new(),
        });
        self.waits.add(usize_of(id.0));
        self.tracker_mut(tracker).links.push(id);
        id
    }

    /// The first symbol of a name in a search order, behind all aliases.
    pub(crate) fn search(&self, order: &[(DylibId, Match)], name: Name) -> Option<FoundEntry> {
        order.iter().find_map(|&(dylib, to)| {
            let entry = self.dylib(dylib).table.get(name)?;
            entry
                .is_visible(to)
                .then(|| self.follow(dylib, name, *entry))?
        })
    }

    /// The symbol that an alias stands for. Aliases that lead nowhere are not symbols.
    fn follow(&self, dylib: DylibId, name: Name, entry: Entry) -> Option<FoundEntry> {
        let mut found = FoundEntry { dylib, name, entry };
        // Definitions of aliases refuse circles, so this ends.
        while let Owner::Alias(dylib, name) = found.entry.owner {
            let entry = *self.dylib(dylib).table.get(name)?;
            found = FoundEntry { dylib, name, entry };
        }
        Some(found)
    }

    /// How far a symbol is.
    pub(crate) fn state_of(&self, entry: &Entry) -> SymbolState {
        match entry.owner {
            Owner::Absolute => SymbolState::Ready,
            Owner::Unit(_) | Owner::Alias(..) => SymbolState::NeverSearched,
            Owner::Link(link) => self.link(link).state,
        }
    }

    /// Takes a unit's names out of its dylib's table.
    pub(crate) fn drop_unit(&mut self, unit: usize) {
        let dylib = self.units[unit].dylib;
        let names = std::mem::take(&mut self.units[unit].defines);
        let table = &mut self.dylibs[usize_of(dylib.0)].table;
        for define in &names {
            if table
                .get(define.name)
                .is_some_and(|entry| entry.owner == Owner::Unit(unit))
            {
                table.remove(define.name);
            }
        }
        self.forget_unit(unit);
    }

    /// Objects that were read together, when the first of a link's units are most of them; with
    /// the places among them of these units. The other units are read again, whoever links them.
    /// (Only the first ones: the order of a graph's inputs must not depend on what was kept.)
    pub(crate) fn take_batch(&mut self, units: &[usize]) -> Option<(Batch, Vec<usize>)> {
        let batches = units.iter().map(|&unit| self.units[unit].batch.take());
        let batches: Vec<Option<(usize, usize)>> = batches.collect();
        let (first, _) = (*batches.first()?)?;
        let is_first = |batch: &&Option<(usize, usize)>| batch.is_some_and(|(of, _)| of == first);
        let places = batches.iter().take_while(is_first);
        let places: Vec<usize> = places.flatten().map(|&(_, place)| place).collect();
        let rest = &batches[places.len()..];
        let mut taken = None;
        for (batch, _) in rest.iter().flatten() {
            self.batches[*batch] = None;
        }
        if !rest.iter().any(|batch| is_first(&batch)) {
            taken = self.batches[first].take();
        }
        let batch = taken.filter(|batch| places.len() * 2 >= batch.objects.len())?;
        Some((batch, places))
    }

    /// Keeps nothing of a unit but its number.
    pub(crate) fn forget_unit(&mut self, unit: usize) {
        if let Some((batch, _)) = self.units[unit].batch {
            self.batches[batch] = None;
        }
        let unit = &mut self.units[unit];
        unit.state = UnitState::Gone;
        unit.content = Content::Taken;
        unit.label = String::new();
        unit.defines = Vec::new();
        unit.refers = Vec::new();
        unit.values = Vec::new();
    }
}
