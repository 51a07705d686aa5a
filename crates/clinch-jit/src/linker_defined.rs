//! Symbols that programs expect of the linker: the GOT's base, the dylib's handle, `atexit`, the
//! bounds of the image.

use clinch_graph::{
    GraphError, LinkGraph, Names, NewBlock, NewContent, NewSection, Prot, SectionFlags,
    SectionKind, SymbolFlags, SymbolId,
};
use clinch_link::Resolution;
use clinch_link::layout::{Layout, SegmentKind};
use clinch_link::tables::instantiate;
use clinch_target::Arch;

/// Symbols whose address follows from the layout.
#[derive(Debug, Default)]
pub(crate) struct AfterLayout {
    symbols: Vec<(SymbolId, Bound)>,
    /// The base of the GOT, when something asks for it.
    pub(crate) got: Option<SymbolId>,
    /// The dylib's handle, when this link made it.
    pub(crate) handle: Option<SymbolId>,
}

/// A place in the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    Start,
    CodeEnd,
    DataEnd,
    ZeroStart,
    End,
}

const BOUNDS: [(&[u8], Bound); 10] = [
    (b"__executable_start", Bound::Start),
    (b"__ehdr_start", Bound::Start),
    (b"etext", Bound::CodeEnd),
    (b"_etext", Bound::CodeEnd),
    (b"__etext", Bound::CodeEnd),
    (b"edata", Bound::DataEnd),
    (b"_edata", Bound::DataEnd),
    (b"__bss_start", Bound::ZeroStart),
    (b"end", Bound::End),
    (b"_end", Bound::End),
];

/// Whether a name is one that the linker defines when nothing else does.
pub(crate) fn is_linker_defined(name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 4] = [
        b"_GLOBAL_OFFSET_TABLE_",
        b"__dso_handle",
        b"atexit",
        b"_TLS_MODULE_BASE_",
    ];
    OTHERS.contains(&name)
        || name.starts_with(b"__start_")
        || name.starts_with(b"__stop_")
        || BOUNDS.iter().any(|(known, _)| *known == name)
}

/// Defines what is undefined and the linker's to define. `is_linked` says which names an earlier
/// link of the same dylib has defined.
pub(crate) fn define(
    graph: &mut LinkGraph,
    arch: &Arch,
    names: &Names,
    resolution: &Resolution,
    is_linked: impl Fn(&[u8]) -> bool,
) -> Result<AfterLayout, GraphError> {
    let mut after = AfterLayout::default();
    let undefined: Vec<(SymbolId, Vec<u8>)> = resolution
        .undefined()
        .iter()
        .filter_map(|&name| Some((resolution.of_name(name)?, names.name(graph, name).to_vec())))
        .collect();
    let wants_atexit = undefined.iter().any(|(_, name)| name == b"atexit");
    let mut handle = None;
    for (symbol, name) in undefined {
        if is_linked(&name) {
            continue;
        }
        match name.as_slice() {
            b"_GLOBAL_OFFSET_TABLE_" => {
                let kind = SectionKind::Got;
                let flags = SectionFlags::RELRO;
                let new = NewSection {
                    kind,
                    flags,
                    ..NewSection::new(Prot::RW)
                };
                let section = graph.add_section(b"$__GOT", new);
                define_word(graph, section, symbol)?;
                after.got = Some(symbol);
            }
            b"__dso_handle" => {
                let section = graph.add_section(b"$__HANDLE", NewSection::new(Prot::R));
                define_word(graph, section, symbol)?;
                handle = Some(symbol);
                after.handle = handle;
            }
            name => {
                let bound = BOUNDS.iter().find(|(known, _)| *known == name);
                after
                    .symbols
                    .extend(bound.map(|&(_, bound)| (symbol, bound)));
            }
        }
    }
    if wants_atexit
        && !is_linked(b"atexit")
        && let Some(symbol) = symbol_named(graph, names, resolution, b"atexit")
    {
        let handle = match handle {
            Some(handle) => handle,
            None if is_linked(b"__dso_handle") => graph.add_external(b"__dso_handle", false),
            None => {
                let section = graph.add_section(b"$__HANDLE", NewSection::new(Prot::R));
                let symbol = graph.add_external(b"__dso_handle", false);
                define_word(graph, section, symbol)?;
                symbol
            }
        };
        after.handle = Some(handle);
        let register = symbol_named(graph, names, resolution, b"__cxa_atexit")
            .unwrap_or_else(|| graph.add_external(b"__cxa_atexit", false));
        let section = graph.add_section(b"$__ATEXIT", NewSection::new(Prot::RX));
        let block = instantiate(graph, section, &arch.stubs.atexit, &[handle, register])?;
        let size = graph.block_size(block);
        graph.make_defined(symbol, block, 0, size)?;
    }
    Ok(after)
}

fn symbol_named(
    graph: &LinkGraph,
    names: &Names,
    resolution: &Resolution,
    name: &[u8],
) -> Option<SymbolId> {
    resolution.of_name(names.find(graph, name)?)
}

fn define_word(
    graph: &mut LinkGraph,
    section: clinch_graph::SectionId,
    symbol: SymbolId,
) -> Result<(), GraphError> {
    let content = NewContent::Owned(vec![0; 8]);
    let block = graph.add_block(NewBlock {
        section,
        content,
        align: 8,
        align_offset: 0,
    })?;
    graph.make_defined(symbol, block, 0, 8)?;
    graph.set_symbol_flag(symbol, SymbolFlags::OBJECT, true);
    Ok(())
}

impl AfterLayout {
    /// The symbols.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.symbols.iter().map(|&(symbol, _)| symbol)
    }

    /// Whether the symbol is one of these.
    pub(crate) fn contains(&self, symbol: SymbolId) -> bool {
        self.symbols.iter().any(|&(known, _)| known == symbol)
    }

    /// The symbols' addresses.
    pub(crate) fn addresses(&self, layout: &Layout) -> Vec<(SymbolId, u64)> {
        let end_of = |kind: SegmentKind| {
            let ends = layout
                .segments
                .iter()
                .filter(|(_, segment)| segment.kind == kind);
            ends.map(|(base, segment)| (base + segment.content_size, base + segment.size))
                .max()
        };
        let start = layout
            .segments
            .iter()
            .map(|&(base, _)| base)
            .min()
            .unwrap_or(0);
        let end = layout
            .segments
            .iter()
            .map(|(base, segment)| base + segment.size)
            .max();
        let data = end_of(SegmentKind::Data);
        self.symbols
            .iter()
            .map(|&(symbol, bound)| {
                let address = match bound {
                    Bound::Start => start,
                    Bound::CodeEnd => end_of(SegmentKind::Code).map_or(start, |(_, end)| end),
                    Bound::DataEnd | Bound::ZeroStart => data.map_or(start, |(end, _)| end),
                    Bound::End => data.map_or_else(|| end.unwrap_or(start), |(_, end)| end),
                };
                (symbol, address)
            })
            .collect()
    }
}
