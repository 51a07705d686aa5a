//! The semantic digest: 32 bytes that are the same for graphs that mean the same, on every
//! machine, for any number of threads. It is for tests that a step changes nothing, for caches,
//! and to see that an edit which failed left no trace.
//!
//! Digested is what the text form prints but the graph's name (which is mostly a path): entities
//! by their dense numbers, so holes do not count; names and contents as bytes, wherever they are
//! kept; edges decoded. Inputs and provenance are not part of the meaning.

use crate::block::Content;
use crate::dump::Numbering;
use crate::edge::{Edge, EdgeKind};
use crate::graph::{BlockEdgeError, LinkGraph};
use crate::ids::{BlockId, SectionId, SymbolId};
use crate::index::int::{u64_of, unsigned};
use crate::section::SectionFlags;
use crate::symbol::{Addressable, SymbolFlags};
use crate::target::Endian;
use std::fmt;

/// A digest of a graph's meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LinkGraph {
    /// The digest of the graph's meaning.
    ///
    /// # Errors
    /// Relocation records that cannot be decoded.
    pub fn digest(&self) -> Result<Digest, Box<BlockEdgeError>> {
        let mut digester = Digester {
            graph: self,
            numbers: Numbering::new(self),
            hasher: blake3::Hasher::new(),
            buffer: Vec::with_capacity(FLUSH_AT * 2),
        };
        digester.graph()?;
        digester.flush();
        Ok(Digest(*digester.hasher.finalize().as_bytes()))
    }
}

/// The hasher is fastest on long runs, so small values are gathered up to this many bytes.
const FLUSH_AT: usize = 16 << 10;

/// Section flags that have meaning beyond where a name is kept and whether there is a section.
const SECTION_MEANING: SectionFlags = SectionFlags::all()
    .difference(SectionFlags::OWNED_NAME)
    .difference(SectionFlags::REMOVED);

/// Symbol flags that have meaning of their own; what the symbol points at is digested apart.
const SYMBOL_MEANING: SymbolFlags = SymbolFlags::all()
    .difference(SymbolFlags::KIND)
    .difference(SymbolFlags::SCOPE)
    .difference(SymbolFlags::OWNED_NAME)
    .difference(SymbolFlags::WIDE);

struct Digester<'g> {
    graph: &'g LinkGraph,
    numbers: Numbering,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl Digester<'_> {
    /// Every list is preceded by its length and every run of bytes by its own, so no two graphs
    /// give the hasher the same bytes.
    fn graph(&mut self) -> Result<(), Box<BlockEdgeError>> {
        let graph = self.graph;
        self.bytes(b"clinch graph, version 1");
        let target = graph.target();
        self.bytes(target.name.as_bytes());
        self.number(u64::from(target.pointer_size));
        self.number(u64::from(target.endian == Endian::Big));

        self.number(u64_of(graph.comdats().len()));
        for id in graph.comdats().iter() {
            let comdat = graph.comdat(id);
            self.symbol_ref(comdat.signature);
            self.bytes(comdat.selection.name().as_bytes());
        }
        self.number(u64::from(self.numbers.sections.len()));
        for id in graph.sections() {
            self.section(id);
        }
        self.number(u64::from(self.numbers.blocks.len()));
        let mut edges = Vec::new();
        for id in graph.blocks() {
            self.block(id, &mut edges)?;
        }
        self.number(u64::from(self.numbers.symbols.len()));
        for id in graph.symbols() {
            self.symbol(id);
        }
        self.number(u64_of(graph.associations().len()));
        for &(parent, child) in graph.associations() {
            self.block_ref(parent);
            self.block_ref(child);
        }
        Ok(())
    }

    fn section(&mut self, id: SectionId) {
        let section = self.graph.section(id);
        self.bytes(section.name);
        self.number(u64::from(section.prot.bits()));
        self.number(section.lifetime as u64);
        self.bytes(section.kind.name().as_bytes());
        self.number(u64::from(
            section.flags.intersection(SECTION_MEANING).bits(),
        ));
        self.number(u64::from(section.entry_size));
        self.number(section.comdat.map_or(0, |comdat| u64::from(comdat.raw())));
        let ordinal = self.graph.explicit_ordinal(id);
        self.number(ordinal.map_or(0, |ordinal| 1 + u64::from(ordinal)));
    }

    fn block(&mut self, id: BlockId, edges: &mut Vec<Edge>) -> Result<(), Box<BlockEdgeError>> {
        let graph = self.graph;
        let section = graph.block_section(id);
        let number = self.numbers.sections.get(section);
        self.reference(number, section.raw());
        self.number(graph.block_align(id));
        self.number(graph.block_align_offset(id));
        match graph.content(id) {
            Content::Zero(size) => {
                self.number(0);
                self.number(size);
            }
            Content::Bytes(bytes) => {
                self.number(1);
                self.bytes(bytes);
            }
        }
        graph.edges(id, edges)?;
        self.number(u64_of(edges.len()));
        for edge in edges {
            let EdgeKind(kind) = edge.kind;
            self.number(u64::from(edge.offset));
            self.number(u64::from(kind));
            self.symbol_ref(edge.target);
            self.number(unsigned(edge.addend));
        }
        Ok(())
    }

    fn symbol(&mut self, id: SymbolId) {
        let symbol = self.graph.symbol(id);
        self.bytes(symbol.name);
        let (kind, value) = match symbol.base {
            Addressable::Block { offset, .. } => (1, offset),
            Addressable::Absolute(value) => (2, value),
            Addressable::External => (3, 0),
            Addressable::Common { align } => (4, align),
            Addressable::Discarded | Addressable::Null => (5, 0),
        };
        self.number(kind);
        self.number(value);
        if let Addressable::Block { block, .. } = symbol.base {
            self.block_ref(block);
        }
        self.number(symbol.size);
        self.number(symbol.scope() as u64);
        self.number(u64::from(symbol.flags.intersection(SYMBOL_MEANING).bits()));
    }

    fn symbol_ref(&mut self, id: SymbolId) {
        let number = self.numbers.symbols.get(id);
        self.reference(number, id.raw());
    }

    fn block_ref(&mut self, id: BlockId) {
        let number = self.numbers.blocks.get(id);
        self.reference(number, id.raw());
    }

    /// An entity's number; the raw id, told apart, of one that does not exist.
    fn reference(&mut self, number: Option<u32>, raw: u32) {
        const DANGLING: u64 = 1 << 32;
        self.number(number.map_or(DANGLING | u64::from(raw), u64::from));
    }

    fn number(&mut self, number: u64) {
        self.buffer.extend_from_slice(&number.to_le_bytes());
        if self.buffer.len() >= FLUSH_AT {
            self.flush();
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(u64_of(bytes.len()));
        if bytes.len() < FLUSH_AT {
            self.buffer.extend_from_slice(bytes);
        } else {
            self.flush();
            self.hasher.update(bytes);
        }
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests;
