//! Resolution: which COMDAT groups stay, and which definition of each name prevails.
//!
//! Reads: the graph and its names. [`choose_comdats`] runs when all inputs' symbols are known
//! and their sections are not yet read; [`resolve`] when they are. Both walk in id order, so the
//! first in the order of inputs prevails. The rules are those of static linkers: a strong
//! definition beats a common symbol, which beats a weak definition; of several common symbols the
//! size is the largest and the alignment the strictest; a group stays or goes as a whole. Parallel:
//! over runs of symbols, once each name has its holder.

use crate::place::Place;
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, Column, ComdatId, Id, IdRange, IdSet, InputId, LinkGraph, Scope, Selection,
    SymbolFlags, SymbolId, Workers,
};
use clinch_graph::{NameId, Names};
use thiserror::Error;

/// The prevailing definition of each name.
#[derive(Debug)]
pub struct Resolution {
    /// Per name: its prevailing definition, or else a symbol that stands for all references.
    by_name: Column<NameId, Option<SymbolId>>,
    /// Per symbol of the graph when it was resolved: the symbol that prevails.
    prevailing: Column<SymbolId, SymbolId>,
    /// The names that something refers to and nothing defines, in the order of first reference.
    undefined: Vec<NameId>,
}

/// Two strong definitions of one name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("duplicate symbol: {name}\n>>> defined at {first}\n>>> defined at {second}")]
pub struct Duplicate {
    /// The name, mangled.
    pub name: String,
    /// The definition that came first.
    pub first: Place,
    /// The other.
    pub second: Place,
}

impl Resolution {
    /// The symbol that an edge to `symbol` means: the prevailing definition of its name, itself
    /// when it is local, or the one external symbol that stands for all of its name.
    #[inline]
    pub fn prevailing(&self, symbol: SymbolId) -> SymbolId {
        self.prevailing.get(symbol).copied().unwrap_or(symbol)
    }

    /// The prevailing definition of a name, or the external symbol that stands for it.
    pub fn of_name(&self, name: NameId) -> Option<SymbolId> {
        self.by_name.get(name).copied().flatten()
    }

    /// The names that nothing defines, in the order of first reference.
    pub fn undefined(&self) -> &[NameId] {
        &self.undefined
    }
}

/// Chooses the groups that stay: of those with one signature, the first. The caller has read
/// symbols but not yet sections.
pub fn choose_comdats(
    graph: &LinkGraph,
    names: &Names,
    takes_part: impl Fn(InputId) -> bool,
) -> IdSet<ComdatId> {
    let mut chosen = IdSet::with_len(graph.comdats().len());
    let mut by_name: Column<NameId, bool> = names.column(false);
    let mut by_local: Map<&[u8], ComdatId> = Map::default();
    for id in graph.comdats().iter() {
        let comdat = graph.comdat(id);
        if !takes_part(comdat.input) {
            continue;
        }
        let first = match names.of(comdat.signature) {
            _ if comdat.selection == Selection::All => true,
            Some(name) => !std::mem::replace(&mut by_name[name], true),
            // Some assemblers sign with a local symbol: the name counts all the same.
            None => {
                let name = graph.symbol_name_in(comdat.input, comdat.signature);
                let known = names.find(graph, name).is_some_and(|name| by_name[name]);
                name.is_empty() || (!known && *by_local.entry(name).or_insert(id) == id)
            }
        };
        if first {
            chosen.insert(id);
        }
    }
    chosen
}

/// How strongly a symbol claims its name; more beats less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    WeakReference,
    Reference,
    Weak,
    Common,
    Strong,
}

fn claim(flags: SymbolFlags) -> Option<Claim> {
    Some(match flags {
        _ if flags.is_common() => Claim::Common,
        _ if flags.is_definition() && flags.contains(SymbolFlags::WEAK) => Claim::Weak,
        _ if flags.is_definition() => Claim::Strong,
        _ if flags.is_external() && flags.contains(SymbolFlags::WEAKLY_REFERENCED) => {
            Claim::WeakReference
        }
        // A name defined in a group that did not prevail refers to the one that did.
        _ if !flags.is_null() => Claim::Reference,
        _ => return None,
    })
}

