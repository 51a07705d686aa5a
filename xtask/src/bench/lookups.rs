//! `cargo xtask bench lookups`: how many look-ups of a ready symbol a session answers per second,
//! from one thread and from two, beside LLJIT through LLVM's C interface.

use super::{at_least, folder, generate, table};
use crate::packages::{self, FOR_BENCHES};
use crate::shell::{self, Context, Failure, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Of LLJIT's look-ups per second.
const BAR: f64 = 10.0;

/// Looks `main` up in LLJIT for 0.3 s from one thread, then from two; prints a number each.
const LLJIT: &str = r#"
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static LLVMOrcLLJITRef jit;
static volatile int ended;

static void check(LLVMErrorRef error) {
    if (error) {
        fprintf(stderr, "%s\n", LLVMGetErrorMessage(error));
        exit(1);
    }
}

static void *look_up(void *count) {
    long n = 0;
    for (; !ended; n++) {
        LLVMOrcExecutorAddress address;
        check(LLVMOrcLLJITLookup(jit, &address, "main"));
    }
    *(long *)count = n;
    return 0;
}

int main(int argc, char **argv) {
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    check(LLVMOrcCreateLLJIT(&jit, 0));
    LLVMMemoryBufferRef object;
    char *message;
    if (argc < 2 || LLVMCreateMemoryBufferWithContentsOfFile(argv[1], &object, &message))
        return 1;
    LLVMOrcJITDylibRef dylib = LLVMOrcLLJITGetMainJITDylib(jit);
    check(LLVMOrcLLJITAddObjectFile(jit, dylib, object));
    LLVMOrcDefinitionGeneratorRef process;
    char prefix = LLVMOrcLLJITGetGlobalPrefix(jit);
    check(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&process, prefix, 0, 0));
    LLVMOrcJITDylibAddGenerator(dylib, process);
    LLVMOrcExecutorAddress address;
    check(LLVMOrcLLJITLookup(jit, &address, "main"));
    for (int n = 1; n <= 2; n++) {
        pthread_t threads[2];
        long counts[2] = {0, 0};
        ended = 0;
        for (int i = 0; i < n; i++) pthread_create(&threads[i], 0, look_up, &counts[i]);
        struct timespec time = {0, 300000000};
        nanosleep(&time, 0);
        ended = 1;
        for (int i = 0; i < n; i++) pthread_join(threads[i], 0);
        printf("%.0f\n", (counts[0] + counts[1]) / 0.3);
    }
    return 0;
}
"#;

/// Runs both, `runs` times in turns; medians.
pub(crate) fn run(runs: Option<usize>) -> Result {
    packages::ensure_packages(FOR_BENCHES);
    let folder = folder()?.join("lookups");
    fs::create_dir_all(&folder)?;
    let object = generate::hello(&folder)?;
    let (ours, peer) = (build_ours()?, build_lljit(&folder)?);
    let (mut mine, mut theirs) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..runs.unwrap_or(5) {
        let said = shell::output(shell::command(&ours).args(["--look-ups", &object]))?;
        let lines = said
            .lines()
            .filter(|line| line.contains("look-ups per second"));
        let figures = lines.filter_map(|line| line.split_whitespace().next());
        collect(&mut mine, figures)?;
        let said = shell::output(shell::command(&peer).arg(&object))?;
        collect(&mut theirs, said.lines())?;
    }
    let mut rows = vec![table::row(&["threads", "clinch", "LLJIT", "ratio"])];
    for (threads, (mine, theirs)) in (1..).zip(mine.into_iter().zip(theirs)) {
        let (mine, theirs) = (crate::measure::median(mine), crate::measure::median(theirs));
        rows.push(table::row(&[
            &threads.to_string(),
            &format!("{mine:.0}"),
            &format!("{theirs:.0}"),
            &at_least(mine / theirs, BAR),
        ]));
    }
    println!("look-ups of a ready symbol per second");
    table::print(&rows);
    Ok(())
}

/// Adds one figure for one thread and one for two.
fn collect<'t>(to: &mut [Vec<f64>; 2], figures: impl Iterator<Item = &'t str>) -> Result {
    let figures: Vec<f64> = figures.filter_map(|figure| figure.parse().ok()).collect();
    if figures.len() != to.len() {
        return Err(Failure::new(
            "a program did not say how many look-ups there were",
        ));
    }
    for (to, figure) in to.iter_mut().zip(figures) {
        to.push(figure);
    }
    Ok(())
}

fn build_ours() -> Result<PathBuf> {
    let arguments = [
        "build",
        "--release",
        "-p",
        "clinch-jit",
        "--example",
        "session_bench",
    ];
    shell::run(&mut shell::cargo(&arguments))?;
    Ok(shell::release_folder()
        .join("examples")
        .join("session_bench"))
}

fn build_lljit(folder: &Path) -> Result<PathBuf> {
    let (source, program) = (folder.join("lljit.c"), folder.join("lljit"));
    fs::write(&source, LLJIT).context(source.display())?;
    let options = ["--cflags", "--ldflags", "--libs", "orcjit", "native"];
    let options = shell::output(shell::command(shell::llvm("llvm-config")).args(options))?;
    let mut compiler = shell::command("cc");
    compiler.arg("-O2").arg(&source).arg("-o").arg(&program);
    compiler.args(options.split_whitespace()).arg("-lpthread");
    shell::run(&mut compiler)?;
    Ok(program)
}
