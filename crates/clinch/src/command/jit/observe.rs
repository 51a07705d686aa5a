//! Passes that look: what is printed while linking, and what is kept for what is printed and
//! checked afterwards. A link that nobody looks at runs none of them.

use super::image::Image;
use super::inputs::Inputs;
use super::{objects, show};
use crate::flags::jit::JitOptions;
use clinch_graph::index::map::Map;
use clinch_graph::{Addressable, InputId, LinkGraph, SymbolId};
use clinch_jit::passes::Passes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What was seen while linking.
pub(super) struct Observed {
    /// The inputs, for their names.
    pub(super) inputs: Inputs,
    /// The linked contents: each segment's address and bytes.
    contents: Mutex<Vec<(u64, Vec<u8>)>>,
    /// The size of all blocks before pruning.
    pub(super) size_before: AtomicU64,
}

impl Observed {
    pub(super) fn new(inputs: Inputs) -> Self {
        Self {
            inputs,
            contents: Mutex::default(),
            size_before: AtomicU64::new(0),
        }
    }

    /// Fills `bytes` with what was linked to lie at an address; answers whether all of it was.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let part = self.read_up_to(address, bytes.len());
        let is_whole = part.len() == bytes.len();
        if is_whole {
            bytes.copy_from_slice(&part);
        }
        is_whole
    }

    /// As many bytes as there are at an address, up to `limit`.
    pub(super) fn read_up_to(&self, address: u64, limit: usize) -> Vec<u8> {
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let before = contents.iter().filter(|(base, _)| *base <= address);
        let part = before
            .max_by_key(|(base, _)| *base)
            .and_then(|(base, content)| {
                let offset = usize::try_from(address - base).ok()?;
                let rest = content.get(offset..)?;
                Some(rest.get(..limit).unwrap_or(rest).to_vec())
            });
        part.unwrap_or_default()
    }
}

/// The inputs that take part in a link: those with blocks.
pub(super) fn linked(graph: &LinkGraph) -> impl Iterator<Item = InputId> + '_ {
    let inputs = graph.inputs().skip(1);
    inputs.filter_map(|(id, input)| (!input.blocks().is_empty()).then_some(id))
}

/// The passes that the options want.
pub(super) fn passes(observed: &Arc<Observed>, options: &JitOptions) -> Passes {
    let mut passes = Passes::default();
    let seen = Arc::clone(observed);
    passes.pre_prune.push((
        "duplicates".to_owned(),
        Box::new(move |graph| duplicates(graph, &seen)),
    ));
    if !options.aliases.is_empty() {
        let aliases = options.aliases.clone();
        passes.pre_prune.push((
            "aliases".to_owned(),
            Box::new(move |graph| define_aliases(graph, &aliases)),
        ));
    }
    let show = &options.show;
    if show.initial_symbols {
        let (seen, process) = (Arc::clone(observed), options.process_symbols);
        let absolutes = options.absolutes.clone();
        passes.pre_prune.push((
            "show-init-es".to_owned(),
            Box::new(move |graph| {
                let symbols = show::symbols(graph, &seen, &absolutes, &|_, _| None);
                show::session(process, &symbols);
                Ok(())
            }),
        ));
    }
    if show.linked_files {
        let seen = Arc::clone(observed);
        passes.pre_prune.push((
            "show-linked-files".to_owned(),
            Box::new(move |graph| {
                for input in linked(graph) {
                    println!("Linking {}", seen.inputs.name_of(graph.input(input)));
                }
                Ok(())
            }),
        ));
    }
    if show.size_before {
        let seen = Arc::clone(observed);
        passes.pre_prune.push((
            "pre-prune-total-block-size".to_owned(),
            Box::new(move |graph| {
                let size = graph.blocks().map(|block| graph.block_size(block)).sum();
                seen.size_before.store(size, Ordering::Relaxed);
                Ok(())
            }),
        ));
    }
    if Image::is_wanted(options) {
        let seen = Arc::clone(observed);
        passes.post_fixup.push((
            "keep contents".to_owned(),
            Box::new(move |_, _, base, bytes| {
                // Rules read whole words at the end of a segment: the rest of a page is zero.
                const PAGE: usize = 4096;
                let mut content = bytes.to_vec();
                content.resize(bytes.len().next_multiple_of(PAGE), 0);
                let mut contents = seen.contents.lock().unwrap_or_else(PoisonError::into_inner);
                contents.push((base, content));
                Ok(())
            }),
        ));
    }
    passes
}

/// Objects that nothing needs are not linked, but a second definition of a name is a mistake all
/// the same. (Members of archives may define what an object defines.)
fn duplicates(graph: &LinkGraph, observed: &Observed) -> Result<(), String> {
    let is_object = |input: &clinch_graph::Input| input.name.member.is_none();
    let mut idle = graph.inputs().skip(1);
    // Among objects that take part, the resolution has told them.
    if !idle.any(|(_, input)| is_object(input) && input.blocks().is_empty()) {
        return Ok(());
    }
    let mut first: Map<&[u8], InputId> = Map::default();
    for (id, input) in graph.inputs().skip(1).filter(|(_, input)| is_object(input)) {
        // The reader, which ran before, has refused what cannot be read.
        for entry in objects::symbols(input.bytes()).unwrap_or_default() {
            if !entry.is_global_definition() || entry.is_weak() || entry.is_common() {
                continue;
            }
            if first
                .insert(entry.name, id)
                .is_some_and(|other| other != id)
            {
                return Err(format!(
                    "In {}, duplicate definition of symbol '{}'",
                    observed.inputs.name_of(input),
                    String::from_utf8_lossy(entry.name)
                ));
            }
        }
    }
    Ok(())
}

/// Makes references to an alias references to what it stands for, where a linked object defines
/// that; elsewhere the alias has the address that it was given before.
fn define_aliases(graph: &mut LinkGraph, aliases: &[(String, String)]) -> Result<(), String> {
    for (name, other) in aliases {
        let named = |graph: &LinkGraph, name: &str| -> Vec<SymbolId> {
            let symbols = graph.symbols();
            symbols
                .filter(|&symbol| {
                    graph.symbol_flags(symbol).is_global()
                        && graph.symbol_name(symbol) == name.as_bytes()
                })
                .collect()
        };
        let definition =
            named(graph, other)
                .into_iter()
                .find_map(|symbol| match graph.addressable(symbol) {
                    Addressable::Block { block, offset } => {
                        Some((block, offset, graph.symbol_size(symbol)))
                    }
                    _ => None,
                });
        let Some((block, offset, size)) = definition else {
            continue;
        };
        for symbol in named(graph, name) {
            if graph.symbol_flags(symbol).is_external() {
                graph
                    .make_defined(symbol, block, offset, size)
                    .map_err(|why| why.to_string())?;
            }
        }
    }
    Ok(())
}
