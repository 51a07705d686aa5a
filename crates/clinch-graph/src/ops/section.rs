//! Operations on sections.

use super::{GraphError, Result};
use crate::graph::LinkGraph;
use crate::ids::SectionId;
use crate::origin::Entity;
use crate::section::{Lifetime, Memory, Prot, SectionFlags};

impl LinkGraph {
    /// Changes what a section's memory must allow.
    pub fn set_section_prot(&mut self, section: SectionId, prot: Prot) {
        let record = &mut self.sections[section];
        record.memory = Memory::new(prot, record.memory.lifetime());
        self.note_change(Entity::Section(section));
    }

    /// Changes how long a section's memory is needed.
    pub fn set_section_lifetime(&mut self, section: SectionId, lifetime: Lifetime) {
        let record = &mut self.sections[section];
        record.memory = Memory::new(record.memory.prot(), lifetime);
        self.note_change(Entity::Section(section));
    }

    /// Changes a section's place among the others in a layout.
    pub fn set_section_ordinal(&mut self, section: SectionId, ordinal: u32) {
        self.ordinals.insert(section, ordinal);
        self.note_change(Entity::Section(section));
    }

    /// Moves all blocks of `from` to `to` and removes `from`.
    ///
    /// # Errors
    /// A section that does not exist.
    pub fn merge_sections(&mut self, to: SectionId, from: SectionId) -> Result<()> {
        self.check_section(to)?;
        self.check_section(from)?;
        if to == from {
            return Ok(());
        }
        for block in self.blocks.as_mut_slice() {
            if block.section == from {
                block.section = to;
            }
        }
        self.sections[from].flags |= SectionFlags::REMOVED;
        self.note_change(Entity::Section(to));
        Ok(())
    }

    /// Removes a section without blocks.
    ///
    /// # Errors
    /// A section that does not exist, or holds a block.
    pub fn remove_section(&mut self, section: SectionId) -> Result<()> {
        self.check_section(section)?;
        if let Some(block) = self.section_blocks(section).next() {
            return Err(GraphError::SectionInUse(section, block));
        }
        self.sections[section].flags |= SectionFlags::REMOVED;
        Ok(())
    }
}
