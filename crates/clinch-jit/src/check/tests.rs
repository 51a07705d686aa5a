//! The language: what parses, what it means, and what is said when it does not.

use super::{Image, Location, Outcome, Rule, evaluate, rules};
use clinch_graph::Endian;
use clinch_target::{Instruction, Operand};

/// Bytes at 0x1000, and some names.
struct Toy {
    endian: Endian,
}

const BYTES: [u8; 16] = [
    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x00, 0x10, 0, 0, 0, 0, 0, 0x80,
];

/// Where the linker keeps what lies at an address.
const WORKING: u64 = 0x10_0000;

fn at(target: u64) -> Location {
    Location {
        target,
        working: Some(target + WORKING),
    }
}

impl Image for Toy {
    fn endian(&self) -> Endian {
        self.endian
    }

    fn symbol(&self, name: &str) -> Option<Location> {
        match name {
            "data" => Some(at(0x1000)),
            "more" | "a.b:c$1" | "_x" => Some(at(0x1008)),
            "zero" => Some(Location {
                target: 0x2000,
                working: None,
            }),
            _ => None,
        }
    }

    fn section(&self, file: &str, section: &str) -> Result<Location, String> {
        match (file, section) {
            ("lib.a[0](m.o)", "__DATA,__data") => Ok(at(0x1000)),
            _ => Err(format!("no section {section} in {file}")),
        }
    }

    fn got(&self, file: &str, symbol: &str) -> Result<Location, String> {
        match (file, symbol) {
            ("f.o", "data") => Ok(at(0x1008)),
            _ => Err(format!("no GOT entry of {symbol} in {file}")),
        }
    }

    fn stub(&self, file: &str, symbol: &str, kind: Option<&str>) -> Result<Location, String> {
        match (file, symbol, kind) {
            ("f.o", "data", None) => Ok(at(0x3000)),
            ("f.o", "data", Some("thumbv7_abs_le")) => Ok(at(0x3010)),
            _ => Err("no such stub".to_owned()),
        }
    }

    fn read(&self, working: u64, bytes: &mut [u8]) -> bool {
        let part = working
            .checked_sub(0x1000 + WORKING)
            .and_then(|start| BYTES.get(usize::try_from(start).ok()?..))
            .and_then(|rest| rest.get(..bytes.len()));
        if let Some(part) = part {
            bytes.copy_from_slice(part);
        }
        part.is_some()
    }

    fn decode(&self, working: u64) -> Result<Instruction, String> {
        match working - WORKING {
            0x1000 => Ok(Instruction {
                length: 5,
                operands: Some(vec![Operand::Register, Operand::Immediate(-2)]),
            }),
            0x1004 => Ok(Instruction {
                length: 2,
                operands: None,
            }),
            _ => Err("cannot be decoded".to_owned()),
        }
    }
}

fn one(text: &str) -> Rule {
    let mut rules = rules(&format!("# jitlink-check: {text}"), "jitlink-check");
    assert_eq!(rules.len(), 1, "{text}");
    rules.remove(0)
}

fn outcome(text: &str) -> Outcome {
    evaluate(
        &one(text),
        &Toy {
            endian: Endian::Little,
        },
    )
}

#[track_caller]
fn holds(text: &str) {
    assert_eq!(outcome(text), Outcome::True, "{text}");
}

#[track_caller]
fn fails(text: &str, why: &str) {
    match outcome(text) {
        Outcome::Error(said) => assert!(said.contains(why), "{text}: {said}"),
        outcome => panic!("{text}: {outcome:?}"),
    }
}

#[test]
fn numbers_and_operators() {
    holds("0x10 = 16");
    // Left to right, no precedence.
    holds("10-3-2 = 5");
    holds("2+3<<1 = 10");
    holds("1 | 6 & 4 = 4");
    holds("0x80 >> 4 = 8");
    // 64 bits that wrap around; shifts are logical.
    holds("0 - 1 = 0xffffffffffffffff");
    holds("0xffffffffffffffff + 2 = 1");
    holds("(0 - 1) >> 63 = 1");
    holds("1 << 64 = 0");
    holds("1 >> 0xffffffffffffffff = 0");
    assert_eq!(outcome("1 = 2"), Outcome::False { left: 1, right: 2 });
    fails("99999999999999999999999 = 1", "does not fit 64 bits");
    fails("0x10000000000000000 = 1", "does not fit 64 bits");
}

#[test]
fn slices_are_of_what_stands_before_them() {
    holds("0x1234[7:4] = 3");
    holds("0xffffffffffffffff[63:0] = 0xffffffffffffffff");
    holds("0x8000000000000000[63:63] = 1");
    holds("(0x12 + 0x20)[7:4] = 3");
    holds("(*{4}data)[15:8] = 0x22");
    holds("0x100 + 0x1234[7:4] = 0x103");
    fails("1[0:3] = 0", "not a range of bits");
    fails("1[64:0] = 0", "not a range of bits");
    fails("1[3] = 0", "expected ':'");
    fails("1[3:0 = 0", "expected ']'");
}

