//! Decodes instructions of 64-bit mode: the length of all that compilers make, and the operands
//! of those of general registers, with which check expressions look at what a linker wrote.
//!
//! The document: "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2,
//! chapter 2 (formats) and appendix A (opcode maps). An instruction is
//! ```text
//! prefixes  REX | VEX | EVEX  opcode  ModRM  SIB  displacement  immediate
//! ```
//! Three functions are the opcode maps ([`one_byte`], [`two_byte`], [`three_byte`]): what follows
//! the opcode, and the order of operands. What is not in them is refused, not guessed; so are the
//! prefixes and bits of APX, and near branches with a prefix for 16 bits, whose length depends on
//! the processor's maker.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::instruction::{DecodeError, Instruction, Operand};

/// The longest instruction that processors take.
const MAX_LENGTH: usize = 15;

/// What a map says of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    /// Whether a ModRM byte follows.
    modrm: bool,
    immediate: Immediate,
    shape: Shape,
}

/// The immediate that ends an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Immediate {
    None,
    /// 8 bits, sign-extended.
    Byte,
    /// 8 bits.
    UnsignedByte,
    /// 16 bits.
    Word,
    /// As wide as operands, but at most 32 bits, which are sign-extended for wider ones.
    Operand,
    /// The same, and operands are of 64 bits or 16.
    OperandOf64,
    /// As wide as operands.
    Full,
    /// 32 bits, whatever the operands: the distance of a branch.
    Branch,
    /// As wide as addresses.
    Address,
    /// 16 bits and 8 bits.
    WordAndByte,
}

/// The operands of an instruction. `Reg` is what ModRM names as register, `Rm` what it names as
/// register or memory; a destination that is a source as well counts twice (`Tied`), if it is a
/// register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Unknown,
    Empty,
    Imm,
    ImmCond,
    /// An address and the segment it is in.
    ImmSegment,
    /// The register that the opcode names.
    Opcode,
    OpcodeTied,
    OpcodeImm,
    Rm,
    RmTied,
    RmCond,
    RmImm,
    RmTiedImm,
    RmReg,
    RmRegImm,
    RmTiedReg,
    RmTiedRegImm,
    RegRm,
    RegRmImm,
    RegTiedRm,
    RegTiedRmCond,
    RegTiedRmImm,
}

impl Row {
    const fn plain(shape: Shape) -> Option<Self> {
        Self::with(false, Immediate::None, shape)
    }

    const fn immediate(immediate: Immediate, shape: Shape) -> Option<Self> {
        Self::with(false, immediate, shape)
    }

    const fn modrm(shape: Shape) -> Option<Self> {
        Self::with(true, Immediate::None, shape)
    }

    const fn modrm_immediate(immediate: Immediate, shape: Shape) -> Option<Self> {
        Self::with(true, immediate, shape)
    }

    const fn with(modrm: bool, immediate: Immediate, shape: Shape) -> Option<Self> {
        Some(Self {
            modrm,
            immediate,
            shape,
        })
    }
}

