//! Which options go together. What has no effect is told; what cannot be is refused, before anything
//! is opened.

use crate::flags::jit::{ExecutorOptions, Input, JitOptions};
use crate::render::Failure;

/// Checks the options, in the order in which llvm-jitlink does; lets what has no effect have none.
pub(super) fn check(options: &mut JitOptions) -> Result<(), Failure> {
    if options.no_exec && !options.arguments.is_empty() {
        eprintln!("Warning: --args passed to -noexec run will be ignored.");
    }
    if options.runtime.is_some() && !options.process_symbols {
        return Err("-orc-runtime requires process symbols".into());
    }
    let elsewhere = options.executor.is_some();
    if options.slab_size.is_some() && elsewhere {
        return Err(
            "-slab-allocate cannot be used with -oop-executor or -oop-executor-connect".into(),
        );
    }
    if options.slab_address.is_some() {
        if options.slab_size.is_none() || !options.no_exec {
            return Err("-slab-address requires -slab-allocate and -noexec".into());
        }
        if options.slab_page.is_none() {
            eprintln!("Warning: -slab-address used without -slab-page-size.");
        }
    }
    if let Some(size) = options.slab_page {
        if options.slab_size.is_none() {
            return Err("-slab-page-size requires -slab-allocate".into());
        }
        // Of every machine that this runs on.
        const PAGE: u64 = 4096;
        if !options.no_exec && size % PAGE != 0 {
            return Err(
                "-slab-page-size must be a multiple of real page size for exec tests (did you mean \
                 to use -noexec ?)"
                    .into(),
            );
        }
    }
    if options.no_exec && elsewhere {
        return Err("-noexec cannot be used with oop-executor or oop-executor-connect".into());
    }
    if options.shared_memory {
        match options.executor {
            Some(ExecutorOptions::Start(_)) => {}
            Some(ExecutorOptions::Connect(_)) => {
                return Err(
                    "-use-memmgr=shared cannot be used with -oop-executor-connect: memory can be \
                     shared only with an executor that is started here (-oop-executor)"
                        .into(),
                );
            }
            None => {
                return Err(
                    "-use-memmgr=shared requires -oop-executor: memory is shared with another \
                     process"
                        .into(),
                );
            }
        }
    }
    if options.double_map && elsewhere {
        return Err("-double-map cannot be used with oop-executor or oop-executor-connect".into());
    }
    if options.double_map && options.no_exec && options.slab_size.is_some() {
        eprintln!(
            "Warning: -double-map ignored as nothing is mapped for -slab-allocate and -noexec"
        );
    }
    if options.threads == Some(0) && elsewhere {
        return Err("-threads=0 cannot be used with oop-executor or oop-executor-connect".into());
    }
    check_lazy(options)?;
    if options.symbolicate.is_some() && options.symbol_table.take().is_some() {
        eprintln!("write-symtab specified with symbolicate-with, ignoring.");
    }
    Ok(())
}

fn check_lazy(options: &mut JitOptions) -> Result<(), Failure> {
    if !options.lazy.is_empty() {
        let mut inputs = options.inputs.iter();
        if inputs.any(|input| matches!(input.value, Input::Harness(_))) {
            return Err("Lazy linking cannot be used with -harness mode".into());
        }
    } else if options.speculate {
        eprintln!("Warning: -speculate ignored as there are no -lazy inputs");
        options.speculate = false;
    }
    if !options.speculate {
        if options.speculate_order.take().is_some() {
            eprintln!("Warning: -speculate-order ignored because speculation is disabled");
        }
        if options.record_lazy.take().is_some() {
            eprintln!("Warning: -record-lazy-execs ignored because speculation is disabled");
        }
    }
    Ok(())
}
