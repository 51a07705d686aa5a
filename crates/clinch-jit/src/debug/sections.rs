//! The debug sections of a finished link: those of all inputs, put behind one another and fixed up
//! with the addresses of what is in memory, as a static linker would do for a file.
//!
//! A link reads no debug information into its graph, so this reads the inputs a second time, whole,
//! into a graph of its own. Symbols of the two graphs belong together by input and number.
//!
//! What refers to code or data that is not in memory (COMDAT copies that did not prevail, dead
//! functions) gets a value that readers of DWARF know as "not there": see [`absent`].

use crate::error::{LinkError, LinkErrors};
use bytes::Bytes;
use clinch_graph::index::int::{u64_of, usize_of_u64};
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, BlockId, Edge, Id, IdSet, Input, InputId, InputName, Lifetime, LinkGraph, Names,
    Prot, SectionKind, SymbolId, Workers,
};
use clinch_link::fixup::LinkFixupError;
use clinch_link::layout::{Layout, SegmentKind, align_to};
use clinch_link::place::Place;
use clinch_object::elf::raw::{Header, name_at};
use clinch_object::{
    FileKind, InputError, ReadError, ReadErrorKind, ReadOptions, add_blocks, add_objects,
};
use clinch_target::{Arch, FixupContext, TlsBlock};

/// A debug section of the whole link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DebugSection {
    /// Its name, that of the uncompressed form.
    pub(crate) name: Vec<u8>,
    /// Its alignment in bytes.
    pub(crate) align: u64,
    /// Its bytes.
    pub(crate) content: Vec<u8>,
}

/// Sections that only make reading others faster. Each is one table, so two behind one another are
/// none, and debuggers warn of it.
const LOOKUP_TABLES: [&[u8]; 5] = [
    b".debug_names",
    b".debug_pubnames",
    b".debug_pubtypes",
    b".debug_gnu_pubnames",
    b".debug_gnu_pubtypes",
];

/// Links the debug sections of those inputs of which something is in memory.
///
/// # Errors
/// Inputs whose debug sections cannot be read, or records of them that cannot be applied.
pub(crate) fn link(
    graph: &LinkGraph,
    layout: &Layout,
    arch: &Arch,
    workers: &Workers,
) -> Result<Vec<DebugSection>, LinkErrors> {
    let placed = placed_inputs(graph, layout);
    let inputs: Vec<(InputId, &Input)> = graph
        .inputs()
        .filter(|&(id, input)| placed.contains(id) && has_debug_sections(input.bytes()))
        .collect();
    if inputs.is_empty() {
        return Ok(Vec::new());
    }
    let (own, pairs) = read(graph, &inputs, workers)?;
    let (mut sections, blocks) = arrange(&own)?;
    let addresses = Addresses::new(graph, layout, &own, &pairs, &blocks);
    let cost = blocks
        .iter()
        .map(|block| usize_of_u64(own.block_size(block.id)))
        .sum();
    let contents = workers.map(cost, blocks, |block| {
        let name = &sections[block.section].name;
        let content = fix_up(&own, arch, &addresses, &block, absent(name));
        (block, content)
    });
    let mut errors = Vec::new();
    for (block, content) in contents {
        let section = &mut sections[block.section].content;
        match content {
            Ok(content) => {
                section.resize(usize_of_u64(block.offset), 0);
                section.extend_from_slice(&content);
            }
            Err(error) => errors.push(error),
        }
    }
    LinkErrors::or(errors, sections)
}

/// The inputs of which a block is in memory.
fn placed_inputs(graph: &LinkGraph, layout: &Layout) -> IdSet<InputId> {
    let mut placed = IdSet::with_len(graph.n_inputs());
    for (_, segment) in &layout.segments {
        for &(block, _) in &segment.blocks {
            placed.insert(graph.block_input(block));
        }
    }
    placed
}

/// Whether a file is an object with debug sections, by their names. What cannot be read has none.
fn has_debug_sections(bytes: &[u8]) -> bool {
    if FileKind::of(bytes) != FileKind::ElfRelocatable {
        return false;
    }
    let Ok(header) = Header::parse(bytes) else {
        return false;
    };
    let sections = header.sections(bytes);
    let names = sections
        .need("section names", header.names)
        .and_then(|names| names.data(bytes, "section names"));
    names.is_ok_and(|names| {
        sections.iter().any(|(_, section)| {
            name_at(names, section.name)
                .is_some_and(|name| name.starts_with(b".debug") || name.starts_with(b".zdebug"))
        })
    })
}