/// Opcodes without escape. `digit` is the middle of the ModRM byte that may follow, which picks
/// the instruction in a group.
fn one_byte(opcode: u8, digit: u8) -> Option<Row> {
    use Immediate as I;
    use Shape as S;
    match opcode {
        // add, or, adc, sbb, and, sub, xor; cmp, which writes nothing.
        0x38 | 0x39 => Row::modrm(S::RmReg),
        0x3a | 0x3b => Row::modrm(S::RegRm),
        0x00..=0x3d if opcode & 7 < 2 => Row::modrm(S::RmTiedReg),
        0x00..=0x3d if opcode & 7 < 4 => Row::modrm(S::RegTiedRm),
        0x00..=0x3d if opcode & 7 == 4 => Row::immediate(I::Byte, S::Imm),
        0x00..=0x3d if opcode & 7 == 5 => Row::immediate(I::Operand, S::Imm),
        0x50..=0x5f => Row::plain(S::Opcode), // push, pop
        0x63 => Row::modrm(S::RegRm),         // movslq
        0x68 => Row::immediate(I::OperandOf64, S::Imm),
        0x69 => Row::modrm_immediate(I::Operand, S::RegRmImm), // imul
        0x6a => Row::immediate(I::Byte, S::Imm),
        0x6b => Row::modrm_immediate(I::Byte, S::RegRmImm),
        0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf => Row::plain(S::Unknown), // strings
        0x70..=0x7f => Row::immediate(I::Byte, S::ImmCond),
        0x80 | 0x81 | 0x83 => {
            let shape = if digit == 7 { S::RmImm } else { S::RmTiedImm };
            let immediate = if opcode == 0x81 { I::Operand } else { I::Byte };
            Row::modrm_immediate(immediate, shape)
        }
        0x84 | 0x85 | 0x88 | 0x89 | 0x8c => Row::modrm(S::RmReg), // test, mov
        0x86 | 0x87 => Row::modrm(S::Unknown),                    // xchg
        0x8a | 0x8b | 0x8d | 0x8e => Row::modrm(S::RegRm),        // mov, lea
        0x8f if digit == 0 => Row::modrm(S::Rm),                  // pop
        0x90 => Row::plain(S::Empty),
        0x91..=0x97 => Row::plain(S::Unknown), // xchg
        0x98 | 0x99 | 0x9b..=0x9f => Row::plain(S::Empty),
        0xa0..=0xa3 => Row::immediate(I::Address, S::ImmSegment),
        0xa8 => Row::immediate(I::Byte, S::Imm), // test
        0xa9 => Row::immediate(I::Operand, S::Imm),
        0xb0..=0xb7 => Row::immediate(I::Byte, S::OpcodeImm), // mov
        0xb8..=0xbf => Row::immediate(I::Full, S::OpcodeImm),
        0xc0 | 0xc1 => Row::modrm_immediate(I::Byte, S::RmTiedImm), // shifts
        0xc2 | 0xca => Row::immediate(I::Word, S::Imm),             // ret
        0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf => Row::plain(S::Empty),
        0xc6 if digit == 0 => Row::modrm_immediate(I::Byte, S::RmImm), // mov
        0xc7 if digit == 0 => Row::modrm_immediate(I::Operand, S::RmImm),
        0xc8 => Row::immediate(I::WordAndByte, S::Unknown), // enter
        0xcd => Row::immediate(I::Byte, S::Imm),            // int
        0xd0..=0xd3 => Row::modrm(S::RmTied),               // shifts by 1 and by %cl
        0xd7 => Row::plain(S::Empty),
        0xd8..=0xdf => Row::modrm(S::Unknown), // x87
        0xe0..=0xe3 | 0xe4..=0xe7 | 0xeb => Row::immediate(I::Byte, S::Imm),
        0xe8 | 0xe9 => Row::immediate(I::Branch, S::Imm), // call, jmp
        0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => Row::plain(S::Empty),
        0xf6 | 0xf7 => match digit {
            0 | 1 if opcode == 0xf6 => Row::modrm_immediate(I::Byte, S::RmImm), // test
            0 | 1 => Row::modrm_immediate(I::Operand, S::RmImm),
            2 | 3 => Row::modrm(S::RmTied), // not, neg
            _ => Row::modrm(S::Rm),         // mul, div
        },
        0xfe | 0xff => match digit {
            0 | 1 => Row::modrm(S::RmTied), // inc, dec
            2..=6 if opcode == 0xff => Row::modrm(S::Rm),
            _ => None,
        },
        _ => None,
    }
}

