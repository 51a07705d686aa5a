//! Address space: reserving it, what its pages allow, giving it back. A reservation without access
//! costs nothing; parts of it get access as they are used.

use super::file::SealedFile;
use super::shared::SharedFile;
use crate::wire::{Protection, Refusal};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::ffi::c_void;

/// How far apart two places of which one reaches the other may be, with room to spare.
pub const REACH: u64 = (1 << 31) - (1 << 24);
/// The steps in which address space is looked for.
const STRIDE: u64 = 1 << 23;

/// Address space of this process, given back when dropped. New pages allow nothing.
#[derive(Debug)]
pub struct Reservation {
    base: u64,
    size: u64,
}

impl Reservation {
    /// Address space anywhere; `None` when there is none. The alignment is a power of two, the
    /// size whole pages.
    pub fn anywhere(size: u64, align: u64) -> Option<Self> {
        let extra = if align > page_size() { align } else { 0 };
        let whole = Self::map(0, size.checked_add(extra)?, 0)?;
        let base = whole.base.checked_next_multiple_of(align.max(1))?;
        Some(whole.cut(base, size))
    }

    /// Address space at an address, if nothing else is there.
    pub fn at(base: u64, size: u64) -> Option<Self> {
        // A kernel that does not know the flag takes the address as it likes.
        Self::map(base, size, libc::MAP_FIXED_NOREPLACE).filter(|found| found.base == base)
    }

    /// Address space within a range, the nearest to its middle first.
    pub(crate) fn within(range: std::ops::Range<u64>, size: u64, align: u64) -> Option<Self> {
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
            .find_map(|base| Self::at(base, size))
    }

    /// A new mapping. `MAP_FIXED_NOREPLACE` at most, so nothing that exists is replaced.
    fn map(hint: u64, size: u64, flags: libc::c_int) -> Option<Self> {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping, which replaces nothing.
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
        (address != libc::MAP_FAILED).then(|| Self {
            base: u64_of(address.expose_provenance()),
            size,
        })
    }

    /// A part of it; the rest is given back.
    fn cut(mut self, base: u64, size: u64) -> Self {
        let (start, end) = (self.base, self.end());
        (self.base, self.size) = (base, size);
        for (from, to) in [(start, base), (base + size, end)] {
            if from < to {
                unmap(from, to - from);
            }
        }
        self
    }

    /// Where it begins.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.base + self.size
    }

    /// Changes what pages of it allow. What allows nothing is given up and is zero when access is
    /// next allowed. No reference to what is in the pages may be used any more.
    ///
    /// # Errors
    /// What the system says; a range that is not all of this reservation's.
    pub fn protect(&self, start: u64, size: u64, protection: Protection) -> Result<(), Refusal> {
        self.check(start, size)?;
        if protection == Protection::None {
            return discard(start, size);
        }
        let bits = bits(protection);
        // SAFETY: the range is ours; who has references to it (`bytes`) promised not to use them.
        let result = unsafe { libc::mprotect(pointer(start), usize_of_u64(size), bits) };
        if result == 0 {
            Ok(())
        } else {
            Err(last_error("change memory protection"))
        }
    }

    /// Puts the beginning of a file in the place of pages, which allow from then on what they will
    /// allow in the end. The pages are this process's own: a debugger's breakpoints, or what a
    /// child writes, are not in the file. No reference to what was in the pages may be used any
    /// more.
    ///
    /// # Errors
    /// What the system says; a range that is not all of this reservation's, or larger than the
    /// file.
    pub fn map_file(
        &self,
        start: u64,
        size: u64,
        protection: Protection,
        file: &SealedFile,
    ) -> Result<(), Refusal> {
        self.check(start, size)?;
        if size > file.size() {
            return Err(Refusal::TooLarge(size));
        }
        map_part(start, size, protection, file.number(), 0)
    }

    /// The same with a part of a file that another process may write to: until something is written
    /// to a page here, it is what is in the file.
    ///
    /// # Errors
    /// What the system says; a range that is not all of this reservation's, or of the file.
    pub(super) fn map_shared(
        &self,
        start: u64,
        size: u64,
        protection: Protection,
        file: &SharedFile,
        offset: u64,
    ) -> Result<(), Refusal> {
        self.check(start, size)?;
        let not_shared = Refusal::NotShared { offset, size };
        let place = libc::off_t::try_from(offset).ok();
        let place = place.filter(|_| file.has(offset, size)).ok_or(not_shared)?;
        map_part(start, size, protection, file.number(), place)
    }

    /// An error unless all of a range is this reservation's.
    fn check(&self, start: u64, size: u64) -> Result<(), Refusal> {
        let is_inside = start >= self.base && size <= self.end().saturating_sub(start);
        let not_owned = Refusal::NotOwned {
            address: start,
            size,
        };
        is_inside.then_some(()).ok_or(not_owned)
    }
}

/// The system's bits for what pages allow.
fn bits(protection: Protection) -> libc::c_int {
    match protection {
        Protection::None => libc::PROT_NONE,
        Protection::Read => libc::PROT_READ,
        Protection::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        Protection::ReadExecute => libc::PROT_READ | libc::PROT_EXEC,
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(self.base, self.size);
    }
}

/// Bytes of pages that the caller made writable.
///
/// # Safety
/// The pages must be of a reservation, stay writable for as long as the slice lives, and be nobody
/// else's meanwhile.
pub unsafe fn bytes<'a>(start: u64, size: u64) -> &'a mut [u8] {
    // SAFETY: the caller's promise; new pages are zero, so all bytes have a value.
    unsafe { std::slice::from_raw_parts_mut(pointer(start).cast(), usize_of_u64(size)) }
}

/// Bytes somewhere.
///
/// # Safety
/// They must be readable, and not be written to for as long as the slice lives.
pub(super) unsafe fn read<'a>(start: u64, size: u64) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(pointer(start).cast(), usize_of_u64(size)) }
}

/// The size of a page.
pub fn page_size() -> u64 {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// An address in the C library, which what is linked should reach.
pub fn anchor() -> u64 {
    u64_of((libc::getpid as *const ()).expose_provenance())
}

pub(super) fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize_of_u64(address))
}

pub(super) fn last_error(what: &str) -> Refusal {
    Refusal::System {
        what: what.to_owned(),
        code: std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
    }
}

/// Puts a part of a file in the place of pages of a reservation (see [`Reservation::map_file`]).
fn map_part(
    start: u64,
    size: u64,
    protection: Protection,
    file: libc::c_int,
    offset: libc::off_t,
) -> Result<(), Refusal> {
    // SAFETY: replaces pages of a reservation, to which no references are used any more.
    let result = unsafe {
        libc::mmap(
            pointer(start),
            usize_of_u64(size),
            bits(protection),
            libc::MAP_PRIVATE | libc::MAP_FIXED,
            file,
            offset,
        )
    };
    if result == libc::MAP_FAILED {
        return Err(last_error("map a memory file"));
    }
    Ok(())
}

/// Gives pages back to the system and forbids access; the address space stays reserved.
fn discard(base: u64, size: u64) -> Result<(), Refusal> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: replaces pages of a reservation (see `Reservation::protect`).
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

/// Gives address space back.
fn unmap(base: u64, size: u64) {
    // SAFETY: the range is a reservation that is being dropped, or a part of one that nobody knows
    // yet. Errors cannot happen for a range that was mapped.
    unsafe { libc::munmap(pointer(base), usize_of_u64(size)) };
}
