//! What must hold of any bytes that a reader is given: it answers a value or an error, in time
//! and memory bounded by the input's size, and a value is sound. A broken rule is a panic.
//!
//! Each function is the body of a fuzz target (`fuzz/fuzz_targets/`); what those found runs
//! through the same functions in `cargo test` (`tests/fuzz_regressions.rs`). [`ORACLES`] is the
//! one list.

use crate::generate::{self, borrowed};
use crate::oracle::executor::{executor_client, executor_server};
use crate::oracle::graph as oracle;
use crate::oracle::words::command_line;
use crate::toy::find_target;
use bytes::Bytes;
use clinch_executor::wire::handshake::Handshake;
use clinch_executor::wire::{Header, MAX_PAYLOAD, Reply, ToController, ToExecutor};
use clinch_graph::verify::{Stage, verify};
use clinch_graph::{Addressable, Endian, InputName, LinkGraph, SectionKind, dump};
use clinch_jit::check::{self, Location};
use clinch_object::archive::IndexTable;
use clinch_object::elf::shared::SharedObject;
use clinch_object::{Archive, FileKind, address_significant, read_object, write_object};
use clinch_target::{Instruction, arch_named};
use std::hint::black_box;

/// Panics when what the bytes were read as is not sound.
pub type Oracle = fn(&[u8]);

/// All oracles, by the name of their fuzz target.
pub static ORACLES: &[(&str, Oracle)] = &[
    ("archive", archive),
    ("check_language", check_language),
    ("command_line", command_line),
    ("elf_object", elf_object),
    ("executor_client", executor_client),
    ("executor_messages", executor_messages),
    ("executor_server", executor_server),
    ("generated_graph", generated_graph),
    ("graph_text", graph_text),
    ("object_graph_verify", object_graph_verify),
    ("object_write", object_write),
    ("shared_object", shared_object),
];

/// Bytes as a check file: every rule is answered, lies in the file, and means the same when its
/// text stands on one line.
pub fn check_language(bytes: &[u8]) {
    const NAME: &str = "jitlink-check";
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().count();
    for rule in check::rules(&text, NAME) {
        assert!(
            (1..=lines).contains(&rule.line),
            "line {} of {lines}",
            rule.line
        );
        if rule.sides.is_ok() {
            let again = check::rules(&format!("# {NAME}: {}", rule.text), NAME);
            let sides: Vec<_> = again.iter().map(|rule| &rule.sides).collect();
            assert_eq!(sides, [&rule.sides]);
        }
        for endian in [Endian::Little, Endian::Big] {
            black_box(check::evaluate(&rule, &Anything(endian)));
        }
    }
}

/// An image in which every name is somewhere and all memory can be read.
struct Anything(Endian);

impl Anything {
    fn place(name: &str) -> Location {
        let number = name.bytes().fold(7_u64, |sum, byte| {
            sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(byte.into())
        });
        Location {
            target: number,
            working: (number % 3 != 0).then_some(number),
        }
    }
}

impl check::Image for Anything {
    fn endian(&self) -> Endian {
        self.0
    }

    fn symbol(&self, name: &str) -> Option<Location> {
        Some(Self::place(name))
    }

    fn section(&self, _file: &str, section: &str) -> Result<Location, String> {
        Ok(Self::place(section))
    }

    fn got(&self, _file: &str, symbol: &str) -> Result<Location, String> {
        Ok(Self::place(symbol))
    }

    fn stub(&self, _file: &str, symbol: &str, _kind: Option<&str>) -> Result<Location, String> {
        Ok(Self::place(symbol))
    }

    fn read(&self, working: u64, bytes: &mut [u8]) -> bool {
        for (byte, value) in bytes.iter_mut().zip(working.to_le_bytes()) {
            *byte = value;
        }
        true
    }

