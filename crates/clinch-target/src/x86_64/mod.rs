//! x86-64, called AMD64 or Intel 64 by its makers.
//!
//! The documents: "System V Application Binary Interface, AMD64 Architecture Processor
//! Supplement" (the psABI; sections "Code Models", "Relocation", "Procedure Linkage Table",
//! "Thread-Local Storage" and appendix "Linker Optimization" are what a linker is made from); for
//! the thread-local models "ELF Handling For Thread-Local Storage" (Drepper) and "Thread-Local
//! Storage Descriptors for IA32 and AMD64/EM64T" (Oliva); for the prefixes of newer instructions
//! "Intel Advanced Performance Extensions (APX) Architecture Specification".
//!
//! **Addressing.** Code refers to memory relative to the instruction pointer, by a signed 32-bit
//! displacement that counts from the end of the instruction. The psABI's formulas count from the
//! displacement itself (P), so a compiler writes the distance, mostly 4, into the addend. Calls
//! and jumps have the same field, so code and everything it uses directly must lie within 2 GiB
//! of each other; there is no shorter range to care about and no alignment of places or targets.
//! What may be farther away goes through the GOT (data) or a stub (code). Absolute 32-bit fields
//! are sign-extended by instructions and need addresses in the lowest or highest 2 GiB: fine in a
//! classic executable, out of reach for a JIT or a position-independent program. The medium and
//! large code models use 64-bit immediates and GOT-relative values instead, and section flag
//! `SHF_X86_64_LARGE`.
//!
//! **Thread pointer.** Variant II: `%fs:0` holds its own address, which is the end of the static
//! thread-local block. Variables lie below it, so offsets from the thread pointer are negative
//! and the main program's block ends at the pointer. A variable's offset in its block is what
//! `DTPOFF` means.
//!
//! **Registers.** A stub may use `%r11` (and `%r10` where no static chain can be live); ours use
//! none. A TLS descriptor's function takes `%rax`, answers in it and keeps all others. Functions
//! take arguments in `%rdi`, `%rsi`, `%rdx`; a variadic callee reads `%al`, so a stub must keep
//! `%rax` too.
//!
//! **Relaxation.** Instructions that load an address from the GOT can take the address itself
//! when it is in reach, and thread-local accesses of a dynamic model can become a constant offset
//! from `%fs:0`. The instruction keeps its length. Only places whose relocation says so
//! (`GOTPCRELX` and the TLS ones) may be rewritten, for otherwise nothing tells where the
//! instruction starts.
//!
//! **Traps.**
//! - Instructions have no fixed start: the bytes before a place may belong to the instruction or
//!   to the one before. The relocation number alone says whether a prefix is there; that is why
//!   `GOTPCRELX`, `REX_GOTPCRELX` and the `CODE_4`, `CODE_5`, `CODE_6` families are kinds of
//!   their own, the digit being the distance from the instruction's start to the place.
//! - `call *foo@GOTPCREL(%rip)` is 6 bytes, `call foo` 5. The psABI fills up with a prefix that
//!   means nothing there (`addr32`). A `data16` prefix in front is not meaningless: AMD's
//!   processors then read a 16-bit displacement unless `REX.W` stands right before the opcode.
//! - In a `jmp` made direct the displacement moves one byte to the front.
//! - An addend other than the distance to the instruction's end, at a GOT load, asks for
//!   something beside the entry; such an instruction must stay.
//! - In the local-exec form of a local-dynamic access the variables' offsets change meaning as
//!   well (`DTPOFF32` to `TPOFF32`), but only in code: debug information keeps the offset in the
//!   block.
//! - With control-flow enforcement an indirect call must land on `endbr64`.

mod decode;
pub mod edges;
mod elf;
mod fixup;
mod relax;
mod stubs;

pub use edges::kind;
pub use elf::relocation;

