//! A graph as a relocatable object: the inverse of [`super::object`], top to bottom. Read this
//! first.
//!
//! Reading what was written gives a graph of the same meaning, with what ELF has no word for said
//! in the words it has, or an error. Left out is only what makes no program wrong: that a section
//! may become read-only after relocation when its name does not say so, or that its memory is
//! needed for a while only.
//!
//! - `sections` joins the blocks of each section, in id order, at the offsets that their
//!   alignments give: what was split fits together again.
//! - `relocation` finds a record for each edge. Distances inside a section for which ELF has no
//!   relocation are values that are known already.
//! - `group` and `symbols` number what records and tables refer to: local symbols come first.
//! - `file` puts it all one behind the other.
//!
//! The bytes depend on the graph alone. They are bounded by what the graph holds: sections that
//! share bytes of an input are refused, and what is all zero has a bound.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod error;
mod file;
mod group;
mod names;
mod relocation;
mod sections;
mod symbols;

pub use error::WriteError;

use self::relocation::Relocations;
use self::sections::Sections;
use self::symbols::Symbols;
use super::raw::Format;
use clinch_graph::{Addressable, LinkGraph, SymbolId};
use clinch_target::Arch;

/// The graph as a relocatable object for `arch`, which must be the graph's architecture. The graph
/// must be sound, as [`verify`](clinch_graph::verify()) says.
///
/// # Errors
/// What ELF cannot say, by name; relocation records that cannot be decoded.
pub fn write_object(graph: &LinkGraph, arch: &Arch) -> Result<Vec<u8>, WriteError> {
    let Some(elf) = arch.elf.filter(|_| arch.graph.name == graph.target().name) else {
        return Err(WriteError::Architecture {
            graph: graph.target().name,
            arch: arch.graph.name,
        });
    };
    let format = Format {
        is_64: elf.is_64,
        endian: arch.graph.endian,
    };
    // Which sections there are, and where in them blocks lie.
    let mut sections = Sections::plan(graph, elf)?;
    let groups = group::plan(graph, &mut sections)?;
    // Records, which tell what symbols are needed. From here on sections have numbers.
    let relocations = Relocations::collect(graph, arch, elf, &sections)?;
    sections.number(groups.len(), &relocations)?;
    // From here on symbols have numbers.
    let symbols = Symbols::number(graph, &relocations, &groups)?;
    sections.renumber_significant(graph, &symbols)?;
    file::write(&file::Parts {
        graph,
        arch,
        elf,
        format,
        sections: &sections,
        groups: &groups,
        relocations: &relocations,
        symbols: &symbols,
    })
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// How messages call a symbol.
fn describe_symbol(graph: &LinkGraph, symbol: SymbolId) -> String {
    let name = graph.symbol_name(symbol);
    if !name.is_empty() {
        return text(name);
    }
    match graph.addressable(symbol) {
        Addressable::Block { block, offset } => {
            let section = text(graph.section_name(graph.block_section(block)));
            format!("without a name at {section}+{offset:#x}")
        }
        _ => "without a name".to_owned(),
    }
}
