//! What the tests share: an object builder, architectures for all classes and orders, tools, and
//! short ways to read an object and look at its graph.

pub(crate) mod arch;
pub(crate) mod builder;
pub(crate) mod tool;

use clinch_graph::{
    Addressable, BlockId, EdgeKind, Id, InputId, InputName, LinkGraph, Section, Stage, Symbol,
    SymbolId, parse, verify,
};
use clinch_object::{InputError, ReadErrorKind, read_object_with};

/// The name of every input here.
pub(crate) const FILE: &str = "t.o";

/// Reads an object whole; of clinch's own architectures or those of [`arch`].
pub(crate) fn try_read(bytes: &[u8]) -> Result<LinkGraph, InputError> {
    let name = InputName::file(FILE);
    read_object_with(name, bytes.to_vec().into(), arch::find)
}

/// Reads an object, whose graph must be sound and whose text form must say all of it.
#[track_caller]
pub(crate) fn read(bytes: &[u8]) -> LinkGraph {
    let graph = try_read(bytes).unwrap_or_else(|error| panic!("{error}"));
    let violations = verify(&graph, Stage::Read);
    assert!(violations.is_empty(), "{}", violations[0]);
    let text = graph.to_text().unwrap();
    let again = parse(&text, arch::target).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.to_text().unwrap(), text);
    graph
}

/// The object is refused with this error, about this section, and the message says all of it.
#[track_caller]
pub(crate) fn refuses(bytes: &[u8], section: Option<&str>, offset: u64, kind: ReadErrorKind) {
    let error = try_read(bytes).expect_err("the object is malformed");
    assert_eq!(
        (
            error.section.as_deref(),
            error.source.offset,
            error.source.kind
        ),
        (section, offset, kind),
        "{error}"
    );
    let message = error.to_string();
    let about = section
        .map(|name| format!("section {name}: "))
        .unwrap_or_default();
    assert_eq!(
        message,
        format!("{FILE}: {about}{kind} (file offset {offset:#x})")
    );
}

/// The one input of a graph that was read.
pub(crate) fn input() -> InputId {
    InputId::from_index(1)
}

/// The input's symbol of this number.
pub(crate) fn symbol_at(graph: &LinkGraph, index: usize) -> Symbol<'_> {
    graph.symbol(graph.input(input()).symbols().get(index).unwrap())
}

/// The first symbol of this name.
#[track_caller]
pub(crate) fn symbol<'g>(graph: &'g LinkGraph, name: &str) -> Symbol<'g> {
    let id = graph.find_symbol(name.as_bytes());
    graph.symbol(id.unwrap_or_else(|| panic!("no symbol {name}")))
}

/// The first section of this name.
#[track_caller]
pub(crate) fn section<'g>(graph: &'g LinkGraph, name: &str) -> Section<'g> {
    let id = graph.find_section(name.as_bytes());
    graph.section(id.unwrap_or_else(|| panic!("no section {name}")))
}

/// The one block of the first section of this name.
#[track_caller]
pub(crate) fn block(graph: &LinkGraph, name: &str) -> BlockId {
    let id = graph.find_section(name.as_bytes());
    let id = id.unwrap_or_else(|| panic!("no section {name}"));
    graph.section_blocks(id).next().unwrap()
}

/// A symbol's name; for a section symbol the section's, and the block's id for other anonymous
/// ones.
pub(crate) fn name_of(graph: &LinkGraph, symbol: SymbolId) -> String {
    let symbol = graph.symbol(symbol);
    let name = match (symbol.name, symbol.base) {
        ([], Addressable::Block { block, .. }) => graph.section_name(graph.block_section(block)),
        (name, _) => name,
    };
    String::from_utf8_lossy(name).into_owned()
}

/// Where a symbol is: section's name and offset.
#[track_caller]
pub(crate) fn place(graph: &LinkGraph, symbol: &Symbol<'_>) -> (String, u64) {
    let Addressable::Block { block, offset } = symbol.base else {
        panic!("{symbol:?} is in no block");
    };
    let name = graph.section_name(graph.block_section(block));
    (String::from_utf8_lossy(name).into_owned(), offset)
}

/// An edge: offset, kind, target's name, addend.
pub(crate) type Shown = (u32, EdgeKind, String, i64);

/// The edges of a section's block.
#[track_caller]
pub(crate) fn edges(graph: &LinkGraph, section: &str) -> Vec<Shown> {
    edges_of(graph, block(graph, section))
}

/// The edges of a block.
#[track_caller]
pub(crate) fn edges_of(graph: &LinkGraph, block: BlockId) -> Vec<Shown> {
    let mut edges = Vec::new();
    graph
        .edges(block, &mut edges)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(graph.n_edges(block), edges.len());
    assert!(edges.is_empty() || !graph.has_no_edges(block));
    let shown = edges.iter().map(|edge| {
        (
            edge.offset,
            edge.kind,
            name_of(graph, edge.target),
            edge.addend,
        )
    });
    shown.collect()
}
