//! The symbols of one object, and the symbols its section groups are named by.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::{ElfObject, Failure, entry_offset, outside};
use super::raw::{Format, RawSymbol, shn, st};
use super::scan::Scan;
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u64_of, usize_of};
use clinch_graph::index::map::short_hash;
use clinch_graph::{Scope, SymbolBase, SymbolFlags, SymbolPart};

/// Fills an object's part of the symbol columns, and a column of the global names' short hashes.
pub(super) fn fill(
    object: &ElfObject,
    scan: &Scan,
    part: &mut SymbolPart<'_>,
    hashes: &mut [u32],
) -> Result<(), Failure> {
    if object.format() == Format::LITTLE_64 {
        fill_as(Format::LITTLE_64, object, scan, part, hashes)
    } else {
        fill_as(object.format(), object, scan, part, hashes)
    }
}

#[inline(always)]
fn fill_as(
    format: Format,
    object: &ElfObject,
    scan: &Scan,
    part: &mut SymbolPart<'_>,
    hashes: &mut [u32],
) -> Result<(), Failure> {
    let bytes = part.bytes;
    let table = object.symbol_table(bytes);
    let names = bytes.get(object.strings.clone()).unwrap_or(&[]);
    let size = format.symbol_size();
    let n_sections = object.header.n_sections;

    // The undefined symbol: relocations against it mean the value 0.
    let local = SymbolFlags::empty().with_scope(Scope::Local);
    part.set(0, 0, SymbolBase::Absolute(0), 0, local);
    for (index, raw) in table.chunks_exact(size).enumerate().skip(1) {
        let Some(symbol) = RawSymbol::parse(format, raw) else {
            continue;
        };
        let fail = |kind| {
            let at = entry_offset(&object.symbols, index, size);
            Failure::from(ReadError::new(at, kind))
        };
        let bad = |why| {
            fail(ReadErrorKind::BadSymbol {
                index: u64_of(index),
                why,
            })
        };
        let name = names.get(usize_of(symbol.name)..).unwrap_or(&[]);
        if name.is_empty() && symbol.name != 0 {
            return Err(fail(outside("symbol", symbol.name, names.len())));
        }
        let flags = match flags(&symbol) {
            Some(flags) => flags,
            None if symbol.kind() == st::FILE => {
                // Names the source and stands for no place; a relocation may name it all the
                // same.
                part.set(index, symbol.name, SymbolBase::Absolute(0), 0, local);
                continue;
            }
            None => return Err(bad("unknown binding")),
        };
        let is_local = flags.scope() == Scope::Local;
        if !is_local {
            let len = memchr::memchr(0, name).unwrap_or(name.len());
            let name = name.get(..len).unwrap_or(&[]);
            if name.is_empty() {
                return Err(bad("a global symbol has no name"));
            }
            if let Some(hash) = hashes.get_mut(index) {
                *hash = short_hash(name);
            }
        }
        let section = symbol.section;
        if section == shn::UNDEF && !is_local {
            // Unique definitions may be merged, but references to them must find one.
            let weak = symbol.binding() == st::WEAK;
            let mut flags = flags.difference(SymbolFlags::WEAK);
            flags.set(SymbolFlags::WEAKLY_REFERENCED, weak);
            part.set(index, symbol.name, SymbolBase::External, symbol.size, flags);
        } else if section < shn::LORESERVE && u64::from(section) < n_sections {
            // Tools that take a section away leave local symbols without one behind. Section 0
            // never takes part, so they are discarded.
            let (offset, size) = if section == shn::UNDEF {
                (0, 0)
            } else {
                (symbol.value, symbol.size)
            };
            let section = u32::from(section);
            let base = SymbolBase::Section { section, offset };
            part.set(index, symbol.name, base, size, flags);
        } else {
            let (base, flags) =
                special(object, scan, bytes, (index, &symbol), flags).map_err(fail)?;
            part.set(index, symbol.name, base, symbol.size, flags);
        }
    }
    Ok(())
}

/// What a symbol is defined in whose section number is none that fits the field, or of no section.
#[cold]
fn special(
    object: &ElfObject,
    scan: &Scan,
    bytes: &[u8],
    (index, symbol): (usize, &RawSymbol),
    flags: SymbolFlags,
) -> Result<(SymbolBase, SymbolFlags), ReadErrorKind> {
    let bad = |why| ReadErrorKind::BadSymbol {
        index: u64_of(index),
        why,
    };
    let large = object.elf.large_common;
    let section = match symbol.section {
        shn::ABS => return Ok((SymbolBase::Absolute(symbol.value), flags)),
        number if number == shn::COMMON || (number == large && large != 0) => {
            if !symbol.value.is_power_of_two() && symbol.value != 0 {
                return Err(ReadErrorKind::Alignment(symbol.value));
            }
            let align = u32::try_from(symbol.value.max(1))
                .map_err(|_| bad("a common symbol's alignment is above 2 GiB"))?;
            return Ok((SymbolBase::Common { align }, flags | SymbolFlags::OBJECT));
        }
        shn::XINDEX => scan
            .extended_section(object, bytes, index)
            .filter(|&section| section != 0)
            .ok_or_else(|| bad("its section number is missing"))?,
        special if special >= shn::LORESERVE => {
            return Err(bad("unknown special section number"));
        }
        section => u32::from(section),
    };
    if u64::from(section) >= object.header.n_sections {
        return Err(ReadErrorKind::NoSection {
            what: "symbol",
            index: u64::from(section),
            count: object.header.n_sections,
        });
    }
    let offset = symbol.value;
    Ok((SymbolBase::Section { section, offset }, flags))
}

