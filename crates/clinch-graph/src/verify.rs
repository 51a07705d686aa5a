//! The verifier: every rule a sound graph follows, and the check of each. It trusts nothing: not
//! the readers, not the passes, not itself to find only one violation.
//!
//! | rule | says |
//! |---|---|
//! | `input-tables` | an input's name tables lie inside its bytes, and its ids were given out |
//! | `name` | a name's offset lies inside the table that holds it |
//! | `section-comdat` | a section's group exists |
//! | `comdat` | a group's signature and input exist |
//! | `block-section` | a block's section exists |
//! | `block-input` | a block's input exists |
//! | `content` | a block's content lies inside its input, or is the graph's own and has its size |
//! | `align` | an alignment is a power of two above the alignment offset |
//! | `edges-decode` | a block's edges can be decoded |
//! | `edge-kind` | an edge's kind is one of the architecture's, or keep-alive |
//! | `edge-target` | an edge's target exists |
//! | `edge-place` | what an edge writes lies inside its block |
//! | `edge-zero-fill` | no edge writes into a block without content |
//! | `edge-request` | after the tables step no edge asks for an entry ([`Stage::Tables`]) |
//! | `symbol-wide` | an offset or size that needs more than 32 bits is in the side table |
//! | `symbol-block` | the block a symbol is defined in exists |
//! | `symbol-place` | a symbol lies inside its block, its end included |
//! | `symbol-pending` | no symbol waits for its section to get a block |
//! | `symbol-common` | a common symbol's alignment is a power of two |
//! | `anonymous` | a symbol without a name is local, strong and not external |
//! | `external-local` | an external symbol is not local |
//! | `association` | associated blocks exist |
//!
//! [`verify`] answers all violations, in the order: inputs, groups, sections, blocks with their
//! edges, symbols, associations; each in id order. A graph being read, before
//! [`LinkGraph::block_parts`](crate::graph::LinkGraph::block_parts), has pending symbols and is
//! not yet to be verified.

use crate::block::BlockFlags;
use crate::edge::{Edge, EdgeKind};
use crate::graph::LinkGraph;
use crate::ids::{BlockId, ComdatId, InputId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::index::int::{u64_of, usize_of, usize_of_u64};
use crate::section::SectionFlags;
use crate::symbol::{Addressable, Linkage, Scope, SymbolFlags, SymbolKind};
use std::fmt;

/// How far a graph has come: what must hold by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Stage {
    /// Read, and perhaps changed by passes.
    #[default]
    Read,
    /// GOT, PLT and TLS tables are built.
    Tables,
}

/// What a violation is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// An input.
    Input(InputId),
    /// A group.
    Comdat(ComdatId),
    /// A section.
    Section(SectionId),
    /// A block.
    Block(BlockId),
    /// An edge of a block, counted from 0.
    Edge(BlockId, usize),
    /// A symbol.
    Symbol(SymbolId),
    /// A pair of associated blocks, counted from 0.
    Association(usize),
}

/// One way in which a graph is not sound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule's name, one of the module's table.
    pub rule: &'static str,
    /// What breaks it.
    pub subject: Subject,
    /// The subject with its name, and what is wrong with it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.rule)
    }
}

/// Checks a graph against every rule, and answers all violations.
pub fn verify(graph: &LinkGraph, stage: Stage) -> Vec<Violation> {
    let mut verifier = Verifier::new(graph, stage);
    for (id, _) in graph.inputs() {
        verifier.input(id);
    }
    for id in graph.comdats().iter() {
        verifier.comdat(id);
    }
    for id in graph.sections() {
        verifier.section(id);
    }
    for id in graph.blocks() {
        verifier.block(id);
    }
    for id in graph.symbols() {
        verifier.symbol(id);
    }
    for index in 0..graph.associations().len() {
        verifier.association(index);
    }
    verifier.violations
}

/// Checks entities one by one; an edit checks only what it touched.
pub(crate) struct Verifier<'g> {
    graph: &'g LinkGraph,
    stage: Stage,
    edges: Vec<Edge>,
    pub(crate) violations: Vec<Violation>,
}

impl<'g> Verifier<'g> {
    pub(crate) fn new(graph: &'g LinkGraph, stage: Stage) -> Self {
        Self {
            graph,
            stage,
            edges: Vec::new(),
            violations: Vec::new(),
        }
    }

    fn report(&mut self, rule: &'static str, subject: Subject, what: impl fmt::Display) {
        let message = format!("{}: {what}", self.subject_name(subject));
        self.violations.push(Violation {
            rule,
            subject,
            message,
        });
    }

