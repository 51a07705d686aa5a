//! Objects of the system's compiler, linked into a slab, and what debuggers and profilers would be
//! told of them; the same objects with damage.

use super::elf::{self, Section, Strings, Symbol};
use super::functions::{self, Named};
use super::jitdump::{self, Stamp};
use super::lines::Lines;
use super::object::Image;
use super::sections::{self, DebugSection};
use crate::LinkErrors;
use crate::memory::Slab;
use crate::passes::Passes;
use crate::session::{DylibSources, LinkInfo, LinkPlugin, LookUpError, Session, SessionOptions};
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use clinch_graph::{Endian, InputName, LinkGraph, Workers};
use clinch_object::elf::raw::{Format, Header, RawSymbol, name_at, sht};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};

const SOURCE: &str = "\
int value = 5;
static __attribute__((used)) int dead(int n) {
  int never = n * 3;
  return never;
}
int twice(int n) {
  int sum = n + n;
  return sum;
}
int main(void) {
  return twice(value);
}
";
/// The lines of the functions that are in memory.
const LINES: [(&str, &[u32]); 2] = [("twice", &[6, 7, 8, 9]), ("main", &[10, 11, 12])];

fn compile(options: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    std::fs::write(folder.path().join("t.c"), SOURCE).expect("it can be written");
    let status = Command::new("cc")
        .args(["-c", "t.c", "-o", "t.o", "-O0", "-g", "-ffunction-sections"])
        .args(options.split_whitespace())
        .current_dir(folder.path())
        .status()
        .expect("there is a compiler");
    assert!(status.success(), "{options}");
    std::fs::read(folder.path().join("t.o")).expect("it was made")
}

/// What is told of a link.
#[derive(Clone, Debug)]
struct Told {
    sections: Vec<DebugSection>,
    functions: Vec<Named>,
    image: Vec<u8>,
}

impl Told {
    fn lines(&self) -> Lines {
        Lines::read(&self.sections, Endian::Little, 8)
    }
}

const BASE: u64 = 0x4000_0000;

/// Describes each link.
#[derive(Default)]
struct Describer(Mutex<Option<Result<Told, LinkErrors>>>);

impl LinkPlugin for Arc<Describer> {
    fn modify_passes(&self, _link: &LinkInfo, _graph: &LinkGraph, passes: &mut Passes) {
        let result = Self::clone(self);
        passes.pre_fixup.push((
            "describe".to_owned(),
            Box::new(move |graph, layout| {
                let (arch, workers) = (arch(), Workers::new(1));
                let told = sections::link(graph, layout, arch, &workers).map(|sections| {
                    let names = functions::all(graph, layout);
                    let mut image = Image::new(graph, layout, arch, &names, sections.clone());
                    image.fill(&mut |_, bytes| bytes.fill(0xee));
                    Told {
                        sections,
                        functions: functions::functions(layout, &names),
                        image: image.into_bytes(),
                    }
                });
                *result.0.lock().expect("nobody panicked") = Some(told);
                Ok(())
            }),
        ));
    }
}

fn arch() -> &'static clinch_target::Arch {
    clinch_target::arch_named("x86_64").expect("it is there")
}

fn told(objects: &[&[u8]]) -> Result<Told, LinkErrors> {
    let options = SessionOptions {
        execute: false,
        ..SessionOptions::default()
    };
    let session = Session::new(arch(), options);
    let describer = Arc::<Describer>::default();
    session.add_plugin(Arc::new(Arc::clone(&describer)));
    let sources = DylibSources {
        process: false,
        default_libraries: false,
        phony: true,
    };
    let memory = Arc::new(Slab::new(BASE, 64 << 20, 4096));
    let dylib = session.create_dylib_in("test", sources, memory)?;
    let objects = objects.iter().enumerate();
    let objects = objects.map(|(n, object)| {
        let name = InputName::file(&format!("{n}.o"));
        (name, object.to_vec().into())
    });
    dylib.add_objects(objects.collect())?;
    let linked = dylib.link_all(&["main"]);
    let told = describer.0.lock().expect("nobody panicked").take();
    match (told, linked) {
        (Some(told), _) => told,
        (None, Err(LookUpError::Failed(causes))) => {
            let causes = causes.iter().flat_map(|errors| errors.0.clone());
            Err(LinkErrors(causes.collect()))
        }
        (None, linked) => panic!("no pass ran: {linked:?}"),
    }
}