/// What an object's groups are named by.
#[derive(Debug, Default)]
pub(super) struct Signatures {
    /// Per group, in the order of their sections, the number of its symbol.
    pub(super) groups: Vec<u32>,
    /// The places among the groups of those that are not COMDAT groups: every copy stays.
    pub(super) ties: Vec<usize>,
    /// The names that section symbols without one get: the section's. (What GNU ld and gold write
    /// with `-r` for groups whose signature was a local symbol.)
    pub(super) names: Vec<(u32, Vec<u8>)>,
}

/// The signatures of an object's groups.
pub(super) fn signatures(object: &ElfObject, scan: &Scan, bytes: &[u8]) -> Signatures {
    let format = object.format();
    let size = format.symbol_size();
    let table = object.symbol_table(bytes);
    let mut signatures = Signatures::default();
    signatures.groups.reserve_exact(scan.groups.len());
    for group in &scan.groups {
        if !group.is_comdat {
            signatures.ties.push(signatures.groups.len());
        }
        signatures.groups.push(group.signature);
        let index = usize_of(group.signature);
        let raw = table.get(index * size..).unwrap_or(&[]);
        let section = RawSymbol::parse(format, raw)
            .filter(|symbol| symbol.kind() == st::SECTION && symbol.name == 0)
            .and_then(|symbol| match symbol.section {
                shn::XINDEX => scan.extended_section(object, bytes, index),
                section => Some(u32::from(section)),
            });
        let name = section.map_or(&[][..], |section| object.section_name(bytes, section));
        if !name.is_empty() {
            signatures.names.push((group.signature, name.to_vec()));
        }
    }
    signatures
}

/// What each symbol type says.
#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const OF_TYPE: [SymbolFlags; 16] = {
    let mut table = [SymbolFlags::empty(); 16];
    table[st::FUNC as usize] = SymbolFlags::CALLABLE;
    table[st::GNU_IFUNC as usize] = SymbolFlags::CALLABLE.union(SymbolFlags::IFUNC);
    table[st::OBJECT as usize] = SymbolFlags::OBJECT;
    table[st::COMMON as usize] = SymbolFlags::OBJECT;
    table[st::TLS as usize] = SymbolFlags::TLS.union(SymbolFlags::OBJECT);
    table[st::SECTION as usize] = SymbolFlags::SECTION;
    table
};

/// What each `st_info`, binding and type, says; `None` for files and unknown bindings. A table,
/// since they alternate so that no branch can be predicted.
#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
static OF_INFO: [Option<SymbolFlags>; 256] = {
    let mut table = [None; 256];
    let mut kind = 0;
    while kind < 16 {
        let of_type = OF_TYPE[kind];
        if kind != st::FILE as usize {
            let weak = of_type.union(SymbolFlags::WEAK);
            table[(st::LOCAL as usize) << 4 | kind] = Some(of_type.with_scope(Scope::Local));
            table[(st::GLOBAL as usize) << 4 | kind] = Some(of_type);
            table[(st::WEAK as usize) << 4 | kind] = Some(weak);
            table[(st::GNU_UNIQUE as usize) << 4 | kind] = Some(weak.union(SymbolFlags::UNIQUE));
        }
        kind += 1;
    }
    table
};

/// The scope of each visibility.
const OF_VISIBILITY: [Scope; 4] = [
    Scope::Default,
    Scope::Hidden,
    Scope::Hidden,
    Scope::Protected,
];

#[inline]
fn flags(symbol: &RawSymbol) -> Option<SymbolFlags> {
    let flags = (*OF_INFO.get(usize::from(symbol.info))?)?;
    let scope = if flags.scope() == Scope::Local {
        Scope::Local
    } else {
        *OF_VISIBILITY.get(usize::from(symbol.visibility()))?
    };
    Some(flags.with_scope(scope))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "a test may panic"
    )]
    use super::*;

    fn raw(binding: u8, kind: u8, other: u8) -> RawSymbol {
        RawSymbol {
            name: 0,
            info: binding << 4 | kind,
            other,
            section: 1,
            value: 0,
            size: 0,
        }
    }

    #[test]
    fn binding_and_visibility_become_linkage_and_scope() {
        let of = |binding, kind, other| flags(&raw(binding, kind, other));
        let global = of(st::GLOBAL, st::FUNC, 0).unwrap();
        assert_eq!(global.scope(), Scope::Default);
        assert!(global.contains(SymbolFlags::CALLABLE) && !global.contains(SymbolFlags::WEAK));
        assert!(
            of(st::WEAK, st::OBJECT, 0)
                .unwrap()
                .contains(SymbolFlags::WEAK)
        );
        let unique = of(st::GNU_UNIQUE, st::OBJECT, 0).unwrap();
        assert!(unique.contains(SymbolFlags::WEAK | SymbolFlags::UNIQUE));
        assert_eq!(
            of(st::GLOBAL, 0, st::HIDDEN).unwrap().scope(),
            Scope::Hidden
        );
        assert_eq!(
            of(st::GLOBAL, 0, st::INTERNAL).unwrap().scope(),
            Scope::Hidden
        );
        assert_eq!(
            of(st::GLOBAL, 0, st::PROTECTED).unwrap().scope(),
            Scope::Protected
        );
        assert_eq!(of(st::LOCAL, 0, st::HIDDEN).unwrap().scope(), Scope::Local);
        assert!(
            of(st::GLOBAL, st::GNU_IFUNC, 0)
                .unwrap()
                .contains(SymbolFlags::IFUNC)
        );
        assert!(
            of(st::GLOBAL, st::TLS, 0)
                .unwrap()
                .contains(SymbolFlags::TLS)
        );
        assert_eq!(of(5, 0, 0), None);
    }
}
