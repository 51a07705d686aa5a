//! `cargo xtask fuzz`: runs the targets of `fuzz/` with cargo-fuzz on the stable toolchain
//! (`RUSTC_BOOTSTRAP=1`), from seeds that compilers on this machine make.
//!
//! What a target found goes to `fuzz/artifacts/TARGET/`. Once understood, the input is copied to
//! `fuzz/regressions/TARGET/`, where an ordinary test reads it from then on.

mod log;
mod seeds;

use crate::shell::{self, Context, Failure, Result};
use crate::stage::Stages;
use log::Log;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// The version of cargo-fuzz that this was tried with.
const VERSION: &str = "0.13.2";

/// What to do where cargo-fuzz is missing.
pub(crate) const HOW_TO_INSTALL: &str =
    "no cargo-fuzz: cargo install cargo-fuzz --version 0.13.2 --locked";

/// Whether cargo-fuzz is there.
pub(crate) fn is_installed() -> bool {
    shell::output(&mut cargo_fuzz(&["--version"])).is_ok()
}

/// Compiles and installs cargo-fuzz, in about 94 s.
pub(crate) fn install() -> Result {
    let arguments = ["install", "cargo-fuzz", "--version", VERSION, "--locked"];
    shell::run(&mut shell::cargo(&arguments))
}

/// Builds all targets and runs each, a stage for each.
pub(crate) fn stages(stages: &mut Stages, seconds: u64) {
    let names = match targets() {
        Ok(names) => names,
        Err(failure) => {
            stages.run("fuzz targets", || Err(failure));
            return;
        }
    };
    let mut built = false;
    stages.run("fuzz build", || {
        build(&names)?;
        built = true;
        seeds::make(&names)
    });
    if built {
        for name in &names {
            stages.run(&format!("fuzz {name}"), || {
                let log = fuzz(name, seconds)?;
                log.judge().map(|()| log.to_string())
            });
        }
    }
}

/// Fuzzes the targets that were named, or all.
pub(crate) fn run(arguments: &[String]) -> Result {
    let all = targets()?;
    let options = Options::read(arguments, &all)?;
    if options.list {
        for name in &all {
            println!("{name}");
        }
        return Ok(());
    }
    if options.only_seeds {
        println!("{}", seeds::make(&options.targets)?);
        return Ok(());
    }
    if !is_installed() {
        return Err(Failure::new(HOW_TO_INSTALL));
    }
    build(&options.targets)?;
    println!("{}", seeds::make(&options.targets)?);

    println!(
        "fuzzing {} for {} s each, {} at a time; logs in fuzz/artifacts",
        options.targets.join(", "),
        options.seconds,
        options.jobs
    );
    let queue = Mutex::new(VecDeque::from(options.targets.clone()));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(name) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                    let log = fuzz(&name, options.seconds);
                    let verdict = log.and_then(|log| {
                        println!("{name:<20} {log}");
                        log.judge()
                    });
                    if let Err(failure) = verdict {
                        eprintln!("{name}: {failure}");
                        if let Ok(mut failed) = failed.lock() {
                            failed.push(name);
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    failed.sort();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("findings in {}", failed.join(", "))))
}

/// What was asked for.
#[derive(PartialEq, Eq, Debug)]
struct Options {
    targets: Vec<String>,
    seconds: u64,
    jobs: usize,
    list: bool,
    only_seeds: bool,
}

impl Options {
    fn read(arguments: &[String], all: &[String]) -> Result<Self> {
        let mut options = Self {
            targets: Vec::new(),
            seconds: 60,
            jobs: 1,
            list: false,
            only_seeds: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--list" {
                options.list = true;
            } else if word == "--seeds" {
                options.only_seeds = true;
            } else if word == "--jobs" {
                let number = words.next().and_then(|number| number.parse().ok());
                options.jobs = number
                    .filter(|&jobs| jobs > 0)
                    .ok_or_else(|| Failure::new("--jobs needs a number"))?;
            } else if let Ok(seconds) = word.parse() {
                options.seconds = seconds;
            } else if all.contains(word) {
                options.targets.push(word.clone());
            } else if word != "all" {
                return Err(Failure::new(format!(
                    "no fuzz target `{word}`; there are {}",
                    all.join(", ")
                )));
            }
        }
        if options.targets.is_empty() {
            options.targets = all.to_vec();
        }
        Ok(options)
    }
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let folder = shell::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context(folder.display())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn cargo_fuzz(arguments: &[&str]) -> Command {
    let mut command = shell::cargo(&["fuzz"]);
    command.args(arguments).env("RUSTC_BOOTSTRAP", "1");
    command
}

/// Builds with the address sanitizer, optimized, with overflow checks: cargo-fuzz's defaults.
fn build(names: &[String]) -> Result {
    if names == targets()? {
        return shell::run(&mut cargo_fuzz(&["build"]));
    }
    names
        .iter()
        .try_for_each(|name| shell::run(&mut cargo_fuzz(&["build", name])))
}

/// Runs one target for so long. Calling its program directly lets several run at once.
fn fuzz(name: &str, seconds: u64) -> Result<Log> {
    let folder = shell::root().join("fuzz");
    let corpus = folder.join("corpus").join(name);
    let artifacts = folder.join("artifacts").join(name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let log = folder.join("artifacts").join(format!("{name}.log"));
    let file = File::create(&log).context(log.display())?;

    let mut command = shell::command(program(name)?);
    command
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        // One input must not take longer: a reader that hangs is a finding.
        .args(["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=1024"])
        .args(["-max_len=65536", "-print_final_stats=1"])
        .arg(&corpus)
        .env("ASAN_OPTIONS", "detect_odr_violation=0")
        .stdout(file.try_clone()?)
        .stderr(file);
    let dictionary = folder.join("dictionaries").join(format!("{name}.dict"));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let regressions = folder.join("regressions").join(name);
    if regressions.is_dir() {
        command.arg(regressions);
    }
    let mut child = command.spawn().context(name)?;
    let limit = Duration::from_secs(seconds + 120);
    let status = crate::measure::wait_at_most(&mut child, limit)?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    Ok(Log::read(&text, status))
}

/// The target's program, as cargo-fuzz builds it.
fn program(name: &str) -> Result<PathBuf> {
    let version = shell::output(shell::command("rustc").arg("-vV"))?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| Failure::new("rustc -vV names no host"))?;
    Ok(shell::root()
        .join("fuzz/target")
        .join(host)
        .join("release")
        .join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        Options::read(&words, &["archive".to_owned(), "elf_object".to_owned()])
    }

    #[test]
    fn arguments() {
        let options = read(&["elf_object", "1200", "--jobs", "2"]).unwrap();
        assert_eq!(options.targets, ["elf_object"]);
        assert_eq!((options.seconds, options.jobs), (1200, 2));
        let options = read(&["all", "5"]).unwrap();
        assert_eq!(options.targets.len(), 2);
        assert_eq!(read(&[]).unwrap().seconds, 60);
        assert!(
            read(&["elf"])
                .unwrap_err()
                .to_string()
                .contains("archive, elf_object")
        );
        assert!(read(&["--jobs", "0"]).is_err());
    }

    #[test]
    fn the_version_is_the_one_named() {
        assert!(HOW_TO_INSTALL.contains(VERSION));
    }
}
