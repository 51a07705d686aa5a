//! Large pages for columns and contents that are large: a page fault costs more than filling the
//! page, and far fewer entries translate addresses.

use std::ops::Range;

/// So many zero bytes, in large pages as far as the system likes.
pub fn zeroed(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    advise(bytes.as_mut_ptr_range());
    bytes
}

/// Asks the system to put memory that a vector has but does not use yet into large pages. A wish:
/// nothing else depends on it.
pub(super) fn prefer_large<T>(values: &mut Vec<T>) {
    advise(values.spare_capacity_mut().as_mut_ptr_range());
}

/// The same for a range of a vector's memory.
fn advise<T>(memory: Range<*mut T>) {
    #[cfg(target_os = "linux")]
    {
        /// Of x86-64 and most others; the system looks for what is aligned to its own size.
        const LARGE: usize = 2 << 20;
        let start = memory.start.addr().next_multiple_of(LARGE);
        let size = memory.end.addr().saturating_sub(start) / LARGE * LARGE;
        if size != 0 {
            let start = memory.start.with_addr(start);
            // SAFETY: the range lies in memory of the vector's own, and the advice changes nothing
            // that a program could see.
            unsafe { libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
