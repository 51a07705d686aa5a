//! `cargo xtask bench jit`: linking in memory beside llvm-jitlink and, for scale, ld.lld, which
//! writes a file. The tools take turns (A B C A B C), so that a disturbance hits all of them.

use super::{at_least, at_most, folder, generate, mib, table};
use crate::measure::{self, Run};
use crate::packages::{self, FOR_BENCHES};
use crate::shell::{self, Context, Failure, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A case: what is linked, and what clinch may use of its peers' time and memory.
struct Case {
    name: &'static str,
    make: fn(&Path) -> Result<Job>,
    /// Of llvm-jitlink's CPU time.
    jitlink_bar: f64,
    /// Of ld.lld's CPU time, where it can do the same.
    lld_bar: Option<f64>,
    /// How many times as fast two threads must be as one, by wall time.
    threads_bar: Option<f64>,
    /// How often llvm-jitlink runs, at most.
    jitlink_runs: usize,
}

/// Of llvm-jitlink's peak memory, in each case.
const MEMORY_BAR: f64 = 0.5;

/// Options with which references to nothing, which resolve to 0, are in range of 32-bit fixups.
const LOW_SLAB: &[&str] = &[
    "-noexec",
    "-phony-externals",
    "-slab-allocate",
    "1Gb",
    "-slab-address",
    "0x1000000",
    "-slab-page-size",
    "4096",
];

static CASES: &[Case] = &[
    Case {
        name: "hello",
        make: |folder| Ok(Job::run(vec![generate::hello(folder)?])),
        jitlink_bar: 0.15,
        lld_bar: None,
        threads_bar: None,
        jitlink_runs: usize::MAX,
    },
    Case {
        name: "hello-oop",
        make: |folder| {
            let words = vec!["-oop-executor".to_owned(), generate::hello(folder)?];
            Ok(Job::run(words))
        },
        jitlink_bar: 0.5,
        lld_bar: None,
        threads_bar: None,
        jitlink_runs: usize::MAX,
    },
    Case {
        name: "star5k",
        make: |folder| generate::small(folder, generate::Shape::Star).map(Job::run),
        jitlink_bar: 0.15,
        lld_bar: None,
        threads_bar: None,
        jitlink_runs: usize::MAX,
    },
    Case {
        name: "chain5k",
        make: |folder| generate::small(folder, generate::Shape::Chain).map(Job::run),
        jitlink_bar: 0.04,
        lld_bar: None,
        threads_bar: None,
        jitlink_runs: usize::MAX,
    },
    Case {
        name: "six",
        make: |folder| Job::archives(folder, &generate::six()?),
        jitlink_bar: 0.04,
        lld_bar: Some(1.5),
        threads_bar: Some(1.6),
        jitlink_runs: 3,
    },
];

/// The arguments of one link.
struct Job {
    /// For clinch and llvm-jitlink alike.
    jit: Vec<String>,
    /// For ld.lld, without the output.
    lld: Option<Vec<String>>,
}

impl Job {
    fn run(jit: Vec<String>) -> Self {
        Self { jit, lld: None }
    }

    fn archives(folder: &Path, archives: &[PathBuf]) -> Result<Self> {
        let mut jit: Vec<String> = LOW_SLAB.iter().map(ToString::to_string).collect();
        jit.extend(generate::big(folder, archives)?);
        let lld = ["-shared", "--whole-archive"]
            .into_iter()
            .map(str::to_owned);
        let files = archives.iter().map(|file| file.display().to_string());
        Ok(Self {
            jit,
            lld: Some(lld.chain(files).collect()),
        })
    }
}

/// One of the programs that take turns.
struct Tool {
    name: &'static str,
    command: Vec<String>,
    runs: usize,
    done: Vec<Run>,
    failure: Option<String>,
}

/// Runs the cases that were named, or all.
pub(crate) fn run(runs: Option<usize>, cases: &[&str]) -> Result {
    if let Some(unknown) = cases
        .iter()
        .find(|name| !CASES.iter().any(|case| case.name == **name))
    {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(Failure::new(format!(
            "no case `{unknown}`; there are {}",
            names.join(", ")
        )));
    }
    packages::ensure_packages(FOR_BENCHES);
    let clinch = shell::release_build()?;
    let folder = folder()?;
    for case in CASES {
        if cases.is_empty() || cases.contains(&case.name) {
            let job = (case.make)(&folder.join(case.name)).context(case.name)?;
            let mut tools = tools(&clinch, &folder, &job, runs.unwrap_or(5), case.jitlink_runs);
            if case.threads_bar.is_some() {
                tools.extend(on_threads(&tools[0]));
            }
            let tools = take_turns(tools, &folder)?;
            report(case, &tools);
        }
    }
    Ok(())
}

/// The programs for a job, each with its arguments.
fn tools(clinch: &Path, folder: &Path, job: &Job, runs: usize, jitlink_runs: usize) -> Vec<Tool> {
    let tool = |name, program: &Path, first: &[&str], arguments: &[String], runs| Tool {
        name,
        command: std::iter::once(program.display().to_string())
            .chain(first.iter().map(ToString::to_string))
            .chain(arguments.iter().cloned())
            .collect(),
        runs,
        done: Vec::new(),
        failure: None,
    };
    let jitlink = shell::llvm("llvm-jitlink");
    let mut tools = vec![
        tool("clinch", clinch, &["jit"], &job.jit, runs),
        tool(
            "llvm-jitlink",
            &jitlink,
            &[],
            &job.jit,
            runs.min(jitlink_runs),
        ),
    ];
    if let Some(arguments) = &job.lld {
        let output = folder.join("lld.so").display().to_string();
        tools.push(tool(
            "ld.lld",
            &shell::llvm("ld.lld"),
            &["-o", &output],
            arguments,
            runs,
        ));
    }
    tools
}

/// The same command on one and on two threads.
fn on_threads(tool: &Tool) -> [Tool; 2] {
    [("1 thread", "1"), ("2 threads", "2")].map(|(name, threads)| {
        let mut command = tool.command.clone();
        command.push(format!("-num-threads={threads}"));
        Tool {
            name,
            command,
            runs: tool.runs,
            done: Vec::new(),
            failure: None,
        }
    })
}

/// One run of each to warm up, then each in turn. A program that fails does not run again.
fn take_turns(mut tools: Vec<Tool>, folder: &Path) -> Result<Vec<Tool>> {
    let most = tools.iter().map(|tool| tool.runs).max().unwrap_or(0);
    for round in 0..=most {
        for tool in &mut tools {
            if tool.failure.is_some() || round > tool.runs {
                continue;
            }
            let errors = folder.join("errors.txt");
            let Some((program, arguments)) = tool.command.split_first() else {
                continue;
            };
            let mut command: Command = shell::command(program);
            command.args(arguments).stdout(Stdio::null());
            command.stderr(File::create(&errors)?);
            match measure::measure(&mut command, false) {
                Ok(run) if round > 0 => tool.done.push(run),
                Ok(_) => {}
                Err(failure) => {
                    let text = String::from_utf8_lossy(&fs::read(&errors)?).into_owned();
                    let lines: Vec<&str> = text.lines().take(3).collect();
                    tool.failure = Some(format!("{failure}: {}", lines.join("; ")));
                }
            }
        }
    }
    Ok(tools)
}

/// Prints a case's figures and how they stand to the bars.
fn report(case: &Case, tools: &[Tool]) {
    let mut rows = vec![table::row(&[
        case.name,
        "runs",
        "CPU ms",
        "min",
        "wall ms",
        "max RSS MiB",
    ])];
    for tool in tools {
        rows.push(match &tool.failure {
            Some(failure) => table::row(&[tool.name, "0", "-", "-", "-", "-", failure]),
            None => vec![
                tool.name.to_owned(),
                tool.done.len().to_string(),
                format!("{:.1}", tool.cpu()),
                format!(
                    "{:.1}",
                    tool.done.iter().map(cpu_ms).fold(f64::INFINITY, f64::min)
                ),
                format!("{:.1}", tool.wall()),
                format!("{:.1}", tool.memory()),
            ],
        });
    }
    println!();
    table::print(&rows);
    let find = |name| {
        tools
            .iter()
            .find(|tool| tool.name == name && !tool.done.is_empty())
    };
    let Some(clinch) = find("clinch") else {
        println!("  no ratio: clinch did not run");
        return;
    };
    if let Some(peer) = find("llvm-jitlink") {
        let cpu = at_most(clinch.cpu() / peer.cpu(), case.jitlink_bar);
        let memory = at_most(clinch.memory() / peer.memory(), MEMORY_BAR);
        println!("  clinch / llvm-jitlink: CPU {cpu}, memory {memory}");
    }
    if let (Some(one), Some(two), Some(bar)) =
        (find("1 thread"), find("2 threads"), case.threads_bar)
    {
        println!(
            "  two threads, as fast as one: {}",
            at_least(one.wall() / two.wall(), bar)
        );
    }
    if let (Some(peer), Some(bar)) = (find("ld.lld"), case.lld_bar) {
        println!(
            "  clinch / ld.lld: CPU {}",
            at_most(clinch.cpu() / peer.cpu(), bar)
        );
    }
}

impl Tool {
    /// Median, in ms.
    fn cpu(&self) -> f64 {
        measure::median(self.done.iter().map(cpu_ms))
    }

    /// Median, in ms.
    fn wall(&self) -> f64 {
        measure::median(self.done.iter().map(|run| run.wall.as_secs_f64() * 1e3))
    }

    /// The most of any run, in MiB.
    fn memory(&self) -> f64 {
        mib(self
            .done
            .iter()
            .map(|run| run.max_rss_kib)
            .max()
            .unwrap_or(0))
    }
}

fn cpu_ms(run: &Run) -> f64 {
    run.cpu.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &'static str, command: &[&str], runs: usize) -> Tool {
        Tool {
            name,
            command: command.iter().map(ToString::to_string).collect(),
            runs,
            done: Vec::new(),
            failure: None,
        }
    }

    #[test]
    fn turns() {
        let folder = std::env::temp_dir().join(format!("xtask-turns-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let fails = ["sh", "-c", "echo not yet >&2; exit 1"];
        let tools = vec![
            tool("good", &["true"], 3),
            tool("few", &["true"], 1),
            tool("bad", &fails, 3),
        ];
        let tools = take_turns(tools, &folder).unwrap();
        let runs: Vec<usize> = tools.iter().map(|tool| tool.done.len()).collect();
        assert_eq!(runs, [3, 1, 0]);
        let failure = tools[2].failure.as_deref().unwrap();
        assert!(
            failure.contains("exit status: 1") && failure.ends_with("not yet"),
            "{failure}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn commands() {
        let job = Job {
            jit: vec!["a.o".to_owned()],
            lld: Some(vec!["-shared".to_owned()]),
        };
        let tools = tools(Path::new("clinch"), Path::new("out"), &job, 5, 3);
        assert_eq!(tools[0].command, ["clinch", "jit", "a.o"]);
        assert_eq!((tools[0].runs, tools[1].runs, tools[2].runs), (5, 3, 5));
        assert_eq!(tools[2].command[1..], ["-o", "out/lld.so", "-shared"]);
    }

    #[test]
    fn unknown_cases_are_refused() {
        let failure = run(None, &["hello", "seven"]).unwrap_err().to_string();
        assert_eq!(
            failure,
            "no case `seven`; there are hello, hello-oop, star5k, chain5k, six"
        );
    }
}
