//! Graphs from text, joined.

use super::{JoinError, Part, join};
use crate::resolve::{Resolution, resolve};
use clinch_graph::{BlockId, GraphTarget, LinkGraph, Names, Stage, Workers, parse, verify};

fn target(name: &str) -> Option<&'static GraphTarget> {
    clinch_target::arch_named(name).map(|arch| &arch.graph)
}

fn graph(text: &str) -> LinkGraph {
    parse(&format!("graph \"t\" x86_64\n{text}"), target).unwrap_or_else(|error| panic!("{error}"))
}

/// Joins graphs, all blocks of which are wanted but those for which `leaves_out` says so.
fn try_join(
    texts: &[&str],
    leaves_out: impl Fn(usize, BlockId) -> bool,
) -> Result<LinkGraph, JoinError> {
    let mut graphs: Vec<LinkGraph> = texts.iter().map(|text| graph(text)).collect();
    let resolutions: Vec<Resolution> = graphs
        .iter_mut()
        .map(|graph| resolve(graph, &Names::new(), |_| true, &Workers::new(1)).unwrap())
        .collect();
    let leaves_out = &leaves_out;
    let wants: Vec<_> = (0..graphs.len())
        .map(|number| move |block| !leaves_out(number, block))
        .collect();
    let graphs = graphs.iter().zip(&resolutions).zip(&wants);
    let parts: Vec<Part<'_>> = graphs
        .map(|((graph, resolution), wants)| Part {
            graph,
            resolution,
            wants,
        })
        .collect();
    let joined = join("t", target("x86_64").unwrap(), &parts)?;
    assert_eq!(verify(&joined, Stage::Read), []);
    Ok(joined)
}

#[track_caller]
fn joins(texts: &[&str], expected: &str) {
    let joined = try_join(texts, |_, _| false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        joined.to_text().unwrap(),
        graph(expected).to_text().unwrap()
    );
}

const DATA: &str = "bytes 00 00 00 00 00 00 00 00\n";

/// A reference to another graph's definition goes there, one to nobody's stays, and each name has
/// one symbol. Local symbols of one name stay apart.
#[test]
fn references_meet_by_name() {
    joins(
        &[
            &format!(
                "section s1 \"a\" rw-\n block b1 size 8 align 8\n {DATA}
                   edge +0 Pointer32 $2 + 5\n edge +4 Pointer32 $3\n
                 symbol $1 \"mine\" b1+4 size 4 object\nsymbol $2 \"theirs\" external weakly-referenced\n
                 symbol $3 \"nobodys\" external weakly-referenced\nsymbol $4 \"local\" b1+0 local\n"
            ),
            &format!(
                "section s1 \"a\" rw-\n block b1 size 8 align 4\n {DATA}
                   edge +0 Pointer32 $2\n edge +4 Pointer32 $3\n
                 symbol $1 \"theirs\" b1+0 weak callable\nsymbol $2 \"mine\" external hidden\n
                 symbol $3 \"nobodys\" external\nsymbol $4 \"local\" b1+0 local\n"
            ),
        ],
        &format!(
            "section s1 \"a\" rw-\n block b1 size 8 align 8\n {DATA}
               edge +0 Pointer32 $3 + 5\n edge +4 Pointer32 $6\n
             section s2 \"a\" rw-\n block b2 size 8 align 4\n {DATA}
               edge +0 Pointer32 $2\n edge +4 Pointer32 $6\n
             symbol $1 absolute 0\n
             symbol $2 \"mine\" b1+4 size 4 object hidden\nsymbol $3 \"theirs\" b2+0 weak callable\n
             symbol $4 \"local\" b1+0 local\nsymbol $5 \"local\" b2+0 local\n
             symbol $6 \"nobodys\" external\n"
        ),
    );
}

/// Anonymous symbols come with what refers to them, the value 0 is one symbol for all.
#[test]
fn symbols_without_a_name() {
    let part = format!(
        "section s1 \"a\" r--\n block b1 size 8 align 1\n {DATA}
           edge +0 Pointer32 $2\n edge +4 Pointer32 $1 + 7\n
         symbol $1 absolute 0\nsymbol $2 b1+3 section\nsymbol $3 b1+1\n"
    );
    joins(
        &[&part, &part],
        &format!(
            "section s1 \"a\" r--\n block b1 size 8 align 1\n {DATA}
               edge +0 Pointer32 $2\n edge +4 Pointer32 $1 + 7\n
             section s2 \"a\" r--\n block b2 size 8 align 1\n {DATA}
               edge +0 Pointer32 $3\n edge +4 Pointer32 $1 + 7\n
             symbol $1 absolute 0\nsymbol $2 b1+3 section\nsymbol $3 b2+3 section\n"
        ),
    );
}

/// The first of several weak definitions prevails; a tentative one stays tentative.
#[test]
fn definitions_clash() {
    let text = |name: &str, more: &str| {
        format!(
            "section s1 \"{name}\" r--\n block b1 size 8 align 1\n {DATA} edge +0 Pointer64 $1\n
             symbol $1 \"f\" b1+0 {more}\nsymbol $2 \"c\" common align 8 size 16\n"
        )
    };
    let joined = try_join(&[&text("a", "weak"), &text("b", "weak")], |_, _| false);
    // Two tentative definitions are two strong ones here: who resolves joins them before.
    assert!(matches!(joined, Err(JoinError::Duplicate(_))));
    let only = |text: String| text.replace("symbol $2 \"c\" common align 8 size 16\n", "");
    let joined = try_join(&[&text("a", "weak"), &only(text("b", "weak"))], |_, _| {
        false
    })
    .unwrap();
    let f = joined.find_symbol(b"f").unwrap();
    let block = joined.symbol_block(f).unwrap();
    assert_eq!(joined.section_name(joined.block_section(block)), b"a");
    let mut edges = Vec::new();
    for block in joined.blocks() {
        joined.edges(block, &mut edges).unwrap();
        assert_eq!(edges[0].target, f);
    }
    let error = try_join(&[&only(text("a", "")), &only(text("b", ""))], |_, _| false);
    assert_eq!(
        error.unwrap_err().to_string(),
        "duplicate symbol: f\n>>> defined at <linker>:(a+0x0)\n>>> defined at <linker>:(b+0x0)"
    );
}

