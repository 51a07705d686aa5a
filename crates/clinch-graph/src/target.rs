//! The little that the graph must know of an architecture: it owns no table of its own.

use crate::edge::EdgeKind;

/// Byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// An architecture as the graph sees it. The architecture's table (`clinch-target`) holds one.
#[derive(Debug)]
pub struct GraphTarget {
    /// The name used in the text form and in messages, such as `x86_64`.
    pub name: &'static str,
    /// Size of an address in bytes, 4 or 8.
    pub pointer_size: u8,
    /// Byte order of data.
    pub endian: Endian,
    /// Names of the edge kinds from [`EdgeKind::FIRST_RELOCATION`] on.
    pub edge_kinds: &'static [&'static str],
    /// How many bytes an edge of a kind writes, 0 for none.
    pub edge_width: fn(EdgeKind) -> u8,
    /// Whether the kind asks for a GOT, PLT or TLS entry, which the tables step must have
    /// replaced before fixing up.
    pub is_request: fn(EdgeKind) -> bool,
}

impl GraphTarget {
    /// The name of an edge kind; `Invalid` for a number the architecture does not use.
    pub fn kind_name(&self, kind: EdgeKind) -> &'static str {
        match kind {
            EdgeKind::KEEP_ALIVE => "KeepAlive",
            EdgeKind(n) if n >= EdgeKind::FIRST_RELOCATION => self
                .edge_kinds
                .get(usize::from(n - EdgeKind::FIRST_RELOCATION))
                .unwrap_or(&"Invalid"),
            EdgeKind(_) => "Invalid",
        }
    }

    /// Whether an edge of a graph may have this kind.
    #[inline]
    pub fn has_kind(&self, kind: EdgeKind) -> bool {
        let EdgeKind(number) = kind;
        kind == EdgeKind::KEEP_ALIVE
            || number
                .checked_sub(EdgeKind::FIRST_RELOCATION)
                .is_some_and(|index| usize::from(index) < self.edge_kinds.len())
    }

    /// The edge kind of this name.
    pub fn kind_named(&self, name: &str) -> Option<EdgeKind> {
        if name == "KeepAlive" {
            return Some(EdgeKind::KEEP_ALIVE);
        }
        let index = self.edge_kinds.iter().position(|&kind| kind == name)?;
        u8::try_from(index)
            .ok()?
            .checked_add(EdgeKind::FIRST_RELOCATION)
            .map(EdgeKind)
    }
}
