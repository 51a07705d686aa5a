//! Sessions: several dylibs, linked on demand.

mod demand;
mod examples;
mod failure;
mod lazy;
mod occupancy;
pub(crate) mod open;
mod plugin;
mod save;
mod sources;
mod stress;
mod threads;
mod tracker;

use crate::support::{self, Folder};
use bytes::Bytes;
use clinch_graph::InputName;
use clinch_jit::memory::{InProcess, MemoryManager};
use clinch_jit::session::{Dylib, DylibSources, Session, SessionOptions};
use std::sync::Arc;

/// A session on so many threads.
fn session(threads: usize) -> Session {
    let options = SessionOptions {
        threads,
        ..SessionOptions::default()
    };
    Session::new(support::arch(), options)
}

/// A new dylib of a session.
fn dylib(session: &Session, name: &str) -> Dylib {
    let created = session.create_dylib(name, DylibSources::default());
    created.unwrap_or_else(|error| panic!("{error}"))
}

/// The same with its memory.
fn dylib_with_memory(session: &Session, name: &str) -> (Dylib, Arc<InProcess>) {
    let memory = Arc::new(InProcess::new());
    let manager: Arc<dyn MemoryManager> = Arc::clone(&memory) as Arc<dyn MemoryManager>;
    let created = session.create_dylib_in(name, DylibSources::default(), manager);
    (created.unwrap_or_else(|error| panic!("{error}")), memory)
}

/// A compiled C source as an object to add.
pub(crate) fn object(folder: &Folder, name: &str, source: &str) -> (InputName, Bytes) {
    let options = ["-O1", "-fPIC"];
    let bytes = folder.object(&format!("{name}.c"), source, &options);
    (InputName::file(&format!("{name}.o")), bytes)
}

pub(crate) fn add(dylib: &Dylib, objects: Vec<(InputName, Bytes)>) {
    if let Err(errors) = dylib.add_objects(objects) {
        panic!("{errors}");
    }
}

/// Looks a function up and calls it.
fn call(dylib: &Dylib, name: &str) -> i64 {
    let address = dylib
        .look_up(name)
        .unwrap_or_else(|error| panic!("{error}"));
    support::int(support::call(address))
}
