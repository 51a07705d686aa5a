//! Every operation: what it does, what it refuses, and that a refusal changes nothing.

use super::GraphError;
use crate::graph::LinkGraph;
use crate::testing::{DELTA32, MARK, POINTER64, b, c, edge, flat, graph, s, sym, text};
use crate::{
    Addressable, Comdat, EdgeKind, Entity, Lifetime, Linkage, NewBlock, NewContent, NewSection,
    NewSymbol, Prot, Scope, SectionFlags, Selection, Stage, SymbolFlags, verify,
};

/// A graph to work on.
fn sample() -> LinkGraph {
    graph(
        r#"
        comdat c1 $1 any
        section s1 ".text" r-x
          block b1 size 16 align 16 offset 4
            bytes 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f
            edge +0xc Delta32 $2
            edge +0x0 Pointer64 $1 + 8
            edge +0x8 Mark $3
        section s2 ".bss" rw-
          block b2 size 32 align 8 zero
        symbol $1 "f" b1+0 size 16 callable
        symbol $2 "g" b1+8 size 4
        symbol $3 "ext" external
        symbol $4 b2+0 size 32
        symbol $5 "end" b1+16
        symbol $6 "buf" common align 8 size 8
        associate b1 b2
        "#,
    )
}

/// Checks that an operation refuses and leaves the graph as it was.
#[track_caller]
fn refuses<T: std::fmt::Debug + PartialEq>(
    expected: GraphError,
    op: impl FnOnce(&mut LinkGraph) -> Result<T, GraphError>,
) {
    let mut graph = sample();
    let before = text(&graph);
    assert_eq!(op(&mut graph), Err(expected));
    assert_eq!(text(&graph), before);
}

/// Checks what an operation makes of the sample.
#[track_caller]
fn makes<T, E: std::fmt::Debug>(
    op: impl FnOnce(&mut LinkGraph) -> Result<T, E>,
    changes: &[(&str, &str)],
) -> LinkGraph {
    let mut graph = sample();
    let mut expected = text(&graph);
    op(&mut graph).expect("the operation is allowed");
    for (old, new) in changes {
        assert!(expected.contains(old), "{old} is not in\n{expected}");
        expected = expected.replacen(old, new, 1);
    }
    assert_eq!(flat(&text(&graph)), flat(&expected));
    assert_eq!(verify(&graph, Stage::Read), []);
    graph
}

fn bad_align(align: u64, offset: u64) -> GraphError {
    GraphError::BadAlignment { align, offset }
}

fn bad_offset(block: usize, offset: u64) -> GraphError {
    let block = b(block);
    GraphError::BadOffset { block, offset }
}

#[test]
fn sections_are_made() {
    let mut graph = sample();
    let mut new = NewSection::new(Prot::RW);
    new.flags = SectionFlags::TLS | SectionFlags::REMOVED;
    let id = graph.add_section(b".tdata\0x", new);
    assert_eq!(id, s(3));
    let section = graph.section(id);
    assert_eq!(section.name, b".tdata");
    assert!(section.flags.contains(SectionFlags::TLS));
    assert!(section.is_alloc());
    assert_eq!(graph.sections().count(), 3);
    assert_eq!(graph.find_section(b".tdata"), Some(id));
    assert_eq!(graph.find_section(b".tdatax"), None);
    assert_eq!(graph.section_input(id), LinkGraph::linker_input());
}

#[test]
fn blocks_are_made() {
    let new = |align, align_offset| NewBlock {
        section: s(2),
        content: NewContent::Owned(vec![1, 2]),
        align,
        align_offset,
    };
    makes(
        |graph| graph.add_block(new(8, 7)),
        &[(
            "align 8 zero",
            "align 8 zero\nblock b3 size 2 align 8 offset 7\nbytes 01 02",
        )],
    );
    refuses(bad_align(0, 0), |graph| graph.add_block(new(0, 0)));
    refuses(bad_align(6, 0), |graph| graph.add_block(new(6, 0)));
    refuses(bad_align(8, 8), |graph| graph.add_block(new(8, 8)));
    refuses(GraphError::NoSection(s(3)), |graph| {
        graph.add_block(NewBlock {
            section: s(3),
            content: NewContent::Zero(u64::MAX),
            align: 1,
            align_offset: 0,
        })
    });
}

