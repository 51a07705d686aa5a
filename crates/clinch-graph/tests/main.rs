//! What must hold of every graph, tried on many that are made from seeds.

use clinch_graph::{BlockId, EditError, LinkGraph, Stage, verify};
use clinch_testkit::generate::{self, Choices, borrowed, seeded};
use clinch_testkit::oracle::graph as oracle;

const N_SEEDS: u64 = 400;

/// A graph and the bytes it was made of, which go on to make choices.
fn generated(seed: u64) -> (LinkGraph, Vec<u8>) {
    // Graphs of many sizes: bytes that run out end them early.
    let len = usize::try_from(seed * 13 % 3000).unwrap_or(0);
    let bytes = seeded(seed, len);
    (generate::graph(&bytes), bytes)
}

#[test]
fn generated_graphs_are_sound_and_their_text_says_all() {
    let mut most = (0, 0, 0);
    for seed in 0..N_SEEDS {
        let (graph, _) = generated(seed);
        if let Err(error) = oracle::check(&graph) {
            panic!("seed {seed}: {error}");
        }
        let n_edges = graph.blocks().map(|block| graph.n_edges(block)).sum();
        let n_holes = graph.n_blocks() - graph.blocks().count();
        most = (
            most.0.max(graph.blocks().count()),
            most.1.max(n_edges),
            most.2.max(n_holes),
        );
    }
    assert!(
        most.0 > 8 && most.1 > 15 && most.2 > 2,
        "the generator makes little: {most:?}"
    );
}

#[test]
fn borrowed_graphs_mean_the_same() {
    for seed in 0..N_SEEDS {
        let (graph, _) = generated(seed);
        let copy = borrowed(&graph);
        let checked = oracle::check(&copy).and_then(|()| oracle::same_meaning(&graph, &copy));
        if let Err(error) = checked {
            panic!("seed {seed}: {error}");
        }
        for block in copy.blocks() {
            let is_borrowed = copy.content_file_offset(block).is_some();
            assert!(
                is_borrowed || copy.is_zero_fill(block),
                "seed {seed}: {block}"
            );
        }
    }
}

/// Touching everything without changing it makes everything owned, and changes nothing.
#[test]
fn owned_copies_mean_the_same() {
    for seed in 0..N_SEEDS {
        let (graph, _) = generated(seed);
        let mut copy = borrowed(&graph);
        let blocks: Vec<BlockId> = copy.blocks().collect();
        for &block in &blocks {
            copy.content_mut(block);
            copy.edges_mut(block).expect("they can be decoded");
            assert_eq!(copy.content_file_offset(block), None);
        }
        if let Err(error) = oracle::same_meaning(&graph, &copy) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// Pieces hold together what the whole held.
#[test]
fn splitting_loses_nothing() {
    for seed in 0..N_SEEDS {
        let (whole, bytes) = generated(seed);
        let mut choices = Choices::new(&bytes);
        let mut copy = borrowed(&whole);
        let blocks: Vec<BlockId> = copy.blocks().collect();
        for block in blocks {
            let (content, size) = (copy.content(block).bytes().to_vec(), copy.block_size(block));
            let n_edges = copy.n_edges(block);
            let at = choices.number() % size.max(1);
            let Ok(pieces) = copy.split_block(block, &[at]) else {
                continue;
            };
            assert_eq!(pieces.len(), 2);
            let joined: Vec<u8> = pieces
                .iter()
                .flat_map(|&piece| copy.content(piece).bytes().to_vec())
                .collect();
            assert_eq!(joined, content);
            let sizes: u64 = pieces.iter().map(|&piece| copy.block_size(piece)).sum();
            assert_eq!(sizes, size);
            let edges: usize = pieces.iter().map(|&piece| copy.n_edges(piece)).sum();
            assert_eq!(edges, n_edges);
        }
        if let Err(error) = oracle::check(&copy) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn edits_are_published_whole_or_leave_no_trace() {
    let (mut published, mut refused, mut unsound) = (0, 0, 0);
    for seed in 0..N_SEEDS {
        let (owned, _) = generated(seed);
        // Half of them on a graph that borrows, which is the other way through the undoing.
        let mut graph = if seed % 2 == 0 {
            owned
        } else {
            borrowed(&owned)
        };
        let bytes = seeded(!seed, 2000);
        let mut choices = Choices::new(&bytes);
        for _ in 0..8 {
            let (text, digest) = (graph.to_text(), graph.digest());
            let ids = (graph.n_sections(), graph.n_blocks(), graph.n_symbols());
            let generation = graph.generation();
            match generate::edit(&mut choices, &graph).commit(&mut graph) {
                Ok(done) => {
                    published += 1;
                    assert_eq!(done.generation, generation + 1);
                    assert_eq!(verify(&graph, Stage::Read), [], "seed {seed}");
                }
                Err(error) => {
                    match error {
                        EditError::Unsound(_) => unsound += 1,
                        _ => refused += 1,
                    }
                    assert_eq!(graph.to_text(), text, "seed {seed}");
                    assert_eq!(graph.digest(), digest, "seed {seed}");
                    let after = (graph.n_sections(), graph.n_blocks(), graph.n_symbols());
                    assert_eq!(after, ids, "seed {seed}");
                    assert_eq!(graph.generation(), generation, "seed {seed}");
                }
            }
        }
        if let Err(error) = oracle::check(&graph) {
            panic!("seed {seed}: {error}");
        }
    }
    let counts = (published, refused, unsound);
    assert!(
        published > 100 && refused > 100 && unsound > 10,
        "{counts:?}"
    );
}

/// The digest depends on nothing but the meaning, whichever thread asks.
#[test]
fn digests_are_the_same_on_every_thread() {
    let (graph, _) = generated(211);
    let digest = graph.digest();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..7).map(|_| scope.spawn(|| graph.digest())).collect();
        for thread in threads {
            assert_eq!(thread.join().expect("it does not panic"), digest);
        }
    });
}
