//! The memory of a connection: what it reserved and what each page of it allows. Every access is
//! checked against that before it is made, so the rest of the crate reads and writes addresses
//! that a peer names with safe code.
//!
//! *Invariant:* `pages` holds exactly the ranges of the reservations that allow anything, with
//! what they allow, and nobody else changes protections or mappings within a reservation. Linked
//! code may write to its own pages at any time, so no Rust reference to them is ever made: bytes
//! are copied through raw pointers.

use super::code::{Callable, is_none};
use super::debugger::Registration;
use super::finalizers::Finalizers;
use super::pages::{REACH, Reservation, anchor, page_size, pointer};
use super::shared::SharedFile;
use super::{bindings, library};
use crate::wire::{Array, Place, Protection, Refusal};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::collections::BTreeMap;

/// Where low address space is looked for.
const LOW: std::ops::Range<u64> = 1 << 20..1 << 31;

/// Reservations and their pages; everything is given back when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    page: u64,
    /// How many bytes may be reserved in all.
    limit: u64,
    reserved: u64,
    /// Reservations by start.
    reservations: BTreeMap<u64, Reservation>,
    /// Pages that allow something, by start.
    pages: BTreeMap<u64, Pages>,
}

/// A run of pages that allow the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pages {
    end: u64,
    protection: Protection,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            page: page_size(),
            limit,
            reserved: 0,
            reservations: BTreeMap::new(),
            pages: BTreeMap::new(),
        }
    }

    /// Reserves address space; its pages allow nothing.
    pub(crate) fn reserve(&mut self, size: u64, align: u64, place: Place) -> Result<u64, Refusal> {
        if !align.is_power_of_two() {
            return Err(Refusal::Unaligned(align));
        }
        let wanted = size;
        let size = size.max(1).checked_next_multiple_of(self.page);
        let size = size.ok_or(Refusal::TooLarge(wanted))?;
        // The alignment is paid for as well, while a place is looked for.
        let room = self.limit.saturating_sub(self.reserved);
        if size.checked_add(align).is_none_or(|sum| sum > room) {
            return Err(Refusal::TooLarge(wanted));
        }
        let align = align.max(self.page);
        let found = match place {
            Place::Any => Reservation::anywhere(size, align),
            Place::Low => Reservation::within(LOW, size, align),
            Place::Near => {
                let reach = anchor().saturating_sub(REACH)..anchor().saturating_add(REACH);
                let near = Reservation::within(reach, size, align);
                near.or_else(|| Reservation::anywhere(size, align))
            }
        };
        let found = found.ok_or(Refusal::NoSpace(wanted))?;
        let base = found.base();
        self.reservations.insert(base, found);
        self.reserved += size;
        Ok(base)
    }

    /// Gives a whole reservation back.
    pub(crate) fn release(&mut self, base: u64) -> Result<(), Refusal> {
        let Some(reservation) = self.reservations.remove(&base) else {
            return Err(Refusal::NotOwned {
                address: base,
                size: 0,
            });
        };
        self.forget(base, reservation.end());
        self.reserved -= reservation.size();
        Ok(())
    }

    /// The size of a reservation.
    pub(crate) fn reservation(&self, base: u64) -> Option<u64> {
        self.reservations.get(&base).map(Reservation::size)
    }

    /// The whole pages of a range that begins at a page and lies in one reservation.
    pub(crate) fn range(&self, address: u64, size: u64) -> Result<(u64, u64), Refusal> {
        if !address.is_multiple_of(self.page) {
            return Err(Refusal::Unaligned(address));
        }
        let not_owned = Refusal::NotOwned { address, size };
        let end = address
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(self.page));
        match (self.holder(address), end) {
            (Some(holder), Some(end)) if end <= holder.end() => Ok((address, end)),
            _ => Err(not_owned),
        }
    }

    /// Changes what the pages of a range allow.
    pub(crate) fn protect(
        &mut self,
        address: u64,
        size: u64,
        protection: Protection,
    ) -> Result<(), Refusal> {
        let (start, end) = self.range(address, size)?;
        let is_so = match self.run_at(start) {
            Some((_, pages)) => pages.protection == protection && pages.end >= end,
            None => false,
        };
        if start == end || is_so {
            return Ok(());
        }
        self.change(start, end, protection, |holder| {
            holder.protect(start, end - start, protection)
        })
    }

    /// Puts a part of a file in the place of the pages of a range. What is written to them is not
    /// in the file.
    pub(crate) fn map(
        &mut self,
        address: u64,
        size: u64,
        protection: Protection,
        file: &SharedFile,
        offset: u64,
    ) -> Result<(), Refusal> {
        let (start, end) = self.range(address, size)?;
        if !file.has(offset, size) {
            return Err(Refusal::NotShared { offset, size });
        }
        if start == end || protection == Protection::None {
            return self.protect(address, size, protection);
        }
        self.change(start, end, protection, |holder| {
            holder.map_shared(start, end - start, protection, file, offset)
        })
    }

    /// Changes what the pages of a range of one reservation allow, by something that may fail.
    fn change(
        &mut self,
        start: u64,
        end: u64,
        protection: Protection,
        change: impl FnOnce(&Reservation) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let size = end - start;
        let address = start;
        let Some(holder) = self.holder(start) else {
            return Err(Refusal::NotOwned { address, size });
        };
        if let Err(refusal) = change(holder) {
            // The call may have changed a part before it failed: what is left has no access.
            if holder.protect(start, size, Protection::None).is_ok() {
                self.forget(start, end);
            }
            return Err(refusal);
        }
        self.forget(start, end);
        if protection != Protection::None {
            self.pages.insert(start, Pages { end, protection });
            self.join(start);
        }
        Ok(())
    }

    /// Copies bytes to writable pages.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let size = u64_of(bytes.len());
        self.check(address, size, |protection| {
            protection == Protection::ReadWrite
        })?;
        // SAFETY: the pages are ours and writable, as was just checked. They and the bytes do not
        // overlap: the bytes are in memory of Rust's.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(address).cast(), bytes.len());
        }
        Ok(())
    }

    /// Writes zeros to writable pages.
    pub(crate) fn zero(&self, address: u64, size: u64) -> Result<(), Refusal> {
        self.check(address, size, |protection| {
            protection == Protection::ReadWrite
        })?;
        // SAFETY: the pages are ours and writable, as was just checked.
        unsafe { std::ptr::write_bytes(pointer(address).cast::<u8>(), 0, usize_of_u64(size)) };
        Ok(())
    }

    /// Copies bytes from readable pages.
    pub(crate) fn read(&self, address: u64, size: u64) -> Result<Vec<u8>, Refusal> {
        self.check(address, size, |_| true)?;
        let n = usize_of_u64(size);
        let mut bytes = vec![0; n];
        // SAFETY: the pages are ours and readable, as was just checked.
        unsafe { std::ptr::copy_nonoverlapping(pointer(address).cast(), bytes.as_mut_ptr(), n) };
        Ok(bytes)
    }

    /// A little number of bytes from readable pages.
    pub(crate) fn array<const N: usize>(&self, address: u64) -> Result<[u8; N], Refusal> {
        self.check(address, u64_of(N), |_| true)?;
        // SAFETY: the pages are ours and readable, as was just checked; an array of bytes needs no
        // alignment.
        Ok(unsafe { pointer(address).cast::<[u8; N]>().read() })
    }

    /// Writes a pointer-sized word to writable pages.
    pub(crate) fn write_word(&self, address: u64, value: u64) -> Result<(), Refusal> {
        self.write(address, &usize_of_u64(value).to_ne_bytes())
    }

    /// Moves a variable (see [`Action::MoveVariable`](crate::wire::Action::MoveVariable)) between
    /// pages of ours and a library.
    pub(crate) fn move_variable(&self, from: u64, to: u64, size: u64) -> Result<(), Refusal> {
        for address in [from, to] {
            let last = address.saturating_add(size.saturating_sub(1));
            if !library::is_loaded(address) || !library::is_loaded(last) {
                self.check(address, size, |allows| {
                    address == from || allows == Protection::ReadWrite
                })?;
            }
        }
        // SAFETY: both are ours and allow it, or lie in an object that the process has loaded;
        // that they are a variable and its copy is the word of the controller.
        unsafe { bindings::move_variable(from, to, size) };
        Ok(())
    }

    /// Tells debuggers of an image in readable pages, which must be taken back before the pages
    /// are given up.
    pub(crate) fn register_image(
        &self,
        address: u64,
        size: u64,
        blank: Vec<u8>,
    ) -> Result<Registration, Refusal> {
        self.check(address, size, |_| true)?;
        // SAFETY: the pages are readable, as was just checked, and stay so until they are given up.
        Ok(unsafe { Registration::at(address, size, blank) })
    }

    /// Registers finalizers in readable pages, which must be taken back before the pages are given
    /// up, or those that the functions are in.
    pub(crate) fn register_finalizers(&self, arrays: &[Array]) -> Result<Finalizers, Refusal> {
        let mut functions = Vec::new();
        for array in arrays {
            self.check(array.address, array.size(), |_| true)?;
            for n in array.slots() {
                functions.extend(self.function(array, n)?);
            }
        }
        // SAFETY: they are code, as was just checked; that it is functions' is the word of the
        // controller.
        Ok(unsafe { Finalizers::register(arrays, functions) })
    }

    /// The function in a slot of an array, if there is one.
    pub(crate) fn function(&self, array: &Array, slot: u64) -> Result<Option<Callable>, Refusal> {
        let offset = slot.checked_mul(u64_of(size_of::<usize>()));
        let address = offset.and_then(|offset| array.address.checked_add(offset));
        let address = address.ok_or(Refusal::NotOwned {
            address: array.address,
            size: array.size(),
        })?;
        let function = usize::from_ne_bytes(self.array(address)?);
        if is_none(function) {
            return Ok(None);
        }
        Callable::new(self, u64_of(function)).map(Some)
    }

    /// Whether an address lies in executable pages of ours; `None` when it is not ours.
    pub(crate) fn is_code(&self, address: u64) -> Option<bool> {
        self.holder(address)?;
        let run = self.run_at(address);
        Some(run.is_some_and(|(_, pages)| pages.protection == Protection::ReadExecute))
    }

    /// An error unless all of a range is ours and allows what is wanted.
    fn check(
        &self,
        address: u64,
        size: u64,
        allows: impl Fn(Protection) -> bool,
    ) -> Result<(), Refusal> {
        let not_owned = Refusal::NotOwned { address, size };
        let (Some(holder), Some(end)) = (self.holder(address), address.checked_add(size)) else {
            return Err(not_owned);
        };
        if end > holder.end() {
            return Err(not_owned);
        }
        let mut at = address;
        while at < end {
            match self.run_at(at) {
                Some((_, pages)) if allows(pages.protection) => at = pages.end,
                _ => return Err(Refusal::NotAllowed { address, size }),
            }
        }
        Ok(())
    }

    /// The reservation around an address.
    fn holder(&self, address: u64) -> Option<&Reservation> {
        let (_, reservation) = self.reservations.range(..=address).next_back()?;
        (address < reservation.end()).then_some(reservation)
    }

    /// The run of pages around an address.
    fn run_at(&self, address: u64) -> Option<(u64, Pages)> {
        let (&start, &pages) = self.pages.range(..=address).next_back()?;
        (address < pages.end).then_some((start, pages))
    }

    /// Takes a range out of `pages`.
    fn forget(&mut self, start: u64, end: u64) {
        if let Some((first, pages)) = self.run_at(start) {
            self.pages.remove(&first);
            if first < start {
                self.pages.insert(
                    first,
                    Pages {
                        end: start,
                        ..pages
                    },
                );
            }
            self.keep_behind(end, pages);
        }
        while let Some((&first, &pages)) = self.pages.range(start..end).next() {
            self.pages.remove(&first);
            self.keep_behind(end, pages);
        }
    }

    fn keep_behind(&mut self, end: u64, pages: Pages) {
        if pages.end > end {
            self.pages.insert(end, pages);
        }
    }

    /// Joins a run with its neighbors of the same protection, so that there are as few as the
    /// system has.
    fn join(&mut self, start: u64) {
        let Some(&(mut pages)) = self.pages.get(&start) else {
            return;
        };
        let mut first = start;
        if let Some(&next) = self.pages.get(&pages.end)
            && next.protection == pages.protection
        {
            self.pages.remove(&pages.end);
            pages.end = next.end;
        }
        if let Some((&before, &previous)) = self.pages.range(..start).next_back()
            && previous.end == start
            && previous.protection == pages.protection
        {
            self.pages.remove(&start);
            first = before;
        }
        self.pages.insert(first, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn not_allowed(result: Result<(), Refusal>) -> bool {
        matches!(result, Err(Refusal::NotAllowed { .. }))
    }

    #[test]
    fn access_needs_the_pages_leave() {
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(8 * PAGE, 16, Place::Any).unwrap();
        assert!(not_allowed(memory.write(base, b"x")));
        memory
            .protect(base + PAGE, 2 * PAGE, Protection::ReadWrite)
            .unwrap();
        memory.write(base + 3 * PAGE - 2, b"ab").unwrap();
        assert!(not_allowed(memory.write(base + 3 * PAGE - 2, b"abc")));
        assert_eq!(memory.read(base + 3 * PAGE - 2, 2).unwrap(), b"ab");
        memory
            .protect(base + 2 * PAGE, PAGE, Protection::Read)
            .unwrap();
        assert!(not_allowed(memory.write(base + 3 * PAGE - 2, b"a")));
        assert_eq!(memory.read(base + 3 * PAGE - 2, 2).unwrap(), b"ab");
        assert_eq!(memory.is_code(base + PAGE), Some(false));
        memory
            .protect(base + PAGE, PAGE, Protection::ReadExecute)
            .unwrap();
        assert_eq!(memory.is_code(base + PAGE), Some(true));
        assert_eq!(memory.is_code(base + 8 * PAGE), None);
    }

    #[test]
    fn given_up_pages_are_zero_again() {
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(PAGE, 16, Place::Any).unwrap();
        memory.protect(base, 1, Protection::ReadWrite).unwrap();
        memory.write(base, b"abc").unwrap();
        memory.protect(base, 1, Protection::None).unwrap();
        assert!(memory.read(base, 1).is_err());
        memory.protect(base, 1, Protection::ReadWrite).unwrap();
        assert_eq!(memory.read(base, 3).unwrap(), [0; 3]);
    }

    #[test]
    fn runs_split_and_join() {
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(9 * PAGE, 16, Place::Any).unwrap();
        memory
            .protect(base, 9 * PAGE, Protection::ReadWrite)
            .unwrap();
        memory
            .protect(base + 3 * PAGE, 3 * PAGE, Protection::Read)
            .unwrap();
        assert_eq!(memory.pages.len(), 3);
        memory
            .protect(base + 4 * PAGE, PAGE, Protection::ReadWrite)
            .unwrap();
        assert_eq!(memory.pages.len(), 5);
        memory
            .protect(base + 3 * PAGE, 3 * PAGE, Protection::ReadWrite)
            .unwrap();
        assert_eq!(memory.pages.len(), 1);
        memory
            .protect(base + PAGE, 7 * PAGE, Protection::None)
            .unwrap();
        assert_eq!(memory.pages.len(), 2);
        memory.release(base).unwrap();
        assert!(memory.pages.is_empty());
        assert_eq!(memory.reserved, 0);
    }

    #[test]
    fn ranges_end_with_their_reservation() {
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(2 * PAGE, 16, Place::Any).unwrap();
        for (address, size) in [
            (base, 2 * PAGE + 1),
            (base - PAGE, PAGE),
            (base, u64::MAX),
            (base + PAGE, u64::MAX - base),
            (u64::MAX - PAGE + 1, PAGE),
            (0, 1),
        ] {
            assert!(memory.protect(address, size, Protection::Read).is_err());
            assert!(memory.read(address, size).is_err());
            assert!(memory.zero(address, size).is_err());
        }
        assert_eq!(
            memory.protect(base + 1, 1, Protection::Read),
            Err(Refusal::Unaligned(base + 1))
        );
    }

    #[test]
    fn places_and_alignments_are_kept() {
        let mut memory = Memory::new(1 << 40);
        let low = memory.reserve(1 << 16, 1 << 21, Place::Low).unwrap();
        assert!(low < 1 << 31 && low.is_multiple_of(1 << 21));
        let any = memory.reserve(PAGE, 1 << 30, Place::Any).unwrap();
        assert_eq!(any % (1 << 30), 0);
        let near = memory.reserve(PAGE, 16, Place::Near).unwrap();
        assert!(near.abs_diff(anchor()) < 1 << 31);
        assert_eq!(
            memory.reserve(1 << 41, 1, Place::Any),
            Err(Refusal::TooLarge(1 << 41))
        );
        assert_eq!(
            memory.reserve(u64::MAX, 1, Place::Any),
            Err(Refusal::TooLarge(u64::MAX))
        );
        assert_eq!(memory.reserve(1, 3, Place::Any), Err(Refusal::Unaligned(3)));
        assert_eq!(
            memory.reserve(1 << 31, 1, Place::Low),
            Err(Refusal::NoSpace(1 << 31))
        );
    }
}
