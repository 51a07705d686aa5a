//! Reads every member of the given archives into one joined graph, interns names, chooses COMDAT
//! groups, then walks every symbol and every edge; prints how long each step took. `cargo xtask
//! bench graph` runs it.
//!
//! usage: `graph_bench [--threads N] [@FILE] ARCHIVE...`

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clinch_graph::{InputName, LinkGraph, Names, Workers};
use clinch_link::resolve;
use clinch_object::{Archive, FileBytes, FileKind, ReadOptions, add_blocks, add_objects};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut threads, mut files) = (1, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--threads" {
            threads = words.next().ok_or("--threads needs a number")?.parse()?;
        } else if let Some(list) = word.strip_prefix('@') {
            files.extend(std::fs::read_to_string(list)?.lines().map(str::to_owned));
        } else {
            files.push(word);
        }
    }
    let workers = Workers::new(threads);
    let mut clock = Clock {
        started: Instant::now(),
        last: Instant::now(),
        peak: 0,
    };

    // Every member of every archive.
    let opened = workers.map(usize::MAX, files, |file| -> Result<_, String> {
        let bytes = FileBytes::open(Path::new(&file)).map_err(|error| error.to_string())?;
        let size = bytes.len();
        let archive = Archive::parse(bytes).map_err(|error| format!("{file}: {error}"))?;
        let path: Arc<str> = file.as_str().into();
        let mut members = Vec::new();
        for member in archive.members() {
            let member = member.map_err(|error| format!("{file}: {error}"))?;
            let Some(bytes) = archive.content(&member) else {
                continue;
            };
            if FileKind::of(&bytes) == FileKind::ElfRelocatable {
                let name = String::from_utf8_lossy(member.name);
                members.push((InputName::member(Arc::clone(&path), &name), bytes));
            }
        }
        Ok((size, members))
    });
    let (mut size, mut members) = (0, Vec::new());
    for result in opened {
        let (bytes, more) = result?;
        size += bytes;
        members.extend(more);
    }
    clock.step("archives");

    // Symbols, names, groups, blocks.
    let arch = clinch_target::host_arch().ok_or("unknown host")?;
    let mut graph = LinkGraph::new("bench", &arch.graph);
    let n_members = members.len();
    let options = ReadOptions { metadata: true };
    let mut names = Names::new();
    let added = add_objects(&mut graph, &mut names, &workers, members, options)
        .map_err(|errors| text(&errors))?;
    clock.step("symbols and names");
    let chosen = resolve::choose_comdats(&graph, &names, |_| true);
    clock.step("groups");
    let keep = |comdat| chosen.contains(comdat);
    let (inputs, objects) = (added.inputs, added.objects);
    add_blocks(&mut graph, &workers, inputs, objects, |_| true, keep)
        .map_err(|errors| text(&errors))?;
    clock.step("blocks");

    // Every symbol, every edge.
    let mut defined = 0_u64;
    for symbol in graph.symbols() {
        defined += u64::from(graph.symbol_flags(symbol).is_definition());
    }
    clock.step("walk symbols");
    let inputs: Vec<_> = added.inputs.iter().collect();
    let counted = workers.map(usize::MAX, inputs, |input| {
        let (mut n, mut sum, mut edges) = (0_u64, 0_u64, Vec::new());
        for block in graph.input(input).blocks().iter() {
            graph
                .edges(block, &mut edges)
                .map_err(|error| error.to_string())?;
            for edge in &edges {
                n += 1;
                sum = sum.wrapping_add(u64::from(edge.target.raw()) ^ edge.addend.cast_unsigned());
            }
        }
        Ok::<_, String>((n, sum))
    });
    let (mut n_edges, mut sum) = (0, 0_u64);
    for result in counted {
        let (n, part) = result?;
        n_edges += n;
        sum = sum.wrapping_add(part);
    }
    clock.step("walk edges");

    let seconds = clock.started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = size as f64 / 1e6 / seconds;
    println!("members: {n_members}");
    println!(
        "symbols: {} ({defined} defined), names: {}",
        graph.n_symbols(),
        names.len()
    );
    println!(
        "blocks: {}, edges: {n_edges} (sum {sum:#x})",
        graph.n_blocks()
    );
    println!("bytes: {size}");
    println!("seconds: {seconds:.4}");
    println!("mb_per_second: {rate:.0}");
    println!("private_kib: {}", clock.peak);
    Ok(())
}

fn text(errors: &[clinch_object::InputError]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

struct Clock {
    started: Instant,
    last: Instant,
    peak: u64,
}

impl Clock {
    fn step(&mut self, name: &str) {
        let now = Instant::now();
        println!("{:>9.2} ms  {name}", (now - self.last).as_secs_f64() * 1e3);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let anonymous = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB"))
            .and_then(|kib| kib.parse().ok());
        self.peak = self.peak.max(anonymous.unwrap_or(0));
        self.last = Instant::now();
    }
}
