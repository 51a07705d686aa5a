//! The text form, both ways.

use super::{parse, print};
use crate::graph::LinkGraph;
use crate::index::id::Id;
use crate::testing::{TOY, graph, text};
use crate::{BlockId, SymbolId};

fn parsed(text: &str) -> Result<LinkGraph, String> {
    parse(text, |name| (name == TOY.name).then_some(&TOY)).map_err(|error| error.to_string())
}

/// A text with everything in it, as it is printed.
const EVERYTHING: &str = r#"graph "every\"thing\\\n" toy
comdat c1 $3 any
comdat c2 $4 no-duplicates
comdat c3 $4 same-size
comdat c4 $4 exact-match
comdat c5 $4 largest
comdat c6 $4 all

section s1 ".text" r-x
  block b1 size 40 align 16 offset 4
    bytes 55 48 89 e5 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    bytes 41 42 43 44 00 ff c3 90
    edge +0x4 Delta32 $2 - 4
    edge +0x0 KeepAlive $5
    edge +0x8 Pointer64 $3 + 0x100
    edge +0x10 RequestGot $4 + 255
    edge +0x28 Mark $1 - 0x8000000000000000
  block b3 size 0 align 1

section s2 ".rodata" r-- kind eh-frame lifetime finalize entry 8 merge strings tls retain relro large exclude comdat c2 ordinal 7
  block b2 size 17 align 1
    string "hello\x00"
    string "\"wor\\ld\"\n\t\x00"
  block b4 size 66 align 1
    string "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    string "aa"

section s3 "" --- kind debug lifetime noalloc
  block b5 size 18446744073709551615 align 9223372036854775808 offset 9223372036854775807 zero
    edge +0xffffffff Mark $2

symbol $1 "main" b1+0x0 size 40 callable live
symbol $2 "puts" external weakly-referenced
symbol $3 "\xff\x01 \x7f" b1+0x28 weak ifunc
symbol $4 "hidden" b2+0x11 hidden object unique
symbol $5 b5+0xffffffffffff size 281474976710656 section
symbol $6 "abs" absolute 0xfedcba9876543210 protected
symbol $7 "buf" common align 32 size 64 tls
symbol $8 "huge" common align 1099511627776 size 1099511627776
symbol $9 "gone" discarded size 3 local
symbol $10 discarded
symbol $11 "init" b1+0x0 side-effects-only

associate b1 b2
associate b3 b5
"#;

#[test]
fn everything_prints_as_it_was() {
    let graph = parsed(EVERYTHING).expect("the text is a graph");
    assert_eq!(graph.to_text().as_deref(), Ok(EVERYTHING));
    let mut text = String::new();
    print(&graph, &mut text).expect("a String takes it");
    assert_eq!(text, EVERYTHING);
}

#[test]
fn ids_may_have_gaps_and_stand_in_any_order() {
    let graph = graph(
        r#"
        symbol $20 "b" b7+0x1 ; a comment
        section s9 "second" rw- lifetime noalloc ordinal 1
          block b7 align 8
            bytes 0102 03;04
        "#,
    );
    assert_eq!(
        text(&graph),
        r#"section s1 "second" rw- lifetime noalloc ordinal 1
  block b1 size 3 align 8
    bytes 01 02 03
symbol $1 "b" b1+0x1
"#
    );

    let graph = self::graph(
        r#"
        section s2 "x" r--
          block b4 size 1 zero
          block b2 size 2 zero
        section s1 "y" r--
          block b3 size 3 zero
        symbol $3 "p" b4+0
        symbol $1 "q" b2+0
        associate b4 b2
        "#,
    );
    assert_eq!(
        text(&graph),
        r#"section s1 "y" r--
  block b2 size 3 align 1 zero
section s2 "x" r--
  block b1 size 2 align 1 zero
  block b3 size 1 align 1 zero
symbol $1 "q" b1+0x0
symbol $2 "p" b3+0x0
associate b3 b1
"#
    );
}

