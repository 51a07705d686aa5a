//! Rewrites instructions to cheaper ones of the same length: loads from the GOT to the address
//! itself (psABI, "Linker Optimization", "Optimize GOTPCRELX Relocations"), and thread-local
//! accesses to the local-exec form ("ELF Handling For Thread-Local Storage", section 5; for
//! descriptors the document of its own).
//!
//! A rewrite first recognizes every byte that it relies on, within the block, and only then
//! writes; whatever it does not recognize it leaves alone and answers `None`. The edge's kind
//! tells where the instruction starts, as the bytes before the opcode cannot. An addend beside
//! the usual one reads something beside the table entry, so it is not rewritten either.

use super::edges::{Kind, kind};
use crate::arch::TlsRewrite;
use clinch_graph::index::int::usize_of;
use clinch_graph::{Edge, EdgeKind};

/// First byte of a REX2 prefix; the second has its bits.
const REX2: u8 = 0xd5;
/// First byte of an EVEX prefix; three more have its bits.
const EVEX: u8 = 0x62;
/// The address-size prefix, which calls and jumps ignore.
const ADDR32: u8 = 0x67;
/// The operand-size prefix, which an instruction with REX.W ignores.
const DATA16: u8 = 0x66;
/// The bit for 64 bits in REX and in the second byte of REX2.
const REX_W: u8 = 0b1000;
/// The bit for opcode map 1 in the second byte of REX2.
const REX2_M0: u8 = 0b1000_0000;
/// The bit for a new destination in the fourth byte of EVEX.
const EVEX_ND: u8 = 0b1_0000;
/// `mov %fs:0, %rax`
const MOV_FS0_RAX: [u8; 9] = [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];
/// `lea offset(%rax), %rax`
const LEA_RAX_RAX: [u8; 7] = [0x48, 0x8d, 0x80, 0, 0, 0, 0];
/// `nopw 0(%rax, %rax)`
const NOP6: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0, 0];
/// `nopw %cs:0(%rax, %rax)`
const NOP10: [u8; 10] = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];

/// A load, call or jump through the GOT to direct use of the target.
pub(super) fn got_to_direct(bytes: &mut [u8], edge: &Edge) -> Option<Edge> {
    if edge.addend != 0 {
        return None;
    }
    let at = usize_of(edge.offset);
    window::<4>(bytes, at, 0)?;
    match Kind::of(edge.kind)? {
        Kind::PCRel32GOTLoadRelaxable | Kind::RequestGOTAndTransformToPCRel32GOTLoadRelaxable => {
            plain_got_to_direct(bytes, at, edge)
        }
        Kind::PCRel32GOTLoadREXRelaxable
        | Kind::PCRel32TLVPLoadREXRelaxable
        | Kind::RequestGOTAndTransformToPCRel32GOTLoadREXRelaxable
        | Kind::RequestTLVPAndTransformToPCRel32TLVPLoadREXRelaxable => {
            rex_got_to_direct(bytes, at, edge)
        }
        Kind::PCRel32GOTLoadREX2Relaxable
        | Kind::RequestGOTAndTransformToPCRel32GOTLoadREX2Relaxable => {
            let [REX2, bits, opcode @ 0x8b, modrm] = window_mut::<4>(bytes, at, 4)? else {
                return None;
            };
            if *bits & REX2_M0 != 0 || !is_rip_relative(*modrm) {
                return None;
            }
            *opcode = 0x8d; // mov foo@GOTPCREL(%rip), %r31 -> lea foo(%rip), %r31
            Some(with_kind(edge, kind::PCREL32))
        }
        _ => None,
    }
}

fn plain_got_to_direct(bytes: &mut [u8], at: usize, edge: &Edge) -> Option<Edge> {
    // `data16 rex64 call *__tls_get_addr@GOTPCREL(%rip)`, the end of a general-dynamic access,
    // comes with the relocation that promises no prefix (LLVM 22). A prefix between REX.W and the
    // opcode would switch REX.W off and leave data16 on.
    let is_tls_call = matches!(window::<4>(bytes, at, 4), Some([0x66, 0x48, 0xff, 0x15]));
    match window_mut::<2>(bytes, at, 2)? {
        [opcode @ 0x8b, modrm] if is_rip_relative(*modrm) => {
            *opcode = 0x8d; // mov foo@GOTPCREL(%rip), %eax -> lea foo(%rip), %eax
            Some(with_kind(edge, kind::PCREL32))
        }
        call @ [0xff, 0x15] if !is_tls_call => {
            *call = [ADDR32, 0xe8]; // call *foo@GOTPCREL(%rip) -> addr32 call foo
            Some(with_kind(edge, kind::BRANCH_PCREL32))
        }
        [0xff, 0x25] => direct_jump(bytes, at, edge),
        _ => None,
    }
}

