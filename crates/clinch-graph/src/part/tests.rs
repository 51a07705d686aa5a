//! Graphs filled part by part, as readers do it.

use super::{ReadBlock, SymbolBase, SymbolOutside};
use crate::comdat::Comdat;
use crate::graph::LinkGraph;
use crate::index::id::IdRange;
use crate::index::workers::Workers;
use crate::section::{NewSection, SectionFlags};
use crate::testing::{DELTA32, File, POINTER64, Source, TOY, b, c, edge, flat, s, sym, text};
use crate::{
    Addressable, BlockEdgeError, BlockId, ComdatId, EdgeErrorKind, InputId, Prot, Scope, Selection,
    Stage, SymbolFlags, verify,
};

const LOCAL: SymbolFlags = SymbolFlags::empty().with_scope(Scope::Local);
const GLOBAL: SymbolFlags = SymbolFlags::empty();

fn section(prot: Prot, comdat: Option<ComdatId>) -> NewSection {
    NewSection {
        comdat,
        ..NewSection::new(prot)
    }
}

/// A block with its size's binary logarithm of 3 as alignment.
fn read(name: u32, section: NewSection, content: Option<u64>, size: u64, table: u32) -> ReadBlock {
    ReadBlock {
        name,
        section,
        content,
        size,
        align_log2: 3,
        table,
    }
}

/// Two inputs: one has code that calls and a hole in its symbols; the other has a discarded
/// section and zero-fill. Steps make things between the inputs, too.
fn two_inputs(addends_in_content: bool) -> LinkGraph {
    let source = Source { addends_in_content };

    let mut first = File::new();
    let code = first.content(&[1, 0, 0, 0, 2, 0, 0, 0]);
    let calls = first.table(&[(4, DELTA32, 3, -4), (0, DELTA32, 0, 5)]);
    let (names, name) = first.names(&["", "main", "put"]);
    let (sections, section_name) = first.names(&[".text"]);
    let first = first.input("a.toy", names, sections, 4, source);

    let mut second = File::new();
    let text = second.content(&[9, 9, 9, 9, 9, 9, 9, 9]);
    let pointers = second.table(&[(0, POINTER64, 1, 0)]);
    let (names2, name2) = second.names(&["put", "gone", "fixed", "shared"]);
    let (sections2, section_name2) = second.names(&[".text.put", ".bss"]);
    let second = second.input("b.toy", names2, sections2, 5, source);

    let mut graph = LinkGraph::new("test", &TOY);
    graph.add_external(b"before", false);
    let inputs = graph.add_inputs(&Workers::new(1), vec![first]);
    graph.add_external(b"between", false);
    let inputs = IdRange::new(
        inputs.start(),
        graph.add_inputs(&Workers::new(1), vec![second]).end(),
    );

    let mut parts = graph.symbol_parts(inputs);
    let [one, two] = &mut parts[..] else {
        panic!("there are two inputs")
    };
    let at = |section, offset| SymbolBase::Section { section, offset };
    // Symbol 2 of the first is a hole.
    assert!(one.set(0, name[0], at(1, 0), 0, LOCAL | SymbolFlags::SECTION));
    assert!(one.set(1, name[1], at(1, 0), 8, GLOBAL | SymbolFlags::CALLABLE));
    assert!(one.set(3, name[2], SymbolBase::External, 0, GLOBAL));
    assert!(!one.set(4, name[2], SymbolBase::External, 0, GLOBAL));
    assert!(two.set(
        0,
        name2[0],
        at(7, 4),
        9,
        SymbolFlags::WEAK | SymbolFlags::OWNED_NAME
    ));
    assert!(two.set(1, name2[1], at(5, 1), 2, GLOBAL));
    assert!(two.set(
        2,
        name2[2],
        SymbolBase::Absolute(0x1_0000_0002),
        1 << 32,
        GLOBAL
    ));
    assert!(two.set(
        3,
        name2[3],
        SymbolBase::Common { align: 64 },
        1 << 33,
        GLOBAL
    ));
    assert!(two.set(4, name2[0], at(8, 1 << 32), 1 << 33, LOCAL));
    let rests = parts
        .into_iter()
        .map(super::SymbolPart::into_rest)
        .collect();
    graph.finish_symbols(rests);
    assert_eq!(graph.pending_place(sym(8)), Some((5, 1)));

    let input = InputId::from_raw(3).expect("not zero");
    let comdats = graph.add_comdats(
        input,
        [Comdat {
            signature: sym(7),
            input,
            selection: Selection::Any,
        }],
    );
    assert_eq!(comdats.get(0), Some(c(1)));

    let mut parts = graph.block_parts(&Workers::new(1), inputs, &[1, 2]);
    let [one, two] = &mut parts[..] else {
        panic!("there are two inputs")
    };
    let mut code_section = section(Prot::RX, None);
    code_section.flags |= SectionFlags::OWNED_NAME | SectionFlags::RETAIN;
    let block = read(section_name[0], code_section, Some(code), 8, calls);
    assert_eq!(one.push(&block), Some(0));
    assert_eq!(one.push(&block), None);
    let resolved = one.resolve_symbols(|section| (section == 1).then_some(0));
    assert_eq!(resolved, Ok(()));

    let put = section(Prot::RX, comdats.get(0));
    let block = read(section_name2[0], put, Some(text), 8, pointers);
    assert_eq!(two.push(&block), Some(0));
    let bss = section(Prot::RW, None);
    assert_eq!(
        two.push(&read(section_name2[1], bss, None, 1 << 34, 0)),
        Some(1)
    );
    assert_eq!(two.block_id(1), b(3));
    let resolved = two.resolve_symbols(|section| section.checked_sub(7));
    assert_eq!(resolved, Ok(()));
    graph
}

