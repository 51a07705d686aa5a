//! Integers of one class and byte order, one behind the other.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::raw::Format;
use clinch_graph::Endian;
use clinch_graph::index::int::{low_u32, u64_of};

/// Appends integers of one class and byte order.
#[derive(Debug)]
pub struct Writer {
    format: Format,
    /// What was written.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Nothing yet.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            bytes: Vec::new(),
        }
    }

    /// Appends a byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend(match self.format.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend(match self.format.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend(match self.format.endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        });
    }

    /// Appends an integer of the size of an address; the caller knows that it fits.
    pub fn word(&mut self, value: u64) {
        if self.format.is_64 {
            self.u64(value);
        } else {
            self.u32(low_u32(value));
        }
    }

    /// Fills up to a multiple of `align` and answers where that is.
    pub fn align(&mut self, align: u64) -> u64 {
        let align = usize::try_from(align.max(1)).unwrap_or(1);
        let len = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(len, 0);
        u64_of(len)
    }
}