#[test]
fn holes_are_not_seen() {
    let mut graph = graph(
        r#"
        section s1 "a" r--
          block b1 size 1 zero
          block b2 size 8
            bytes 00 00 00 00 00 00 00 00
            edge +0 Pointer64 $3
        section s2 "b" r--
          block b3 size 1 zero
        symbol $1 "x" b1+0
        symbol $2 b3+0
        symbol $3 "z" b2+0
        "#,
    );
    graph.drop_block(BlockId::from_index(0));
    graph.discard_dangling_symbols();
    graph
        .remove_symbol(SymbolId::from_index(1))
        .expect("it exists");
    let first = text(&graph);
    assert_eq!(
        first,
        r#"section s1 "a" r--
  block b1 size 8 align 1
    bytes 00 00 00 00 00 00 00 00
    edge +0x0 Pointer64 $2
section s2 "b" r--
  block b2 size 1 align 1 zero
symbol $1 "x" discarded
symbol $2 "z" b1+0x0
"#
    );
    assert_eq!(text(&self::graph(&first)), first);
}

#[test]
fn unsound_graphs_print_but_do_not_parse() {
    let mut graph = graph(
        r#"
        section s1 "a" r--
          block b1 size 8
            bytes 00 00 00 00 00 00 00 00
            edge +0 Pointer64 $2
          block b2 size 1 zero
        symbol $1 "x" b2+0
        symbol $2 "y" external
        "#,
    );
    graph.drop_block(BlockId::from_index(1));
    graph
        .remove_symbol(SymbolId::from_index(1))
        .expect("it exists");
    graph.edges_mut(BlockId::from_index(0)).expect("it exists")[0].kind = crate::EdgeKind(99);
    let text = graph.to_text().expect("edges are the graph's own");
    assert!(text.contains("edge +0x0 ?99 $?2\n"), "{text}");
    assert!(text.contains("symbol $1 \"x\" b?2+0x0\n"), "{text}");
    assert!(parsed(&text).is_err());
}