#[test]
fn symbols_are_made() {
    let none = SymbolFlags::empty();
    let weak = SymbolFlags::WEAK;
    makes(
        |graph| {
            graph.add_external(b"e", true);
            graph.add_absolute(b"a", u64::MAX, none.with_scope(Scope::Hidden))?;
            graph.add_common(b"c", 1, 1 << 40, weak)?;
            graph.add_anonymous(b(1), 16, 0, SymbolFlags::SECTION)?;
            graph.add_defined(b"d", b(1), 1, 15, SymbolFlags::LIVE)
        },
        &[(
            "common align 8 size 8\n",
            r#"common align 8 size 8
            symbol $7 "e" external weakly-referenced
            symbol $8 "a" absolute 0xffffffffffffffff hidden
            symbol $9 "c" common align 1099511627776 size 1 weak
            symbol $10 b1+0x10 section
            symbol $11 "d" b1+0x1 size 15 live
            "#,
        )],
    );
    let outside = |by| GraphError::SymbolOutsideBlock {
        symbol: sym(7),
        block: b(1),
        by,
    };
    let wrong = |why| GraphError::BadSymbol(sym(7), why);
    refuses(outside(1), |graph| {
        graph.add_defined(b"d", b(1), 16, 1, none)
    });
    refuses(outside(u64::MAX), |graph| {
        graph.add_defined(b"d", b(1), 1, u64::MAX, none)
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.add_defined(b"d", b(3), 0, 0, none)
    });
    refuses(bad_align(3, 0), |graph| graph.add_common(b"c", 1, 3, none));
    refuses(wrong("an anonymous symbol cannot be weak"), |graph| {
        graph.add_anonymous(b(1), 0, 0, weak)
    });
    refuses(wrong("an external symbol has a name"), |graph| {
        graph.add_symbol(NewSymbol {
            name: b"\0x",
            base: Addressable::External,
            size: 0,
            flags: none,
        })
    });
    refuses(wrong("an external symbol cannot be local"), |graph| {
        graph.add_symbol(NewSymbol {
            name: b"x",
            base: Addressable::External,
            size: 0,
            flags: none.with_scope(Scope::Local),
        })
    });
    refuses(wrong("a symbol must point at something"), |graph| {
        graph.add_symbol(NewSymbol {
            name: b"x",
            base: Addressable::Discarded,
            size: 0,
            flags: none,
        })
    });
}

#[test]
fn what_a_symbol_points_at_cannot_be_told_by_flags() {
    let mut graph = sample();
    let flags = SymbolFlags::KIND | SymbolFlags::WIDE | SymbolFlags::CALLABLE;
    let id = graph
        .add_defined(b"d", b(1), 3, 2, flags)
        .expect("it lies inside");
    let symbol = graph.symbol(id);
    let (block, offset) = (b(1), 3);
    assert_eq!(symbol.base, Addressable::Block { block, offset });
    assert_eq!(symbol.size, 2);
}

#[test]
fn groups_and_associations_are_made() {
    let comdat = Comdat {
        signature: sym(2),
        input: LinkGraph::linker_input(),
        selection: Selection::Largest,
    };
    makes(
        |graph| {
            assert_eq!(graph.add_comdat(comdat), c(2));
            graph.associate(b(2), b(1))
        },
        &[
            ("comdat c1 $1 any", "comdat c1 $1 any\ncomdat c2 $2 largest"),
            ("associate b1 b2", "associate b1 b2\nassociate b2 b1"),
        ],
    );
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.associate(b(1), b(3))
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.associate(b(3), b(1))
    });
}

