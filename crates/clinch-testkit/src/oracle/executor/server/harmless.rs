//! What may be asked of an executor in this process: see [`Player`]'s module.

use super::{NOWHERE, PAGE, Player};
use clinch_executor::wire::{Action, Protection, Step, ToExecutor};
use std::ops::Range;

/// Every byte that is written is one of these, so that no word looks like an address of the
/// process's own code.
pub(super) const HARMLESS_BITS: u8 = 0x3f;

/// Libraries that may be opened.
pub(super) const LIBRARIES: [&[u8]; 5] = [b"libm.so.6", b"/no/such/library", b"", b"a\0b", b"/"];

impl Player {
    /// Whether nothing that is not a function of ours is run, and nothing changes that the process
    /// was told of.
    pub(super) fn is_harmless(&self, message: &ToExecutor<'_>) -> bool {
        // Nobody may be in code that goes.
        if gives_back(message) && !self.open.is_empty() {
            return false;
        }
        match message {
            ToExecutor::Write { pieces } => pieces.iter().all(|piece| {
                self.may_write(piece.address, piece.bytes.len()) && is_harmless(piece.bytes)
            }),
            ToExecutor::Zero { address, size } => !self.touches_kept(&range(*address, *size)),
            ToExecutor::Protect {
                address,
                size,
                protection,
            } => match protection {
                // The executor forgets what was there.
                Protection::None => true,
                Protection::Read | Protection::ReadWrite => {
                    !self.touches_kept(&range(*address, *size))
                }
                Protection::ReadExecute => false,
            },
            ToExecutor::Finalize { segments, steps } => {
                let segments = segments.iter().all(|segment| {
                    segment.protection != Protection::ReadExecute
                        && is_harmless(segment.content)
                        && !self.touches_kept(&range(segment.address, segment.size))
                });
                segments && self.are_harmless(steps)
            }
            ToExecutor::FinalizeShared { segments, steps } => {
                let segments = segments.iter().all(|segment| {
                    segment.protection != Protection::ReadExecute
                        && !self.touches_kept(&range(segment.address, segment.size))
                });
                segments && self.are_harmless(steps)
            }
            ToExecutor::Withdraw { undo, .. } => undo.iter().all(|a| self.is_harmless_action(a)),
            ToExecutor::Perform { actions } => actions.iter().all(|a| self.is_harmless_action(a)),
            ToExecutor::Open { path } => LIBRARIES.contains(path),
            ToExecutor::ReserveThreadLocal { size, .. } => *size < 1024,
            ToExecutor::LookUpThreadLocal { names } => names.iter().all(|name| name.len() < 64),
            ToExecutor::Main { address }
            | ToExecutor::Void { address }
            | ToExecutor::Int { address, .. } => self.may_run(*address, false),
            ToExecutor::Wrapper { address, .. } => self.may_run(*address, true),
            ToExecutor::Reserve { .. }
            | ToExecutor::Release { .. }
            | ToExecutor::Deallocate { .. }
            | ToExecutor::Read { .. }
            | ToExecutor::LookUp { .. }
            | ToExecutor::Arguments { .. }
            | ToExecutor::Dispatched(_)
            | ToExecutor::Alive
            | ToExecutor::Goodbye => true,
        }
    }

    fn are_harmless(&self, steps: &[Step]) -> bool {
        let mut actions = steps
            .iter()
            .flat_map(|step| std::iter::once(&step.action).chain(&step.undo));
        actions.all(|action| self.is_harmless_action(action))
    }

    fn is_harmless_action(&self, action: &Action) -> bool {
        match action {
            Action::RegisterFrames { begin } => {
                self.frames.contains(begin) || *begin < NOWHERE && !self.is_ours(*begin)
            }
            Action::WriteWord { address, value } => {
                let is_function = self.functions.iter().any(|f| f.start == *value);
                let is_harmless =
                    is_function || *value == u64::MAX || is_harmless(&value.to_le_bytes());
                is_harmless && self.may_write(*address, 8)
            }
            Action::ResolveIfunc { slot, resolver } => {
                self.may_run(*resolver, false) && self.may_write(*slot, 8)
            }
            Action::Call { function, .. } => self.may_run(*function, true),
            // Null stands for all handlers of the process.
            Action::RunHandlers { handle } => *handle != 0 && self.is_nowhere(*handle),
            Action::MoveVariable { from, to, size } => {
                let last = size.saturating_sub(1);
                let ends = [*from, *to].map(|at| [at, at.saturating_add(last)]);
                ends.iter().flatten().all(|at| self.is_nowhere(*at))
                    && !self.touches_kept(&range(*to, *size))
            }
            Action::RegisterFinalizers { arrays } => {
                arrays.iter().all(|array| self.arrays.contains(array))
            }
            Action::DeregisterFrames { .. }
            | Action::RunArray(_)
            | Action::InitializeThreadLocal { .. }
            | Action::ReleaseThreadLocal { .. }
            | Action::RegisterImage { .. }
            | Action::DeregisterImage { .. }
            | Action::RunFinalizers { .. } => true,
        }
    }

    /// Whether a function may be run: it is one of ours, or none is there.
    fn may_run(&self, address: u64, as_wrapper: bool) -> bool {
        let mut functions = self.functions.iter();
        let is_function = functions.any(|range| range.contains(&address));
        let is_wrapper = as_wrapper && self.wrappers.contains(&address);
        let is_nothing = !self.touches_kept(&range(address, 1)) && self.is_nowhere(address);
        (is_function || is_nothing) && !self.is_in_wrapper(address) || is_wrapper
    }

    fn is_in_wrapper(&self, address: u64) -> bool {
        let mut wrappers = self.wrappers.iter();
        wrappers.any(|start| (*start..start + PAGE).contains(&address))
    }

    /// Whether nothing but pages of ours can be there.
    fn is_nowhere(&self, address: u64) -> bool {
        self.is_ours(address) || address < NOWHERE
    }

    fn may_write(&self, address: u64, size: usize) -> bool {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        !self.touches_kept(&range(address, size))
    }

    fn is_ours(&self, address: u64) -> bool {
        self.reservations().any(|range| range.contains(&address))
    }

    pub(super) fn touches_kept(&self, range: &Range<u64>) -> bool {
        let mut kept = self.kept.iter();
        // Whole pages change.
        let end = range.end.saturating_add(PAGE);
        kept.any(|kept| kept.start < end && range.start < kept.end)
    }
}

/// Whether a message gives memory back, which may have code.
pub(super) fn gives_back(message: &ToExecutor<'_>) -> bool {
    match message {
        ToExecutor::Release { .. }
        | ToExecutor::Deallocate { .. }
        | ToExecutor::Withdraw { .. } => true,
        ToExecutor::Protect { protection, .. } => *protection == Protection::None,
        _ => false,
    }
}

fn range(address: u64, size: u64) -> Range<u64> {
    address..address.saturating_add(size)
}

fn is_harmless(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte & !HARMLESS_BITS == 0)
}