    /// The subject as messages name it. Names are looked up with care: what is wrong may be what
    /// they hang on.
    fn subject_name(&self, subject: Subject) -> String {
        let block_name = |block: BlockId| {
            let section = self.graph.block_section(block);
            format!("block {block} of section {}", self.section_name(section))
        };
        match subject {
            Subject::Input(id) => format!("input {id} {}", self.graph.input(id).name),
            Subject::Comdat(id) => format!("group {id}"),
            Subject::Section(id) => format!("section {}", self.section_name(id)),
            Subject::Block(id) => block_name(id),
            Subject::Edge(block, n) => format!("edge {n} of {}", block_name(block)),
            Subject::Symbol(id) => format!("symbol {}", named(id, self.graph.symbol_name(id))),
            Subject::Association(n) => format!("association {n}"),
        }
    }

    fn section_name(&self, id: SectionId) -> String {
        if id.index() < self.graph.n_sections() {
            named(id, self.graph.section_name(id))
        } else {
            id.to_string()
        }
    }

    fn input(&mut self, id: InputId) {
        let (graph, subject) = (self.graph, Subject::Input(id));
        let input = graph.input(id);
        for (what, range) in [
            ("symbol", &input.symbol_names),
            ("section", &input.section_names),
        ] {
            if range.start > range.end || range.end > input.bytes.len() {
                let len = input.bytes.len();
                let what = format!("{what} names at {range:?} lie outside its {len} bytes");
                self.report("input-tables", subject, what);
            }
        }
        for (what, end, n_ids) in [
            ("symbols", input.symbols.end(), graph.n_symbols()),
            ("sections", input.sections.end(), graph.n_sections()),
            ("blocks", input.blocks.end(), graph.n_blocks()),
            ("groups", input.comdats.end(), graph.comdats().len()),
        ] {
            if end > n_ids {
                let what = format!("{what} up to position {end}, but there are {n_ids}");
                self.report("input-tables", subject, what);
            }
        }
    }

    pub(crate) fn comdat(&mut self, id: ComdatId) {
        let comdat = self.graph.comdat(id);
        if !self.symbol_exists(comdat.signature) {
            let what = format_args!("its signature {} does not exist", comdat.signature);
            self.report("comdat", Subject::Comdat(id), what);
        }
        if comdat.input.index() >= self.graph.n_inputs() {
            let what = format_args!("its input {} does not exist", comdat.input);
            self.report("comdat", Subject::Comdat(id), what);
        }
    }

    pub(crate) fn section(&mut self, id: SectionId) {
        let graph = self.graph;
        let record = &graph.sections[id];
        let len = if record.flags.contains(SectionFlags::OWNED_NAME) {
            graph.names.len()
        } else {
            let input = graph.input(graph.section_input(id));
            input.section_names().len()
        };
        self.name(Subject::Section(id), record.name, len);
        if let Some(comdat) = record.comdat
            && !graph.comdats().contains(comdat)
        {
            let what = format_args!("its group {comdat} does not exist");
            self.report("section-comdat", Subject::Section(id), what);
        }
    }

    fn name(&mut self, subject: Subject, offset: u32, len: usize) {
        // Offset 0 is the empty name, also where there is no table.
        if offset != 0 && usize_of(offset) >= len {
            let what = format_args!("its name's offset {offset:#x} lies outside {len:#x} bytes");
            self.report("name", subject, what);
        }
    }

    pub(crate) fn block(&mut self, id: BlockId) {
        let (graph, subject) = (self.graph, Subject::Block(id));
        let section = graph.block_section(id);
        if graph.check_section(section).is_err() {
            let what = format_args!("its section {section} does not exist");
            self.report("block-section", subject, what);
        }
        let input = graph.block_input(id);
        if input.index() >= graph.n_inputs() {
            let what = format_args!("its input {input} does not exist");
            self.report("block-input", subject, what);
            return;
        }
        let (align, offset) = (graph.block_align(id), graph.block_align_offset(id));
        if offset >= align {
            let what = format_args!("alignment offset {offset:#x} is not below {align:#x}");
            self.report("align", subject, what);
        }
        // Decoding reads content, so edges wait until that is sound.
        if self.content(id) {
            self.block_edges(id);
        }
    }

    fn content(&mut self, id: BlockId) -> bool {
        let record = &self.graph.blocks[id];
        if record.flags.contains(BlockFlags::ZERO) {
            return true;
        }
        if record.flags.contains(BlockFlags::OWNED_CONTENT) {
            let owned = self.graph.contents.get(usize_of_u64(record.content));
            let len = owned.map_or(0, Vec::len);
            if u64_of(len) != record.size {
                let size = record.size;
                let what = format!("it has {len:#x} bytes of its own, but size {size:#x}");
                self.report("content", Subject::Block(id), what);
                return false;
            }
            return true;
        }
        let len = u64_of(self.graph.input(record.input).bytes.len());
        let end = record.content.checked_add(record.size);
        if end.is_none_or(|end| end > len) {
            let (start, size) = (record.content, record.size);
            let what = format!("{size:#x} bytes at {start:#x} lie outside its input of {len:#x}");
            self.report("content", Subject::Block(id), what);
            return false;
        }
        true
    }

