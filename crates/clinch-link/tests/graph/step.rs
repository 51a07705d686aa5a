//! The commands of the link steps.

use crate::inputs;
use clinch_graph::{
    Addressable, BlockId, Id, IdRange, InputId, LinkGraph, NameId, Names, Scope, SymbolFlags,
    SymbolId, Workers,
};
use clinch_link::layout::{self as layout_step, Layout, SegmentKind, align_to};
use clinch_link::start_stop::{self as start_stop_step, Bounds};
use clinch_link::tables::{Reach, TableRules};
use clinch_link::{Liveness, Resolution, Tables};
use clinch_target::{Arch, TlsBlock, arch_named};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

type Said = Result<Option<String>, String>;

/// What every step but the first needs.
struct Found {
    arch: &'static Arch,
    names: Names,
    resolution: Resolution,
}

fn find(graph: &mut LinkGraph) -> Result<Found, String> {
    inputs::ensure(graph)?;
    let arch = arch_named(graph.target().name).ok_or("this architecture has no table")?;
    let mut names = Names::new();
    let inputs = IdRange::<InputId>::new(1, graph.n_inputs());
    names.add_inputs(graph, &Workers::new(1), inputs);
    let resolution =
        clinch_link::resolve::resolve(graph, &names, |_| true, &Workers::new(1)).map_err(lines)?;
    Ok(Found {
        arch,
        names,
        resolution,
    })
}

/// All errors, as a test expects them.
fn lines<E: Display>(errors: Vec<E>) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\nerror: ")
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn no_arguments(arguments: &[&str]) -> Result<(), String> {
    if arguments.is_empty() {
        Ok(())
    } else {
        Err("takes no arguments".to_owned())
    }
}

fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All blocks.
fn everything(graph: &LinkGraph) -> Liveness {
    let mut live = Liveness::default();
    for block in graph.blocks() {
        live.blocks.insert(block);
    }
    live
}

/// `resolve`: says what each name means, then which names nothing defines.
pub(crate) fn resolve(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    no_arguments(arguments)?;
    let Found {
        names, resolution, ..
    } = find(graph)?;
    let mut said = String::new();
    let mut seen = BTreeSet::new();
    let of_symbols = graph.symbols().filter_map(|symbol| names.of(symbol));
    let in_order: Vec<NameId> = of_symbols.filter(|&name| seen.insert(name)).collect();
    for id in in_order {
        let Some(symbol) = resolution.of_name(id) else {
            continue;
        };
        let flags = graph.symbol_flags(symbol);
        let place = clinch_link::resolve::definition_place(graph, symbol);
        write!(said, "{}: {symbol} {place}", name(names.name(graph, id))).map_err(text)?;
        if let Addressable::Common { align } = graph.addressable(symbol) {
            let size = graph.symbol_size(symbol);
            write!(said, " common size {size} align {align}").map_err(text)?;
        }
        if flags.contains(SymbolFlags::WEAK) {
            said.push_str(" weak");
        }
        if flags.contains(SymbolFlags::WEAKLY_REFERENCED) {
            said.push_str(" weakly-referenced");
        }
        said.push_str(match flags.scope() {
            Scope::Protected => " protected",
            Scope::Hidden => " hidden",
            _ => "",
        });
        let others = graph
            .symbols()
            .filter(|&other| other != symbol && resolution.prevailing(other) == symbol);
        let others: Vec<String> = others.map(|other| other.to_string()).collect();
        if !others.is_empty() {
            write!(said, " for {}", others.join(" ")).map_err(text)?;
        }
        said.push('\n');
    }
    let undefined = resolution
        .undefined()
        .iter()
        .map(|&id| name(names.name(graph, id)));
    let undefined: Vec<String> = undefined.collect();
    writeln!(said, "undefined: {}", undefined.join(" ")).map_err(text)?;
    Ok(Some(said.replace("undefined: \n", "")))
}

/// `commons`: gives tentative definitions their space.
pub(crate) fn commons(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    no_arguments(arguments)?;
    let Found { resolution, .. } = find(graph)?;
    clinch_link::common::allocate(graph, &resolution).map_err(text)?;
    Ok(None)
}