#[test]
fn two_inputs_make_one_graph() {
    let graph = two_inputs(false);
    let expected = r#"
        comdat c1 $6 any
        section s1 ".text" r-x retain
        block b1 size 8 align 8
        bytes 01 00 00 00 02 00 00 00
        edge +0x4 Delta32 $4 - 4
        edge +0x0 Delta32 $2 + 5
        section s2 ".text.put" r-x comdat c1
        block b2 size 8 align 8
        bytes 09 09 09 09 09 09 09 09
        edge +0x0 Pointer64 $7
        section s3 ".bss" rw-
        block b3 size 17179869184 align 8 zero
        symbol $1 "before" external
        symbol $2 b1+0x0 section
        symbol $3 "main" b1+0x0 size 8 callable
        symbol $4 "put" external
        symbol $5 "between" external
        symbol $6 "put" b2+0x4 size 4 weak
        symbol $7 "gone" discarded size 2
        symbol $8 "fixed" absolute 0x100000002 size 4294967296
        symbol $9 "shared" common align 64 size 8589934592
        symbol $10 "put" b3+0x100000000 size 8589934592 local
        "#;
    assert_eq!(
        text(&graph),
        flat(expected)
            .replace("\nblock", "\n  block")
            .replace("\nbytes", "\n    bytes")
            .replace("\nedge", "\n    edge")
    );
    assert_eq!(verify(&graph, Stage::Read), []);
    assert_eq!(graph.n_symbols(), 11, "a hole has an id, too");
    assert_eq!(graph.n_edges(b(1)), 2);
    assert!(graph.content_file_offset(b(1)).is_some());
    assert_eq!(graph.content_file_offset(b(3)), None);
}

#[test]
fn everything_knows_its_input() {
    let mut graph = two_inputs(false);
    let section = graph.add_section(b".got", NewSection::new(Prot::RW));
    let [linker, first, second] = [1, 2, 3].map(|raw| InputId::from_raw(raw).expect("not zero"));
    let of_symbols: Vec<InputId> = (1..=11).map(|n| graph.symbol_input(sym(n))).collect();
    let mut expected = vec![linker];
    expected.extend([first; 4]);
    expected.push(linker);
    expected.extend([second; 5]);
    assert_eq!(of_symbols, expected);
    assert_eq!(graph.section_input(s(1)), first);
    assert_eq!(graph.section_input(s(3)), second);
    assert_eq!(graph.section_input(section), linker);
    assert_eq!(graph.block_input(b(2)), second);
    assert_eq!(graph.comdat_input(c(1)), second);
    assert_eq!(graph.input(second).symbols(), IdRange::new(6, 11));
    assert_eq!(graph.input(second).blocks().get(1), Some(b(3)));
    assert_eq!(graph.input(second).comdats().len(), 1);
}

