//! One test per rule: a sound graph is broken in one way, and the verifier says so. What no
//! operation allows is done to the columns.

use super::{Stage, Subject, verify};
use crate::block::BlockFlags;
use crate::edge::EdgeKind;
use crate::graph::LinkGraph;
use crate::index::id::{Id, IdRange};
use crate::index::workers::Workers;
use crate::input::{InputName, NewInput};
use crate::symbol::{SymbolFlags, SymbolKind};
use crate::testing::{DELTA32, b, c, graph, s, sym};
use crate::{Comdat, InputId, NewSection, Prot, ReadBlock, Scope, Selection};
use bytes::Bytes;

/// Everything once: an input with a section, a block and a symbol (the last of each), and things
/// that steps made.
fn sound() -> LinkGraph {
    let mut graph = graph(
        r#"
        comdat c1 $1 any
        section s1 ".text" r-x comdat c1
          block b1 size 16 align 16 offset 4
            bytes 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f
            edge +0xc Delta32 $2
            edge +0x4 RequestGot $3
        section s2 ".bss" rw-
          block b2 size 32 align 8 zero
            edge +0x0 KeepAlive $1
        symbol $1 "f" b1+0 size 16 callable
        symbol $2 b1+8 size 4
        symbol $3 "ext" external
        symbol $4 "buf" common align 8 size 8
        associate b1 b2
        "#,
    );
    let inputs = graph.add_inputs(
        &Workers::new(1),
        vec![NewInput {
            name: InputName::file("in.toy"),
            bytes: Bytes::from_static(b"\0x\0\0content."),
            symbol_names: 0..3,
            section_names: 0..3,
            source: None,
            n_symbols: 1,
        }],
    );
    let mut parts = graph.symbol_parts(inputs);
    let base = crate::SymbolBase::Section {
        section: 0,
        offset: 1,
    };
    assert!(parts[0].set(0, 1, base, 2, SymbolFlags::empty()));
    drop(parts);
    let mut parts = graph.block_parts(&Workers::new(1), inputs, &[1]);
    let block = ReadBlock {
        name: 1,
        section: NewSection::new(Prot::R),
        content: Some(4),
        size: 8,
        align_log2: 0,
        table: 0,
    };
    assert_eq!(parts[0].push(&block), Some(0));
    assert_eq!(parts[0].resolve_symbols(Some), Ok(()));
    drop(parts);
    assert_eq!(verify(&graph, Stage::Read), []);
    graph
}

/// Checks that breaking the graph is found, as this rule about this subject and nothing else.
#[track_caller]
fn breaks(change: impl FnOnce(&mut LinkGraph), rule: &str, subject: Subject, message: &str) {
    let mut graph = sound();
    change(&mut graph);
    let found = verify(&graph, Stage::Read);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [format!("{message} [{rule}]")]);
    assert_eq!((found[0].rule, found[0].subject), (rule, subject));
}

fn input(n: usize) -> InputId {
    InputId::from_index(n)
}

const NOWHERE: u32 = 1000;

#[test]
fn input_tables() {
    let subject = Subject::Input(input(1));
    breaks(
        |graph| {
            graph.inputs.as_mut_slice()[1].symbol_names = 3..13;
            // The name is no longer found, but it is not needed either.
            graph.symbols[sym(5)].name = 0;
            graph.flags[sym(5)] = graph.flags[sym(5)].with_scope(Scope::Local);
        },
        "input-tables",
        subject,
        "input i2 in.toy: symbol names at 3..13 lie outside its 12 bytes",
    );
    breaks(
        |graph| graph.inputs.as_mut_slice()[1].comdats = IdRange::new(1, 2),
        "input-tables",
        subject,
        "input i2 in.toy: groups up to position 2, but there are 1",
    );
}

#[test]
fn name() {
    breaks(
        |graph| {
            graph.symbols[sym(5)].name = NOWHERE;
            graph.flags[sym(5)] = graph.flags[sym(5)].with_scope(Scope::Local);
        },
        "name",
        Subject::Symbol(sym(5)),
        "symbol $5: its name's offset 0x3e8 lies outside 0x3 bytes",
    );
    breaks(
        |graph| graph.sections[s(3)].name = NOWHERE,
        "name",
        Subject::Section(s(3)),
        "section s3: its name's offset 0x3e8 lies outside 0x3 bytes",
    );
    breaks(
        |graph| graph.sections[s(1)].name = NOWHERE,
        "name",
        Subject::Section(s(1)),
        "section s1: its name's offset 0x3e8 lies outside 0x16 bytes",
    );
}

#[test]
fn section_comdat() {
    breaks(
        |graph| graph.sections[s(2)].comdat = Some(c(2)),
        "section-comdat",
        Subject::Section(s(2)),
        "section s2 .bss: its group c2 does not exist",
    );
}