/// `start-stop`: says the sections whose bounds are asked for.
pub(crate) fn start_stop(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    no_arguments(arguments)?;
    let Found {
        names, resolution, ..
    } = find(graph)?;
    let mut said = String::new();
    for bounds in start_stop_step::find(graph, &names, &resolution) {
        let symbol = |symbol: Option<SymbolId>| symbol.map_or("-".to_owned(), |s| s.to_string());
        let blocks: Vec<String> = bounds.blocks.iter().map(ToString::to_string).collect();
        let (start, stop) = (symbol(bounds.start), symbol(bounds.stop));
        let section = name(&bounds.name);
        writeln!(said, "{section}: {start}..{stop} {}", blocks.join(" ")).map_err(text)?;
    }
    if said.is_empty() {
        said.push_str("none\n");
    }
    Ok(Some(said))
}

/// `arrays init|fini`: says the arrays in the order in which they run.
pub(crate) fn arrays(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    let fini = match arguments {
        ["init"] => false,
        ["fini"] => true,
        _ => return Err("arrays takes `init` or `fini`".to_owned()),
    };
    inputs::ensure(graph)?;
    let mut said = String::new();
    for (block, kind) in start_stop_step::arrays(graph, |_| true, fini) {
        let section = name(graph.section_name(graph.block_section(block)));
        let way = if start_stop_step::runs_backward(kind) {
            "backward"
        } else {
            "forward"
        };
        writeln!(said, "{block} {section} {way}").map_err(text)?;
    }
    Ok(Some(said))
}

/// `frames`: splits call frame sections.
pub(crate) fn frames(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    no_arguments(arguments)?;
    let Found { arch, .. } = find(graph)?;
    clinch_link::frames::split(graph, arch).map_err(lines)?;
    Ok(None)
}

fn find_live(graph: &mut LinkGraph, roots: &[&str]) -> Result<Liveness, String> {
    let Found {
        arch,
        names,
        resolution,
    } = find(graph)?;
    let bounds = start_stop_step::find(graph, &names, &resolution);
    let mut symbols = Vec::new();
    for root in roots {
        let symbol = names
            .find(graph, root.as_bytes())
            .and_then(|id| resolution.of_name(id))
            .ok_or_else(|| format!("no symbol {root}"))?;
        symbols.push(symbol);
    }
    let workers = Workers::new(1);
    clinch_link::prune::prune(graph, arch, &resolution, &bounds, symbols, &workers).map_err(lines)
}

/// `prune ROOT…`: drops what is not reachable.
pub(crate) fn prune(graph: &mut LinkGraph, roots: &[&str]) -> Said {
    let live = find_live(graph, roots)?;
    for index in 0..graph.n_blocks() {
        let block = BlockId::from_index(index);
        if graph.has_block(block) && !live.blocks.contains(block) {
            graph.drop_block(block);
        }
    }
    graph.discard_dangling_symbols();
    Ok(None)
}

/// `reach ROOT…`: says what is reachable.
pub(crate) fn reach(graph: &mut LinkGraph, roots: &[&str]) -> Said {
    let live = find_live(graph, roots)?;
    let blocks: Vec<String> = live.blocks.iter().map(|block| block.to_string()).collect();
    let externals = live.externals.iter().map(|&id| name(graph.symbol_name(id)));
    let externals: Vec<String> = externals.collect();
    let mut said = format!("blocks: {}\n", blocks.join(" "));
    if !externals.is_empty() {
        writeln!(said, "externals: {}", externals.join(" ")).map_err(text)?;
    }
    if live.needs_low {
        said.push_str("needs low memory\n");
    }
    Ok(Some(said))
}

/// How the arguments of `tables` say that externals are reached.
struct Reaches {
    default: Reach,
    of: BTreeMap<Vec<u8>, Reach>,
    static_tls: bool,
}

impl Reaches {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut reaches = Self {
            default: Reach::Far,
            of: BTreeMap::new(),
            static_tls: true,
        };
        for argument in arguments {
            match (*argument, argument.split_once('=')) {
                ("no-static-tls", _) => reaches.static_tls = false,
                (_, Some(("far-data", _))) | (_, None) => {
                    reaches.default = Self::reach(argument)?;
                }
                (_, Some((name, reach))) => {
                    reaches
                        .of
                        .insert(name.as_bytes().to_vec(), Self::reach(reach)?);
                }
            }
        }
        Ok(reaches)
    }

    fn reach(word: &str) -> Result<Reach, String> {
        match word.split_once('=').or(word.split_once(':')) {
            None if word == "near" => Ok(Reach::Near),
            None if word == "far" => Ok(Reach::Far),
            Some(("far-data", size)) => Ok(Reach::FarData {
                size: size.parse().map_err(text)?,
                align: 16,
            }),
            _ => Err(format!("`{word}` is not near, far or far-data=SIZE")),
        }
    }
}

