//! How ELF spells x86-64: the relocation numbers (psABI, "Relocation Types") and what they mean
//! to the graph. The letters are the psABI's: A addend, B base of the loaded file, G the offset
//! of the target's GOT entry in the GOT, GOT the address of the GOT, L the target's PLT entry, P
//! the place, S the target, Z its size.
//!
//! A kind whose formula counts from the end of its field ("Fixup + 4" in `edges.rs`) takes 4 off
//! by itself, so those relocations have the bias 4: the usual addend of -4 becomes 0, which is
//! what a rewrite of the instruction asks for.

use super::edges::kind;
use crate::arch::{ElfArch, ElfRelocation, ElfSpelling};
use clinch_graph::EdgeKind;

/// The table.
pub(super) static ELF: ElfArch = ElfArch {
    machine: 62,
    is_64: true,
    relocations: &RELOCATIONS,
    // Assemblers write these, and some linkers make the GOT's base when they see one.
    to_got_base: &[
        spelling(kind::DELTA32, relocation::R_X86_64_GOTPC32, 0),
        spelling(kind::DELTA64, relocation::R_X86_64_GOTPC64, 0),
    ],
    // The target is what is jumped to or read, even where that is a table entry: it has a symbol.
    equivalents: &[
        spelling(kind::PCREL32, relocation::R_X86_64_PC32, 4),
        spelling(
            kind::BRANCH_PCREL32_TO_PTR_JUMP_STUB,
            relocation::R_X86_64_PLT32,
            4,
        ),
        spelling(
            kind::BRANCH_PCREL32_TO_PTR_JUMP_STUB_BYPASSABLE,
            relocation::R_X86_64_PLT32,
            4,
        ),
        spelling(
            kind::PCREL32_GOT_LOAD_RELAXABLE,
            relocation::R_X86_64_PC32,
            4,
        ),
        spelling(
            kind::PCREL32_GOT_LOAD_REX_RELAXABLE,
            relocation::R_X86_64_PC32,
            4,
        ),
        spelling(
            kind::PCREL32_GOT_LOAD_REX2_RELAXABLE,
            relocation::R_X86_64_PC32,
            4,
        ),
        spelling(
            kind::PCREL32_TLVP_LOAD_REX_RELAXABLE,
            relocation::R_X86_64_PC32,
            4,
        ),
    ],
    relocation_name,
    is_dynamic_address: |number| {
        matches!(
            number,
            relocation::R_X86_64_64 | relocation::R_X86_64_GLOB_DAT
        )
    },
    implicit_addend,
    // SHT_X86_64_UNWIND.
    unwind_section_type: 0x7000_0001,
    // SHF_X86_64_LARGE.
    large_section_flag: 0x1000_0000,
    large_common: 0xff02,
};

const fn spelling(kind: EdgeKind, number: u32, bias: i64) -> ElfSpelling {
    ElfSpelling { kind, number, bias }
}

/// Makes the constants, the names and the meanings from one list. A row is the psABI's
/// calculation, the name, the number, and the kind with its bias or the other meaning.
macro_rules! relocations {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident = $number:literal: $what:ident $(($kind:ident $(+ $bias:literal)?))?;
    )+) => {
        /// The relocation numbers, spelled as in the psABI.
        pub mod relocation {
            $($(#[doc = $doc])+ pub const $name: u32 = $number;)+
        }

        static RELOCATIONS: [ElfRelocation; 52] = {
            let mut table = [ElfRelocation::Unknown; 52];
            $(table[$number] = relocations!(@meaning $what $($kind $($bias)?)?);)+
            table
        };

        fn relocation_name(number: u32) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)+
                _ => None,
            }
        }
    };
    (@meaning Edge $kind:ident) => { ElfRelocation::Edge { kind: kind::$kind, bias: 0 } };
    (@meaning Edge $kind:ident $bias:literal) => {
        ElfRelocation::Edge { kind: kind::$kind, bias: $bias }
    };
    (@meaning $what:ident) => { ElfRelocation::$what };
}

