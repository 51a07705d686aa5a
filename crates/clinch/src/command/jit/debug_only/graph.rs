//! A file's part of a link as the graph of its own that llvm-jitlink would have of it, and the text
//! forms of that: the dump, and a symbol, block or edge inside a line.

use clinch_graph::index::map::{Map, Set};
use clinch_graph::{
    Addressable, BlockId, Edge as GraphEdge, EdgeKind, InputId, Lifetime, LinkGraph, Linkage, Prot,
    Scope, SectionId, SectionKind, SymbolFlags, SymbolId,
};
use clinch_link::layout::Layout;
use std::collections::BTreeMap;
use std::fmt;

/// What is known of addresses at a point of the link.
#[derive(Clone, Copy)]
pub(super) enum Places<'l> {
    /// Nothing: every block lies at 0, as in the object.
    None,
    /// Where blocks lie.
    Blocks(&'l Layout),
    /// Where all symbols lie.
    All(&'l Layout),
}

impl Places<'_> {
    /// A block's address; `None` when it is not linked.
    fn block(self, block: BlockId) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Blocks(layout) | Self::All(layout) => layout.block(block),
        }
    }

    /// A symbol's address.
    pub(super) fn symbol(self, graph: &LinkGraph, symbol: SymbolId) -> u64 {
        match (self, graph.addressable(symbol)) {
            (Self::All(layout), _) => layout.symbol(symbol),
            (_, Addressable::Block { block, offset }) => {
                self.block(block).unwrap_or(0).wrapping_add(offset)
            }
            (_, Addressable::Absolute(value)) => value,
            _ => 0,
        }
    }
}

/// The graph of one file.
#[derive(Clone, Debug)]
pub(super) struct FileGraph {
    pub(super) name: String,
    arch: &'static str,
    /// By name: sections of one name are one.
    pub(super) sections: BTreeMap<String, Section>,
    absolutes: Vec<Symbol>,
    pub(super) externals: Vec<Symbol>,
}

/// A section of a file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) prot: Prot,
    pub(super) lifetime: Lifetime,
    /// Ascending by address.
    pub(super) blocks: Vec<Block>,
}

/// A block of a file.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// `None` for space of a common symbol, which has no block before pruning.
    pub(super) id: Option<BlockId>,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) align: u64,
    pub(super) align_offset: u64,
    pub(super) is_zero: bool,
    pub(super) symbols: Vec<Symbol>,
    pub(super) edges: Vec<Edge>,
}

/// A symbol of a file.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    /// `None` for one that stands for a call frame record.
    pub(super) id: Option<SymbolId>,
    pub(super) name: String,
    pub(super) address: u64,
    /// Offset in its block.
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) flags: SymbolFlags,
    pub(super) is_defined: bool,
    pub(super) is_live: bool,
}

/// An edge of a file.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) offset: u32,
    pub(super) kind: EdgeKind,
    pub(super) kind_name: &'static str,
    pub(super) addend: i64,
    /// `None` for a call frame record.
    pub(super) target: Option<SymbolId>,
    pub(super) target_name: String,
    pub(super) target_address: u64,
    /// The block that it leads into, with the offset in it and the section's name.
    pub(super) target_block: Option<(Option<BlockId>, u64, String)>,
}

/// A link's graph, to take the files' graphs from.
pub(super) struct View<'l> {
    graph: &'l LinkGraph,
    places: Places<'l>,
    /// The symbols that steps made, by their block.
    made: Map<BlockId, Vec<SymbolId>>,
    /// The call frame records of functions.
    records: Map<BlockId, Vec<BlockId>>,
}

impl<'l> View<'l> {
    pub(super) fn new(graph: &'l LinkGraph, places: Places<'l>) -> Self {
        let mut made: Map<BlockId, Vec<SymbolId>> = Map::default();
        for symbol in graph.symbols() {
            if graph.symbol_input(symbol) == LinkGraph::linker_input()
                && let Some(block) = graph.symbol_block(symbol)
            {
                made.entry(block).or_default().push(symbol);
            }
        }
        let mut records: Map<BlockId, Vec<BlockId>> = Map::default();
        for &(function, record) in graph.associations() {
            if graph.has_block(record)
                && graph.section_kind(graph.block_section(record)) == SectionKind::EhFrame
            {
                records.entry(function).or_default().push(record);
            }
        }
        Self {
            graph,
            places,
            made,
            records,
        }
    }

