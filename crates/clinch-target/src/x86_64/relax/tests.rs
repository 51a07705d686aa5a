//! Byte-exact rewrites; both sides were assembled and disassembled with LLVM 22's `llvm-mc` and
//! `llvm-objdump`.

use super::{got_to_direct, tls_to_local_exec};
use crate::arch::{ElfRelocation, TlsRewrite};
use crate::x86_64::{ARCH, kind, relocation as r};
use clinch_graph::{Edge, EdgeKind, Id, SymbolId};

/// The edge of a relocation record with the addend -4, or 0 for a 64-bit field or a mark.
fn edge(offset: u32, number: u32, n: usize) -> Edge {
    let is_wide = matches!(number, r::R_X86_64_PLTOFF64 | r::R_X86_64_TLSDESC_CALL);
    let addend = if is_wide { 0 } else { -4 };
    let ElfRelocation::Edge { kind, bias } = ARCH.elf.unwrap().relocation(number) else {
        panic!("relocation {number} makes no edge");
    };
    Edge {
        offset,
        kind,
        target: SymbolId::from_index(n),
        addend: addend + bias,
    }
}

fn expected(offset: u32, kind: EdgeKind) -> Edge {
    Edge {
        offset,
        kind,
        target: SymbolId::from_index(0),
        addend: 0,
    }
}

/// Rewrites the instruction, behind three bytes that must stay, both as a request and granted.
#[track_caller]
fn got<const N: usize>(
    number: u32,
    at: u32,
    from: [u8; N],
    to: [u8; N],
    edge_at: u32,
    k: EdgeKind,
) {
    let request = edge(at + 3, number, 0);
    let granted = ARCH.edge(request.kind).unwrap().request.unwrap().becomes;
    for kind in [request.kind, granted] {
        let mut bytes = [&[0xd5, 0x66, 0x48][..], &from, &[0x5a]].concat();
        let edge = got_to_direct(&mut bytes, &Edge { kind, ..request });
        assert_eq!(edge, Some(expected(edge_at + 3, k)));
        assert_eq!(bytes, [&[0xd5, 0x66, 0x48][..], &to, &[0x5a]].concat());
    }
}

/// The instruction stays.
#[track_caller]
fn got_stays(edge: Edge, bytes: &[u8]) {
    let mut changed = bytes.to_vec();
    assert_eq!(got_to_direct(&mut changed, &edge), None);
    assert_eq!(changed, bytes);
}

#[test]
fn load_becomes_lea() {
    // mov x@GOTPCREL(%rip), %eax
    let (from, to) = ([0x8b, 0x05, 0, 0, 0, 0], [0x8d, 0x05, 0, 0, 0, 0]);
    got(r::R_X86_64_GOTPCRELX, 2, from, to, 2, kind::PCREL32);
    // mov x@GOTPCREL(%rip), %r9
    let (from, to) = (
        [0x4c, 0x8b, 0x0d, 0, 0, 0, 0],
        [0x4c, 0x8d, 0x0d, 0, 0, 0, 0],
    );
    got(r::R_X86_64_REX_GOTPCRELX, 3, from, to, 3, kind::PCREL32);
    // mov x@GOTPCREL(%rip), %r19
    let (from, to) = (
        [0xd5, 0x48, 0x8b, 0x1d, 0, 0, 0, 0],
        [0xd5, 0x48, 0x8d, 0x1d, 0, 0, 0, 0],
    );
    got(r::R_X86_64_CODE_4_GOTPCRELX, 4, from, to, 4, kind::PCREL32);
}

#[test]
fn call_and_jump_become_direct() {
    // The three bytes before are no `66 48` here, see `the_call_of_a_tls_access_keeps_its_rex`.
    let mut bytes = [0x90, 0xff, 0x15, 0, 0, 0, 0];
    let call = got_to_direct(&mut bytes, &edge(3, r::R_X86_64_GOTPCRELX, 0));
    assert_eq!(call, Some(expected(3, kind::BRANCH_PCREL32)));
    assert_eq!(bytes, [0x90, 0x67, 0xe8, 0, 0, 0, 0]);

    let (from, to) = ([0xff, 0x25, 1, 2, 3, 4], [0xe9, 0, 0, 0, 0, 0x90]);
    got(r::R_X86_64_GOTPCRELX, 2, from, to, 1, kind::BRANCH_PCREL32);
    let (from, to) = (
        [0x48, 0xff, 0x15, 0, 0, 0, 0],
        [0x67, 0x48, 0xe8, 0, 0, 0, 0],
    );
    got(
        r::R_X86_64_REX_GOTPCRELX,
        3,
        from,
        to,
        3,
        kind::BRANCH_PCREL32,
    );
    let (from, to) = (
        [0x48, 0xff, 0x25, 0, 0, 0, 0],
        [0x48, 0xe9, 0, 0, 0, 0, 0x90],
    );
    got(
        r::R_X86_64_REX_GOTPCRELX,
        3,
        from,
        to,
        2,
        kind::BRANCH_PCREL32,
    );
}