    /// The address itself is the code, so that the decoders see anything too.
    fn decode(&self, working: u64) -> Result<Instruction, String> {
        let code = [working.to_le_bytes(), working.to_be_bytes()].concat();
        for decode in clinch_target::ARCHES.iter().filter_map(|arch| arch.decode) {
            match decode(&code) {
                Ok(instruction) => {
                    assert!((1..=code.len()).contains(&instruction.length.into()));
                    return Ok(instruction);
                }
                Err(error) => told(&error),
            }
        }
        Err("no architecture knows it".to_owned())
    }
}

/// Bytes as an ELF object: reading answers, and everything that was read can be looked at.
pub fn elf_object(bytes: &[u8]) {
    if let Some(graph) = object(bytes) {
        walk(&graph);
        address_significance(&graph);
    }
}

/// The symbols whose addresses matter are the input's.
fn address_significance(graph: &LinkGraph) {
    for (id, input) in graph.inputs() {
        match address_significant(graph, id) {
            Ok(Some(symbols)) => {
                let own = |&symbol| input.symbols().contains(symbol);
                assert!(symbols.iter().all(own), "a symbol of another input");
            }
            Ok(None) => {}
            Err(error) => told(&error),
        }
    }
}

/// Bytes as an ELF object: the graph passes the verifier but for relocation records that cannot
/// be decoded, and its text form reads back as the same graph.
pub fn object_graph_verify(bytes: &[u8]) {
    let Some(graph) = object(bytes) else { return };
    let mut undecodable = false;
    for violation in verify(&graph, Stage::Read) {
        assert!(violation.rule == "edges-decode", "{violation}");
        undecodable = true;
    }
    if undecodable {
        assert!(
            graph.to_text().is_err(),
            "an edge cannot be decoded, but is printed"
        );
        assert!(
            graph.digest().is_err(),
            "an edge cannot be decoded, but is digested"
        );
    } else {
        round_trip(&graph);
    }
}

/// Bytes as an ELF object: its graph is written or refused; what was written reads as the same
/// graph, but for what a file cannot keep, and written again it is the same bytes.
pub fn object_write(bytes: &[u8]) {
    let Some(graph) = object(bytes) else { return };
    let arch = arch_named(graph.target().name).expect("the reader knows it");
    let written = match write_object(&graph, arch) {
        Ok(written) => written,
        Err(error) => return told(&error),
    };
    let again = read_written(&written);
    if let Some(violation) = verify(&again, Stage::Read).first() {
        panic!("{violation}");
    }
    if is_kept(&graph)
        && let Err(wrong) = oracle::same_meaning(&graph, &again)
    {
        panic!("{wrong}");
    }
    let second = write_object(&again, arch).unwrap_or_else(|error| panic!("{error}"));
    assert!(second == written, "written again it is other bytes");
}

fn read_written(bytes: &[u8]) -> LinkGraph {
    let name = InputName::file("input.o");
    let graph = read_object(name, Bytes::copy_from_slice(bytes));
    graph.unwrap_or_else(|error| panic!("what was written cannot be read: {error}"))
}

/// Whether a file can keep all of the graph of another: local symbols come first in every file
/// that is written, of a symbol of what does not take part nothing stays but its name and type
/// (a global one becomes undefined), symbol 0 is there if anything names the symbols' table, and has
/// no name, and the old name of compressed sections goes.
fn is_kept(graph: &LinkGraph) -> bool {
    let is_old = |name: &[u8]| name.starts_with(b".zdebug");
    let goes = |symbol| {
        let flags = graph.symbol_flags(symbol);
        flags.is_discarded() && (flags.is_global() || graph.symbol_size(symbol) != 0)
    };
    let symbols = || graph.symbols();
    symbols().is_sorted_by_key(|symbol| graph.symbol_flags(symbol).is_global())
        && !symbols().any(goes)
        && match symbols().next() {
            Some(first) => graph.symbol_name(first).is_empty(),
            None => !graph
                .sections()
                .any(|id| graph.section_kind(id) == SectionKind::Addrsig),
        }
        && !graph.sections().any(|id| is_old(graph.section_name(id)))
}