#[test]
fn sections_change() {
    let graph = makes(
        |graph| {
            graph.set_section_prot(s(1), Prot::RW);
            graph.set_section_lifetime(s(1), Lifetime::Finalize);
            graph.set_section_ordinal(s(1), 9);
            Ok::<_, GraphError>(())
        },
        &[(
            r#"".text" r-x"#,
            r#"".text" rw- lifetime finalize ordinal 9"#,
        )],
    );
    assert_eq!(graph.section_ordinal(s(1)), 9);
    assert_eq!(graph.section_ordinal(s(2)), 1);
}

#[test]
fn sections_merge() {
    let graph = makes(
        |graph| graph.merge_sections(s(1), s(2)),
        &[("section s2 \".bss\" rw-\n", "")],
    );
    assert_eq!(graph.block_section(b(2)), s(1));
    let blocks: Vec<_> = graph.section_blocks(s(1)).collect();
    assert_eq!(blocks, [b(1), b(2)]);
    makes(|graph| graph.merge_sections(s(1), s(1)), &[]);
    refuses(GraphError::NoSection(s(3)), |graph| {
        graph.merge_sections(s(1), s(3))
    });
    refuses(GraphError::NoSection(s(3)), |graph| {
        graph.merge_sections(s(3), s(1))
    });
}

#[test]
fn sections_go_when_empty() {
    let graph = makes(
        |graph| {
            graph.transfer_block(b(2), s(1))?;
            graph.remove_section(s(2))
        },
        &[("section s2 \".bss\" rw-\n", "")],
    );
    assert_eq!(graph.sections().collect::<Vec<_>>(), [s(1)]);
    assert_eq!(graph.n_sections(), 2);
    refuses(GraphError::SectionInUse(s(2), b(2)), |graph| {
        graph.remove_section(s(2))
    });
    refuses(GraphError::NoSection(s(9)), |graph| {
        graph.remove_section(s(9))
    });
    refuses(GraphError::NoSection(s(3)), |graph| {
        graph.transfer_block(b(1), s(3))
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.transfer_block(b(3), s(1))
    });
}

#[test]
fn alignment_changes() {
    makes(
        |graph| graph.set_block_align(b(1), 1 << 63, 5),
        &[("align 16 offset 4", "align 9223372036854775808 offset 5")],
    );
    makes(
        |graph| graph.set_block_align(b(1), 4, 0),
        &[("align 16 offset 4", "align 4")],
    );
    refuses(bad_align(4, 4), |graph| graph.set_block_align(b(1), 4, 4));
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.set_block_align(b(3), 4, 0)
    });
}

#[test]
fn content_changes() {
    makes(
        |graph| {
            graph.set_content(b(1), vec![0xff; 17])?;
            graph.set_content(b(2), vec![1; 32])
        },
        &[
            (
                "size 16 align 16 offset 4\n    bytes 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
                "size 17 align 16 offset 4\n    bytes ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff",
            ),
            (
                "align 8 zero",
                "align 8\n    bytes 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01 \
                 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01",
            ),
        ],
    );
    makes(
        |graph| {
            graph.content_mut(b(1)).expect("it has content")[15] = 0xff;
            Ok::<_, GraphError>(())
        },
        &[("0d 0e 0f", "0d 0e ff")],
    );
    assert_eq!(sample().content_mut(b(2)), None);
    assert_eq!(sample().content_mut(b(3)), None);
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.set_content(b(3), Vec::new())
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.fill_content(b(3), Vec::new())
    });

    makes(
        |graph| graph.set_zero_fill_size(b(2), 1 << 40),
        &[("size 32 align 8 zero", "size 1099511627776 align 8 zero")],
    );
    refuses(bad_offset(1, 3), |graph| graph.set_zero_fill_size(b(1), 3));
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.set_zero_fill_size(b(3), 3)
    });
}