#[test]
fn load_of_a_thread_local_descriptor_becomes_lea() {
    let request = kind::REQUEST_TLVP_AND_TRANSFORM_TO_PCREL32_TLVP_LOAD_REX_RELAXABLE;
    for kind in [request, kind::PCREL32_TLVP_LOAD_REX_RELAXABLE] {
        let mut bytes = [0x48, 0x8b, 0x3d, 0, 0, 0, 0];
        let lea = got_to_direct(&mut bytes, &expected(3, kind));
        assert_eq!(lea, Some(expected(3, kind::PCREL32)));
        assert_eq!(bytes, [0x48, 0x8d, 0x3d, 0, 0, 0, 0]);
    }
}

#[test]
fn got_uses_that_stay() {
    let plain = |at| edge(at, r::R_X86_64_GOTPCRELX, 0);
    let rex = |at| edge(at, r::R_X86_64_REX_GOTPCRELX, 0);
    let rex2 = |at| edge(at, r::R_X86_64_CODE_4_GOTPCRELX, 0);
    // test %eax, x(%rip); add x(%rip), %rax; add x(%rip), %r19, %rax: immediate forms only.
    got_stays(plain(2), &[0x85, 0x05, 0, 0, 0, 0]);
    got_stays(rex(3), &[0x48, 0x03, 0x05, 0, 0, 0, 0]);
    got_stays(
        edge(6, r::R_X86_64_CODE_6_GOTPCRELX, 0),
        &[0x62, 0xe4, 0xfc, 0x18, 0x03, 0x1d, 0, 0, 0, 0],
    );
    // No prefix where one must be, a memory operand with a base, opcode map 1.
    got_stays(rex(3), &[0x90, 0x8b, 0x05, 0, 0, 0, 0]);
    got_stays(rex(3), &[0x48, 0x8b, 0x80, 0, 0, 0, 0]);
    got_stays(rex2(4), &[0x90, 0x48, 0x8b, 0x05, 0, 0, 0, 0]);
    got_stays(rex2(4), &[0xd5, 0xc8, 0x8b, 0x05, 0, 0, 0, 0]);
    // Cut off at either end.
    got_stays(plain(1), &[0x8b, 0x05, 0, 0, 0, 0]);
    got_stays(plain(2), &[0x8b, 0x05, 0, 0, 0]);
    got_stays(plain(2), &[0xff, 0x25, 0, 0, 0]);
    got_stays(rex(2), &[0x8b, 0x05, 0, 0, 0, 0]);
    got_stays(rex2(3), &[0x48, 0x8b, 0x05, 0, 0, 0, 0]);
    got_stays(plain(u32::MAX), &[0x8b, 0x05, 0, 0, 0, 0]);
    // Another addend reads beside the entry; no other kind may be rewritten.
    let load = [0x48, 0x8b, 0x05, 0, 0, 0, 0];
    got_stays(
        Edge {
            addend: 8,
            ..rex(3)
        },
        &load,
    );
    got_stays(edge(3, r::R_X86_64_GOTPCREL, 0), &load);
    got_stays(expected(3, kind::PCREL32), &load);
    got_stays(expected(3, EdgeKind::KEEP_ALIVE), &load);
}

#[test]
fn the_call_of_a_tls_access_keeps_its_rex() {
    got_stays(
        edge(4, r::R_X86_64_GOTPCRELX, 0),
        &[0x66, 0x48, 0xff, 0x15, 0, 0, 0, 0],
    );
}

const MOV_FS0: [u8; 9] = [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];
const LEA: [u8; 7] = [0x48, 0x8d, 0x80, 0, 0, 0, 0];

fn rewritten(edge: Option<Edge>, drop_next: bool) -> Option<TlsRewrite> {
    Some(TlsRewrite { edge, drop_next })
}

