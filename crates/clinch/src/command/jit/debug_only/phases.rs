//! Debug type `jitlink`: what the steps of a link do to each file's graph.

use super::graph::{Block, Edge, FileGraph, Places, Symbol, View};
use super::{frames, reader};
use crate::command::jit::observe::linked;
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{BlockId, Input, InputId, Lifetime, LinkGraph, Prot, SectionKind, SymbolId};
use clinch_link::layout::{Layout, align_to};
use clinch_target::{Arch, EdgeFlags};
use std::collections::BTreeMap;

/// The files of a link, from one step to the next.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<Seen>,
}

/// What a file was like.
struct Seen {
    input: InputId,
    name: String,
    /// Before pruning, then without what pruning removed.
    read: FileGraph,
    /// Before fixing up.
    placed: Option<FileGraph>,
}

impl Files {
    /// Before pruning.
    pub(super) fn read(
        &mut self,
        graph: &LinkGraph,
        arch: &Arch,
        name: &dyn Fn(&Input) -> String,
    ) -> String {
        let mut text = String::new();
        let view = View::new(graph, Places::None);
        for input in linked(graph) {
            let object = graph.input(input);
            let name = name(object);
            reader::tell(arch, &name, object.bytes(), &mut text);
            text.push_str("Starting link phase 1\n");
            let mut read = FileGraph::new(&view, input, name.clone());
            frames::fit(graph, arch, &mut read, &mut text);
            text += &format!("Link graph pre-pruning:\n{read}");
            self.files.push(Seen {
                input,
                name,
                read,
                placed: None,
            });
        }
        text
    }

    /// After pruning; tables are made.
    pub(super) fn pruned(&mut self, graph: &LinkGraph) -> String {
        let mut text = String::new();
        let view = View::new(graph, Places::None);
        for file in &mut self.files {
            prune(graph, &mut file.read, &mut text);
            text += &format!("Link graph post-pruning:\n{}", file.read);
            let now = FileGraph::new(&view, file.input, file.name.clone());
            text.push_str("Visiting edges in graph:\n");
            tables(graph, &file.read, &now, &mut text);
        }
        text
    }

    /// Blocks have addresses.
    pub(super) fn allocated(&self, graph: &LinkGraph, layout: &Layout) -> String {
        let mut text = String::new();
        let view = View::new(graph, Places::Blocks(layout));
        for Seen { input, name, .. } in &self.files {
            let now = FileGraph::new(&view, *input, name.clone());
            segments(&now, &mut text);
            text += &format!(
                "Starting link phase 2\nLink graph before post-allocation passes:\n{now}\
                 Resolving symbols defined in {name}\n"
            );
            text += &if now.externals.is_empty() {
                format!(
                    "No external symbols for {name}. Proceeding immediately with link phase 3.\n"
                )
            } else {
                format!(
                    "Issuing lookup for external symbols for {name} (may trigger \
                     materialization/linking of other graphs)...\n"
                )
            };
        }
        text
    }

    /// Everything has an address.
    pub(super) fn resolved(&mut self, graph: &LinkGraph, layout: &Layout) -> String {
        let mut text = String::new();
        let view = View::new(graph, Places::All(layout));
        for file in &mut self.files {
            let now = FileGraph::new(&view, file.input, file.name.clone());
            text.push_str("Starting link phase 3\nExternals after applying lookup result:\n");
            for symbol in &now.externals {
                let (name, at) = (&symbol.name, symbol.address);
                text += &format!("  {name}: {at:#018x} (exported)\n");
            }
            text += &format!("Link graph before pre-fixup passes:\n{now}");
            file.placed = Some(now);
        }
        text
    }

    /// Contents are final.
    pub(super) fn fixed(&self, graph: &LinkGraph, arch: &Arch, layout: &Layout) -> String {
        let mut text = String::new();
        let view = View::new(graph, Places::All(layout));
        for file in &self.files {
            let now = FileGraph::new(&view, file.input, file.name.clone());
            text.push_str("Optimizing GOT entries and stubs:\n");
            optimized(graph, arch, file, &now, &mut text);
            text += &format!("Link graph before copy-and-fixup:\n{now}");
            text += &format!("Link graph after copy-and-fixup:\n{now}");
        }
        text
    }

