//! Debug type `orc`: which definitions a session has, what is looked up, and which symbols become
//! ready when. What ORC tells of steps that clinch does not take (the walk of a look-up over
//! dylibs and generators) is not told.

use super::graph::{Block, FileGraph, Places, Symbol, View};
use crate::command::jit::observe::linked;
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{BlockId, Input, InputId, LinkGraph, SymbolFlags};
use clinch_link::layout::Layout;
use std::collections::{BTreeMap, BTreeSet};

/// The dylib of the process's own symbols.
pub(super) const PROCESS: &str = "Process";

/// Where names are looked up.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The dylib that links add to.
    pub(super) dylib: String,
    /// Whether the process's symbols are used.
    pub(super) process: bool,
}

impl Scope {
    /// A look-up of names, each with whether it may be missing.
    pub(super) fn look_up<'n>(
        &self,
        names: impl Iterator<Item = (&'n str, bool)>,
        state: &str,
    ) -> String {
        let wanted = names.map(|(name, weak)| {
            let flags = if weak {
                "WeaklyReferencedSymbol"
            } else {
                "RequiredSymbol"
            };
            format!("({name}, {flags})")
        });
        let mut order = format!("[ (\"{}\", MatchAllSymbols)", self.dylib);
        if self.process {
            order += &format!(", (\"{PROCESS}\", MatchExportedSymbolsOnly)");
        }
        let wanted = set('{', '}', wanted);
        format!("Looking up {wanted} in {order} ] (required state: {state})\n")
    }
}

/// The files of a link, from one step to the next.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<Seen>,
}

struct Seen {
    input: InputId,
    name: String,
    /// Symbols that others can name, with their flags.
    symbols: BTreeMap<String, String>,
    groups: Vec<Group>,
}

/// Symbols that become ready together, and what they wait for: names by dylib.
struct Group {
    symbols: BTreeSet<String>,
    dependencies: BTreeMap<String, BTreeSet<String>>,
}

impl Files {
    /// Before pruning.
    pub(super) fn read(
        &mut self,
        graph: &LinkGraph,
        scope: &Scope,
        name: &dyn Fn(&Input) -> String,
    ) -> String {
        let view = View::new(graph, Places::None);
        let mut text = String::new();
        for input in linked(graph) {
            let name = name(graph.input(input));
            let file = FileGraph::new(&view, input, name.clone());
            let symbols = exported(&file).map(|symbol| (symbol.name.clone(), flags(symbol)));
            let symbols: BTreeMap<String, String> = symbols.collect();
            let all = symbols
                .iter()
                .map(|(name, flags)| format!("(\"{name}\", {flags})"));
            text += &format!(
                "Defining MU {name} for {} (tracker: default)\n  {}\n",
                scope.dylib,
                set('{', '}', all)
            );
            self.files.push(Seen {
                input,
                name,
                symbols,
                groups: Vec::new(),
            });
        }
        text.push_str("Dispatching MaterializationUnits...\n");
        for file in &self.files {
            text += &format!("  Dispatching \"{}\"\n", file.name);
        }
        text.push_str("Done dispatching MaterializationUnits.\n");
        text
    }

    /// Blocks have addresses.
    pub(super) fn allocated(
        &mut self,
        graph: &LinkGraph,
        scope: &Scope,
        layout: &Layout,
    ) -> String {
        let view = View::new(graph, Places::Blocks(layout));
        let mut text = String::new();
        for file in &mut self.files {
            let now = FileGraph::new(&view, file.input, file.name.clone());
            let defined: BTreeMap<&str, &Symbol> = exported(&now)
                .map(|symbol| (symbol.name.as_str(), symbol))
                .collect();
            file.symbols
                .retain(|name, _| defined.contains_key(name.as_str()));
            let all = file.symbols.iter().filter_map(|(name, flags)| {
                let at = defined.get(name.as_str())?.address;
                Some(format!("(\"{name}\": {at:#x} {flags})"))
            });
            text += &format!("In {} resolving {}\n", scope.dylib, set('{', '}', all));
            if !now.externals.is_empty() {
                let externals = now.externals.iter().map(|symbol| {
                    let weak = symbol.flags.contains(SymbolFlags::WEAKLY_REFERENCED);
                    (symbol.name.as_str(), weak)
                });
                text += &scope.look_up(externals, "Resolved");
            }
        }
        text
    }

    /// Everything has an address: what each symbol waits for is known. `absolute` tells of names
    /// that the dylib defines without a file.
    pub(super) fn resolved(
        &mut self,
        graph: &LinkGraph,
        scope: &Scope,
        layout: &Layout,
        absolute: &dyn Fn(&str) -> bool,
    ) {
        let view = View::new(graph, Places::All(layout));
        let names = self
            .files
            .iter()
            .flat_map(|file| file.symbols.keys().cloned());
        let own: Set<String> = names.collect();
        let dylib_of = |name: &str| {
            if own.contains(name) || absolute(name) || !scope.process {
                scope.dylib.clone()
            } else {
                PROCESS.to_owned()
            }
        };
        for file in &mut self.files {
            let now = FileGraph::new(&view, file.input, file.name.clone());
            let missing = now.externals.iter().filter(|symbol| {
                symbol.address == 0 && symbol.flags.contains(SymbolFlags::WEAKLY_REFERENCED)
            });
            let missing: Set<&str> = missing.map(|symbol| symbol.name.as_str()).collect();
            file.groups = groups(&now, &|name| {
                (!missing.contains(name)).then(|| dylib_of(name))
            });
        }
    }