/// Rewrites the first edge's access, between bytes that must stay.
#[track_caller]
fn tls(edges: &[Edge], from: &[u8], to: &[u8], answer: Option<TlsRewrite>) {
    let shift = |edge: Edge| Edge {
        offset: edge.offset + 3,
        ..edge
    };
    let edges: Vec<Edge> = edges.iter().copied().map(shift).collect();
    let answer = answer.map(|a| TlsRewrite {
        edge: a.edge.map(shift),
        ..a
    });
    let mut bytes = [&[0x62, 0xd5, 0x66][..], from, &[0x5a]].concat();
    assert_eq!(tls_to_local_exec(&mut bytes, &edges, 0), answer);
    assert_eq!(bytes, [&[0x62, 0xd5, 0x66][..], to, &[0x5a]].concat());
}

/// The access stays.
#[track_caller]
fn tls_stays(edges: &[Edge], bytes: &[u8]) {
    let mut changed = bytes.to_vec();
    assert_eq!(tls_to_local_exec(&mut changed, edges, 0), None);
    assert_eq!(changed, bytes);
}

const LEA_GD: [u8; 8] = [0x66, 0x48, 0x8d, 0x3d, 0, 0, 0, 0];
const LEA_RDI: [u8; 7] = [0x48, 0x8d, 0x3d, 0, 0, 0, 0];

#[test]
fn general_dynamic() {
    let access = edge(4, r::R_X86_64_TLSGD, 0);
    let calls = [
        ([0x66, 0x66, 0x48, 0xe8], r::R_X86_64_PLT32),
        ([0x66, 0x48, 0xff, 0x15], r::R_X86_64_GOTPCRELX),
        ([0x66, 0x67, 0x48, 0xe8], r::R_X86_64_PLT32),
        ([0x66, 0x48, 0x67, 0xe8], r::R_X86_64_PC32),
    ];
    for (call, number) in calls {
        let from = [&LEA_GD[..], &call, &[0; 4]].concat();
        let to = [&MOV_FS0[..], &LEA].concat();
        let answer = rewritten(Some(expected(12, kind::TPOFF32)), true);
        tls(&[access, edge(12, number, 1)], &from, &to, answer);
    }
}

/// The large code model's call; `add` is `%rbx` or `%r15` to `%rax`.
fn large(add: [u8; 3]) -> Vec<u8> {
    let movabs = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0];
    [&LEA_RDI[..], &movabs, &add, &[0xff, 0xd0]].concat()
}

#[test]
fn dynamic_accesses_of_the_large_code_model() {
    let next = edge(9, r::R_X86_64_PLTOFF64, 1);
    for add in [[0x48, 0x01, 0xd8], [0x4c, 0x01, 0xf8]] {
        let to = [&MOV_FS0[..], &LEA, &[0x66, 0x0f, 0x1f, 0x44, 0, 0]].concat();
        let answer = rewritten(Some(expected(12, kind::TPOFF32)), true);
        tls(
            &[edge(3, r::R_X86_64_TLSGD, 0), next],
            &large(add),
            &to,
            answer,
        );

        let nop = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        let to = [&[0x66; 3][..], &MOV_FS0, &nop].concat();
        tls(
            &[edge(3, r::R_X86_64_TLSLD, 0), next],
            &large(add),
            &to,
            rewritten(None, true),
        );
    }
    // add %rcx, %rax
    for number in [r::R_X86_64_TLSGD, r::R_X86_64_TLSLD] {
        tls_stays(&[edge(3, number, 0), next], &large([0x48, 0x01, 0xc8]));
    }
}

#[test]
fn local_dynamic() {
    let access = edge(3, r::R_X86_64_TLSLD, 0);
    let from = [&LEA_RDI[..], &[0xe8, 0, 0, 0, 0]].concat();
    let to = [&[0x66; 3][..], &MOV_FS0].concat();
    tls(
        &[access, edge(8, r::R_X86_64_PLT32, 1)],
        &from,
        &to,
        rewritten(None, true),
    );

    for call in [[0xff, 0x15], [0x67, 0xe8]] {
        let from = [&LEA_RDI[..], &call, &[0; 4]].concat();
        let to = [&[0x66; 4][..], &MOV_FS0].concat();
        tls(
            &[access, edge(9, r::R_X86_64_GOTPCRELX, 1)],
            &from,
            &to,
            rewritten(None, true),
        );
    }
}

