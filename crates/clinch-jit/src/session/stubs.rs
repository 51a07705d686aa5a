//! Stubs whose target can be changed while code runs, and stubs of functions that are linked when
//! they are called first.
//!
//! A stub jumps through a word. Calls of a redirectable function go through its stub, so that
//! writing the word moves all callers over at once. The word of a lazy function leads to a
//! trampoline at first, which asks the session to link the function.

use super::core::Core;
use super::pool::Name;
use super::state::{DylibId, LinkId, Match, SymbolState};
use crate::context::lock;
use crate::error::LinkError;
use crate::runtime::reenter::{self, Resolve};
use clinch_graph::index::map::Map;
use clinch_graph::{
    Edge, GraphError, LinkGraph, NewBlock, NewContent, NewSection, NewSymbol, Prot, Scope,
    SectionFlags, SectionId, SectionKind, SymbolFlags, SymbolId,
};
use clinch_link::tables::instantiate;
use clinch_target::{Arch, Reentry};
use std::sync::{Arc, Mutex, Weak};

/// Stubs to be made.
#[derive(Clone, Debug)]
pub(crate) struct StubSet {
    pub(crate) stubs: Vec<Stub>,
}

impl StubSet {
    /// Whether functions are to be linked when they are called.
    pub(crate) fn is_lazy(&self) -> bool {
        let mut stubs = self.stubs.iter();
        stubs.any(|stub| matches!(stub.leads, Leads::Lazily(..)))
    }
}

/// A stub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stub {
    pub(crate) name: Name,
    pub(crate) flags: SymbolFlags,
    pub(crate) leads: Leads,
}

/// Where a stub leads at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leads {
    /// To an address.
    To(u64),
    /// To the function of this name in a dylib, when it is called.
    Lazily(DylibId, Name),
}

/// Stubs as they are in a graph.
#[derive(Debug, Default)]
pub(crate) struct MadeStubs {
    pub(crate) symbols: Vec<(Name, SymbolId)>,
    /// The words that stubs jump through.
    pub(crate) words: Vec<(Name, SymbolId)>,
    /// Trampolines with the function that each stands for, and the word to be changed.
    trampolines: Vec<(SymbolId, SymbolId, DylibId, Name)>,
}

/// Trampolines of a session, by the address that they ask with.
#[derive(Debug, Default)]
pub(crate) struct Trampolines {
    known: Mutex<Map<u64, Waiting>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    dylib: DylibId,
    name: Name,
    word: u64,
    trampoline: u64,
    link: LinkId,
}

/// Adds stubs to a graph.
///
/// # Errors
/// The architecture has no reentry, or this machine cannot run it.
pub(crate) fn make(
    graph: &mut LinkGraph,
    arch: &Arch,
    set: &StubSet,
    context: (u64, u64),
    text: impl Fn(Name) -> Vec<u8>,
) -> Result<MadeStubs, LinkError> {
    let code = graph.add_section(
        b"$__STUBS",
        NewSection {
            kind: SectionKind::Stubs,
            ..NewSection::new(Prot::RX)
        },
    );
    let data = graph.add_section(b"$__STUB_PTRS", NewSection::new(Prot::RW));
    let mut made = MadeStubs::default();
    let mut enter = None;
    for stub in &set.stubs {
        let (word, trampoline) = match stub.leads {
            Leads::To(address) => (word(graph, arch, data, address)?, None),
            Leads::Lazily(dylib, name) => {
                let reentry = arch.stubs.reentry.ok_or(LinkError::NoReentry)?;
                let enter = match enter {
                    Some(enter) => enter,
                    None => *enter.insert(make_enter(graph, arch, reentry, code, context)?),
                };
                let block = instantiate(graph, code, &reentry.trampoline, &[enter])?;
                let trampoline = local(graph, block, true)?;
                let word = word(graph, arch, data, 0)?;
                let block = graph.symbol_block(word).ok_or(LinkError::NoReentry)?;
                let edge = Edge {
                    offset: 0,
                    kind: arch.pointer,
                    target: trampoline,
                    addend: 0,
                };
                graph.set_edges(block, vec![edge])?;
                (word, Some((trampoline, word, dylib, name)))
            }
        };
        let block = instantiate(graph, code, &arch.stubs.jump, &[word])?;
        let symbol = graph.add_symbol(NewSymbol {
            name: &text(stub.name),
            base: clinch_graph::Addressable::Block { block, offset: 0 },
            size: graph.block_size(block),
            flags: stub.flags.difference(SymbolFlags::IFUNC) | SymbolFlags::CALLABLE,
        })?;
        made.symbols.push((stub.name, symbol));
        made.words.push((stub.name, word));
        made.trampolines.extend(trampoline);
    }
    Ok(made)
}

