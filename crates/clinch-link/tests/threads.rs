//! The steps come out the same for 1, 2 and 7 threads, and right. The graphs are large enough for
//! the workers to use threads.

use clinch_graph::{
    BlockId, Digest, Edge, EdgeKind, Id, LinkGraph, Names, NewBlock, NewContent, NewSection, Prot,
    SectionId, SectionKind, SymbolFlags, SymbolId, Workers,
};
use clinch_link::layout::{self, Layout};
use clinch_link::tables::{self, Reach, TableRules};
use clinch_link::{Liveness, Resolution, bypass, frames, prune, resolve};
use clinch_target::Arch;
use clinch_target::x86_64::{ARCH, kind};
use std::fmt::Debug;

const THREADS: [usize; 3] = [1, 2, 7];
static X86_64: &Arch = &ARCH;

/// What `step` answers for a graph, which must be the same on any number of threads.
fn on_all<T: PartialEq + Debug>(
    build: impl Fn() -> LinkGraph,
    step: impl Fn(&mut LinkGraph, &Workers) -> T,
) -> T {
    let mut answers = THREADS.map(|threads| {
        let mut graph = build();
        let answer = step(&mut graph, &Workers::new(threads));
        Some((answer, digest(&graph)))
    });
    assert!(
        answers[0] == answers[1],
        "2 threads make another result than 1"
    );
    assert!(
        answers[0] == answers[2],
        "7 threads make another result than 1"
    );
    let first = answers[0].take().expect("it is there");
    first.0
}

fn digest(graph: &LinkGraph) -> Digest {
    graph.digest().expect("edges are the graph's own")
}

fn new_graph() -> LinkGraph {
    LinkGraph::new("threads", &ARCH.graph)
}

fn resolved(graph: &mut LinkGraph) -> Resolution {
    resolve::resolve(graph, &Names::new(), |_| true, &Workers::new(1)).expect("nothing clashes")
}

fn section(graph: &mut LinkGraph, name: &str, prot: Prot) -> SectionId {
    graph.add_section(name.as_bytes(), NewSection::new(prot))
}

fn block(graph: &mut LinkGraph, section: SectionId, bytes: Vec<u8>) -> BlockId {
    graph
        .add_block(NewBlock {
            section,
            content: NewContent::Owned(bytes),
            align: 1,
            align_offset: 0,
        })
        .expect("the section exists")
}

fn symbol(graph: &mut LinkGraph, block: BlockId) -> SymbolId {
    graph
        .add_anonymous(block, 0, 0, SymbolFlags::empty())
        .expect("it is in the block")
}

fn edge(offset: u32, kind: EdgeKind, target: SymbolId) -> Edge {
    Edge {
        offset,
        kind,
        target,
        addend: 0,
    }
}

const N_PAIRS: usize = 110_000;

/// Blocks in pairs, the first of each with two edges into the next pairs as in a binary tree, and
/// at the end a chain of blocks; the second of each pair refers to the first, and nothing to it.
fn tree() -> LinkGraph {
    let mut graph = new_graph();
    let text = section(&mut graph, ".text", Prot::RX);
    let mut symbols = Vec::new();
    for _ in 0..2 * N_PAIRS {
        let block = block(&mut graph, text, vec![0; 16]);
        symbols.push(symbol(&mut graph, block));
    }
    let first = |pair: usize| symbols[2 * pair];
    let (tree, last) = (N_PAIRS / 2, N_PAIRS - 1);
    for pair in 0..N_PAIRS {
        let next: Vec<usize> = if pair + 1 == tree {
            vec![tree + 1]
        } else if pair < tree {
            let both = [2 * pair + 1, 2 * pair + 2];
            both.into_iter().filter(|&next| next < tree).collect()
        } else if pair > tree && pair < last {
            vec![pair + 1]
        } else {
            Vec::new()
        };
        let edges = (0..).step_by(4).zip(next.into_iter().map(first));
        let mut edges: Vec<Edge> = edges
            .map(|(offset, target)| edge(offset, kind::DELTA32, target))
            .collect();
        if pair % 1000 == 0 {
            let external = graph.add_external(format!("external_{pair}").as_bytes(), false);
            edges.push(edge(8, kind::BRANCH_PCREL32, external));
        }
        graph
            .set_edges(BlockId::from_index(2 * pair), edges)
            .expect("all is there");
        let back = edge(0, kind::DELTA32, first(pair));
        graph
            .set_edges(BlockId::from_index(2 * pair + 1), vec![back])
            .expect("all is there");
    }
    graph
}

