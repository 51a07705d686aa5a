//! Whole objects of compilers, symbol by symbol and record by record as `llvm-readelf` and
//! `llvm-nm` see them.

use crate::support::tool::{clang, make, says};
use crate::support::{input, read};
use clinch_graph::{Addressable, Id, LinkGraph, Scope, Symbol, SymbolFlags};
use clinch_object::elf::raw::{Header, name_at};
use std::sync::LazyLock;

const CPP: &str = "
    #include <cstdio>\n#include <stdexcept>\n#include <string>\n#include <vector>\n
    struct Base { virtual ~Base(); virtual int get() const = 0; };\n Base::~Base() {}\n
    template <class T> struct Box : Base { T value; int get() const override { return int(value); } };\n
    static thread_local int counter = 3; extern thread_local int other;\n
    __attribute__((constructor(200))) static void early() { counter++; }\n
    __attribute__((weak)) int maybe(); __attribute__((visibility(\"hidden\"))) int hidden;\n
    int run(const std::vector<std::string> &words) {\n
      Box<int> box; box.value = other; int sum = counter;\n
      try { for (auto &word : words) sum += std::stoi(word); }\n
      catch (const std::exception &e) { std::puts(e.what()); }\n
      switch (sum) { case 1: return 5; case 2: return 9; case 3: return box.get(); case 4: return 8; case 5: return 77; }\n
      return maybe ? maybe() : hidden; }\n";

/// Made once, since compiling is what takes time.
static OBJECTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let clangs = [
        &["-O2", "-fPIC"][..],
        &["-O0", "-g", "-fno-pie"],
        &["-O1", "-ffunction-sections"],
    ];
    let mut all: Vec<_> = clangs
        .iter()
        .filter_map(|options| clang("t.cpp", CPP, options))
        .collect();
    let options = ["-c", "{in}", "-o", "{out}", "-O2", "-g"];
    all.extend(make("g++", &options, "t.cpp", CPP));
    all
});

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The words of a symbol's line in the form of `llvm-readelf -sW`.
fn line(graph: &LinkGraph, object: &[u8], symbol: &Symbol<'_>) -> Vec<String> {
    let has = |flag| symbol.flags.contains(flag);
    let kind = match symbol.flags {
        _ if has(SymbolFlags::IFUNC) => "IFUNC",
        _ if has(SymbolFlags::TLS) => "TLS",
        _ if has(SymbolFlags::CALLABLE) => "FUNC",
        _ if has(SymbolFlags::SECTION) => "SECTION",
        _ if has(SymbolFlags::OBJECT) => "OBJECT",
        _ => "NOTYPE",
    };
    let binding = match symbol.scope() {
        Scope::Local => "LOCAL",
        _ if has(SymbolFlags::UNIQUE) => "UNIQUE",
        _ if has(SymbolFlags::WEAK) || has(SymbolFlags::WEAKLY_REFERENCED) => "WEAK",
        _ => "GLOBAL",
    };
    let visibility = match symbol.scope() {
        Scope::Hidden => "HIDDEN",
        Scope::Protected => "PROTECTED",
        _ => "DEFAULT",
    };
    let (value, section, name) = match symbol.base {
        Addressable::Block { block, offset } => {
            let section = graph.section_name(graph.block_section(block));
            let name = if symbol.name.is_empty() {
                section
            } else {
                symbol.name
            };
            (offset, String::from_utf8_lossy(section).into_owned(), name)
        }
        Addressable::Absolute(value) => (value, "ABS".to_owned(), symbol.name),
        Addressable::External => (0, "UND".to_owned(), symbol.name),
        Addressable::Common { align } => (align, "COM".to_owned(), symbol.name),
        other => panic!("{other:?} in an object of {} bytes", object.len()),
    };
    let name = String::from_utf8_lossy(name).into_owned();
    [
        format!("{value:x}"),
        symbol.size.to_string(),
        kind.to_owned(),
        binding.to_owned(),
    ]
    .into_iter()
    .chain([visibility.to_owned(), section, name])
    .collect()
}

#[test]
fn symbols() {
    for object in OBJECTS.iter() {
        let graph = read(object);
        let Some(said) = says("llvm-readelf-22", &["-sW"], object) else {
            return;
        };
        let header = Header::parse(object).unwrap();
        let sections = header.sections(object);
        let names = sections
            .need("names", header.names)
            .unwrap()
            .data(object, "names")
            .unwrap();
        let ids = graph.input(input()).symbols();
        let mut seen = 0;
        for text in said
            .lines()
            .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        {
            // Num Value Size Type Bind Vis Ndx Name
            let words: Vec<&str> = text.split_whitespace().collect();
            let index: usize = words[0].trim_end_matches(':').parse().unwrap();
            assert_eq!(index, seen);
            seen += 1;
            if index == 0 || words[3] == "FILE" {
                continue;
            }
            let section = match words[6].parse() {
                Ok(index) => {
                    let header = sections.get(index).unwrap();
                    String::from_utf8_lossy(name_at(names, header.name).unwrap()).into_owned()
                }
                Err(_) => words[6].to_owned(),
            };
            let value = u64::from_str_radix(words[1], 16).unwrap();
            let expected = [format!("{value:x}"), number(words[2]).to_string()]
                .into_iter()
                .chain([3, 4, 5].map(|n| words[n].to_owned()))
                .chain([section, (*words.get(7).unwrap_or(&"")).to_owned()]);
            let symbol = graph.symbol(ids.get(index).unwrap());
            if symbol.base == Addressable::Discarded {
                // Signatures of groups are defined in the group's own section.
                continue;
            }
            assert_eq!(
                line(&graph, object, &symbol),
                expected.collect::<Vec<_>>(),
                "{text}"
            );
        }
        assert_eq!(seen, ids.len());
        assert!(seen > 20, "{seen}");
    }
}

#[test]
fn records() {
    for object in OBJECTS.iter() {
        let graph = read(object);
        let Some(said) = says("llvm-readelf-22", &["-rW"], object) else {
            return;
        };
        let ids = graph.input(input()).symbols();
        // Offset, symbol number, and how addends differ: an edge of a branch counts from its end.
        let mut expected = Vec::new();
        for text in said.lines().filter(|line| line.starts_with("00000")) {
            let words: Vec<&str> = text.split_whitespace().collect();
            let info = u64::from_str_radix(words[1], 16).unwrap();
            let offset = u64::from_str_radix(words[0], 16).unwrap();
            expected.push((
                offset,
                usize::try_from(info >> 32).unwrap(),
                words[2].to_owned(),
            ));
        }
        let (mut found, mut edges) = (Vec::new(), Vec::new());
        for block in graph.blocks() {
            graph.edges(block, &mut edges).unwrap();
            for edge in &edges {
                let kind = graph.target().kind_name(edge.kind);
                found.push((
                    u64::from(edge.offset),
                    edge.target.index() - ids.start(),
                    kind,
                ));
            }
        }
        assert_eq!(found.len(), expected.len());
        assert!(found.len() > 30, "{}", found.len());
        // Tables may come in another order than what they are for.
        let mut pairs: Vec<_> = found.iter().map(|edge| (edge.0, edge.1)).collect();
        let mut wanted: Vec<_> = expected.iter().map(|record| (record.0, record.1)).collect();
        pairs.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(pairs, wanted);
        let count = |name| expected.iter().filter(|record| record.2 == name).count();
        let of_kind = |name| found.iter().filter(|edge| edge.2 == name).count();
        assert_eq!(of_kind("Pointer64"), count("R_X86_64_64"));
        assert_eq!(of_kind("BranchPCRel32"), count("R_X86_64_PLT32"));
    }
}

#[test]
fn defined_names_are_those_of_nm() {
    for object in OBJECTS.iter() {
        let graph = read(object);
        let options = ["--defined-only", "--extern-only", "--format=just-symbols"];
        let Some(said) = says("llvm-nm-22", &options, object) else {
            return;
        };
        let mut expected: Vec<&str> = said.lines().collect();
        let mut found: Vec<&str> = graph
            .symbols()
            .filter(|&id| {
                let flags = graph.symbol_flags(id);
                flags.is_definition() && flags.is_global()
            })
            .map(|id| std::str::from_utf8(graph.symbol_name(id)).unwrap())
            .collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