    /// Memory is final.
    pub(super) fn finished(&self, scope: &Scope) -> String {
        let mut text = String::new();
        for file in &self.files {
            let all = file
                .symbols
                .iter()
                .map(|(name, flags)| format!("(\"{name}\", {flags})"));
            text += &format!("In {} emitting {}\n", scope.dylib, set('{', '}', all));
            if !file.groups.is_empty() {
                text.push_str("  Initial dependencies:\n");
            }
            for group in &file.groups {
                let dependencies = group.dependencies.iter().map(|(dylib, names)| {
                    format!("({dylib}, {})", set('{', '}', names.iter().cloned()))
                });
                text += &format!(
                    "    Symbols: {}, Dependencies: {}\n",
                    set('{', '}', group.symbols.iter().cloned()),
                    set('{', '}', dependencies)
                );
            }
            text.push_str("  Simplified dependencies:\n");
            for group in simplify(&file.groups, &scope.dylib) {
                let defs = BTreeMap::from([(scope.dylib.clone(), group.symbols)]);
                text += &format!(
                    "    Defs: {{{} }}, Deps: {{{} }}\n",
                    by_dylib(&defs),
                    by_dylib(&group.dependencies)
                );
            }
        }
        text
    }
}

/// The symbols that a file defines for others.
fn exported(file: &FileGraph) -> impl Iterator<Item = &Symbol> {
    let symbols = file.blocks().flat_map(|(_, block)| &block.symbols);
    symbols.filter(|symbol| symbol.is_exported())
}

fn flags(symbol: &Symbol) -> String {
    let has = |flag| symbol.flags.contains(flag);
    let kind = if has(SymbolFlags::CALLABLE) {
        "[Callable]"
    } else {
        "[Data]"
    };
    let strength = if symbol.flags.is_common() {
        "[Common]"
    } else if has(SymbolFlags::WEAK) {
        "[Weak]"
    } else {
        ""
    };
    let is_hidden = symbol.flags.scope() == clinch_graph::Scope::Hidden;
    let hidden = if is_hidden { "[Hidden]" } else { "" };
    format!("{kind}{strength}{hidden}")
}

/// The symbols of each block with what the block refers to, itself or by blocks without such
/// symbols. `dylib_of` answers where a name is from, if anywhere.
fn groups(file: &FileGraph, dylib_of: &dyn Fn(&str) -> Option<String>) -> Vec<Group> {
    let blocks: Map<BlockId, &Block> = file
        .blocks()
        .filter_map(|(_, block)| Some((block.id?, block)))
        .collect();
    let defines = |block: &Block| -> Option<String> {
        let mut symbols = block.symbols.iter();
        symbols
            .find(|symbol| symbol.is_exported())
            .map(|symbol| symbol.name.clone())
    };
    let mut groups = Vec::new();
    for (_, block) in file.blocks() {
        let own = block.symbols.iter().filter(|symbol| symbol.is_exported());
        let symbols: BTreeSet<String> = own.map(|symbol| symbol.name.clone()).collect();
        if symbols.is_empty() {
            continue;
        }
        let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut seen: Set<BlockId> = block.id.into_iter().collect();
        let mut open = vec![block];
        while let Some(block) = open.pop() {
            for edge in &block.edges {
                let local = edge.target_block.as_ref().and_then(|(id, ..)| *id);
                let name = match local.and_then(|id| blocks.get(&id)) {
                    Some(target) => match defines(target) {
                        Some(name) => name,
                        None => {
                            open.extend(local.filter(|&id| seen.insert(id)).map(|_| *target));
                            continue;
                        }
                    },
                    // Anonymous blocks of other files are ready before anybody sees them.
                    None if edge.target_name.is_empty() => continue,
                    None => edge.target_name.clone(),
                };
                if let Some(dylib) = dylib_of(&name) {
                    dependencies.entry(dylib).or_default().insert(name);
                }
            }
        }
        groups.push(Group {
            symbols,
            dependencies,
        });
    }
    groups
}

/// The same without names of this link: what a group waits for because of another one, it waits
/// for itself. Groups that wait for the same become one.
fn simplify(groups: &[Group], dylib: &str) -> Vec<Group> {
    let mut group_of: Map<&str, usize> = Map::default();
    for (index, group) in groups.iter().enumerate() {
        group_of.extend(group.symbols.iter().map(|name| (name.as_str(), index)));
    }
    let mut simplified: Vec<Group> = Vec::new();
    let mut same: BTreeMap<BTreeMap<String, BTreeSet<String>>, usize> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut seen: Set<usize> = std::iter::once(index).collect();
        let mut open = vec![group];
        while let Some(group) = open.pop() {
            for (from, names) in &group.dependencies {
                for name in names {
                    match group_of.get(name.as_str()).filter(|_| from == dylib) {
                        Some(&other) => open.extend(seen.insert(other).then(|| &groups[other])),
                        None => {
                            let names = dependencies.entry(from.clone()).or_default();
                            names.insert(name.clone());
                        }
                    }
                }
            }
        }
        let place = *same.entry(dependencies.clone()).or_insert_with(|| {
            simplified.push(Group {
                symbols: BTreeSet::new(),
                dependencies,
            });
            simplified.len() - 1
        });
        simplified[place]
            .symbols
            .extend(group.symbols.iter().cloned());
    }
    simplified
}

fn by_dylib(names: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut text = String::new();
    for (dylib, names) in names {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        text += &format!(" ({dylib}, [ {} ])", names.join(" "));
    }
    text
}

/// A list between brackets.
fn set(open: char, close: char, items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        format!("{open} {close}")
    } else {
        format!("{open} {} {close}", items.join(", "))
    }
}
