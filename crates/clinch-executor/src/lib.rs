//! Linked code in another process, on this machine or another: the protocol between a controller,
//! which links, and an executor, which holds and runs what was linked.
//!
//! - [`Controller`] is the linker's side: it starts or finds an executor and asks it for things.
//! - [`Executor`] is the other side: it serves one controller at a time.
//! - [`wire`] is what goes between them; [`Stream`] is over what; [`Secret`] is what both know.
//! - [`Limits`] says how long each waits for what; [`Error`] is the catalogue of what goes wrong.
//!
//! Who knows the secret may run anything in the executor's process: serving means that. Who does
//! not know it can neither make the executor do anything, nor pretend to be one. The controller
//! trusts an executor with nothing but its answers: any bytes it sends are an answer or an error.
//!
//! *Invariant:* no page is writable and executable. *Invariant:* what a connection mapped, opened
//! and registered is undone when it ends, for whatever reason. *Invariant:* nothing waits without
//! a limit, but for linked code to end, and then both sides prove meanwhile that they are alive.
//!
//! ```
//! use clinch_executor::{Controller, Executor, Secret, Stream};
//! use clinch_executor::wire::{Place, Protection};
//!
//! let secret = Secret::random()?;
//! let (ours, theirs) = Stream::pair()?;
//! let executor = Executor::new(secret.clone());
//! let serving = std::thread::spawn(move || executor.serve(theirs));
//!
//! let controller = Controller::connect(ours, &secret)?;
//! let page = u64::from(controller.facts().page_size);
//! let base = controller.reserve(page, page, Place::Any)?;
//! controller.protect(base, page, Protection::ReadWrite)?;
//! controller.write(base, b"hello")?;
//! assert_eq!(controller.read(base, 5)?, b"hello");
//! drop(controller);
//! assert!(serving.join().is_ok_and(|served| served.is_ok()));
//! # Ok::<(), clinch_executor::Error>(())
//! ```

#![deny(unsafe_code)]

mod client;
mod error;
mod frame;
mod handshake;
mod limits;
mod secret;
mod server;
mod stream;
#[expect(
    unsafe_code,
    reason = "maps memory, runs linked code, starts processes"
)]
mod system;
mod threads;
pub mod wire;

/// What this process has loaded: for controllers that link into their own process.
pub mod loaded {
    pub use crate::system::library::{Library, find};
    pub use crate::wire::Found as Symbol;
}

/// What an executor does, done in this process: for controllers that link into their own.
pub mod own {
    pub use crate::system::code::Arguments;
    pub use crate::system::file::{FileDraft, SealedFile};
    pub use crate::system::own::{
        call_program, exit, forget_within, perform, register_image, reserve_thread_local,
        thread_local_offsets,
    };
    pub use crate::system::pages::{REACH, Reservation, anchor, bytes, page_size};
    pub use crate::system::process::reset_signals;
    pub use crate::system::restart;
}

pub use client::{Client, Controller, ControllerOptions, DispatchHandler, LogHandler};
pub use error::Error;
pub use limits::Limits;
pub use secret::Secret;
pub use server::{Endpoint, Executor};
pub use stream::Stream;
pub use system::shared::{SharedFile, SharedMemory, SharedPart};
pub use wire::Refusal;
pub use wire::handshake::Facts;
