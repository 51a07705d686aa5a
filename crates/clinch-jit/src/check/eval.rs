//! Rules to verdicts.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::parse::{Binary, Name, Op, Program, Rule};
use clinch_graph::Endian;
use clinch_target::{Instruction, Operand};

/// A linked image as rules see it.
pub trait Image {
    /// The order of bytes in memory.
    fn endian(&self) -> Endian;

    /// Where a symbol is.
    fn symbol(&self, name: &str) -> Option<Location>;

    /// Where a section of a file begins.
    ///
    /// # Errors
    /// Why that is not known.
    fn section(&self, file: &str, section: &str) -> Result<Location, String>;

    /// Where a file's GOT entry for a symbol is.
    ///
    /// # Errors
    /// Why that is not known.
    fn got(&self, file: &str, symbol: &str) -> Result<Location, String>;

    /// Where a file's stub for a symbol is; `kind` picks among several.
    ///
    /// # Errors
    /// Why that is not known.
    fn stub(&self, file: &str, symbol: &str, kind: Option<&str>) -> Result<Location, String>;

    /// Fills `bytes` from where the linker keeps the image; answers whether all of them are
    /// there.
    fn read(&self, working: u64, bytes: &mut [u8]) -> bool;

    /// The instruction there.
    ///
    /// # Errors
    /// Why it cannot be decoded.
    fn decode(&self, working: u64) -> Result<Instruction, String>;
}

/// Where something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// Its address in the executor.
    pub target: u64,
    /// Where the linker keeps its bytes; `None` for what has none.
    pub working: Option<u64>,
}

/// What became of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It holds.
    True,
    /// It does not.
    False {
        /// The value before the `=`.
        left: u64,
        /// The value behind it.
        right: u64,
    },
    /// It cannot be evaluated.
    Error(String),
}

/// Evaluates a rule.
pub fn evaluate(rule: &Rule, image: &dyn Image) -> Outcome {
    let values = match &rule.sides {
        Ok((left, right)) => run(left, image).and_then(|left| Ok((left, run(right, image)?))),
        Err(why) => Err(why.clone()),
    };
    match values {
        Ok((left, right)) if left == right => Outcome::True,
        Ok((left, right)) => Outcome::False { left, right },
        Err(why) => Outcome::Error(why),
    }
}

fn run(program: &Program, image: &dyn Image) -> Result<u64, String> {
    // The parser makes programs that never take from an empty stack.
    let mut stack: Vec<u64> = Vec::new();
    for op in &program.0 {
        let value = match op {
            Op::Number(number) => *number,
            Op::Name { name, bytes } => {
                let location = locate(name, image)?;
                if *bytes {
                    location.working.unwrap_or(0)
                } else {
                    location.target
                }
            }
            Op::NextPc { symbol } => {
                let location = code(symbol, image)?;
                let instruction = image.decode(location.working.unwrap_or(0))?;
                location.target.wrapping_add(u64::from(instruction.length))
            }
            Op::Operand {
                symbol,
                offset,
                index,
            } => {
                let at = code(symbol, image)?.working.unwrap_or(0);
                let instruction = image.decode(at.wrapping_add(*offset))?;
                immediate(&instruction, symbol, *offset, *index)?
            }
            Op::Load(size) => load(stack.pop().unwrap_or(0), *size, image)?,
            Op::Slice { high, low } => {
                // At most all 64 bits, so no shift is out of range.
                let mask = u64::MAX >> (63 - (high - low));
                stack.pop().unwrap_or(0) >> low & mask
            }
            Op::Binary(binary) => {
                let right = stack.pop().unwrap_or(0);
                let left = stack.pop().unwrap_or(0);
                binary.apply(left, right)
            }
        };
        stack.push(value);
    }
    Ok(stack.pop().unwrap_or(0))
}

fn locate(name: &Name, image: &dyn Image) -> Result<Location, String> {
    match name {
        Name::Symbol(name) => image
            .symbol(name)
            .ok_or_else(|| format!("no known address for symbol '{name}'")),
        Name::Section { file, section } => image.section(file, section),
        Name::Got { file, symbol } => image.got(file, symbol),
        Name::Stub { file, symbol, kind } => image.stub(file, symbol, kind.as_deref()),
    }
}

/// A symbol that has bytes.
fn code(symbol: &str, image: &dyn Image) -> Result<Location, String> {
    image
        .symbol(symbol)
        .filter(|location| location.working.is_some())
        .ok_or_else(|| format!("cannot decode unknown symbol '{symbol}'"))
}

fn immediate(
    instruction: &Instruction,
    symbol: &str,
    offset: u64,
    index: u64,
) -> Result<u64, String> {
    let place = if offset == 0 {
        format!("'{symbol}'")
    } else {
        format!("'{symbol}+{offset}'")
    };
    let operands = instruction
        .operands
        .as_deref()
        .ok_or_else(|| format!("the operands of the instruction at {place} are not known"))?;
    match usize::try_from(index)
        .ok()
        .and_then(|index| operands.get(index))
    {
        Some(Operand::Immediate(value)) => Ok(value.cast_unsigned()),
        Some(Operand::Register) => Err(format!(
            "operand {index} of the instruction at {place} is not an immediate"
        )),
        None => Err(format!(
            "invalid operand index {index}: the instruction at {place} has only {} operands",
            operands.len()
        )),
    }
}

fn load(address: u64, size: usize, image: &dyn Image) -> Result<u64, String> {
    if address == 0 {
        return Ok(0);
    }
    let mut bytes = [0; 8];
    let Some(part) = bytes.get_mut(..size) else {
        return Err(format!("cannot load {size} bytes"));
    };
    if !image.read(address, part) {
        return Err(format!("nothing to load at {address:#x}"));
    }
    if image.endian() == Endian::Big {
        part.reverse();
    }
    Ok(u64::from_le_bytes(bytes))
}

impl Binary {
    fn apply(self, left: u64, right: u64) -> u64 {
        // Shifting everything out leaves nothing.
        let distance = u32::try_from(right).unwrap_or(u32::MAX);
        match self {
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::And => left & right,
            Self::Or => left | right,
            Self::ShiftLeft => left.checked_shl(distance).unwrap_or(0),
            Self::ShiftRight => left.checked_shr(distance).unwrap_or(0),
        }
    }
}