    /// Whether blocks that nothing needs are gone.
    fn is_pruned(&self) -> bool {
        !matches!(self.places, Places::None)
    }

    /// The edges by which a function keeps its call frame records.
    fn kept(&self, function: BlockId) -> impl Iterator<Item = Edge> {
        let records = self.records.get(&function).into_iter().flatten();
        records.filter_map(|&record| {
            let at = self.places.block(record)?;
            let section = self.graph.section_name(self.graph.block_section(record));
            Some(Edge::to_record(
                self.graph,
                0,
                EdgeKind::KEEP_ALIVE,
                Some(record),
                at,
                lossy(section),
            ))
        })
    }
}

impl FileGraph {
    /// The graph of an input. `name` is what messages call the input.
    pub(super) fn new(view: &View<'_>, input: InputId, name: String) -> Self {
        let graph = view.graph;
        let mut file = Self {
            name,
            arch: graph.target().name,
            sections: BTreeMap::new(),
            absolutes: Vec::new(),
            externals: Vec::new(),
        };
        let mut taken: Set<BlockId> = Set::default();
        let input = graph.input(input);
        for section in input.sections().iter() {
            file.section(graph, section);
            for block in graph.section_blocks(section) {
                file.add(view, block, &mut taken);
            }
        }
        for symbol in input.symbols().iter() {
            file.add_symbol(view, symbol, &mut taken);
        }
        file.add_entries(view, &mut taken);
        file.add_symbols_in_blocks(view, input.symbols().iter());
        for section in file.sections.values_mut() {
            section
                .blocks
                .sort_by_key(|block| (block.address, block.id));
        }
        file
    }

    fn section(&mut self, graph: &LinkGraph, section: SectionId) -> &mut Section {
        let name = match (graph.section_kind(section), graph.section_name(section)) {
            (_, b"COMMON") => ".common".to_owned(),
            (_, name) => lossy(name),
        };
        self.sections.entry(name).or_insert_with(|| Section {
            prot: graph.section_prot(section),
            lifetime: graph.section_lifetime(section),
            blocks: Vec::new(),
        })
    }

    /// Adds a block with its edges, unless it is not linked or there already.
    fn add(&mut self, view: &View<'_>, id: BlockId, taken: &mut Set<BlockId>) {
        let (graph, places) = (view.graph, view.places);
        let Some(address) = graph.has_block(id).then(|| places.block(id)).flatten() else {
            return;
        };
        if !taken.insert(id) {
            return;
        }
        let mut edges = Vec::new();
        // What cannot be decoded fails the link elsewhere.
        let _ = graph.edges(id, &mut edges);
        let mut block = Block {
            id: Some(id),
            address,
            size: graph.block_size(id),
            align: graph.block_align(id),
            align_offset: graph.block_align_offset(id),
            is_zero: graph.is_zero_fill(id),
            symbols: Vec::new(),
            edges: edges
                .iter()
                .map(|edge| Edge::new(graph, edge, places))
                .collect(),
        };
        block.edges.extend(view.kept(id));
        if view.is_pruned() && graph.section_kind(graph.block_section(id)) == SectionKind::EhFrame {
            block.symbols.push(Symbol {
                is_live: true,
                ..Symbol::of_record(&block)
            });
        }
        self.section(graph, graph.block_section(id))
            .blocks
            .push(block);
    }