const GROUP: &str = "comdat c1 $1 any\ncomdat c2 $2 any\n
    section s1 \"f\" r-x comdat c1\n block b1 size 8 align 1\n bytes 00 00 00 00 00 00 00 00\n
    section s2 \"g\" r-- comdat c1\n block b2 size 1 align 1\n bytes 01\n
    section s3 \"h\" r-- comdat c2\n block b3 size 1 align 1\n bytes 02\n
    symbol $1 \"f\" b1+0 weak\nsymbol $2 \"named\" discarded local\n";

/// Whole groups stay groups, whatever their signature; of others the sections stay.
#[test]
fn groups() {
    let whole = try_join(&[GROUP], |_, _| false).unwrap();
    let comdats: Vec<_> = whole
        .comdats()
        .iter()
        .map(|id| whole.symbol_name(whole.comdat(id).signature))
        .collect();
    assert_eq!(comdats, [&b"f"[..], b"named"]);
    for (section, comdat) in whole.sections().zip([0, 0, 1]) {
        assert_eq!(whole.section(section).comdat, whole.comdats().get(comdat));
    }
    let second = graph(GROUP).blocks().nth(1).unwrap();
    let part = try_join(&[GROUP], |_, block| block == second).unwrap();
    assert_eq!(part.comdats().len(), 1);
    let comdats = part.sections().map(|id| part.section(id).comdat.is_some());
    assert_eq!(comdats.collect::<Vec<_>>(), [false, true]);
}

/// What refers to a block that is left out is wrong, but for debug information.
#[test]
fn references_to_what_is_left_out() {
    let text = |lifetime: &str| {
        format!(
            "section s1 \"a\" r-- {lifetime}\n block b1 size 8 align 1\n {DATA} edge +0 Pointer64 $1 + 9\n
             section s2 \"b\" r--\n block b2 size 8 align 1\n {DATA}
             symbol $1 \"f\" b2+0 local\n"
        )
    };
    let second = graph(&text("")).blocks().nth(1).unwrap();
    let left_out = |_, block| block == second;
    let error = try_join(&[&text("")], left_out).unwrap_err();
    assert_eq!(
        error.to_string(),
        "<linker>:(a+0x0): refers to f, which is left out"
    );
    let joined = try_join(&[&text("lifetime noalloc")], left_out).unwrap();
    let expected = format!(
        "section s1 \"a\" r-- lifetime noalloc\n block b1 size 8 align 1\n {DATA} edge +0 Pointer64 $1\n
         symbol $1 absolute 0\n"
    );
    assert_eq!(
        joined.to_text().unwrap(),
        graph(&expected).to_text().unwrap()
    );
}

/// Blocks keep their order, and associations their pairs.
#[test]
fn blocks_and_associations() {
    let part = "section s1 \"a\" r--\n block b1 size 1 align 1\n bytes 01\n
           block b3 size 2 align 16 offset 3\n bytes 02 03\n
         section s2 \"b\" rw-\n block b2 size 0x100 align 64 zero\n associate b2 b3\n";
    let joined = try_join(&[part, part], |_, _| false).unwrap();
    let one = graph(part);
    assert_eq!(joined.associations().len(), 2);
    let shape = |graph: &LinkGraph| -> Vec<_> {
        let blocks = graph.blocks().map(|id| {
            let section = graph.section_name(graph.block_section(id)).to_vec();
            let place = (graph.block_align(id), graph.block_align_offset(id));
            (section, place, graph.block_size(id), graph.is_zero_fill(id))
        });
        blocks.collect()
    };
    assert_eq!(shape(&joined), [shape(&one), shape(&one)].concat());
}

/// Call frame records and debug information are one section of a name; other sections, members of
/// groups among them, stay apart.
#[test]
fn one_section_of_a_name() {
    let part = "section s1 \".eh_frame\" r-- kind eh-frame\n block b1 size 1 align 1\n bytes 01\n
         section s2 \".debug_str\" r-- lifetime noalloc kind debug\n block b2 size 1 align 1\n bytes 02\n
         section s3 \".text\" r-x\n block b3 size 1 align 1\n bytes 03\n
         symbol $1 \"in\" b2+0 local\n";
    let other = part
        .replace("01", "04")
        .replace("02", "05")
        .replace("noalloc", "noalloc entry 1");
    let joined = try_join(&[part, part, &other], |_, _| false).unwrap();
    let sections: Vec<(&[u8], usize)> = joined
        .sections()
        .map(|id| (joined.section_name(id), joined.section_blocks(id).count()))
        .collect();
    let text = |n| (&b".text"[..], n);
    let (frames, debug) = (&b".eh_frame"[..], &b".debug_str"[..]);
    assert_eq!(
        sections,
        [
            (frames, 3),
            (debug, 2),
            text(1),
            text(1),
            (debug, 1),
            text(1)
        ]
    );
}
