//! Every kind with a value worked out by hand, then every kind at both ends of its range, as the
//! table has it: so table and loop agree.

use super::apply;
use crate::edge_table::{EdgeInfo, Expr, Field};
use crate::fixup::{FixupContext, FixupErrorKind, TlsBlock};
use crate::x86_64::edges::EDGES;
use crate::x86_64::kind;
use clinch_graph::{Edge, EdgeKind, Id, SymbolId};

const PLACE: u64 = 0x40_1000;
const OFFSET: u32 = 8;
const GOT: u64 = 0x40_5000;
const SIZE: u64 = 0x40;
const TLS: TlsBlock = TlsBlock {
    image: 0x40_8000,
    tp_offset: Some(-0x100),
};

/// Applies one edge at offset 8 of a block of 24 bytes 0xee at [`PLACE`].
fn apply_one(
    tls: Option<TlsBlock>,
    size: u64,
    kind: EdgeKind,
    target: u64,
    addend: i64,
) -> Result<[u8; 24], FixupErrorKind> {
    let edge = Edge {
        offset: OFFSET,
        kind,
        target: SymbolId::from_index(1),
        addend,
    };
    let addresses = [0xdead_0000, target];
    let size_of = |symbol: SymbolId| if symbol.index() == 1 { size } else { 0 };
    let context = FixupContext {
        addresses: &addresses,
        size_of: &size_of,
        got: GOT,
        tls,
    };
    let mut bytes = [0xee; 24];
    apply(&context, PLACE, &[edge], &mut bytes).map_err(|error| {
        assert_eq!(error.edge, edge);
        error.kind
    })?;
    Ok(bytes)
}

/// Checks the `N` bytes written, and that nothing is written around them.
#[track_caller]
fn writes<const N: usize>(kind: EdgeKind, target: u64, addend: i64, expected: [u8; N]) {
    let bytes = apply_one(Some(TLS), SIZE, kind, target, addend).unwrap();
    assert_eq!(bytes[8..8 + N], expected);
    assert!(
        bytes[..8]
            .iter()
            .chain(&bytes[8 + N..])
            .all(|&byte| byte == 0xee)
    );
}

#[test]
fn addresses() {
    writes(
        kind::POINTER64,
        0xffff_8000_1234_5678,
        0x10,
        0xffff_8000_1234_5688_u64.to_le_bytes(),
    );
    writes(kind::POINTER64, 4, -8, (-4_i64).to_le_bytes());
    writes(
        kind::POINTER32,
        0x9234_5678,
        1,
        0x9234_5679_u32.to_le_bytes(),
    );
    writes(
        kind::POINTER32_SIGNED,
        0xffff_ffff_9234_5678,
        1,
        0x9234_5679_u32.to_le_bytes(),
    );
    writes(kind::POINTER16, 0x1200, 0x34, [0x34, 0x12]);
    writes(kind::POINTER8, 0, -1, [0xff]);
}

#[test]
fn distances() {
    // P is 0x401008.
    writes(kind::DELTA64, 0x40_1000, 4, (-4_i64).to_le_bytes());
    writes(kind::DELTA32, 0x40_2000, -4, 0xff4_i32.to_le_bytes());
    writes(kind::DELTA16, 0x40_1000, 0, (-8_i16).to_le_bytes());
    writes(kind::DELTA8, 0x40_1018, 0, [0x10]);
    writes(kind::NEG_DELTA64, 0x40_1000, 4, 12_i64.to_le_bytes());
    writes(kind::NEG_DELTA32, 0x40_1018, 1, (-15_i32).to_le_bytes());
    writes(kind::DELTA64_FROM_GOT, 0x40_4ff0, 8, (-8_i64).to_le_bytes());
    writes(kind::DELTA32_FROM_GOT, 0x40_5018, 0, 0x18_i32.to_le_bytes());
}

#[test]
fn sizes() {
    writes(kind::SIZE64, 0x1234, 2, 0x42_u64.to_le_bytes());
    writes(kind::SIZE32, 0x1234, -0x40, 0_u32.to_le_bytes());
}

