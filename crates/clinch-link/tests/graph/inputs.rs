//! Makes inputs of a graph that was parsed from text, the way an object reader would: names and
//! contents in the input's bytes, one block a section, groups that do not prevail left out.

use bytes::Bytes;
use clinch_graph::Workers;
use clinch_graph::index::int::{u32_of, u64_of, usize_of};
use clinch_graph::{
    Addressable, BlockId, Comdat, ComdatId, Edge, Id, IdRange, IdSet, InputId, InputName,
    LinkGraph, Names, NewInput, NewSection, ReadBlock, SectionId, SymbolBase, SymbolId, SymbolPart,
};
use clinch_link::resolve;

/// Where an input begins: its first symbol's and first section's number, counted from 0.
#[derive(Clone, Copy)]
struct Start {
    symbol: usize,
    section: usize,
}

/// `inputs [$N:sN…]`: the graph's entities become those of `a.o`; each argument names the first
/// symbol and the first section of a further input, `b.o` and so on.
pub(crate) fn run(graph: &mut LinkGraph, arguments: &[&str]) -> Result<Option<String>, String> {
    let mut starts = vec![Start {
        symbol: 0,
        section: 0,
    }];
    for argument in arguments {
        const USAGE: &str = "inputs takes arguments such as $3:s2";
        let numbers = argument
            .strip_prefix('$')
            .and_then(|rest| rest.split_once(":s"))
            .and_then(|(symbol, section)| {
                Some((
                    symbol.parse::<usize>().ok()?,
                    section.parse::<usize>().ok()?,
                ))
            });
        let (symbol, section) = numbers.ok_or(USAGE)?;
        let start = Start {
            symbol: symbol.wrapping_sub(1),
            section: section.wrapping_sub(1),
        };
        let last = starts[starts.len() - 1];
        if start.symbol < last.symbol || start.section < last.section {
            return Err("inputs must be ascending".to_owned());
        }
        starts.push(start);
    }
    *graph = rebuild(graph, &starts)?;
    Ok(None)
}

/// Makes one input of a graph that has none.
pub(crate) fn ensure(graph: &mut LinkGraph) -> Result<(), String> {
    if graph.n_inputs() == 1 {
        *graph = rebuild(
            graph,
            &[Start {
                symbol: 0,
                section: 0,
            }],
        )?;
    }
    Ok(())
}

