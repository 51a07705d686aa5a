//! Requests that are made value by value, of what the player knows as a rule.

use super::harmless::{HARMLESS_BITS, LIBRARIES};
use super::{NOWHERE, PAGE, Player, Tells};
use crate::generate::Choices;
use clinch_executor::wire::{
    Action, Array, Piece, Place, Protection, Segment, SharedSegment, Step, ToExecutor,
};

impl Player {
    pub(super) fn say_values(&mut self, choices: &mut Choices<'_>) {
        let address = self.address(choices);
        let size = any_size(choices);
        let kind = choices.below(20);
        match kind {
            0..=2 => {
                let places = [Place::Any, Place::Any, Place::Low, Place::Near];
                let is_odd = choices.one_in(4);
                let size = if is_odd {
                    size
                } else {
                    PAGE * (1 + u64::from(choices.byte() % 16))
                };
                let message = ToExecutor::Reserve {
                    size,
                    align: 1 << choices.below(if is_odd { 64 } else { 22 }),
                    place: choices.pick(&places),
                };
                self.request(&message, Tells::Reservation(size));
            }
            3 => {
                self.request(&ToExecutor::Release { address }, Tells::Nothing);
            }
            4 | 5 => {
                let contents: Vec<(u64, Vec<u8>)> = (0..choices.below(4))
                    .map(|_| (self.address(choices), content(choices)))
                    .collect();
                let pieces = contents
                    .iter()
                    .map(|(address, bytes)| Piece {
                        address: *address,
                        bytes,
                    })
                    .collect();
                self.request(&ToExecutor::Write { pieces }, Tells::Nothing);
            }
            6 => self.request(&ToExecutor::Zero { address, size }, Tells::Nothing),
            7 | 8 => {
                let protections = [
                    Protection::ReadWrite,
                    Protection::None,
                    Protection::Read,
                    Protection::ReadWrite,
                ];
                let message = ToExecutor::Protect {
                    address,
                    size,
                    protection: choices.pick(&protections),
                };
                self.request(&message, Tells::Nothing);
            }
            9 => {
                let size = u32::try_from(size % (1 << 14)).unwrap_or(0);
                self.request(&ToExecutor::Read { address, size }, Tells::Nothing);
            }
            10 | 11 => self.finalize(choices),
            12 => {
                let allocations = (0..choices.below(4))
                    .map(|_| self.allocation(choices))
                    .collect();
                let message = ToExecutor::Deallocate { allocations };
                self.request(&message, Tells::Nothing);
            }
            13 => {
                let ranges = (0..choices.below(3))
                    .map(|_| (self.address(choices), any_size(choices)))
                    .collect();
                let undo = self.actions(choices);
                let allocation = self.allocation(choices);
                let message = ToExecutor::Withdraw {
                    allocation,
                    ranges,
                    undo,
                };
                self.request(&message, Tells::Nothing);
            }
            14 => {
                let actions = self.actions(choices);
                self.request(&ToExecutor::Perform { actions }, Tells::Nothing);
            }
            15 => {
                let names: [&[u8]; 5] =
                    [b"malloc", b"no_such_name", b"puts@GLIBC_2.2.5", b"", b"a\0"];
                let names = (0..choices.below(4))
                    .map(|_| choices.pick(&names))
                    .collect();
                let library = choices.one_in(2).then(|| u32::from(choices.byte() % 3));
                let message = ToExecutor::LookUp { library, names };
                self.request(&message, Tells::Nothing);
            }
            16 => {
                let message = ToExecutor::Open {
                    path: choices.pick(&LIBRARIES),
                };
                self.request(&message, Tells::Nothing);
            }
            17 => {
                let message = if choices.one_in(2) {
                    ToExecutor::LookUpThreadLocal {
                        names: vec![b"errno", b"no_such_name"],
                    }
                } else {
                    ToExecutor::ReserveThreadLocal {
                        size: size % 512,
                        align: choices.number() % 512,
                    }
                };
                self.request(&message, Tells::Nothing);
            }
            18 => {
                let values = [choices.bytes(8), choices.bytes(8)];
                let values = values.iter().map(Vec::as_slice).collect();
                self.request(&ToExecutor::Arguments { values }, Tells::Nothing);
            }
            _ => self.call(choices),
        }
    }

    pub(super) fn call(&mut self, choices: &mut Choices<'_>) {
        let address = self.function(choices);
        let input = choices.bytes(300);
        let message = match choices.below(4) {
            0 => ToExecutor::Wrapper {
                address,
                input: &input,
            },
            1 => ToExecutor::Main { address },
            2 => ToExecutor::Void { address },
            _ => ToExecutor::Int {
                address,
                argument: i32::from(choices.byte()) - 128,
            },
        };
        self.request(&message, Tells::Nothing);
    }

