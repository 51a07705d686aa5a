//! Closing a look-up over what it needs: units that define its names, and units that those need,
//! directly or not, are taken together, and all of one dylib and tracker become one link. So a
//! program of thousands of objects is one link with one graph. A list of work, no recursion.

use super::core::{Ask, Core};
use super::pool::Name;
use super::state::{DylibId, FoundEntry, LinkId, Owner, SearchOrder, State, TrackerId};
use super::unit::{Content, UnitState};
use crate::context::lock;
use crate::error::LinkErrors;
use crate::linker_defined;
use clinch_graph::index::int::usize_of;
use clinch_graph::index::map::Set;
use std::sync::Arc;

/// What closing found out.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    pub(crate) found: Vec<Option<FoundEntry>>,
    pub(crate) links: Vec<LinkId>,
}

/// What a unit is while the link's number is not known, which follows when all units are.
const TAKEN: UnitState = UnitState::Taken(LinkId(u32::MAX));

/// A name on the way through a search.
#[derive(Clone, Debug)]
struct Open {
    order: SearchOrder,
    name: Name,
    is_weak: bool,
    is_tls: bool,
}

impl Core {
    /// Takes the units that define the names, all units of one dylib when that is wanted, and those
    /// that these need.
    pub(crate) fn close(
        self: &Arc<Self>,
        order: &SearchOrder,
        asks: &[Ask],
        all_of: Option<DylibId>,
    ) -> Result<Closed, LinkErrors> {
        let names: Vec<Name> = {
            let mut state = self.write();
            asks.iter()
                .map(|ask| state.pool.intern(&ask.name))
                .collect()
        };
        let mut taken: Vec<usize> = Vec::new();
        let mut open: Vec<Open> = asks
            .iter()
            .zip(&names)
            .map(|(ask, &name)| Open {
                order: Arc::clone(order),
                name,
                is_weak: ask.is_weak,
                is_tls: ask.is_tls,
            })
            .collect();
        let mut start = all_of.map_or_else(Vec::new, |dylib| self.write().take_all(dylib));
        loop {
            let (open_now, start_now) = (std::mem::take(&mut open), std::mem::take(&mut start));
            let missing = self.write().take_units(open_now, start_now, &mut taken);
            let (objects, again) = self.generate(missing, &taken)?;
            if !objects {
                break;
            }
            open = again;
        }
        let mut state = self.write();
        let links = state.make_links(taken);
        let found = names
            .iter()
            .map(|&name| state.search(order, name))
            .collect();
        Ok(Closed { found, links })
    }

    /// Asks the sources of dylibs for names that were not found; answers whether they defined
    /// something, and what to look for again.
    fn generate(
        self: &Arc<Self>,
        missing: Vec<Open>,
        taken: &[usize],
    ) -> Result<(bool, Vec<Open>), LinkErrors> {
        let mut any = false;
        // By dylib, in the order in which names were asked for.
        let mut asks: Vec<(DylibId, Vec<(Vec<u8>, bool)>)> = Vec::new();
        {
            let mut state = self.write();
            for open in missing.iter().filter(|open| !open.is_weak) {
                let text = state.pool.text(open.name).to_vec();
                for &(dylib, _) in &*open.order {
                    if !state.dylib_mut(dylib).asked.insert(open.name) {
                        continue;
                    }
                    let ask = (text.clone(), open.is_tls);
                    match asks.iter_mut().find(|(known, _)| *known == dylib) {
                        Some((_, names)) => names.push(ask),
                        None => asks.push((dylib, vec![ask])),
                    }
                }
            }
        }
        for (dylib, names) in asks {
            let (sources, tracker, onto) = {
                let state = self.read();
                let tracker = state.dylib(dylib).default_tracker;
                let sources = Arc::clone(&state.dylib(dylib).sources);
                (sources, tracker, state.first_batch(taken, tracker))
            };
            let found = lock(&sources).objects(&names)?;
            if !found.objects.is_empty() {
                any = true;
                let units = self.add_objects(dylib, tracker, found.objects, onto)?;
                let mut state = self.write();
                for (unit, member) in units.into_iter().zip(found.members) {
                    state.units[unit].member = Some(member);
                }
            }
        }
        Ok((any, missing))
    }
}

