//! Edits: all or nothing.

use super::{Edit, EditError};
use crate::graph::LinkGraph;
use crate::index::id::IdRange;
use crate::testing::{
    DELTA32, MARK, POINTER64, REQUEST_GOT, b, c, edge, flat, graph, s, sym, text,
};
use crate::{
    Addressable, BlockId, Comdat, Entity, GraphError, Lifetime, Linkage, NewBlock, NewContent,
    NewSection, NewSymbol, Prot, Scope, SectionId, Selection, Stage, Subject, SymbolFlags,
    SymbolId, verify,
};

const TEXT: &str = r#"
    comdat c1 $1 any
    section s1 ".text" r-x comdat c1
      block b1 size 16 align 16 offset 4
        bytes 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f
        edge +0xc Delta32 $2
        edge +0x0 Pointer64 $3 + 8
    section s2 ".bss" rw- ordinal 9
      block b2 size 0x100000000 align 8 zero
      block b3 size 8 align 8 zero
    section s3 ".empty" r--
    symbol $1 "f" b1+0 size 16 callable
    symbol $2 "g" b1+8 size 4
    symbol $3 "ext" external
    symbol $4 b2+0 size 0x100000000
    symbol $5 "buf" common align 8 size 8
    symbol $6 "unused" external
    associate b1 b2
    associate b1 b3
"#;

/// A graph that steps worked on, with holes and with contents and lists of its own.
fn sample() -> LinkGraph {
    let mut graph = graph(TEXT);
    graph.begin_step("step", None);
    graph.set_section_prot(s(2), Prot::RW);
    graph.set_symbol_size(sym(2), 4).expect("it fits");
    let hole = graph.add_external(b"hole", false);
    graph.remove_symbol(hole).expect("it exists");
    graph
}

/// Everything in the graph, seen from inside: to compare exactly.
fn inside(graph: &LinkGraph) -> impl PartialEq + std::fmt::Debug + use<> {
    let sections: Vec<SectionId> = graph.sections.ids().iter().collect();
    let blocks: Vec<BlockId> = graph.blocks.ids().iter().collect();
    let symbols: Vec<SymbolId> = graph.flags.ids().iter().collect();
    // Beyond what there is, too: an edit must not leave what ids to come would find.
    let more = |n: usize| n + 20;
    let side = (
        (1..=more(sections.len()))
            .map(|n| graph.ordinals.get(&s(n)).copied())
            .collect::<Vec<_>>(),
        (1..=more(blocks.len()))
            .map(|n| graph.align_offsets.get(&b(n)).copied())
            .collect::<Vec<_>>(),
        (1..=more(symbols.len()))
            .map(|n| graph.wide.get(&sym(n)).copied())
            .collect::<Vec<_>>(),
    );
    let changes = (
        (1..=more(sections.len()))
            .map(|n| graph.provenance.change(Entity::Section(s(n))))
            .collect::<Vec<_>>(),
        (1..=more(blocks.len()))
            .map(|n| graph.provenance.change(Entity::Block(b(n))))
            .collect::<Vec<_>>(),
        (1..=more(symbols.len()))
            .map(|n| graph.provenance.change(Entity::Symbol(sym(n))))
            .collect::<Vec<_>>(),
    );
    let sizes = (
        graph.ordinals.len(),
        graph.align_offsets.len(),
        graph.wide.len(),
    );
    (
        (
            graph.sections.as_slice().to_vec(),
            graph.blocks.as_slice().to_vec(),
            graph.symbols.as_slice().to_vec(),
            graph.flags.as_slice().to_vec(),
            graph.comdats.as_slice().to_vec(),
        ),
        (
            graph.names.clone(),
            graph.contents.clone(),
            graph.edge_lists.clone(),
            graph.associations.clone(),
        ),
        (side, sizes, changes),
        (graph.provenance.n_steps(), graph.generation()),
    )
}

/// Checks that an edit is refused and leaves no trace.
#[track_caller]
fn refused(stage: impl FnOnce(&mut Edit)) -> EditError {
    let mut graph = sample();
    let (before, digest) = (inside(&graph), graph.digest());
    let mut edit = Edit::new(&graph);
    stage(&mut edit);
    let error = edit
        .commit(&mut graph)
        .expect_err("the edit is not allowed");
    assert_eq!(inside(&graph), before);
    assert_eq!(graph.digest(), digest);
    error
}

