//! Applies the edges of one block: the transcription of the list in `edges.rs`. This is the
//! hottest loop of a link, so it has one match and no other dispatch, and allocates nothing.

use super::edges::Kind;
use crate::edge_table::Field;
use crate::fixup::{FixupContext, FixupError, FixupErrorKind};
use clinch_graph::index::int::{signed, unsigned, usize_of};
use clinch_graph::{Edge, EdgeKind, Id};

/// Applies `edges` to the block that lies at `place` and has the content `bytes`. The first edge
/// that cannot be applied ends it; those before it are written.
///
/// # Panics
/// When the context has no address for an edge's target.
pub(super) fn apply(
    context: &FixupContext<'_>,
    place: u64,
    edges: &[Edge],
    bytes: &mut [u8],
) -> Result<(), FixupError> {
    for edge in edges {
        if let Err(kind) = apply_edge(context, place, edge, bytes) {
            return Err(FixupError { edge: *edge, kind });
        }
    }
    Ok(())
}

#[inline]
fn apply_edge(
    context: &FixupContext<'_>,
    place: u64,
    edge: &Edge,
    bytes: &mut [u8],
) -> Result<(), FixupErrorKind> {
    let Some(kind) = Kind::of(edge.kind) else {
        return if edge.kind == EdgeKind::KEEP_ALIVE {
            Ok(())
        } else {
            Err(FixupErrorKind::Unresolved)
        };
    };
    // S + A and P, the letters of the psABI.
    let sa = context.addresses[edge.target.index()].wrapping_add(unsigned(edge.addend));
    let p = place.wrapping_add(u64::from(edge.offset));
    let at = usize_of(edge.offset);
    match kind {
        Kind::Pointer64 => write(bytes, at, sa.to_le_bytes()),
        Kind::Pointer32 => write_u32(bytes, at, sa),
        Kind::Pointer32Signed => write_i32(bytes, at, sa),
        Kind::Pointer16 => write_word16(bytes, at, sa),
        Kind::Pointer8 => write_word8(bytes, at, sa),
        Kind::Delta64 => write(bytes, at, sa.wrapping_sub(p).to_le_bytes()),
        Kind::Delta32 => write_i32(bytes, at, sa.wrapping_sub(p)),
        Kind::Delta16 => write_i16(bytes, at, sa.wrapping_sub(p)),
        Kind::Delta8 => write_i8(bytes, at, sa.wrapping_sub(p)),
        Kind::NegDelta64 => write(bytes, at, neg_delta(context, edge, p).to_le_bytes()),
        Kind::NegDelta32 => write_i32(bytes, at, neg_delta(context, edge, p)),
        Kind::Delta64FromGOT => write(bytes, at, sa.wrapping_sub(context.got).to_le_bytes()),
        Kind::Delta32FromGOT => write_i32(bytes, at, sa.wrapping_sub(context.got)),
        Kind::Size64 => write(bytes, at, size(context, edge).to_le_bytes()),
        Kind::Size32 => write_u32(bytes, at, size(context, edge)),
        Kind::PCRel32
        | Kind::BranchPCRel32
        | Kind::BranchPCRel32ToPtrJumpStub
        | Kind::BranchPCRel32ToPtrJumpStubBypassable
        | Kind::PCRel32GOTLoadRelaxable
        | Kind::PCRel32GOTLoadREXRelaxable
        | Kind::PCRel32GOTLoadREX2Relaxable
        | Kind::PCRel32TLVPLoadREXRelaxable => {
            write_i32(bytes, at, sa.wrapping_sub(p.wrapping_add(4)))
        }
        Kind::TPOff32 => write_i32(bytes, at, tp_offset(context, sa)?),
        Kind::TPOff64 => write(bytes, at, tp_offset(context, sa)?.to_le_bytes()),
        Kind::DTPOff32 => write_i32(bytes, at, dtp_offset(context, sa)?),
        Kind::DTPOff64 => write(bytes, at, dtp_offset(context, sa)?.to_le_bytes()),
        Kind::DTPMod64 => field::<8>(bytes, at).map(|_| ()),
        Kind::TLSDescCall => Ok(()),
        Kind::RequestGOTAndTransformToDelta32
        | Kind::RequestGOTAndTransformToDelta64
        | Kind::RequestGOTAndTransformToDelta32FromGOT
        | Kind::RequestGOTAndTransformToDelta64FromGOT
        | Kind::RequestGOTAndTransformToPCRel32GOTLoadRelaxable
        | Kind::RequestGOTAndTransformToPCRel32GOTLoadREXRelaxable
        | Kind::RequestGOTAndTransformToPCRel32GOTLoadREX2Relaxable
        | Kind::RequestPLTAndTransformToDelta64FromGOT
        | Kind::RequestTLSGDAndTransformToDelta32
        | Kind::RequestTLSLDAndTransformToDelta32
        | Kind::RequestTLSIEAndTransformToDelta32
        | Kind::RequestTLSIECode4AndTransformToDelta32
        | Kind::RequestTLSIECode5AndTransformToDelta32
        | Kind::RequestTLSIECode6AndTransformToDelta32
        | Kind::RequestTLSDescAndTransformToDelta32
        | Kind::RequestTLSDescCode4AndTransformToDelta32
        | Kind::RequestTLSDescCode5AndTransformToDelta32
        | Kind::RequestTLVPAndTransformToPCRel32TLVPLoadREXRelaxable => {
            Err(FixupErrorKind::Unresolved)
        }
    }
}