/// Finds the prevailing definition of every name. Tentative definitions are joined: the one that
/// prevails gets the largest size and strictest alignment; visibility becomes the most
/// constraining of all symbols of the name.
///
/// # Errors
/// All names with two strong definitions, in the order of the second.
pub fn resolve(
    graph: &mut LinkGraph,
    names: &Names,
    takes_part: impl Fn(InputId) -> bool,
    workers: &Workers,
) -> Result<Resolution, Vec<Duplicate>> {
    let mut by_name: Column<NameId, Option<SymbolId>> = names.column(None);
    let mut claims: Column<NameId, Claim> = names.column(Claim::WeakReference);
    let mut scopes: Column<NameId, Scope> = names.column(Scope::Default);
    let mut undefined = Vec::new();
    let mut duplicates = Vec::new();
    let mut commons: Vec<(SymbolId, u64, u64)> = Vec::new();
    let inputs = IdRange::<InputId>::new(1, graph.n_inputs());
    let symbols = inputs.iter().filter(|&input| takes_part(input));
    for symbol in symbols.flat_map(|input| graph.input(input).symbols().iter()) {
        let flags = graph.symbol_flags(symbol);
        let Some(name) = names.of(symbol) else {
            continue;
        };
        let Some(claim) = claim(flags) else { continue };
        scopes[name] = scopes[name].max(flags.scope());
        let Some(holder) = by_name[name] else {
            (by_name[name], claims[name]) = (Some(symbol), claim);
            if claim <= Claim::Reference {
                undefined.push(name);
            }
            continue;
        };
        match (claims[name], claim) {
            (Claim::Strong, Claim::Strong) if is_same_value(graph, holder, symbol) => {}
            (Claim::Strong, Claim::Strong) => duplicates.push((holder, symbol)),
            (Claim::Common, Claim::Common) => {
                if let Addressable::Common { align } = graph.addressable(symbol) {
                    commons.push((holder, graph.symbol_size(symbol), align));
                }
            }
            (old, new) if new > old => (by_name[name], claims[name]) = (Some(symbol), claim),
            _ => {}
        }
    }
    if !duplicates.is_empty() {
        return Err(duplicates
            .into_iter()
            .map(|(first, second)| Duplicate {
                name: String::from_utf8_lossy(graph.symbol_name(first)).into_owned(),
                first: definition_place(graph, first),
                second: definition_place(graph, second),
            })
            .collect());
    }
    undefined.retain(|&name| claims[name] <= Claim::Reference);
    // What only a group defines that did not prevail is to be found elsewhere.
    for &name in &undefined {
        if let Some(symbol) = by_name[name]
            && !graph.symbol_flags(symbol).is_external()
        {
            // Cannot fail: the symbol exists and has a name.
            let _ = graph.make_external(symbol);
        }
    }

    for (holder, size, align) in commons {
        join_common(graph, holder, size, align);
    }
    for name in names.ids() {
        if let Some(symbol) = by_name[name]
            && scopes[name] > graph.symbol_flags(symbol).scope()
            && claims[name] > Claim::Reference
        {
            // Cannot fail: a global symbol of a constrained scope has a name.
            let _ = graph.set_symbol_scope(symbol, scopes[name]);
        }
    }

    /// Of a symbol, its name, who has that, and the answer.
    const BYTES_PER_SYMBOL: usize = 32;
    let cost = graph.n_symbols() * BYTES_PER_SYMBOL;
    let mut prevailing = Vec::new();
    workers.extend(&mut prevailing, graph.n_symbols(), SymbolId::from_index(0));
    workers.each_run(cost, &mut prevailing, |run, mine| {
        for (symbol, to) in run.map(SymbolId::from_index).zip(mine) {
            let holder = names.of(symbol).and_then(|name| by_name[name]);
            *to = holder.unwrap_or(symbol);
        }
    });
    Ok(Resolution {
        by_name,
        prevailing: prevailing.into(),
        undefined,
    })
}

/// Whether two definitions are one absolute value, which linkers take for no clash.
fn is_same_value(graph: &LinkGraph, first: SymbolId, second: SymbolId) -> bool {
    match (graph.addressable(first), graph.addressable(second)) {
        (Addressable::Absolute(first), Addressable::Absolute(second)) => first == second,
        _ => false,
    }
}

/// Where a symbol is defined, for messages.
pub fn definition_place(graph: &LinkGraph, symbol: SymbolId) -> Place {
    match graph.addressable(symbol) {
        Addressable::Block { block, offset } => Place::of(graph, block, offset),
        base => Place {
            input: graph.input(graph.symbol_input(symbol)).name.to_string(),
            section: match base {
                Addressable::Absolute(_) => "*ABS*".to_owned(),
                Addressable::Common { .. } => "*COM*".to_owned(),
                _ => "*UND*".to_owned(),
            },
            offset: 0,
            function: None,
        },
    }
}

fn join_common(graph: &mut LinkGraph, holder: SymbolId, size: u64, align: u64) {
    if let Addressable::Common { align: old } = graph.addressable(holder) {
        let size = size.max(graph.symbol_size(holder));
        graph.set_common(holder, size, align.max(old));
    }
}