/// Checks what an edit makes of the sample.
#[track_caller]
fn publishes(stage: impl FnOnce(&mut Edit), changes: &[(&str, &str)]) -> LinkGraph {
    let mut graph = sample();
    let mut expected = text(&graph);
    let mut edit = Edit::new(&graph);
    stage(&mut edit);
    let published = edit.commit(&mut graph).expect("the edit is allowed");
    assert_eq!(published.generation, 1);
    assert_eq!(graph.generation(), 1);
    for (old, new) in changes {
        assert!(expected.contains(old), "{old} is not in\n{expected}");
        expected = expected.replacen(old, new, 1);
    }
    assert_eq!(flat(&text(&graph)), flat(&expected));
    assert_eq!(verify(&graph, Stage::Read), []);
    graph
}

#[test]
fn an_empty_edit_raises_the_generation() {
    let mut graph = sample();
    let edit = Edit::new(&graph);
    assert!(edit.is_empty());
    let published = edit.commit(&mut graph).expect("nothing can be refused");
    assert_eq!(published.generation, 1);
    assert!(published.blocks.is_empty());
}

#[test]
fn what_is_made_can_be_used_at_once() {
    publishes(
        |edit| {
            let section = edit.add_section(b".got", NewSection::new(Prot::RW));
            let entry = edit.add_block(NewBlock {
                section,
                content: NewContent::Owned(vec![0; 8]),
                align: 8,
                align_offset: 0,
            });
            let target = edit.add_external(b"puts", true);
            let got = edit.add_defined(b"", entry, 0, 8, SymbolFlags::LIVE);
            edit.add_edge(entry, edge(0, POINTER64, target, 0));
            edit.set_edges(b(1), vec![edge(0, DELTA32, got, -4)]);
            edit.associate(b(1), entry);
            let group = edit.add_comdat(Comdat {
                signature: target,
                input: LinkGraph::linker_input(),
                selection: Selection::All,
            });
            assert_eq!(
                (section, entry, target, got, group),
                (s(4), b(4), sym(8), sym(9), c(2))
            );
            assert_eq!(edit.len(), 8);
        },
        &[
            ("comdat c1 $1 any", "comdat c1 $1 any\ncomdat c2 $7 all"),
            ("    edge +0xc Delta32 $2\n", ""),
            ("edge +0x0 Pointer64 $3 + 8", "edge +0x0 Delta32 $8 - 4"),
            (
                "section s3 \".empty\" r--",
                r#"section s3 ".empty" r--
                section s4 ".got" rw-
                block b4 size 8 align 8
                bytes 00 00 00 00 00 00 00 00
                edge +0x0 Pointer64 $7"#,
            ),
            (
                "\"unused\" external",
                r#""unused" external
                symbol $7 "puts" external weakly-referenced
                symbol $8 b4+0x0 size 8 live"#,
            ),
            ("associate b1 b3", "associate b1 b3\nassociate b1 b4"),
        ],
    );
}

#[test]
fn published_ids_are_told() {
    let mut graph = sample();
    let mut edit = Edit::new(&graph);
    edit.add_section(b"a", NewSection::new(Prot::R));
    edit.split_block(b(1), &[8]);
    edit.add_external(b"x", false);
    edit.add_external(b"y", false);
    let published = edit.commit(&mut graph).expect("the edit is allowed");
    assert_eq!(published.sections, IdRange::new(3, 4));
    assert_eq!(published.blocks, IdRange::new(3, 4));
    assert_eq!(published.symbols, IdRange::new(7, 9));
}