#[test]
fn operands_count_from_the_end_of_the_field() {
    for kind in [
        kind::PCREL32,
        kind::BRANCH_PCREL32,
        kind::BRANCH_PCREL32_TO_PTR_JUMP_STUB,
        kind::BRANCH_PCREL32_TO_PTR_JUMP_STUB_BYPASSABLE,
        kind::PCREL32_GOT_LOAD_RELAXABLE,
        kind::PCREL32_GOT_LOAD_REX_RELAXABLE,
        kind::PCREL32_GOT_LOAD_REX2_RELAXABLE,
        kind::PCREL32_TLVP_LOAD_REX_RELAXABLE,
    ] {
        writes(kind, 0x40_100c, 0, [0; 4]);
        writes(kind, 0x40_100c, -1, [0xff; 4]);
    }
}

#[test]
fn thread_local_offsets() {
    // 0x20 bytes into a block that begins 0x100 bytes below the thread pointer.
    writes(kind::TPOFF32, 0x40_8020, 0, (-0xe0_i32).to_le_bytes());
    writes(kind::TPOFF64, 0x40_8020, 8, (-0xd8_i64).to_le_bytes());
    writes(kind::DTPOFF32, 0x40_8020, 0, 0x20_i32.to_le_bytes());
    writes(kind::DTPOFF64, 0x40_8020, 8, 0x28_i64.to_le_bytes());
    writes(kind::DTPMOD64, 0x40_8020, 0, []);
    writes(kind::TLS_DESC_CALL, 0x40_8020, 0, []);
}

#[test]
fn thread_local_offsets_need_a_block() {
    let dynamic = Some(TlsBlock {
        tp_offset: None,
        ..TLS
    });
    let fails = |tls, kind| apply_one(tls, SIZE, kind, 0x40_8020, 0).unwrap_err();
    for kind in [kind::TPOFF32, kind::TPOFF64] {
        assert_eq!(fails(None, kind), FixupErrorKind::NoThreadOffset);
        assert_eq!(fails(dynamic, kind), FixupErrorKind::NoThreadOffset);
    }
    for kind in [kind::DTPOFF32, kind::DTPOFF64] {
        assert_eq!(fails(None, kind), FixupErrorKind::NoThreadBlock);
        assert!(apply_one(dynamic, SIZE, kind, 0x40_8020, 0).is_ok());
    }
}

fn numbered() -> impl Iterator<Item = (EdgeKind, &'static EdgeInfo)> {
    (EdgeKind::FIRST_RELOCATION..).map(EdgeKind).zip(EDGES)
}

/// The target's address (or its size) for which the kind's value is `value`.
fn target_for(kind: EdgeKind, info: &EdgeInfo, value: u64) -> u64 {
    let p = PLACE + u64::from(OFFSET);
    match info.expr {
        Expr::Absolute | Expr::Size => value,
        Expr::Relative => {
            // The -4 of operands is not in the table, so it is spelled out here.
            let is_delta = info.name.starts_with("Delta");
            assert_eq!(is_delta, kind <= kind::DELTA8);
            value
                .wrapping_add(p)
                .wrapping_add(if is_delta { 0 } else { 4 })
        }
        Expr::NegRelative => p.wrapping_sub(value),
        Expr::FromGot => value.wrapping_add(GOT),
        Expr::TpRelative => value.wrapping_add(TLS.image).wrapping_add(0x100),
        Expr::DtpRelative => value.wrapping_add(TLS.image),
        Expr::None => unreachable!("writes nothing"),
    }
}

