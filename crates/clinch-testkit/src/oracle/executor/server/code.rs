//! What the process may run and be told of: segments of code, of arrays of functions and of call
//! frame records, whose contents stay as they are from then on.

use super::{NOWHERE, PAGE, Player, Tells};
use crate::generate::Choices;
use clinch_executor::wire::{Array, Protection, Segment, ToExecutor};

/// `ret`: a page of it is a function wherever it is entered.
const RET: u8 = 0xc3;

/// A wrapper that answers what it is given.
const ECHO: [u8; 17] = [
    0x48, 0x8b, 0x02, // mov rax, [rdx]
    0x48, 0x89, 0xd1, // mov rcx, rdx
    0x48, 0x89, 0xf2, // mov rdx, rsi
    0x48, 0x89, 0xfe, // mov rsi, rdi
    0x48, 0x89, 0xcf, // mov rdi, rcx
    0xff, 0xe0, // jmp rax
];
/// What a segment of its own is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Code,
    Array,
    Frames,
}

impl Player {
    /// A segment with what the process may be told of, or run.
    pub(super) fn place(&mut self, choices: &mut Choices<'_>) {
        let Some((base, size)) = choices.pick_any(&self.reservations) else {
            return;
        };
        let pages = size.div_ceil(PAGE).max(1);
        let address = base + PAGE * (choices.number() % pages);
        let kinds = [
            Content::Code,
            Content::Code,
            Content::Array,
            Content::Frames,
        ];
        let kind = choices.pick(&kinds);
        let (content, tells) = match kind {
            Content::Code => self.code(choices, address),
            Content::Array => {
                let words: Vec<u64> = (0..choices.below(6)).map(|_| self.word(choices)).collect();
                let array = Array {
                    address,
                    count: u64::try_from(words.len()).unwrap_or(0),
                    backward: choices.one_in(2),
                };
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                (bytes, Tells::Array(array))
            }
            Content::Frames => (frames(), Tells::Frames(address)),
        };
        let range = address..address + PAGE;
        if self.touches_kept(&range) || kind == Content::Code && !self.runs_code {
            return;
        }
        let protection = if kind == Content::Code {
            Protection::ReadExecute
        } else {
            Protection::Read
        };
        let segment = Segment {
            address,
            size: PAGE,
            protection,
            sealed_late: choices.one_in(2),
            content: &content,
        };
        let message = ToExecutor::Finalize {
            segments: vec![segment],
            steps: Vec::new(),
        };
        self.kept.push(range);
        self.say(self.next, &message, tells);
        // What follows may depend on it.
        self.hear_all(choices);
    }

    /// A page of code: functions, or a wrapper.
    fn code(&self, choices: &mut Choices<'_>, address: u64) -> (Vec<u8>, Tells) {
        // So that no word of harmless bytes is where a wrapper begins.
        let is_high = address > NOWHERE;
        let (mut code, tells) = match choices.below(3) {
            1 if is_high => (self.dispatcher(choices.number()), Tells::Wrapper(address)),
            2 if is_high => (ECHO.to_vec(), Tells::Wrapper(address)),
            _ => (Vec::new(), Tells::Functions(address..address + PAGE)),
        };
        code.resize(usize::try_from(PAGE).unwrap_or(0), RET);
        (code, tells)
    }

    /// A wrapper that answers what the controller answers.
    fn dispatcher(&self, tag: u64) -> Vec<u8> {
        let movabs = |register: [u8; 2], value: u64| [&register[..], &value.to_le_bytes()].concat();
        [
            &[
                0x49, 0x89, 0xd0, // mov r8, rdx
                0x48, 0x89, 0xf1, // mov rcx, rsi
                0x48, 0x89, 0xfa, // mov rdx, rdi
            ][..],
            &movabs([0x48, 0xbf], self.context),
            &movabs([0x48, 0xbe], tag),
            &movabs([0x48, 0xb8], self.dispatch),
            &[0xff, 0xe0], // jmp rax
        ]
        .concat()
    }
}

/// A CIE, an FDE of no code, and the end.
fn frames() -> Vec<u8> {
    let mut bytes = Vec::new();
    let cie: [u8; 16] = [12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0];
    bytes.extend(cie);
    bytes.extend(28_u32.to_le_bytes());
    bytes.extend(20_u32.to_le_bytes());
    bytes.extend(NOWHERE.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    bytes
}