impl State {
    /// Takes all units of a dylib that nobody asked for yet.
    fn take_all(&mut self, dylib: DylibId) -> Vec<usize> {
        let mut all = Vec::new();
        for (number, unit) in self.units.iter_mut().enumerate() {
            if unit.dylib == dylib && unit.state == UnitState::Pending {
                unit.state = TAKEN;
                all.push(number);
            }
        }
        all
    }

    /// The objects with which the first of some units was read, when it is of a tracker.
    fn first_batch(&self, taken: &[usize], tracker: TrackerId) -> Option<usize> {
        let first = taken.iter().min()?;
        let unit = &self.units[*first];
        unit.batch
            .filter(|_| unit.tracker == tracker)
            .map(|(batch, _)| batch)
    }

    /// Takes units that define names, and those that these and the `work` need; answers the names
    /// that no table has.
    fn take_units(
        &mut self,
        open: Vec<Open>,
        mut work: Vec<usize>,
        taken: &mut Vec<usize>,
    ) -> Vec<Open> {
        let mut missing = Vec::new();
        let mut seen: Set<(DylibId, Name)> = Set::default();
        for open in open {
            match self.search(&open.order, open.name) {
                Some(found) => self.take_unit(found, &mut work),
                None => missing.push(open),
            }
        }
        while let Some(unit) = work.pop() {
            taken.push(unit);
            let dylib = self.units[unit].dylib;
            let order = Arc::clone(&self.dylib(dylib).order);
            for index in 0..self.units[unit].refers.len() {
                let refer = self.units[unit].refers[index];
                match self.search(&order, refer.name) {
                    Some(found) => self.take_unit(found, &mut work),
                    // Weak references take no members out of archives.
                    None if refer.is_weak || !seen.insert((dylib, refer.name)) => {}
                    None if linker_defined::is_linker_defined(self.pool.text(refer.name)) => {}
                    None => missing.push(Open {
                        order: Arc::clone(&order),
                        name: refer.name,
                        is_weak: false,
                        is_tls: refer.is_tls,
                    }),
                }
            }
        }
        missing
    }

    fn take_unit(&mut self, found: FoundEntry, work: &mut Vec<usize>) {
        if let Owner::Unit(unit) = found.entry.owner
            && self.units[unit].state == UnitState::Pending
        {
            self.units[unit].state = TAKEN;
            work.push(unit);
        }
    }

    /// Makes links of the units that were taken: one for each dylib and tracker, one for each
    /// unit that makes its definitions itself.
    fn make_links(&mut self, mut taken: Vec<usize>) -> Vec<LinkId> {
        taken.sort_unstable();
        let mut links: Vec<(DylibId, TrackerId, LinkId)> = Vec::new();
        let mut all = Vec::new();
        for unit in taken {
            let (dylib, tracker) = (self.units[unit].dylib, self.units[unit].tracker);
            let is_custom = matches!(self.units[unit].content, Content::Custom(_));
            let known = links
                .iter()
                .find(|(of, by, _)| *of == dylib && *by == tracker);
            let link = match known {
                Some(&(.., link)) if !is_custom => link,
                _ => {
                    let link = self.add_link(dylib, tracker);
                    if !is_custom {
                        links.push((dylib, tracker, link));
                    }
                    all.push(link);
                    link
                }
            };
            self.units[unit].state = UnitState::Taken(link);
            let mut names = Vec::with_capacity(self.units[unit].defines.len());
            let table = &mut self.dylibs[usize_of(dylib.0)].table;
            for define in &self.units[unit].defines {
                if let Some(entry) = table.get_mut(define.name)
                    && entry.owner == Owner::Unit(unit)
                {
                    entry.owner = Owner::Link(link);
                    names.push(define.name);
                }
            }
            let state = self.link_mut(link);
            state.units.push(unit);
            state.names.extend(names);
        }
        all
    }
}
