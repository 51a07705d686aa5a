//! Architectures for tests: one for each class and order, all with the same few relocations.

use clinch_graph::{EdgeKind, Endian, GraphTarget};
use clinch_target::{Arch, ElfArch, ElfRelocation, Relax, Stubs, Template, arch_named, elf_arch};

/// `e_machine` of all of them.
pub(crate) const MACHINE: u16 = 0xfe42;
/// Section type of unwind information.
pub(crate) const UNWIND: u32 = 0x7000_0042;
/// Section flag of large data.
pub(crate) const LARGE: u64 = 0x2000_0000;

/// Relocation 1: 4 bytes.
pub(crate) const WORD32: EdgeKind = EdgeKind(2);
/// Relocation 2: 4 bytes, with a bias of 4.
pub(crate) const DELTA32: EdgeKind = EdgeKind(3);
/// Relocation 3: 8 bytes.
pub(crate) const WORD64: EdgeKind = EdgeKind(4);
/// Relocation 4: nothing.
pub(crate) const MARK: EdgeKind = EdgeKind(5);

/// The architecture that ELF numbers so: one of these, or clinch's own.
pub(crate) fn find(machine: u16, is_64: bool, endian: Endian) -> Option<&'static Arch> {
    if machine != MACHINE {
        return elf_arch(machine, is_64, endian);
    }
    Some(match (is_64, endian) {
        (false, Endian::Little) => &LITTLE32,
        (false, Endian::Big) => &BIG32,
        (true, Endian::Little) => &LITTLE64,
        (true, Endian::Big) => &BIG64,
    })
}

/// What the graph knows of the architecture of this name.
pub(crate) fn target(name: &str) -> Option<&'static GraphTarget> {
    let toys = [&LITTLE32, &BIG32, &LITTLE64, &BIG64];
    let toy = toys.into_iter().find(|arch| arch.graph.name == name);
    toy.or_else(|| arch_named(name)).map(|arch| &arch.graph)
}

static LITTLE32: Arch = arch("toy32", Endian::Little, &LITTLE32_ELF);
static BIG32: Arch = arch("toy32be", Endian::Big, &BIG32_ELF);
static LITTLE64: Arch = arch("toy64", Endian::Little, &LITTLE64_ELF);
static BIG64: Arch = arch("toy64be", Endian::Big, &BIG64_ELF);

static LITTLE32_ELF: ElfArch = elf(false, addend_little);
static BIG32_ELF: ElfArch = elf(false, addend_big);
static LITTLE64_ELF: ElfArch = elf(true, addend_little);
static BIG64_ELF: ElfArch = elf(true, addend_big);

static STUBS: Stubs = Stubs {
    jump: EMPTY,
    atexit: EMPTY,
    reentry: None,
};
const EMPTY: Template = Template {
    bytes: &[],
    align: 1,
    edges: &[],
};
static RELAX: Relax = Relax {
    got_to_direct: |_, _| None,
    tls_to_local_exec: |_, _, _| None,
};

const fn arch(name: &'static str, endian: Endian, elf: &'static ElfArch) -> Arch {
    Arch {
        graph: GraphTarget {
            name,
            pointer_size: if elf.is_64 { 8 } else { 4 },
            endian,
            edge_kinds: &["Word32", "Delta32", "Word64", "Mark"],
            edge_width: |kind| match kind {
                WORD32 | DELTA32 => 4,
                WORD64 => 8,
                _ => 0,
            },
            is_request: |_| false,
        },
        page_size: 4096,
        edges: &[],
        pointer: if elf.is_64 { WORD64 } else { WORD32 },
        stubs: &STUBS,
        stub_branches: &[],
        elf: Some(elf),
        apply: |_, _, _, _| Ok(()),
        relax: &RELAX,
        decode: None,
    }
}

static RELOCATIONS: [ElfRelocation; 10] = {
    let mut table = [ElfRelocation::Unknown; 10];
    table[0] = ElfRelocation::KeepAlive;
    table[1] = ElfRelocation::Edge {
        kind: WORD32,
        bias: 0,
    };
    table[2] = ElfRelocation::Edge {
        kind: DELTA32,
        bias: 4,
    };
    table[3] = ElfRelocation::Edge {
        kind: WORD64,
        bias: 0,
    };
    table[4] = ElfRelocation::Edge {
        kind: MARK,
        bias: 0,
    };
    table[9] = ElfRelocation::Dynamic;
    table
};

const fn elf(is_64: bool, implicit_addend: fn(EdgeKind, &[u8]) -> i64) -> ElfArch {
    ElfArch {
        machine: MACHINE,
        is_64,
        relocations: &RELOCATIONS,
        to_got_base: &[],
        equivalents: &[],
        relocation_name: |number| (number == 9).then_some("R_TOY_COPY"),
        is_dynamic_address: |_| false,
        implicit_addend,
        unwind_section_type: UNWIND,
        large_section_flag: LARGE,
        large_common: 0xff02,
    }
}

fn addend_little(kind: EdgeKind, place: &[u8]) -> i64 {
    match kind {
        WORD32 | DELTA32 => place
            .first_chunk()
            .map_or(0, |raw| i32::from_le_bytes(*raw).into()),
        WORD64 => place
            .first_chunk()
            .map_or(0, |raw| i64::from_le_bytes(*raw)),
        _ => 0,
    }
}

fn addend_big(kind: EdgeKind, place: &[u8]) -> i64 {
    match kind {
        WORD32 | DELTA32 => place
            .first_chunk()
            .map_or(0, |raw| i32::from_be_bytes(*raw).into()),
        WORD64 => place
            .first_chunk()
            .map_or(0, |raw| i64::from_be_bytes(*raw)),
        _ => 0,
    }
}
