//! Links objects with plugins that look at links and change them, runs `main`, and prints what
//! they saw. Each plugin is a file of its own, to be read as an example.
//!
//! usage: `plugins OBJECT...`

#![allow(clippy::print_stdout, reason = "a program that prints")]

mod call_sites;
mod entry_counts;
mod got_loads;
mod section_sizes;
mod symbols;
mod unwind_sections;

use clinch_graph::InputName;
use clinch_jit::session::{DylibSources, Session, SessionOptions};
use clinch_object::FileBytes;
use std::path::Path;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arch = clinch_target::host_arch().ok_or("unknown host")?;
    let session = Session::new(arch, SessionOptions::default());
    let symbols = Arc::new(symbols::Symbols::default());
    let sizes = Arc::new(section_sizes::SectionSizes::default());
    let got = Arc::new(got_loads::GotLoads::default());
    let unwind = Arc::new(unwind_sections::UnwindSections::default());
    let sites = Arc::new(call_sites::CallSites::new("puts"));
    let counts = Arc::new(entry_counts::EntryCounts::default());
    session.add_plugin(Arc::clone(&symbols) as _);
    session.add_plugin(Arc::clone(&sizes) as _);
    session.add_plugin(Arc::clone(&got) as _);
    session.add_plugin(Arc::clone(&unwind) as _);
    session.add_plugin(Arc::clone(&sites) as _);
    session.add_plugin(Arc::clone(&counts) as _);

    let dylib = session.create_dylib("main", DylibSources::default())?;
    let mut objects = Vec::new();
    for file in std::env::args().skip(1) {
        objects.push((InputName::file(&file), FileBytes::open(Path::new(&file))?));
    }
    dylib.add_objects(objects)?;
    let main = usize::try_from(dylib.look_up("main")?)?;
    // SAFETY: the caller of this program says that the objects are fit to run here, and that
    // `main` takes no arguments.
    let status = unsafe {
        let main: extern "C" fn() -> i32 =
            std::mem::transmute(std::ptr::with_exposed_provenance::<()>(main));
        main()
    };

    println!("main answered {status}");
    println!("symbols: {}", symbols.names().join(" "));
    for (name, size) in sizes.sizes() {
        println!("section {name}: {size} bytes");
    }
    println!("loads of addresses relaxed by hand: {}", got.relaxed());
    for (start, size) in unwind.sections() {
        println!("unwind section at {start:#x}, {size} bytes");
    }
    println!("calls of puts: {}", sites.sites().len());
    for (name, count) in counts.counts() {
        println!("{name} was entered {count} times");
    }
    Ok(())
}