#[test]
fn blocks_go_when_no_symbol_is_left() {
    let graph = makes(
        |graph| {
            graph.remove_symbol(sym(4))?;
            graph.remove_block(b(2))
        },
        &[
            ("  block b2 size 32 align 8 zero\n", ""),
            ("symbol $4 b2+0x0 size 32\n", ""),
            ("$5 \"end\"", "$4 \"end\""),
            ("$6 \"buf\"", "$5 \"buf\""),
            ("associate b1 b2\n", ""),
        ],
    );
    assert!(!graph.has_block(b(2)));
    assert_eq!(graph.blocks().collect::<Vec<_>>(), [b(1)]);
    assert_eq!(graph.n_blocks(), 2);
    assert_eq!(graph.n_symbols(), 6);
    refuses(GraphError::BlockInUse(b(1), sym(1)), |graph| {
        graph.remove_block(b(1))
    });
    refuses(GraphError::NoBlock(b(3)), |graph| graph.remove_block(b(3)));

    let mut graph = graph;
    assert_eq!(graph.remove_block(b(2)), Err(GraphError::NoBlock(b(2))));
    let again = graph.set_content(b(2), Vec::new());
    assert_eq!(again, Err(GraphError::NoBlock(b(2))));
}

#[test]
fn dropped_blocks_discard_their_symbols() {
    makes(
        |graph| {
            graph.drop_block(b(2));
            graph.discard_dangling_symbols();
            Ok::<_, GraphError>(())
        },
        &[
            ("  block b2 size 32 align 8 zero\n", ""),
            ("symbol $4 b2+0x0 size 32", "symbol $4 discarded size 32"),
            ("associate b1 b2\n", ""),
        ],
    );
}

#[test]
fn blocks_split_with_edges_symbols_and_alignment() {
    let graph = makes(
        |graph| {
            let pieces = graph.split_block(b(1), &[8, 12])?;
            assert_eq!(pieces, [b(1), b(3), b(4)]);
            Ok::<_, GraphError>(())
        },
        &[
            (
                "size 16 align 16 offset 4\n    bytes 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
                "size 8 align 16 offset 4\n    bytes 00 01 02 03 04 05 06 07",
            ),
            ("    edge +0xc Delta32 $2\n", ""),
            (
                "    edge +0x8 Mark $3\n",
                r"
                block b3 size 4 align 16 offset 12
                  bytes 08 09 0a 0b
                  edge +0x0 Mark $3
                block b4 size 4 align 16
                  bytes 0c 0d 0e 0f
                  edge +0x0 Delta32 $2
                ",
            ),
            ("b1+0x0 size 16", "b1+0x0 size 8"),
            ("b1+0x8 size 4", "b3+0x0 size 4"),
            ("b1+0x10", "b4+0x4"),
        ],
    );
    assert_eq!(graph.block_section(b(4)), s(1));

    makes(
        |graph| graph.split_block(b(1), &[]),
        &[
            // The edges are now in the order of their places.
            ("    edge +0xc Delta32 $2\n", ""),
            (
                "edge +0x8 Mark $3\n",
                "edge +0x8 Mark $3\n    edge +0xc Delta32 $2\n",
            ),
        ],
    );
    makes(
        |graph| graph.split_block(b(2), &[31]),
        &[
            (
                "size 32 align 8 zero",
                "size 31 align 8 zero\n  block b3 size 1 align 8 offset 7 zero",
            ),
            ("b2+0x0 size 32", "b2+0x0 size 31"),
        ],
    );
}

#[test]
fn blocks_do_not_split_anywhere() {
    for offsets in [&[0][..], &[16], &[17], &[8, 8]] {
        let bad = offsets[offsets.len() - 1];
        refuses(bad_offset(1, bad), |graph| graph.split_block(b(1), offsets));
    }
    // The last of these cuts what the edge at 0xc writes, the first what that at 0 writes.
    let cut = |offset, place| GraphError::EdgeCut {
        block: b(1),
        offset,
        place,
    };
    refuses(cut(4, 0), |graph| graph.split_block(b(1), &[4, 8]));
    refuses(cut(14, 12), |graph| graph.split_block(b(1), &[8, 14]));
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.split_block(b(3), &[])
    });
}

