//! What decoding an instruction answers. Each architecture that can has a decoder of its own in
//! its table ([`Arch::decode`](crate::Arch::decode)).

use thiserror::Error;

/// A decoded instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// How many bytes it has.
    pub length: u8,
    /// Its operands in the order and number in which LLVM's `MCInst` has them, which is what
    /// check expressions count; `None` when only the length is known.
    pub operands: Option<Vec<Operand>>,
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A register, or the place of one that is not used.
    Register,
    /// A number as it stands in the instruction: an immediate, a displacement, the distance of a
    /// branch, a scale, a condition.
    Immediate(i64),
}

/// Why an instruction cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The bytes end inside it.
    #[error("the instruction is cut off")]
    Truncated,
    /// It has more bytes than an instruction may have.
    #[error("the instruction is too long")]
    TooLong,
    /// The decoder does not know it.
    #[error("unknown instruction: opcode {opcode:#04x} of map {map}")]
    Unknown {
        /// The table that the opcode is a number in, as the architecture counts them.
        map: u8,
        /// The opcode.
        opcode: u8,
    },
}