    fn block_edges(&mut self, id: BlockId) {
        let record = &self.graph.blocks[id];
        if record.flags.contains(BlockFlags::OWNED_EDGES)
            && usize_of(record.edges) >= self.graph.edge_lists.len()
        {
            let what = "its list of edges does not exist";
            self.report("edges-decode", Subject::Block(id), what);
            return;
        }
        let mut edges = std::mem::take(&mut self.edges);
        if let Err(error) = self.graph.edges(id, &mut edges) {
            self.report("edges-decode", Subject::Block(id), error);
        }
        for (n, edge) in edges.iter().enumerate() {
            self.edge(id, n, edge);
        }
        self.edges = edges;
    }

    pub(crate) fn edge(&mut self, block: BlockId, n: usize, edge: &Edge) {
        let (graph, subject) = (self.graph, Subject::Edge(block, n));
        let target = graph.target();
        if !self.symbol_exists(edge.target) {
            let what = format_args!("its target {} does not exist", edge.target);
            self.report("edge-target", subject, what);
        }
        if !target.has_kind(edge.kind) {
            let EdgeKind(number) = edge.kind;
            let what = format_args!("{} has no edge kind {number}", target.name);
            self.report("edge-kind", subject, what);
            return;
        }
        let kind = target.kind_name(edge.kind);
        let width = graph.edge_width(edge.kind);
        let (offset, size) = (edge.offset, graph.block_size(block));
        if u64::from(offset) + u64::from(width) > size {
            let what = format!("{kind} of {width} bytes at {offset:#x} of {size:#x}");
            self.report("edge-place", subject, what);
        }
        if width > 0 && graph.is_zero_fill(block) {
            let what = format!("{kind} at {offset:#x} writes into zero-fill");
            self.report("edge-zero-fill", subject, what);
        }
        if self.stage >= Stage::Tables
            && edge.kind.is_relocation()
            && (target.is_request)(edge.kind)
        {
            let what = format!("{kind} at {offset:#x} still asks for an entry");
            self.report("edge-request", subject, what);
        }
    }

    pub(crate) fn symbol(&mut self, id: SymbolId) {
        let (graph, subject) = (self.graph, Subject::Symbol(id));
        let flags = graph.symbol_flags(id);
        let offset = graph.symbols[id].name;
        let len = if flags.contains(SymbolFlags::OWNED_NAME) {
            graph.names.len()
        } else {
            let input = graph.input(graph.symbol_input(id));
            input.symbol_names().len()
        };
        self.name(subject, offset, len);
        if flags.contains(SymbolFlags::WIDE) && !graph.wide.contains_key(&id) {
            let what = "offset or size is said to be in the side table, but is not";
            self.report("symbol-wide", subject, what);
            return;
        }
        if flags.kind() == SymbolKind::Pending {
            let what = "its section never got a block";
            self.report("symbol-pending", subject, what);
            return;
        }
        match graph.addressable(id) {
            Addressable::Block { block, offset } => self.symbol_place(id, block, offset),
            Addressable::Common { align } if !align.is_power_of_two() => {
                let what = format_args!("alignment {align:#x} is not a power of two");
                self.report("symbol-common", subject, what);
            }
            Addressable::External if flags.scope() == Scope::Local => {
                self.report("external-local", subject, "it is external, but local");
            }
            _ => {}
        }
        if graph.symbol_name(id).is_empty() {
            let scope = flags.scope();
            if flags.is_external() {
                self.report("anonymous", subject, "it is external without a name");
            } else if scope != Scope::Local {
                let what = format_args!("it has no name, but scope {scope:?}");
                self.report("anonymous", subject, what);
            }
            if flags.linkage() == Linkage::Weak {
                self.report("anonymous", subject, "it has no name, but is weak");
            }
        }
    }

    fn symbol_place(&mut self, id: SymbolId, block: BlockId, offset: u64) {
        let subject = Subject::Symbol(id);
        if !self.graph.has_block(block) {
            let what = format_args!("its block {block} does not exist");
            self.report("symbol-block", subject, what);
            return;
        }
        let (size, room) = (self.graph.symbol_size(id), self.graph.block_size(block));
        if offset.checked_add(size).is_none_or(|end| end > room) {
            let what =
                format!("{size:#x} bytes at {offset:#x} lie outside block {block} of {room:#x}");
            self.report("symbol-place", subject, what);
        }
    }

    pub(crate) fn association(&mut self, index: usize) {
        let (parent, child) = self.graph.associations()[index];
        for (what, block) in [("parent", parent), ("child", child)] {
            if !self.graph.has_block(block) {
                let what = format_args!("its {what} {block} does not exist");
                self.report("association", Subject::Association(index), what);
            }
        }
    }

    fn symbol_exists(&self, id: SymbolId) -> bool {
        self.graph.check_symbol(id).is_ok()
    }
}

/// An entity by its id and name, when it has one.
fn named(id: impl fmt::Display, name: &[u8]) -> String {
    match name {
        [] => id.to_string(),
        name => format!("{id} {}", name.escape_ascii()),
    }
}

#[cfg(test)]
mod tests;