#[test]
fn pieces_split_again() {
    let mut graph = sample();
    let whole = graph.content(b(1)).bytes().to_vec();
    let pieces = graph.split_block(b(1), &[8]).expect("nothing is cut");
    let more = graph
        .split_block(pieces[1], &[1, 2])
        .expect("nothing is cut");
    let mut bytes = Vec::new();
    for piece in std::iter::once(&b(1)).chain(&more) {
        bytes.extend_from_slice(graph.content(*piece).bytes());
    }
    assert_eq!(bytes, whole);
    assert_eq!(verify(&graph, Stage::Read), []);
}

#[test]
fn edges_change() {
    makes(
        |graph| graph.add_edge(b(2), edge(32, MARK, sym(1), -300)),
        &[(
            "align 8 zero",
            "align 8 zero\n    edge +0x20 Mark $1 - 0x12c",
        )],
    );
    makes(
        |graph| graph.add_edge(b(2), edge(0, EdgeKind::KEEP_ALIVE, sym(6), 0)),
        &[("align 8 zero", "align 8 zero\n    edge +0x0 KeepAlive $6")],
    );
    makes(
        |graph| graph.set_edges(b(1), vec![edge(8, POINTER64, sym(3), 1)]),
        &[
            ("    edge +0xc Delta32 $2\n", ""),
            ("    edge +0x0 Pointer64 $1 + 8\n", ""),
            ("edge +0x8 Mark $3", "edge +0x8 Pointer64 $3 + 1"),
        ],
    );
    makes(
        |graph| {
            graph.edges_mut(b(1))?[0].addend = 1;
            graph.retain_edges(b(1), |edge| edge.kind != MARK)
        },
        &[
            ("Delta32 $2", "Delta32 $2 + 1"),
            ("    edge +0x8 Mark $3\n", ""),
        ],
    );
    let mut graph = sample();
    assert_eq!(graph.n_edges(b(1)), 3);
    assert!(graph.has_no_edges(b(2)));
    graph.set_edges(b(1), Vec::new()).expect("it exists");
    assert!(graph.has_no_edges(b(1)));
    assert_eq!(graph.n_edges(b(1)), 0);
}

#[test]
fn bad_edges_are_refused() {
    let add = |edge| move |graph: &mut LinkGraph| graph.add_edge(b(1), edge);
    refuses(
        GraphError::NoSymbol(sym(7)),
        add(edge(0, DELTA32, sym(7), 0)),
    );
    let outside = |offset, width| GraphError::EdgeOutsideBlock {
        block: b(1),
        offset,
        width,
    };
    refuses(outside(13, 4), add(edge(13, DELTA32, sym(1), 0)));
    refuses(outside(17, 0), add(edge(17, MARK, sym(1), 0)));
    let last = u32::MAX;
    refuses(outside(last, 8), add(edge(last, POINTER64, sym(1), 0)));
    for kind in [0, 6, 255] {
        let refusal = GraphError::BadEdgeKind {
            block: b(1),
            offset: 1,
            kind,
        };
        refuses(refusal, add(edge(1, EdgeKind(kind), sym(1), 0)));
    }
    let zero_fill = GraphError::EdgeInZeroFill {
        block: b(2),
        offset: 0,
    };
    refuses(zero_fill, |graph| {
        graph.add_edge(b(2), edge(0, DELTA32, sym(1), 0))
    });
    refuses(GraphError::NoSymbol(sym(9)), |graph| {
        graph.set_edges(
            b(1),
            vec![edge(0, DELTA32, sym(1), 0), edge(0, DELTA32, sym(9), 0)],
        )
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.set_edges(b(3), Vec::new())
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.retain_edges(b(3), |_| true)
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.edges_mut(b(3)).map(drop)
    });
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.add_edge(b(3), edge(0, MARK, sym(1), 0))
    });
}