fn rex_got_to_direct(bytes: &mut [u8], at: usize, edge: &Edge) -> Option<Edge> {
    match window_mut::<3>(bytes, at, 3)? {
        [rex, opcode @ 0x8b, modrm] if is_rex(*rex) && is_rip_relative(*modrm) => {
            *opcode = 0x8d; // mov foo@GOTPCREL(%rip), %rax -> lea foo(%rip), %rax
            Some(with_kind(edge, kind::PCREL32))
        }
        call @ [_, 0xff, 0x15] if is_rex(call[0]) => {
            // rex64 call *foo@GOTPCREL(%rip) -> addr32 rex64 call foo; REX must come last.
            *call = [ADDR32, call[0], 0xe8];
            Some(with_kind(edge, kind::BRANCH_PCREL32))
        }
        [rex, 0xff, 0x25] if is_rex(*rex) => direct_jump(bytes, at, edge),
        _ => None,
    }
}

/// `jmp *foo@GOTPCREL(%rip)` to `jmp foo; nop`. The displacement moves to the front by a byte.
fn direct_jump(bytes: &mut [u8], at: usize, edge: &Edge) -> Option<Edge> {
    *window_mut::<6>(bytes, at, 2)? = [0xe9, 0, 0, 0, 0, 0x90];
    Some(Edge {
        offset: edge.offset - 1,
        kind: kind::BRANCH_PCREL32,
        ..*edge
    })
}

/// A thread-local access to a constant offset from the thread pointer.
///
/// `DTPOff` edges are answered as `TPOff` edges: the caller asks for those of code only, and only
/// when the local-dynamic accesses are rewritten. Likewise the caller rewrites a descriptor's
/// load and its call both or not at all.
pub(super) fn tls_to_local_exec(
    bytes: &mut [u8],
    edges: &[Edge],
    index: usize,
) -> Option<TlsRewrite> {
    let edge = edges.get(index)?;
    let next = edges.get(index + 1);
    let at = usize_of(edge.offset);
    match Kind::of(edge.kind)? {
        Kind::DTPOff32 => Some(in_place(with_kind(edge, kind::TPOFF32))),
        Kind::DTPOff64 => Some(in_place(with_kind(edge, kind::TPOFF64))),
        Kind::TLSDescCall => {
            let call = window_mut::<2>(bytes, at, 0)?;
            if *call != [0xff, 0x10] {
                return None;
            }
            *call = [0x66, 0x90]; // call *(%rax) -> xchg %ax, %ax
            Some(TlsRewrite {
                edge: None,
                drop_next: false,
            })
        }
        // What remains points at a table entry, from the end of its instruction.
        _ if edge.addend != -4 => None,
        Kind::RequestTLSGDAndTransformToDelta32 => general_dynamic(bytes, at, edge, next?),
        Kind::RequestTLSLDAndTransformToDelta32 => local_dynamic(bytes, at, edge, next?),
        Kind::RequestTLSIEAndTransformToDelta32 => to_immediate_rex(bytes, at, edge, initial_exec),
        Kind::RequestTLSIECode4AndTransformToDelta32 => {
            to_immediate_rex2(bytes, at, edge, initial_exec)
        }
        Kind::RequestTLSIECode6AndTransformToDelta32 => initial_exec_evex(bytes, at, edge),
        Kind::RequestTLSDescAndTransformToDelta32 => to_immediate_rex(bytes, at, edge, descriptor),
        Kind::RequestTLSDescCode4AndTransformToDelta32 => {
            to_immediate_rex2(bytes, at, edge, descriptor)
        }
        _ => None,
    }
}

/// The address of one variable by `__tls_get_addr`:
/// ```text
/// data16 lea x@tlsgd(%rip), %rdi               mov %fs:0, %rax
/// data16 data16 rex64 call __tls_get_addr  ->  lea x@tpoff(%rax), %rax
/// ```
/// or with `data16 rex64 call *__tls_get_addr@GOTPCREL(%rip)`, or in the large code model.
fn general_dynamic(bytes: &mut [u8], at: usize, edge: &Edge, next: &Edge) -> Option<TlsRewrite> {
    if let Some([0x66, 0x48, 0x8d, 0x3d, _, _, _, _, call @ .., _, _, _, _]) =
        window::<16>(bytes, at, 4)
        && matches!(
            call,
            [0x66, 0x66, 0x48, 0xe8]
                | [0x66, 0x48, 0xff, 0x15]
                // What linkers, this one among them, make of the line above.
                | [0x66, ADDR32, 0x48, 0xe8]
                | [0x66, 0x48, ADDR32, 0xe8]
        )
        && is_at(next, edge, 8)
    {
        let offset = tp_offset(edge, 8)?;
        write(bytes, at - 4, &[&MOV_FS0_RAX, &LEA_RAX_RAX]);
        return Some(TlsRewrite {
            edge: Some(offset),
            drop_next: true,
        });
    }
    if is_large_access(bytes, at) && is_at(next, edge, 6) {
        let offset = tp_offset(edge, 9)?;
        write(bytes, at - 3, &[&MOV_FS0_RAX, &LEA_RAX_RAX, &NOP6]);
        return Some(TlsRewrite {
            edge: Some(offset),
            drop_next: true,
        });
    }
    None
}

