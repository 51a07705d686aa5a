//! Named integer conversions: lossless ones that the compiler cannot see are lossless, and the
//! checked ones a reader needs. clinch runs on 64-bit hosts only.

const _: () = assert!(usize::BITS == 64, "clinch needs a 64-bit host");

/// `usize` to `u64`, lossless on our hosts.
#[inline]
pub const fn u64_of(value: usize) -> u64 {
    value as u64
}

/// `u32` to `usize`, lossless on our hosts.
#[inline]
pub const fn usize_of(value: u32) -> usize {
    value as usize
}

/// `u64` to `usize`, lossless on our hosts.
#[inline]
pub const fn usize_of_u64(value: u64) -> usize {
    value as usize
}

/// `usize` to `u32` where the caller knows that it fits; panics when it does not.
#[inline]
pub const fn u32_of(value: usize) -> u32 {
    assert!(value <= u32::MAX as usize, "a count exceeds 2^32");
    value as u32
}

/// The low 32 bits.
#[inline]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// The high 32 bits.
#[inline]
pub const fn high_u32(value: u64) -> u32 {
    (value >> 32) as u32
}

/// The bits of `value` read as signed.
#[inline]
pub const fn signed(value: u64) -> i64 {
    value as i64
}

/// The bits of `value` read as unsigned: what a signed addend adds in wrapping arithmetic.
#[inline]
pub const fn unsigned(value: i64) -> u64 {
    value as u64
}