relocations! {
    /// Nothing.
    R_X86_64_NONE = 0: KeepAlive;
    /// S + A
    R_X86_64_64 = 1: Edge(POINTER64);
    /// S + A - P
    R_X86_64_PC32 = 2: Edge(DELTA32);
    /// G + A
    R_X86_64_GOT32 = 3: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA32_FROM_GOT);
    /// L + A - P
    R_X86_64_PLT32 = 4: Edge(BRANCH_PCREL32 + 4);
    /// A copy of a shared object's variable.
    R_X86_64_COPY = 5: Dynamic;
    /// S
    R_X86_64_GLOB_DAT = 6: Dynamic;
    /// S
    R_X86_64_JUMP_SLOT = 7: Dynamic;
    /// B + A
    R_X86_64_RELATIVE = 8: Dynamic;
    /// G + GOT + A - P
    R_X86_64_GOTPCREL = 9: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA32);
    /// S + A, zero-extended.
    R_X86_64_32 = 10: Edge(POINTER32);
    /// S + A, sign-extended.
    R_X86_64_32S = 11: Edge(POINTER32_SIGNED);
    /// S + A
    R_X86_64_16 = 12: Edge(POINTER16);
    /// S + A - P
    R_X86_64_PC16 = 13: Edge(DELTA16);
    /// S + A
    R_X86_64_8 = 14: Edge(POINTER8);
    /// S + A - P
    R_X86_64_PC8 = 15: Edge(DELTA8);
    /// The number of the file with the target.
    R_X86_64_DTPMOD64 = 16: Edge(DTPMOD64);
    /// The target's offset in its thread-local block. GCC's debug information has it.
    R_X86_64_DTPOFF64 = 17: Edge(DTPOFF64);
    /// The target's offset from the thread pointer.
    R_X86_64_TPOFF64 = 18: Edge(TPOFF64);
    /// The distance to the target's pair in the GOT, general-dynamic.
    R_X86_64_TLSGD = 19: Edge(REQUEST_TLSGD_AND_TRANSFORM_TO_DELTA32);
    /// The distance to the file's pair in the GOT, local-dynamic.
    R_X86_64_TLSLD = 20: Edge(REQUEST_TLSLD_AND_TRANSFORM_TO_DELTA32);
    /// The target's offset in its thread-local block.
    R_X86_64_DTPOFF32 = 21: Edge(DTPOFF32);
    /// The distance to the GOT entry with the offset from the thread pointer, initial-exec.
    R_X86_64_GOTTPOFF = 22: Edge(REQUEST_TLSIE_AND_TRANSFORM_TO_DELTA32);
    /// The target's offset from the thread pointer.
    R_X86_64_TPOFF32 = 23: Edge(TPOFF32);
    /// S + A - P
    R_X86_64_PC64 = 24: Edge(DELTA64);
    /// S + A - GOT
    R_X86_64_GOTOFF64 = 25: Edge(DELTA64_FROM_GOT);
    /// GOT + A - P; the record's target is `_GLOBAL_OFFSET_TABLE_`, which is GOT.
    R_X86_64_GOTPC32 = 26: Edge(DELTA32);
    /// G + A
    R_X86_64_GOT64 = 27: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA64_FROM_GOT);
    /// G + GOT + A - P
    R_X86_64_GOTPCREL64 = 28: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA64);
    /// GOT + A - P; the record's target is `_GLOBAL_OFFSET_TABLE_`, which is GOT.
    R_X86_64_GOTPC64 = 29: Edge(DELTA64);
    /// G + A, with the hint that a PLT entry is wanted too; old assemblers only.
    R_X86_64_GOTPLT64 = 30: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA64_FROM_GOT);
    /// L + A - GOT
    R_X86_64_PLTOFF64 = 31: Edge(REQUEST_PLT_AND_TRANSFORM_TO_DELTA64_FROM_GOT);
    /// Z + A
    R_X86_64_SIZE32 = 32: Edge(SIZE32);
    /// Z + A
    R_X86_64_SIZE64 = 33: Edge(SIZE64);
    /// The distance to the target's descriptor in the GOT.
    R_X86_64_GOTPC32_TLSDESC = 34: Edge(REQUEST_TLSDESC_AND_TRANSFORM_TO_DELTA32);
    /// Marks the call of a descriptor's function.
    R_X86_64_TLSDESC_CALL = 35: Edge(TLS_DESC_CALL);
    /// A descriptor.
    R_X86_64_TLSDESC = 36: Dynamic;
    /// The answer of the function at B + A.
    R_X86_64_IRELATIVE = 37: Dynamic;
    /// B + A (x32).
    R_X86_64_RELATIVE64 = 38: Dynamic;
    /// G + GOT + A - P; no prefix before the opcode.
    R_X86_64_GOTPCRELX = 41: Edge(REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_RELAXABLE + 4);
    /// G + GOT + A - P; REX prefix.
    R_X86_64_REX_GOTPCRELX = 42:
        Edge(REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX_RELAXABLE + 4);
    /// G + GOT + A - P; the instruction starts 4 bytes before P (REX2 prefix).
    R_X86_64_CODE_4_GOTPCRELX = 43:
        Edge(REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX2_RELAXABLE + 4);
    /// As GOTTPOFF; the instruction starts 4 bytes before P (REX2 prefix).
    R_X86_64_CODE_4_GOTTPOFF = 44: Edge(REQUEST_TLSIE_CODE4_AND_TRANSFORM_TO_DELTA32);
    /// As GOTPC32_TLSDESC; the instruction starts 4 bytes before P (REX2 prefix).
    R_X86_64_CODE_4_GOTPC32_TLSDESC = 45:
        Edge(REQUEST_TLSDESC_CODE4_AND_TRANSFORM_TO_DELTA32);
    /// G + GOT + A - P; the instruction starts 5 bytes before P. No such one can use the address
    /// itself, so it is an ordinary request.
    R_X86_64_CODE_5_GOTPCRELX = 46: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA32);
    /// As GOTTPOFF; the instruction starts 5 bytes before P.
    R_X86_64_CODE_5_GOTTPOFF = 47: Edge(REQUEST_TLSIE_CODE5_AND_TRANSFORM_TO_DELTA32);
    /// As GOTPC32_TLSDESC; the instruction starts 5 bytes before P.
    R_X86_64_CODE_5_GOTPC32_TLSDESC = 48:
        Edge(REQUEST_TLSDESC_CODE5_AND_TRANSFORM_TO_DELTA32);
    /// G + GOT + A - P; the instruction starts 6 bytes before P (EVEX prefix): arithmetic, which
    /// could take an absolute address at best, so it is an ordinary request.
    R_X86_64_CODE_6_GOTPCRELX = 49: Edge(REQUEST_GOT_AND_TRANSFORM_TO_DELTA32);
    /// As GOTTPOFF; the instruction starts 6 bytes before P (EVEX prefix).
    R_X86_64_CODE_6_GOTTPOFF = 50: Edge(REQUEST_TLSIE_CODE6_AND_TRANSFORM_TO_DELTA32);
    /// As GOTPC32_TLSDESC; the instruction starts 6 bytes before P.
    R_X86_64_CODE_6_GOTPC32_TLSDESC = 51:
        Edge(REQUEST_TLSDESC_CODE5_AND_TRANSFORM_TO_DELTA32);
}

