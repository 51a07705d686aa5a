//! What `-show-…` prints, in llvm-jitlink's form.

use super::image::{File, Image, Placed, address, block_of, is_mark};
use super::observe::{Observed, absolutes_of};
use super::{objects, symtab};
use crate::flags::jit::JitOptions;
use bytes::Bytes;
use clinch_graph::{Addressable, BlockId, Edge, LinkGraph, Linkage, Scope, SymbolFlags, SymbolId};
use clinch_object::elf::raw::st;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// Everything that is printed of a finished link.
pub(super) fn linked(image: &Image<'_>, options: &JitOptions) -> Result<(), String> {
    let show = &options.show;
    let mut text = String::new();
    for file in &image.files {
        if let Some(regex) = &show.graphs
            && regex.is_match(&file.name)
        {
            graph(image, file, &mut text);
        }
        if show.contents {
            contents(image, file, &mut text);
        }
    }
    print!("{text}");
    if show.final_symbols {
        if options.process_symbols {
            process();
        }
        for (number, name) in options.dylibs.iter().enumerate() {
            let mut units = image.observed.inputs.units(number);
            for (_, link) in image.links.iter().filter(|(of, _)| *of == number) {
                let inputs = link.graph.inputs().skip(1);
                units.extend(inputs.filter(|(_, input)| input.name.member.is_some()).map(
                    |(_, input)| Unit {
                        name: image.observed.inputs.name_of(input),
                        is_member: true,
                        bytes: input.bytes().clone(),
                    },
                ));
            }
            let place = |unit: &str, name: &str| image.linked_address(unit, name);
            let all = symbols(&units, &absolutes_of(options, name), &place);
            dylib(name, options.process_symbols, &all);
        }
    }
    if show.addresses {
        print!("{}", addresses(image)?);
    }
    if let Some(path) = &options.symbol_table {
        symtab::write(image, path)?;
    }
    let after = image.links.iter().flat_map(|(_, link)| {
        let graph = &link.graph;
        let placed = graph
            .blocks()
            .filter(|&block| link.layout.block(block).is_some());
        placed.map(|block| graph.block_size(block))
    });
    if show.size_before || show.size_after {
        eprintln!("Statistics:");
    }
    if show.size_before {
        let size = image.observed.size_before.load(Ordering::Relaxed);
        eprintln!("  Total size of all blocks before pruning: {size}");
    }
    if show.size_after {
        let size: u64 = after.sum();
        eprintln!("  Total size of all blocks after fixups: {size}");
    }
    Ok(())
}

/// A file's graph: sections with their blocks, symbols and edges, then what it refers to.
fn graph(image: &Image<'_>, file: &File, text: &mut String) {
    let link = image.link(file);
    let graph = &link.graph;
    let name = &file.name;
    let arch = image.arch.graph.name;
    *text += &format!("Link graph \"{name}\" post-fixup:\n");
    *text += &format!("LinkGraph \"{name}\" (triple = {arch}--)\n");
    let mut edges: Vec<Edge> = Vec::new();
    let mut externals: BTreeMap<String, SymbolId> = BTreeMap::new();
    for section in &file.sections {
        *text += &format!("section {}:\n\n", section.name);
        for &block in &section.blocks {
            let at = link.layout.block(block).unwrap_or(0);
            let zero = if graph.is_zero_fill(block) {
                ", zero-fill"
            } else {
                ""
            };
            *text += &format!(
                "  block {at:#x} size = {:#010x}, align = {}, alignment-offset = {}{zero}\n",
                graph.block_size(block),
                graph.block_align(block),
                graph.block_align_offset(block)
            );
            let mut symbols = section
                .symbols
                .iter()
                .filter(|&&symbol| graph.symbol_block(symbol) == Some(block))
                .peekable();
            *text += if symbols.peek().is_some() {
                "    symbols:\n"
            } else {
                "    no symbols\n"
            };
            for &symbol in symbols {
                let place = address(link, symbol).unwrap_or(at);
                *text += &format!(
                    "      {place:#x} (block + {:#010x}): {}\n",
                    place.wrapping_sub(at),
                    describe(graph, symbol)
                );
            }
            // What cannot be decoded failed the link.
            let _ = graph.edges(block, &mut edges);
            edges.sort_by_key(|edge| edge.offset);
            *text += if edges.is_empty() {
                "    no edges\n"
            } else {
                "    edges:\n"
            };
            for edge in &edges {
                let target = link.resolution.prevailing(edge.target);
                let sign = if edge.addend < 0 { '-' } else { '+' };
                *text += &format!(
                    "      {:#x} (block + {:#010x}), addend = {sign}{:#010x}, kind = {}, target = ",
                    at + u64::from(edge.offset),
                    edge.offset,
                    edge.addend.unsigned_abs(),
                    graph.target().kind_name(edge.kind)
                );
                let name = String::from_utf8_lossy(graph.symbol_name(target)).into_owned();
                if name.is_empty() {
                    let base = block_of(link, target)
                        .and_then(|block| link.layout.block(block))
                        .unwrap_or(0);
                    let offset = address(link, target).unwrap_or(base) - base;
                    *text += &format!("addressable@{base:#x}+{offset:#010x}\n");
                    continue;
                }
                *text += &format!("{name}\n");
                let is_own = section_has(file, block_of(link, target));
                if !is_own && graph.symbol_flags(target).is_global() {
                    externals.insert(name, target);
                }
            }
            text.push('\n');
        }
    }
    let symbols = graph.input(file.input).symbols();
    let absolutes: Vec<SymbolId> = symbols
        .iter()
        .filter(|&symbol| {
            matches!(graph.addressable(symbol), Addressable::Absolute(_))
                && !graph.symbol_name(symbol).is_empty()
                && !is_mark(graph, symbol)
        })
        .collect();
    let line = |text: &mut String, symbol: SymbolId, tail: &str| {
        let at = link.layout.symbol(symbol);
        let external = graph.symbol_name(symbol);
        let external = String::from_utf8_lossy(external);
        *text += &format!(
            "  {at:#x}: {at:#x} (addressable + 0x00000000): size: {:#010x}, linkage: strong, \
             scope: {}, live  -   {external}{tail}\n",
            graph.symbol_size(symbol),
            scope(graph.symbol_flags(symbol)),
        );
    };
    *text += "Absolute symbols:\n";
    if absolutes.is_empty() {
        *text += "  none\n";
    }
    for symbol in absolutes {
        line(text, symbol, "");
    }
    *text += "\nExternal symbols:\n";
    if externals.is_empty() {
        *text += "  none\n";
    }
    for &symbol in externals.values() {
        let flags = graph.symbol_flags(symbol);
        let weak = flags.contains(SymbolFlags::WEAKLY_REFERENCED) && flags.is_external();
        line(text, symbol, if weak { " (weakly referenced)" } else { "" });
    }
}

