//! What a table says of an edge kind.

use bitflags::bitflags;
use clinch_graph::EdgeKind;

/// The value an edge writes. S is the target's address, A the addend, P the place's address, G
/// the address of the GOT's base symbol, Z the target's size, TP the thread pointer, DTP the
/// start of the dylib's thread-local block. A quirk of one architecture never adds a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expr {
    /// S + A
    Absolute,
    /// S + A - P
    Relative,
    /// P - S + A
    NegRelative,
    /// Z + A
    Size,
    /// S + A - G
    FromGot,
    /// S + A - TP
    TpRelative,
    /// S + A - DTP
    DtpRelative,
    /// Nothing: a mark for relaxation.
    None,
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// How many bytes are written.
    pub width: u8,
    /// Smallest value allowed.
    pub min: i128,
    /// Largest value allowed.
    pub max: i128,
}

impl Field {
    /// Writes nothing.
    pub const NONE: Self = Self::new(0, 0, 0);
    /// 8 bits, signed.
    pub const INT8: Self = Self::new(1, i8::MIN as i128, i8::MAX as i128);
    /// 16 bits, signed.
    pub const INT16: Self = Self::new(2, i16::MIN as i128, i16::MAX as i128);
    /// 32 bits, signed.
    pub const INT32: Self = Self::new(4, i32::MIN as i128, i32::MAX as i128);
    /// 32 bits, unsigned.
    pub const UINT32: Self = Self::new(4, 0, u32::MAX as i128);
    /// 8 bits, whichever way the reader takes them.
    pub const WORD8: Self = Self::new(1, i8::MIN as i128, u8::MAX as i128);
    /// 16 bits, whichever way the reader takes them.
    pub const WORD16: Self = Self::new(2, i16::MIN as i128, u16::MAX as i128);
    /// 64 bits, whichever way the reader takes them: addresses wrap around, so every value fits.
    pub const WORD64: Self = Self::new(8, i64::MIN as i128, u64::MAX as i128);

    /// 64 bits that are reserved and not written.
    pub const MARK64: Self = Self::new(8, 0, 0);

    const fn new(width: u8, min: i128, max: i128) -> Self {
        Self { width, min, max }
    }
}

bitflags! {
    /// Further facts about an edge kind.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct EdgeFlags: u8 {
        /// A call or jump: may go through a stub.
        const BRANCH = 1;
        /// The instruction can be rewritten to do without its table entry.
        const RELAXABLE = 2;
        /// The target is a thread-local variable.
        const TLS = 4;
        /// Writes an address that only low memory has (32 bits of it).
        const LOW = 8;
    }
}

/// The table an edge asks an entry of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Table {
    /// A pointer to the target.
    Got,
    /// A stub that jumps to the target.
    Plt,
    /// A pair for `__tls_get_addr`: the module and the target's offset in it.
    TlsGd,
    /// A pair for `__tls_get_addr`: the module and 0; the target is the module.
    TlsLd,
    /// The target's offset from the thread pointer.
    TlsIe,
    /// A TLS descriptor.
    TlsDesc,
    /// A Mach-O descriptor of a thread-local variable.
    Tlv,
}

/// What an edge kind asks of the tables step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The table.
    pub table: Table,
    /// The kind the edge has once it targets the entry.
    pub becomes: EdgeKind,
}

/// One row of an architecture's table of edge kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeInfo {
    /// The name in dumps and messages.
    pub name: &'static str,
    /// The formula and the errors, in words.
    pub doc: &'static str,
    /// The value.
    pub expr: Expr,
    /// How it is written.
    pub field: Field,
    /// The table entry it asks for.
    pub request: Option<Request>,
    /// Further facts.
    pub flags: EdgeFlags,
}

/// Makes, from one list, everything an architecture says of its edge kinds: a closed enum for
/// the exhaustive match in `apply`, the module `kind` with the [`EdgeKind`] of each, the table of
/// [`EdgeInfo`] and the names. A row is the doc comment (formula, then errors), the name, the
/// constant's name, the value, the field, the flags, and for a request `Table => KIND`.
macro_rules! edge_kinds {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident, $NAME:ident = $expr:ident, $field:ident, [$($flag:ident)*]
            $(, $table:ident => $becomes:ident)?;
    )+) => {
        /// The edge kinds as a closed enum. The documentation is that of the constants in [`kind`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Kind { $($name),+ }

        impl Kind {
            /// The kind of this number; `None` for the generic kinds and unused numbers.
            #[inline]
            pub(super) const fn of(edge_kind: clinch_graph::EdgeKind) -> Option<Self> {
                match edge_kind { $(kind::$NAME => Some(Self::$name),)+ _ => None }
            }
        }

        /// The numbers of the edge kinds.
        pub mod kind {
            use super::Kind;
            use clinch_graph::EdgeKind;
            $(
                $(#[doc = $doc])+
                pub const $NAME: EdgeKind =
                    EdgeKind(EdgeKind::FIRST_RELOCATION + Kind::$name as u8);
            )+
        }

        /// What the table says of each kind.
        pub(super) const EDGES: &[crate::edge_table::EdgeInfo] = &[$(
            crate::edge_table::EdgeInfo {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                expr: crate::edge_table::Expr::$expr,
                field: crate::edge_table::Field::$field,
                request: $crate::edge_table::edge_kinds!(@request $($table, $becomes)?),
                flags: crate::edge_table::EdgeFlags::empty()
                    $(.union(crate::edge_table::EdgeFlags::$flag))*,
            }
        ),+];

        /// The name of each kind.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
    (@request) => { None };
    (@request $table:ident, $becomes:ident) => {
        Some(crate::edge_table::Request {
            table: crate::edge_table::Table::$table,
            becomes: kind::$becomes,
        })
    };
}
pub(crate) use edge_kinds;
