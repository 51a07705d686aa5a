//! The symbols of one object.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::{ElfObject, Failure, check_name, entry_offset};
use super::raw::{RawSymbol, shn, st};
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u64_of, usize_of};
use clinch_graph::{Scope, SymbolBase, SymbolFlags, SymbolPart};

/// Fills an object's part of the symbol columns.
pub(super) fn fill(object: &ElfObject, part: &mut SymbolPart<'_>) -> Result<(), Failure> {
    let bytes = part.bytes;
    let format = object.format();
    let table = bytes.get(object.symbols.clone()).unwrap_or(&[]);
    let names = bytes.get(object.strings.clone()).unwrap_or(&[]);
    let size = format.symbol_size();
    let large = object.elf.large_common;
    for (index, raw) in table.chunks_exact(size).enumerate() {
        let at = entry_offset(&object.symbols, index, size);
        let Some(symbol) = RawSymbol::parse(format, raw) else {
            continue;
        };
        if index == 0 {
            // The undefined symbol: relocations against it mean the value 0.
            let flags = SymbolFlags::empty().with_scope(Scope::Local);
            part.set(0, 0, SymbolBase::Absolute(0), 0, flags);
            continue;
        }
        check_name("symbol", symbol.name, &object.strings, at)?;
        if symbol.kind() == st::FILE {
            // Names the source and stands for no place; a relocation may name it all the same.
            let flags = SymbolFlags::empty().with_scope(Scope::Local);
            part.set(index, symbol.name, SymbolBase::Absolute(0), 0, flags);
            continue;
        }
        let bad = |why| {
            let kind = ReadErrorKind::BadSymbol {
                index: u64_of(index),
                why,
            };
            Failure::from(ReadError::new(at, kind))
        };
        let flags = flags(&symbol).ok_or_else(|| bad("unknown binding"))?;
        if flags.scope() != Scope::Local && !has_name(names, symbol.name) {
            return Err(bad("a global symbol has no name"));
        }
        let section = match symbol.section {
            shn::XINDEX => object
                .extended_section(bytes, index)
                .filter(|&section| section != 0)
                .ok_or_else(|| bad("its section number is missing"))?,
            section => u32::from(section),
        };
        let (base, extent, flags) = match symbol.section {
            // Tools that take a section away leave such symbols behind. Section 0 never takes
            // part, so they are discarded.
            shn::UNDEF if flags.scope() == Scope::Local => (
                SymbolBase::Section {
                    section: 0,
                    offset: 0,
                },
                0,
                flags,
            ),
            shn::UNDEF => {
                let weak = symbol.binding() == st::WEAK;
                let mut flags = flags.difference(SymbolFlags::WEAK);
                flags.set(SymbolFlags::WEAKLY_REFERENCED, weak);
                (SymbolBase::External, symbol.size, flags)
            }
            shn::ABS => (SymbolBase::Absolute(symbol.value), symbol.size, flags),
            number if number == shn::COMMON || (number == large && large != 0) => {
                if !symbol.value.is_power_of_two() && symbol.value != 0 {
                    return Err(ReadError::new(at, ReadErrorKind::Alignment(symbol.value)).into());
                }
                let align = u32::try_from(symbol.value.max(1))
                    .map_err(|_| bad("a common symbol's alignment is above 2 GiB"))?;
                (
                    SymbolBase::Common { align },
                    symbol.size,
                    flags | SymbolFlags::OBJECT,
                )
            }
            special if special >= shn::LORESERVE && special != shn::XINDEX => {
                return Err(bad("unknown special section number"));
            }
            _ => {
                if u64::from(section) >= object.header.n_sections {
                    let kind = ReadErrorKind::NoSection {
                        what: "symbol",
                        index: u64::from(section),
                        count: object.header.n_sections,
                    };
                    return Err(ReadError::new(at, kind).into());
                }
                (
                    SymbolBase::Section {
                        section,
                        offset: symbol.value,
                    },
                    symbol.size,
                    flags,
                )
            }
        };
        part.set(index, symbol.name, base, extent, flags);
    }
    Ok(())
}

fn has_name(names: &[u8], offset: u32) -> bool {
    names.get(usize_of(offset)).is_some_and(|&first| first != 0)
}

fn flags(symbol: &RawSymbol) -> Option<SymbolFlags> {
    let mut flags = match symbol.kind() {
        st::FUNC => SymbolFlags::CALLABLE,
        st::GNU_IFUNC => SymbolFlags::CALLABLE | SymbolFlags::IFUNC,
        st::OBJECT | st::COMMON => SymbolFlags::OBJECT,
        st::TLS => SymbolFlags::TLS | SymbolFlags::OBJECT,
        st::SECTION => SymbolFlags::SECTION,
        _ => SymbolFlags::empty(),
    };
    let global = match symbol.binding() {
        st::LOCAL => false,
        st::GLOBAL => true,
        st::WEAK => {
            flags |= SymbolFlags::WEAK;
            true
        }
        st::GNU_UNIQUE => {
            flags |= SymbolFlags::WEAK | SymbolFlags::UNIQUE;
            true
        }
        _ => return None,
    };
    let scope = match symbol.visibility() {
        _ if !global => Scope::Local,
        st::INTERNAL | st::HIDDEN => Scope::Hidden,
        st::PROTECTED => Scope::Protected,
        _ => Scope::Default,
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
