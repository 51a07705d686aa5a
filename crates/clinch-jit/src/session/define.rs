//! Defining symbols: what happens when a name has two definitions.

use super::pool::Name;
use super::state::{DylibId, Entry, Owner, State, TrackerId};
use super::stubs::{Stub, StubSet};
use super::unit::{Content, Define, Interface, Unit, UnitState};
use crate::context::lock;
use crate::error::{LinkError, LinkErrors};
use clinch_graph::SymbolFlags;

impl State {
    /// Adds stubs as a unit.
    pub(crate) fn add_stubs(
        &mut self,
        dylib: DylibId,
        tracker: TrackerId,
        stubs: Vec<Stub>,
    ) -> Result<(), LinkErrors> {
        let define = |stub: &Stub| Define {
            name: stub.name,
            flags: stub.flags,
            in_group: false,
        };
        let interface = Interface {
            defines: stubs.iter().map(define).collect(),
            ..Interface::default()
        };
        let content = Content::Stubs(StubSet { stubs });
        let added = self.add_unit(dylib, tracker, content, interface);
        added
            .map(drop)
            .map_err(|clashes| self.refusal(dylib, &clashes))
    }

    /// Adds a unit and defines its symbols; answers its number.
    ///
    /// # Errors
    /// Second strong definitions; nothing is then added.
    pub(crate) fn add_unit(
        &mut self,
        dylib: DylibId,
        tracker: TrackerId,
        content: Content,
        interface: Interface,
    ) -> Result<usize, Vec<Clash>> {
        let number = self.units.len();
        let table = &self.dylib(dylib).table;
        let clashes = interface.defines.iter().filter_map(|define| {
            let first = *table.get(define.name)?;
            let value = interface
                .values
                .iter()
                .find(|(name, _)| *name == define.name);
            let value = value.map(|(_, value)| *value);
            (self.claim(&first, define, value) == Claim::Clash).then_some(Clash {
                name: define.name,
                first,
                second: format!("{content:?}"),
            })
        });
        let clashes: Vec<Clash> = clashes.collect();
        if !clashes.is_empty() {
            return Err(clashes);
        }
        for define in &interface.defines {
            let known = self.dylib(dylib).table.get(define.name).copied();
            if let Some(entry) = &known {
                // Of two that may both be, the first stays.
                if self.claim(entry, define, None) != Claim::Take {
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
                in_group: define.in_group,
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
            values: interface.values,
            state: UnitState::Pending,
            is_promise: false,
            member: None,
            batch: None,
        });
        Ok(number)
    }

    /// What happens when a name is defined again: strong definitions beat common ones, those beat
    /// weak ones, as long as nobody asked for the one that loses.
    fn claim(&self, old: &Entry, new: &Define, value: Option<u64>) -> Claim {
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
            strength(new.flags, new.in_group),
        );
        if old_strength == 2 && new_strength == 2 {
            let is_same = value.is_some() && value == self.value(old, new.name);
            return if is_same { Claim::Yield } else { Claim::Clash };
        }
        match old.owner {
            Owner::Absolute if new_strength > old_strength => Claim::Take,
            Owner::Unit(_) if new_strength > old_strength => Claim::Take,
            Owner::Unit(_) => Claim::Yield,
            _ if new_strength == 2 => Claim::Clash,
            _ => Claim::Yield,
        }
    }

    /// The value of an absolute symbol.
    fn value(&self, entry: &Entry, name: Name) -> Option<u64> {
        match entry.owner {
            Owner::Absolute => Some(entry.address),
            Owner::Unit(unit) => {
                let mut values = self.units[unit].values.iter();
                values
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| *value)
            }
            Owner::Link(_) | Owner::Alias(..) => None,
        }
    }

    /// What to say of a second definition that nothing more is known of.
    pub(crate) fn defined(&self, dylib: DylibId, clash: &Clash) -> LinkError {
        LinkError::Defined {
            dylib: self.dylib(dylib).name.clone(),
            name: self.pool.display(clash.name),
            first: self.describe(&clash.first),
            second: clash.second.clone(),
        }
    }

    /// The same for several.
    pub(crate) fn refusal(&self, dylib: DylibId, clashes: &[Clash]) -> LinkErrors {
        let errors = clashes.iter().map(|clash| self.defined(dylib, clash));
        LinkErrors(errors.collect())
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

/// A second strong definition of a name.
#[derive(Clone, Debug)]
pub(crate) struct Clash {
    pub(crate) name: Name,
    pub(crate) first: Entry,
    /// What defines it now.
    pub(crate) second: String,
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
