//! What this crate's unit tests share: a small architecture, graphs from text, and a small object
//! format whose relocation records graphs can borrow.

use crate::dump::parse;
use crate::edge::{Edge, EdgeError, EdgeErrorKind, EdgeKind, EdgeRequest, EdgeSource};
use crate::graph::LinkGraph;
use crate::index::id::Id;
use crate::index::int::u32_of;
use crate::input::{InputName, NewInput};
use crate::target::{Endian, GraphTarget};
use crate::{BlockId, ComdatId, SectionId, SymbolId};
use std::ops::Range;
use std::sync::Arc;

/// Writes the target's address: 8 bytes.
pub(crate) const POINTER64: EdgeKind = EdgeKind(2);
/// Writes target minus place: 4 bytes.
pub(crate) const DELTA32: EdgeKind = EdgeKind(3);
/// Writes the distance to the target's GOT entry: 4 bytes.
pub(crate) const REQUEST_GOT: EdgeKind = EdgeKind(4);
/// Marks an instruction and writes nothing.
pub(crate) const MARK: EdgeKind = EdgeKind(5);

/// An architecture for tests.
pub(crate) static TOY: GraphTarget = GraphTarget {
    name: "toy",
    pointer_size: 8,
    endian: Endian::Little,
    edge_kinds: &["Pointer64", "Delta32", "RequestGot", "Mark"],
    edge_width: |kind| match kind {
        POINTER64 => 8,
        DELTA32 | REQUEST_GOT => 4,
        _ => 0,
    },
    is_request: |kind| kind == REQUEST_GOT,
};

/// The graph of a text that has no header.
pub(crate) fn graph(text: &str) -> LinkGraph {
    let text = format!("graph \"test\" toy\n{text}");
    match parse(&text, |name| (name == TOY.name).then_some(&TOY)) {
        Ok(graph) => graph,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The graph's text without its header and empty lines.
pub(crate) fn text(graph: &LinkGraph) -> String {
    let text = graph.to_text().expect("edges can be decoded");
    let lines = text.lines().skip(1).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The same without indentation, to compare with a text that is indented as the test is.
pub(crate) fn flat(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The block that prints as `b{n}` in a graph without holes.
pub(crate) fn b(n: usize) -> BlockId {
    BlockId::from_index(n - 1)
}

/// The symbol that prints as `${n}`.
pub(crate) fn sym(n: usize) -> SymbolId {
    SymbolId::from_index(n - 1)
}

/// The section that prints as `s{n}`.
pub(crate) fn s(n: usize) -> SectionId {
    SectionId::from_index(n - 1)
}

/// The group that prints as `c{n}`.
pub(crate) fn c(n: usize) -> ComdatId {
    ComdatId::from_index(n - 1)
}

/// An edge.
pub(crate) fn edge(offset: u32, kind: EdgeKind, target: SymbolId, addend: i64) -> Edge {
    Edge {
        offset,
        kind,
        target,
        addend,
    }
}

/// Bytes of an input, put together piece by piece.
#[derive(Debug, Default)]
pub(crate) struct File {
    bytes: Vec<u8>,
}

impl File {
    /// A file whose first bytes are of no use, so that no offset in it is 0.
    pub(crate) fn new() -> Self {
        let bytes = b"toy!".to_vec();
        Self { bytes }
    }

    /// Appends content; answers where it is.
    pub(crate) fn content(&mut self, bytes: &[u8]) -> u64 {
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        offset as u64
    }

    /// Appends relocation records (place, kind, the symbol's number in the input, addend);
    /// answers the word for the block.
    pub(crate) fn table(&mut self, records: &[(u32, EdgeKind, u32, i32)]) -> u32 {
        let word = u32_of(self.bytes.len());
        let count = u32_of(records.len());
        self.bytes.extend_from_slice(&count.to_le_bytes());
        for &(place, EdgeKind(kind), symbol, addend) in records {
            for word in [place, u32::from(kind), symbol, addend.cast_unsigned()] {
                self.bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        word
    }

    /// Appends a table of names; answers where it is and each name's offset in it.
    pub(crate) fn names(&mut self, names: &[&str]) -> (Range<usize>, Vec<u32>) {
        let start = self.bytes.len();
        let offsets = names.iter().map(|name| {
            let offset = u32_of(self.bytes.len() - start);
            self.bytes.extend_from_slice(name.as_bytes());
            self.bytes.push(0);
            offset
        });
        let offsets = offsets.collect();
        (start..self.bytes.len(), offsets)
    }

    /// The whole as an input of a graph.
    pub(crate) fn input(
        self,
        name: &str,
        symbol_names: Range<usize>,
        section_names: Range<usize>,
        n_symbols: usize,
        source: Source,
    ) -> NewInput {
        NewInput {
            name: InputName::file(name),
            bytes: self.bytes.into(),
            symbol_names,
            section_names,
            source: Some(Arc::new(source)),
            n_symbols,
        }
    }
}

/// Decodes the records that [`File::table`] makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Whether 4 bytes of content at the place belong to the addend.
    pub(crate) addends_in_content: bool,
}

impl EdgeSource for Source {
    fn decode(&self, request: &EdgeRequest<'_>, out: &mut Vec<Edge>) -> Result<(), EdgeError> {
        let error = |kind| EdgeError {
            offset: u64::from(request.table),
            kind,
        };
        let word = |index: usize| {
            let start = request.table as usize + 4 * index;
            let bytes = request.bytes.get(start..start + 4);
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes
                .map(u32::from_le_bytes)
                .ok_or(error(EdgeErrorKind::Truncated))
        };
        for record in 0..self.count(request) {
            let [place, kind, symbol, addend] = [1, 2, 3, 4].map(|n| word(4 * record + n));
            let (place, symbol) = (place?, symbol?);
            if symbol >= request.n_symbols {
                return Err(error(EdgeErrorKind::NoSymbol(symbol)));
            }
            let mut addend = i64::from(addend?.cast_signed());
            if self.addends_in_content {
                let bytes = request.content.get(place as usize..place as usize + 4);
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                let bytes = bytes.ok_or(error(EdgeErrorKind::OutsideBlock {
                    place: u64::from(place),
                    size: request.size,
                }))?;
                addend += i64::from(i32::from_le_bytes(bytes));
            }
            out.push(Edge {
                offset: place,
                kind: EdgeKind(kind? as u8),
                target: SymbolId::from_raw(request.first_symbol + symbol).expect("not zero"),
                addend,
            });
        }
        Ok(())
    }

    fn reads_content(&self, _: &EdgeRequest<'_>) -> bool {
        self.addends_in_content
    }

    fn count(&self, request: &EdgeRequest<'_>) -> usize {
        let start = request.table as usize;
        let bytes = request.bytes.get(start..start + 4);
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
    }
}
