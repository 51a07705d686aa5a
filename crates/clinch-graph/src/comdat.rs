//! COMDAT groups: sections of which one copy stays, whole.

use crate::ids::{InputId, SymbolId};

/// Which of several groups of one signature stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Selection {
    /// Any one; clinch takes the first.
    #[default]
    Any,
    /// There may be one only.
    NoDuplicates,
    /// Any one, but all must have the same size.
    SameSize,
    /// Any one, but all must have the same content.
    ExactMatch,
    /// The largest.
    Largest,
    /// Every copy stays: a group that only ties its sections together (ELF groups without
    /// `GRP_COMDAT`).
    All,
}

impl Selection {
    /// All rules with their names in the text form.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::Any, "any"),
        (Self::NoDuplicates, "no-duplicates"),
        (Self::SameSize, "same-size"),
        (Self::ExactMatch, "exact-match"),
        (Self::Largest, "largest"),
        (Self::All, "all"),
    ];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(rule, _)| *rule == self)
            .map_or("any", |(_, name)| name)
    }
}

/// A group of one input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comdat {
    /// The symbol whose name is the group's.
    pub signature: SymbolId,
    /// The input that brought it.
    pub input: InputId,
    /// Which of several stays.
    pub selection: Selection,
}