#[test]
fn both_ends_of_every_range() {
    let mut n_checked = 0;
    for (kind, info) in numbered() {
        if info.request.is_some() || info.expr == Expr::None {
            continue;
        }
        n_checked += 1;
        let Field { width, min, max } = info.field;
        let width = usize::from(width);
        let try_value = |value: i128| {
            let target = target_for(kind, info, value as u64);
            apply_one(Some(TLS), target, kind, target, 0)
        };
        for value in [min, max] {
            let bytes = try_value(value).unwrap();
            assert_eq!(
                bytes[8..8 + width],
                value.to_le_bytes()[..width],
                "{}",
                info.name
            );
            assert_eq!(bytes[8 + width], 0xee, "{}", info.name);
        }
        if width == 8 {
            continue;
        }
        for value in [min - 1, max + 1] {
            // An unsigned field sees a negative value as a large one.
            let value_seen = if min == 0 {
                i128::from(value as u64)
            } else {
                value
            };
            let error = FixupErrorKind::OutOfRange {
                value: value_seen,
                min,
                max,
            };
            assert_eq!(try_value(value).unwrap_err(), error, "{}", info.name);
        }
    }
    assert_eq!(n_checked, 27);
}

#[test]
fn an_address_far_out_is_no_small_value() {
    for target in [1 << 63, u64::MAX / 2, 1 << 32] {
        for kind in [
            kind::POINTER32,
            kind::POINTER32_SIGNED,
            kind::POINTER16,
            kind::POINTER8,
        ] {
            assert!(matches!(
                apply_one(None, 0, kind, target, 0),
                Err(FixupErrorKind::OutOfRange { .. })
            ));
        }
    }
}

#[test]
fn requests_are_unresolved_and_marks_write_nothing() {
    for (kind, info) in numbered() {
        let result = apply_one(Some(TLS), SIZE, kind, PLACE, 0);
        if info.request.is_some() {
            assert_eq!(result, Err(FixupErrorKind::Unresolved), "{}", info.name);
        } else if info.expr == Expr::None {
            assert_eq!(result, Ok([0xee; 24]), "{}", info.name);
        }
    }
    let keep_alive = apply_one(None, SIZE, EdgeKind::KEEP_ALIVE, PLACE, 0);
    assert_eq!(keep_alive, Ok([0xee; 24]));
    for kind in [EdgeKind::INVALID, EdgeKind(255)] {
        assert_eq!(
            apply_one(None, SIZE, kind, PLACE, 0),
            Err(FixupErrorKind::Unresolved)
        );
    }
}

#[test]
fn the_field_must_lie_in_the_block() {
    let addresses = [0];
    let context = FixupContext {
        addresses: &addresses,
        size_of: &|_| 0,
        got: 0,
        tls: Some(TLS),
    };
    for (kind, info) in numbered() {
        let width = u32::from(info.field.width);
        if info.request.is_some() || width == 0 {
            continue;
        }
        for (offset, fits) in [(16 - width, true), (17 - width, false), (u32::MAX, false)] {
            let target = SymbolId::from_index(0);
            let edge = Edge {
                offset,
                kind,
                target,
                addend: 0,
            };
            let place = 0_u64.wrapping_sub(u64::from(offset));
            // Thread-local offsets of address 0 are small enough to fit, too.
            let result = apply(&context, place, &[edge], &mut [0; 16]);
            match result {
                Ok(()) => assert!(fits, "{}", info.name),
                Err(error) => {
                    assert!(!fits, "{}", info.name);
                    assert_eq!(error.kind, FixupErrorKind::OutsideBlock, "{}", info.name);
                }
            }
        }
    }
}

#[test]
fn edges_before_the_first_error_are_written() {
    let target = SymbolId::from_index(0);
    let edge = |offset, kind| Edge {
        offset,
        kind,
        target,
        addend: 0,
    };
    let edges = [
        edge(0, kind::POINTER8),
        edge(1, EdgeKind::INVALID),
        edge(2, kind::POINTER8),
    ];
    let context = FixupContext {
        addresses: &[7],
        size_of: &|_| 0,
        got: 0,
        tls: None,
    };
    let mut bytes = [0; 3];
    let error = apply(&context, PLACE, &edges, &mut bytes).unwrap_err();
    assert_eq!((error.edge, bytes), (edges[1], [7, 0, 0]));
}