#[test]
fn symbols_change_what_they_point_at() {
    makes(
        |graph| graph.make_external(sym(1)),
        &[("\"f\" b1+0x0 size 16 callable", "\"f\" external callable")],
    );
    makes(
        |graph| {
            graph.set_symbol_linkage(sym(1), Linkage::Weak)?;
            graph.set_symbol_scope(sym(1), Scope::Local)?;
            graph.set_symbol_flag(sym(1), SymbolFlags::LIVE, true);
            graph.make_external(sym(1))
        },
        &[("\"f\" b1+0x0 size 16 callable", "\"f\" external callable")],
    );
    makes(
        |graph| graph.make_absolute(sym(3), 1 << 40),
        &[("\"ext\" external", "\"ext\" absolute 0x10000000000")],
    );
    makes(
        |graph| graph.make_defined(sym(3), b(2), 30, 2),
        &[("\"ext\" external", "\"ext\" b2+0x1e size 2")],
    );
    makes(
        |graph| graph.transfer_symbol(sym(1), b(2), 30, None),
        &[("b1+0x0 size 16", "b2+0x1e size 2")],
    );
    makes(
        |graph| graph.transfer_symbol(sym(1), b(2), 0, Some(1)),
        &[("b1+0x0 size 16", "b2+0x0 size 1")],
    );
    makes(
        |graph| {
            graph.set_common(sym(6), 1 << 40, 1 << 33);
            // Only common symbols, only powers of two.
            graph.set_common(sym(1), 1, 1);
            graph.set_common(sym(6), 1, 3);
            Ok::<_, GraphError>(())
        },
        &[(
            "common align 8 size 8",
            "common align 8589934592 size 1099511627776",
        )],
    );
    let outside = GraphError::SymbolOutsideBlock {
        symbol: sym(3),
        block: b(2),
        by: 1,
    };
    refuses(outside, |graph| graph.make_defined(sym(3), b(2), 30, 3));
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.make_defined(sym(3), b(3), 0, 0)
    });
    refuses(GraphError::WrongSymbol(sym(4), "named"), |graph| {
        graph.make_external(sym(4))
    });
    refuses(
        GraphError::WrongSymbol(sym(3), "defined in a block"),
        |graph| graph.transfer_symbol(sym(3), b(1), 0, None),
    );
    refuses(GraphError::NoBlock(b(3)), |graph| {
        graph.transfer_symbol(sym(1), b(3), 0, None)
    });
    let outside = GraphError::SymbolOutsideBlock {
        symbol: sym(1),
        block: b(1),
        by: 1,
    };
    refuses(outside, |graph| {
        graph.transfer_symbol(sym(1), b(1), 17, None)
    });
}

#[test]
fn symbols_change_their_properties() {
    makes(
        |graph| graph.set_symbol_name(sym(1), b"new"),
        &[("\"f\"", "\"new\"")],
    );
    makes(|graph| graph.set_symbol_name(sym(4), b""), &[]);
    makes(
        |graph| {
            graph.set_symbol_flag(sym(1), SymbolFlags::CALLABLE, false);
            graph.set_symbol_flag(sym(1), SymbolFlags::LIVE | SymbolFlags::OBJECT, true);
            // Neither of these is a single bit that may be set.
            graph.set_symbol_flag(sym(1), SymbolFlags::KIND | SymbolFlags::WIDE, true);
            Ok::<_, GraphError>(())
        },
        &[("size 16 callable", "size 16 object live")],
    );
    makes(
        |graph| graph.set_symbol_scope(sym(1), Scope::SideEffectsOnly),
        &[("size 16 callable", "size 16 side-effects-only callable")],
    );
    makes(
        |graph| {
            graph.set_symbol_linkage(sym(1), Linkage::Weak)?;
            graph.set_symbol_linkage(sym(2), Linkage::Weak)?;
            graph.set_symbol_linkage(sym(2), Linkage::Strong)
        },
        &[("size 16 callable", "size 16 weak callable")],
    );
    makes(
        |graph| graph.set_symbol_size(sym(2), 8),
        &[("b1+0x8 size 4", "b1+0x8 size 8")],
    );
    let bad = |symbol, why| GraphError::BadSymbol(sym(symbol), why);
    refuses(bad(1, "an anonymous symbol is local"), |graph| {
        graph.set_symbol_name(sym(1), b"")
    });
    refuses(bad(3, "an external symbol cannot be local"), |graph| {
        graph.set_symbol_scope(sym(3), Scope::Local)
    });
    refuses(bad(4, "an anonymous symbol is local"), |graph| {
        graph.set_symbol_scope(sym(4), Scope::Hidden)
    });
    refuses(bad(4, "an anonymous symbol cannot be weak"), |graph| {
        graph.set_symbol_linkage(sym(4), Linkage::Weak)
    });
    let outside = GraphError::SymbolOutsideBlock {
        symbol: sym(2),
        block: b(1),
        by: 1,
    };
    refuses(outside, |graph| graph.set_symbol_size(sym(2), 9));
}

