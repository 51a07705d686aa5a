//! Relocation records to edges: REL, RELA and CREL, decoded in place, one block at a time. The
//! word that a block keeps about its records is the number of their section header.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::ElfObject;
use super::raw::{Format, SectionHeader, sht};
use clinch_graph::index::int::{low_u32, signed, u64_of, usize_of};
use clinch_graph::{Edge, EdgeError, EdgeErrorKind, EdgeKind, EdgeRequest, EdgeSource, SymbolId};
use clinch_target::ElfRelocation;

/// One record, whatever its table's form.
#[derive(Clone, Copy, Debug)]
struct Record {
    place: u64,
    symbol: u32,
    kind: u32,
    /// `None` where the addend stands at the place.
    addend: Option<i64>,
}

impl EdgeSource for ElfObject {
    fn decode(&self, request: &EdgeRequest<'_>, out: &mut Vec<Edge>) -> Result<(), EdgeError> {
        let Some((header, table)) = self.table(request) else {
            return Err(EdgeError {
                offset: 0,
                kind: EdgeErrorKind::Truncated,
            });
        };
        let format = self.format();
        match (header.kind, format.is_64) {
            (sht::CREL, _) => self.decode_crel(request, table, header.offset, out),
            (sht::RELA, true) if format == Format::LITTLE_64 => {
                self.decode_fixed::<24>(Format::LITTLE_64, request, table, &header, rela64, out)
            }
            (sht::RELA, true) => {
                self.decode_fixed::<24>(format, request, table, &header, rela64, out)
            }
            (sht::RELA, false) => {
                self.decode_fixed::<12>(format, request, table, &header, rela32, out)
            }
            (_, true) => self.decode_fixed::<16>(format, request, table, &header, rel64, out),
            (_, false) => self.decode_fixed::<8>(format, request, table, &header, rel32, out),
        }
    }

    fn reads_content(&self, request: &EdgeRequest<'_>) -> bool {
        match self.table(request) {
            Some((header, _)) if header.kind == sht::RELA => false,
            Some((header, table)) if header.kind == sht::CREL => {
                uleb128(table, &mut 0).is_none_or(|head| head & 4 == 0)
            }
            _ => true,
        }
    }

    fn count(&self, request: &EdgeRequest<'_>) -> usize {
        let Some((header, table)) = self.table(request) else {
            return 0;
        };
        match (header.kind, self.format().is_64) {
            (sht::CREL, _) => {
                let count = uleb128(table, &mut 0).unwrap_or(0) >> 3;
                // Each record takes a byte at least.
                usize::try_from(count).map_or(0, |count| count.min(table.len()))
            }
            (sht::RELA, true) => table.len() / 24,
            (sht::RELA, false) => table.len() / 12,
            (_, true) => table.len() / 16,
            (_, false) => table.len() / 8,
        }
    }
}

