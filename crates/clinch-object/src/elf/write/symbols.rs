//! Which symbols the file has, in what order, and what their entries say.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::describe_symbol;
use super::error::WriteError;
use super::group::Group;
use super::relocation::Relocations;
use super::sections::Sections;
use crate::elf::raw::{shn, st};
use clinch_graph::index::int::u32_of;
use clinch_graph::{Addressable, Column, IdSet, LinkGraph, Scope, SymbolFlags, SymbolId};

/// The symbols' numbers.
#[derive(Debug)]
pub(super) struct Symbols {
    /// [`NONE`] for symbols that are not written; 0 for those that stand for the value 0.
    numbers: Column<SymbolId, u32>,
    /// All that are written, but symbol 0, in order.
    pub(super) order: Vec<SymbolId>,
    /// How many symbols stand before the first that is not local, symbol 0 among them.
    pub(super) n_locals: u32,
    /// Those that records or groups refer to.
    referenced: IdSet<SymbolId>,
    signatures: IdSet<SymbolId>,
}

const NONE: u32 = u32::MAX;

/// One entry of the symbol table, but its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) binding: u8,
    pub(super) kind: u8,
    pub(super) visibility: u8,
    pub(super) section: SectionNumber,
    pub(super) value: u64,
    pub(super) size: u64,
    /// It goes by its section's name, so it needs none.
    pub(super) is_nameless: bool,
}

/// What a symbol is defined in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SectionNumber {
    /// The section of this number.
    Section(u32),
    /// One of the numbers that mean something else.
    Special(u16),
}

impl Symbols {
    /// Numbers the symbols: local ones, then the others, each in id order.
    pub(super) fn number(
        graph: &LinkGraph,
        relocations: &Relocations,
        groups: &[Group],
    ) -> Result<Self, WriteError> {
        let mut symbols = Self {
            numbers: Column::filled(graph.n_symbols(), NONE),
            order: Vec::new(),
            n_locals: 0,
            referenced: IdSet::with_len(graph.n_symbols()),
            signatures: IdSet::default(),
        };
        for record in relocations.all() {
            symbols.referenced.insert(record.target);
        }
        for group in groups {
            symbols.referenced.insert(group.signature);
            symbols.signatures.insert(group.signature);
        }
        // What each input calls symbol 0, or a graph without inputs would, is the file's symbol 0.
        let firsts = graph
            .inputs()
            .filter_map(|(_, input)| input.symbols().get(0));
        let first = graph.symbols().next();
        let first = first.filter(|&symbol| graph.symbol_name(symbol).is_empty());
        for symbol in firsts.chain(first) {
            if is_plain_zero(graph, symbol)
                && let Some(number) = symbols.numbers.get_mut(symbol)
            {
                *number = 0;
            }
        }
        let mut others = Vec::new();
        for symbol in graph.symbols() {
            if symbols.numbers.get(symbol) == Some(&0) || !symbols.is_needed(graph, symbol) {
                continue;
            }
            if graph.symbol_flags(symbol).scope() == Scope::Local {
                symbols.order.push(symbol);
            } else {
                others.push(symbol);
            }
        }
        let most = usize::try_from(NONE)
            .unwrap_or(usize::MAX)
            .saturating_sub(2);
        if symbols.order.len().saturating_add(others.len()) > most {
            return Err(WriteError::TooLarge("the number of symbols is"));
        }
        symbols.n_locals = u32_of(symbols.order.len() + 1);
        symbols.order.append(&mut others);
        for (number, &symbol) in (1..).zip(&symbols.order) {
            if let Some(slot) = symbols.numbers.get_mut(symbol) {
                *slot = number;
            }
        }
        Ok(symbols)
    }

    /// A global symbol of what does not take part stands for a definition elsewhere, if for
    /// anything.
    fn is_needed(&self, graph: &LinkGraph, symbol: SymbolId) -> bool {
        let flags = graph.symbol_flags(symbol);
        !flags.is_discarded() || !flags.is_global() || self.referenced.contains(symbol)
    }

    /// Whether the symbol is written.
    pub(super) fn has(&self, symbol: SymbolId) -> bool {
        self.numbers
            .get(symbol)
            .is_some_and(|&number| number != NONE)
    }

    /// A symbol's number, 0 for one that is not written.
    pub(super) fn number_of(&self, symbol: SymbolId) -> u64 {
        let number = self.numbers.get(symbol).copied();
        number.filter(|&number| number != NONE).map_or(0, u64::from)
    }