/// Bytes as choices of a graph: it is sound, its text says all, and borrowing its content and
/// edges from an input changes nothing.
pub fn generated_graph(bytes: &[u8]) {
    let graph = generate::graph(bytes);
    let copy = borrowed(&graph);
    let checked = oracle::check(&graph)
        .and_then(|()| oracle::check(&copy))
        .and_then(|()| oracle::same_meaning(&graph, &copy));
    if let Err(wrong) = checked {
        panic!("{wrong}");
    }
}

/// Bytes as a graph's text form: what parses is sound and prints as a text that parses to the
/// same.
pub fn graph_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match parse(text) {
        Ok(graph) => {
            if let Some(violation) = verify(&graph, Stage::Read).first() {
                panic!("{violation}");
            }
            walk(&graph);
            round_trip(&graph);
        }
        Err(error) => {
            let lines = text.lines().count().max(1);
            let line = usize::try_from(error.line).unwrap_or(usize::MAX);
            assert!((1..=lines).contains(&line), "{error}: of {lines} lines");
        }
    }
}

/// Bytes as a message between a controller and an executor, in the direction that the first byte
/// says: the kind, then the payload. What can be read is written as the same bytes, so a message
/// has one encoding, and no list of it is longer than the bytes are worth.
pub fn executor_messages(bytes: &[u8]) {
    let Some((&[direction, low, high], payload)) = bytes.split_first_chunk() else {
        return;
    };
    let kind = u16::from_le_bytes([low, high]);
    let mut again = Vec::new();
    let read = match direction % 4 {
        0 => ToExecutor::decode(kind, payload).map(|message| {
            message.encode(&mut again);
            black_box((message.name(), message.runs_code()));
            message.kind()
        }),
        1 => ToController::decode(kind, payload).map(|message| {
            message.encode(&mut again);
            if let ToController::Reply(Reply::Refused(refusal)) = &message {
                told(refusal);
            }
            message.kind()
        }),
        2 => Handshake::decode(kind, payload).map(|message| {
            message.encode(&mut again);
            message.kind()
        }),
        _ => return frame_header(payload),
    };
    match read {
        Ok(same) => {
            assert_eq!(same, kind, "another kind");
            assert_eq!(again, payload, "another encoding");
        }
        Err(error) => told(&error),
    }
}

/// Bytes as a frame's header.
fn frame_header(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else {
        return;
    };
    match Header::decode(*bytes, MAX_PAYLOAD) {
        Ok(header) => {
            assert!(usize::try_from(header.size).is_ok_and(|size| size <= MAX_PAYLOAD));
            assert_eq!(header.encode(), *bytes);
        }
        Err(error) => told(&error),
    }
}

/// Bytes as an archive: members end, lie inside, and are found again by their offset; the index
/// names only what is inside, and its table finds each name's first member.
pub fn archive(bytes: &[u8]) {
    let archive = match Archive::parse(Bytes::copy_from_slice(bytes)) {
        Ok(archive) => archive,
        Err(error) => return told(&error),
    };
    let mut seen = 0;
    for member in archive.members() {
        seen += 1;
        assert!(seen <= bytes.len(), "more members than bytes");
        let member = match member {
            Ok(member) => member,
            Err(error) => {
                told(&error);
                continue;
            }
        };
        assert_eq!(archive.member_at(member.offset).as_ref(), Ok(&member));
        if let Some(content) = archive.content(&member) {
            assert!(content.len() <= bytes.len());
            black_box(FileKind::of(&content).describe());
        }
    }
    index(&archive, bytes.len());
}

fn index(archive: &Archive, len: usize) {
    let entries = match archive.index() {
        Ok(Some(index)) => index.entries(),
        Ok(None) => return,
        Err(error) => return told(&error),
    };
    let table = IndexTable::new(archive);
    let mut names = 0;
    for entry in entries {
        match entry {
            Ok(entry) => {
                names += 1;
                assert!(usize::try_from(entry.member).is_ok_and(|member| member < len));
                if let Ok(Some(table)) = &table {
                    assert!(
                        table.find(entry.name).is_some(),
                        "a name is not found again"
                    );
                }
                if let Err(error) = archive.member_at(entry.member) {
                    told(&error);
                }
            }
            Err(error) => {
                told(&error);
                assert!(table.is_err(), "a broken index became a table");
            }
        }
    }
    if let Ok(Some(table)) = table {
        assert!(table.len() <= names);
        assert_eq!(table.iter().count(), table.len());
    }
}