fn build(graph: &mut LinkGraph, arguments: &[&str]) -> Result<(Found, Tables), String> {
    let reaches = Reaches::parse(arguments)?;
    let found = find(graph)?;
    let live = everything(graph);
    let names: BTreeMap<SymbolId, Reach> = graph
        .symbols()
        .filter_map(|id| Some((id, *reaches.of.get(graph.symbol_name(id))?)))
        .collect();
    let reach = |symbol| names.get(&symbol).copied().unwrap_or(reaches.default);
    let rules = TableRules {
        reach: &reach,
        static_tls: reaches.static_tls,
    };
    let tables = clinch_link::tables::build(
        graph,
        found.arch,
        &found.resolution,
        &live,
        &rules,
        &Workers::new(1),
    )
    .map_err(lines)?;
    Ok((found, tables))
}

/// `tables [near|far|far-data=SIZE] [NAME=near|far|far-data:SIZE…] [no-static-tls]`: makes table
/// entries and relaxes. Externals are far when nothing is said.
pub(crate) fn tables(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    build(graph, arguments)?;
    Ok(None)
}

/// `entries …`: as `tables`, and says what the step noted for those that come after it.
pub(crate) fn entries(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    let (_, tables) = build(graph, arguments)?;
    let list = |blocks: &[BlockId]| {
        let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
        blocks.join(" ")
    };
    let mut said = format!(
        "touched: {}\nmade: {}\n",
        list(&tables.touched),
        list(&tables.made)
    );
    for (entry, resolver) in &tables.ifuncs {
        writeln!(said, "ifunc: entry {entry} resolver {resolver}").map_err(text)?;
    }
    for (place, real) in &tables.copies {
        writeln!(said, "copy: {place} of {real}").map_err(text)?;
    }
    for (real, stand_in) in &tables.externals {
        writeln!(said, "external: {real} behind {stand_in}").map_err(text)?;
    }
    for symbol in graph.symbols() {
        if let Some(target) = tables.leads_to(symbol) {
            writeln!(said, "{symbol} leads to {target}").map_err(text)?;
        }
    }
    Ok(Some(said))
}

/// An address, and the addresses of externals: `BASE [NAME=ADDRESS…]`.
struct Addresses {
    base: u64,
    of: BTreeMap<Vec<u8>, u64>,
}

impl Addresses {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let [base, rest @ ..] = arguments else {
            return Err("takes an address and NAME=ADDRESS…".to_owned());
        };
        let mut of = BTreeMap::new();
        for word in rest {
            let (name, value) = word.split_once('=').ok_or("expected NAME=ADDRESS")?;
            of.insert(name.as_bytes().to_vec(), number(value)?);
        }
        Ok(Self {
            base: number(base)?,
            of,
        })
    }

    /// Places all blocks: segments follow one another, each at a page.
    fn place(&self, graph: &LinkGraph, found: &Found, live: &Liveness) -> Layout {
        let bounds: Vec<Bounds> = start_stop_step::find(graph, &found.names, &found.resolution);
        let plan = layout_step::plan(graph, live, &bounds);
        let mut end = self.base;
        let mut bases = Vec::new();
        for segment in &plan.segments {
            let base = align_to(end, segment.align.max(found.arch.page_size), 0);
            bases.push(base);
            end = base + segment.size;
        }
        let mut layout = Layout::new(graph, plan, &bases);
        let external = |symbol| {
            for bounds in &bounds {
                let (start, stop) = layout_extent(graph, &bases, live, bounds)?;
                if bounds.start == Some(symbol) {
                    return Some(start);
                }
                if bounds.stop == Some(symbol) {
                    return Some(stop);
                }
            }
            self.of.get(graph.symbol_name(symbol)).copied()
        };
        layout.resolve_symbols(graph, &found.resolution, external, &Workers::new(1));
        layout
    }
}