#[test]
fn sections_and_blocks_change() {
    publishes(
        |edit| {
            edit.set_section_prot(s(3), Prot::RX);
            edit.set_section_lifetime(s(3), Lifetime::NoAlloc);
            edit.set_section_ordinal(s(3), 5);
            edit.transfer_block(b(3), s(3));
            edit.set_block_align(b(3), 4, 2);
            edit.set_zero_fill_size(b(3), 9);
            edit.write_content(b(1), 14, vec![0xff, 0xfe]);
        },
        &[
            ("  block b3 size 8 align 8 zero\n", ""),
            (
                "section s3 \".empty\" r--",
                "section s3 \".empty\" r-x lifetime noalloc ordinal 5\nblock b3 size 9 align 4 offset 2 zero",
            ),
            ("0e 0f", "ff fe"),
        ],
    );
    publishes(
        |edit| {
            edit.merge_sections(s(1), s(2));
            edit.remove_section(s(3));
            edit.set_content(b(3), vec![1]);
            edit.remove_block(b(3));
        },
        &[
            ("section s2 \".bss\" rw- ordinal 9\n", ""),
            ("section s3 \".empty\" r--\n", ""),
            ("  block b3 size 8 align 8 zero\n", ""),
            ("associate b1 b3\n", ""),
        ],
    );
}

#[test]
fn symbols_change() {
    publishes(
        |edit| {
            edit.make_external(sym(1));
            edit.make_absolute(sym(2), 7);
            edit.make_defined(sym(3), b(1), 1, 2);
            edit.transfer_symbol(sym(4), b(3), 1, None);
            edit.set_symbol_name(sym(5), b"new");
            edit.set_symbol_flag(sym(5), SymbolFlags::LIVE, true);
            edit.set_symbol_scope(sym(5), Scope::Hidden);
            edit.set_symbol_linkage(sym(5), Linkage::Weak);
            edit.set_symbol_size(sym(5), 1 << 40);
            edit.remove_symbol(sym(6));
        },
        &[
            ("\"f\" b1+0x0 size 16", "\"f\" external"),
            ("\"g\" b1+0x8 size 4", "\"g\" absolute 0x7 size 4"),
            ("\"ext\" external", "\"ext\" b1+0x1 size 2"),
            ("b2+0x0 size 4294967296", "b3+0x1 size 7"),
            (
                "\"buf\" common align 8 size 8",
                "\"new\" common align 8 size 1099511627776 hidden weak live",
            ),
            ("symbol $6 \"unused\" external\n", ""),
        ],
    );
}

#[test]
fn a_stale_edit_is_refused() {
    let mut graph = sample();
    let late = Edit::new(&graph);
    Edit::new(&graph)
        .commit(&mut graph)
        .expect("nothing can be refused");
    let stale = Err(EditError::Stale { made_for: 0 });
    assert_eq!(late.commit(&mut graph), stale);
    // A pass that made something gave away the ids that the edit promised.
    let late = Edit::new(&graph);
    graph.add_external(b"x", false);
    assert_eq!(
        late.commit(&mut graph),
        Err(EditError::Stale { made_for: 1 })
    );
    assert_eq!(graph.generation(), 1);
}

/// Stages one of everything that touches what exists and what is new.
fn stage_everything(edit: &mut Edit) {
    let section = edit.add_section(b".new", NewSection::new(Prot::RW));
    let block = edit.add_block(NewBlock {
        section,
        content: NewContent::Owned(vec![0; 32]),
        align: 16,
        align_offset: 3,
    });
    let symbol = edit.add_defined(b"new", block, 0, 8, SymbolFlags::empty());
    let wide = edit.add_symbol(NewSymbol {
        name: b"wide",
        base: Addressable::Common { align: 1 << 40 },
        size: 1 << 50,
        flags: SymbolFlags::empty(),
    });
    edit.add_comdat(Comdat {
        signature: symbol,
        input: LinkGraph::linker_input(),
        selection: Selection::Any,
    });
    edit.associate(block, b(1));
    edit.set_section_ordinal(section, 77);
    edit.set_section_ordinal(s(2), 78);
    edit.set_section_ordinal(s(1), 79);
    edit.set_section_prot(s(2), Prot::RX);
    edit.set_section_lifetime(s(3), Lifetime::Finalize);
    edit.write_content(block, 1, vec![1]);
    edit.add_edge(block, edge(0, POINTER64, symbol, 0));
    let pieces = edit.split_block(block, &[8, 16]);
    edit.set_block_align(pieces[1], 4, 1);
    edit.write_content(b(1), 1, vec![0xaa]);
    edit.add_edge(b(1), edge(9, MARK, wide, 0));
    let pieces = edit.split_block(b(1), &[8]);
    edit.set_content(pieces[0], vec![1; 9]);
    edit.set_edges(pieces[0], Vec::new());
    edit.transfer_block(pieces[1], s(2));
    edit.set_block_align(b(2), 16, 0);
    edit.set_block_align(b(3), 16, 7);
    edit.merge_sections(s(3), s(2));
    edit.remove_block(b(3));
    edit.make_absolute(sym(4), 9);
    edit.remove_block(b(2));
    edit.make_defined(sym(5), pieces[1], 1, 1);
    edit.set_symbol_size(sym(2), 1);
    edit.set_symbol_name(sym(3), b"renamed");
    edit.make_external(sym(1));
    edit.remove_symbol(sym(6));
    edit.set_symbol_flag(wide, SymbolFlags::LIVE, true);
    edit.set_symbol_scope(wide, Scope::Hidden);
}