/// Opcodes behind `0f`.
fn two_byte(opcode: u8, digit: u8, prefix: Mandatory) -> Option<Row> {
    use Immediate as I;
    use Shape as S;
    let is_scalar = matches!(prefix, Mandatory::F2 | Mandatory::F3);
    match opcode {
        0x00 | 0x01 | 0x12 | 0x16 | 0x20..=0x23 | 0xae | 0xc0 | 0xc1 | 0xc7 => {
            Row::modrm(S::Unknown)
        }
        0x02 | 0x03 => Row::modrm(S::RegRm),
        0x05..=0x09 | 0x0b | 0x30..=0x35 | 0x37 | 0x77 | 0xa2 | 0xaa => Row::plain(S::Empty),
        0x0d | 0x18..=0x1d | 0x1f => Row::modrm(S::Rm),
        0x1e => Row::modrm(S::Unknown), // endbr64 and its kin
        // Moves between registers keep the destination's upper part: three operands.
        0x10 | 0x11 if is_scalar => Row::modrm(S::Unknown),
        0x10 | 0x28 | 0x2e | 0x2f | 0x50 | 0x5b | 0x6e | 0x6f | 0xd7 | 0xe6 | 0xf0 => {
            Row::modrm(S::RegRm)
        }
        0x11 | 0x13 | 0x17 | 0x29 | 0x2b | 0x7f | 0xc3 | 0xd6 | 0xe7 => Row::modrm(S::RmReg),
        0x7e if prefix == Mandatory::F3 => Row::modrm(S::RegRm),
        0x7e => Row::modrm(S::RmReg),
        0x14 | 0x15 => Row::modrm(S::RegTiedRm),
        0x2a | 0x2c | 0x2d | 0x51..=0x53 | 0x5a => Row::modrm(S::Unknown),
        0x40..=0x4f => Row::modrm(S::RegTiedRmCond), // cmov
        0x54..=0x59 | 0x5c..=0x6d | 0x74..=0x76 | 0x7c | 0x7d => Row::modrm(S::RegTiedRm),
        0x70 => Row::modrm_immediate(I::UnsignedByte, S::RegRmImm),
        0x71..=0x73 => Row::modrm_immediate(I::Byte, S::RmTiedImm),
        0x80..=0x8f => Row::immediate(I::Branch, S::ImmCond),
        0x90..=0x9f => Row::modrm(S::RmCond), // setcc
        0xa0 | 0xa1 | 0xa8 | 0xa9 => Row::plain(S::Empty),
        0xa3 => Row::modrm(S::RmReg),                   // bt
        0xab | 0xb3 | 0xbb => Row::modrm(S::RmTiedReg), // bts, btr, btc
        0xa4 | 0xac => Row::modrm_immediate(I::Byte, S::RmTiedRegImm), // shld, shrd
        0xa5 | 0xad => Row::modrm(S::RmTiedReg),
        0xaf => Row::modrm(S::RegTiedRm),    // imul
        0xb0 | 0xb1 => Row::modrm(S::RmReg), // cmpxchg
        0xb2 | 0xb4 | 0xb5 => Row::modrm(S::RegRm),
        0xb6 | 0xb7 | 0xbe | 0xbf => Row::modrm(S::RegRm), // movzx, movsx
        0xb8 if prefix == Mandatory::F3 => Row::modrm(S::RegRm), // popcnt
        0xb9 | 0xff => Row::modrm(S::Unknown),             // ud1, ud0
        0xba if digit == 4 => Row::modrm_immediate(I::Byte, S::RmImm), // bt
        0xba if digit > 4 => Row::modrm_immediate(I::Byte, S::RmTiedImm),
        0xbc | 0xbd => Row::modrm(S::Unknown), // bsf, bsr, tzcnt, lzcnt
        0xc2 | 0xc4 | 0xc6 => Row::modrm_immediate(I::UnsignedByte, S::RegTiedRmImm),
        0xc5 => Row::modrm_immediate(I::UnsignedByte, S::RegRmImm),
        0xc8..=0xcf => Row::plain(S::OpcodeTied), // bswap
        0xf7 => Row::modrm(S::Unknown),
        0xd0..=0xfe => Row::modrm(S::RegTiedRm),
        _ => None,
    }
}

