//! Debuggers and profilers: what tells them of linked code, when a link asks for it.
//!
//! A finished link has no file that a debugger could read. So one is made in memory:
//!
//! - `sections` links the debug sections of all inputs, which the link itself did not read;
//! - `object` makes the ELF image of the whole link with them, its segments and symbols;
//! - the executor tells debuggers of it by GDB's JIT interface, which LLDB also knows.
//!
//! Profilers want names of address ranges: `functions` lists them, `lines` reads the line tables,
//! [`perf`] writes both where Linux's `perf` finds them.
//!
//! [`Reporter::describe`] is to be called when a link's graph, addresses and contents are final. It
//! writes what profilers read, and answers the image that debuggers are to be told of before the
//! code runs. Thread-local variables of linked code are not described:
//! debuggers ask the dynamic linker for them, which does not know of it.

mod elf;
mod functions;
mod jitdump;
mod lines;
mod object;
#[expect(
    unsafe_code,
    reason = "asks for clocks, maps the file that perf looks for"
)]
pub mod perf;
mod sections;
#[cfg(test)]
mod tests;

pub use functions::Named;
pub use object::Image;

use crate::error::LinkErrors;
use crate::memory::DebugImage;
use clinch_graph::{LinkGraph, Workers};
use clinch_link::layout::Layout;
use clinch_target::Arch;
use lines::Lines;
use std::sync::Arc;

/// Who is to be told of linked code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audience {
    /// Debuggers that know GDB's JIT interface.
    pub debugger: bool,
    /// Linux's `perf`.
    pub perf: bool,
}

/// Describes links to an audience.
#[derive(Clone, Debug)]
pub struct Reporter {
    audience: Audience,
    workers: Arc<Workers>,
}

impl Reporter {
    /// Who describes links to an audience; nobody when there is none.
    pub fn new(audience: Audience, workers: &Arc<Workers>) -> Option<Self> {
        (audience != Audience::default()).then(|| Self {
            audience,
            workers: Arc::clone(workers),
        })
    }

    /// Describes a link whose addresses and contents are final: names for profilers are written,
    /// the image for debuggers is the answer. `read` fills a buffer with the linked bytes at an
    /// address.
    ///
    /// # Errors
    /// Debug sections that cannot be read or fixed up, files for `perf` that cannot be made.
    pub fn describe(
        &self,
        graph: &LinkGraph,
        layout: &Layout,
        arch: &Arch,
        read: &mut dyn FnMut(u64, &mut [u8]),
    ) -> Result<Option<DebugImage>, LinkErrors> {
        let debug = sections::link(graph, layout, arch, &self.workers)?;
        let names = functions::all(graph, layout);
        if self.audience.perf {
            perf::open(arch.elf.map_or(0, |elf| elf.machine))?;
            let target = graph.target();
            let lines = Lines::read(&debug, target.endian, target.pointer_size);
            perf::record(&functions::functions(layout, &names), &lines, read)?;
        }
        Ok(self.audience.debugger.then(|| {
            let mut image = Image::new(graph, layout, arch, &names, debug);
            image.fill(read);
            DebugImage {
                bytes: image.into_bytes(),
                blank: Image::blank(arch),
            }
        }))
    }
}