#[test]
fn everything_at_once_is_published() {
    let mut graph = sample();
    let mut edit = Edit::new(&graph);
    stage_everything(&mut edit);
    edit.commit(&mut graph).expect("the edit is allowed");
    assert_eq!(verify(&graph, Stage::Read), []);
    let printed = text(&graph);
    assert_eq!(text(&crate::testing::graph(&printed)), printed);
}

/// After each operation in turn, one is refused.
#[test]
fn a_refused_operation_leaves_no_trace() {
    let mut everything = Edit::new(&sample());
    stage_everything(&mut everything);
    for n in 0..=everything.len() {
        let error = refused(|edit| {
            stage_everything(edit);
            edit.ops.truncate(n);
            edit.remove_section(s(99));
        });
        let expected = EditError::Refused {
            index: n,
            name: "remove_section",
            source: GraphError::NoSection(s(99)),
        };
        assert_eq!(error, expected);
        let message = format!("operation {n} (remove_section): section s99 does not exist");
        assert_eq!(error.to_string(), message);
    }
}

/// Each operation is allowed, but not what comes out of them.
#[test]
fn an_unsound_result_leaves_no_trace() {
    let violation = |stage: &dyn Fn(&mut Edit)| {
        let error = refused(|edit| {
            stage_everything(edit);
            edit.ops.clear();
            edit.next = edit.before;
            stage(edit);
        });
        let EditError::Unsound(violations) = error else {
            panic!("each operation is allowed: {error}")
        };
        assert_eq!(violations.len(), 1, "{violations:?}");
        (violations[0].rule, violations[0].subject)
    };
    // An edge elsewhere targets the symbol.
    let found = violation(&|edit| edit.remove_symbol(sym(3)));
    assert_eq!(found, ("edge-target", Subject::Edge(b(1), 1)));
    // It is a group's signature.
    let found = violation(&|edit| edit.remove_symbol(sym(1)));
    assert_eq!(found, ("comdat", Subject::Comdat(c(1))));
    // A symbol would lie outside the block.
    let found = violation(&|edit| edit.set_zero_fill_size(b(2), 5));
    assert_eq!(found, ("symbol-place", Subject::Symbol(sym(4))));
    // An edge would.
    let found = violation(&|edit| {
        edit.set_symbol_size(sym(1), 1);
        edit.set_symbol_size(sym(2), 1);
        edit.set_content(b(1), vec![0; 15]);
    });
    assert_eq!(found, ("edge-place", Subject::Edge(b(1), 0)));
    // A group that does not exist.
    let found = violation(&|edit| {
        let mut new = NewSection::new(Prot::R);
        new.comdat = Some(c(9));
        edit.add_section(b"x", new);
    });
    assert_eq!(found, ("section-comdat", Subject::Section(s(4))));
    let found = violation(&|edit| {
        edit.add_comdat(Comdat {
            signature: sym(99),
            input: LinkGraph::linker_input(),
            selection: Selection::Any,
        });
    });
    assert_eq!(found, ("comdat", Subject::Comdat(c(2))));
}