/// Ranges of inputs that wait for their blocks must not hide those of inputs that have some.
#[test]
fn inputs_are_filled_in_several_rounds() {
    let source = Source {
        addends_in_content: false,
    };
    let mut graph = LinkGraph::new("test", &TOY);
    let inputs = (0..6).map(|_| {
        let mut file = File::new();
        let (names, _) = file.names(&["x"]);
        file.input("x.toy", 0..0, names, 1, source)
    });
    let inputs = graph.add_inputs(&Workers::new(1), inputs.collect());
    let ids: Vec<InputId> = inputs.iter().collect();
    let bss = NewSection::new(Prot::RW);
    let mut expected = Vec::new();
    for (first, counts) in [(0, &[2, 0][..]), (2, &[1]), (3, &[0, 3])] {
        let range = IdRange::new(
            inputs.start() + first,
            inputs.start() + first + counts.len(),
        );
        for (mut part, &count) in graph
            .block_parts(&Workers::new(1), range, counts)
            .into_iter()
            .zip(counts)
        {
            while part.push(&read(0, bss, None, 1, 0)).is_some() {}
            expected.extend(vec![part.input; count]);
        }
        // A step makes a section after each round.
        graph.add_section(b"made", bss);
        expected.push(LinkGraph::linker_input());
        let found = (1..=graph.n_sections()).map(|n| graph.section_input(s(n)));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
    assert_eq!(graph.section_name(s(1)), b"x");
    assert_eq!(graph.section_name(s(3)), b"made");
    assert!(graph.input(ids[5]).blocks().is_empty());
}

#[test]
fn symbols_outside_their_block_are_refused_or_cut() {
    let fill = |offset, size, room| {
        let mut graph = LinkGraph::new("test", &TOY);
        let source = Source {
            addends_in_content: false,
        };
        let input = File::new().input("x.toy", 0..0, 0..0, 1, source);
        let inputs = graph.add_inputs(&Workers::new(1), vec![input]);
        let mut parts = graph.symbol_parts(inputs);
        let base = SymbolBase::Section { section: 1, offset };
        assert!(parts[0].set(0, 0, base, size, LOCAL));
        let rests = parts
            .into_iter()
            .map(super::SymbolPart::into_rest)
            .collect();
        graph.finish_symbols(rests);
        let mut parts = graph.block_parts(&Workers::new(1), inputs, &[1]);
        let new = NewSection::new(Prot::RW);
        assert_eq!(parts[0].push(&read(0, new, None, room, 0)), Some(0));
        parts[0].resolve_symbols(|_| Some(0))?;
        assert_eq!(verify(&graph, Stage::Read), []);
        let block = b(1);
        assert_eq!(
            graph.addressable(sym(1)),
            Addressable::Block { block, offset }
        );
        Ok(graph.symbol_size(sym(1)))
    };
    let outside = |offset, size| {
        Err(SymbolOutside {
            index: 0,
            offset,
            size,
        })
    };
    assert_eq!(fill(0, 8, 8), Ok(8));
    assert_eq!(fill(8, 0, 8), Ok(0));
    assert_eq!(fill(4, 8, 8), Ok(4));
    assert_eq!(fill(9, 0, 8), outside(9, 8));
    // With 64 bits.
    assert_eq!(fill(4, u64::MAX, 8), Ok(4));
    assert_eq!(fill(9, u64::MAX, 8), outside(9, 8));
    assert_eq!(fill(1 << 40, 0, 1 << 40), Ok(0));
    assert_eq!(fill(1 << 40, 1, 1 << 40), outside(1 << 40, 1 << 40));
    assert_eq!(fill(1, 1 << 40, 1 << 40), outside(1, 1 << 40));
    assert_eq!(fill(1, (1 << 40) - 1, 1 << 40), Ok((1 << 40) - 1));
}

#[test]
fn parts_that_are_not_filled_are_holes() {
    let mut graph = LinkGraph::new("test", &TOY);
    let source = Source {
        addends_in_content: false,
    };
    let input = File::new().input("x.toy", 0..0, 0..0, 3, source);
    let inputs = graph.add_inputs(&Workers::new(1), vec![input]);
    drop(graph.block_parts(&Workers::new(1), inputs, &[2]));
    assert_eq!(text(&graph), "");
    assert_eq!(verify(&graph, Stage::Read), []);
    assert_eq!(
        (graph.n_symbols(), graph.n_blocks(), graph.n_sections()),
        (3, 2, 2)
    );
}

/// A graph of one block whose records cannot be decoded.
fn undecodable() -> LinkGraph {
    let mut graph = LinkGraph::new("test", &TOY);
    let source = Source {
        addends_in_content: false,
    };
    let mut file = File::new();
    let content = file.content(&[0; 16]);
    let table = file.table(&[(0, POINTER64, 0, 0), (8, POINTER64, 9, 0)]);
    let (names, name) = file.names(&["odd"]);
    let input = file.input("bad.toy", names.clone(), names, 1, source);
    let inputs = graph.add_inputs(&Workers::new(1), vec![input]);
    let mut parts = graph.symbol_parts(inputs);
    assert!(parts[0].set(0, name[0], SymbolBase::External, 0, GLOBAL));
    drop(parts);
    let mut parts = graph.block_parts(&Workers::new(1), inputs, &[1]);
    let block = read(name[0], NewSection::new(Prot::RW), Some(content), 16, table);
    assert_eq!(parts[0].push(&block), Some(0));
    graph
}

#[test]
fn records_that_cannot_be_decoded_name_their_place() {
    let mut graph = undecodable();
    let mut edges = vec![edge(1, DELTA32, sym(1), 1)];
    let error = graph
        .edges(b(1), &mut edges)
        .expect_err("symbol 9 does not exist");
    assert_eq!(
        edges,
        [edge(0, POINTER64, sym(1), 0)],
        "what stood before it"
    );
    let BlockEdgeError {
        input,
        section,
        source,
    } = &*error;
    assert_eq!(
        (input.to_string(), section.as_str()),
        ("bad.toy".to_owned(), "odd")
    );
    assert_eq!(source.kind, EdgeErrorKind::NoSymbol(9));
    let message = "bad.toy:(odd): relocation refers to symbol 9, which does not exist \
                   (record at file offset 0x14)";
    assert_eq!(error.to_string(), message);
    assert_eq!(graph.to_text(), Err(error.clone()));
    assert_eq!(graph.digest(), Err(error.clone()));
    let refused = Err(crate::GraphError::Edges(error));
    assert_eq!(graph.add_edge(b(1), edge(0, DELTA32, sym(1), 0)), refused);
    assert_eq!(graph.split_block(b(1), &[8]).map(drop), refused);
    assert_eq!(graph.edges_mut(b(1)).map(drop), refused);
    assert_eq!(graph.n_blocks(), 1);
    // Its own list makes it whole.
    graph
        .set_edges(b(1), Vec::new())
        .expect("nothing is decoded for this");
    assert!(graph.to_text().is_ok());
}

#[test]
fn borrowed_blocks_change_and_split_like_owned_ones() {
    let edges = |graph: &LinkGraph, block: BlockId| {
        let mut edges = Vec::new();
        graph.edges(block, &mut edges).expect("they can be decoded");
        edges
    };
    let mut graph = two_inputs(false);
    let whole = text(&graph);
    graph.content_mut(b(1)).expect("it has content")[0] = 1;
    assert_eq!(text(&graph), whole, "owned now, but the same");
    graph.edges_mut(b(1)).expect("they can be decoded");
    assert_eq!(text(&graph), whole, "owned now, but the same");

    let mut graph = two_inputs(false);
    let pieces = graph.split_block(b(1), &[4]).expect("nothing is cut");
    assert_eq!(graph.content(pieces[1]).bytes(), [2, 0, 0, 0]);
    assert_eq!(edges(&graph, pieces[0]), [edge(0, DELTA32, sym(2), 5)]);
    assert_eq!(edges(&graph, pieces[1]), [edge(0, DELTA32, sym(5), -4)]);
    assert!(
        graph.content_file_offset(pieces[1]).is_some(),
        "still the input's"
    );
    assert_eq!(verify(&graph, Stage::Read), []);
}

#[test]
fn addends_in_the_content_survive_its_change() {
    let edges = |graph: &LinkGraph| {
        let mut edges = Vec::new();
        graph.edges(b(1), &mut edges).expect("they can be decoded");
        edges
    };
    let before = edges(&two_inputs(true));
    let addends: Vec<i64> = before.iter().map(|edge| edge.addend).collect();
    assert_eq!(addends, [-2, 6]);

    let mut graph = two_inputs(true);
    graph.content_mut(b(1)).expect("it has content").fill(0xff);
    assert_eq!(edges(&graph), before);

    let mut graph = two_inputs(true);
    graph.set_content(b(1), vec![0; 8]).expect("it exists");
    assert_eq!(edges(&graph), before);

    // A reader's own filling is what the records are about.
    let mut graph = two_inputs(true);
    graph.fill_content(b(1), vec![0; 8]).expect("it exists");
    let addends: Vec<i64> = edges(&graph).iter().map(|edge| edge.addend).collect();
    assert_eq!(addends, [-4, 5]);
}
