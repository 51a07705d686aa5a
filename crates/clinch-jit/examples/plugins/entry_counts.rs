//! Counts how often each function is entered: every function gets a piece of code before it that
//! adds one to a counter of its own and goes on to the function. Who calls the function calls
//! that; its registers and its stack are as they were.

use clinch_graph::{
    Addressable, Edge, GraphError, LinkGraph, NewBlock, NewContent, NewSection, NewSymbol, Prot,
    Scope, SymbolFlags, SymbolId,
};
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkInfo, LinkPlugin};
use clinch_link::layout::Layout;
use clinch_target::x86_64::kind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The plugin.
#[derive(Default)]
pub(crate) struct EntryCounts {
    /// Names of functions with the addresses of their counters.
    counters: Arc<Mutex<Vec<(String, u64)>>>,
}

impl EntryCounts {
    /// How often each function was entered so far.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |(name, address): &(String, u64)| {
            let address = usize::try_from(*address).unwrap_or(0);
            // SAFETY: a counter that this plugin made, in memory of a link that is not removed
            // while the plugin is asked.
            let counter =
                unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address)) };
            (name.clone(), counter.load(Ordering::Relaxed))
        };
        counters.iter().map(count).collect()
    }
}

impl LinkPlugin for EntryCounts {
    fn modify_passes(&self, _: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        let made: Arc<Mutex<Vec<(String, SymbolId)>>> = Arc::default();
        let done = Arc::clone(&made);
        let instrument = move |graph: &mut LinkGraph| {
            let counters = instrument(graph).map_err(|error| error.to_string())?;
            *done.lock().unwrap_or_else(PoisonError::into_inner) = counters;
            Ok(())
        };
        passes
            .post_prune
            .push(("count entries".to_owned(), Box::new(instrument)));
        let counters = Arc::clone(&self.counters);
        let place = move |_: &mut LinkGraph, layout: &Layout| {
            let made = made.lock().unwrap_or_else(PoisonError::into_inner);
            let placed = made
                .iter()
                .map(|(name, symbol)| (name.clone(), layout.symbol(*symbol)));
            counters
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(placed);
            Ok(())
        };
        passes
            .pre_fixup
            .push(("place counters".to_owned(), Box::new(place)));
    }
}

/// Puts a counter before every function; answers the counters' symbols.
fn instrument(graph: &mut LinkGraph) -> Result<Vec<(String, SymbolId)>, GraphError> {
    // lock incq counter(%rip); jmp function. The processor reads the operand of the first
    // instruction relative to its end, as the edge kinds count.
    const CODE: [u8; 13] = [0xf0, 0x48, 0xff, 0x05, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
    let code = graph.add_section(b".text.entry_counts", NewSection::new(Prot::RX));
    let data = graph.add_section(b".data.entry_counts", NewSection::new(Prot::RW));
    let functions: Vec<SymbolId> = graph
        .symbols()
        .filter(|&symbol| {
            let flags = graph.symbol_flags(symbol);
            let is_function = flags.contains(SymbolFlags::CALLABLE) && flags.is_global();
            is_function
                && !flags.contains(SymbolFlags::IFUNC)
                && graph.symbol_block(symbol).is_some()
        })
        .collect();
    let local = SymbolFlags::empty().with_scope(Scope::Local);
    let mut counters = Vec::with_capacity(functions.len());
    for function in functions {
        let real = graph.add_symbol(NewSymbol {
            name: b"",
            base: graph.addressable(function),
            size: graph.symbol_size(function),
            flags: local | SymbolFlags::CALLABLE,
        })?;
        let word = graph.add_block(NewBlock {
            section: data,
            content: NewContent::Owned(vec![0; 8]),
            align: 8,
            align_offset: 0,
        })?;
        let counter = graph.add_symbol(NewSymbol {
            name: b"",
            base: Addressable::Block {
                block: word,
                offset: 0,
            },
            size: 8,
            flags: local | SymbolFlags::OBJECT,
        })?;
        let entry = graph.add_block(NewBlock {
            section: code,
            content: NewContent::Owned(CODE.to_vec()),
            align: 16,
            align_offset: 0,
        })?;
        let edge = |offset, kind, target| Edge {
            offset,
            kind,
            target,
            addend: 0,
        };
        let edges = vec![
            edge(4, kind::PCREL32, counter),
            edge(9, kind::BRANCH_PCREL32, real),
        ];
        graph.set_edges(entry, edges)?;
        graph.transfer_symbol(function, entry, 0, Some(13))?;
        let name = String::from_utf8_lossy(graph.symbol_name(function)).into_owned();
        counters.push((name, counter));
    }
    Ok(counters)
}
