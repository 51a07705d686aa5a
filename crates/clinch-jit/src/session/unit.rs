//! Units: what can be linked when somebody asks for one of its symbols. An object is one; a
//! caller's own way of making an object is another.

use super::pool::{Name, NamePool};
use super::responsibility::Responsibility;
use super::sources::MemberKey;
use super::state::{DylibId, LinkId, TrackerId};
use super::stubs::StubSet;
use crate::context::lock;
use bytes::Bytes;
use clinch_graph::{
    Addressable, Column, IdRange, InputId, InputName, LinkGraph, NameId, Names, Selection,
    SymbolFlags, SymbolId, Workers,
};
use clinch_link::place::Place;
use clinch_link::resolve;
use clinch_object::error::InputError;
use clinch_object::{AddedObject, ReadOptions, add_objects};
use clinch_target::Arch;
use std::sync::Mutex;

/// Makes definitions on demand: the unit of a compiler, or of whatever else makes code late.
pub trait MaterializationUnit: Send {
    /// A name for messages.
    fn name(&self) -> String;

    /// What it defines.
    fn symbols(&self) -> Vec<(Vec<u8>, SymbolFlags)>;

    /// Somebody asked for one of the symbols: make them, now or later, on any thread. No lock is
    /// held; it may look other symbols up.
    fn materialize(self: Box<Self>, responsibility: Responsibility);

    /// A stronger definition of a symbol was added before this one was asked for.
    fn discard(&mut self, _name: &[u8]) {}
}

/// Something that can be linked.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) dylib: DylibId,
    pub(crate) tracker: TrackerId,
    /// Its name for messages.
    pub(crate) label: String,
    pub(crate) content: Content,
    pub(crate) defines: Vec<Define>,
    pub(crate) refers: Vec<Refer>,
    pub(crate) values: Vec<(Name, u64)>,
    pub(crate) state: UnitState,
    /// Its symbols were promised before there was an object.
    pub(crate) is_promise: bool,
    /// The member of the dylib's archives that it is.
    pub(crate) member: Option<MemberKey>,
    /// The objects that it was read with, and its place among them.
    pub(crate) batch: Option<(usize, usize)>,
}

/// What is in a unit.
pub(crate) enum Content {
    Object(InputName, Bytes),
    Custom(Mutex<Box<dyn MaterializationUnit>>),
    Stubs(StubSet),
    /// It was handed out.
    Taken,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(name, _) => write!(f, "{name}"),
            Self::Custom(unit) => f.write_str(&lock(unit).name()),
            Self::Stubs(_) => f.write_str("stubs"),
            Self::Taken => f.write_str("taken"),
        }
    }
}

/// Whether a unit was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnitState {
    Pending,
    Taken(LinkId),
    /// Removed, or nothing of it is needed any more.
    Gone,
}

/// A symbol that a unit defines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Define {
    pub(crate) name: Name,
    pub(crate) flags: SymbolFlags,
    /// In a COMDAT group of which another unit may have a copy.
    pub(crate) in_group: bool,
}

/// A symbol that a unit needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refer {
    pub(crate) name: Name,
    pub(crate) is_weak: bool,
    pub(crate) is_tls: bool,
}

/// What an object defines and needs.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    pub(crate) defines: Vec<Define>,
    pub(crate) refers: Vec<Refer>,
    /// The values of absolute symbols, which another unit may define alike.
    pub(crate) values: Vec<(Name, u64)>,
}

/// Objects that were read together: their symbols are in one graph, which becomes that of the link
/// when it takes most of them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) graph: LinkGraph,
    pub(crate) names: Names,
    pub(crate) inputs: IdRange<InputId>,
    pub(crate) objects: Vec<AddedObject>,
    /// How many objects the session knows the names of.
    pub(crate) n_interned: usize,
    /// The session's names of the graph's.
    known: Column<NameId, Option<Name>>,
}

impl Batch {
    /// Reads the symbols of objects, in parallel and without the session's lock.
    ///
    /// # Errors
    /// Every object that cannot be read, in the order given.
    pub(crate) fn read(
        arch: &'static Arch,
        workers: &Workers,
        name: &str,
        objects: Vec<(InputName, Bytes)>,
    ) -> Result<Self, Vec<InputError>> {
        let graph = LinkGraph::new(name, &arch.graph);
        let first = graph.n_inputs();
        let mut batch = Self {
            graph,
            names: Names::new(),
            inputs: IdRange::new(first, first),
            objects: Vec::new(),
            n_interned: 0,
            known: Column::new(),
        };
        batch.add(workers, objects)?;
        Ok(batch)
    }