fn section_has(file: &File, block: Option<BlockId>) -> bool {
    block.is_some_and(|block| {
        let mut sections = file.sections.iter();
        sections.any(|section| section.blocks.contains(&block))
    })
}

fn describe(graph: &LinkGraph, symbol: SymbolId) -> String {
    let flags = graph.symbol_flags(symbol);
    let linkage = match flags.linkage() {
        Linkage::Strong => "strong",
        Linkage::Weak => "weak",
    };
    let name = match graph.symbol_name(symbol) {
        b"" => "<anonymous symbol>".into(),
        name => String::from_utf8_lossy(name),
    };
    // What pruning left is live; what the linker made has nobody to say so.
    let is_made = graph.symbol_input(symbol) == LinkGraph::linker_input();
    let live = if is_made { "dead" } else { "live" };
    format!(
        "size: {:#010x}, linkage: {linkage}, scope: {}, {live}  -   {name}",
        graph.symbol_size(symbol),
        scope(flags)
    )
}

fn scope(flags: SymbolFlags) -> &'static str {
    match flags.scope() {
        Scope::Default | Scope::Protected => "default",
        Scope::Hidden => "hidden",
        Scope::SideEffectsOnly => "side-effects-only",
        Scope::Local => "local",
    }
}

/// The bytes of a file's sections, 16 a line.
fn contents(image: &Image<'_>, file: &File, text: &mut String) {
    let link = image.link(file);
    *text += &format!("Relocated section contents for {}:\n", file.name);
    for section in &file.sections {
        *text += &format!("{} content:\n", section.name);
        if section.blocks.is_empty() {
            *text += "  section empty\n";
        }
        for &block in &section.blocks {
            let at = link.layout.block(block).unwrap_or(0);
            let size = usize::try_from(link.graph.block_size(block)).unwrap_or(usize::MAX);
            let bytes = image.observed.read_up_to(at, size);
            for (address, line) in (at..).step_by(16).zip(bytes.chunks(16)) {
                *text += &format!("{address:#x}:");
                for byte in line {
                    let _ = write!(text, " {byte:02x}");
                }
                text.push('\n');
            }
        }
    }
}

/// Where everything is that rules can name.
fn addresses(image: &Image<'_>) -> Result<String, String> {
    let mut text = "Registered addresses:\nSymbols:\n".to_owned();
    for (name, placed) in image.symbols() {
        text += &format!("  \"{name}\" {}\n", place(placed));
    }
    for file in &image.files {
        text += &format!("File \"{}\":\n", file.short);
        for section in &file.sections {
            if let Some(placed) = image.placed_section(file, section) {
                text += &format!("  Section \"{}\": {}\n", section.name, place(placed?));
            }
        }
        for (kind, entries) in [("GOT", &file.got), ("Stubs", &file.stubs)] {
            for entry in entries {
                let placed = image.placed_entry(file, entry);
                text += &format!("  {kind} \"{}\": {}\n", entry.target, place(placed));
            }
        }
    }
    Ok(text)
}

fn place(placed: Placed) -> String {
    let Placed { address, size, .. } = placed;
    if placed.has_content {
        let end = address.saturating_add(size);
        format!("target addr = {address:#018x}, content: {address:#x} -- {end:#x} ({size} bytes)")
    } else {
        format!("target addr = {address:#018x}, zero-fill: {size} bytes")
    }
}