fn lines_by_function(told: &Told) -> BTreeMap<String, BTreeSet<u32>> {
    let lines = told.lines();
    let of = |function: &Named| {
        let rows = lines.of(function.address, function.size);
        for row in rows {
            let file = String::from_utf8_lossy(lines.file(row)).into_owned();
            assert!(file == "t.c" || file.ends_with("/t.c"), "{file}");
        }
        rows.iter().map(|row| row.line).collect()
    };
    let name = |function: &Named| String::from_utf8_lossy(&function.name).into_owned();
    told.functions
        .iter()
        .map(|function| (name(function), of(function)))
        .collect()
}

#[test]
fn lines_are_those_of_functions_in_memory() {
    let wanted: BTreeMap<String, BTreeSet<u32>> = LINES
        .iter()
        .map(|(name, lines)| ((*name).to_owned(), lines.iter().copied().collect()))
        .collect();
    for options in ["-gdwarf-5", "-gdwarf-4", "-gz=zlib", "-gz=zlib-gnu", "-g3"] {
        let told = told(&[&compile(options)]).expect("it links");
        assert_eq!(lines_by_function(&told), wanted, "{options}");
        // The dead function's lines are nowhere.
        let lines = told.lines();
        let inside: usize = told
            .functions
            .iter()
            .map(|function| lines.of(function.address, function.size).len())
            .sum();
        assert_eq!(inside, lines.of(0, u64::MAX).len(), "{options}");
    }
}

#[test]
fn sections_of_several_objects_stand_behind_one_another() {
    let (first, second) = (compile("-Dmain=other -Dtwice=more -Dvalue=v"), compile(""));
    let told = told(&[&first, &second]).expect("it links");
    let lines = lines_by_function(&told);
    let names: Vec<&str> = lines.keys().map(String::as_str).collect();
    assert_eq!(names, ["main", "more", "other", "twice"]);
    assert_eq!(lines["more"], lines["twice"]);
    let n = |name: &[u8]| {
        let is_it = |section: &&DebugSection| section.name == name;
        told.sections.iter().filter(is_it).count()
    };
    assert_eq!((n(b".debug_info"), n(b".debug_line")), (1, 1));
}

#[test]
fn the_image_has_addresses_and_symbols() {
    let told = told(&[&compile("")]).expect("it links");
    let image = told.image.as_slice();
    let header = Header::parse(image).expect("it is ELF");
    assert_eq!((header.kind, header.machine), (2, 62));
    let sections = header.sections(image);
    let names = sections
        .need("names", header.names)
        .expect("they are there");
    let names = names.data(image, "names").expect("they are there");
    let find = |wanted: &[u8]| {
        let mut all = sections.iter();
        let found = all.find(|(_, section)| name_at(names, section.name) == Some(wanted));
        found.unwrap_or_else(|| panic!("no {}", String::from_utf8_lossy(wanted)))
    };
    // The address follows name, type and flags.
    let address = |index: usize| {
        let at = usize_of_u64(sections.header_offset(index)) + 16;
        header.format.u64(image, at).expect("it is there")
    };
    let twice = &told.functions[0];
    let (text, section) = find(b".text");
    assert_eq!(section.kind, sht::NOBITS);
    let text_at = address(text);
    assert!((text_at..text_at + section.size).contains(&twice.address));
    let (frames, section) = find(b".eh_frame");
    assert!(address(frames) >= BASE);
    let bytes = section.data(image, "frames").expect("they are there");
    assert!(!bytes.is_empty() && bytes.iter().all(|&byte| byte == 0xee));

    let (_, symtab) = find(b".symtab");
    let strings = find(b".strtab")
        .1
        .data(image, "strings")
        .expect("they are there");
    let table = symtab.data(image, "symbols").expect("they are there");
    let symbols: BTreeMap<&[u8], RawSymbol> = table
        .chunks_exact(24)
        .filter_map(|raw| RawSymbol::parse(header.format, raw))
        .filter_map(|symbol| Some((name_at(strings, symbol.name)?, symbol)))
        .collect();
    assert!(!symbols.contains_key(b"dead".as_slice()));
    let symbol = symbols[b"twice".as_slice()];
    assert_eq!((symbol.value, symbol.size), (twice.address, twice.size));
    assert_eq!(usize::from(symbol.section), text);
    assert!(symbols.contains_key(b"value".as_slice()));
}

