//! `cargo xtask bench graph`: building one graph from every archive of LLVM and clang, beside
//! LLVM's own readers of symbols and of relocations.
//!
//! The program under test is an example or binary target named `graph_bench`; it takes
//! `--threads N @FILE`, where FILE names the archives. Where it prints `private_kib: N`, that is
//! its peak of private memory; else what was seen from outside is taken. Where it prints
//! `seconds: N`, its speed is judged by that; the table has the whole process, with its start and
//! the unmapping of all files at its end.

use super::{at_least, at_most, folder, mib, table};
use crate::measure::{self, Run};
use crate::packages::{self, FOR_BENCHES};
use crate::shell::{self, Context, Failure, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

/// Where Debian puts LLVM's archives.
const ARCHIVES: &str = "/usr/lib/llvm-22/lib";

/// Private memory, as a part of the input's size.
const MEMORY_BAR: f64 = 0.12;
/// GB/s on two threads.
const SPEED_BAR: f64 = 3.0;

/// Runs the benchmark: clinch on 1 and 2 threads `runs` times each, in turn; the peers as often
/// as their time allows.
pub(crate) fn run(runs: Option<usize>) -> Result {
    packages::ensure_packages(FOR_BENCHES);
    let program = build()?;
    let files = archives(Path::new(ARCHIVES))?;
    let size = warm(&files)?;
    let list = folder()?.join("archives");
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    fs::write(&list, names.join("\n") + "\n")?;
    println!(
        "{} archives, {:.1} MB, in the page cache",
        files.len(),
        megabytes(size)
    );

    let mut rows = vec![table::row(&[
        "",
        "runs",
        "wall s",
        "MB/s",
        "CPU s",
        "private MiB",
        "of input",
        "max RSS MiB",
    ])];
    let mut ours: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
    let mut seconds = Vec::new();
    let mut said = String::new();
    for _ in 0..runs.unwrap_or(5) {
        for (runs, threads) in ours.iter_mut().zip(["1", "2"]) {
            let (run, text) = run_ours(&program, threads, &list)?;
            if threads == "2" {
                let whole = run.wall.as_secs_f64();
                seconds.push(own_figure(&text, "seconds:").unwrap_or(whole));
                said = text;
            }
            runs.push(run);
        }
    }
    let ours = ours.map(|runs| Figures::of(&runs));
    rows.push(ours[0].row("clinch, 1 thread", size));
    rows.push(ours[1].row("clinch, 2 threads", size));

    let peers: [(&str, &[&str]); 2] = [("llvm-nm", &[]), ("llvm-readelf", &["-r"])];
    let mut ratios = Vec::new();
    for (name, options) in peers {
        let program = shell::llvm(name);
        if !shell::is_executable(&program) {
            rows.push(table::row(&[&format!("{name}: not installed")]));
            continue;
        }
        let mut found = Vec::new();
        for _ in 0..runs.unwrap_or(3).min(3) {
            let mut command = shell::command(&program);
            command.args(options).args(&files);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            found.push(measure::measure(&mut command, true)?);
        }
        let figures = Figures::of(&found);
        let name = format!("{name}-22 {}", options.join(" "));
        rows.push(figures.row(name.trim(), size));
        ratios.push((name.trim().to_owned(), figures));
    }
    table::print(&rows);
    println!();
    for (name, peer) in &ratios {
        println!(
            "clinch on 1 thread / {name}: {:.3} of its CPU time; on 2 threads {:.3} of its time",
            ours[0].cpu / peer.cpu,
            ours[1].wall / peer.wall
        );
    }
    println!(
        "GB/s on 2 threads, by its own clock: {}",
        at_least(
            megabytes(size) / 1000.0 / measure::median(seconds),
            SPEED_BAR
        )
    );
    let most = ours
        .iter()
        .map(|figures| figures.private)
        .fold(0.0, f64::max);
    println!(
        "private memory / input: {}",
        at_most(most * 1.048_576 / megabytes(size), MEMORY_BAR)
    );
    println!("\nits own words, last run on 2 threads:");
    for line in said.lines() {
        println!("  {line}");
    }
    Ok(())
}

/// Medians of some runs; the most memory of any.
struct Figures {
    n: usize,
    wall: f64,
    cpu: f64,
    /// MiB.
    private: f64,
    max_rss: f64,
}

impl Figures {
    fn of(runs: &[Run]) -> Self {
        let most = |kib: fn(&Run) -> u64| mib(runs.iter().map(kib).max().unwrap_or(0));
        Self {
            n: runs.len(),
            wall: measure::median(runs.iter().map(|run| run.wall.as_secs_f64())),
            cpu: measure::median(runs.iter().map(|run| run.cpu.as_secs_f64())),
            private: most(|run| run.private_kib.unwrap_or(run.max_rss_kib)),
            max_rss: most(|run| run.max_rss_kib),
        }
    }

    fn row(&self, name: &str, size: u64) -> Vec<String> {
        vec![
            name.to_owned(),
            self.n.to_string(),
            format!("{:.3}", self.wall),
            format!("{:.0}", megabytes(size) / self.wall),
            format!("{:.3}", self.cpu),
            format!("{:.1}", self.private),
            format!("{:.1} %", self.private * 104.857_6 / megabytes(size)),
            format!("{:.1}", self.max_rss),
        ]
    }
}

/// Finds the target named `graph_bench` and builds it.
fn build() -> Result<PathBuf> {
    let metadata = shell::output(&mut shell::cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let (package, kind) = find_target(&metadata, "graph_bench").ok_or_else(|| {
        Failure::new("no example or binary target named graph_bench in the workspace yet")
    })?;
    let option = format!("--{kind}");
    let arguments = [
        "build",
        "--release",
        "--package",
        &package,
        &option,
        "graph_bench",
    ];
    shell::run(&mut shell::cargo(&arguments))?;
    let folder = shell::release_folder();
    Ok(match kind {
        "example" => folder.join("examples/graph_bench"),
        _ => folder.join("graph_bench"),
    })
}

/// The package that has a program of this name, and whether it is an example or a binary.
fn find_target(metadata: &Value, name: &str) -> Option<(String, &'static str)> {
    for package in metadata["packages"].as_array()? {
        for target in package["targets"].as_array()? {
            if target["name"] != name {
                continue;
            }
            let package = package["name"].as_str()?.to_owned();
            for kind in ["example", "bin"] {
                if target["kind"][0] == kind {
                    return Some((package, kind));
                }
            }
        }
    }
    None
}

/// One run of the program under test, and what it printed.
fn run_ours(program: &Path, threads: &str, list: &Path) -> Result<(Run, String)> {
    let said = folder()?.join("graph_bench.out");
    let mut command: Command = shell::command(program);
    command
        .args(["--threads", threads])
        .arg(format!("@{}", list.display()))
        .stdout(File::create(&said)?);
    let mut run = measure::measure(&mut command, true)?;
    let text = fs::read_to_string(&said)?;
    if let Some(kib) = own_figure(&text, "private_kib:") {
        run.private_kib = Some(kib);
    }
    Ok((run, text))
}

/// A number that the program prints behind a name, on a line of its own.
fn own_figure<T: FromStr>(text: &str, name: &str) -> Option<T> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(name))?;
    line.trim().parse().ok()
}