fn rebuild(old: &LinkGraph, starts: &[Start]) -> Result<LinkGraph, String> {
    let blocks = block_of_each_section(old)?;
    let end = Start {
        symbol: old.n_symbols(),
        section: old.n_sections(),
    };
    let ends = starts.iter().skip(1).copied().chain([end]);
    let ranges: Vec<(Start, Start)> = starts.iter().copied().zip(ends).collect();
    if ranges
        .iter()
        .any(|(from, to)| from.symbol > to.symbol || from.section > to.section)
    {
        return Err("an input begins behind the graph's end".to_owned());
    }
    let mut graph = LinkGraph::new(old.name(), old.target());
    let mut files: Vec<File> = Vec::new();
    let mut new_inputs = Vec::new();
    for (&(from, to), letter) in ranges.iter().zip('a'..='z') {
        let file = File::write(old, &blocks, from, to);
        new_inputs.push(NewInput {
            name: InputName::file(&format!("{letter}.o")),
            bytes: Bytes::from(file.bytes.clone()),
            symbol_names: 0..file.bytes.len(),
            section_names: 0..file.bytes.len(),
            source: None,
            n_symbols: to.symbol - from.symbol,
        });
        files.push(file);
    }
    let inputs = graph.add_inputs(&Workers::new(1), new_inputs);

    let mut parts = graph.symbol_parts(inputs);
    for ((part, file), &(from, to)) in parts.iter_mut().zip(&files).zip(&ranges) {
        for (n, index) in (from.symbol..to.symbol).enumerate() {
            let symbol = SymbolId::from_index(index);
            let base = base_of(old, symbol, from.section)?;
            let (size, flags) = (old.symbol_size(symbol), old.symbol_flags(symbol));
            if !part.set(n, file.symbol_names[n], base, size, flags) {
                return Err("a symbol does not fit its input".to_owned());
            }
        }
    }
    let rests = parts.into_iter().map(SymbolPart::into_rest).collect();
    graph.finish_symbols(rests);
    let new_comdats = comdats(old, &mut graph, inputs);
    let chosen = choose(&graph, inputs);

    // What stays of each input's sections.
    let kept: Vec<Vec<usize>> = ranges
        .iter()
        .map(|&(from, to)| {
            let stays = |&section: &usize| match old.section(SectionId::from_index(section)).comdat
            {
                Some(comdat) => chosen.contains(new_comdats[comdat.index()]),
                None => true,
            };
            (from.section..to.section).filter(stays).collect()
        })
        .collect();
    let lens: Vec<usize> = kept.iter().map(Vec::len).collect();
    let mut new_blocks: Vec<Option<BlockId>> = vec![None; blocks.len()];
    let mut parts = graph.block_parts(&Workers::new(1), inputs, &lens);
    for (number, part) in parts.iter_mut().enumerate() {
        let from = ranges[number].0;
        for &section in &kept[number] {
            let read = files[number].read_block(old, &blocks, section, from, &new_comdats);
            let n = part.push(&read).ok_or("a section does not fit its input")?;
            new_blocks[section] = Some(part.block_id(n));
        }
        let kept = &kept[number];
        part.resolve_symbols(|section| {
            kept.iter()
                .position(|&old| old == from.section + usize_of(section))
                .map(u32_of)
        })
        .map_err(|error| format!("{error:?}"))?;
    }
    drop(parts);
    finish(old, &mut graph, &blocks, &new_blocks)?;
    Ok(graph)
}

/// Every section has one block, and blocks come in the order of sections, as readers make them.
fn block_of_each_section(graph: &LinkGraph) -> Result<Vec<BlockId>, String> {
    let blocks: Vec<BlockId> = graph.blocks().collect();
    let fits = graph.n_sections() == blocks.len()
        && blocks
            .iter()
            .zip(graph.sections())
            .all(|(&block, s)| graph.block_section(block) == s);
    if fits {
        Ok(blocks)
    } else {
        Err("every section must have one block, in the sections' order".to_owned())
    }
}

fn base_of(
    graph: &LinkGraph,
    symbol: SymbolId,
    first_section: usize,
) -> Result<SymbolBase, String> {
    Ok(match graph.addressable(symbol) {
        Addressable::Block { block, offset } => {
            let section = graph
                .block_section(block)
                .index()
                .checked_sub(first_section);
            let section = section.ok_or("a symbol lies in another input's section")?;
            SymbolBase::Section {
                section: u32_of(section),
                offset,
            }
        }
        Addressable::Absolute(value) => SymbolBase::Absolute(value),
        Addressable::External => SymbolBase::External,
        Addressable::Common { align } => SymbolBase::Common {
            align: u32::try_from(align).map_err(|error| error.to_string())?,
        },
        Addressable::Discarded | Addressable::Null => SymbolBase::Section {
            section: u32::MAX,
            offset: 0,
        },
    })
}

/// Gives each input the groups that its symbols sign; answers their new ids, by the old ones.
fn comdats(old: &LinkGraph, graph: &mut LinkGraph, inputs: IdRange<InputId>) -> Vec<ComdatId> {
    let mut new = vec![ComdatId::from_index(0); old.comdats().len()];
    for input in inputs.iter() {
        let symbols = graph.input(input).symbols();
        let mine: Vec<ComdatId> = old
            .comdats()
            .iter()
            .filter(|&id| {
                symbols
                    .iter()
                    .any(|symbol| symbol == old.comdat(id).signature)
            })
            .collect();
        let made = mine.iter().map(|&id| Comdat {
            input,
            ..old.comdat(id)
        });
        let ids = graph.add_comdats(input, made);
        for (&old, id) in mine.iter().zip(ids.iter()) {
            new[old.index()] = id;
        }
    }
    new
}