    /// Reads the symbols of further objects.
    ///
    /// # Errors
    /// As [`Batch::read`]; the batch is then of no use.
    pub(crate) fn add(
        &mut self,
        workers: &Workers,
        objects: Vec<(InputName, Bytes)>,
    ) -> Result<(), Vec<InputError>> {
        let options = ReadOptions { metadata: false };
        let (graph, names) = (&mut self.graph, &mut self.names);
        let added = add_objects(graph, names, workers, objects, options)?;
        self.inputs = IdRange::new(self.inputs.start(), added.inputs.end());
        self.objects.extend(added.objects);
        self.known.grow(self.names.bound(), None);
        Ok(())
    }

    /// The interfaces of the objects that were added last, in the order given.
    pub(crate) fn intern(&mut self, pool: &mut NamePool, workers: &Workers) -> Vec<Interface> {
        let first = std::mem::replace(&mut self.n_interned, self.objects.len());
        let (graph, names) = (&self.graph, &self.names);
        let new = names.ids().filter(|&id| self.known[id].is_none());
        let new: Vec<NameId> = new.collect();
        let texts: Vec<&[u8]> = new.iter().map(|&id| names.name(graph, id)).collect();
        for (id, name) in new.into_iter().zip(pool.intern_distinct(workers, &texts)) {
            self.known[id] = Some(name);
        }
        let batch = &*self;
        let n_symbols: usize = (first..self.objects.len())
            .map(|index| self.symbols(index).len())
            .sum();
        let cost = n_symbols * size_of::<Define>();
        let runs = workers.cut(cost, batch.objects.len() - first);
        let interfaces = workers.map(cost, runs, |run| {
            let interface = |index| batch.interface(first + index);
            run.map(interface).collect::<Vec<_>>()
        });
        interfaces.into_iter().flatten().collect()
    }

    /// Finds the names of the objects that were added last, which were interned before.
    pub(crate) fn find(&mut self, pool: &NamePool) {
        if std::mem::replace(&mut self.n_interned, self.objects.len()) == self.objects.len() {
            return;
        }
        for id in self.names.ids() {
            let known = &mut self.known[id];
            *known = known.or_else(|| pool.find(self.names.name(&self.graph, id)));
        }
    }

    /// What the object of a number defines, while the graph's symbols are as read.
    pub(crate) fn definitions(&self, index: usize) -> impl Iterator<Item = (Name, SymbolId)> + '_ {
        self.symbols(index).iter().filter_map(|symbol| {
            let is_definition = self.graph.symbol_flags(symbol).is_definition();
            let name = self.names.of(symbol).filter(|_| is_definition)?;
            Some((self.known[name]?, symbol))
        })
    }

    /// Where the object of a number defines a name, for messages.
    pub(crate) fn place(&self, index: usize, name: Name) -> Option<Place> {
        let (_, symbol) = self.definitions(index).find(|(known, _)| *known == name)?;
        let input = self.graph.input(self.inputs.get(index)?);
        let object = &self.objects.get(index)?.object;
        let Some((section, offset)) = self.graph.pending_place(symbol) else {
            return Some(resolve::definition_place(&self.graph, symbol));
        };
        let section = object.section_name(input.bytes(), section);
        Some(Place {
            input: input.name.to_string(),
            section: String::from_utf8_lossy(section).into_owned(),
            offset,
            function: None,
        })
    }

    fn symbols(&self, index: usize) -> IdRange<SymbolId> {
        let input = self.inputs.get(index);
        input.map_or(IdRange::empty(), |input| self.graph.input(input).symbols())
    }

    fn interface(&self, index: usize) -> Interface {
        let comdats = self
            .inputs
            .get(index)
            .map(|input| self.graph.input(input).comdats());
        let comdats = comdats.unwrap_or(IdRange::empty());
        let may_be_copied = |group| {
            let comdat = comdats.get(group);
            comdat.is_some_and(|comdat| self.graph.comdat(comdat).selection != Selection::All)
        };
        let mut interface = Interface::default();
        for symbol in self.symbols(index).iter() {
            let flags = self.graph.symbol_flags(symbol);
            let Some(name) = self.names.of(symbol).and_then(|id| self.known[id]) else {
                continue;
            };
            if flags.is_definition() {
                let sections = &self.objects[index].sections;
                let group = (!comdats.is_empty())
                    .then(|| sections.group_of(self.graph.pending_place(symbol)?.0))
                    .flatten();
                if let Addressable::Absolute(value) = self.graph.addressable(symbol) {
                    interface.values.push((name, value));
                }
                interface.defines.push(Define {
                    name,
                    flags,
                    in_group: group.is_some_and(may_be_copied),
                });
            } else if flags.is_external() {
                interface.refers.push(Refer {
                    name,
                    is_weak: flags.contains(SymbolFlags::WEAKLY_REFERENCED),
                    is_tls: flags.contains(SymbolFlags::TLS),
                });
            }
        }
        interface
    }
}