/// The start of the dylib's block by `__tls_get_addr`, here the thread pointer itself, from which
/// the variables' offsets then count:
/// ```text
/// lea x@tlsld(%rip), %rdi      data16 data16 data16 mov %fs:0, %rax
/// call __tls_get_addr      ->
/// ```
/// or with `call *__tls_get_addr@GOTPCREL(%rip)`, or in the large code model.
fn local_dynamic(bytes: &mut [u8], at: usize, edge: &Edge, next: &Edge) -> Option<TlsRewrite> {
    if window(bytes, at, 3) != Some(&[0x48, 0x8d, 0x3d]) {
        return None;
    }
    let rest = bytes.get(at + 4..)?;
    let is_direct = matches!(rest, [0xe8, _, _, _, _, ..]);
    let is_indirect = matches!(
        rest,
        [0xff, 0x15, _, _, _, _, ..] | [ADDR32, 0xe8, _, _, _, _, ..]
    );
    if is_direct && is_at(next, edge, 5) {
        write(bytes, at - 3, &[&[DATA16; 3], &MOV_FS0_RAX]);
    } else if is_indirect && is_at(next, edge, 6) {
        write(bytes, at - 3, &[&[DATA16; 4], &MOV_FS0_RAX]);
    } else if is_large_access(bytes, at) && is_at(next, edge, 6) {
        write(bytes, at - 3, &[&[DATA16; 3], &MOV_FS0_RAX, &NOP10]);
    } else {
        return None;
    }
    Some(TlsRewrite {
        edge: None,
        drop_next: true,
    })
}

/// Whether a dynamic access of the large code model stands there, 22 bytes from 3 before `at`:
/// ```text
/// lea x@tlsgd(%rip), %rdi
/// movabs $__tls_get_addr@pltoff, %rax
/// add %rbx, %rax                          or %r15
/// call *%rax
/// ```
fn is_large_access(bytes: &[u8], at: usize) -> bool {
    let Some(
        [
            0x48,
            0x8d,
            0x3d,
            _,
            _,
            _,
            _, //
            0x48,
            0xb8,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _, //
            add @ ..,
            0xff,
            0xd0,
        ],
    ) = window::<22>(bytes, at, 3)
    else {
        return false;
    };
    matches!(add, [0x48, 0x01, 0xd8] | [0x4c, 0x01, 0xf8])
}

/// Initial-exec. The sum stays a sum, where the psABI's example has `lea`: so the flags are as
/// before, and `%rsp` and `%r12` need no form of their own.
/// ```text
/// mov x@gottpoff(%rip), %rax  ->  mov $x@tpoff, %rax
/// add x@gottpoff(%rip), %rax  ->  add $x@tpoff, %rax
/// ```
fn initial_exec(opcode: u8) -> Option<u8> {
    match opcode {
        0x8b => Some(0xc7),
        0x03 => Some(0x81),
        _ => None,
    }
}

/// The load of a descriptor's address, which its function then turns into the offset:
/// ```text
/// lea x@tlsdesc(%rip), %rax  ->  mov $x@tpoff, %rax
/// ```
fn descriptor(opcode: u8) -> Option<u8> {
    (opcode == 0x8d).then_some(0xc7)
}

/// An instruction with REX prefix, of 64 bits, from a memory to an immediate operand. `form` is
/// the opcode of the one for that of the other.
fn to_immediate_rex(
    bytes: &mut [u8],
    at: usize,
    edge: &Edge,
    form: fn(u8) -> Option<u8>,
) -> Option<TlsRewrite> {
    window::<4>(bytes, at, 0)?;
    let [rex, opcode, modrm] = window_mut::<3>(bytes, at, 3)?;
    if !is_rex(*rex) || *rex & REX_W == 0 || !is_rip_relative(*modrm) {
        return None;
    }
    *opcode = form(*opcode)?;
    // The register's high bit moves from REX.R to REX.B.
    *rex = 0x40 | REX_W | (*rex >> 2 & 1);
    *modrm = register_operand(*modrm);
    tp_offset(edge, 0).map(in_place)
}