fn choose(graph: &LinkGraph, inputs: IdRange<InputId>) -> IdSet<ComdatId> {
    let mut names = Names::new();
    names.add_inputs(graph, &Workers::new(1), inputs);
    resolve::choose_comdats(graph, &names, |_| true)
}

/// What parts cannot say: edges, alignment offsets, ordinals, associations.
fn finish(
    old: &LinkGraph,
    graph: &mut LinkGraph,
    blocks: &[BlockId],
    new_blocks: &[Option<BlockId>],
) -> Result<(), String> {
    let text = |error: clinch_graph::GraphError| error.to_string();
    let mut edges: Vec<Edge> = Vec::new();
    for (&block, &new) in blocks.iter().zip(new_blocks) {
        let Some(new) = new else { continue };
        old.edges(block, &mut edges)
            .map_err(|error| error.to_string())?;
        graph
            .set_edges(new, std::mem::take(&mut edges))
            .map_err(text)?;
        let (align, offset) = (old.block_align(block), old.block_align_offset(block));
        graph.set_block_align(new, align, offset).map_err(text)?;
    }
    for &(parent, child) in old.associations() {
        let new = |block| {
            blocks
                .iter()
                .position(|&b| b == block)
                .and_then(|n| new_blocks[n])
        };
        if let (Some(parent), Some(child)) = (new(parent), new(child)) {
            graph.associate(parent, child).map_err(text)?;
        }
    }
    Ok(())
}

/// An input's bytes: names and contents.
struct File {
    bytes: Vec<u8>,
    symbol_names: Vec<u32>,
    section_names: Vec<u32>,
    contents: Vec<u64>,
}

impl File {
    fn write(old: &LinkGraph, blocks: &[BlockId], from: Start, to: Start) -> Self {
        // The name at offset 0 is the empty one.
        let mut bytes = vec![0];
        let mut name = |text: &[u8]| {
            let offset = if text.is_empty() { 0 } else { bytes.len() };
            if !text.is_empty() {
                bytes.extend_from_slice(text);
                bytes.push(0);
            }
            u32_of(offset)
        };
        let symbols = (from.symbol..to.symbol).map(SymbolId::from_index);
        let symbol_names = symbols
            .map(|symbol| name(old.symbol_name(symbol)))
            .collect();
        let sections = (from.section..to.section).map(SectionId::from_index);
        let section_names = sections
            .map(|section| name(old.section_name(section)))
            .collect();
        let mut contents = Vec::new();
        for &block in &blocks[from.section..to.section] {
            contents.push(u64_of(bytes.len()));
            bytes.extend_from_slice(old.content(block).bytes());
        }
        Self {
            bytes,
            symbol_names,
            section_names,
            contents,
        }
    }

    fn read_block(
        &self,
        old: &LinkGraph,
        blocks: &[BlockId],
        index: usize,
        from: Start,
        new_comdats: &[ComdatId],
    ) -> ReadBlock {
        let (section, block) = (old.section(SectionId::from_index(index)), blocks[index]);
        let n = index - from.section;
        ReadBlock {
            name: self.section_names[n],
            section: NewSection {
                prot: section.prot,
                lifetime: section.lifetime,
                kind: section.kind,
                flags: section.flags,
                entry_size: section.entry_size,
                comdat: section.comdat.map(|comdat| new_comdats[comdat.index()]),
            },
            content: (!old.is_zero_fill(block)).then(|| self.contents[n]),
            size: old.block_size(block),
            align_log2: u8::try_from(old.block_align(block).trailing_zeros()).unwrap_or(63),
            table: 0,
        }
    }
}