/// The addend that stands in the field at the start of `place`: sign-extended, 0 for a kind
/// without field and where the field does not fit in. The map's bias is not in it.
fn implicit_addend(kind: EdgeKind, place: &[u8]) -> i64 {
    let addend = match super::edge_width(kind) {
        1 => place
            .first_chunk()
            .map(|&field| i64::from(i8::from_le_bytes(field))),
        2 => place
            .first_chunk()
            .map(|&field| i64::from(i16::from_le_bytes(field))),
        4 => place
            .first_chunk()
            .map(|&field| i64::from(i32::from_le_bytes(field))),
        8 => place.first_chunk().map(|&field| i64::from_le_bytes(field)),
        _ => None,
    };
    addend.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ELF, implicit_addend, relocation};
    use crate::FixupContext;
    use crate::arch::ElfRelocation;
    use crate::x86_64::{ARCH, kind};
    use clinch_graph::{Edge, EdgeKind, Id, SymbolId};

    #[test]
    fn every_number_of_the_psabi_is_known() {
        for number in 0..=51 {
            // 39 and 40 belonged to MPX and are gone.
            let exists = !matches!(number, 39 | 40);
            let meaning = ELF.relocation(number);
            assert_eq!(meaning != ElfRelocation::Unknown, exists, "{number}");
            assert_eq!((ELF.relocation_name)(number).is_some(), exists, "{number}");
            if let ElfRelocation::Edge { kind, .. } = meaning {
                assert!(ARCH.edge(kind).is_some(), "{number}");
            }
        }
        assert_eq!(ELF.relocation(52), ElfRelocation::Unknown);
        assert_eq!(ELF.relocation(u32::MAX), ElfRelocation::Unknown);
    }

    #[test]
    fn names_are_the_specifications() {
        assert_eq!((ELF.relocation_name)(2), Some("R_X86_64_PC32"));
        assert_eq!((ELF.relocation_name)(42), Some("R_X86_64_REX_GOTPCRELX"));
        assert_eq!(
            (ELF.relocation_name)(relocation::R_X86_64_CODE_6_GOTPC32_TLSDESC),
            Some("R_X86_64_CODE_6_GOTPC32_TLSDESC")
        );
    }

    #[test]
    fn what_only_a_dynamic_linker_reads() {
        let dynamic: Vec<u32> = (0..=60)
            .filter(|&n| ELF.relocation(n) == ElfRelocation::Dynamic)
            .collect();
        assert_eq!(dynamic, [5, 6, 7, 8, 36, 37, 38]);
        assert_eq!(ELF.relocation(0), ElfRelocation::KeepAlive);
    }

    #[test]
    fn only_kinds_that_count_from_the_end_of_the_field_are_biased() {
        let biased = [
            kind::BRANCH_PCREL32,
            kind::REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_RELAXABLE,
            kind::REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX_RELAXABLE,
            kind::REQUEST_GOT_AND_TRANSFORM_TO_PCREL32_GOT_LOAD_REX2_RELAXABLE,
        ];
        for number in 0..=51 {
            if let ElfRelocation::Edge { kind, bias } = ELF.relocation(number) {
                assert_eq!(bias, if biased.contains(&kind) { 4 } else { 0 }, "{number}");
            }
        }
    }

    #[test]
    fn every_number_is_found_again_from_its_kind() {
        // Of the numbers that mean one kind the oldest is written; by psABI, "Relocation Types".
        let others = [(26, 2), (29, 24), (30, 27), (46, 9), (49, 9), (51, 48)];
        for number in 0..=51 {
            let (kind, bias) = match ELF.relocation(number) {
                ElfRelocation::Edge { kind, bias } => (kind, bias),
                ElfRelocation::KeepAlive => (EdgeKind::KEEP_ALIVE, 0),
                ElfRelocation::Dynamic | ElfRelocation::Unknown => continue,
            };
            let found = ELF.spelling(kind, false).unwrap();
            let other = others.iter().find(|(from, _)| *from == number);
            assert_eq!(found.number, other.map_or(number, |&(_, to)| to));
            assert_eq!((found.kind, found.bias), (kind, bias), "{number}");
        }
        let got = |kind| ELF.spelling(kind, true).unwrap().number;
        assert_eq!((got(kind::DELTA32), got(kind::DELTA64)), (26, 29));
        assert_eq!(got(kind::POINTER64), 1);
    }

    #[test]
    fn kinds_without_a_number_write_what_their_equivalents_write() {
        for (index, row) in ARCH.edges.iter().enumerate() {
            let kind = EdgeKind(EdgeKind::FIRST_RELOCATION + u8::try_from(index).unwrap());
            let Some(found) = ELF.spelling(kind, false) else {
                // Nothing says P - S, nor the 32-bit distance from the GOT.
                let none = [
                    kind::NEG_DELTA64,
                    kind::NEG_DELTA32,
                    kind::DELTA32_FROM_GOT,
                    kind::REQUEST_TLVP_AND_TRANSFORM_TO_PCREL32_TLVP_LOAD_REX_RELAXABLE,
                ];
                assert!(none.contains(&kind), "{}", row.name);
                continue;
            };
            let ElfRelocation::Edge { kind: means, bias } = ELF.relocation(found.number) else {
                panic!("{}", row.name);
            };
            // The two edges write the same bytes for the same record.
            let write = |kind, bias: i64| {
                let edge = Edge {
                    offset: 4,
                    kind,
                    target: SymbolId::from_index(0),
                    addend: 0x1_0000 + bias,
                };
                let context = FixupContext {
                    addresses: &[0x0200_0000],
                    size_of: &|_| 0,
                    got: 0,
                    tls: None,
                };
                let mut bytes = vec![0; 16];
                (ARCH.apply)(&context, 0x0100_0000, &[edge], &mut bytes).map(|()| bytes)
            };
            if kind != means {
                assert_eq!(write(kind, found.bias), write(means, bias), "{}", row.name);
                assert!(write(kind, found.bias).is_ok());
            }
        }
    }

    #[test]
    fn implicit_addends_are_sign_extended() {
        let place = [0xfc, 0xff, 0xff, 0xff, 0x01, 0, 0, 0x80, 0xee];
        assert_eq!(implicit_addend(kind::POINTER8, &place), -4);
        assert_eq!(implicit_addend(kind::DELTA16, &place), -4);
        assert_eq!(implicit_addend(kind::POINTER32, &place), -4);
        assert_eq!(
            implicit_addend(kind::POINTER64, &place),
            -0x7fff_fffe_0000_0004
        );
        assert_eq!(implicit_addend(kind::TLS_DESC_CALL, &place), 0);
        assert_eq!(implicit_addend(EdgeKind::KEEP_ALIVE, &place), 0);
        assert_eq!(implicit_addend(kind::POINTER32, &place[..3]), 0);
    }
}
