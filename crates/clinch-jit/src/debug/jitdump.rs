//! The records of a jitdump file, version 1, as `perf inject --jit` reads them (Linux,
//! tools/perf/Documentation/jitdump-specification.txt). Numbers are in the byte order of the
//! machine that writes.

use super::functions::Named;
use super::lines::Lines;
use clinch_graph::Endian;
use clinch_graph::index::int::u64_of;
use clinch_object::elf::raw::Format;
use clinch_object::elf::writer::Writer;

const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const HEADER_SIZE: u32 = 40;

/// Ids of records.
const CODE_LOAD: u32 = 0;
const CODE_DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;
/// Size of what every record begins with.
const PREFIX: usize = 16;

/// Who writes, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC`, by which `perf record -k mono` orders events.
    pub(super) time: u64,
}

fn writer() -> Writer {
    Writer::new(Format {
        is_64: true,
        endian: if cfg!(target_endian = "big") {
            Endian::Big
        } else {
            Endian::Little
        },
    })
}

/// What the file begins with.
pub(super) fn header(machine: u16, stamp: Stamp) -> Vec<u8> {
    let mut writer = writer();
    writer.u32(MAGIC);
    writer.u32(VERSION);
    writer.u32(HEADER_SIZE);
    writer.u32(u32::from(machine));
    writer.u32(0);
    writer.u32(stamp.pid);
    writer.u64(stamp.time);
    writer.u64(0);
    writer.bytes
}

/// A function's code, with the lines of its addresses before it, as the format wants. `index` is
/// different for each. Empty when a record's size would not fit its field.
pub(super) fn function(
    function: &Named,
    code: &[u8],
    lines: &Lines,
    index: u64,
    stamp: Stamp,
) -> Vec<u8> {
    let Some(load) = load(function, code, index, stamp) else {
        return Vec::new();
    };
    let mut bytes = debug_info(function, lines, stamp).unwrap_or_default();
    bytes.extend(load);
    bytes
}

fn load(function: &Named, code: &[u8], index: u64, stamp: Stamp) -> Option<Vec<u8>> {
    let mut writer = writer();
    writer.u32(stamp.pid);
    writer.u32(stamp.tid);
    writer.u64(function.address);
    writer.u64(function.address);
    writer.u64(u64_of(code.len()));
    writer.u64(index);
    writer.bytes.extend_from_slice(&function.name);
    writer.u8(0);
    writer.bytes.extend_from_slice(code);
    record(CODE_LOAD, &writer.bytes, stamp)
}

fn debug_info(function: &Named, lines: &Lines, stamp: Stamp) -> Option<Vec<u8>> {
    let rows = lines.of(function.address, function.size);
    if rows.is_empty() {
        return None;
    }
    let mut writer = writer();
    writer.u64(function.address);
    writer.u64(u64_of(rows.len()));
    for row in rows {
        writer.u64(row.address);
        writer.u32(row.line);
        writer.u32(row.discriminator);
        // The format has a sign for "as before", but perf 6.1 takes it for a name.
        writer.bytes.extend_from_slice(lines.file(row));
        writer.u8(0);
    }
    record(CODE_DEBUG_INFO, &writer.bytes, stamp)
}

/// The last record.
pub(super) fn close(stamp: Stamp) -> Vec<u8> {
    record(CODE_CLOSE, &[], stamp).unwrap_or_default()
}

fn record(id: u32, content: &[u8], stamp: Stamp) -> Option<Vec<u8>> {
    let size = u32::try_from(PREFIX + content.len()).ok()?;
    let mut writer = writer();
    writer.u32(id);
    writer.u32(size);
    writer.u64(stamp.time);
    writer.bytes.extend_from_slice(content);
    Some(writer.bytes)
}