impl ElfObject {
    fn table<'d>(&self, request: &EdgeRequest<'d>) -> Option<(SectionHeader, &'d [u8])> {
        let header = self
            .header
            .sections(request.bytes)
            .get(usize_of(request.table))?;
        let table = header.data(request.bytes, "relocation table").ok()?;
        Some((header, table))
    }

    #[inline(always)]
    fn decode_fixed<const N: usize>(
        &self,
        format: Format,
        request: &EdgeRequest<'_>,
        table: &[u8],
        header: &SectionHeader,
        read: impl Fn(Format, &[u8; N]) -> Option<Record>,
        out: &mut Vec<Edge>,
    ) -> Result<(), EdgeError> {
        let (records, rest) = table.as_chunks::<N>();
        out.reserve(records.len());
        let meanings = self.elf.relocations;
        for (index, raw) in records.iter().enumerate() {
            let record = read(format, raw);
            // Most records are ordinary: then few things are to be checked, and the rest of the
            // work is out of the loop's way.
            if let Some(record) = record
                && let Some(addend) = record.addend
                && let Some(&ElfRelocation::Edge { kind, bias }) =
                    meanings.get(usize_of(record.kind))
                && kind != EdgeKind::KEEP_ALIVE
                && record.symbol < request.n_symbols
                && let Some(end) = record.place.checked_add(8)
                && end <= request.size.min(u64::from(u32::MAX))
                && let Some(target) =
                    SymbolId::from_raw(request.first_symbol.wrapping_add(record.symbol))
            {
                out.push(Edge {
                    offset: low_u32(record.place),
                    kind,
                    target,
                    addend: addend.wrapping_add(bias),
                });
                continue;
            }
            match self.unusual(request, record) {
                Ok(edge) => out.push(edge),
                Err(kind) => {
                    let offset = header.offset + u64_of(index * N);
                    return Err(EdgeError { offset, kind });
                }
            }
        }
        if rest.is_empty() {
            Ok(())
        } else {
            let offset = header.offset + u64_of(records.len() * N);
            Err(EdgeError {
                offset,
                kind: EdgeErrorKind::Truncated,
            })
        }
    }

    /// CREL: a header of count, addend bit and offset shift; then a record's differences to the
    /// one before it, of which the first byte tells those that are not zero. (Proposed addition
    /// to the gABI, Compact Relocation Table.)
    fn decode_crel(
        &self,
        request: &EdgeRequest<'_>,
        table: &[u8],
        offset: u64,
        out: &mut Vec<Edge>,
    ) -> Result<(), EdgeError> {
        let mut cursor = 0;
        let truncated = |cursor| EdgeError {
            offset: offset + u64_of(cursor),
            kind: EdgeErrorKind::Truncated,
        };
        let head = uleb128(table, &mut cursor).ok_or_else(|| truncated(cursor))?;
        let (count, has_addend, shift) = (head >> 3, head & 4 != 0, head & 3);
        let flag_bits = if has_addend { 3 } else { 2 };
        let is_64 = self.format().is_64;
        let (mut place, mut symbol, mut kind, mut addend) = (0_u64, 0_u32, 0_u32, 0_i64);
        for _ in 0..count {
            let start = cursor;
            let mut step = || -> Option<()> {
                let first = *table.get(cursor)?;
                cursor += 1;
                place = place.wrapping_add(u64::from(first >> flag_bits));
                if first >= 0x80 {
                    let more = uleb128(table, &mut cursor)? << (7 - flag_bits);
                    place = place.wrapping_add(more).wrapping_sub(0x80 >> flag_bits);
                }
                if first & 1 != 0 {
                    symbol = symbol.wrapping_add(sleb128_u32(table, &mut cursor)?);
                }
                if first & 2 != 0 {
                    kind = kind.wrapping_add(sleb128_u32(table, &mut cursor)?);
                }
                if first & 4 != 0 && has_addend {
                    addend = addend.wrapping_add(sleb128(table, &mut cursor)?);
                }
                Some(())
            };
            if step().is_none() {
                return Err(truncated(start));
            }
            if !is_64 {
                // Differences are those of the class's own integers: they wrap around earlier.
                place = u64::from(low_u32(place));
                addend = i64::from(low_u32(addend.cast_unsigned()).cast_signed());
            }
            let record = Record {
                place: place << shift,
                symbol,
                kind,
                addend: has_addend.then_some(addend),
            };
            let edge = self.edge(request, &record);
            out.push(edge.map_err(|kind| EdgeError {
                offset: offset + u64_of(start),
                kind,
            })?);
        }
        Ok(())
    }

    /// What a relocation means that is not an edge's; apart from the others, since one branch is
    /// less than a choice among many.
    #[cold]
    fn rare(&self, meaning: ElfRelocation, number: u32) -> Result<EdgeKind, EdgeErrorKind> {
        match meaning {
            ElfRelocation::Edge { kind, .. } => Ok(kind),
            ElfRelocation::KeepAlive => Ok(EdgeKind::KEEP_ALIVE),
            ElfRelocation::Dynamic => {
                let name = (self.elf.relocation_name)(number).unwrap_or("");
                Err(EdgeErrorKind::NotForObjects(number, name))
            }
            ElfRelocation::Unknown => Err(EdgeErrorKind::UnknownType(number)),
        }
    }

    /// The edge of a record near the end of its block, with an addend in place, or of a rare kind.
    #[inline(never)]
    fn unusual(
        &self,
        request: &EdgeRequest<'_>,
        record: Option<Record>,
    ) -> Result<Edge, EdgeErrorKind> {
        record
            .ok_or(EdgeErrorKind::Truncated)
            .and_then(|record| self.edge(request, &record))
    }

    #[inline]
    fn edge(&self, request: &EdgeRequest<'_>, record: &Record) -> Result<Edge, EdgeErrorKind> {
        if record.symbol >= request.n_symbols {
            return Err(EdgeErrorKind::NoSymbol(record.symbol));
        }
        let (kind, bias) = match self.elf.relocation(record.kind) {
            ElfRelocation::Edge { kind, bias } => (kind, bias),
            other => (self.rare(other, record.kind)?, 0),
        };
        let outside = || EdgeErrorKind::OutsideBlock {
            place: record.place,
            size: request.size,
        };
        let offset = if kind == EdgeKind::KEEP_ALIVE {
            // Keeping something alive has no place, and records for it may have any offset.
            u32::try_from(record.place.min(request.size)).unwrap_or(u32::MAX)
        } else {
            // Most places are far from the end, where the field's width does not matter.
            let room = request.size.checked_sub(record.place).ok_or_else(outside)?;
            if room < 8 && room < u64::from((self.arch.graph.edge_width)(kind)) {
                return Err(outside());
            }
            u32::try_from(record.place).map_err(|_| outside())?
        };
        let addend = record.addend.unwrap_or_else(|| {
            let at = request.content.get(usize_of(offset)..).unwrap_or(&[]);
            (self.elf.implicit_addend)(kind, at)
        });
        let target = SymbolId::from_raw(request.first_symbol.wrapping_add(record.symbol))
            .ok_or(EdgeErrorKind::NoSymbol(record.symbol))?;
        Ok(Edge {
            offset,
            kind,
            target,
            addend: addend.wrapping_add(bias),
        })
    }
}