/// Where a group of sections lies, from a second plan: the first is being filled.
fn layout_extent(
    graph: &LinkGraph,
    bases: &[u64],
    live: &Liveness,
    bounds: &Bounds,
) -> Option<(u64, u64)> {
    let plan = layout_step::plan(graph, live, std::slice::from_ref(bounds));
    (plan.segments.len() == bases.len()).then_some(())?;
    Layout::new(graph, plan, bases).extent(graph, &bounds.blocks)
}

fn number(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    value.map_err(|error| format!("`{text}`: {error}"))
}

/// `layout BASE [NAME=ADDRESS…]`: says segments, blocks and the addresses of symbols.
pub(crate) fn layout(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    let addresses = Addresses::parse(arguments)?;
    let found = find(graph)?;
    let layout = addresses.place(graph, &found, &everything(graph));
    let mut said = String::new();
    for (base, segment) in &layout.segments {
        let (kind, align) = (segment.kind, segment.align);
        let (content, size) = (segment.content_size, segment.size);
        writeln!(
            said,
            "{kind:?} at {base:#x} align {align} content {content:#x} size {size:#x}"
        )
        .map_err(text)?;
        for &(block, offset) in &segment.blocks {
            let section = name(graph.section_name(graph.block_section(block)));
            let size = graph.block_size(block);
            writeln!(said, "  +{offset:#x} {block} {section} size {size:#x}").map_err(text)?;
        }
    }
    for symbol in graph.symbols() {
        let address = layout.symbol(symbol);
        writeln!(
            said,
            "{symbol} {} {address:#x}",
            name(graph.symbol_name(symbol))
        )
        .map_err(text)?;
    }
    Ok(Some(said))
}

/// `bypass BASE [NAME=ADDRESS…]`: makes tables with all externals far, places everything and
/// leaves out what is not needed.
pub(crate) fn bypass(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    let addresses = Addresses::parse(arguments)?;
    let (found, tables) = build(graph, &["far"])?;
    let layout = addresses.place(graph, &found, &everything(graph));
    clinch_link::bypass::run(
        graph,
        found.arch,
        &found.resolution,
        &tables,
        &layout,
        &Workers::new(1),
    )
    .map_err(text)?;
    Ok(None)
}

/// `fixup BASE [NAME=ADDRESS…] [.got=ADDRESS] [.tp=OFFSET|none]`: says the bytes of all blocks
/// with content when edges are applied. The thread-local block ends at the thread pointer, but
/// for `.tp=none` has no fixed distance from it.
pub(crate) fn fixup(graph: &mut LinkGraph, arguments: &[&str]) -> Said {
    let (no_tp, arguments): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|&&word| word == ".tp=none");
    let addresses = Addresses::parse(&arguments)?;
    let found = find(graph)?;
    let layout = addresses.place(graph, &found, &everything(graph));
    let thread_local = layout
        .segments
        .iter()
        .find(|(_, segment)| segment.kind == SegmentKind::ThreadLocal);
    let tls = thread_local.map(|(image, segment)| {
        let size = segment.size.next_multiple_of(segment.align).cast_signed();
        TlsBlock {
            image: *image,
            tp_offset: no_tp.is_empty().then_some(-size),
        }
    });
    let got = addresses.of.get(&b".got"[..]).copied();
    let got = got.or_else(|| Some(layout.range_of(graph, clinch_graph::SectionKind::Got)?.0));
    let mut said = String::new();
    let mut errors = Vec::new();
    for (number, (base, segment)) in layout.segments.iter().enumerate() {
        let size = usize::try_from(segment.size).map_err(text)?;
        let mut memory = vec![0; size];
        let applied = clinch_link::fixup::apply(
            graph,
            found.arch,
            &found.resolution,
            &layout,
            number,
            &mut memory,
            got.unwrap_or(0),
            tls,
            &Workers::new(1),
        );
        errors.extend(applied.err().unwrap_or_default());
        for &(block, offset) in &segment.blocks {
            if graph.is_zero_fill(block) {
                continue;
            }
            let from = usize::try_from(offset).map_err(text)?;
            let bytes = &memory[from..from + graph.content(block).bytes().len()];
            write!(said, "{block} {:#x}:", base + offset).map_err(text)?;
            for byte in bytes {
                write!(said, " {byte:02x}").map_err(text)?;
            }
            said.push('\n');
        }
    }
    if errors.is_empty() {
        Ok(Some(said))
    } else {
        Err(lines(errors))
    }
}
