//! The table type of an architecture, and the registry.

use crate::edge_table::{EdgeInfo, Expr};
use crate::fixup::{FixupContext, FixupError};
use crate::instruction::{DecodeError, Instruction};
use clinch_graph::index::int::usize_of;
use clinch_graph::{Edge, EdgeKind, GraphTarget};

/// An architecture: data, and the few functions that must look at bytes.
#[derive(Debug)]
pub struct Arch {
    /// What the graph knows of it: name, pointer size, byte order, names of edge kinds.
    pub graph: GraphTarget,
    /// Size of a page in bytes.
    pub page_size: u64,
    /// The edge kinds, from [`EdgeKind::FIRST_RELOCATION`] on.
    pub edges: &'static [EdgeInfo],
    /// The kind that writes a pointer: what a GOT entry holds.
    pub pointer: EdgeKind,
    /// What the linker makes of its own.
    pub stubs: &'static Stubs,
    /// Pairs of a branch kind and the kind of the same branch to a stub that may be left out.
    pub stub_branches: &'static [(EdgeKind, EdgeKind)],
    /// How ELF spells this architecture.
    pub elf: Option<&'static ElfArch>,
    /// Applies all edges of one block that lies at `place`.
    pub apply: fn(&FixupContext<'_>, place: u64, &[Edge], &mut [u8]) -> Result<(), FixupError>,
    /// Instruction rewrites.
    pub relax: &'static Relax,
    /// Decodes the instruction at the front of the bytes, for those who look at linked code.
    /// `None` where there is no decoder.
    pub decode: Option<fn(&[u8]) -> Result<Instruction, DecodeError>>,
}

impl Arch {
    /// What the table says of an edge kind; `None` for the generic kinds and unused numbers.
    #[inline]
    pub fn edge(&self, kind: EdgeKind) -> Option<&'static EdgeInfo> {
        self.edges
            .get(usize::from(kind.0.checked_sub(EdgeKind::FIRST_RELOCATION)?))
    }

    /// The first kind, in the table's order, that writes `expr` into `width` bytes without asking
    /// for a table entry.
    pub fn kind_of(&self, expr: Expr, width: u8) -> Option<EdgeKind> {
        let index = self.edges.iter().position(|row| {
            row.expr == expr && row.field.width == width && row.request.is_none()
        })?;
        u8::try_from(index)
            .ok()?
            .checked_add(EdgeKind::FIRST_RELOCATION)
            .map(EdgeKind)
    }
}

/// Bytes with edges: a stub before it has a target.
#[derive(Debug)]
pub struct Template {
    /// The code or data.
    pub bytes: &'static [u8],
    /// Alignment in bytes.
    pub align: u64,
    /// Its edges: offset, kind and addend; the n-th goes to the n-th symbol the maker gives.
    pub edges: &'static [(u32, EdgeKind, i64)],
}

/// What the linker makes of its own for an architecture.
#[derive(Debug)]
pub struct Stubs {
    /// Jumps through a GOT entry. Symbols: the GOT entry.
    pub jump: Template,
    /// `int atexit(void (*)(void))` for one dylib: tail-calls `__cxa_atexit(f, 0, &handle)`.
    /// Symbols: the dylib's handle, `__cxa_atexit`.
    pub atexit: Template,
    /// How code that is not there yet asks for itself; `None` where nobody wrote it.
    pub reentry: Option<&'static Reentry>,
}

/// Code that a function's stub leads to until the function is linked: it asks where the function
/// is, and goes there as if it had been called. A trampoline calls `enter`, so that the address
/// behind the call tells which function is meant; `enter` keeps all registers that may hold
/// arguments.
#[derive(Debug)]
pub struct Reentry {
    /// Calls `enter`. Symbols: `enter`.
    pub trampoline: Template,
    /// Offset in the trampoline of the address that `enter` is given.
    pub return_offset: u64,
    /// Calls `resolver(context, address)`, which answers the function's address. Symbols: words
    /// with the size of the registers' state in bytes, with the context, with the resolver's
    /// address.
    pub enter: Template,
    /// The size of the registers' state on this machine; `None` where it cannot be kept.
    pub state_size: fn() -> Option<u64>,
}

