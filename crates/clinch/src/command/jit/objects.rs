//! Objects as files: what they define and whether they have initializers, asked of those too that
//! no link takes in.

use clinch_graph::index::int::usize_of_u64;
use clinch_object::ReadError;
use clinch_object::elf::raw::{Format, Header, RawSymbol, name_at, shn, sht, st};
use std::ops::Range;

/// A symbol with where its fields are in the file.
pub(super) struct Entry<'d> {
    pub(super) name: &'d [u8],
    pub(super) symbol: RawSymbol,
    /// Where `st_info` is.
    pub(super) info: usize,
    /// Where `st_shndx` is.
    pub(super) section: Range<usize>,
}

impl Entry<'_> {
    /// Whether it defines a name for other objects.
    pub(super) fn is_global_definition(&self) -> bool {
        self.symbol.binding() != st::LOCAL && self.symbol.section != shn::UNDEF
    }

    /// Whether it gives way to another definition.
    pub(super) fn is_weak(&self) -> bool {
        matches!(self.symbol.binding(), st::WEAK | st::GNU_UNIQUE)
    }

    /// Whether it is a tentative definition.
    pub(super) fn is_common(&self) -> bool {
        self.symbol.section == shn::COMMON
    }
}

/// The named symbols of an object.
pub(super) fn symbols(object: &[u8]) -> Result<Vec<Entry<'_>>, ReadError> {
    let header = Header::parse(object)?;
    let format = header.format;
    let sections = header.sections(object);
    let mut entries = Vec::new();
    for (_, section) in sections.iter().filter(|(_, s)| s.kind == sht::SYMTAB) {
        let names = sections
            .need("symbol table", u64::from(section.link))?
            .data(object, "symbol names")?;
        let data = section.data(object, "symbol table")?;
        let start = usize_of_u64(section.offset);
        for (index, raw) in data.chunks_exact(format.symbol_size()).enumerate() {
            let Some(symbol) = RawSymbol::parse(format, raw) else {
                continue;
            };
            let Some(name) = name_at(names, symbol.name).filter(|name| !name.is_empty()) else {
                continue;
            };
            let at = start + index * format.symbol_size();
            let (info, section) = fields(format);
            entries.push(Entry {
                name,
                symbol,
                info: at + info,
                section: at + section..at + section + size_of::<u16>(),
            });
        }
    }
    Ok(entries)
}

/// The offsets of `st_info` and `st_shndx` in a symbol.
fn fields(format: Format) -> (usize, usize) {
    if format.is_64 { (4, 6) } else { (12, 14) }
}

/// Whether an object has functions to run at start.
pub(super) fn has_initializers(object: &[u8]) -> bool {
    let Ok(header) = Header::parse(object) else {
        return false;
    };
    let sections = header.sections(object);
    let names = sections.need("section names", header.names);
    let names = names.and_then(|section| section.data(object, "section names"));
    let names = names.unwrap_or_default();
    sections.iter().any(|(_, section)| {
        matches!(section.kind, sht::INIT_ARRAY | sht::PREINIT_ARRAY)
            || name_at(names, section.name).is_some_and(|name| {
                name == b".init" || name == b".ctors" || name.starts_with(b".ctors.")
            })
    })
}