#[test]
fn offsets_in_the_block_become_offsets_from_the_thread_pointer() {
    for (number, kind) in [
        (r::R_X86_64_DTPOFF32, kind::TPOFF32),
        (r::R_X86_64_DTPOFF64, kind::TPOFF64),
    ] {
        let offset = Edge {
            addend: 24,
            ..edge(3, number, 0)
        };
        let answer = rewritten(Some(Edge { kind, ..offset }), false);
        tls(&[offset], &LEA, &LEA, answer);
    }
}

/// An access by one instruction, whose place is its last four bytes.
#[track_caller]
fn to_immediate(number: u32, from: &[u8], to: &[u8]) {
    let at = u32::try_from(from.len()).unwrap();
    let (from, to) = ([from, &[0; 4]].concat(), [to, &[0; 4]].concat());
    let answer = rewritten(Some(expected(at, kind::TPOFF32)), false);
    tls(&[edge(at, number, 0)], &from, &to, answer);
}

#[test]
fn initial_exec() {
    let number = r::R_X86_64_GOTTPOFF;
    to_immediate(number, &[0x48, 0x8b, 0x05], &[0x48, 0xc7, 0xc0]); // mov, %rax
    to_immediate(number, &[0x4c, 0x8b, 0x25], &[0x49, 0xc7, 0xc4]); // mov, %r12
    to_immediate(number, &[0x48, 0x03, 0x25], &[0x48, 0x81, 0xc4]); // add, %rsp
    to_immediate(number, &[0x4c, 0x03, 0x25], &[0x49, 0x81, 0xc4]); // add, %r12
    let number = r::R_X86_64_CODE_4_GOTTPOFF;
    to_immediate(number, &[0xd5, 0x48, 0x8b, 0x05], &[0xd5, 0x18, 0xc7, 0xc0]); // mov, %r16
    to_immediate(number, &[0xd5, 0x4c, 0x8b, 0x3d], &[0xd5, 0x19, 0xc7, 0xc7]); // mov, %r31
    to_immediate(number, &[0xd5, 0x48, 0x03, 0x25], &[0xd5, 0x18, 0x81, 0xc4]); // add, %r20
}

#[test]
fn initial_exec_to_a_new_destination() {
    let cases = [
        // add x(%rip), %r20, %r31
        (
            [0x62, 0xe4, 0x84, 0x10, 0x03, 0x25],
            [0x62, 0xfc, 0x84, 0x10, 0x81, 0xc4],
        ),
        // add x(%rip), %rcx, %r12
        (
            [0x62, 0xf4, 0x9c, 0x18, 0x03, 0x0d],
            [0x62, 0xf4, 0x9c, 0x18, 0x81, 0xc1],
        ),
        // add %r9, x(%rip), %r12
        (
            [0x62, 0x74, 0x9c, 0x18, 0x01, 0x0d],
            [0x62, 0xd4, 0x9c, 0x18, 0x81, 0xc1],
        ),
        // {nf} add x(%rip), %r12
        (
            [0x62, 0x74, 0xfc, 0x0c, 0x03, 0x25],
            [0x62, 0xd4, 0xfc, 0x0c, 0x81, 0xc4],
        ),
    ];
    for (from, to) in cases {
        to_immediate(r::R_X86_64_CODE_6_GOTTPOFF, &from, &to);
    }
}

#[test]
fn descriptors() {
    let number = r::R_X86_64_GOTPC32_TLSDESC;
    to_immediate(number, &[0x48, 0x8d, 0x05], &[0x48, 0xc7, 0xc0]); // %rax
    to_immediate(number, &[0x4c, 0x8d, 0x2d], &[0x49, 0xc7, 0xc5]); // %r13
    let number = r::R_X86_64_CODE_4_GOTPC32_TLSDESC;
    to_immediate(number, &[0xd5, 0x48, 0x8d, 0x15], &[0xd5, 0x18, 0xc7, 0xc2]); // %r18

    let call = edge(0, r::R_X86_64_TLSDESC_CALL, 0);
    tls(
        &[call],
        &[0xff, 0x10],
        &[0x66, 0x90],
        rewritten(None, false),
    );
    tls_stays(&[call], &[0xff, 0x11]);
    tls_stays(&[call], &[0xff]);
}