#[test]
fn comdat() {
    let comdat = |signature, input| Comdat {
        signature,
        input,
        selection: Selection::Any,
    };
    breaks(
        |graph| {
            graph.add_comdat(comdat(sym(9), input(0)));
        },
        "comdat",
        Subject::Comdat(c(2)),
        "group c2: its signature $9 does not exist",
    );
    breaks(
        |graph| {
            graph.add_comdat(comdat(sym(1), input(2)));
        },
        "comdat",
        Subject::Comdat(c(2)),
        "group c2: its input i3 does not exist",
    );
}

#[test]
fn block_section() {
    breaks(
        |graph| graph.blocks[b(2)].section = s(9),
        "block-section",
        Subject::Block(b(2)),
        "block b2 of section s9: its section s9 does not exist",
    );
}

#[test]
fn block_input() {
    breaks(
        |graph| graph.blocks[b(2)].input = input(2),
        "block-input",
        Subject::Block(b(2)),
        "block b2 of section s2 .bss: its input i3 does not exist",
    );
}

#[test]
fn content() {
    let subject = Subject::Block(b(3));
    breaks(
        |graph| graph.blocks[b(3)].content = 5,
        "content",
        subject,
        "block b3 of section s3 x: 0x8 bytes at 0x5 lie outside its input of 0xc",
    );
    breaks(
        |graph| graph.blocks[b(3)].content = u64::MAX,
        "content",
        subject,
        "block b3 of section s3 x: 0x8 bytes at 0xffffffffffffffff lie outside its input of 0xc",
    );
    breaks(
        |graph| graph.blocks[b(1)].size = 17,
        "content",
        Subject::Block(b(1)),
        "block b1 of section s1 .text: it has 0x10 bytes of its own, but size 0x11",
    );
}

#[test]
fn align() {
    breaks(
        |graph| graph.blocks[b(1)].align_log2 = 2,
        "align",
        Subject::Block(b(1)),
        "block b1 of section s1 .text: alignment offset 0x4 is not below 0x4",
    );
}

#[test]
fn edges_decode() {
    breaks(
        |graph| {
            let record = &mut graph.blocks[b(3)];
            record.flags |= BlockFlags::OWNED_EDGES;
            record.edges = NOWHERE;
        },
        "edges-decode",
        Subject::Block(b(3)),
        "block b3 of section s3 x: its list of edges does not exist",
    );
    // Records that cannot be decoded.
    breaks(
        |graph| {
            let source = crate::testing::Source {
                addends_in_content: false,
            };
            let input = &mut graph.inputs.as_mut_slice()[1];
            input.source = Some(std::sync::Arc::new(source));
            input.bytes = Bytes::from_static(b"\0x\0\0content.\x01\0\0\0");
            graph.blocks[b(3)].edges = 12;
        },
        "edges-decode",
        Subject::Block(b(3)),
        "block b3 of section s3 x: in.toy:(x): relocation table is truncated (record at file \
         offset 0xc)",
    );
}

#[test]
fn edge_kind() {
    breaks(
        |graph| graph.edges_mut(b(2)).expect("it exists")[0].kind = EdgeKind(77),
        "edge-kind",
        Subject::Edge(b(2), 0),
        "edge 0 of block b2 of section s2 .bss: toy has no edge kind 77",
    );
}

#[test]
fn edge_target() {
    breaks(
        |graph| graph.remove_symbol(sym(3)).expect("it exists"),
        "edge-target",
        Subject::Edge(b(1), 1),
        "edge 1 of block b1 of section s1 .text: its target $3 does not exist",
    );
    breaks(
        |graph| graph.edges_mut(b(1)).expect("it exists")[0].target = sym(6),
        "edge-target",
        Subject::Edge(b(1), 0),
        "edge 0 of block b1 of section s1 .text: its target $6 does not exist",
    );
}

#[test]
fn edge_place() {
    breaks(
        |graph| graph.edges_mut(b(1)).expect("it exists")[0].offset = 13,
        "edge-place",
        Subject::Edge(b(1), 0),
        "edge 0 of block b1 of section s1 .text: Delta32 of 4 bytes at 0xd of 0x10",
    );
}

#[test]
fn edge_zero_fill() {
    breaks(
        |graph| graph.edges_mut(b(2)).expect("it exists")[0].kind = DELTA32,
        "edge-zero-fill",
        Subject::Edge(b(2), 0),
        "edge 0 of block b2 of section s2 .bss: Delta32 at 0x0 writes into zero-fill",
    );
}