#[inline]
fn rela64(format: Format, raw: &[u8; 24]) -> Option<Record> {
    let info = format.u64(raw, 8)?;
    Some(Record {
        place: format.u64(raw, 0)?,
        symbol: low_u32(info >> 32),
        kind: low_u32(info),
        addend: Some(signed(format.u64(raw, 16)?)),
    })
}

fn rela32(format: Format, raw: &[u8; 12]) -> Option<Record> {
    let info = format.u32(raw, 4)?;
    Some(Record {
        place: u64::from(format.u32(raw, 0)?),
        symbol: info >> 8,
        kind: info & 0xff,
        addend: Some(i64::from(format.u32(raw, 8)?.cast_signed())),
    })
}

fn rel64(format: Format, raw: &[u8; 16]) -> Option<Record> {
    let info = format.u64(raw, 8)?;
    Some(Record {
        place: format.u64(raw, 0)?,
        symbol: low_u32(info >> 32),
        kind: low_u32(info),
        addend: None,
    })
}

fn rel32(format: Format, raw: &[u8; 8]) -> Option<Record> {
    let info = format.u32(raw, 4)?;
    Some(Record {
        place: u64::from(format.u32(raw, 0)?),
        symbol: info >> 8,
        kind: info & 0xff,
        addend: None,
    })
}

/// An unsigned LEB128 number; bits above 64 are dropped.
pub(super) fn uleb128(bytes: &[u8], cursor: &mut usize) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0_u32);
    loop {
        let byte = *bytes.get(*cursor)?;
        *cursor += 1;
        if shift < 64 {
            value |= u64::from(byte & 0x7f) << shift;
        }
        shift = shift.saturating_add(7);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

/// A signed LEB128 number; bits above 64 are dropped.
fn sleb128(bytes: &[u8], cursor: &mut usize) -> Option<i64> {
    let start = *cursor;
    let value = uleb128(bytes, cursor)?;
    let bits = (*cursor - start) * 7;
    let last = *bytes.get(*cursor - 1)?;
    let negative = last & 0x40 != 0;
    Some(signed(if negative && bits < 64 {
        value | u64::MAX << bits
    } else {
        value
    }))
}

fn sleb128_u32(bytes: &[u8], cursor: &mut usize) -> Option<u32> {
    sleb128(bytes, cursor).map(|value| low_u32(value.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128_numbers() {
        let read = |bytes: &[u8]| uleb128(bytes, &mut 0);
        assert_eq!(read(&[0x7f]), Some(127));
        assert_eq!(read(&[0xe5, 0x8e, 0x26]), Some(624_485));
        assert_eq!(read(&[0x80]), None);
        let read = |bytes: &[u8]| sleb128(bytes, &mut 0);
        assert_eq!(read(&[0x7f]), Some(-1));
        assert_eq!(read(&[0xc0, 0xbb, 0x78]), Some(-123_456));
        assert_eq!(read(&[0x3f]), Some(63));
        assert_eq!(read(&[]), None);
    }
}
