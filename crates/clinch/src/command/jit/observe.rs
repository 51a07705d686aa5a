//! Passes that look: what is printed while linking, and what is kept for what is printed and
//! checked afterwards. A link that nobody looks at runs none of them.

use super::image::Image;
use super::inputs::Inputs;
use crate::flags::jit::JitOptions;
use clinch_graph::{InputId, LinkGraph};
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkInfo, LinkPlugin};
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
    /// How many links had stubs of lazy functions.
    n_stubs: AtomicU64,
    /// Lazy functions that were called, with their dylibs.
    called: Mutex<Vec<(String, String)>>,
}

impl Observed {
    pub(super) fn new(inputs: Inputs) -> Self {
        Self {
            inputs,
            contents: Mutex::default(),
            size_before: AtomicU64::new(0),
            n_stubs: AtomicU64::new(0),
            called: Mutex::default(),
        }
    }

    /// Lazy functions that were called, with their dylibs, in the order of their first calls.
    pub(super) fn called(&self) -> Vec<(String, String)> {
        let called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.clone()
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

/// The absolute symbols of a dylib.
pub(super) fn absolutes_of(options: &JitOptions, dylib: &str) -> Vec<(String, u64)> {
    let own = options.absolutes.iter();
    let own = own.filter(|own| options.dylibs[own.dylib] == dylib);
    own.map(|own| own.value.clone()).collect()
}

/// Looks at every link of the session.
pub(super) struct Observer {
    observed: Arc<Observed>,
    options: Arc<JitOptions>,
}

impl Observer {
    pub(super) fn new(observed: Arc<Observed>, options: Arc<JitOptions>) -> Self {
        Self { observed, options }
    }
}

impl LinkPlugin for Observer {
    fn modify_passes(&self, _link: &LinkInfo, _graph: &LinkGraph, passes: &mut Passes) {
        install(&self.observed, &self.options, passes);
    }

    fn notify_called(&self, dylib: &str, function: &str) {
        let called = &self.observed.called;
        let mut called = called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push((dylib.to_owned(), function.to_owned()));
    }
}

/// Installs the passes that the options want.
fn install(observed: &Arc<Observed>, options: &JitOptions, passes: &mut Passes) {
    let show = &options.show;
    if show.linked_files {
        let seen = Arc::clone(observed);
        passes.pre_prune.push((
            "show-linked-files".to_owned(),
            Box::new(move |graph| {
                for input in linked(graph) {
                    println!("Linking {}", seen.inputs.name_of(graph.input(input)));
                }
                // The stubs of lazy functions, which are graphs of their own with the peer.
                let mut names = graph.sections().map(|section| graph.section_name(section));
                if names.any(|name| name == b"$__STUB_PTRS") {
                    let number = seen.n_stubs.fetch_add(1, Ordering::Relaxed) + 1;
                    println!("Linking <indirect stubs graph #{number}>");
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
                seen.size_before.fetch_add(size, Ordering::Relaxed);
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
}
