//! Thread-local storage for linked code, with a fixed offset from the thread pointer.
//!
//! The program that embeds this crate has a reserve in its own thread-local block: every thread
//! of the process, whoever starts it, gets one, at the same offset from its thread pointer. A
//! dylib's block is a part of the reserve or, if it does not fit, of what the C library keeps for
//! libraries that are opened later; so all access models work and relax to the cheapest.
//! New threads get their initial values the way all thread-local variables do: the C library
//! copies an initial image, into which the dylib's image is written. Threads that were running
//! before, other than the one that links, find their block unchanged (or zero); they have to be
//! started after linking to run code that uses it.
//!
//! The C library keeps less than 2 KiB, unless the environment of the process told it to keep
//! more when it started: `GLIBC_TUNABLES=glibc.rtld.optional_static_tls=BYTES`. It aligns no
//! thread's block to more than what the process's program and its first libraries need: 64 as
//! a rule. No offset makes up for that, since it would have to differ between threads. So larger
//! blocks and alignments are an error, to which [`restart`](super::restart) is an answer for
//! programs that can start again.

use super::placed_tls::PlacedBlock;
use crate::wire::Refusal;
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// Size of the reserve in bytes. Threads pay for it with stack: with 10 KiB, the smallest stacks
/// that the C library allows, of 16 KiB, are refused, and threads need some of them to run.
const SIZE: usize = 6 << 10;
const ALIGN: u64 = 64;

#[repr(C, align(64))]
struct Reserve([u8; SIZE]);

thread_local! {
    // The first byte is not zero so that the reserve is part of the initial image in the file,
    // which is what new threads are given a copy of.
    static RESERVE: UnsafeCell<Reserve> = const {
        UnsafeCell::new({
            let mut bytes = [0; SIZE];
            bytes[0] = 1;
            Reserve(bytes)
        })
    };
}

/// How much of the reserve is in use. It is given out from the start and, for want of need, only
/// taken back from the end.
static USED: Mutex<Used> = Mutex::new(Used { blocks: Vec::new() });

struct Used {
    /// Start and end of each block, ascending.
    blocks: Vec<(u64, u64)>,
}

/// A dylib's thread-local block, at the same offset in every thread.
#[derive(Debug)]
pub(crate) struct ThreadBlock {
    place: Place,
    size: u64,
}

#[derive(Debug)]
enum Place {
    Reserve(Part),
    Placed(PlacedBlock),
}

/// A part of the reserve.
#[derive(Debug)]
struct Part {
    start: u64,
}

impl ThreadBlock {
    /// Takes a part of the reserve, or has the C library find a place.
    ///
    /// # Errors
    /// There is none of that size or alignment.
    pub(crate) fn new(size: u64, align: u64) -> Result<Self, Refusal> {
        let align = align.max(1);
        if !align.is_power_of_two() {
            return Err(Refusal::Unaligned(align));
        }
        let part = Part::new(size, align);
        let have = match part {
            Ok(part) => {
                return Ok(Self {
                    place: Place::Reserve(part),
                    size,
                });
            }
            Err(have) => have,
        };
        match PlacedBlock::new(size, align) {
            Some(block) => Ok(Self {
                place: Place::Placed(block),
                size,
            }),
            None => Err(Refusal::NoThreadLocalSpace {
                want: size,
                align,
                have,
            }),
        }
    }

    /// The block's offset from the thread pointer.
    pub(crate) fn tp_offset(&self) -> i64 {
        match &self.place {
            Place::Reserve(part) => reserve_offset().wrapping_add_unsigned(part.start),
            Place::Placed(block) => block.tp_offset(),
        }
    }

    /// Sets the initial values of all threads to come, and of the calling one.
    ///
    /// # Errors
    /// The program's initial image is not where it should be.
    pub(crate) fn initialize(&self, image: &[u8]) -> Result<(), Refusal> {
        let size = usize_of_u64(self.size);
        let image = &image[..image.len().min(size)];
        match &self.place {
            Place::Reserve(part) => {
                let mut values = image.to_vec();
                values.resize(size, 0);
                part.initialize(&values)
            }
            Place::Placed(block) => {
                block.initialize(image);
                Ok(())
            }
        }
    }
}

impl Part {
    /// Takes a part, or answers how many bytes of that alignment are left.
    fn new(size: u64, align: u64) -> Result<Self, u64> {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        let have = u64_of(SIZE);
        if align > ALIGN {
            return Err(0);
        }
        let mut at = 0_u64;
        for index in 0..=used.blocks.len() {
            let gap_end = used.blocks.get(index).map_or(have, |&(start, _)| start);
            if at.checked_add(size).is_some_and(|end| end <= gap_end) {
                used.blocks.insert(index, (at, at + size));
                return Ok(Self { start: at });
            }
            at = used
                .blocks
                .get(index)
                .map_or(have, |&(_, end)| end)
                .next_multiple_of(ALIGN);
        }
        let last = used.blocks.last().map_or(0, |&(_, end)| end);
        Err(have - last)
    }

