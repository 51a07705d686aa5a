//! Every id type and what it counts.

use crate::index::id::id;

id!(
    /// An input of the graph: an object file, an archive member, or the linker itself.
    InputId, "i"
);
id!(
    /// A section as an input brought it, or as a step made it.
    SectionId, "s"
);
id!(
    /// A run of bytes that stays together.
    BlockId, "b"
);
id!(
    /// A symbol, named or not; what edges point at.
    SymbolId, "$"
);
id!(
    /// A COMDAT group of one input.
    ComdatId, "c"
);