#[test]
fn symbols_that_do_not_exist_are_refused() {
    type Op = fn(&mut LinkGraph) -> Result<(), GraphError>;
    let ops: [Op; 9] = [
        |graph| graph.make_external(sym(7)),
        |graph| graph.make_absolute(sym(7), 0),
        |graph| graph.make_defined(sym(7), b(1), 0, 0),
        |graph| graph.transfer_symbol(sym(7), b(1), 0, None),
        |graph| graph.remove_symbol(sym(7)),
        |graph| graph.set_symbol_name(sym(7), b"x"),
        |graph| graph.set_symbol_scope(sym(7), Scope::Hidden),
        |graph| graph.set_symbol_linkage(sym(7), Linkage::Weak),
        |graph| graph.set_symbol_size(sym(7), 0),
    ];
    for op in ops {
        refuses(GraphError::NoSymbol(sym(7)), op);
        // Nor do removed ones exist.
        let mut graph = sample();
        graph.add_external(b"x", false);
        graph.remove_symbol(sym(7)).expect("it exists");
        assert_eq!(op(&mut graph), Err(GraphError::NoSymbol(sym(7))));
    }
}

#[test]
fn wide_symbols_become_narrow_again() {
    let mut graph = graph(
        r#"
        section s1 ".bss" rw-
          block b1 size 0x1000000000 zero
        symbol $1 "x" b1+0xf00000000 size 0x100000000
        "#,
    );
    assert_eq!(graph.symbol_size(sym(1)), 1 << 32);
    let (block, offset) = (b(1), 0xf_0000_0000);
    assert_eq!(
        graph.addressable(sym(1)),
        Addressable::Block { block, offset }
    );
    graph
        .make_defined(sym(1), b(1), 1, 2)
        .expect("it lies inside");
    assert_eq!(graph.symbol_size(sym(1)), 2);
    let offset = 1;
    assert_eq!(
        graph.addressable(sym(1)),
        Addressable::Block { block, offset }
    );
    let pieces = graph.split_block(b(1), &[1, 1 << 35]).expect("zero-fill");
    assert_eq!(graph.block_size(pieces[1]), (1 << 35) - 1);
    assert_eq!(graph.symbol_block(sym(1)), Some(pieces[1]));
}

#[test]
fn changes_are_noted() {
    let mut graph = sample();
    graph.begin_step("first", None);
    graph.content_mut(b(1)).expect("it has content")[0] = 1;
    graph.begin_step("second", None);
    graph.content_mut(b(1)).expect("it has content")[0] = 2;
    let by = |graph: &LinkGraph, entity| {
        let step = graph.origin(entity).changed_by;
        step.map(|step| step.name)
    };
    assert_eq!(by(&graph, Entity::Block(b(1))), Some("second"));
    assert_eq!(by(&graph, Entity::Block(b(2))), None);
}