    /// Adds a symbol of the file that is in none of its blocks, or the block that a step made
    /// for it.
    fn add_symbol(&mut self, view: &View<'_>, id: SymbolId, taken: &mut Set<BlockId>) {
        let (graph, places) = (view.graph, view.places);
        let flags = graph.symbol_flags(id);
        match graph.addressable(id) {
            // Marks, such as the source's name, have no value.
            Addressable::Absolute(0) if !flags.is_global() => {}
            Addressable::Absolute(_) => self.absolutes.push(Symbol::new(graph, id, places)),
            Addressable::External => {
                let mut symbol = Symbol::new(graph, id, places);
                symbol.is_live = view.is_pruned();
                self.externals.push(symbol);
            }
            Addressable::Common { align } => {
                let size = graph.symbol_size(id);
                let symbol = Symbol {
                    is_defined: true,
                    is_live: true,
                    flags: flags | SymbolFlags::WEAK,
                    ..Symbol::new(graph, id, places)
                };
                let common = self.sections.entry(".common".to_owned());
                let common = common.or_insert_with(|| Section {
                    prot: Prot::RW,
                    lifetime: Lifetime::Standard,
                    blocks: Vec::new(),
                });
                common.blocks.push(Block {
                    id: None,
                    address: 0,
                    size,
                    align,
                    align_offset: 0,
                    is_zero: true,
                    symbols: vec![symbol],
                    edges: Vec::new(),
                });
            }
            Addressable::Block { block, .. } => {
                if graph.block_input(block) == LinkGraph::linker_input() {
                    self.add(view, block, taken);
                }
            }
            Addressable::Discarded | Addressable::Null => {}
        }
    }

    /// Adds the GOT entries and stubs that the blocks so far lead to: each file has its own in
    /// llvm-jitlink.
    fn add_entries(&mut self, view: &View<'_>, taken: &mut Set<BlockId>) {
        let mut wanted = self.entries(view.graph);
        while !wanted.is_empty() {
            for block in std::mem::take(&mut wanted) {
                self.add(view, block, taken);
            }
            wanted = self.entries(view.graph);
            wanted.retain(|block| !taken.contains(block));
        }
    }

    /// The blocks of tables that edges lead to.
    fn entries(&self, graph: &LinkGraph) -> Vec<BlockId> {
        let edges = self.blocks().flat_map(|(_, block)| &block.edges);
        let blocks = edges.filter_map(|edge| edge.target_block.as_ref()?.0);
        blocks
            .filter(|&block| graph.block_input(block) == LinkGraph::linker_input())
            .filter(|&block| {
                let kind = graph.section_kind(graph.block_section(block));
                matches!(kind, SectionKind::Got | SectionKind::Stubs)
            })
            .collect()
    }

    /// Adds the symbols that lie in the file's blocks: its own and those that steps made.
    fn add_symbols_in_blocks(&mut self, view: &View<'_>, own: impl Iterator<Item = SymbolId>) {
        let mut targets: Set<SymbolId> = Set::default();
        for (_, block) in self.blocks() {
            targets.extend(block.edges.iter().filter_map(|edge| edge.target));
        }
        let mut symbols: Map<BlockId, Vec<SymbolId>> = Map::default();
        for id in own {
            if let Some(block) = view.graph.symbol_block(id) {
                symbols.entry(block).or_default().push(id);
            }
        }
        if view.is_pruned() {
            // What only dead blocks referred to is gone.
            let blocks = self.sections.values().flat_map(|section| &section.blocks);
            let edges = blocks.flat_map(|block| &block.edges);
            let named: Set<&str> = edges.map(|edge| edge.target_name.as_str()).collect();
            let symbols = self.externals.iter();
            let is_used: Vec<bool> = symbols.map(|s| named.contains(s.name.as_str())).collect();
            let mut is_used = is_used.into_iter();
            self.externals.retain(|_| is_used.next().unwrap_or(true));
        }
        for section in self.sections.values_mut() {
            for block in &mut section.blocks {
                let Some(id) = block.id else { continue };
                let own = [symbols.get(&id), view.made.get(&id)];
                for &id in own.into_iter().flatten().flatten() {
                    let mut symbol = Symbol::new(view.graph, id, view.places);
                    // The place in this file, whoever prevails.
                    symbol.address = block.address.wrapping_add(symbol.offset);
                    symbol.is_live =
                        symbol.flags.is_global() || view.is_pruned() && targets.contains(&id);
                    block.symbols.push(symbol);
                }
                block.symbols.sort_by(Symbol::order);
            }
        }
    }

