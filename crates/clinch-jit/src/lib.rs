//! Linking into a running process.
//!
//! - [`session`] is what to start with: dylibs with objects, archives and libraries, linked on
//!   demand or as a whole.
//! - [`link`](mod@link) is the link itself, in four phases.
//! - [`passes`] are the places where a caller may look at or change the graph.
//! - [`memory`] is where linked segments live; [`process`] is the process around them.
//! - [`runtime`] is what runs in this process: starting a program, code that asks the session.
//! - [`debug`] tells debuggers and profilers of linked code.
//! - [`library`] finds what `-l` names.
//! - [`check`] is the language of rules about linked images.
//! - [`error`] is the catalogue of what can go wrong.
//!
//! ```no_run
//! use clinch_graph::InputName;
//! use clinch_jit::session::{DylibSources, Session, SessionOptions};
//!
//! let arch = clinch_target::host_arch().ok_or("unknown host")?;
//! let session = Session::new(arch, SessionOptions::default());
//! let main = session.create_dylib("main", DylibSources::default())?;
//! main.add_objects(vec![(InputName::file("a.o"), std::fs::read("a.o")?.into())])?;
//! assert!(main.look_up("main")? != 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod archives;
pub mod check;
mod context;
pub mod debug;
pub mod error;
pub mod library;
pub mod link;
mod linker_defined;
pub mod memory;
pub mod passes;
#[expect(unsafe_code, reason = "runs linked code")]
pub mod process;
mod resolver;
#[expect(unsafe_code, reason = "runs linked code")]
pub mod runtime;
pub mod session;
mod undefined;

pub use error::{LinkError, LinkErrors, MemoryError, Undefined};
pub use library::{LinkInput, Search};
pub use process::Library;
pub use runtime::exit::ProgramArguments;