    fn initialize(&self, values: &[u8]) -> Result<(), Refusal> {
        write_image(self.start, values)?;
        let own = RESERVE.with(|reserve| u64_of(reserve.get().expose_provenance()));
        // SAFETY: the calling thread's part of the reserve, which this block owns.
        unsafe { write(own + self.start, values) };
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        used.blocks.retain(|&(start, _)| start != self.start);
    }
}

/// The offset of an address in the calling thread's storage from its thread pointer.
fn offset_of(address: u64) -> i64 {
    address.wrapping_sub(thread_pointer()).cast_signed()
}

fn reserve_offset() -> i64 {
    RESERVE.with(|reserve| offset_of(u64_of(reserve.get().expose_provenance())))
}

pub(super) fn thread_pointer() -> u64 {
    let pointer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the word at the thread pointer, which the psABI says holds the pointer
    // itself; no memory is written and no flag changed.
    unsafe {
        std::arch::asm!(
            "mov {}, qword ptr fs:[0]",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly)
        );
    }
    pointer
}

/// Writes into the initial image of the program's thread-local block.
fn write_image(start: u64, values: &[u8]) -> Result<(), Refusal> {
    /// Two writers of one page must not seal it for one another.
    static WRITING: Mutex<()> = Mutex::new(());
    const PAGE: u64 = 4096;
    let missing =
        || Refusal::ThreadLocal("the initial image of this program's was not found".to_owned());
    let place = image_of_reserve().ok_or_else(missing)? + start;
    let first = place & !(PAGE - 1);
    let size = usize_of_u64((place + u64_of(values.len())).next_multiple_of(PAGE) - first);
    let pages: *mut c_void = std::ptr::with_exposed_provenance_mut(usize_of_u64(first));
    let protect = |bits| {
        // SAFETY: the pages hold the program's own initial image, which only the C library reads
        // (when a thread starts); they are read-only before and after.
        let result = unsafe { libc::mprotect(pages, size, bits) };
        if result == 0 { Ok(()) } else { Err(missing()) }
    };
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    protect(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: inside the image: the reserve lies in it whole, and the block in the reserve.
    unsafe { write(place, values) };
    Ok(())
}

/// Where in the program's initial image the reserve is.
fn image_of_reserve() -> Option<u64> {
    struct Search {
        own: u64,
        found: Option<u64>,
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes a filled record, and `data` is the search below.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        for n in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the record's array has `dlpi_phnum` entries.
            let header = unsafe { &*info.dlpi_phdr.add(n) };
            let block = u64_of(info.dlpi_tls_data.expose_provenance());
            if header.p_type == libc::PT_TLS && block != 0 {
                let offset = search.own.wrapping_sub(block);
                if offset + u64_of(SIZE) <= header.p_filesz {
                    search.found = Some(info.dlpi_addr.wrapping_add(header.p_vaddr) + offset);
                    return 1;
                }
            }
        }
        0
    }
    let own = RESERVE.with(|reserve| u64_of(reserve.get().expose_provenance()));
    let mut search = Search { own, found: None };
    // SAFETY: `visit` expects the search and does not keep it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// Writes bytes to an address.
///
/// # Safety
/// The range must be writable and nobody else's.
pub(super) unsafe fn write(address: u64, values: &[u8]) {
    // SAFETY: the caller's promise; the source is a slice elsewhere.
    unsafe {
        std::ptr::copy_nonoverlapping(
            values.as_ptr(),
            std::ptr::with_exposed_provenance_mut(usize_of_u64(address)),
            values.len(),
        );
    }
}

/// Writes zeros to an address.
///
/// # Safety
/// The range must be writable and nobody else's.
pub(super) unsafe fn zero(address: u64, size: u64) {
    let place: *mut u8 = std::ptr::with_exposed_provenance_mut(usize_of_u64(address));
    // SAFETY: the caller's promise.
    unsafe { place.write_bytes(0, usize_of_u64(size)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_start_with_the_image_and_keep_their_own() {
        let block = ThreadBlock::new(16, 8).unwrap();
        block.initialize(&[7, 8, 9]).unwrap();
        let offset = block.tp_offset();
        let read = move || {
            let address = thread_pointer().wrapping_add_signed(offset);
            let pointer: *const u8 = std::ptr::with_exposed_provenance(usize_of_u64(address));
            // SAFETY: the thread's own part of the reserve.
            unsafe { [pointer.read(), pointer.add(1).read(), pointer.add(3).read()] }
        };
        assert_eq!(read(), [7, 8, 0]);
        assert_eq!(std::thread::spawn(read).join().unwrap(), [7, 8, 0]);
    }

    #[test]
    fn the_reserve_has_an_end() {
        let error = ThreadBlock::new(u64_of(SIZE) + 1, 8).err();
        assert!(matches!(error, Some(Refusal::NoThreadLocalSpace { .. })));
        assert!(ThreadBlock::new(8, 4096).is_err());
    }
}
