//! Provenance: who brought an entity and who changed it last. What an id range implies is not
//! stored.

use crate::graph::LinkGraph;
use crate::ids::{BlockId, InputId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::index::int::{u32_of, usize_of};
use std::sync::Arc;

/// A section, block or symbol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entity {
    /// A section.
    Section(SectionId),
    /// A block.
    Block(BlockId),
    /// A symbol.
    Symbol(SymbolId),
}

/// A step that made or changed entities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The step's or phase's name.
    pub name: &'static str,
    /// The plugin that acted in it.
    pub plugin: Option<Arc<str>>,
}

/// Where an entity comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin<'g> {
    /// The input that brought it; the linker itself for what a step made.
    pub input: InputId,
    /// The step that made it, when it was not read from an input.
    pub made_by: Option<&'g Step>,
    /// The step that changed it last.
    pub changed_by: Option<&'g Step>,
}

/// The steps so far, with the first ids that each could make, and the last changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Provenance {
    steps: Vec<(Step, [usize; 3])>,
    /// Per kind of entity, by index: the number of the step plus one, 0 for none.
    changed: [Sparse; 3],
}

/// Numbers by index that are 0 but for some: a step changes most of a few stretches, and nothing
/// else.
#[derive(Clone, Debug, Default)]
struct Sparse {
    pages: Vec<Option<Box<[u32; Self::PAGE]>>>,
}

impl Sparse {
    const PAGE: usize = 1024;

    fn get(&self, index: usize) -> u32 {
        match self.pages.get(index / Self::PAGE) {
            Some(Some(page)) => page[index % Self::PAGE],
            _ => 0,
        }
    }

    fn set(&mut self, index: usize, value: u32) {
        let number = index / Self::PAGE;
        if number >= self.pages.len() {
            if value == 0 {
                return;
            }
            self.pages.resize(number + 1, None);
        }
        let page = self.pages[number].get_or_insert_with(|| Box::new([0; Self::PAGE]));
        page[index % Self::PAGE] = value;
    }
}

impl Entity {
    /// The entity's kind as a number, and its place among those of the kind.
    fn place(self) -> (usize, usize) {
        match self {
            Self::Section(id) => (0, id.index()),
            Self::Block(id) => (1, id.index()),
            Self::Symbol(id) => (2, id.index()),
        }
    }
}

impl LinkGraph {
    /// Opens a step: what is made or changed from now on is its work.
    pub fn begin_step(&mut self, name: &'static str, plugin: Option<Arc<str>>) {
        let firsts = [self.sections.len(), self.blocks.len(), self.symbols.len()];
        self.provenance.steps.push((Step { name, plugin }, firsts));
    }

    /// Where an entity comes from.
    pub fn origin(&self, entity: Entity) -> Origin<'_> {
        let (column, index) = entity.place();
        let input = match entity {
            Entity::Section(id) => self.section_input(id),
            Entity::Block(id) => self.block_input(id),
            Entity::Symbol(id) => self.symbol_input(id),
        };
        let steps = &self.provenance.steps;
        let made_by = (input == Self::linker_input())
            .then(|| steps.partition_point(|(_, firsts)| firsts[column] <= index))
            .and_then(|behind| behind.checked_sub(1))
            .map(|step| &steps[step].0);
        let changed_by = self
            .provenance
            .change(entity)
            .map(|step| &steps[usize_of(step)].0);
        Origin {
            input,
            made_by,
            changed_by,
        }
    }

    pub(crate) fn note_change(&mut self, entity: Entity) {
        if let Some(last) = self.provenance.steps.len().checked_sub(1) {
            self.provenance.set_change(entity, Some(u32_of(last)));
        }
    }
}

impl Provenance {
    pub(crate) fn n_steps(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn last_step(&self) -> Option<Step> {
        self.steps.last().map(|(step, _)| step.clone())
    }

    pub(crate) fn truncate_steps(&mut self, n_steps: usize) {
        self.steps.truncate(n_steps);
    }

    /// The number of the step that changed an entity last.
    pub(crate) fn change(&self, entity: Entity) -> Option<u32> {
        let (kind, index) = entity.place();
        self.changed[kind].get(index).checked_sub(1)
    }

    pub(crate) fn set_change(&mut self, entity: Entity, step: Option<u32>) {
        let (kind, index) = entity.place();
        self.changed[kind].set(index, step.map_or(0, |step| step + 1));
    }
}

#[cfg(test)]
mod tests;