/// P - S + A: here the addend goes with the place, not with the target.
#[inline]
fn neg_delta(context: &FixupContext<'_>, edge: &Edge, p: u64) -> u64 {
    let s = context.addresses[edge.target.index()];
    p.wrapping_sub(s).wrapping_add(unsigned(edge.addend))
}

fn size(context: &FixupContext<'_>, edge: &Edge) -> u64 {
    (context.size_of)(edge.target).wrapping_add(unsigned(edge.addend))
}

#[inline]
fn dtp_offset(context: &FixupContext<'_>, sa: u64) -> Result<u64, FixupErrorKind> {
    let block = context.tls.ok_or(FixupErrorKind::NoThreadBlock)?;
    Ok(sa.wrapping_sub(block.image))
}

#[inline]
fn tp_offset(context: &FixupContext<'_>, sa: u64) -> Result<u64, FixupErrorKind> {
    let block = context.tls.ok_or(FixupErrorKind::NoThreadOffset)?;
    let offset = block.tp_offset.ok_or(FixupErrorKind::NoThreadOffset)?;
    Ok(sa.wrapping_sub(block.image).wrapping_add(unsigned(offset)))
}

#[inline]
fn field<const N: usize>(bytes: &mut [u8], at: usize) -> Result<&mut [u8; N], FixupErrorKind> {
    bytes
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut())
        .ok_or(FixupErrorKind::OutsideBlock)
}

#[inline]
fn write<const N: usize>(
    bytes: &mut [u8],
    at: usize,
    value: [u8; N],
) -> Result<(), FixupErrorKind> {
    *field(bytes, at)? = value;
    Ok(())
}

#[inline]
fn write_u32(bytes: &mut [u8], at: usize, value: u64) -> Result<(), FixupErrorKind> {
    match u32::try_from(value) {
        Ok(value) => write(bytes, at, value.to_le_bytes()),
        Err(_) => Err(out_of_range(i128::from(value), Field::UINT32)),
    }
}

#[inline]
fn write_i32(bytes: &mut [u8], at: usize, value: u64) -> Result<(), FixupErrorKind> {
    match i32::try_from(signed(value)) {
        Ok(value) => write(bytes, at, value.to_le_bytes()),
        Err(_) => Err(out_of_range(i128::from(signed(value)), Field::INT32)),
    }
}

fn write_i16(bytes: &mut [u8], at: usize, value: u64) -> Result<(), FixupErrorKind> {
    match i16::try_from(signed(value)) {
        Ok(value) => write(bytes, at, value.to_le_bytes()),
        Err(_) => Err(out_of_range(i128::from(signed(value)), Field::INT16)),
    }
}

fn write_i8(bytes: &mut [u8], at: usize, value: u64) -> Result<(), FixupErrorKind> {
    match i8::try_from(signed(value)) {
        Ok(value) => write(bytes, at, value.to_le_bytes()),
        Err(_) => Err(out_of_range(i128::from(signed(value)), Field::INT8)),
    }
}

fn write_word16(bytes: &mut [u8], at: usize, value: u64) -> Result<(), FixupErrorKind> {
    match u16::try_from(value) {
        Ok(value) => write(bytes, at, value.to_le_bytes()),
        Err(_) => write_i16(bytes, at, value).map_err(|e| widened(e, Field::WORD16)),
    }
}

fn write_word8(bytes: &mut [u8], at: usize, value: u64) -> Result<(), FixupErrorKind> {
    match u8::try_from(value) {
        Ok(value) => write(bytes, at, value.to_le_bytes()),
        Err(_) => write_i8(bytes, at, value).map_err(|e| widened(e, Field::WORD8)),
    }
}

#[cold]
fn out_of_range(value: i128, field: Field) -> FixupErrorKind {
    FixupErrorKind::OutOfRange {
        value,
        min: field.min,
        max: field.max,
    }
}

/// The error with the range of the field instead of that of its signed half.
#[cold]
fn widened(error: FixupErrorKind, field: Field) -> FixupErrorKind {
    match error {
        FixupErrorKind::OutOfRange { value, .. } => out_of_range(value, field),
        other => other,
    }
}

#[cfg(test)]
mod tests;