    /// Segments of any kind but those that are code, with their contents or with places in the
    /// memory that is shared.
    fn finalize(&mut self, choices: &mut Choices<'_>) {
        let protections = [Protection::Read, Protection::ReadWrite, Protection::None];
        let is_shared = choices.one_in(3);
        let shared: Vec<SharedSegment> = (0..choices.below(3))
            .map(|_| SharedSegment {
                address: self.address(choices),
                size: any_size(choices),
                protection: choices.pick(&protections),
                sealed_late: choices.one_in(2),
                offset: if choices.one_in(8) {
                    choices.number()
                } else {
                    u64::from(choices.byte() % 8) * PAGE
                },
            })
            .collect();
        let steps = |player: &Self, choices: &mut Choices<'_>| {
            let actions = player.actions(choices);
            let step = |action| Step {
                action,
                undo: choices.one_in(2).then(|| player.action(choices)),
            };
            actions.into_iter().map(step).collect()
        };
        if is_shared {
            let message = ToExecutor::FinalizeShared {
                segments: shared,
                steps: steps(self, choices),
            };
            return self.request(&message, Tells::Nothing);
        }
        let contents: Vec<Vec<u8>> = shared.iter().map(|_| content(choices)).collect();
        let segments = shared.iter().zip(&contents);
        let segments = segments
            .map(|(shared, content)| Segment {
                address: shared.address,
                size: shared.size,
                protection: shared.protection,
                sealed_late: shared.sealed_late,
                content,
            })
            .collect();
        let steps = steps(self, choices);
        self.request(&ToExecutor::Finalize { segments, steps }, Tells::Nothing);
    }

    fn actions(&self, choices: &mut Choices<'_>) -> Vec<Action> {
        let n = choices.below(4);
        (0..n).map(|_| self.action(choices)).collect()
    }

    fn action(&self, choices: &mut Choices<'_>) -> Action {
        let address = self.address(choices);
        let frames = choices.pick_any(&self.frames).unwrap_or(address);
        let array = choices.pick_any(&self.arrays).unwrap_or(Array {
            address,
            count: choices.number() % 9,
            backward: choices.one_in(2),
        });
        let block = choices.pick_any(&self.blocks).unwrap_or(0);
        match choices.below(15) {
            0 => Action::RegisterFrames { begin: frames },
            1 => Action::DeregisterFrames { begin: frames },
            2 => Action::WriteWord {
                address,
                value: self.word(choices),
            },
            3 => Action::ResolveIfunc {
                slot: address,
                resolver: self.function(choices),
            },
            4 => Action::RunArray(array),
            5 => Action::RunHandlers { handle: address },
            6 => Action::Call {
                function: self.function(choices),
                input: choices.bytes(16),
            },
            7 => Action::MoveVariable {
                from: address,
                to: self.address(choices),
                size: any_size(choices),
            },
            8 => Action::InitializeThreadLocal {
                block,
                image: address,
                size: any_size(choices) % 512,
            },
            9 => Action::ReleaseThreadLocal { block },
            10 => Action::RegisterImage {
                address,
                size: any_size(choices),
                blank: content(choices),
            },
            11 => Action::DeregisterImage { address },
            12 => Action::RegisterFinalizers {
                arrays: vec![array; choices.below(3)],
            },
            _ => Action::RunFinalizers {
                first: array.address,
            },
        }
    }

    /// An address: in a reservation as a rule, at a page's start as a rule.
    pub(super) fn address(&self, choices: &mut Choices<'_>) -> u64 {
        let Some((base, size)) = choices.pick_any(&self.reservations) else {
            return choices.number() % NOWHERE;
        };
        let offset = match choices.below(12) {
            0..=2 => 0,
            3 => size,
            4 => choices.number() % size.max(1),
            5 => return choices.number() % NOWHERE,
            _ => PAGE * (choices.number() % size.div_ceil(PAGE).max(1)),
        };
        base.wrapping_add(offset)
    }

    fn allocation(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.pick_any(&self.allocations) {
            Some(allocation) if !choices.one_in(8) => allocation,
            _ => choices.number(),
        }
    }

    /// Where a function is, or nothing is.
    fn function(&self, choices: &mut Choices<'_>) -> u64 {
        let functions = self.functions.iter().map(|range| range.start);
        let functions: Vec<u64> = functions.chain(self.wrappers.iter().copied()).collect();
        match choices.pick_any(&functions) {
            Some(function) if !choices.one_in(16) => function,
            _ => self.address(choices),
        }
    }

    /// A word of an array of functions.
    pub(super) fn word(&self, choices: &mut Choices<'_>) -> u64 {
        match choices.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => {
                let start = self.functions.first().map(|range| range.start);
                start.unwrap_or(u64::MAX)
            }
        }
    }
}

fn any_size(choices: &mut Choices<'_>) -> u64 {
    match choices.below(12) {
        0..=4 => PAGE,
        5 => 0,
        6 => choices.number(),
        7 => u64::MAX - u64::from(choices.byte()),
        8 => u64::from(choices.byte()) << 12,
        _ => u64::from(choices.byte()),
    }
}

/// Bytes of which no eight are an address of the process's own.
fn content(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = choices.bytes(600);
    for byte in &mut bytes {
        *byte &= HARMLESS_BITS;
    }
    bytes
}