#[test]
fn all_violations_of_an_edit_are_told() {
    let error = refused(|edit| {
        edit.remove_symbol(sym(2));
        edit.remove_symbol(sym(3));
    });
    let message = "the edit leaves an unsound graph: edge 0 of block b1 of section s1 .text: its \
                   target $2 does not exist [edge-target], and 1 more";
    assert_eq!(error.to_string(), message);
}

#[test]
fn ids_that_do_not_exist_are_refused() {
    let (section, block, symbol) = (s(1 << 31), b(1 << 31), sym(1 << 31));
    let stages: [&dyn Fn(&mut Edit); 29] = [
        &|edit| edit.set_section_prot(section, Prot::R),
        &|edit| edit.set_section_lifetime(section, Lifetime::Finalize),
        &|edit| edit.set_section_ordinal(section, 1),
        &|edit| edit.merge_sections(section, s(1)),
        &|edit| edit.merge_sections(s(1), section),
        &|edit| edit.remove_section(section),
        &|edit| edit.transfer_block(block, s(1)),
        &|edit| edit.transfer_block(b(1), section),
        &|edit| edit.set_block_align(block, 1, 0),
        &|edit| edit.set_content(block, Vec::new()),
        &|edit| edit.write_content(block, 0, Vec::new()),
        &|edit| edit.write_content(b(1), 15, vec![0; 2]),
        &|edit| edit.write_content(b(1), u64::MAX, vec![0; 2]),
        &|edit| edit.write_content(b(2), 0, vec![0; 2]),
        &|edit| edit.set_zero_fill_size(block, 1),
        &|edit| edit.remove_block(block),
        &|edit| drop(edit.split_block(block, &[1])),
        &|edit| edit.set_edges(block, Vec::new()),
        &|edit| edit.add_edge(block, edge(0, MARK, sym(1), 0)),
        &|edit| edit.add_edge(b(1), edge(0, MARK, symbol, 0)),
        &|edit| edit.make_external(symbol),
        &|edit| edit.make_absolute(symbol, 0),
        &|edit| edit.make_defined(symbol, b(1), 0, 0),
        &|edit| edit.make_defined(sym(1), block, 0, 0),
        &|edit| edit.transfer_symbol(symbol, b(1), 0, None),
        &|edit| edit.remove_symbol(symbol),
        &|edit| edit.set_symbol_name(symbol, b"x"),
        &|edit| edit.set_symbol_flag(symbol, SymbolFlags::LIVE, true),
        &|edit| edit.associate(b(1), block),
    ];
    for (n, stage) in stages.into_iter().enumerate() {
        let error = refused(stage);
        assert!(
            matches!(error, EditError::Refused { index: 0, .. }),
            "{n}: {error}"
        );
    }
}

#[test]
fn the_stage_is_looked_at() {
    let commit = |stage| {
        let mut graph = sample();
        let mut edit = Edit::new(&graph).at_stage(stage);
        edit.add_edge(b(1), edge(0, REQUEST_GOT, sym(3), 0));
        edit.commit(&mut graph).map(drop)
    };
    assert_eq!(commit(Stage::Read), Ok(()));
    assert!(matches!(commit(Stage::Tables), Err(EditError::Unsound(_))));
}

#[test]
fn provenance_tells_the_editor() {
    let mut graph = sample();
    let mut edit = Edit::new(&graph).made_by("tables", Some("plugin".into()));
    edit.set_symbol_size(sym(1), 1);
    let made = edit.add_external(b"x", false);
    edit.commit(&mut graph).expect("the edit is allowed");
    let origin = graph.origin(Entity::Symbol(sym(1)));
    let step = origin.changed_by.expect("it was changed");
    assert_eq!(
        (step.name, step.plugin.as_deref()),
        ("tables", Some("plugin"))
    );
    let origin = graph.origin(Entity::Symbol(made));
    assert_eq!(origin.made_by.map(|step| step.name), Some("tables"));
    // What follows is again the work of the step that was open.
    let next = graph.add_external(b"y", false);
    let origin = graph.origin(Entity::Symbol(next));
    assert_eq!(origin.made_by.map(|step| step.name), Some("step"));
}