    /// What a symbol's entry says.
    pub(super) fn entry(
        &self,
        graph: &LinkGraph,
        sections: &Sections,
        id: SymbolId,
        is_64: bool,
    ) -> Result<Entry, WriteError> {
        let symbol = graph.symbol(id);
        let fail = |why| WriteError::Symbol {
            symbol: describe_symbol(graph, id),
            why,
        };
        let has = |flag| symbol.flags.contains(flag);
        let (is_local, is_external) = (
            symbol.scope() == Scope::Local,
            matches!(
                symbol.base,
                Addressable::External | Addressable::Discarded | Addressable::Null
            ),
        );
        if !is_local && symbol.name.is_empty() {
            return Err(fail("a symbol without a name is local in ELF"));
        }
        let is_weak = if is_external {
            has(SymbolFlags::WEAKLY_REFERENCED)
        } else {
            has(SymbolFlags::WEAK)
        };
        let binding = match symbol.scope() {
            Scope::Local => st::LOCAL,
            _ if has(SymbolFlags::UNIQUE) && is_external && is_weak => {
                return Err(fail("ELF has no weak reference to a unique symbol"));
            }
            _ if has(SymbolFlags::UNIQUE) => st::GNU_UNIQUE,
            _ if is_weak => st::WEAK,
            _ => st::GLOBAL,
        };
        let visibility = match symbol.scope() {
            Scope::Local | Scope::Default => 0,
            Scope::Hidden => st::HIDDEN,
            Scope::Protected => st::PROTECTED,
            Scope::SideEffectsOnly => {
                return Err(fail(
                    "ELF has no symbols that are there only to be looked up",
                ));
            }
        };
        let mut kind = kind_of(&symbol.flags, symbol.base);
        let mut is_nameless = false;
        let (section, value) = match symbol.base {
            Addressable::Block { block, offset } => {
                let place = sections.of_block(graph, block);
                let (place, start) = place.ok_or_else(|| fail("its block does not exist"))?;
                is_nameless = kind == st::SECTION
                    && self.signatures.contains(id)
                    && graph.section_name(graph.block_section(block)) == symbol.name;
                let number = SectionNumber::Section(sections.number_of(place));
                // It stands for the whole section, and its records say how far its block is in it.
                let start = if kind == st::SECTION { 0 } else { start };
                (number, start.saturating_add(offset))
            }
            Addressable::Absolute(value) => {
                if is_source_file(graph, id) && !self.referenced.contains(id) {
                    kind = st::FILE;
                }
                (SectionNumber::Special(shn::ABS), value)
            }
            Addressable::Common { align } => (SectionNumber::Special(shn::COMMON), align),
            Addressable::External | Addressable::Discarded | Addressable::Null => {
                (SectionNumber::Special(shn::UNDEF), 0)
            }
        };
        // Of what does not take part nothing has a size.
        let size = match symbol.base {
            Addressable::Discarded => 0,
            _ => symbol.size,
        };
        if !is_64 && value.max(size) > u64::from(u32::MAX) {
            return Err(fail("its value or size does not fit 32 bits"));
        }
        Ok(Entry {
            binding,
            kind,
            visibility,
            section,
            value,
            size,
            is_nameless,
        })
    }
}

/// The type: the reader's table turned round. Of flags that no type says together the first
/// counts.
fn kind_of(flags: &SymbolFlags, base: Addressable) -> u8 {
    let has = |flag| flags.contains(flag);
    match base {
        // The reader takes every common symbol for an object, whatever its type.
        Addressable::Common { .. } if has(SymbolFlags::CALLABLE) && !has(SymbolFlags::IFUNC) => {
            st::FUNC
        }
        _ if has(SymbolFlags::TLS) => st::TLS,
        _ if has(SymbolFlags::IFUNC) => st::GNU_IFUNC,
        _ if has(SymbolFlags::SECTION) => st::SECTION,
        _ if has(SymbolFlags::CALLABLE) => st::FUNC,
        _ if has(SymbolFlags::OBJECT) => st::OBJECT,
        _ => st::NOTYPE,
    }
}

/// What the reader makes of the name of a source file.
fn is_source_file(graph: &LinkGraph, symbol: SymbolId) -> bool {
    is_plain_zero(graph, symbol) && !graph.symbol_name(symbol).is_empty()
}

/// A local symbol of value 0 of which nothing more is said.
fn is_plain_zero(graph: &LinkGraph, symbol: SymbolId) -> bool {
    const SAYS: SymbolFlags = SymbolFlags::CALLABLE
        .union(SymbolFlags::TLS)
        .union(SymbolFlags::OBJECT)
        .union(SymbolFlags::IFUNC)
        .union(SymbolFlags::SECTION)
        .union(SymbolFlags::WEAK)
        .union(SymbolFlags::UNIQUE);
    let flags = graph.symbol_flags(symbol);
    graph.addressable(symbol) == Addressable::Absolute(0)
        && flags.scope() == Scope::Local
        && !flags.intersects(SAYS)
        && graph.symbol_size(symbol) == 0
}
