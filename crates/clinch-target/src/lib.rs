//! Architectures as tables: edge kinds with their formulas and ranges, the loop that applies
//! them, stubs, instruction rewrites, and the numbers that object formats give relocations.
//!
//! Read in this order:
//! - [`arch`]: the table type, what it consists of, and the registry of all architectures.
//! - [`edge_table`]: what a table says of an edge kind, and the macro that makes a table.
//! - [`fixup`]: what the loops over edges need and how they fail.
//! - [`instruction`]: what decoding an instruction answers.
//! - [`x86_64`]: the essay on that architecture, then its files in the order edges, fixup,
//!   stubs, relax, elf, decode. Every architecture has the same files.
//!
//! *Invariant:* nothing outside an architecture's folder, the registry and tests names an
//! architecture; generic steps ask the table. *Invariant:* every edge kind has an encoder, by an
//! exhaustive match. *Invariant:* nothing here writes outside the bytes it is given, panics on
//! their content, or rewrites an instruction that it has not recognized in full.

#![forbid(unsafe_code)]

pub mod arch;
pub mod edge_table;
pub mod fixup;
pub mod instruction;
pub mod x86_64;

pub use arch::{
    ARCHES, Arch, ElfArch, ElfRelocation, ElfSpelling, Reentry, Relax, Stubs, Template, TlsRewrite,
    arch_named, elf_arch, host_arch,
};
pub use edge_table::{EdgeFlags, EdgeInfo, Expr, Field, Request, Table};
pub use fixup::{FixupContext, FixupError, FixupErrorKind, TlsBlock};
pub use instruction::{DecodeError, Instruction, Operand};