#[test]
fn dynamic_accesses_that_stay() {
    let gd = edge(4, r::R_X86_64_TLSGD, 0);
    let access = [&LEA_GD[..], &[0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0]].concat();
    // The call's edge is missing, elsewhere, or no more than a reference.
    tls_stays(&[gd], &access);
    tls_stays(&[gd, edge(13, r::R_X86_64_PLT32, 1)], &access);
    tls_stays(&[gd, expected(12, EdgeKind::KEEP_ALIVE)], &access);
    // Another addend; an unusual register; cut off.
    let call = edge(12, r::R_X86_64_PLT32, 1);
    tls_stays(&[Edge { addend: 0, ..gd }, call], &access);
    let mut other = access.clone();
    other[3] = 0x35;
    tls_stays(&[gd, call], &other);
    for len in 0..access.len() {
        tls_stays(&[gd, call], &access[..len]);
    }
    let ld = edge(3, r::R_X86_64_TLSLD, 0);
    let access = [&LEA_RDI[..], &[0xe8, 0, 0, 0, 0]].concat();
    tls_stays(&[ld], &access);
    tls_stays(&[ld, edge(9, r::R_X86_64_PLT32, 1)], &access);
    for len in 0..access.len() {
        tls_stays(&[ld, edge(8, r::R_X86_64_PLT32, 1)], &access[..len]);
    }
    let next = edge(9, r::R_X86_64_PLTOFF64, 1);
    let access = large([0x48, 0x01, 0xd8]);
    for len in 0..access.len() {
        tls_stays(&[ld, next], &access[..len]);
        tls_stays(&[edge(3, r::R_X86_64_TLSGD, 0), next], &access[..len]);
    }
}

#[test]
fn loads_that_stay() {
    let stays = |number, bytes: &[u8]| {
        let at = u32::try_from(bytes.len() - 4).unwrap();
        tls_stays(&[edge(at, number, 0)], bytes);
        tls_stays(&[edge(at, number, 0)], &bytes[..bytes.len() - 1]);
        tls_stays(&[edge(at - 1, number, 0)], &bytes[1..]);
    };
    let ie = r::R_X86_64_GOTTPOFF;
    stays(ie, &[0x48, 0x2b, 0x05, 0, 0, 0, 0]); // sub
    stays(ie, &[0x40, 0x8b, 0x05, 0, 0, 0, 0]); // 32 bits
    stays(ie, &[0x48, 0x8b, 0x80, 0, 0, 0, 0]); // base register
    stays(ie, &[0xd5, 0x8b, 0x05, 0, 0, 0, 0]); // no REX
    stays(
        r::R_X86_64_CODE_4_GOTTPOFF,
        &[0xd5, 0xc8, 0x8b, 0x05, 0, 0, 0, 0],
    ); // map 1
    stays(
        r::R_X86_64_CODE_4_GOTTPOFF,
        &[0xd5, 0x40, 0x8b, 0x05, 0, 0, 0, 0],
    ); // 32 bits
    stays(
        r::R_X86_64_CODE_5_GOTTPOFF,
        &[0x66, 0xd5, 0x48, 0x8b, 0x05, 0, 0, 0, 0],
    );
    // {nf} add %r9, x(%rip): stores; 32 bits; map 1.
    let evex = r::R_X86_64_CODE_6_GOTTPOFF;
    stays(evex, &[0x62, 0x74, 0xfc, 0x0c, 0x01, 0x0d, 0, 0, 0, 0]);
    stays(evex, &[0x62, 0xf4, 0x1c, 0x18, 0x03, 0x0d, 0, 0, 0, 0]);
    stays(evex, &[0x62, 0xf1, 0x9c, 0x18, 0x03, 0x0d, 0, 0, 0, 0]);
    let descriptor = r::R_X86_64_GOTPC32_TLSDESC;
    stays(descriptor, &[0x48, 0x8b, 0x05, 0, 0, 0, 0]); // mov
    stays(
        r::R_X86_64_CODE_5_GOTPC32_TLSDESC,
        &[0x66, 0xd5, 0x48, 0x8d, 0x05, 0, 0, 0, 0],
    );
}

#[test]
fn other_edges_stay() {
    let bytes = [0x48, 0x8b, 0x05, 0, 0, 0, 0];
    for kind in [
        kind::TPOFF32,
        kind::DELTA32,
        kind::PCREL32,
        EdgeKind::KEEP_ALIVE,
    ] {
        tls_stays(&[expected(3, kind)], &bytes);
        tls_stays(
            &[Edge {
                addend: -4,
                ..expected(3, kind)
            }],
            &bytes,
        );
    }
    tls_stays(&[], &bytes);
}