    /// Debug type `llvm_jitlink`: which sections of each file rules can name.
    pub(super) fn registered(&self, graph: &LinkGraph, layout: &Layout) -> String {
        let view = View::new(graph, Places::All(layout));
        let mut text = String::new();
        for Seen { input, name, .. } in &self.files {
            let file = FileGraph::new(&view, *input, name.clone());
            text += &format!("Registering ELF file info for \"{name}\"\n");
            for (section, content) in &file.sections {
                let mut blocks = content.blocks.iter();
                let what = if blocks.any(|block| !block.symbols.is_empty()) {
                    "processing..."
                } else {
                    "empty. skipping."
                };
                text += &format!("  Section \"{section}\": {what}\n");
            }
        }
        text
    }

    /// Memory is final.
    pub(super) fn finished(&self) -> String {
        "Starting link phase 4\nLink complete\n".repeat(self.files.len())
    }
}

/// Takes what pruning removed out of a file's graph.
fn prune(graph: &LinkGraph, file: &mut FileGraph, text: &mut String) {
    let blocks = file.blocks().filter_map(|(_, block)| block.id);
    let live: Set<BlockId> = blocks.filter(|&block| graph.has_block(block)).collect();
    let records = frames::live_records(file, &live);
    let is_live = |section: &str, block: &Block| match block.id {
        Some(_) if section == frames::NAME => records.contains(&block.address),
        Some(id) => live.contains(&id),
        // Space of common symbols, and the end of call frame records.
        None => true,
    };
    let mut targets: Set<SymbolId> = Set::default();
    for (section, block) in file.blocks() {
        if is_live(section, block) {
            targets.extend(block.edges.iter().filter_map(|edge| edge.target));
        }
    }
    let is_needed = |symbol: &Symbol| {
        symbol.is_exported() || symbol.id.is_none_or(|symbol| targets.contains(&symbol))
    };
    text.push_str("Dead-stripping defined symbols:\n");
    let mut dead_blocks = "Dead-stripping blocks:\n".to_owned();
    for (name, section) in &mut file.sections {
        section.blocks.retain_mut(|block| {
            let is_live = is_live(name, block);
            if !is_live {
                dead_blocks += &format!("  {}...\n", block.describe(name));
            }
            block.symbols.retain_mut(|symbol| {
                symbol.is_live = is_live && is_needed(symbol);
                if !symbol.is_live {
                    *text += &format!("  {symbol}...\n");
                }
                symbol.is_live
            });
            is_live
        });
    }
    *text += &dead_blocks;
    text.push_str("Removing unused external symbols:\n");
    file.externals.retain_mut(|symbol| {
        symbol.is_live = symbol.id.is_none_or(|symbol| targets.contains(&symbol));
        if !symbol.is_live {
            *text += &format!("  {symbol}...\n");
        }
        symbol.is_live
    });
}

/// Which edges were led to entries of tables.
fn tables(graph: &LinkGraph, read: &FileGraph, now: &FileGraph, text: &mut String) {
    let blocks = blocks(now);
    let mut made: Set<BlockId> = Set::default();
    for (_, block) in read.blocks() {
        let Some(after) = block.id.and_then(|id| blocks.get(&id)) else {
            continue;
        };
        for (edge, now) in pairs(block, after) {
            if table_of(graph, edge).is_some() {
                continue;
            }
            let Some(entry) = table_of(graph, now) else {
                continue;
            };
            let (at, offset) = (block.address, edge.offset);
            *text += &format!(
                "  Fixing {} edge at {:#x} ({at:#x} + {offset:#x})\n",
                edge.kind_name,
                at.wrapping_add(offset.into())
            );
            let target = &edge.target_name;
            // A stub is made after the entry that it goes through.
            let through = blocks.get(&entry).and_then(|stub| {
                let mut edges = stub.edges.iter();
                edges.find_map(|edge| table_of(graph, edge))
            });
            if let Some(through) = through
                && !made.contains(&entry)
            {
                use_entry(graph, &blocks, through, target, &mut made, text);
            }
            use_entry(graph, &blocks, entry, target, &mut made, text);
        }
    }
}

fn use_entry(
    graph: &LinkGraph,
    blocks: &Map<BlockId, &Block>,
    entry: BlockId,
    target: &str,
    made: &mut Set<BlockId>,
    text: &mut String,
) {
    let section = String::from_utf8_lossy(graph.section_name(graph.block_section(entry)));
    let anonymous = |block: &&Block| Symbol::of_record(block);
    let Some(symbol) = blocks.get(&entry).map(anonymous) else {
        return;
    };
    if made.insert(entry) {
        *text += &format!("    Created {section} entry for {target}: {symbol}\n");
    }
    *text += &format!("    Using {section} entry {symbol}\n");
}