/// All archives in the folder, in order.
fn archives(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context(folder.display())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "a") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::new(format!(
            "no archives in {}: install llvm-22-dev and libclang-22-dev",
            folder.display()
        )));
    }
    Ok(files)
}

/// Reads all files once, so that they are in the page cache; their size.
fn warm(files: &[PathBuf]) -> Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    for file in files {
        let mut open = File::open(file).context(file.display())?;
        loop {
            let n = open.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            size += u64::try_from(n).unwrap_or(0);
        }
    }
    Ok(size)
}

/// Bytes as MB.
fn megabytes(bytes: u64) -> f64 {
    mib(bytes) * 1024.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_program() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "targets": [{"name": "a", "kind": ["lib"]}]},
            {"name": "b", "targets": [{"name": "graph_bench", "kind": ["example"]}]},
        ]});
        assert_eq!(
            find_target(&metadata, "graph_bench"),
            Some(("b".to_owned(), "example"))
        );
        assert_eq!(find_target(&metadata, "other"), None);
    }

    #[test]
    fn reads_what_it_says() {
        let text = "read: 3 s\n  private_kib: 57000\n  seconds: 0.25\n";
        assert_eq!(own_figure(text, "private_kib:"), Some(57000));
        assert_eq!(own_figure(text, "seconds:"), Some(0.25));
        assert_eq!(own_figure::<u64>("private_kib: many", "private_kib:"), None);
        assert_eq!(megabytes(3_000_000), 3.0);
    }

    #[test]
    fn figures_are_medians_and_the_most_memory() {
        let run = |ms, kib| Run {
            wall: std::time::Duration::from_millis(ms),
            private_kib: Some(kib),
            ..Run::default()
        };
        let figures = Figures::of(&[run(300, 1024), run(100, 3072), run(200, 2048)]);
        assert_eq!((figures.n, figures.wall, figures.private), (3, 0.2, 3.0));
        let row = figures.row("x", 300_000_000);
        assert_eq!(row[3], "1500");
        assert_eq!(row[6], "1.0 %");
    }
}
