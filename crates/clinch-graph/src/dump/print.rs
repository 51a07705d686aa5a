//! Prints a graph as text; [`crate::dump`] describes the form. Begin with [`print`].

use super::Numbering;
use super::numbering::Dense;
use crate::block::Content;
use crate::edge::{Edge, EdgeKind};
use crate::graph::{BlockEdgeError, LinkGraph};
use crate::ids::{BlockId, ComdatId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::section::{Lifetime, Prot, SectionFlags, SectionKind};
use crate::symbol::{Addressable, Scope, SymbolFlags};
use std::fmt::{self, Write};
use thiserror::Error;

/// How many bytes are printed on one line at most.
const BYTES_PER_LINE: usize = 32;
/// How many bytes a quoted piece of content has at most.
const STRING_PER_LINE: usize = 64;

/// Why a graph could not be printed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PrintError {
    /// A block's relocation records cannot be decoded.
    #[error(transparent)]
    Edges(#[from] Box<BlockEdgeError>),
    /// The writer refused.
    #[error("the text could not be written")]
    Write(#[from] fmt::Error),
}

type Result<T> = std::result::Result<T, PrintError>;

impl LinkGraph {
    /// The graph as text, which [`parse`](super::parse()) reads.
    ///
    /// # Errors
    /// Relocation records that cannot be decoded.
    pub fn to_text(&self) -> std::result::Result<String, Box<BlockEdgeError>> {
        let mut text = String::new();
        match print(self, &mut text) {
            Ok(()) => Ok(text),
            Err(PrintError::Edges(error)) => Err(error),
            Err(PrintError::Write(_)) => unreachable!("a String takes whatever is written to it"),
        }
    }
}

/// Writes a graph as text.
///
/// # Errors
/// Relocation records that cannot be decoded, or what the writer says.
pub fn print(graph: &LinkGraph, out: &mut dyn Write) -> Result<()> {
    let numbers = Numbering::new(graph);
    let mut printer = Printer {
        graph,
        numbers,
        edges: Vec::new(),
        out,
    };
    printer.graph()
}

struct Printer<'a> {
    graph: &'a LinkGraph,
    numbers: Numbering,
    edges: Vec<Edge>,
    out: &'a mut dyn Write,
}

impl Printer<'_> {
    fn graph(&mut self) -> Result<()> {
        let graph = self.graph;
        let name = Quoted(graph.name().as_bytes());
        writeln!(self.out, "graph {name} {}", graph.target().name)?;
        for id in graph.comdats().iter() {
            self.comdat(id)?;
        }

        // Blocks by section, and in a section by id; those of no section that exists come last.
        let mut blocks: Vec<(u32, BlockId)> = graph
            .blocks()
            .map(|id| (self.section_number(graph.block_section(id)), id))
            .collect();
        blocks.sort_unstable();
        let mut rest = blocks.as_slice();
        for id in graph.sections() {
            self.out.write_char('\n')?;
            self.section(id)?;
            let number = self.section_number(id);
            let (mine, others) = rest.split_at(rest.partition_point(|(n, _)| *n <= number));
            rest = others;
            for &(_, block) in mine {
                self.block(block)?;
            }
        }
        for &(_, block) in rest {
            let section = self.shown_section(graph.block_section(block));
            writeln!(self.out, "\nsection {section}")?;
            self.block(block)?;
        }

        if self.numbers.symbols.len() != 0 {
            self.out.write_char('\n')?;
        }
        for id in graph.symbols() {
            self.symbol(id)?;
        }
        if !graph.associations().is_empty() {
            self.out.write_char('\n')?;
        }
        for &(parent, child) in graph.associations() {
            let (parent, child) = (self.shown_block(parent), self.shown_block(child));
            writeln!(self.out, "associate {parent} {child}")?;
        }
        Ok(())
    }

    fn comdat(&mut self, id: ComdatId) -> Result<()> {
        let comdat = self.graph.comdat(id);
        let signature = self.shown_symbol(comdat.signature);
        writeln!(
            self.out,
            "comdat {id} {signature} {}",
            comdat.selection.name()
        )?;
        Ok(())
    }

    fn section(&mut self, id: SectionId) -> Result<()> {
        let section = self.graph.section(id);
        let (shown, name) = (self.shown_section(id), Quoted(section.name));
        write!(self.out, "section {shown} {name} {}", section.prot)?;
        if section.kind != SectionKind::default() {
            write!(self.out, " kind {}", section.kind.name())?;
        }
        for (lifetime, name) in LIFETIMES {
            if section.lifetime == lifetime {
                write!(self.out, " lifetime {name}")?;
            }
        }
        if section.entry_size != 0 {
            write!(self.out, " entry {}", section.entry_size)?;
        }
        for (flag, name) in SECTION_FLAGS {
            if section.flags.contains(flag) {
                write!(self.out, " {name}")?;
            }
        }
        match section.comdat {
            Some(comdat) if self.graph.comdats().contains(comdat) => {
                write!(self.out, " comdat {comdat}")?;
            }
            Some(comdat) => write!(self.out, " comdat c?{}", comdat.raw())?,
            None => {}
        }
        if let Some(ordinal) = self.graph.explicit_ordinal(id) {
            write!(self.out, " ordinal {ordinal}")?;
        }
        self.out.write_char('\n')?;
        Ok(())
    }

    fn block(&mut self, id: BlockId) -> Result<()> {
        let graph = self.graph;
        let (size, align) = (graph.block_size(id), graph.block_align(id));
        let shown = self.shown_block(id);
        write!(self.out, "  block {shown} size {size} align {align}")?;
        let offset = graph.block_align_offset(id);
        if offset != 0 {
            write!(self.out, " offset {offset}")?;
        }
        match graph.content(id) {
            Content::Zero(_) => self.out.write_str(" zero\n")?,
            Content::Bytes(bytes) => {
                self.out.write_char('\n')?;
                self.content(bytes, graph.block_section(id))?;
            }
        }
        let mut edges = std::mem::take(&mut self.edges);
        graph.edges(id, &mut edges)?;
        for edge in &edges {
            self.edge(edge)?;
        }
        self.edges = edges;
        Ok(())
    }

    fn content(&mut self, bytes: &[u8], section: SectionId) -> Result<()> {
        let section = self.graph.section(section);
        if !section.prot.contains(Prot::EXEC) && looks_like_strings(bytes) {
            for string in bytes.split_inclusive(|&byte| byte == 0) {
                for piece in string.chunks(STRING_PER_LINE) {
                    writeln!(self.out, "    string {}", Quoted(piece))?;
                }
            }
            return Ok(());
        }
        for line in bytes.chunks(BYTES_PER_LINE) {
            self.out.write_str("    bytes")?;
            for byte in line {
                write!(self.out, " {byte:02x}")?;
            }
            self.out.write_char('\n')?;
        }
        Ok(())
    }

    fn edge(&mut self, edge: &Edge) -> Result<()> {
        let target = self.shown_symbol(edge.target);
        let target_arch = self.graph.target();
        write!(self.out, "    edge +{:#x} ", edge.offset)?;
        if target_arch.has_kind(edge.kind) {
            self.out.write_str(target_arch.kind_name(edge.kind))?;
        } else {
            let EdgeKind(number) = edge.kind;
            write!(self.out, "?{number}")?;
        }
        let sign = if edge.addend < 0 { '-' } else { '+' };
        match edge.addend.unsigned_abs() {
            0 => writeln!(self.out, " {target}")?,
            small @ 1..256 => writeln!(self.out, " {target} {sign} {small}")?,
            large => writeln!(self.out, " {target} {sign} {large:#x}")?,
        }
        Ok(())
    }

    fn symbol(&mut self, id: SymbolId) -> Result<()> {
        let symbol = self.graph.symbol(id);
        write!(self.out, "symbol {}", self.shown_symbol(id))?;
        if !symbol.name.is_empty() {
            write!(self.out, " {}", Quoted(symbol.name))?;
        }
        match symbol.base {
            Addressable::Block { block, offset } => {
                write!(self.out, " {}+{offset:#x}", self.shown_block(block))?;
            }
            Addressable::Absolute(value) => write!(self.out, " absolute {value:#x}")?,
            Addressable::External => self.out.write_str(" external")?,
            Addressable::Common { align } => write!(self.out, " common align {align}")?,
            Addressable::Discarded | Addressable::Null => self.out.write_str(" discarded")?,
        }
        if symbol.size != 0 {
            write!(self.out, " size {}", symbol.size)?;
        }
        let scope = symbol.scope();
        if scope != default_scope(symbol.name) {
            for (named, name) in SCOPES {
                if scope == named {
                    write!(self.out, " {name}")?;
                }
            }
        }
        for (flag, name) in SYMBOL_FLAGS {
            if symbol.flags.contains(flag) {
                write!(self.out, " {name}")?;
            }
        }
        self.out.write_char('\n')?;
        Ok(())
    }

    /// The section's number; behind all others for one that does not exist.
    fn section_number(&self, id: SectionId) -> u32 {
        self.numbers.sections.get(id).unwrap_or(u32::MAX)
    }

    fn shown_section(&self, id: SectionId) -> Shown {
        Shown::new(SectionId::PREFIX, &self.numbers.sections, id, id.raw())
    }

    fn shown_block(&self, id: BlockId) -> Shown {
        Shown::new(BlockId::PREFIX, &self.numbers.blocks, id, id.raw())
    }

    fn shown_symbol(&self, id: SymbolId) -> Shown {
        Shown::new(SymbolId::PREFIX, &self.numbers.symbols, id, id.raw())
    }
}