/// Bytes as a shared object: its names, versions and symbols can be looked at and looked up.
pub fn shared_object(bytes: &[u8]) {
    let object = match SharedObject::parse(Bytes::copy_from_slice(bytes)) {
        Ok(object) => object,
        Err(error) => return told(&error),
    };
    black_box((
        object.soname(),
        object.rpath(),
        object.runpath(),
        object.is_program(),
    ));
    black_box((object.needed().count(), object.defined_versions().count()));
    black_box((object.load_segments().len(), object.relro()));
    let n_symbols = usize::try_from(object.n_symbols()).unwrap_or(usize::MAX);
    assert!(
        n_symbols <= bytes.len() / 16 + 1,
        "more symbols than fit into the file"
    );
    for symbol in object.symbols() {
        let symbol = match symbol {
            Ok(symbol) => symbol,
            Err(error) => {
                told(&error);
                continue;
            }
        };
        black_box((
            object.alignment(&symbol.raw),
            object.is_read_only(symbol.raw.value),
        ));
        match object.find(symbol.name) {
            Ok(Some(found)) => {
                assert_eq!(found.name, symbol.name);
                assert!(found.is_default(), "{found:?} is no default");
            }
            // The hash table of a broken file does not find what the symbol table holds.
            Ok(None) => {}
            Err(error) => told(&error),
        }
        if let Some(version) = symbol.version.name()
            && let Ok(Some(found)) = object.find_version(symbol.name, version)
        {
            assert_eq!(
                (found.name, found.version.name()),
                (symbol.name, Some(version))
            );
        }
    }
}

/// Reads an object, or shows the error.
fn object(bytes: &[u8]) -> Option<LinkGraph> {
    let name = InputName::file("input.o");
    match read_object(name, Bytes::copy_from_slice(bytes)) {
        Ok(graph) => Some(graph),
        Err(error) => {
            told(&error);
            None
        }
    }
}

/// An error can be shown.
fn told(error: &impl std::error::Error) {
    assert!(!error.to_string().is_empty());
}

fn parse(text: &str) -> Result<LinkGraph, dump::ParseError> {
    dump::parse(text, find_target)
}

/// Looks at everything in a graph.
fn walk(graph: &LinkGraph) {
    for section in graph.sections() {
        black_box(graph.section(section));
        for block in graph.section_blocks(section) {
            assert_eq!(graph.block_section(block), section);
        }
    }
    let mut edges = Vec::new();
    for block in graph.blocks() {
        let size = graph.block_size(block);
        let content = graph.content(block).bytes();
        if !graph.is_zero_fill(block) {
            assert_eq!(u64::try_from(content.len()), Ok(size));
            // Touches the bytes.
            black_box(
                content
                    .iter()
                    .fold(0_u8, |sum, &byte| sum.wrapping_add(byte)),
            );
        }
        let decoded = graph.edges(block, &mut edges);
        if let Err(error) = decoded {
            told(&error);
        } else {
            assert_eq!(graph.n_edges(block), edges.len());
            assert!(edges.is_empty() || !graph.has_no_edges(block));
        }
        for edge in &edges {
            assert!(u64::from(edge.offset) <= size, "{edge:?} of {size} bytes");
            black_box(graph.symbol(edge.target));
        }
    }
    for symbol in graph.symbols() {
        black_box((graph.symbol(symbol), graph.symbol_name(symbol)));
        if let Addressable::Block { block, offset } = graph.addressable(symbol) {
            assert!(offset <= graph.block_size(block));
        }
    }
    for comdat in graph.comdats().iter() {
        black_box(graph.symbol_name(graph.comdat(comdat).signature));
    }
}

/// The text form parses to a graph that means the same and prints the same.
fn round_trip(graph: &LinkGraph) {
    if let Err(wrong) = oracle::text_round_trip(graph) {
        panic!("{wrong}");
    }
}
