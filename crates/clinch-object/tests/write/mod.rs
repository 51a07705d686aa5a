//! Graphs written as relocatable objects: what was read and written reads the same, and other
//! tools see what was meant.

mod errors;
mod joined;
mod many;
mod peer;
mod sections;
mod symbols;

use crate::support::{arch, read};
use clinch_graph::{Digest, LinkGraph, parse};
use clinch_object::elf::raw::{Header, SectionHeader, name_at};
use clinch_object::{WriteError, write_object};
use clinch_target::Arch;

/// The architecture of a graph that was read here.
fn arch_of(graph: &LinkGraph) -> &'static Arch {
    let target = graph.target();
    let is_64 = target.pointer_size == 8;
    clinch_target::arch_named(target.name)
        .or_else(|| arch::find(arch::MACHINE, is_64, target.endian))
        .unwrap()
}

fn try_write(graph: &LinkGraph) -> Result<Vec<u8>, WriteError> {
    write_object(graph, arch_of(graph))
}

#[track_caller]
fn write(graph: &LinkGraph) -> Vec<u8> {
    try_write(graph).unwrap_or_else(|error| panic!("{error}"))
}

fn digest(graph: &LinkGraph) -> Digest {
    graph.digest().unwrap()
}

/// Reads, writes and reads an object, which must mean the same; written again it is the same
/// bytes. Answers what was written.
#[track_caller]
fn round_trip(object: &[u8]) -> Vec<u8> {
    let graph = read(object);
    let written = write(&graph);
    let again = read(&written);
    if digest(&graph) != digest(&again) {
        let lines = |graph: &LinkGraph| graph.to_text().unwrap();
        assert_eq!(lines(&again), lines(&graph));
    }
    assert_eq!(digest(&graph), digest(&again));
    assert!(write(&again) == written, "written again it is other bytes");
    written
}

/// The graph of a text, for clinch's own architecture.
#[track_caller]
fn graph(text: &str) -> LinkGraph {
    let text = format!("graph \"t\" x86_64\n{text}");
    parse(&text, arch::target).unwrap_or_else(|error| panic!("{error}"))
}

/// The headers of a file with their names.
fn headers(object: &[u8]) -> Vec<(String, SectionHeader)> {
    let header = Header::parse(object).unwrap();
    let sections = header.sections(object);
    let names = sections.need("names", header.names).unwrap();
    let names = names.data(object, "names").unwrap();
    let name = |at| String::from_utf8_lossy(name_at(names, at).unwrap()).into_owned();
    sections
        .iter()
        .map(|(_, section)| (name(section.name), section))
        .collect()
}

/// The number and the header of the first section of a name.
#[track_caller]
fn header(object: &[u8], name: &str) -> (u32, SectionHeader) {
    let all = (0..).zip(headers(object));
    let mut found = all.filter(|(_, (found, _))| found == name);
    let (number, (_, header)) = found.next().unwrap_or_else(|| panic!("no section {name}"));
    (number, header)
}