/// Opcodes behind `0f 38` and `0f 3a`, which differ in that those of the latter end with a byte.
fn three_byte(map: u8, opcode: u8) -> Option<Row> {
    use Immediate as I;
    use Shape as S;
    match (map, opcode) {
        (2, 0x00..=0x0b | 0x28 | 0x29 | 0x2b | 0x37..=0x40 | 0xdc..=0xdf) => {
            Row::modrm(S::RegTiedRm)
        }
        (2, 0x17 | 0x1c..=0x1e | 0x20..=0x25 | 0x2a | 0x30..=0x35 | 0x41 | 0xdb) => {
            Row::modrm(S::RegRm)
        }
        (2, 0x10 | 0x14 | 0x15 | 0x80..=0x82 | 0xc8..=0xcf | 0xf0..=0xfc) => Row::modrm(S::Unknown),
        (3, 0x08 | 0x09 | 0x60..=0x63 | 0xdf) => Row::modrm_immediate(I::UnsignedByte, S::RegRmImm),
        (3, 0x0c..=0x0f | 0x20..=0x22 | 0x40..=0x42 | 0x44) => {
            Row::modrm_immediate(I::UnsignedByte, S::RegTiedRmImm)
        }
        (3, 0x14..=0x17) => Row::modrm_immediate(I::UnsignedByte, S::RmRegImm),
        (3, 0x0a | 0x0b | 0xcc | 0xce | 0xcf) => Row::modrm_immediate(I::UnsignedByte, S::Unknown),
        _ => None,
    }
}

/// Opcodes with VEX or EVEX prefix: their operands are not told.
fn vector(map: u8, opcode: u8, is_evex: bool) -> Option<Row> {
    let (byte, none) = (Immediate::Byte, Immediate::None);
    let unknown = Shape::Unknown;
    match (map, opcode) {
        (1, 0x77) if !is_evex => Row::plain(Shape::Empty), // vzeroupper, vzeroall
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => Row::modrm_immediate(byte, unknown),
        (1 | 2, _) => Row::with(true, none, unknown),
        _ => None,
    }
}

/// The prefix that is part of the opcode behind `0f`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mandatory {
    None,
    Size,
    F2,
    F3,
}

/// The bytes of an instruction, read from front to back.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Result<u8, DecodeError> {
        if self.at >= MAX_LENGTH {
            return Err(DecodeError::TooLong);
        }
        self.bytes
            .get(self.at)
            .copied()
            .ok_or(DecodeError::Truncated)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    /// A number of up to 8 bytes, sign-extended.
    fn number(&mut self, width: u8) -> Result<i64, DecodeError> {
        let mut bytes = [0; 8];
        let (mut sign, mut read) = (0, 0);
        for slot in &mut bytes {
            if read == width {
                *slot = sign;
                continue;
            }
            *slot = self.byte()?;
            sign = if *slot & 0x80 == 0 { 0 } else { 0xff };
            read += 1;
        }
        Ok(i64::from_le_bytes(bytes))
    }
}

/// What ModRM and what belongs to it say.
#[derive(Clone, Copy, Debug)]
enum Rm {
    Register,
    Memory { scale: i64, displacement: i64 },
}

/// Prefixes that change what follows.
#[derive(Clone, Copy, Debug, Default)]
struct Prefixes {
    /// `66`: operands of 16 bits.
    size: bool,
    /// `67`: addresses of 32 bits.
    address: bool,
    /// The last of `f2` and `f3`.
    repeat: Option<u8>,
    /// REX.W: operands of 64 bits.
    wide: bool,
}

impl Prefixes {
    fn mandatory(self) -> Mandatory {
        match self.repeat {
            Some(0xf2) => Mandatory::F2,
            Some(_) => Mandatory::F3,
            None if self.size => Mandatory::Size,
            None => Mandatory::None,
        }
    }