/// The scope that is not spelled out.
pub(super) fn default_scope(name: &[u8]) -> Scope {
    if name.is_empty() {
        Scope::Local
    } else {
        Scope::Default
    }
}

/// Whether content is text: zero bytes only between and behind non-empty strings of printable
/// characters, and at least four bytes in all. Small numbers do not look like this.
fn looks_like_strings(bytes: &[u8]) -> bool {
    bytes.len() >= 4
        && bytes[0] != 0
        && bytes.windows(2).all(|pair| pair != [0, 0])
        && bytes
            .iter()
            .all(|&byte| matches!(byte, 0 | b'\n' | b'\t' | b' '..=b'~'))
}

/// An id by its dense number, or with a question mark.
struct Shown {
    prefix: &'static str,
    number: std::result::Result<u32, u32>,
}

impl Shown {
    fn new<I: Id>(prefix: &'static str, numbers: &Dense<I>, id: I, raw: u32) -> Self {
        Self {
            prefix,
            number: numbers.get(id).ok_or(raw),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Ok(number) => write!(f, "{}{number}", self.prefix),
            Err(raw) => write!(f, "{}?{raw}", self.prefix),
        }
    }
}

/// Bytes as a quoted string.
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for &byte in self.0 {
            match byte {
                b'"' => f.write_str("\\\"")?,
                b'\\' => f.write_str("\\\\")?,
                b'\n' => f.write_str("\\n")?,
                b'\t' => f.write_str("\\t")?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_char('"')
    }
}