/// An entry of the dylib's symbol table.
pub(super) struct Entry {
    address: Option<u64>,
    kind: &'static str,
    strength: &'static str,
    is_hidden: bool,
    /// The number and name of what defines it, while that is not linked.
    unit: Option<(usize, String)>,
}

/// A name with its entry.
type Symbol = (String, Entry);

/// An object of a dylib.
pub(super) struct Unit {
    pub(super) name: String,
    /// A member of an archive.
    pub(super) is_member: bool,
    pub(super) bytes: Bytes,
}

/// Prints what dylibs define before anything is linked.
pub(super) fn initial(observed: &Observed, options: &JitOptions) {
    if options.process_symbols {
        process();
    }
    for (number, name) in options.dylibs.iter().enumerate() {
        let units = observed.inputs.units(number);
        let all = symbols(&units, &absolutes_of(options, name), &|_, _| None);
        dylib(name, options.process_symbols, &all);
    }
}

/// The symbol table of a dylib: what its objects define, and the members of archives that were
/// linked. `place` answers the addresses of linked names by their objects.
fn symbols(
    units: &[Unit],
    absolutes: &[(String, u64)],
    place: &dyn Fn(&str, &str) -> Option<u64>,
) -> Vec<Symbol> {
    let mut all: BTreeMap<String, Entry> = BTreeMap::new();
    let mut n_initializers = 0;
    let mut any_linked = false;
    for (number, object) in (1..).zip(units) {
        let mut is_linked = false;
        let name = &object.name;
        let unit = (number, name.clone());
        for entry in objects::symbols(&object.bytes).unwrap_or_default() {
            if !entry.is_global_definition() {
                continue;
            }
            let text = String::from_utf8_lossy(entry.name).into_owned();
            let address = place(name, &text);
            is_linked |= address.is_some();
            let strength = strength(&entry);
            let is_better = |old: &Entry| match (address, old.address) {
                (Some(_), None) => true,
                (None, Some(_)) => false,
                _ => strength.is_empty() && !old.strength.is_empty(),
            };
            if object.is_member && address.is_none()
                || all.get(&text).is_some_and(|old| !is_better(old))
            {
                continue;
            }
            let symbol = Entry {
                address,
                kind: if entry.symbol.kind() == st::FUNC {
                    "[Callable]"
                } else {
                    "[Data]"
                },
                strength,
                is_hidden: entry.symbol.visibility() == st::HIDDEN,
                unit: address.is_none().then(|| unit.clone()),
            };
            all.insert(text, symbol);
        }
        any_linked |= is_linked;
        if (is_linked || !object.is_member) && objects::has_initializers(&object.bytes) {
            let short = name.rsplit('/').next().unwrap_or_default();
            let text = format!("$.{short}.__inits.{n_initializers}");
            n_initializers += 1;
            let symbol = Entry {
                address: None,
                kind: "[Data]",
                strength: "",
                is_hidden: true,
                unit: (!is_linked).then_some(unit),
            };
            all.insert(text, symbol);
        }
    }
    for (name, address) in absolutes {
        let symbol = Entry {
            address: any_linked.then_some(*address),
            kind: "[Data]",
            strength: "",
            is_hidden: false,
            unit: (!any_linked).then(|| (0, "<Absolute Symbols>".to_owned())),
        };
        all.entry(name.clone()).or_insert(symbol);
    }
    all.into_iter().collect()
}

fn strength(entry: &objects::Entry<'_>) -> &'static str {
    match (entry.is_common(), entry.is_weak()) {
        (true, _) => "[Common]",
        (false, true) => "[Weak]",
        (false, false) => "",
    }
}

/// What stands where llvm-jitlink prints a pointer and a state.
const SESSION: &str = "(ES: 0x0000000000000001, State = Open)";

/// Prints the dylib that stands for the process.
pub(super) fn process() {
    println!("JITDylib \"Process\" {SESSION}");
    println!("Link order: [ (\"Process\", MatchAllSymbols) ]\nSymbol table:");
}

/// Prints a dylib with its symbols, which finds those of the process behind its own. Numbers stand
/// where llvm-jitlink prints pointers.
pub(super) fn dylib(name: &str, process: bool, symbols: &[Symbol]) {
    let mut text = String::new();
    let mut order = format!("(\"{name}\", MatchAllSymbols)");
    if process {
        order += ", (\"Process\", MatchExportedSymbolsOnly)";
    }
    text += &format!("JITDylib \"{name}\" {SESSION}\nLink order: [ {order} ]\nSymbol table:\n");
    for (name, entry) in symbols {
        let address = match entry.address {
            Some(address) => format!("{address:#x}"),
            None => "<not resolved> ".to_owned(),
        };
        let state = match &entry.unit {
            Some((number, name)) => format!("Never-Searched (Materializer {number:#x}, {name})"),
            None => "Ready".to_owned(),
        };
        let hidden = if entry.is_hidden { "[Hidden]" } else { "" };
        text += &format!(
            "    \"{name}\": {address} {}{}{hidden} {state}\n",
            entry.kind, entry.strength
        );
    }
    print!("{text}");
}