/// The same with REX2 prefix, whose bits are M0 R4 X4 B4 W R3 X3 B3.
fn to_immediate_rex2(
    bytes: &mut [u8],
    at: usize,
    edge: &Edge,
    form: fn(u8) -> Option<u8>,
) -> Option<TlsRewrite> {
    window::<4>(bytes, at, 0)?;
    let [REX2, bits, opcode, modrm] = window_mut::<4>(bytes, at, 4)? else {
        return None;
    };
    if *bits & REX2_M0 != 0 || *bits & REX_W == 0 || !is_rip_relative(*modrm) {
        return None;
    }
    *opcode = form(*opcode)?;
    // R4 and R3 move to B4 and B3.
    *bits = REX_W | (*bits >> 2 & 0b1_0001);
    *modrm = register_operand(*modrm);
    tp_offset(edge, 0).map(in_place)
}

/// Initial-exec sums with EVEX prefix (APX): to a new destination, or without setting flags.
/// ```text
/// add x@gottpoff(%rip), %r16, %r17  ->  add $x@tpoff, %r16, %r17
/// add %r16, x@gottpoff(%rip), %r17  ->  add $x@tpoff, %r16, %r17
/// {nf} add x@gottpoff(%rip), %r16   ->  {nf} add $x@tpoff, %r16
/// ```
fn initial_exec_evex(bytes: &mut [u8], at: usize, edge: &Edge) -> Option<TlsRewrite> {
    window::<4>(bytes, at, 0)?;
    let [EVEX, bits, w_pp, nd, opcode, modrm] = window_mut::<6>(bytes, at, 6)? else {
        return None;
    };
    // Map 4, 64 bits, no mandatory prefix, and no register in the memory operand; nothing beside
    // ND, NF and the new destination's high bit in the last byte.
    let is_64_bit_map4 = *bits & 0b0110_1111 == 0b0110_0100
        && *w_pp & 0b1000_0111 == 0b1000_0100
        && *nd & 0b1110_0011 == 0;
    // Without a new destination, opcode 01 stores to memory.
    let is_sum_to_register = *opcode == 0x03 || (*opcode == 0x01 && *nd & EVEX_ND != 0);
    if !is_64_bit_map4 || !is_sum_to_register || !is_rip_relative(*modrm) {
        return None;
    }
    // R3 (bit 7) and R4 (bit 4), both inverted, move to B3 (bit 5), inverted, and B4 (bit 3), as
    // it is; then R3 and R4 are 0.
    let b3 = *bits >> 2 & 0b10_0000;
    let b4 = !*bits >> 1 & 0b1000;
    *bits = 0b1101_0100 | b3 | b4;
    *opcode = 0x81;
    *modrm = register_operand(*modrm);
    tp_offset(edge, 0).map(in_place)
}

/// Whether the operand is relative to the instruction pointer: mode 00, register 101.
fn is_rip_relative(modrm: u8) -> bool {
    modrm & 0b11_000_111 == 0b00_000_101
}

/// The operand that is the register which `modrm` names beside memory, as the only operand of an
/// opcode whose extension is 0.
fn register_operand(modrm: u8) -> u8 {
    0b11_000_000 | (modrm >> 3 & 7)
}

fn is_rex(byte: u8) -> bool {
    byte & 0xf0 == 0x40
}

fn with_kind(edge: &Edge, kind: EdgeKind) -> Edge {
    Edge { kind, ..*edge }
}

/// The edge for the target's offset from the thread pointer, `forward` bytes on. The addend loses
/// the distance to the end of the instruction.
fn tp_offset(edge: &Edge, forward: u32) -> Option<Edge> {
    let offset = edge.offset.checked_add(forward)?;
    Some(Edge {
        offset,
        kind: kind::TPOFF32,
        addend: 0,
        target: edge.target,
    })
}

/// The answer for an access of one instruction.
fn in_place(edge: Edge) -> TlsRewrite {
    TlsRewrite {
        edge: Some(edge),
        drop_next: false,
    }
}

/// Whether `next` writes `distance` bytes behind the place of `edge`: where the call's operand is.
fn is_at(next: &Edge, edge: &Edge, distance: u32) -> bool {
    next.kind.is_relocation() && edge.offset.checked_add(distance) == Some(next.offset)
}

/// The `N` bytes that begin `before` bytes before `at`.
fn window<const N: usize>(bytes: &[u8], at: usize, before: usize) -> Option<&[u8; N]> {
    bytes.get(at.checked_sub(before)?..)?.first_chunk()
}

/// The same to write to.
fn window_mut<const N: usize>(bytes: &mut [u8], at: usize, before: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at.checked_sub(before)?..)?.first_chunk_mut()
}

/// Writes instructions from `start` on, where the caller has recognized as many bytes.
fn write(bytes: &mut [u8], start: usize, instructions: &[&[u8]]) {
    let mut rest = &mut bytes[start..];
    for instruction in instructions {
        let (place, behind) = rest.split_at_mut(instruction.len());
        place.copy_from_slice(instruction);
        rest = behind;
    }
}

#[cfg(test)]
mod tests;
