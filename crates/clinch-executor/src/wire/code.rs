//! Values as bytes and back: fixed-width integers, byte strings and lists with a 32-bit count in
//! front.

use super::WireError;
use clinch_graph::index::int::{u32_of, usize_of};

/// Writes values behind each other.
#[derive(Debug)]
pub struct Encoder<'v> {
    out: &'v mut Vec<u8>,
}

impl<'v> Encoder<'v> {
    /// Writes at the end of `out`.
    pub fn new(out: &'v mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes without their number.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// 16 bits.
    pub fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }

    /// 32 bits.
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    /// 32 bits, signed.
    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    /// 64 bits.
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    /// Yes or no.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Bytes behind their number. More than 4 GiB do not fit, nor into any frame.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// The number of values that follow.
    pub fn count(&mut self, n: usize) {
        self.u32(u32_of(n));
    }

    /// Byte strings behind their number.
    pub fn list(&mut self, values: &[&[u8]]) {
        self.count(values.len());
        for value in values {
            self.bytes(value);
        }
    }
}

/// Reads values behind each other.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// A number of bytes.
    ///
    /// # Errors
    /// There are not as many.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A fixed number of bytes.
    ///
    /// # Errors
    /// There are not as many.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A byte.
    ///
    /// # Errors
    /// No bytes are left.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_le_bytes)
    }

    /// 16 bits.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    /// 32 bits.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    /// 32 bits, signed.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_le_bytes)
    }

    /// 64 bits.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Yes or no.
    ///
    /// # Errors
    /// Neither, or no bytes are left.
    pub fn bool(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(WireError::Value {
                what: "truth value",
                value: value.into(),
            }),
        }
    }

    /// Bytes behind their number.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let n = usize_of(self.u32()?);
        self.raw(n)
    }

    /// Text.
    ///
    /// # Errors
    /// Too few bytes are left, or they are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Text)
    }

    /// Values behind their number, each of which takes at least `least` bytes: a number that the
    /// rest cannot hold is an error before anything is allocated for it.
    ///
    /// # Errors
    /// Too few bytes are left, or what reading a value says.
    pub fn list<T>(
        &mut self,
        least: usize,
        read: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let n = usize_of(self.u32()?);
        if n > self.rest.len() / least.max(1) {
            return Err(WireError::Truncated);
        }
        let mut values = Vec::with_capacity(n);
        for _ in 0..n {
            values.push(read(self)?);
        }
        Ok(values)
    }

    /// Ends reading.
    ///
    /// # Errors
    /// Bytes are left.
    pub fn finish(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(WireError::Trailing(n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_cannot_be_true_allocates_nothing() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 16]);
        let read = Decoder::new(&bytes).list(8, Decoder::u64);
        assert_eq!(read, Err(WireError::Truncated));
        assert_eq!(Decoder::new(&bytes).bytes(), Err(WireError::Truncated));
    }

    #[test]
    fn what_is_left_over_is_an_error() {
        let mut decoder = Decoder::new(&[1, 0, 2]);
        assert_eq!(decoder.u16(), Ok(1));
        assert_eq!(decoder.finish(), Err(WireError::Trailing(1)));
        assert!(decoder.bool().is_err());
        assert_eq!(decoder.finish(), Ok(()));
    }
}
