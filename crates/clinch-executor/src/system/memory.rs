//! The memory of a connection: what it reserved and what each page of it allows. Every access is
//! checked against that before it is made, so the rest of the crate reads and writes addresses
//! that a peer names with safe code.
//!
//! *Invariant:* `pages` holds exactly the ranges of the reservations that allow anything, with
//! what they allow, and nobody else changes protections or mappings within a reservation. Linked
//! code may write to its own pages at any time, so no Rust reference to them is ever made: bytes
//! are copied through raw pointers.

use crate::wire::{Place, Protection, Refusal};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// Where low address space is looked for.
const LOW: std::ops::Range<u64> = 1 << 20..1 << 31;
/// How far apart two places of which one reaches the other may be, with room to spare.
const REACH: u64 = (1 << 31) - (1 << 24);
/// The steps in which address space is looked for.
const STRIDE: u64 = 1 << 23;

/// Reservations and their pages; everything is given back when dropped.
#[derive(Debug)]
pub(crate) struct Memory {
    page: u64,
    /// How many bytes may be reserved in all.
    limit: u64,
    reserved: u64,
    /// Reservations: size by start.
    reservations: BTreeMap<u64, u64>,
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
        let size = round_up(size.max(1), self.page).ok_or(Refusal::TooLarge(wanted))?;
        // The alignment is paid for as well, while a place is looked for.
        let room = self.limit.saturating_sub(self.reserved);
        if size.checked_add(align).is_none_or(|sum| sum > room) {
            return Err(Refusal::TooLarge(wanted));
        }
        let align = align.max(self.page);
        let found = match place {
            Place::Any => map_anywhere(size, align),
            Place::Low => search(LOW, size, align),
            Place::Near => {
                let anchor = u64_of((libc::getpid as *const ()).expose_provenance());
                let reach = anchor.saturating_sub(REACH)..anchor.saturating_add(REACH);
                search(reach, size, align).or_else(|| map_anywhere(size, align))
            }
        };
        let base = found.ok_or(Refusal::NoSpace(wanted))?;
        self.reservations.insert(base, size);
        self.reserved += size;
        Ok(base)
    }

    /// Gives a whole reservation back.
    pub(crate) fn release(&mut self, base: u64) -> Result<(), Refusal> {
        let Some(size) = self.reservations.remove(&base) else {
            return Err(Refusal::NotOwned {
                address: base,
                size: 0,
            });
        };
        self.forget(base, base + size);
        self.reserved -= size;
        unmap(base, size);
        Ok(())
    }

    /// The size of a reservation.
    pub(crate) fn reservation(&self, base: u64) -> Option<u64> {
        self.reservations.get(&base).copied()
    }

    /// The whole pages of a range that begins at a page and lies in one reservation.
    pub(crate) fn range(&self, address: u64, size: u64) -> Result<(u64, u64), Refusal> {
        if !address.is_multiple_of(self.page) {
            return Err(Refusal::Unaligned(address));
        }
        let not_owned = Refusal::NotOwned { address, size };
        let end = address
            .checked_add(size)
            .and_then(|end| round_up(end, self.page));
        match (self.holder(address), end) {
            (Some((_, limit)), Some(end)) if end <= limit => Ok((address, end)),
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
        let bits = match protection {
            Protection::None => {
                discard(start, end - start)?;
                self.forget(start, end);
                return Ok(());
            }
            Protection::Read => libc::PROT_READ,
            Protection::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
            Protection::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
        };
        // SAFETY: the range lies in a reservation of ours, to which there are no references.
        let result = unsafe { libc::mprotect(pointer(start), usize_of_u64(end - start), bits) };
        if result != 0 {
            let refusal = last_error("change memory protection");
            // The call may have changed a part before it failed: what is left has no access.
            if discard(start, end - start).is_ok() {
                self.forget(start, end);
            }
            return Err(refusal);
        }
        self.forget(start, end);
        self.pages.insert(start, Pages { end, protection });
        self.join(start);
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
        let (Some((_, limit)), Some(end)) = (self.holder(address), address.checked_add(size))
        else {
            return Err(not_owned);
        };
        if end > limit {
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

    /// The reservation around an address: start and end.
    fn holder(&self, address: u64) -> Option<(u64, u64)> {
        let (&base, &size) = self.reservations.range(..=address).next_back()?;
        (address < base + size).then_some((base, base + size))
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

impl Drop for Memory {
    fn drop(&mut self) {
        for (&base, &size) in &self.reservations {
            unmap(base, size);
        }
    }
}

/// The size of a page.
pub(crate) fn page_size() -> u64 {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

fn round_up(value: u64, unit: u64) -> Option<u64> {
    value.checked_next_multiple_of(unit)
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize_of_u64(address))
}

fn last_error(what: &str) -> Refusal {
    Refusal::System {
        what: what.to_owned(),
        code: std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
    }
}

/// A new mapping without access.
fn map(hint: u64, size: u64, flags: libc::c_int) -> Option<u64> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping; `MAP_FIXED_NOREPLACE` at most, so nothing that exists is
    // replaced.
    let address = unsafe {
        libc::mmap(
            pointer(hint),
            usize_of_u64(size),
            libc::PROT_NONE,
            flags,
            -1,
            0,
        )
    };
    (address != libc::MAP_FAILED).then(|| u64_of(address.expose_provenance()))
}

/// Address space anywhere; what an alignment above a page's makes too much is given back.
fn map_anywhere(size: u64, align: u64) -> Option<u64> {
    let extra = if align > page_size() { align } else { 0 };
    let whole = size.checked_add(extra)?;
    let start = map(0, whole, 0)?;
    let base = round_up(start, align)?;
    let (front, back) = (base - start, start + whole - (base + size));
    if front > 0 {
        unmap(start, front);
    }
    if back > 0 {
        unmap(base + size, back);
    }
    Some(base)
}

/// Address space within a range, the nearest to its middle first.
fn search(range: std::ops::Range<u64>, size: u64, align: u64) -> Option<u64> {
    let step = align.max(STRIDE);
    let middle = range.start.midpoint(range.end) & !(align - 1);
    let n = (range.end - range.start) / step / 2 + 1;
    (0..n)
        .flat_map(|n| {
            let distance = n.saturating_mul(step);
            [middle.checked_sub(distance), middle.checked_add(distance)]
        })
        .flatten()
        .filter(|&base| {
            base >= range.start && base.checked_add(size).is_some_and(|end| end <= range.end)
        })
        .find(|&base| is_mapped_at(base, size))
}

/// Reserves a range, if nothing else is there.
fn is_mapped_at(base: u64, size: u64) -> bool {
    match map(base, size, libc::MAP_FIXED_NOREPLACE) {
        Some(found) if found == base => true,
        // A kernel that does not know the flag takes the address as it likes.
        Some(found) => {
            unmap(found, size);
            false
        }
        None => false,
    }
}

/// Gives pages back to the system and forbids access; the address space stays reserved.
fn discard(base: u64, size: u64) -> Result<(), Refusal> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: replaces pages of a reservation of ours, to which there are no references.
    let result = unsafe {
        libc::mmap(
            pointer(base),
            usize_of_u64(size),
            libc::PROT_NONE,
            flags,
            -1,
            0,
        )
    };
    if result == libc::MAP_FAILED {
        return Err(last_error("give memory back"));
    }
    Ok(())
}

/// Gives a reservation back.
fn unmap(base: u64, size: u64) {
    // SAFETY: the range is a reservation of ours, or a part of one that nobody knows yet. Errors
    // cannot happen for a range that was mapped.
    unsafe { libc::munmap(pointer(base), usize_of_u64(size)) };
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
        let anchor = u64_of((libc::getpid as *const ()).expose_provenance());
        let near = memory.reserve(PAGE, 16, Place::Near).unwrap();
        assert!(near.abs_diff(anchor) < 1 << 31);
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
