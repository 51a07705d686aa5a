//! Operations on symbols.

use super::{GraphError, Result, check_flags, is_anonymous};
use crate::graph::LinkGraph;
use crate::ids::{BlockId, SymbolId};
use crate::origin::Entity;
use crate::symbol::{Addressable, Linkage, Scope, SymbolFlags, SymbolKind};

impl LinkGraph {
    /// Makes a defined, absolute or common symbol one that is defined elsewhere. Its block stays.
    ///
    /// # Errors
    /// A symbol that does not exist or has no name.
    pub fn make_external(&mut self, symbol: SymbolId) -> Result<()> {
        self.check_symbol(symbol)?;
        if self.symbol_name(symbol).is_empty() {
            return Err(GraphError::WrongSymbol(symbol, "named"));
        }
        self.set_base(symbol, Addressable::External, 0);
        let flags = self.flags[symbol].difference(SymbolFlags::LIVE | SymbolFlags::WEAK);
        self.flags[symbol] = flags.with_scope(Scope::Default);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Gives a symbol a fixed value.
    ///
    /// # Errors
    /// A symbol that does not exist.
    pub fn make_absolute(&mut self, symbol: SymbolId, value: u64) -> Result<()> {
        self.check_symbol(symbol)?;
        let size = self.symbol_size(symbol);
        self.set_base(symbol, Addressable::Absolute(value), size);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Defines a symbol at a place in a block, wherever it was before.
    ///
    /// # Errors
    /// A symbol or block that does not exist, or a place outside the block.
    pub fn make_defined(
        &mut self,
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: u64,
    ) -> Result<()> {
        self.check_symbol(symbol)?;
        let base = Addressable::Block { block, offset };
        self.check_base(symbol, base, size)?;
        self.set_base(symbol, base, size);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Moves a defined symbol to another place. Without a size it keeps its own, cut to the room
    /// that is left in the block.
    ///
    /// # Errors
    /// A symbol that is not defined in a block, a block that does not exist, or a place outside
    /// it.
    pub fn transfer_symbol(
        &mut self,
        symbol: SymbolId,
        block: BlockId,
        offset: u64,
        size: Option<u64>,
    ) -> Result<()> {
        self.check_symbol(symbol)?;
        if self.symbol_block(symbol).is_none() {
            return Err(GraphError::WrongSymbol(symbol, "defined in a block"));
        }
        self.check_block(block)?;
        let room = self.block_size(block).saturating_sub(offset);
        let size = size.unwrap_or_else(|| self.symbol_size(symbol).min(room));
        self.make_defined(symbol, block, offset, size)
    }

    /// Changes size and alignment of a common symbol; other symbols stay as they are.
    pub fn set_common(&mut self, symbol: SymbolId, size: u64, align: u64) {
        if self.flags[symbol].is_common() && align.is_power_of_two() {
            self.set_base(symbol, Addressable::Common { align }, size);
            self.note_change(Entity::Symbol(symbol));
        }
    }

    /// Removes a symbol; edges that target it become invalid and are the caller's to change.
    ///
    /// # Errors
    /// A symbol that does not exist.
    pub fn remove_symbol(&mut self, symbol: SymbolId) -> Result<()> {
        self.check_symbol(symbol)?;
        self.flags[symbol] = self.flags[symbol].with_kind(SymbolKind::Null);
        Ok(())
    }

    /// Renames a symbol.
    ///
    /// # Errors
    /// A symbol that does not exist, or no name for one that is not local.
    pub fn set_symbol_name(&mut self, symbol: SymbolId, name: &[u8]) -> Result<()> {
        self.check_symbol(symbol)?;
        let flags = self.flags[symbol];
        check_flags(symbol, is_anonymous(name), self.addressable(symbol), flags)?;
        self.symbols[symbol].name = self.own_name(name);
        self.flags[symbol] |= SymbolFlags::OWNED_NAME;
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Sets or clears properties that are single bits: live, callable, weakly referenced.
    pub fn set_symbol_flag(&mut self, symbol: SymbolId, flag: SymbolFlags, on: bool) {
        const ALLOWED: SymbolFlags = SymbolFlags::LIVE
            .union(SymbolFlags::CALLABLE)
            .union(SymbolFlags::OBJECT)
            .union(SymbolFlags::WEAKLY_REFERENCED);
        self.flags[symbol].set(flag.intersection(ALLOWED), on);
    }

    /// Changes who can see a symbol.
    ///
    /// # Errors
    /// A scope that does not go with the symbol.
    pub fn set_symbol_scope(&mut self, symbol: SymbolId, scope: Scope) -> Result<()> {
        self.check_symbol(symbol)?;
        self.put_flags(symbol, self.flags[symbol].with_scope(scope))
    }

    /// Changes how definitions of a symbol's name clash.
    ///
    /// # Errors
    /// Weak for a symbol that has no name or a fixed value.
    pub fn set_symbol_linkage(&mut self, symbol: SymbolId, linkage: Linkage) -> Result<()> {
        self.check_symbol(symbol)?;
        let mut flags = self.flags[symbol];
        flags.set(SymbolFlags::WEAK, linkage == Linkage::Weak);
        self.put_flags(symbol, flags)
    }

    /// Sets properties that go with the symbol's name and what it points at.
    fn put_flags(&mut self, symbol: SymbolId, flags: SymbolFlags) -> Result<()> {
        let anonymous = self.symbol_name(symbol).is_empty();
        check_flags(symbol, anonymous, self.addressable(symbol), flags)?;
        self.flags[symbol] = flags;
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }

    /// Changes how many bytes a symbol names.
    ///
    /// # Errors
    /// A symbol that does not exist, or that would end outside its block.
    pub fn set_symbol_size(&mut self, symbol: SymbolId, size: u64) -> Result<()> {
        self.check_symbol(symbol)?;
        let base = self.addressable(symbol);
        self.check_base(symbol, base, size)?;
        self.set_base(symbol, base, size);
        self.note_change(Entity::Symbol(symbol));
        Ok(())
    }
}
