//! The image that a debugger reads: an ELF file in memory with addresses. It has the segments of a
//! finished link as sections without content, the symbols in them, the call frame records, and the
//! debug sections of all inputs, already fixed up. It is one image for the whole link, however many
//! inputs there are, because a debugger pays for each image it is told of.
//!
//! Inputs are not copied with their sections' addresses written in (what LLVM's JITs do): the
//! debugger would then do the relocations itself, would take a section that is not in memory for
//! one at address 0, and knows no way to relocate sections that several objects share.

use super::elf::{self, Section, Strings, Symbol};
use super::functions::Named;
use super::sections::DebugSection;
use clinch_graph::index::int::usize_of_u64;
use clinch_graph::{LinkGraph, Prot, SectionKind};
use clinch_link::layout::{Layout, SegmentKind};
use clinch_object::elf::raw::{Format, shf, sht, st};
use clinch_target::Arch;
use std::ops::Range;

/// An image for debuggers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    bytes: Vec<u8>,
    /// Where call frame records are in memory, and where in the image they belong.
    frames: Option<(u64, Range<usize>)>,
}

impl Image {
    /// The image of a finished link.
    pub(crate) fn new(
        graph: &LinkGraph,
        layout: &Layout,
        arch: &Arch,
        names: &[Named],
        debug: Vec<DebugSection>,
    ) -> Self {
        let format = format_of(arch);
        let mut sections: Vec<Section> = layout
            .segments
            .iter()
            .map(|(base, segment)| Section {
                name: segment_name(segment.kind).to_vec(),
                kind: sht::NOBITS,
                flags: flags_of(segment.kind),
                address: *base,
                size: segment.size,
                align: segment.align,
                ..Section::default()
            })
            .collect();
        let frames = layout.range_of(graph, SectionKind::EhFrame);
        let frames_at = sections.len();
        if let Some((address, size)) = frames {
            // Not `SHF_ALLOC`: its addresses belong to the segment that it lies in, and debuggers
            // want no two sections to overlap.
            sections.push(Section {
                name: b".eh_frame".to_vec(),
                kind: sht::PROGBITS,
                address,
                content: vec![0; usize_of_u64(size)],
                align: 8,
                ..Section::default()
            });
        }
        sections.extend(debug.into_iter().map(|section| Section {
            name: section.name,
            kind: sht::PROGBITS,
            content: section.content,
            align: section.align,
            ..Section::default()
        }));

        let mut strings = Strings::new();
        let symbols: Vec<Symbol> = names
            .iter()
            .map(|named| Symbol {
                name: strings.add(&named.name),
                binding: if named.is_global {
                    st::GLOBAL
                } else {
                    st::LOCAL
                },
                kind: match named.is_function {
                    true => st::FUNC,
                    false => st::OBJECT,
                },
                section: u16::try_from(named.segment + 1).unwrap_or(0),
                value: named.address,
                size: named.size,
            })
            .collect();
        let strings_number = u32::try_from(sections.len() + 2).unwrap_or(0);
        sections.push(elf::symbol_table(format, &symbols, strings_number));
        sections.push(strings.into_section(b".strtab"));

        let file = elf::write(format, machine_of(arch), sections);
        let frames = frames.map(|(address, size)| {
            let start = file.offsets[frames_at];
            (address, start..start + usize_of_u64(size))
        });
        Self {
            bytes: file.bytes,
            frames,
        }
    }

    /// An image of nothing.
    pub(crate) fn blank(arch: &Arch) -> Vec<u8> {
        elf::write(format_of(arch), machine_of(arch), Vec::new()).bytes
    }

    /// Copies what is only known when the link's memory has its contents. `read` fills a buffer
    /// with the bytes at an address.
    pub(crate) fn fill(&mut self, read: &mut dyn FnMut(u64, &mut [u8])) {
        if let Some((address, range)) = self.frames.take() {
            read(address, &mut self.bytes[range]);
        }
    }

    /// The file.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn format_of(arch: &Arch) -> Format {
    Format {
        is_64: arch.graph.pointer_size == 8,
        endian: arch.graph.endian,
    }
}

fn machine_of(arch: &Arch) -> u16 {
    arch.elf.map_or(0, |elf| elf.machine)
}

fn segment_name(kind: SegmentKind) -> &'static [u8] {
    match kind {
        SegmentKind::ReadOnly => b".rodata",
        SegmentKind::Code => b".text",
        SegmentKind::ThreadLocal => b".tdata",
        SegmentKind::ReadOnlyAfterRelocation => b".data.rel.ro",
        SegmentKind::Data => b".data",
        SegmentKind::WritableCode => b".wtext",
    }
}

fn flags_of(kind: SegmentKind) -> u64 {
    let prot = kind.prot();
    let mut flags = shf::ALLOC;
    if prot.contains(Prot::WRITE) {
        flags |= shf::WRITE;
    }
    if prot.contains(Prot::EXEC) {
        flags |= shf::EXECINSTR;
    }
    flags
}
