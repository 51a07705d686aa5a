//! Defining symbols: what happens when a name has two definitions.

use super::state::{DylibId, Entry, Owner, State, TrackerId};
use super::stubs::{Stub, StubSet};
use super::unit::{Content, Define, Interface, Unit, UnitState};
use crate::context::lock;
use crate::error::LinkError;
use clinch_graph::SymbolFlags;

impl State {
    /// Adds stubs as a unit.
    pub(crate) fn add_stubs(
        &mut self,
        dylib: DylibId,
        tracker: TrackerId,
        stubs: Vec<Stub>,
    ) -> Result<(), LinkError> {
        let define = |stub: &Stub| Define {
            name: stub.name,
            flags: stub.flags,
            group: None,
        };
        let interface = Interface {
            defines: stubs.iter().map(define).collect(),
            refers: Vec::new(),
        };
        let content = Content::Stubs(StubSet { stubs });
        self.add_unit(dylib, tracker, content, interface).map(drop)
    }

    /// Adds a unit and defines its symbols; answers its number.
    ///
    /// # Errors
    /// A second strong definition; nothing is then added.
    pub(crate) fn add_unit(
        &mut self,
        dylib: DylibId,
        tracker: TrackerId,
        content: Content,
        interface: Interface,
    ) -> Result<usize, LinkError> {
        let number = self.units.len();
        for define in &interface.defines {
            if let Some(entry) = self.dylib(dylib).table.get(&define.name)
                && Self::claim(entry, define) == Claim::Clash
            {
                return Err(LinkError::Defined {
                    dylib: self.dylib(dylib).name.clone(),
                    name: self.pool.display(define.name),
                    first: self.describe(entry),
                    second: format!("{content:?}"),
                });
            }
        }
        for define in &interface.defines {
            let known = self.dylib(dylib).table.get(&define.name).copied();
            if let Some(entry) = &known {
                if Self::claim(entry, define) == Claim::Yield {
                    continue;
                }
                if let Owner::Unit(loser) = entry.owner
                    && let Content::Custom(unit) = &self.units[loser].content
                {
                    lock(unit).discard(self.pool.text(define.name));
                }
            }
            let entry = Entry {
                owner: Owner::Unit(number),
                flags: define.flags,
                in_group: define.group.is_some(),
                address: 0,
            };
            self.dylib_mut(dylib).table.insert(define.name, entry);
        }
        self.tracker_mut(tracker).units.push(number);
        self.units.push(Unit {
            dylib,
            tracker,
            label: format!("{content:?}"),
            content,
            defines: interface.defines,
            refers: interface.refers,
            state: UnitState::Pending,
            is_promise: false,
            batch: None,
        });
        Ok(number)
    }

    /// What happens when a name is defined again: strong definitions beat common ones, those beat
    /// weak ones, as long as nobody asked for the one that loses.
    fn claim(old: &Entry, new: &Define) -> Claim {
        let strength = |flags: SymbolFlags, in_group: bool| {
            if flags.contains(SymbolFlags::WEAK) || in_group {
                0
            } else if flags.is_common() {
                1
            } else {
                2
            }
        };
        let (old_strength, new_strength) = (
            strength(old.flags, old.in_group),
            strength(new.flags, new.group.is_some()),
        );
        if old_strength == 2 && new_strength == 2 {
            return Claim::Clash;
        }
        match old.owner {
            Owner::Unit(_) if new_strength > old_strength => Claim::Take,
            Owner::Unit(_) => Claim::Yield,
            _ if new_strength == 2 => Claim::Clash,
            _ => Claim::Yield,
        }
    }

    pub(crate) fn describe(&self, entry: &Entry) -> String {
        match entry.owner {
            Owner::Absolute => "an absolute symbol".to_owned(),
            Owner::Alias(..) => "an alias".to_owned(),
            Owner::Unit(unit) => self.units[unit].label.clone(),
            Owner::Link(link) => {
                let link = self.link(link);
                let units: Vec<String> = link
                    .units
                    .iter()
                    .map(|&unit| self.units[unit].label.clone())
                    .collect();
                units.join(", ")
            }
        }
    }
}

/// Who has a name when it is defined again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    /// The new definition.
    Take,
    /// The old one.
    Yield,
    /// Neither: there may be one.
    Clash,
}