/// Inputs of the link with the same inputs in the graph that holds their debug sections.
type Pairs = Vec<(InputId, InputId)>;

fn read(
    graph: &LinkGraph,
    inputs: &[(InputId, &Input)],
    workers: &Workers,
) -> Result<(LinkGraph, Pairs), LinkErrors> {
    let mut own = LinkGraph::new("debug", graph.target());
    let files: Vec<(InputName, Bytes)> = inputs
        .iter()
        .map(|(_, input)| (input.name.clone(), input.bytes().clone()))
        .collect();
    let added = add_objects(
        &mut own,
        &mut Names::new(),
        workers,
        files,
        ReadOptions { metadata: true },
    )?;
    let ids = added.inputs;
    // All copies of a group: what refers to the copy of its own object must find it.
    let all = |_| true;
    add_blocks(&mut own, workers, ids, added.objects, all, |_| true)?;
    let pairs = inputs.iter().map(|&(id, _)| id).zip(ids.iter()).collect();
    Ok((own, pairs))
}

/// A block of a debug section, with its place in the section of the whole link.
#[derive(Clone, Copy, Debug)]
struct Placed {
    id: BlockId,
    /// The section's position among the link's.
    section: usize,
    offset: u64,
}

/// More than any debug section needs; a file may ask for more than there is memory.
const MOST_ALIGNED: u64 = 16;

/// Puts the debug sections of one name behind one another, in the order of inputs.
fn arrange(own: &LinkGraph) -> Result<(Vec<DebugSection>, Vec<Placed>), InputError> {
    let (mut sections, mut sizes) = (Vec::<DebugSection>::new(), Vec::<u64>::new());
    let mut numbers: Map<Vec<u8>, usize> = Map::default();
    let mut blocks = Vec::new();
    // Bytes of each file that no section has yet. Else a small file could have each of many
    // sections hold all of it. (The reader sees to those that it decompresses.)
    let mut unused: Map<InputId, usize> = Map::default();
    for id in own.blocks() {
        let section = own.block_section(id);
        if own.section_kind(section) != SectionKind::Debug || own.is_zero_fill(id) {
            continue;
        }
        let name = uncompressed_name(own.section_name(section));
        let size = own.content(id).bytes().len();
        if let Some(offset) = own.content_file_offset(id) {
            let input = own.block_input(id);
            let whole = || own.input(input).bytes().len();
            let unused = unused.entry(input).or_insert_with(whole);
            *unused = unused.checked_sub(size).ok_or_else(|| InputError {
                input: own.input(input).name.clone(),
                section: Some(String::from_utf8_lossy(&name).into_owned()),
                source: ReadError::new(offset, ReadErrorKind::Overlap("debug sections")),
            })?;
        }
        if LOOKUP_TABLES.contains(&name.as_slice()) {
            continue;
        }
        let section = *numbers.entry(name).or_insert_with_key(|name| {
            sections.push(DebugSection {
                name: name.clone(),
                align: 1,
                content: Vec::new(),
            });
            sizes.push(0);
            sections.len() - 1
        });
        let align = own.block_align(id).min(MOST_ALIGNED);
        let offset = align_to(sizes[section], align, 0);
        sizes[section] = offset.saturating_add(u64_of(size));
        sections[section].align = sections[section].align.max(align);
        blocks.push(Placed {
            id,
            section,
            offset,
        });
    }
    Ok((sections, blocks))
}

/// The name of a section without the sign of old compressed ones: the graph holds it decompressed.
fn uncompressed_name(name: &[u8]) -> Vec<u8> {
    match name.strip_prefix(b".z") {
        Some(rest) if rest.starts_with(b"debug") => [b".", rest].concat(),
        _ => name.to_vec(),
    }
}

/// What a reference to something that is not in memory becomes in a section. Debuggers leave out
/// functions at 0, and line tables at the highest address even where no function tells them that
/// there are others. In lists that end with two zeros it is an empty range.
fn absent(section: &[u8]) -> u64 {
    match section {
        b".debug_line" => u64::MAX,
        b".debug_loc" | b".debug_ranges" => 1,
        _ => 0,
    }
}

/// What the symbols of the inputs stand for.
struct Addresses {
    /// By the symbol's position.
    values: Vec<u64>,
    /// Those of what is not in memory.
    absent: IdSet<SymbolId>,
    tls: TlsBlock,
}

