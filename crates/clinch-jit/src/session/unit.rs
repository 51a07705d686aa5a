//! Units: what can be linked when somebody asks for one of its symbols. An object is one; a
//! caller's own way of making an object is another.

use super::pool::{Name, NamePool};
use super::responsibility::Responsibility;
use super::state::{DylibId, LinkId, TrackerId};
use super::stubs::StubSet;
use crate::context::lock;
use bytes::Bytes;
use clinch_graph::index::map::Map;
use clinch_graph::{
    InputId, InputName, LinkGraph, Names, Selection, SymbolFlags, SymbolId, Workers,
};
use clinch_object::error::InputError;
use clinch_object::{AddedObjects, ReadOptions, add_objects};
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
    pub(crate) state: UnitState,
    /// Its symbols were promised before there was an object.
    pub(crate) is_promise: bool,
    /// The objects that it was read with.
    pub(crate) batch: Option<usize>,
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
    /// The signature of the COMDAT group it is in: another unit may have the same group.
    pub(crate) group: Option<Name>,
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
}

/// Objects that were read together: their symbols are in one graph, which becomes that of the link
/// when it takes them all, as it mostly does.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) graph: LinkGraph,
    pub(crate) names: Names,
    pub(crate) added: AddedObjects,
    /// The definitions with their names in the session, while the graph's symbols are as read.
    pub(crate) definitions: Vec<(Name, SymbolId)>,
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
        let mut graph = LinkGraph::new(name, &arch.graph);
        let options = ReadOptions { metadata: false };
        let mut names = Names::new();
        let added = add_objects(&mut graph, &mut names, workers, objects, options)?;
        Ok(Self {
            graph,
            names,
            added,
            definitions: Vec::new(),
        })
    }

    /// The objects' interfaces, in the order given.
    pub(crate) fn intern(&mut self, pool: &mut NamePool) -> Vec<Interface> {
        let inputs: Vec<InputId> = self.added.inputs.iter().collect();
        let mut interfaces = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.into_iter().enumerate() {
            let interface = self.interface(index, input, pool);
            interfaces.push(interface);
        }
        interfaces
    }

    /// Notes the definitions, by names that were interned before.
    pub(crate) fn find(&mut self, pool: &NamePool) {
        for id in self.added.inputs.iter() {
            for symbol in self.graph.input(id).symbols().iter() {
                let flags = self.graph.symbol_flags(symbol);
                if flags.is_global() && flags.is_definition() {
                    let name = pool.find(self.graph.symbol_name_in(id, symbol));
                    self.definitions.extend(name.map(|name| (name, symbol)));
                }
            }
        }
    }

    fn interface(&mut self, index: usize, id: InputId, pool: &mut NamePool) -> Interface {
        let graph = &self.graph;
        let input = graph.input(id);
        let mut signatures: Map<usize, Name> = Map::default();
        for (place, comdat) in input.comdats().iter().enumerate() {
            let comdat = graph.comdat(comdat);
            if comdat.selection != Selection::All {
                let name = graph.symbol_name_in(id, comdat.signature);
                signatures.insert(place, pool.intern(name));
            }
        }
        let mut interface = Interface::default();
        let sections = self.added.objects.get(index).map(|object| &object.sections);
        for symbol in input.symbols().iter() {
            let flags = graph.symbol_flags(symbol);
            if !flags.is_global() {
                continue;
            }
            let name = pool.intern(graph.symbol_name_in(id, symbol));
            if flags.is_definition() {
                let group = (!signatures.is_empty())
                    .then(|| sections?.group_of(graph.pending_section(symbol)?))
                    .flatten();
                self.definitions.push((name, symbol));
                interface.defines.push(Define {
                    name,
                    flags,
                    group: group.and_then(|group| signatures.get(&group).copied()),
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