/// The pairs of [`tree`] that are reachable: all but the one between the tree and the chain.
fn is_reached(pair: usize) -> bool {
    pair != N_PAIRS / 2
}

fn live(graph: &mut LinkGraph, workers: &Workers) -> Liveness {
    let resolution = resolved(graph);
    let root = SymbolId::from_index(0);
    prune::prune(graph, X86_64, &resolution, &[], [root], workers).expect("edges can be read")
}

#[test]
fn what_is_reachable() {
    let (blocks, externals, may_ask) = on_all(tree, |graph, workers| {
        let live = live(graph, workers);
        let may_ask = live.may_ask.expect("pruning knows");
        let dead = graph.blocks().filter(|&block| !live.blocks.contains(block));
        for block in dead.collect::<Vec<_>>() {
            graph.drop_block(block);
        }
        graph.discard_dangling_symbols_with(workers);
        (live.blocks, live.externals, may_ask)
    });
    let pairs: Vec<usize> = (0..N_PAIRS).filter(|&pair| is_reached(pair)).collect();
    let expected: Vec<BlockId> = pairs
        .iter()
        .map(|pair| BlockId::from_index(2 * pair))
        .collect();
    assert_eq!(blocks.iter().collect::<Vec<_>>(), expected);
    // Externals were made in the order of the pairs, behind all others.
    let with_external = |pair: &&usize| pair.is_multiple_of(1000);
    let n_before = 2 * N_PAIRS;
    let expected: Vec<SymbolId> = pairs
        .iter()
        .filter(with_external)
        .map(|pair| SymbolId::from_index(n_before + pair / 1000))
        .collect();
    assert_eq!(externals, expected);
    let expected: Vec<BlockId> = pairs
        .iter()
        .filter(with_external)
        .map(|pair| BlockId::from_index(2 * pair))
        .collect();
    assert_eq!(may_ask.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn symbols_of_dropped_blocks_are_discarded() {
    let discarded = on_all(tree, |graph, workers| {
        for index in (1..2 * N_PAIRS).step_by(2) {
            graph.drop_block(BlockId::from_index(index));
        }
        graph.discard_dangling_symbols_with(workers);
        let symbols = graph.symbols();
        symbols
            .filter(|&symbol| graph.symbol_flags(symbol).is_discarded())
            .map(Id::index)
            .collect::<Vec<_>>()
    });
    assert_eq!(
        discarded,
        (1..2 * N_PAIRS).step_by(2).collect::<Vec<usize>>()
    );
}

#[test]
fn addresses_of_symbols() {
    const BASE: u64 = 0x10_0000;
    let addresses = on_all(tree, |graph, workers| {
        let resolution = resolved(graph);
        let mut live = Liveness::default();
        for block in graph.blocks() {
            live.blocks.insert(block);
        }
        let plan = layout::plan(graph, &live, &[]);
        let mut layout = Layout::new(graph, plan, &[BASE]);
        let external = |symbol: SymbolId| Some(symbol.index() as u64);
        layout.resolve_symbols(graph, &resolution, |_| None, workers);
        layout.resolve_symbols(graph, &resolution, external, workers);
        layout.symbols().to_vec()
    });
    for (index, address) in addresses.into_iter().enumerate() {
        let expected = if index < 2 * N_PAIRS {
            BASE + 16 * index as u64
        } else {
            index as u64
        };
        assert_eq!(address, expected, "symbol {index}");
    }
}

const N_ASKING: usize = 40_000;
const N_FAR: usize = 100;

/// Blocks that load an address from the GOT and call a function, each from elsewhere or from the
/// first block; at last one symbol whose block was dropped, which some refer to when
/// `is_discarded`.
fn asking(is_discarded: bool) -> LinkGraph {
    let mut graph = new_graph();
    let text = section(&mut graph, ".text", Prot::RX);
    let first = block(&mut graph, text, vec![0xc3; 16]);
    let near = symbol(&mut graph, first);
    let gone = block(&mut graph, text, vec![0xc3]);
    let discarded = symbol(&mut graph, gone);
    let far: Vec<SymbolId> = (0..N_FAR)
        .map(|n| graph.add_external(format!("far_{n}").as_bytes(), false))
        .collect();
    for n in 0..N_ASKING {
        // mov x@GOTPCREL(%rip), %rax; call y
        let bytes = [0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0];
        let block = block(&mut graph, text, bytes.to_vec());
        let target = |choice: usize| match choice {
            0 => near,
            choice => far[N_FAR - choice],
        };
        let load = kind::REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX_RELAXABLE;
        let mut edges = vec![
            edge(3, load, target(n % N_FAR)),
            edge(8, kind::BRANCH_PCREL32, target(n * 7 % N_FAR)),
        ];
        if is_discarded && n % 9000 == 5 {
            edges[1].target = discarded;
        }
        graph.set_edges(block, edges).expect("all is there");
    }
    graph.drop_block(gone);
    graph.discard_dangling_symbols();
    graph
}

fn everything(graph: &LinkGraph) -> Liveness {
    let mut live = Liveness::default();
    for block in graph.blocks() {
        live.blocks.insert(block);
    }
    live
}

const FAR: TableRules<'static> = TableRules {
    reach: &|_| Reach::Far,
    static_tls: true,
};

#[test]
fn tables_in_the_order_of_asking() {
    let (made, touched, relaxed, edges) = on_all(
        || asking(false),
        |graph, workers| {
            let resolution = resolved(graph);
            let live = everything(graph);
            let tables = tables::build(graph, X86_64, &resolution, &live, &FAR, workers)
                .expect("all can be made");
            let bytes = |n: usize| graph.content(BlockId::from_index(2 + n)).bytes().to_vec();
            let relaxed: Vec<bool> = (0..N_ASKING).map(|n| bytes(n)[1] == 0x8d).collect();
            // What the second block asks for is made first, at most its stub needs another entry.
            let mut edges = Vec::new();
            graph
                .edges(BlockId::from_index(3), &mut edges)
                .expect("they are the graph's own");
            let entries: Vec<Option<SymbolId>> = edges
                .iter()
                .map(|edge| tables.leads_to(edge.target))
                .collect();
            (tables.made, tables.touched.len(), relaxed, entries)
        },
    );
    // An entry for each but the near one, and a stub.
    assert_eq!(made.len(), 2 * (N_FAR - 1));
    assert!(made.is_sorted(), "made in order");
    assert_eq!(touched, N_ASKING);
    for (n, relaxed) in relaxed.into_iter().enumerate() {
        assert_eq!(relaxed, n % N_FAR == 0, "block {n}");
    }
    let far = |n: usize| Some(SymbolId::from_index(2 + n));
    assert_eq!(edges, [far(N_FAR - 1), far(N_FAR - 7)]);
}

#[test]
fn errors_in_the_order_of_blocks() {
    let errors = on_all(
        || asking(true),
        |graph, workers| {
            let resolution = resolved(graph);
            let live = everything(graph);
            let tables = tables::build(graph, X86_64, &resolution, &live, &FAR, workers);
            let errors = tables.map(drop).expect_err("a section was discarded");
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        },
    );
    let expected: Vec<String> = (0..N_ASKING)
        .filter(|n| n % 9000 == 5)
        .map(|_| "<linker>:(.text+0x8): relocation refers to a discarded section".to_owned())
        .collect();
    assert_eq!(errors, expected);
}

#[test]
fn bypasses() {
    const BASE: u64 = 0x10_0000;
    let (direct, through) = on_all(
        || asking(false),
        |graph, workers| {
            let resolution = resolved(graph);
            let mut live = everything(graph);
            let tables = tables::build(graph, X86_64, &resolution, &live, &FAR, workers)
                .expect("all can be made");
            for &block in &tables.made {
                live.blocks.insert(block);
            }
            let plan = layout::plan(graph, &live, &[]);
            let bases: Vec<u64> = (1..).map(|n| n * BASE).take(plan.segments.len()).collect();
            let mut layout = Layout::new(graph, plan, &bases);
            // Those with an even number turn out to be near.
            let is_near = |symbol: SymbolId| symbol.index().is_multiple_of(2);
            let external = |symbol| {
                Some(if is_near(symbol) {
                    0x20_0000
                } else {
                    0x7000_0000_0000
                })
            };
            layout.resolve_symbols(graph, &resolution, external, workers);
            bypass::run(graph, X86_64, &resolution, &tables, &layout, workers)
                .expect("the graph is sound");
            let (mut direct, mut through) = (0, 0);
            let mut edges = Vec::new();
            for n in 0..N_ASKING {
                let block = BlockId::from_index(2 + n);
                graph.edges(block, &mut edges).expect("the graph's own");
                for edge in &edges {
                    match tables.leads_to(edge.target) {
                        Some(target) => {
                            assert!(!is_near(target), "block {n} goes round");
                            through += 1;
                        }
                        None => direct += 1,
                    }
                }
            }
            (direct, through)
        },
    );
    // Loads and calls go to each of a hundred targets alike.
    assert_eq!(direct + through, 2 * N_ASKING);
    let far_odd = (1..N_FAR).filter(|choice| (2 + N_FAR - choice) % 2 == 1);
    assert_eq!(through, 2 * N_ASKING / N_FAR * far_odd.count());
}

const N_FRAMES: usize = 40;
const N_RECORDS: usize = 3000;

/// Call frame sections of one CIE and many FDEs each. The function of every third was discarded.
/// One section is spoiled at its start by each of these bytes.
fn call_frames(spoiled: &[(usize, u8)]) -> LinkGraph {
    let mut graph = new_graph();
    let text = section(&mut graph, ".text", Prot::RX);
    let new = NewSection {
        kind: SectionKind::EhFrame,
        ..NewSection::new(Prot::R)
    };
    let eh_frame = graph.add_section(b".eh_frame", new);
    let gone = block(&mut graph, text, vec![0xc3]);
    let discarded = symbol(&mut graph, gone);
    for n in 0..N_FRAMES {
        let function = block(&mut graph, text, vec![0xc3; 16]);
        let function = symbol(&mut graph, function);
        let mut bytes = Vec::new();
        for word in [8_u32, 0, 1] {
            bytes.extend(word.to_le_bytes());
        }
        let mut edges = Vec::new();
        for m in 0..N_RECORDS {
            let at = u32::try_from(bytes.len()).expect("small");
            for word in [16, at + 4, 0, 16, 0] {
                bytes.extend(u32::to_le_bytes(word));
            }
            let target = if m % 3 == 2 { discarded } else { function };
            edges.push(edge(at + 8, kind::DELTA32, target));
        }
        if let Some(&(_, byte)) = spoiled.iter().find(|&&(frame, _)| frame == n) {
            bytes[8] = byte;
        }
        let block = block(&mut graph, eh_frame, bytes);
        graph.set_edges(block, edges).expect("all is there");
    }
    graph.drop_block(gone);
    graph.discard_dangling_symbols();
    graph
}

#[test]
fn frames_are_split() {
    let (associations, edges) = on_all(
        || call_frames(&[]),
        |graph, workers| {
            let first = BlockId::from_index(graph.n_blocks());
            frames::split_with(graph, X86_64, workers).expect("they are well formed");
            let mut edges = Vec::new();
            graph.edges(first, &mut edges).expect("the graph's own");
            (graph.associations().to_vec(), edges)
        },
    );
    let (first_piece, first_cie) = (1 + 2 * N_FRAMES, 1 + N_FRAMES);
    // The functions are behind the one that is gone, each before its frames.
    let expected: Vec<(BlockId, BlockId)> = (0..N_FRAMES)
        .flat_map(|n| (0..N_RECORDS).map(move |m| (n, m)))
        .filter(|(_, m)| m % 3 != 2)
        .map(|(n, m)| {
            let piece = first_piece + n * N_RECORDS + m;
            (BlockId::from_index(1 + 2 * n), BlockId::from_index(piece))
        })
        .collect();
    assert_eq!(associations, expected);
    // To its function, and back to its CIE.
    let function = SymbolId::from_index(1);
    let cie = SymbolId::from_index(first_cie);
    assert_eq!(
        edges,
        [
            edge(8, kind::DELTA32, function),
            edge(4, kind::NEG_DELTA32, cie),
        ]
    );
}

#[test]
fn errors_in_the_order_of_frames() {
    let errors = on_all(
        || call_frames(&[(31, 9), (7, 2)]),
        |graph, workers| {
            let errors = frames::split_with(graph, X86_64, workers).expect_err("two are spoiled");
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        },
    );
    let of_version = |n: u8| format!("<linker>:(.eh_frame+0x0): CIE of version {n} is not known");
    assert_eq!(errors, [of_version(2), of_version(9)]);
}