#[test]
fn edge_request() {
    let found = verify(&sound(), Stage::Tables);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "edge 1 of block b1 of section s1 .text: RequestGot at 0x4 still asks for an entry \
          [edge-request]"
        ]
    );
}

#[test]
fn symbol_wide() {
    breaks(
        |graph| graph.flags[sym(2)] |= SymbolFlags::WIDE,
        "symbol-wide",
        Subject::Symbol(sym(2)),
        "symbol $2: offset or size is said to be in the side table, but is not",
    );
}

#[test]
fn symbol_block() {
    breaks(
        |graph| graph.drop_block(b(3)),
        "symbol-block",
        Subject::Symbol(sym(5)),
        "symbol $5 x: its block b3 does not exist",
    );
}

#[test]
fn symbol_place() {
    breaks(
        |graph| graph.symbols[sym(2)].offset = 13,
        "symbol-place",
        Subject::Symbol(sym(2)),
        "symbol $2: 0x4 bytes at 0xd lie outside block b1 of 0x10",
    );
    breaks(
        |graph| {
            let flags = SymbolFlags::empty();
            graph.add_anonymous(b(2), 0, 32, flags).expect("it fits");
            graph.set_zero_fill_size(b(2), 0).expect("it is zero-fill");
        },
        "symbol-place",
        Subject::Symbol(sym(6)),
        "symbol $6: 0x20 bytes at 0x0 lie outside block b2 of 0x0",
    );
}

#[test]
fn symbol_pending() {
    breaks(
        |graph| graph.flags[sym(5)] = graph.flags[sym(5)].with_kind(SymbolKind::Pending),
        "symbol-pending",
        Subject::Symbol(sym(5)),
        "symbol $5 x: its section never got a block",
    );
}

#[test]
fn symbol_common() {
    breaks(
        |graph| graph.symbols[sym(4)].offset = 3,
        "symbol-common",
        Subject::Symbol(sym(4)),
        "symbol $4 buf: alignment 0x3 is not a power of two",
    );
}

#[test]
fn anonymous() {
    let subject = Subject::Symbol(sym(2));
    breaks(
        |graph| graph.flags[sym(2)] = graph.flags[sym(2)].with_scope(Scope::Hidden),
        "anonymous",
        subject,
        "symbol $2: it has no name, but scope Hidden",
    );
    breaks(
        |graph| graph.flags[sym(2)] |= SymbolFlags::WEAK,
        "anonymous",
        subject,
        "symbol $2: it has no name, but is weak",
    );
    breaks(
        |graph| {
            graph.add_external(b"", false);
        },
        "anonymous",
        Subject::Symbol(sym(6)),
        "symbol $6: it is external without a name",
    );
}

#[test]
fn external_local() {
    breaks(
        |graph| graph.flags[sym(3)] = graph.flags[sym(3)].with_scope(Scope::Local),
        "external-local",
        Subject::Symbol(sym(3)),
        "symbol $3 ext: it is external, but local",
    );
}

#[test]
fn association() {
    breaks(
        |graph| graph.drop_block(b(2)),
        "association",
        Subject::Association(0),
        "association 0: its child b2 does not exist",
    );
}

#[test]
fn all_violations_are_told_in_order() {
    let mut graph = sound();
    graph.drop_block(b(2));
    graph.remove_symbol(sym(1)).expect("it exists");
    graph.remove_symbol(sym(2)).expect("it exists");
    graph.remove_symbol(sym(3)).expect("it exists");
    graph.symbols[sym(5)].offset = 7;
    let rules = verify(&graph, Stage::Read).into_iter();
    let rules: Vec<_> = rules.map(|violation| violation.rule).collect();
    let expected = [
        "comdat",
        "edge-target",
        "edge-target",
        "symbol-place",
        "association",
    ];
    assert_eq!(rules, expected);
}

/// The table in the module's documentation lists the rules that there are.
#[test]
fn the_table_lists_every_rule() {
    let source = include_str!("../verify.rs");
    let listed = source.lines().filter_map(|line| {
        let line = line.strip_prefix("//! | `")?;
        Some(line.split_once('`')?.0)
    });
    let listed: Vec<&str> = listed.collect();
    let code = source.split("fn verify").nth(1).expect("it is there");
    let tests = include_str!("tests.rs");
    for rule in &listed {
        let quoted = format!("\"{rule}\"");
        assert!(code.contains(&quoted), "{rule} is not checked");
        // The rule of the later stage is told by its message.
        assert!(tests.contains(&quoted) || *rule == "edge-request", "{rule}");
    }
    for reported in code.split("self.report(").skip(1) {
        let rule = reported.split('"').nth(1).unwrap_or_default();
        assert!(listed.contains(&rule), "{rule} is not listed");
    }
}