    /// All blocks, with their sections' names.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&str, &Block)> {
        let sections = self.sections.iter();
        sections.flat_map(|(name, section)| {
            let blocks = section.blocks.iter();
            blocks.map(move |block| (name.as_str(), block))
        })
    }

    /// The lowest address of a section.
    pub(super) fn start_of(&self, section: &str) -> u64 {
        let section = self.sections.get(section);
        let first = section.and_then(|section| section.blocks.first());
        first.map_or(0, |block| block.address)
    }

    /// An edge inside a line.
    pub(super) fn describe_edge(&self, block: &Block, edge: &Edge) -> String {
        let at = block.address.wrapping_add(u64::from(edge.offset));
        let mut text = format!(
            "edge@{at:#x}: {:#x} + {:#x} -- {} -> ",
            block.address, edge.offset, edge.kind_name
        );
        match &edge.target_block {
            Some((_, offset, section)) if edge.target_name.is_empty() => {
                let target = edge.target_address;
                text += &format!("{target:#x} (section {section}");
                let distance = target.wrapping_sub(self.start_of(section));
                if distance != 0 {
                    text += &format!(" + {distance:#x}");
                }
                text += &format!(" / block {:#x}", target.wrapping_sub(*offset));
                if *offset != 0 {
                    text += &format!(" + {offset:#x}");
                }
                text.push(')');
            }
            _ => text += &edge.target_name,
        }
        if edge.addend != 0 {
            text += &format!(" + {}", edge.addend);
        }
        text
    }
}

/// The dump.
impl fmt::Display for FileGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, arch) = (&self.name, self.arch);
        writeln!(f, "LinkGraph \"{name}\" (triple = {arch}--)")?;
        for (name, section) in &self.sections {
            writeln!(f, "section {name}:\n")?;
            for block in &section.blocks {
                writeln!(f, "{block}")?;
            }
        }
        writeln!(f, "Absolute symbols:")?;
        lines(f, &self.absolutes)?;
        writeln!(f, "\nExternal symbols:")?;
        lines(f, &self.externals)
    }
}

fn lines(f: &mut fmt::Formatter<'_>, symbols: &[Symbol]) -> fmt::Result {
    if symbols.is_empty() {
        writeln!(f, "  none")?;
    }
    for symbol in symbols {
        let weak = symbol.flags.contains(SymbolFlags::WEAKLY_REFERENCED);
        let weak = if weak { " (weakly referenced)" } else { "" };
        writeln!(f, "  {:#x}: {symbol}{weak}", symbol.address)?;
    }
    Ok(())
}

impl Block {
    /// A block inside a line.
    pub(super) fn describe(&self, section: &str) -> String {
        let (start, size) = (self.address, self.size);
        let end = start.wrapping_add(size);
        let content = if self.is_zero { "zero-fill" } else { "content" };
        let (align, offset) = (self.align, self.align_offset);
        format!(
            "{start:#x} -- {end:#x}: size = {size:#010x}, {content}, align = {align}, \
             align-ofs = {offset}, section = {section}"
        )
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.address;
        writeln!(
            f,
            "  block {at:#x} size = {:#010x}, align = {}, alignment-offset = {}{}",
            self.size,
            self.align,
            self.align_offset,
            if self.is_zero { ", zero-fill" } else { "" }
        )?;
        if self.symbols.is_empty() {
            writeln!(f, "    no symbols")?;
        } else {
            writeln!(f, "    symbols:")?;
        }
        for symbol in &self.symbols {
            writeln!(f, "      {symbol}")?;
        }
        if self.edges.is_empty() {
            return writeln!(f, "    no edges");
        }
        writeln!(f, "    edges:")?;
        let mut edges: Vec<&Edge> = self.edges.iter().collect();
        edges.sort_by_key(|edge| edge.offset);
        for edge in edges {
            let sign = if edge.addend < 0 { '-' } else { '+' };
            write!(
                f,
                "      {:#x} (block + {:#010x}), addend = {sign}{:#010x}, kind = {}, target = ",
                at.wrapping_add(u64::from(edge.offset)),
                edge.offset,
                edge.addend.unsigned_abs(),
                edge.kind_name
            )?;
            match &edge.target_block {
                Some((_, offset, _)) if edge.target_name.is_empty() => {
                    writeln!(f, "addressable@{:#x}+{offset:#010x}", edge.target_address)?;
                }
                _ => writeln!(f, "{}", edge.target_name)?,
            }
        }
        Ok(())
    }
}