/// The table entry that an edge leads to.
fn table_of(graph: &LinkGraph, edge: &Edge) -> Option<BlockId> {
    let id = edge.target_block.as_ref()?.0?;
    let kind = graph.section_kind(graph.block_section(id));
    matches!(kind, SectionKind::Got | SectionKind::Stubs).then_some(id)
}

fn blocks(file: &FileGraph) -> Map<BlockId, &Block> {
    let blocks = file.blocks();
    blocks
        .filter_map(|(_, block)| Some((block.id?, block)))
        .collect()
}

/// The edges of a block with what became of them: those at the same place, or, where an
/// instruction was rewritten, a byte before it.
fn pairs<'e>(before: &'e Block, after: &'e Block) -> impl Iterator<Item = (&'e Edge, &'e Edge)> {
    let mut at: Map<u32, &Edge> = Map::default();
    for edge in after.edges.iter().filter(|edge| edge.kind.is_relocation()) {
        at.entry(edge.offset).or_insert(edge);
    }
    let edges = before.edges.iter().filter(|edge| edge.kind.is_relocation());
    edges.filter_map(move |edge| {
        let offset = edge.offset;
        let now = at
            .get(&offset)
            .or_else(|| at.get(&offset.checked_sub(1)?))?;
        Some((edge, *now))
    })
}

/// What a file takes of memory.
fn segments(file: &FileGraph, text: &mut String) {
    *text += &format!("Generated BasicLayout for {}:\n", file.name);
    let mut groups: BTreeMap<(Prot, bool), Vec<&Block>> = BTreeMap::new();
    let sections = file.sections.values();
    for section in sections.filter(|section| section.lifetime != Lifetime::NoAlloc) {
        let group = groups.entry((section.prot, section.lifetime == Lifetime::Finalize));
        group.or_default().extend(&section.blocks);
    }
    for ((prot, is_for_finalization), blocks) in groups {
        if blocks.is_empty() {
            continue;
        }
        let size = |from: u64, is_zero: bool| {
            let blocks = blocks.iter().filter(|block| block.is_zero == is_zero);
            blocks.fold(from, |at, block| {
                let start = align_to(at, block.align.max(1), block.align_offset);
                start.saturating_add(block.size)
            })
        };
        let content = size(0, false);
        let zero = size(content, true) - content;
        let align = blocks.iter().map(|block| block.align).max().unwrap_or(1);
        let lifetime = if is_for_finalization {
            "finalize"
        } else {
            "standard"
        };
        let prot = prot.to_string().to_uppercase();
        *text += &format!(
            "  Seg ({prot}, {lifetime}): content-size={content:#x}, zero-fill-size={zero:#x}, \
             align={align:#x}\n"
        );
    }
}

/// Which edges do without the entry that they asked for.
fn optimized(graph: &LinkGraph, arch: &Arch, file: &Seen, now: &FileGraph, text: &mut String) {
    let now_blocks = blocks(now);
    let placed = file.placed.as_ref().map(blocks).unwrap_or_default();
    for (_, block) in file.read.blocks() {
        let Some((id, after)) = block.id.and_then(|id| Some((id, *now_blocks.get(&id)?))) else {
            continue;
        };
        for (edge, now_edge) in pairs(block, after) {
            let flags = |edge: &Edge| arch.edge(edge.kind).map(|info| info.flags);
            let is_load = flags(edge).is_some_and(|flags| {
                flags.contains(EdgeFlags::RELAXABLE) && !flags.contains(EdgeFlags::TLS)
            });
            if !is_load || table_of(graph, now_edge).is_some() {
                continue;
            }
            let is_branch = flags(now_edge).is_some_and(|f| f.contains(EdgeFlags::BRANCH));
            let what = match (is_branch, now_edge.offset == edge.offset) {
                (false, _) => "Replaced GOT load wih LEA",
                (true, true) => "replaced call instruction's memory operand wih imm operand",
                (true, false) => "replaced jmp instruction's memory operand wih imm operand",
            };
            let edge = now.describe_edge(after, now_edge);
            *text += &format!("  {what}:\n    {edge}\n");
        }
        let Some(before) = placed.get(&id) else {
            continue;
        };
        for (edge, now_edge) in pairs(before, after) {
            let is_branch = arch
                .stub_branches
                .iter()
                .any(|(_, kind)| *kind == edge.kind);
            if is_branch && table_of(graph, now_edge).is_none() {
                let edge = now.describe_edge(after, now_edge);
                *text += &format!("  Replaced stub branch with direct branch:\n    {edge}\n");
            }
        }
    }
}
