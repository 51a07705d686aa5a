//! Linking into a running process.
//!
//! - [`dylib`] is what to start with: add objects, archives and libraries, link, run.
//! - [`session`] is the same for several dylibs, linked on demand.
//! - [`link`](mod@link) is the link itself, in four phases.
//! - [`passes`] are the places where a caller may look at or change the graph.
//! - [`memory`] is where linked segments live; [`process`] is the process around them.
//! - [`runtime`] is what runs in the executor: thread-local storage, unwinding, initializers.
//! - [`debug`] tells debuggers and profilers of linked code.
//! - [`library`] finds what `-l` names.
//! - [`check`] is the language of rules about linked images.
//! - [`error`] is the catalogue of what can go wrong.
//!
//! ```no_run
//! use clinch_jit::{Dylib, DylibOptions, ProgramArguments, memory::InProcess, passes::Passes};
//! use clinch_graph::{InputName, Workers};
//! use std::sync::Arc;
//!
//! let arch = clinch_target::host_arch().ok_or("unknown host")?;
//! let memory = Arc::new(InProcess::new());
//! let workers = Arc::new(Workers::available());
//! let mut dylib = Dylib::new("main", arch, DylibOptions::default(), memory, workers);
//! dylib.add_object(InputName::file("a.o"), std::fs::read("a.o")?.into());
//! dylib.link(&["main"], Passes::default())?;
//! assert!(dylib.address("main").is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod archives;
pub mod check;
mod closure;
#[expect(unsafe_code, reason = "tells the process of linked code")]
mod context;
pub mod debug;
pub mod dylib;
pub mod error;
pub mod library;
pub mod link;
mod linker_defined;
pub mod memory;
pub mod passes;
#[expect(unsafe_code, reason = "calls the dynamic linker")]
pub mod process;
mod resolver;
#[expect(unsafe_code, reason = "runs linked code")]
pub mod runtime;
pub mod session;
mod undefined;

pub use dylib::{Dylib, DylibOptions};
pub use error::{LinkError, LinkErrors, MemoryError, Undefined};
pub use library::Search;
pub use process::Library;
pub use runtime::exit::ProgramArguments;