/// Names of the lifetimes that are spelled out.
pub(super) const LIFETIMES: [(Lifetime, &str); 2] = [
    (Lifetime::Finalize, "finalize"),
    (Lifetime::NoAlloc, "noalloc"),
];

/// Names of the section flags that have meaning, in printing order.
pub(super) const SECTION_FLAGS: [(SectionFlags, &str); 7] = [
    (SectionFlags::MERGE, "merge"),
    (SectionFlags::STRINGS, "strings"),
    (SectionFlags::TLS, "tls"),
    (SectionFlags::RETAIN, "retain"),
    (SectionFlags::RELRO, "relro"),
    (SectionFlags::LARGE, "large"),
    (SectionFlags::EXCLUDE, "exclude"),
];

/// Names of the scopes.
pub(super) const SCOPES: [(Scope, &str); 5] = [
    (Scope::Default, "default"),
    (Scope::Protected, "protected"),
    (Scope::Hidden, "hidden"),
    (Scope::SideEffectsOnly, "side-effects-only"),
    (Scope::Local, "local"),
];

/// Names of the symbol flags that have meaning, in printing order.
pub(super) const SYMBOL_FLAGS: [(SymbolFlags, &str); 9] = [
    (SymbolFlags::WEAK, "weak"),
    (SymbolFlags::CALLABLE, "callable"),
    (SymbolFlags::OBJECT, "object"),
    (SymbolFlags::TLS, "tls"),
    (SymbolFlags::IFUNC, "ifunc"),
    (SymbolFlags::UNIQUE, "unique"),
    (SymbolFlags::SECTION, "section"),
    (SymbolFlags::WEAKLY_REFERENCED, "weakly-referenced"),
    (SymbolFlags::LIVE, "live"),
];