    /// Width of operands in bytes.
    fn width(self) -> u8 {
        match (self.wide, self.size) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }
}

/// Decodes the instruction at the front.
pub(super) fn decode(bytes: &[u8]) -> Result<Instruction, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    let mut prefixes = Prefixes::default();
    loop {
        match reader.peek()? {
            0x66 => prefixes.size = true,
            0x67 => prefixes.address = true,
            repeat @ (0xf2 | 0xf3) => prefixes.repeat = Some(repeat),
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 => {}
            _ => break,
        }
        reader.at += 1;
    }
    let first = reader.byte()?;
    let (map, opcode, row) = match first {
        0xc4 | 0xc5 | 0x62 => vector_opcode(&mut reader, first)?,
        0x40..=0x4f => {
            prefixes.wide = first & 8 != 0;
            let opcode = reader.byte()?;
            legacy_opcode(&mut reader, opcode, prefixes)?
        }
        opcode => legacy_opcode(&mut reader, opcode, prefixes)?,
    };
    let is_known = |row: &Row| {
        let is_jump = row.immediate == Immediate::Branch;
        !(is_jump && prefixes.size && (map == 1 || !prefixes.wide))
    };
    let row = row
        .filter(is_known)
        .ok_or(DecodeError::Unknown { map, opcode })?;

    let rm = if row.modrm {
        // Moves of control and debug registers have no memory form, whatever the mode says.
        let registers_only = map == 1 && matches!(opcode, 0x20..=0x23);
        Some(register_or_memory(&mut reader, registers_only)?)
    } else {
        None
    };
    let immediate = match row.immediate {
        Immediate::None => 0,
        Immediate::Byte => reader.number(1)?,
        Immediate::UnsignedByte => reader.number(1)? & 0xff,
        Immediate::Word => reader.number(2)?,
        Immediate::Operand | Immediate::OperandOf64 => {
            let width = prefixes.width().min(4);
            let number = reader.number(width)?;
            match (row.immediate, prefixes.wide, width) {
                (Immediate::OperandOf64, _, 4) | (_, true, _) => number,
                (_, _, 2) => number & 0xffff,
                _ => number & 0xffff_ffff,
            }
        }
        Immediate::Full => {
            let width = prefixes.width();
            let number = reader.number(width)?;
            match width {
                2 => number & 0xffff,
                4 => number & 0xffff_ffff,
                _ => number,
            }
        }
        Immediate::Branch => reader.number(4)?,
        Immediate::Address => reader.number(if prefixes.address { 4 } else { 8 })?,
        Immediate::WordAndByte => reader.number(3)?,
    };
    let length = u8::try_from(reader.at).map_err(|_| DecodeError::TooLong)?;
    let condition = i64::from(opcode & 0xf);
    Ok(Instruction {
        length,
        operands: operands(row.shape, rm, immediate, condition),
    })
}

/// The opcode behind legacy prefixes, whose first byte was read: its map, itself, its row.
fn legacy_opcode(
    reader: &mut Reader<'_>,
    first: u8,
    prefixes: Prefixes,
) -> Result<(u8, u8, Option<Row>), DecodeError> {
    if first != 0x0f {
        return Ok((0, first, one_byte(first, digit(reader))));
    }
    let second = reader.byte()?;
    let map = match second {
        0x38 => 2,
        0x3a => 3,
        opcode => {
            let row = two_byte(opcode, digit(reader), prefixes.mandatory());
            return Ok((1, opcode, row));
        }
    };
    let opcode = reader.byte()?;
    Ok((map, opcode, three_byte(map, opcode)))
}

