//! The decoder against llvm-mc's answers: lengths and `MCInst` operands. `R` is a register, a
//! number an immediate.

use super::decode;
use crate::instruction::{DecodeError, Operand};

fn bytes(text: &str) -> Vec<u8> {
    text.split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn operands(text: &str) -> Option<String> {
    let instruction = decode(&bytes(text)).unwrap();
    let words = instruction
        .operands?
        .into_iter()
        .map(|operand| match operand {
            Operand::Register => "R".to_owned(),
            Operand::Immediate(number) => number.to_string(),
        });
    Some(words.collect::<Vec<_>>().join(" "))
}

/// What `llvm-mc-22 --disassemble --show-inst -triple=x86_64` prints.
#[test]
fn operands_are_those_of_mcinst() {
    let cases = [
        // movl mem, r; leaq; leal
        ("8b 05 10 00 00 00", "R R 1 R 16 R"),
        ("48 8d 3d fc ff ff ff", "R R 1 R -4 R"),
        ("8d 1d 78 56 34 12", "R R 1 R 305419896 R"),
        ("44 8d 2c 00", "R R 1 R 0 R"),
        ("48 63 04 81", "R R 4 R 0 R"),
        // absolute addresses: no base
        ("8b 04 25 01 00 00 00", "R R 1 R 1 R"),
        ("8b 34 25 00 00 00 80", "R R 1 R -2147483648 R"),
        ("64 48 8b 04 25 28 00 00 00", "R R 1 R 40 R"),
        // movb, movw, movl, movq, cmpq $imm, mem
        ("c6 05 f9 ff ff ff 2a", "R 1 R -7 R 42"),
        ("66 c7 44 24 68 05 81", "R 1 R 104 R 33029"),
        ("c7 44 24 08 ff ff ff ff", "R 1 R 8 R 4294967295"),
        ("48 c7 44 24 20 ff ff ff ff", "R 1 R 32 R -1"),
        ("48 83 3d f8 ff ff ff 2a", "R 1 R -8 R 42"),
        ("48 3b 84 24 b8 02 00 00", "R R 1 R 696 R"),
        ("48 39 07", "R 1 R 0 R R"),
        // movabsq, movl $imm, moffs
        ("48 b9 61 65 61 62 69 5f 70 61", "R 7021216725297358177"),
        ("bf c8 00 00 80", "R 2147483848"),
        ("66 b9 ff ff", "R 65535"),
        ("a1 f0 de bc 9a 78 56 34 12", "1311768467463790320 R"),
        // call, jmp, jcc, ret
        ("e8 fb ff ff ff", "-5"),
        ("e9 00 00 00 80", "-2147483648"),
        ("66 48 e8 04 00 00 00", "4"),
        ("67 e8 04 00 00 00", "4"),
        ("eb fe", "-2"),
        ("75 10", "16 5"),
        ("0f 84 32 fe ff ff", "-462 4"),
        ("c3", ""),
        ("c2 08 00", "8"),
        ("ff 15 18 00 00 00", "R 1 R 24 R"),
        ("ff 50 18", "R 1 R 24 R"),
        // destinations that are sources too
        ("48 83 c4 f8", "R R -8"),
        ("48 81 ec c0 02 00 00", "R R 704"),
        ("81 c1 c9 5b ff ff", "R R 4294925257"),
        ("66 81 67 0a 00 80", "R 1 R 10 R 32768"),
        ("83 ff ff", "R -1"),
        ("25 00 00 00 a0", "2684354560"),
        ("48 29 fe", "R R R"),
        ("33 0f", "R R R 1 R 0 R"),
        ("01 0f", "R 1 R 0 R R"),
        ("4d 39 ec", "R R"),
        ("48 ff c6", "R R"),
        ("ff 07", "R 1 R 0 R"),
        ("48 c1 e9 02", "R R 2"),
        ("d1 27", "R 1 R 0 R"),
        ("69 e8 19 9c 8f c1", "R R 3247414297"),
        ("f7 c2 fd ff ff ff", "R 4294967293"),
        ("48 0f ba e0 20", "R 32"),
        ("44 0f 43 e5", "R R R 3"),
        ("0f 94 c0", "R 4"),
        ("0f b6 05 00 00 00 00", "R R 1 R 0 R"),
        ("68 00 00 00 80", "-2147483648"),
        ("6a ff", "-1"),
        ("41 56", "R"),
        ("48 0f c8", "R R"),
        // vectors
        ("66 0f 6f 0d 08 00 00 00", "R R 1 R 8 R"),
        ("66 41 0f 70 f0 e8", "R R 232"),
        ("0f c6 d5 98", "R R R 152"),
        ("66 0f ef c0", "R R R"),
        ("0f 11 44 24 10", "R 1 R 16 R R"),
        ("66 45 0f 3a 0e ec cc", "R R R 204"),
    ];
    for (text, expected) in cases {
        assert_eq!(operands(text).as_deref(), Some(expected), "{text}");
        assert_eq!(
            usize::from(decode(&bytes(text)).unwrap().length),
            bytes(text).len(),
            "{text}"
        );
    }
}

/// Instructions of which only the length is known.
#[test]
fn lengths_of_others() {
    for text in [
        "c5 f8 77",
        "c5 fd 6f 05 00 01 00 00",
        "c4 e3 7d 18 0c 24 01",
        "c4 e2 7d 59 05 00 00 00 00",
        "c5 f9 70 c0 4e",
        "62 f1 7d 48 fe c1",
        "62 f3 fd 48 43 c1 ee",
        "f3 0f 1e fa",
        "f2 0f 10 05 00 00 00 00",
        "dd 44 24 08",
        "f3 a4",
        "48 87 07",
        "f0 48 0f b1 0f",
        "0f 20 04",
        "c8 10 00 00",
        "66 66 66 66 2e 0f 1f 84 00 00 00 00 00",
        "0f ae 15 00 00 00 00",
        "f2 48 0f 38 f1 c1",
    ] {
        assert_eq!(
            usize::from(decode(&bytes(text)).unwrap().length),
            bytes(text).len(),
            "{text}"
        );
        let mut longer = bytes(text);
        longer.extend([0x90; 4]);
        assert_eq!(decode(&longer), decode(&bytes(text)), "{text}");
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let unknown = |map, opcode| Err(DecodeError::Unknown { map, opcode });
    // Not in 64-bit mode; APX; a jump whose length the processor's maker decides.
    assert_eq!(decode(&bytes("06")), unknown(0, 0x06));
    assert_eq!(decode(&bytes("d5 48 89 c0")), unknown(0, 0xd5));
    assert_eq!(decode(&bytes("62 fc fc 08 89 c0")), unknown(12, 0x89));
    assert_eq!(decode(&bytes("66 e8 00 00 00 00")), unknown(0, 0xe8));
    assert_eq!(decode(&bytes("66 0f 84 00 00 00 00")), unknown(1, 0x84));
    assert_eq!(decode(&bytes("c6 f8 00")), unknown(0, 0xc6));
    assert_eq!(decode(&[0x66; 20]), Err(DecodeError::TooLong));
    assert_eq!(decode(&[]), Err(DecodeError::Truncated));
}

#[test]
fn no_prefix_of_an_instruction_is_one() {
    for text in [
        "48 b9 61 65 61 62 69 5f 70 61",
        "66 45 0f 3a 0e 84 24 00 01 00 00 cc",
        "62 f3 fd 48 43 84 24 00 01 00 00 ee",
        "69 84 24 00 01 00 00 00 00 00 01",
    ] {
        let whole = bytes(text);
        assert_eq!(usize::from(decode(&whole).unwrap().length), whole.len());
        for end in 0..whole.len() {
            assert_eq!(
                decode(&whole[..end]),
                Err(DecodeError::Truncated),
                "{text}, {end} bytes"
            );
        }
    }
}

/// Any bytes are answered, and no answer reaches behind the bytes or the longest instruction.
#[test]
fn any_bytes() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..200_000 {
        let mut text = [0; 16];
        for part in text.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            part.copy_from_slice(&state.to_le_bytes());
        }
        let length = usize::from(text[15] & 0xf);
        if let Ok(instruction) = decode(&text[..length]) {
            assert!((1..=length).contains(&usize::from(instruction.length)));
        }
    }
}