use crate::arch::{Arch, Relax};
use crate::edge_table::EdgeInfo;
use clinch_graph::{EdgeKind, Endian, GraphTarget};

/// The architecture's table.
pub static ARCH: Arch = Arch {
    graph: GraphTarget {
        name: "x86_64",
        pointer_size: 8,
        endian: Endian::Little,
        edge_kinds: edges::NAMES,
        edge_width,
        is_request,
    },
    page_size: 4096,
    edges: edges::EDGES,
    pointer: kind::POINTER64,
    stubs: &stubs::STUBS,
    stub_branches: &[(
        kind::BRANCH_PCREL32,
        kind::BRANCH_PCREL32_TO_PTR_JUMP_STUB_BYPASSABLE,
    )],
    elf: Some(&elf::ELF),
    apply: fixup::apply,
    relax: &Relax {
        got_to_direct: relax::got_to_direct,
        tls_to_local_exec: relax::tls_to_local_exec,
    },
    decode: Some(decode::decode),
};

fn row(kind: EdgeKind) -> Option<&'static EdgeInfo> {
    edges::EDGES.get(usize::from(kind.0.checked_sub(EdgeKind::FIRST_RELOCATION)?))
}

fn edge_width(kind: EdgeKind) -> u8 {
    row(kind).map_or(0, |row| row.field.width)
}

fn is_request(kind: EdgeKind) -> bool {
    row(kind).is_some_and(|row| row.request.is_some())
}

#[cfg(test)]
mod tests {
    use super::{ARCH, edge_width, is_request, kind};
    use crate::edge_table::Expr;
    use crate::{arch_named, elf_arch};
    use clinch_graph::{EdgeKind, Endian};

    #[test]
    fn the_registry_finds_it() {
        assert!(std::ptr::eq(arch_named("x86_64").unwrap(), &ARCH));
        assert!(std::ptr::eq(
            elf_arch(62, true, Endian::Little).unwrap(),
            &ARCH
        ));
        assert!(
            elf_arch(62, false, Endian::Little).is_none(),
            "x32 is not here"
        );
        assert!(elf_arch(62, true, Endian::Big).is_none());
    }

    #[test]
    fn the_graph_sees_names_widths_and_requests() {
        assert_eq!(ARCH.graph.kind_name(kind::POINTER64), "Pointer64");
        assert_eq!(
            ARCH.graph.kind_named("TLSDescCall"),
            Some(kind::TLS_DESC_CALL)
        );
        assert_eq!(ARCH.edge(kind::PCREL32).unwrap().name, "PCRel32");
        assert!(ARCH.edge(EdgeKind::KEEP_ALIVE).is_none());
        assert!(ARCH.edge(EdgeKind(255)).is_none());
        assert_eq!(edge_width(kind::POINTER16), 2);
        assert_eq!(edge_width(EdgeKind::KEEP_ALIVE), 0);
        assert_eq!(edge_width(EdgeKind(255)), 0);
        assert!(is_request(kind::REQUEST_GOT_AND_TRANSFORM_TO_DELTA32));
        assert!(!is_request(kind::BRANCH_PCREL32));
    }

    #[test]
    fn the_first_kind_of_a_value_is_the_plain_one() {
        let expected = [
            (Expr::Absolute, 8, kind::POINTER64),
            (Expr::Absolute, 4, kind::POINTER32),
            (Expr::Relative, 8, kind::DELTA64),
            (Expr::Relative, 4, kind::DELTA32),
            (Expr::NegRelative, 4, kind::NEG_DELTA32),
            (Expr::TpRelative, 8, kind::TPOFF64),
            (Expr::DtpRelative, 8, kind::DTPOFF64),
        ];
        for (expr, width, kind) in expected {
            assert_eq!(
                ARCH.kind_of(expr, width),
                Some(kind),
                "{expr:?} in {width} bytes"
            );
        }
        assert_eq!(ARCH.kind_of(Expr::Relative, 3), None);
    }
}