/// The opcode behind a VEX or EVEX prefix, whose first byte was read.
fn vector_opcode(reader: &mut Reader<'_>, first: u8) -> Result<(u8, u8, Option<Row>), DecodeError> {
    let second = reader.byte()?;
    // Bit 3 of an EVEX prefix is APX's: it stays in the number, and no map has it.
    let (map, more) = match first {
        0xc5 => (1, 0),
        0xc4 => (second & 0x1f, 1),
        _ => (second & 0x0f, 2),
    };
    for _ in 0..more {
        reader.byte()?;
    }
    let opcode = reader.byte()?;
    Ok((map, opcode, vector(map, opcode, first == 0x62)))
}

/// The middle of the byte that follows, should it be a ModRM byte.
fn digit(reader: &Reader<'_>) -> u8 {
    reader
        .bytes
        .get(reader.at)
        .map_or(0, |modrm| modrm >> 3 & 7)
}

/// Reads ModRM and what belongs to it.
fn register_or_memory(reader: &mut Reader<'_>, registers_only: bool) -> Result<Rm, DecodeError> {
    let modrm = reader.byte()?;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    if mode == 3 || registers_only {
        return Ok(Rm::Register);
    }
    let mut scale = 1;
    let mut base = rm;
    if rm == 4 {
        let sib = reader.byte()?;
        scale = 1 << (sib >> 6);
        base = sib & 7;
    }
    let width = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    let displacement = reader.number(width)?;
    Ok(Rm::Memory {
        scale,
        displacement,
    })
}

fn operands(shape: Shape, rm: Option<Rm>, immediate: i64, condition: i64) -> Option<Vec<Operand>> {
    use Operand::{Immediate, Register};
    let rm = rm.unwrap_or(Rm::Register);
    let is_register = matches!(rm, Rm::Register);
    let mut list = Vec::with_capacity(8);
    let push_rm = |list: &mut Vec<Operand>| match rm {
        Rm::Register => list.push(Register),
        Rm::Memory {
            scale,
            displacement,
        } => list.extend([
            Register,
            Immediate(scale),
            Register,
            Immediate(displacement),
            Register,
        ]),
    };
    let (immediate, condition) = (Immediate(immediate), Immediate(condition));
    match shape {
        Shape::Unknown => return None,
        Shape::Empty => {}
        Shape::Imm => list.push(immediate),
        Shape::ImmCond => list.extend([immediate, condition]),
        Shape::ImmSegment => list.extend([immediate, Register]),
        Shape::Opcode => list.push(Register),
        Shape::OpcodeTied => list.extend([Register; 2]),
        Shape::OpcodeImm => list.extend([Register, immediate]),
        Shape::Rm
        | Shape::RmTied
        | Shape::RmCond
        | Shape::RmImm
        | Shape::RmTiedImm
        | Shape::RmReg
        | Shape::RmRegImm
        | Shape::RmTiedReg
        | Shape::RmTiedRegImm => {
            push_rm(&mut list);
            let is_tied = matches!(
                shape,
                Shape::RmTied | Shape::RmTiedImm | Shape::RmTiedReg | Shape::RmTiedRegImm
            );
            if is_tied && is_register {
                list.push(Register);
            }
            if matches!(
                shape,
                Shape::RmReg | Shape::RmRegImm | Shape::RmTiedReg | Shape::RmTiedRegImm
            ) {
                list.push(Register);
            }
        }
        Shape::RegRm | Shape::RegRmImm => {
            list.push(Register);
            push_rm(&mut list);
        }
        Shape::RegTiedRm | Shape::RegTiedRmCond | Shape::RegTiedRmImm => {
            list.extend([Register; 2]);
            push_rm(&mut list);
        }
    }
    match shape {
        Shape::RmImm
        | Shape::RmTiedImm
        | Shape::RmRegImm
        | Shape::RmTiedRegImm
        | Shape::RegRmImm
        | Shape::RegTiedRmImm => list.push(immediate),
        Shape::RmCond | Shape::RegTiedRmCond => list.push(condition),
        _ => {}
    }
    Some(list)
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may panic"
)]
mod tests;