#[test]
fn strings_are_for_what_looks_like_them() {
    let block = |prot: &str, bytes: &str| {
        let graph = graph(&format!(
            "section s1 \"a\" {prot}\nblock b1\nbytes {bytes}\n"
        ));
        let text = text(&graph);
        let line = text.lines().nth(2).unwrap_or_default();
        line.trim().to_owned()
    };
    assert_eq!(block("r--", "61 62 63 00"), r#"string "abc\x00""#);
    assert_eq!(block("r-x", "61 62 63 00"), "bytes 61 62 63 00");
    assert_eq!(block("r--", "61 62 00"), "bytes 61 62 00");
    assert_eq!(block("r--", "61 00 00 00"), "bytes 61 00 00 00");
    assert_eq!(block("r--", "00 61 62 63"), "bytes 00 61 62 63");
    assert_eq!(block("r--", "61 62 63 0d"), "bytes 61 62 63 0d");
}

#[test]
fn errors_name_their_place() {
    let section = "section s1 \"a\" r--\n";
    let block = "section s1 \"a\" r--\nblock b1 size 4\nbytes 00 00 00 00\n";
    let cases: &[(&str, &str, &str)] = &[
        ("", "comdats", "2:1: unknown statement `comdats`"),
        ("", "x \"unclosed", "2:1: unknown statement `x`"),
        ("", "graph \"a\" toy", "2:1: there is one `graph` only"),
        ("", "block b1", "2:1: no section above this block"),
        ("", "\"q\"", "2:1: expected a statement, found a string"),
        (
            "",
            "section s0 \"a\" r--",
            "2:9: expected a section (s1, s2, …), found `s0`",
        ),
        (
            "",
            "section s+1 \"a\" r--",
            "2:9: expected a section (s1, s2, …), found `s+1`",
        ),
        (
            "",
            "section s4294967296 \"a\" r--",
            "2:9: expected a section (s1, s2, …), found `s4294967296`",
        ),
        (
            "",
            "section s1 a r--",
            "2:12: expected the section's name in quotes, found `a`",
        ),
        (
            "",
            "section s1 \"a\\q\" r--",
            "2:12: unknown escape in a string",
        ),
        (
            "",
            "section s1 \"a\\xg0\" r--",
            "2:12: \\x is not followed by two hexadecimal digits",
        ),
        ("", "section s1 \"a", "2:12: string is not closed"),
        (
            "",
            "section s1 \"\\x00\" r--",
            "2:12: a name has no zero byte",
        ),
        (
            "",
            "section s1 \"ä\" rx-",
            "2:16: expected a protection such as r-x, found `rx-`",
        ),
        (
            "",
            "section s1 \"a\" r-- merge merge",
            "2:26: `merge` is given twice",
        ),
        (
            "",
            "section s1 \"a\" r-- odd",
            "2:20: unknown property `odd`",
        ),
        (
            "",
            "section s1 \"a\" r-- kind odd",
            "2:25: unknown kind `odd`",
        ),
        (
            "",
            "section s1 \"a\" r-- lifetime standard",
            "2:29: unknown lifetime `standard`",
        ),
        (
            "",
            "section s1 \"a\" r-- entry 4294967296",
            "2:26: the size of an entry 0x100000000 is more than 32 bits",
        ),
        (
            "",
            "section s1 \"a\" r-- comdat c1",
            "2:27: group 1 is not defined",
        ),
        ("", "comdat c1 $1 any", "2:11: symbol 1 is not defined"),
        ("", "comdat c1 $1 odd", "2:14: unknown selection `odd`"),
        (
            section,
            "section s1 \"b\" r--",
            "3:9: section 1 is defined twice",
        ),
        (section, "bytes 00", "3:1: no block above this `bytes`"),
        (
            section,
            "block b1 align 3",
            "3:7: alignment 0x3 with offset 0x0 is not a power of two above its offset",
        ),
        (
            section,
            "block b1 align 4 offset 4",
            "3:7: alignment 0x4 with offset 0x4 is not a power of two above its offset",
        ),
        (
            section,
            "block b1 zero",
            "3:7: a block of zeros needs a size",
        ),
        (
            section,
            "block b1 size 1",
            "3:7: block has 0 bytes of content, but size 1",
        ),
        (
            section,
            "block b1 size 18446744073709551616",
            "3:15: a size `18446744073709551616` is not a number of 64 bits",
        ),
        (
            section,
            "block b1 size +1",
            "3:15: expected a size, found `+1`",
        ),
        (
            section,
            "block b1 size 0x",
            "3:15: expected a size, found `0x`",
        ),
        (
            section,
            "block b1\nbytes 0",
            "4:7: a byte has two hexadecimal digits",
        ),
        (
            section,
            "block b1\nbytes 0z",
            "4:7: expected hexadecimal digits, found `0z`",
        ),
        (
            section,
            "block b1 size 1 zero\nbytes 00",
            "4:1: the block above is `zero`",
        ),
        (
            block,
            "edge 0 Delta32 $1",
            "5:6: expected +OFFSET, found `0`",
        ),
        (
            block,
            "edge +0x100000000 Delta32 $1",
            "5:6: an edge's offset is not more than 32 bits",
        ),
        (block, "edge +0 Delta32 $1", "5:17: symbol 1 is not defined"),
        (
            block,
            "edge +0 Odd $1\nsymbol $1 \"x\" external",
            "5:1: `Odd` is no edge kind of toy",
        ),
        (
            block,
            "edge +0 Invalid $1\nsymbol $1 \"x\" external",
            "5:1: `Invalid` is no edge kind of toy",
        ),
        (
            block,
            "edge +1 Delta32 $1\nsymbol $1 \"x\" external",
            "5:1: 4 bytes that the edge at offset 0x1 writes are not inside block b1",
        ),
        (
            block,
            "edge +0 Delta32 $1 4",
            "5:20: expected + or -, found `4`",
        ),
        (
            block,
            "edge +0 Delta32 $1 + 0x8000000000000000",
            "5:22: an addend is a signed number of 64 bits",
        ),
        (
            block,
            "edge +0 Delta32 $1 - 4 5",
            "5:24: expected the end of the line",
        ),
        (
            section,
            "block b1 size 4 zero\nedge +0 Delta32 $1\nsymbol $1 \"x\" external",
            "4:1: edge at offset 0x0 writes into zero-fill block b1",
        ),
        (
            block,
            "section s2 \"b\" r--\nedge +0 Delta32 $1",
            "6:1: no block above this `edge`",
        ),
        (
            block,
            "symbol $1 \"x\" b1+5",
            "5:8: symbol $1 would end 0x1 bytes behind block b1",
        ),
        (
            block,
            "symbol $1 \"x\" b1+1 size 18446744073709551615",
            "5:8: symbol $1 would end 0xffffffffffffffff bytes behind block b1",
        ),
        (
            block,
            "symbol $1 \"x\" b2+0",
            "5:15: block 2 is not defined",
        ),
        (
            block,
            "symbol $1 \"x\" b1",
            "5:15: expected bN+OFFSET, absolute, external, common or discarded, found `b1`",
        ),
        (
            block,
            "symbol $1 \"x\" external local",
            "5:8: symbol $1: an external symbol cannot be local",
        ),
        (
            block,
            "symbol $1 external",
            "5:8: symbol $1: an external symbol has a name",
        ),
        (
            block,
            "symbol $1 b1+0 weak",
            "5:8: symbol $1: an anonymous symbol cannot be weak",
        ),
        (
            block,
            "symbol $1 b1+0 hidden",
            "5:8: an anonymous symbol is local",
        ),
        (
            block,
            "symbol $1 \"x\" b1+0 hidden local",
            "5:27: a symbol has one scope only",
        ),
        (
            block,
            "symbol $1 \"x\" common size 4",
            "5:22: expected `align`",
        ),
        (
            block,
            "symbol $1 \"x\" common align 3",
            "5:8: alignment 0x3 with offset 0x0 is not a power of two above its offset",
        ),
        (block, "associate b1 b2", "5:14: block 2 is not defined"),
    ];
    for &(before, line, expected) in cases {
        let text = format!("graph \"g\" toy\n{before}{line}\n");
        assert_eq!(parsed(&text).map(drop), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn a_text_begins_with_its_header() {
    let begins = "a text begins with the statement `graph`";
    assert_eq!(parsed("").map(drop), Err(format!("1:1: {begins}")));
    assert_eq!(parsed("\n ; x").map(drop), Err(format!("1:1: {begins}")));
    assert_eq!(parsed("\nsymbol").map(drop), Err(format!("2:1: {begins}")));
    assert_eq!(
        parsed("graph \"\\xff\" toy").map(drop),
        Err("1:7: a graph's name is UTF-8".to_owned())
    );
    assert_eq!(
        parsed("graph \"a\" vax").map(drop),
        Err("1:11: unknown architecture `vax`".to_owned())
    );
}

/// Cutting or garbling a text anywhere makes an error or another graph, never a panic.
#[test]
fn damaged_texts_do_not_panic() {
    for end in 0..EVERYTHING.len() {
        if let Some(text) = EVERYTHING.get(..end) {
            let _ = parsed(text);
        }
    }
    for position in 0..EVERYTHING.len() {
        for with in [b' ', b'"', b'9'] {
            let mut text = EVERYTHING.as_bytes().to_vec();
            text[position] = with;
            if let Ok(text) = String::from_utf8(text)
                && let Ok(graph) = parsed(&text)
            {
                let first = graph.to_text().expect("edges are the graph's own");
                let again = parsed(&first).expect("what was printed parses");
                assert_eq!(again.to_text().as_deref(), Ok(first.as_str()));
            }
        }
    }
}