impl Addresses {
    fn new(
        graph: &LinkGraph,
        layout: &Layout,
        own: &LinkGraph,
        pairs: &Pairs,
        blocks: &[Placed],
    ) -> Self {
        let offsets: Map<BlockId, u64> = blocks
            .iter()
            .map(|block| (block.id, block.offset))
            .collect();
        let mut values = vec![0; own.n_symbols()];
        let mut absent = IdSet::with_len(own.n_symbols());
        for &(theirs, ours) in pairs {
            let theirs = graph.input(theirs).symbols();
            for (n, symbol) in own.input(ours).symbols().iter().enumerate() {
                let linked = theirs.get(n);
                let value = match own.addressable(symbol) {
                    Addressable::Block { block, offset } => match offsets.get(&block) {
                        Some(start) => Some(start.wrapping_add(offset)),
                        None => in_memory(graph, layout, own, (symbol, block), linked),
                    },
                    Addressable::Absolute(value) => Some(value),
                    Addressable::External | Addressable::Common { .. } => {
                        prevailing(layout, linked)
                    }
                    Addressable::Discarded => None,
                    Addressable::Null => Some(0),
                };
                match value {
                    Some(value) => values[symbol.index()] = value,
                    None => {
                        absent.insert(symbol);
                    }
                }
            }
        }
        let image = layout
            .segments
            .iter()
            .find(|(_, segment)| segment.kind == SegmentKind::ThreadLocal);
        let tls = TlsBlock {
            image: image.map_or(0, |&(base, _)| base),
            tp_offset: None,
        };
        Self {
            values,
            absent,
            tls,
        }
    }
}

/// The address of what an input defines, if that very definition is in memory. Data may also be
/// another input's of the same name: there is one variable then.
fn in_memory(
    graph: &LinkGraph,
    layout: &Layout,
    own: &LinkGraph,
    (symbol, block): (SymbolId, BlockId),
    linked: Option<SymbolId>,
) -> Option<u64> {
    let section = own.block_section(block);
    if own.section_lifetime(section) == Lifetime::NoAlloc {
        return None;
    }
    let here = match graph.addressable(linked?) {
        Addressable::Block { block, offset } => layout
            .block(block)
            .map(|address| address.wrapping_add(offset)),
        _ => None,
    };
    let is_data = !own.section_prot(section).contains(Prot::EXEC);
    let by_name = || (is_data && own.symbol_flags(symbol).is_global()).then_some(());
    here.or_else(|| by_name().and_then(|()| prevailing(layout, linked)))
}

fn prevailing(layout: &Layout, symbol: Option<SymbolId>) -> Option<u64> {
    Some(layout.symbol(symbol?)).filter(|&address| address != 0)
}

/// A block's content with its edges applied.
fn fix_up(
    own: &LinkGraph,
    arch: &Arch,
    addresses: &Addresses,
    placed: &Placed,
    absent: u64,
) -> Result<Vec<u8>, LinkError> {
    let mut content = own.content(placed.id).bytes().to_vec();
    if own.has_no_edges(placed.id) {
        return Ok(content);
    }
    let mut edges = Vec::new();
    own.edges(placed.id, &mut edges).map_err(|error| *error)?;
    let null = own.input(own.block_input(placed.id)).symbols().get(0);
    for edge in &mut edges {
        if addresses.absent.contains(edge.target)
            && let Some(null) = null
        {
            // The whole value, whatever the addend, cut to the field.
            let bits = arch
                .edge(edge.kind)
                .map_or(64, |row| u32::from(row.field.width) * 8);
            let mask = u64::MAX
                .checked_shr(64_u32.saturating_sub(bits))
                .unwrap_or(0);
            edge.target = null;
            edge.addend = (absent & mask).cast_signed();
        }
    }
    let size_of = |symbol| own.symbol_size(symbol);
    let context = FixupContext {
        addresses: &addresses.values,
        size_of: &size_of,
        got: 0,
        tls: Some(addresses.tls),
    };
    match (arch.apply)(&context, placed.offset, &edges, &mut content) {
        Ok(()) => Ok(content),
        Err(error) => {
            let Edge {
                offset,
                kind,
                target,
                addend,
            } = error.edge;
            let to = addresses.values.get(target.index()).copied().unwrap_or(0);
            let at = placed.offset.saturating_add(u64::from(offset));
            let name = String::from_utf8_lossy(own.symbol_name(target)).into_owned();
            Err(LinkError::Fixup(LinkFixupError::Edge {
                place: Place::of(own, placed.id, u64::from(offset)),
                kind: arch.graph.kind_name(kind),
                target: if name.is_empty() {
                    "an anonymous symbol".to_owned()
                } else {
                    name
                },
                to,
                at,
                addend,
                distance: i128::from(to) - i128::from(at),
                why: error.kind,
            }))
        }
    }
}
