//! Which inputs take part in a link: from the objects that are wanted, over the names they leave
//! undefined, to the objects and archive members that define them. A list of work, no recursion:
//! a chain of a million objects costs no stack.

use crate::dylib::{Inputs, Search};
use crate::error::{LinkError, LinkErrors};
use bytes::Bytes;
use clinch_graph::{
    Column, Id, IdRange, IdSet, InputId, InputName, LinkGraph, NameId, Names, SymbolFlags,
    SymbolId, Workers,
};
use clinch_link::{Resolution, resolve};
use clinch_object::{ReadOptions, add_blocks, add_objects};

/// A graph with everything that takes part, read and resolved.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) graph: LinkGraph,
    pub(crate) names: Names,
    pub(crate) resolution: Resolution,
    /// Global definitions of the inputs that take part.
    pub(crate) roots: Vec<SymbolId>,
    /// The objects that take part, by their number among the dylib's.
    pub(crate) objects: Vec<usize>,
}

/// Reads the dylib's objects and finds what takes part. With `all`, every object does; else those
/// that define one of `wanted`, directly or by what they need.
pub(crate) fn close(
    mut graph: LinkGraph,
    workers: &Workers,
    inputs: &Inputs,
    search: &mut Search<'_>,
    wanted: &[&[u8]],
    all: bool,
) -> Result<Closed, LinkErrors> {
    let objects: Vec<(InputName, Bytes)> = inputs.pending().map(|(_, object)| object).collect();
    let numbers: Vec<usize> = inputs.pending().map(|(number, _)| number).collect();
    let n_objects = objects.len();
    let mut names = Names::new();
    let added = add_objects(&mut graph, &mut names, workers, objects, OPTIONS)?;
    let mut closure = Closure {
        names,
        definer: Column::new(),
        asked: IdSet::default(),
        active: IdSet::default(),
        work: Vec::new(),
        next: Vec::new(),
    };
    closure.take_in(&graph, added.inputs);
    let mut read = added.objects;

    if all {
        added
            .inputs
            .iter()
            .for_each(|input| closure.activate(input));
    }
    let wanted: Vec<NameId> = wanted
        .iter()
        .map(|name| closure.names.intern(&graph, name))
        .collect();
    for &name in &wanted {
        closure.want(&graph, search, name, true, false)?;
    }
    loop {
        while let Some(input) = closure.work.pop() {
            for symbol in graph.input(input).symbols().iter() {
                let flags = graph.symbol_flags(symbol);
                if flags.is_external()
                    && let Some(name) = closure.names.of(symbol)
                {
                    let strong = !flags.contains(SymbolFlags::WEAKLY_REFERENCED);
                    let is_tls = flags.contains(SymbolFlags::TLS);
                    closure.want(&graph, search, name, strong, is_tls)?;
                }
            }
        }
        if closure.next.is_empty() {
            break;
        }
        // Members in the order of archives and in them, whoever asked first.
        closure.next.sort_by_key(|member| member.order);
        let members = std::mem::take(&mut closure.next);
        let objects = members
            .into_iter()
            .map(|member| (member.name, member.bytes))
            .collect();
        let added = add_objects(&mut graph, &mut closure.names, workers, objects, OPTIONS)?;
        closure.take_in(&graph, added.inputs);
        read.extend(added.objects);
        added
            .inputs
            .iter()
            .for_each(|input| closure.activate(input));
    }

    let active = |input: InputId| closure.active.contains(input);
    let chosen = resolve::choose_comdats(&graph, &closure.names, active);
    let range = IdRange::new(1, graph.n_inputs());
    let keep = |comdat| chosen.contains(comdat);
    add_blocks(&mut graph, workers, range, read, active, keep)?;
    let resolution = resolve::resolve(&mut graph, &closure.names, active)?;

    let mut roots: Vec<SymbolId> = range
        .iter()
        .filter(|&input| active(input))
        .flat_map(|input| graph.input(input).symbols().iter())
        .filter(|&symbol| {
            let flags = graph.symbol_flags(symbol);
            flags.is_definition() && flags.is_global()
        })
        .collect();
    for name in wanted {
        if let Some(symbol) = resolution.of_name(name) {
            roots.push(symbol);
        }
    }
    let taken = (0..n_objects)
        .filter(|&index| active(InputId::from_index(index + 1)))
        .map(|index| numbers[index])
        .collect();
    Ok(Closed {
        graph,
        names: closure.names,
        resolution,
        roots,
        objects: taken,
    })
}

/// Debug information is not linked.
const OPTIONS: ReadOptions = ReadOptions { metadata: false };

struct Closure {
    names: Names,
    /// Which input defines a name: the first with a strong definition, or else the first.
    definer: Column<NameId, Option<(InputId, bool)>>,
    /// Names that were looked for.
    asked: IdSet<NameId>,
    active: IdSet<InputId>,
    /// Active inputs whose undefined names are still to be looked at.
    work: Vec<InputId>,
    /// Members to read next.
    next: Vec<Member>,
}

/// An archive member to be read.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) order: (usize, u64),
    pub(crate) name: InputName,
    pub(crate) bytes: Bytes,
}

impl Closure {
    /// Notes what new inputs define.
    fn take_in(&mut self, graph: &LinkGraph, inputs: IdRange<InputId>) {
        self.definer.grow(self.names.bound(), None);
        for input in inputs.iter() {
            for symbol in graph.input(input).symbols().iter() {
                let flags = graph.symbol_flags(symbol);
                if !flags.is_definition() {
                    continue;
                }
                let Some(name) = self.names.of(symbol) else {
                    continue;
                };
                let strong = !flags.contains(SymbolFlags::WEAK) && !flags.is_common();
                let slot = &mut self.definer[name];
                if slot.is_none_or(|(_, other)| strong && !other) {
                    *slot = Some((input, strong));
                }
            }
        }
    }

    fn activate(&mut self, input: InputId) {
        if self.active.insert(input) {
            self.work.push(input);
        }
    }

    /// Makes what defines a name take part. Members are only taken out for strong references.
    fn want(
        &mut self,
        graph: &LinkGraph,
        search: &mut Search<'_>,
        name: NameId,
        strong: bool,
        is_tls: bool,
    ) -> Result<(), LinkError> {
        self.definer.grow(self.names.bound(), None);
        if let Some((input, _)) = self.definer[name] {
            self.activate(input);
            return Ok(());
        }
        if !strong || !self.asked.insert(name) {
            return Ok(());
        }
        self.next
            .extend(search.member(self.names.name(graph, name), is_tls)?);
        Ok(())
    }
}