/// The code that trampolines call, with the words that it reads.
fn make_enter(
    graph: &mut LinkGraph,
    arch: &Arch,
    reentry: &Reentry,
    code: SectionId,
    (context, function): (u64, u64),
) -> Result<SymbolId, LinkError> {
    let size = (reentry.state_size)().ok_or(LinkError::NoReentry)?;
    let constants = graph.add_section(
        b"$__REENTRY",
        NewSection {
            flags: SectionFlags::RELRO,
            ..NewSection::new(Prot::RW)
        },
    );
    let size = word(graph, arch, constants, size)?;
    let context = word(graph, arch, constants, context)?;
    let function = word(graph, arch, constants, function)?;
    let block = instantiate(graph, code, &reentry.enter, &[size, context, function])?;
    Ok(local(graph, block, true)?)
}

/// A pointer-sized block with a value.
fn word(
    graph: &mut LinkGraph,
    arch: &Arch,
    section: SectionId,
    value: u64,
) -> Result<SymbolId, GraphError> {
    let size = usize::from(arch.graph.pointer_size);
    let bytes = match arch.graph.endian {
        clinch_graph::Endian::Little => value.to_le_bytes()[..size].to_vec(),
        clinch_graph::Endian::Big => value.to_be_bytes()[8 - size..].to_vec(),
    };
    let block = graph.add_block(NewBlock {
        section,
        content: NewContent::Owned(bytes),
        align: u64::from(arch.graph.pointer_size),
        align_offset: 0,
    })?;
    local(graph, block, false)
}

fn local(
    graph: &mut LinkGraph,
    block: clinch_graph::BlockId,
    callable: bool,
) -> Result<SymbolId, GraphError> {
    let mut flags = SymbolFlags::empty().with_scope(Scope::Local);
    flags.set(SymbolFlags::CALLABLE, callable);
    graph.add_symbol(NewSymbol {
        name: b"",
        base: clinch_graph::Addressable::Block { block, offset: 0 },
        size: graph.block_size(block),
        flags,
    })
}

impl MadeStubs {
    /// What must be in memory.
    pub(crate) fn roots(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.symbols.iter().map(|&(_, symbol)| symbol)
    }

    /// Notes where trampolines are.
    pub(crate) fn place(
        &self,
        trampolines: &Trampolines,
        arch: &Arch,
        link: LinkId,
        address: impl Fn(SymbolId) -> u64,
    ) {
        let Some(reentry) = arch.stubs.reentry else {
            return;
        };
        let mut known = lock(&trampolines.known);
        for &(trampoline, word, dylib, name) in &self.trampolines {
            let waiting = Waiting {
                dylib,
                name,
                word: address(word),
                trampoline: address(trampoline),
                link,
            };
            known.insert(address(trampoline) + reentry.return_offset, waiting);
        }
    }
}

impl Trampolines {
    /// Forgets the trampolines of a link whose memory goes.
    pub(crate) fn forget(&self, link: LinkId) {
        lock(&self.known).retain(|_, waiting| waiting.link != link);
    }
}

/// Who links functions that are called first.
pub(crate) struct LazyLinker {
    pub(crate) core: Weak<Core>,
}

impl Resolve for LazyLinker {
    fn resolve(&self, trampoline: u64) -> u64 {
        let Some(core) = self.core.upgrade() else {
            give_up("a function", "its session ended");
        };
        let waiting = lock(&core.trampolines.known).get(&trampoline).copied();
        let Some(waiting) = waiting else {
            give_up("a function", "its stub was removed");
        };
        let name = core.read().pool.display(waiting.name);
        match link(&core, waiting, &name) {
            Ok(function) => {
                let dylib = core.read().owner_of_bodies(waiting.dylib);
                core.each_plugin(|plugin| plugin.notify_called(&dylib, &name));
                // SAFETY: the word of a stub that the session made, in memory that lives as long
                // as the stub, which is being called.
                unsafe { reenter::lead(waiting.word, waiting.trampoline, function) }
            }
            Err(why) => give_up(&name, &why),
        }
    }
}

fn link(core: &Arc<Core>, waiting: Waiting, name: &str) -> Result<u64, String> {
    let session = super::Session::of(Arc::clone(core));
    let order = [(waiting.dylib, Match::All)];
    let found = session
        .look_up_some(&order, &[(name, false)], SymbolState::Ready)
        .map_err(|error| error.to_string())?;
    let initializers = core.take_initializers(waiting.dylib);
    // SAFETY: a function of the code is being called, so its initializers may run; the arrays are
    // in finalized memory.
    unsafe { core.perform(initializers) }.map_err(|error| error.to_string())?;
    found
        .first()
        .copied()
        .flatten()
        .ok_or_else(|| "it has no address".to_owned())
}

/// Ends the process: a function was called that cannot be linked, and the call has no other way
/// to end.
fn give_up(name: &str, why: &str) -> ! {
    use std::io::Write;
    let text = format!("clinch: {name} was called and cannot be linked: {why}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
    std::process::abort()
}
