//! `-harness`: the objects of a test harness replace definitions of the objects under test, and
//! reach their static symbols. A definition that the harness has too becomes a reference, and a
//! static symbol that the harness refers to becomes global: both by rewriting the symbol tables
//! of the objects under test before they are read.

use super::objects::symbols;
use bytes::Bytes;
use clinch_graph::index::map::Set;
use clinch_object::ReadError;
use clinch_object::elf::raw::{shn, st};

/// What a harness defines and what it refers to.
#[derive(Debug, Default)]
pub(super) struct Harness {
    definitions: Set<Vec<u8>>,
    references: Set<Vec<u8>>,
}

impl Harness {
    /// Adds an object of the harness.
    pub(super) fn add(&mut self, object: &[u8]) -> Result<(), ReadError> {
        for entry in symbols(object)? {
            if entry.symbol.binding() == st::LOCAL {
                continue;
            }
            if entry.symbol.section == shn::UNDEF {
                self.references.insert(entry.name.to_vec());
            } else {
                self.definitions.insert(entry.name.to_vec());
            }
        }
        Ok(())
    }

    /// Fits an object under test to the harness.
    pub(super) fn fit(&self, object: Bytes) -> Result<Bytes, ReadError> {
        let mut new: Option<Vec<u8>> = None;
        for entry in symbols(&object)? {
            let (section, kind) = (entry.symbol.section, entry.symbol.kind());
            if section == shn::UNDEF || matches!(kind, st::SECTION | st::FILE) {
                continue;
            }
            let local = entry.symbol.binding() == st::LOCAL;
            let replaced = self.definitions.contains(entry.name);
            let promoted = local && self.references.contains(entry.name);
            if !replaced && !promoted {
                continue;
            }
            let bytes = new.get_or_insert_with(|| object.to_vec());
            if let Some(info) = bytes.get_mut(entry.info) {
                *info = (st::GLOBAL << 4) | kind;
            }
            if replaced && let Some(section) = bytes.get_mut(entry.section) {
                // Section 0 in any byte order.
                section.fill(0);
            }
        }
        Ok(new.map_or(object, Bytes::from))
    }
}