#[test]
fn other_classes_and_orders_are_written_as_they_are_read() {
    for (is_64, endian) in [
        (false, Endian::Big),
        (false, Endian::Little),
        (true, Endian::Big),
    ] {
        let format = Format { is_64, endian };
        let mut strings = Strings::new();
        let symbol = Symbol {
            name: strings.add(b"f"),
            binding: 1,
            kind: 2,
            section: 1,
            value: 0x1234_5678,
            size: 9,
        };
        let text = Section {
            name: b".text".to_vec(),
            kind: sht::NOBITS,
            address: 0x1234_0000,
            size: 0x10_0000,
            align: 16,
            ..Section::default()
        };
        let table = elf::symbol_table(format, &[symbol], 3);
        let sections = vec![text, table, strings.into_section(b".strtab")];
        let file = elf::write(format, 7, sections);
        let header = Header::parse(&file.bytes).expect("it is ELF");
        assert_eq!((header.format, header.machine), (format, 7));
        let sections = header.sections(&file.bytes);
        assert_eq!(sections.len(), 5);
        let text = sections.get(1).expect("it is there");
        assert_eq!((text.size, text.align), (0x10_0000, 16));
        let table = sections.get(2).expect("it is there");
        assert_eq!((table.link, table.info), (3, 1));
        let raw = table.data(&file.bytes, "symbols").expect("they are there");
        let read = RawSymbol::parse(format, &raw[format.symbol_size()..]);
        let read = read.expect("it is there");
        assert_eq!((read.value, read.size, read.section), (0x1234_5678, 9, 1));
        assert_eq!((read.binding(), read.kind()), (1, 2));
    }
}

#[test]
fn records_have_the_fields_of_the_format() {
    let function = Named {
        name: b"f".to_vec(),
        address: 0x1000,
        size: 3,
        segment: 0,
        is_function: true,
        is_global: true,
    };
    let stamp = Stamp {
        pid: 5,
        tid: 6,
        time: 7,
    };
    let bytes = jitdump::function(&function, &[1, 2, 3], &Lines::default(), 9, stamp);
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(
        (u32_at(0), usize_of(u32_at(4)), u64_at(8)),
        (0, bytes.len(), 7)
    );
    assert_eq!((u32_at(16), u32_at(20)), (5, 6));
    assert_eq!(
        [u64_at(24), u64_at(32), u64_at(40), u64_at(48)],
        [0x1000, 0x1000, 3, 9]
    );
    assert_eq!(bytes[56..], [b'f', 0, 1, 2, 3]);
    let header = jitdump::header(62, stamp);
    assert_eq!(header.len(), 40);
    assert_eq!(header[..4], 0x4a69_5444_u32.to_ne_bytes());
    assert_eq!(jitdump::close(stamp).len(), 16);
}

/// Describes what can be linked of damaged objects, and looks at all of it.
fn survives(object: &[u8]) -> bool {
    match told(&[object]) {
        Ok(told) => {
            let lines = told.lines();
            for function in &told.functions {
                for row in lines.of(function.address, function.size) {
                    std::hint::black_box(lines.file(row));
                }
            }
            true
        }
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            false
        }
    }
}

#[test]
fn every_prefix_is_described_or_refused() {
    let object = compile("");
    let n_described = (0..object.len())
        .filter(|&length| survives(&object[..length]))
        .count();
    // The section headers are at the end.
    assert_eq!(n_described, 0);
    assert!(survives(&object));
}

