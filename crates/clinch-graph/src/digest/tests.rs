//! What the digest sees and what it does not.

use crate::dump::parse;
use crate::graph::LinkGraph;
use crate::testing::{TOY, b, graph, s, sym};
use crate::{BlockId, Digest};

const TEXT: &str = r#"
    comdat c1 $1 any
    section s1 ".text" r-x comdat c1
      block b1 size 12 align 16 offset 4
        bytes 00 01 02 03 04 05 06 07 08 09 0a 0b
        edge +0x8 Delta32 $2
        edge +0x4 RequestGot $3 - 1
    section s2 ".bss" rw- ordinal 9
      block b2 size 32 align 8 zero
    symbol $1 "f" b1+0 size 12 callable
    symbol $2 b1+8 size 4
    symbol $3 "ext" external
    symbol $4 "buf" common align 8 size 8
    symbol $5 "abs" absolute 7
    symbol $6 "gone" discarded
    associate b1 b2
"#;

fn digest(graph: &LinkGraph) -> Digest {
    graph.digest().expect("edges can be decoded")
}

#[test]
fn is_shown_as_hexadecimal_digits() {
    let digest = digest(&graph(""));
    let shown = digest.to_string();
    assert_eq!(shown.len(), 64);
    assert!(shown.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(format!("{digest:?}"), shown);
    assert_eq!(shown[..2], format!("{:02x}", digest.as_bytes()[0]));
}

/// Pinned, so that a change of what is digested is a decision: digests may be in caches. Raise
/// the version in the digest when this changes.
#[test]
fn is_the_same_on_every_machine() {
    let digest = digest(&graph(TEXT)).to_string();
    assert_eq!(
        digest,
        "e61f5d1116313fa106105a3213c03ce7fd94d9a95ea16355ad75358e2d72aae3"
    );
}

/// Every word of the text that is not an id has meaning.
#[test]
fn sees_every_property() {
    let changes = [
        ("$1 any", "$1 largest"),
        ("comdat c1 $1", "comdat c1 $3"),
        ("\".text\"", "\".test\""),
        ("r-x comdat c1", "r--"),
        ("r-x comdat c1", "r-x"),
        ("r-x comdat", "r-- comdat"),
        ("r-x comdat", "r-x kind note comdat"),
        ("r-x comdat", "r-x lifetime finalize comdat"),
        ("r-x comdat", "r-x entry 1 comdat"),
        ("r-x comdat", "r-x retain comdat"),
        ("ordinal 9", "ordinal 8"),
        (" ordinal 9", ""),
        ("align 16", "align 32"),
        ("offset 4", "offset 5"),
        ("0a 0b", "0a 0c"),
        ("+0x8 Delta32", "+0x7 Delta32"),
        ("Delta32", "RequestGot"),
        ("Delta32 $2", "Delta32 $3"),
        ("$3 - 1", "$3 + 1"),
        ("    edge +0x4 RequestGot $3 - 1\n", ""),
        ("size 32 align", "size 33 align"),
        ("\"f\"", "\"g\""),
        ("b1+0 size 12", "b2+0 size 12"),
        ("b1+0 size 12", "b1+1 size 11"),
        ("size 12 callable", "size 11 callable"),
        ("size 12 callable", "size 12"),
        ("size 12 callable", "size 12 live callable"),
        ("size 12 callable", "size 12 weak callable"),
        ("size 12 callable", "size 12 hidden callable"),
        ("external", "external weakly-referenced"),
        ("common align 8", "common align 4"),
        ("common align 8 size 8", "common align 8 size 4"),
        ("common align 8 size 8", "discarded size 8"),
        ("absolute 7", "absolute 8"),
        ("\"gone\" discarded", "\"gone\" external"),
        ("associate b1 b2", "associate b2 b1"),
        ("associate b1 b2", ""),
    ];
    let mut seen = vec![digest(&graph(TEXT))];
    for (old, new) in changes {
        assert!(TEXT.contains(old), "{old}");
        let changed = digest(&graph(&TEXT.replacen(old, new, 1)));
        assert!(!seen.contains(&changed), "{old} became {new}, unseen");
        seen.push(changed);
    }
}

#[test]
fn does_not_see_the_graphs_name() {
    let named = |name: &str| {
        let text = format!("graph \"{name}\" toy\n{TEXT}");
        digest(&parse(&text, |_| Some(&TOY)).expect("the text is a graph"))
    };
    assert_eq!(named("a"), named("b"));
}

#[test]
fn does_not_see_holes() {
    let mut holes = graph(&TEXT.replace("associate", "section s3 \"x\" r--\nassociate"));
    holes.add_external(b"x", false);
    holes.remove_symbol(sym(7)).expect("it exists");
    holes.remove_section(s(3)).expect("it is empty");
    assert_eq!(digest(&holes), digest(&graph(TEXT)));

    // A hole in front of everything.
    let text = "section s1 \"x\" r--\nblock b1 size 1 zero\nsymbol $1 \"x\" external\n";
    let shifted = TEXT
        .replace("$5", "$6")
        .replace("$4", "$5")
        .replace("$3", "$4")
        .replace("$2", "$3")
        .replace("$1", "$2")
        .replace("b2", "b3")
        .replace("b1", "b2")
        .replace("s2", "s3")
        .replace("s1", "s2")
        .replace("symbol $6 \"gone\"", "symbol $7 \"gone\"");
    let mut holes = graph(&format!("{text}{shifted}"));
    holes.remove_symbol(sym(1)).expect("it exists");
    holes.remove_block(b(1)).expect("it has no symbol");
    holes.remove_section(s(1)).expect("it is empty");
    assert_eq!(digest(&holes), digest(&graph(TEXT)));
}

#[test]
fn does_not_see_who_owns_what() {
    let mut graph = graph(TEXT);
    let before = digest(&graph);
    graph.begin_step("step", None);
    graph.content_mut(b(1)).expect("it has content")[0] = 0;
    graph.set_symbol_name(sym(1), b"f").expect("it exists");
    graph.retain_edges(b(1), |_| true).expect("it exists");
    assert_eq!(digest(&graph), before);
}

#[test]
fn sees_where_content_ends() {
    let pair = |first: &str, second: &str| {
        let text = format!("section s1 \"a\" r--\nblock b1\n{first}\nblock b2\n{second}");
        digest(&graph(&text))
    };
    assert_ne!(
        pair("bytes 00 00", "bytes 00"),
        pair("bytes 00", "bytes 00 00")
    );
    assert_ne!(pair("bytes", "bytes 00"), pair("bytes 00", "bytes"));
    let zero = graph("section s1 \"a\" r--\nblock b1 size 2 zero");
    let bytes = graph("section s1 \"a\" r--\nblock b1\nbytes 00 00");
    assert_ne!(digest(&zero), digest(&bytes));
}

/// Contents above the buffer's size take another way to the hasher.
#[test]
fn sees_every_byte_of_long_content() {
    let mut graph = graph("section s1 \"a\" r--\nblock b1\nblock b2");
    let fill = |graph: &mut LinkGraph, block: BlockId, len| {
        graph.set_content(block, vec![7; len]).expect("it exists");
    };
    fill(&mut graph, b(1), 100_000);
    fill(&mut graph, b(2), 16 << 10);
    let mut seen = vec![digest(&graph)];
    for position in [0, 50_000, 99_999] {
        graph.content_mut(b(1)).expect("it has content")[position] = 8;
        let changed = digest(&graph);
        assert!(!seen.contains(&changed));
        seen.push(changed);
    }
}