#[test]
fn loads_take_all_that_follows() {
    holds("*{1}data = 0x11");
    holds("*{2}data = 0x2211");
    holds("*{4}data = 0x44332211");
    holds("*{8}data = 0x8877665544332211");
    holds("*{1}data + 1 = 0x22");
    holds("(*{1}data) + 1 = 0x12");
    holds("*{2}(more) = 0x1000");
    // The value is an address of the executor, not one of the linker.
    holds("*{2}more = data");
    holds("(*{8}(got_addr(f.o, data))) - 0x8000000000000000 = data");
    holds("*{1}section_addr(lib.a[0](m.o), __DATA,__data) + 2 = 0x33");
    let big = Toy {
        endian: Endian::Big,
    };
    assert_eq!(evaluate(&one("*{4}data = 0x11223344"), &big), Outcome::True);
    assert_eq!(evaluate(&one("*{2}data = 0x1122"), &big), Outcome::True);
    fails("*{3}data = 0", "1, 2, 4 or 8");
    fails("*{8 data = 0", "expected '}'");
    fails("*8data = 0", "expected '{'");
    fails("*{8}data + 9 = 0", "nothing to load at 0x101009");
}

#[test]
fn what_has_no_bytes_is_zero_inside_a_load() {
    holds("*{4}(zero) = 0");
    holds("*{8}0 = 0");
    holds("zero = 0x2000");
    holds("*{1}(zero + data) = 0x11");
}

#[test]
fn names() {
    holds("a.b:c$1 = more");
    holds("_x = 0x1008");
    holds("stub_addr(f.o, data) = 0x3000");
    holds("stub_addr( f.o , data , thumbv7_abs_le ) = 0x3010");
    holds("section_addr(lib.a[0](m.o), __DATA,__data) = 0x1000");
    holds("next_pc(data) = data + 5");
    holds("decode_operand(data, 1) = 0 - 2");
    fails("none = 1", "no known address for symbol 'none'");
    fails("got_addr(g.o, data) = 1", "no GOT entry of data in g.o");
    fails("got_addr(f.o data) = 1", "no ',' behind");
    fails("got_addr(, data) = 1", "nothing before ','");
    fails("section_addr(f.o, ) = 1", "nothing before ')'");
    fails("frob(data) = 1", "unexpected '(data)'");
    fails(".data = 1", "expected '('");
}

#[test]
fn operands_of_instructions() {
    fails("decode_operand(data, 0) = 1", "is not an immediate");
    fails("decode_operand(data, 2) = 1", "has only 2 operands");
    fails("decode_operand(data+4, 0) = 1", "at 'data+4' are not known");
    fails("decode_operand(data+0x8, 0) = 1", "cannot be decoded");
    fails(
        "decode_operand(none, 0) = 1",
        "cannot decode unknown symbol 'none'",
    );
    fails(
        "decode_operand(zero, 0) = 1",
        "cannot decode unknown symbol 'zero'",
    );
    fails("decode_operand(data) = 1", "expected ','");
    fails("next_pc(data + 4) = 1", "expected ')'");
    fails("next_pc(none) = 1", "cannot decode unknown symbol 'none'");
}

#[test]
fn what_is_no_rule() {
    for (text, why) in [
        ("data", "needs '='"),
        ("data = = 1", "unexpected '= 1'"),
        (" = 0", "unexpected end"),
        ("0 =", "unexpected end"),
        ("(data = 0", "expected ')'"),
        ("data) = 0", "unexpected ')'"),
        ("0xzz = 0", "expected a number"),
        ("1 ++ 2 = 3", "unexpected '+ 2'"),
        ("1 < 2 = 3", "unexpected '< 2'"),
        ("1 * 2 = 2", "unexpected '* 2'"),
        ("1 2 = 2", "unexpected '2'"),
        ("1 = 1 # true", "unexpected '# true'"),
    ] {
        fails(text, why);
    }
}

#[test]
fn hostile_nesting_ends() {
    for open in ["(", "*{8}", "((*{1}"] {
        fails(&format!("{} = 0", open.repeat(100_000)), "nest deeper");
    }
    let deep = format!("{}1{} = 1", "(".repeat(100), ")".repeat(100));
    holds(&deep);
    // What does not nest may be long.
    holds(&format!("0{} = 100000", " + 1".repeat(100_000)));
}

#[test]
fn rules_of_a_file() {
    let text = "text\n# jitlink-check: 1 = 1\n\t # jitlink-check:2 = \\\n\n; other\n\
                # jitlink-check:   2\r\n x # jitlink-check: 1 = 2\n#jitlink-check: 1 = 2\n\
                # jitlink-check : 1 = 2\n# other-check: 3 = 3\n# jitlink-check: 4 = 4 \\";
    let found = rules(text, "jitlink-check");
    let texts: Vec<(usize, &str, bool)> = found
        .iter()
        .map(|rule| (rule.line, rule.text.as_str(), rule.sides.is_ok()))
        .collect();
    assert_eq!(
        texts,
        [(2, "1 = 1", true), (3, "2 = 2", true), (11, "4 = 4", false)]
    );
    let other = rules(text, "other-check");
    assert_eq!(other.len(), 1);
    assert_eq!(other[0].line, 10);
    assert!(rules("nothing", "jitlink-check").is_empty());
    // A backslash that does not end the line continues nothing.
    let blank = rules("# c: 1=1 \\ \n# c: +1=2", "c");
    assert_eq!(blank.len(), 2);
    assert!(blank[0].sides.is_err());
}