/// How ELF spells an architecture.
#[derive(Debug)]
pub struct ElfArch {
    /// `e_machine`.
    pub machine: u16,
    /// Whether its files are 64-bit.
    pub is_64: bool,
    /// What each relocation number means; numbers beyond the end are unknown. A table and not a
    /// function, since it is asked for every record of every object.
    pub relocations: &'static [ElfRelocation],
    /// The numbers for edges whose target is the GOT's base, where other numbers are usual than
    /// those that mean the same kind.
    pub to_got_base: &'static [ElfSpelling],
    /// The numbers for kinds that no number means: they write the same value.
    pub equivalents: &'static [ElfSpelling],
    /// The name of a relocation number, such as `R_X86_64_PC32`.
    pub relocation_name: fn(u32) -> Option<&'static str>,
    /// Whether a dynamic linker writes the address of a symbol for a relocation number.
    pub is_dynamic_address: fn(u32) -> bool,
    /// For records without addend: the addend that stands at the place.
    pub implicit_addend: fn(EdgeKind, &[u8]) -> i64,
    /// Section type of unwind information besides `SHT_PROGBITS`, 0 for none.
    pub unwind_section_type: u32,
    /// Section flag of data outside the range of ordinary code, 0 for none.
    pub large_section_flag: u64,
    /// Section number of common symbols outside the range of ordinary code, 0 for none.
    pub large_common: u16,
}

impl ElfArch {
    /// What a relocation number means.
    #[inline]
    pub fn relocation(&self, number: u32) -> ElfRelocation {
        let known = self.relocations.get(usize_of(number));
        known.copied().unwrap_or(ElfRelocation::Unknown)
    }

    /// How an edge of this kind is written, the inverse of [`ElfArch::relocation`]: of several
    /// numbers that mean the kind the first. `None` where ELF has no number for it.
    pub fn spelling(&self, kind: EdgeKind, is_to_got_base: bool) -> Option<ElfSpelling> {
        let listed = |list: &[ElfSpelling]| list.iter().find(|row| row.kind == kind).copied();
        let usual = || {
            (0..).zip(self.relocations).find_map(|(number, meaning)| {
                let bias = match *meaning {
                    ElfRelocation::Edge { kind: means, bias } if means == kind => bias,
                    ElfRelocation::KeepAlive if kind == EdgeKind::KEEP_ALIVE => 0,
                    _ => return None,
                };
                Some(ElfSpelling { kind, number, bias })
            })
        };
        is_to_got_base
            .then(|| listed(self.to_got_base))
            .flatten()
            .or_else(usual)
            .or_else(|| listed(self.equivalents))
    }
}

/// How ELF spells an edge of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElfSpelling {
    /// The kind.
    pub kind: EdgeKind,
    /// The relocation number.
    pub number: u32,
    /// What the edge's addend has more than the record's.
    pub bias: i64,
}

/// What an ELF relocation number means to the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElfRelocation {
    /// An edge of this kind, whose addend is the record's plus `bias`.
    Edge {
        /// The kind.
        kind: EdgeKind,
        /// What to add to the record's addend.
        bias: i64,
    },
    /// Writes nothing, but keeps its target (`R_*_NONE`).
    KeepAlive,
    /// Only a dynamic linker reads it; an object must not hold it.
    Dynamic,
    /// The architecture has no such number.
    Unknown,
}

/// Instruction rewrites. Each looks at the bytes around `edges[index].offset` and either
/// rewrites them and answers the edges that now hold there, or leaves them alone.
#[derive(Debug)]
pub struct Relax {
    /// A load, call, jump or operation through the GOT (`request` kinds with `Table::Got` and
    /// [`crate::EdgeFlags::RELAXABLE`], before or after the request was granted) to direct use of
    /// the edge's target, which the caller knows to be in reach. The answer is the new edge; its
    /// target is the edge's own.
    pub got_to_direct: fn(&mut [u8], &Edge) -> Option<Edge>,
    /// A TLS access of any model to the local-exec form, for a target whose offset from the
    /// thread pointer is known when linking.
    pub tls_to_local_exec: fn(&mut [u8], &[Edge], usize) -> Option<TlsRewrite>,
}

/// What became of a TLS access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlsRewrite {
    /// The edge in place of `edges[index]`; `None` when nothing is to be written there.
    pub edge: Option<Edge>,
    /// Whether `edges[index + 1]`, the call of `__tls_get_addr`, goes away.
    pub drop_next: bool,
}

/// All architectures. Adding one adds its line here and its folder.
pub static ARCHES: &[&Arch] = &[&crate::x86_64::ARCH];

/// The architecture of this name.
pub fn arch_named(name: &str) -> Option<&'static Arch> {
    ARCHES.iter().find(|arch| arch.graph.name == name).copied()
}

/// The architecture that ELF numbers so.
pub fn elf_arch(machine: u16, is_64: bool, endian: clinch_graph::Endian) -> Option<&'static Arch> {
    ARCHES
        .iter()
        .find(|arch| {
            arch.graph.endian == endian
                && arch
                    .elf
                    .is_some_and(|elf| elf.machine == machine && elf.is_64 == is_64)
        })
        .copied()
}

/// The architecture this program runs on, when clinch has it.
pub fn host_arch() -> Option<&'static Arch> {
    arch_named(std::env::consts::ARCH)
}