#[test]
fn every_damaged_header_is_described_or_refused() {
    for options in ["", "-gz=zlib"] {
        let object = compile(options);
        let header = Header::parse(&object).expect("it is ELF");
        let headers = usize_of_u64(header.section_headers)..object.len();
        let mut n_described = 0;
        for at in (0..64).chain(headers) {
            for flip in [0x01, 0x10, 0xff] {
                let mut damaged = object.clone();
                damaged[at] ^= flip;
                n_described += usize::from(survives(&damaged));
            }
        }
        assert!(n_described > 0);
    }
}

#[test]
fn damaged_line_tables_lose_lines_only() {
    let told = told(&[&compile("")]).expect("it links");
    let index = told
        .sections
        .iter()
        .position(|section| section.name == b".debug_line")
        .expect("it is there");
    let whole = told.lines().of(0, u64::MAX).len();
    let mut damaged = told.sections.clone();
    for at in 0..told.sections[index].content.len() {
        for flip in [0x01, 0x80, 0xff] {
            damaged[index].content[at] ^= flip;
            let lines = Lines::read(&damaged, Endian::Little, 8);
            for row in lines.of(0, u64::MAX) {
                std::hint::black_box(lines.file(row));
            }
            damaged[index].content[at] ^= flip;
        }
    }
    for length in 0..told.sections[index].content.len() {
        damaged[index].content.truncate(length);
        let lines = Lines::read(&damaged, Endian::Little, 8);
        assert!(lines.of(0, u64::MAX).len() <= whole);
        damaged[index].content = told.sections[index].content.clone();
    }
}

/// Changes every section header of an object that `which` says yes to, by its name.
fn change_headers(object: &mut [u8], which: &str, change: impl Fn(&mut [u8])) {
    let header = Header::parse(object).expect("it is ELF");
    let whole = object.to_vec();
    let sections = header.sections(&whole);
    let names = sections
        .need("names", header.names)
        .expect("they are there");
    let names = names.data(&whole, "names").expect("they are there");
    let mut n = 0;
    for (index, section) in sections.iter() {
        if name_at(names, section.name) == Some(which.as_bytes()) {
            let at = usize_of_u64(sections.header_offset(index));
            change(&mut object[at..at + 64]);
            n += 1;
        }
    }
    assert!(n > 0, "no {which}");
}

#[test]
fn sizes_and_alignments_are_not_believed() {
    let object = compile("");
    let put = |at: usize, value: u64| {
        move |header: &mut [u8]| header[at..at + 8].copy_from_slice(&value.to_le_bytes())
    };
    // An alignment that would fill all memory.
    let mut aligned = object.clone();
    change_headers(&mut aligned, ".debug_str", put(48, 1 << 40));
    change_headers(&mut aligned, ".debug_line_str", put(48, 1 << 40));
    assert!(survives(&aligned));
    // A section without content and of any size.
    let mut empty = object.clone();
    change_headers(&mut empty, ".debug_str", |header| {
        header[4..8].copy_from_slice(&sht::NOBITS.to_le_bytes());
        header[32..40].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    });
    survives(&empty);
    // Sections that all hold the whole file.
    let mut repeated = object.clone();
    let length = u64_of(object.len());
    for name in [".debug_str", ".debug_line_str"] {
        change_headers(&mut repeated, name, put(24, 0));
        change_headers(&mut repeated, name, put(32, length));
    }
    let errors = told(&[&repeated]).expect_err("they overlap").to_string();
    assert!(errors.contains("debug sections overlap"), "{errors}");
}

#[test]
fn functions_are_no_longer_than_their_code() {
    let mut object = compile("");
    let header = Header::parse(&object).expect("it is ELF");
    let whole = object.clone();
    let sections = header.sections(&whole);
    let (_, table) = sections
        .iter()
        .find(|(_, section)| section.kind == sht::SYMTAB)
        .expect("it is there");
    let range = table.data_range(&whole, "symbols").expect("they are there");
    // `st_size` of every function.
    for symbol in object[range].chunks_exact_mut(24) {
        if symbol[4] & 15 == 2 {
            symbol[16..24].copy_from_slice(&(1_u64 << 31).to_le_bytes());
        }
    }
    let before = told(&[&whole]).expect("it links");
    if let Ok(after) = told(&[&object]) {
        assert_eq!(after.functions, before.functions);
    }
}
