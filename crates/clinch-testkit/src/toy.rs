//! An architecture for tests that are not about one, and the look-up of all architectures.

use clinch_graph::{EdgeKind, Endian, GraphTarget};

/// Writes the target's address: 8 bytes.
pub const POINTER64: EdgeKind = EdgeKind(2);
/// Writes target minus place: 4 bytes.
pub const DELTA32: EdgeKind = EdgeKind(3);
/// Asks for a GOT entry and writes the distance to it: 4 bytes.
pub const REQUEST_GOT: EdgeKind = EdgeKind(4);
/// Marks a place and writes nothing.
pub const MARK: EdgeKind = EdgeKind(5);

/// All kinds that edges of this architecture can have.
pub const KINDS: [EdgeKind; 5] = [EdgeKind::KEEP_ALIVE, POINTER64, DELTA32, REQUEST_GOT, MARK];

/// The architecture.
pub static TOY: GraphTarget = GraphTarget {
    name: "toy",
    pointer_size: 8,
    endian: Endian::Little,
    edge_kinds: &["Pointer64", "Delta32", "RequestGot", "Mark"],
    edge_width,
    is_request: |kind| kind == REQUEST_GOT,
};

/// How many bytes an edge of a kind writes.
pub fn edge_width(kind: EdgeKind) -> u8 {
    match kind {
        POINTER64 => 8,
        DELTA32 | REQUEST_GOT => 4,
        _ => 0,
    }
}

/// The architecture of this name: clinch's own, or [`TOY`].
pub fn find_target(name: &str) -> Option<&'static GraphTarget> {
    if name == TOY.name {
        return Some(&TOY);
    }
    clinch_target::arch_named(name).map(|arch| &arch.graph)
}