impl Symbol {
    fn new(graph: &LinkGraph, id: SymbolId, places: Places<'_>) -> Self {
        let offset = match graph.addressable(id) {
            Addressable::Block { offset, .. } => offset,
            _ => 0,
        };
        Self {
            id: Some(id),
            name: lossy(graph.symbol_name(id)),
            address: places.symbol(graph, id),
            offset,
            size: graph.symbol_size(id),
            flags: graph.symbol_flags(id),
            is_defined: graph.symbol_block(id).is_some(),
            is_live: false,
        }
    }

    /// The symbol that stands for a whole call frame record.
    pub(super) fn of_record(record: &Block) -> Self {
        Self {
            id: None,
            name: String::new(),
            address: record.address,
            offset: 0,
            size: record.size,
            flags: SymbolFlags::empty().with_scope(Scope::Local),
            is_defined: true,
            is_live: false,
        }
    }

    /// What a symbol that other files can name has: a name and a scope beyond its file.
    pub(super) fn is_exported(&self) -> bool {
        self.flags.is_global() && !self.name.is_empty()
    }

    /// The order in which a block's symbols are printed.
    pub(super) fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |symbol: &Self| {
            let (linkage, scope) = (symbol.flags.linkage(), symbol.flags.scope());
            (symbol.offset, linkage, scope, symbol.name.is_empty())
        };
        key(self)
            .cmp(&key(other))
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = if self.is_defined {
            "block"
        } else {
            "addressable"
        };
        let linkage = match self.flags.linkage() {
            Linkage::Strong => "strong",
            Linkage::Weak => "weak",
        };
        let scope = match self.flags.scope() {
            Scope::Default | Scope::Protected => "default",
            Scope::Hidden => "hidden",
            // LLVM cuts names of scopes off after eight characters.
            Scope::SideEffectsOnly => "side-eff",
            Scope::Local => "local",
        };
        let live = if self.is_live { "live" } else { "dead" };
        let name = match self.name.as_str() {
            "" => "<anonymous symbol>",
            name => name,
        };
        write!(
            f,
            "{:#x} ({base} + {:#010x}): size: {:#010x}, linkage: {linkage}, scope: {scope}, \
             {live}  -   {name}",
            self.address, self.offset, self.size
        )
    }
}

impl Edge {
    fn new(graph: &LinkGraph, edge: &GraphEdge, places: Places<'_>) -> Self {
        let target_block = match graph.addressable(edge.target) {
            Addressable::Block { block, offset } => {
                let section = graph.section_name(graph.block_section(block));
                Some((Some(block), offset, lossy(section)))
            }
            _ => None,
        };
        Self {
            offset: edge.offset,
            kind: edge.kind,
            kind_name: kind_name(graph, edge.kind),
            addend: edge.addend,
            target: Some(edge.target),
            target_name: lossy(graph.symbol_name(edge.target)),
            target_address: places.symbol(graph, edge.target),
            target_block,
        }
    }

    /// An edge to a call frame record.
    pub(super) fn to_record(
        graph: &LinkGraph,
        offset: u32,
        kind: EdgeKind,
        record: Option<BlockId>,
        at: u64,
        section: String,
    ) -> Self {
        Self {
            offset,
            kind,
            kind_name: kind_name(graph, kind),
            addend: 0,
            target: None,
            target_name: String::new(),
            target_address: at,
            target_block: Some((record, 0, section)),
        }
    }
}

/// The name of an edge kind in these texts.
fn kind_name(graph: &LinkGraph, kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::KEEP_ALIVE => "Keep-Alive",
        kind => graph.target().kind_name(kind),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
