//! Thread-local blocks that the C library places: in the spare part of the static block, which
//! every thread has at the same offset from its thread pointer.
//!
//! Each is the block of an object made for it. What is no longer used is kept, and used again or,
//! to make room, closed, last to first: the C library takes space back from the end only.

use super::tls::{thread_pointer, write, zero};
use super::tls_object::{Object, Opened};
use clinch_graph::index::int::usize_of_u64;
use std::sync::{Mutex, PoisonError};

/// All that are open, in the order in which they were opened, which is that of their places.
static OPEN: Mutex<Vec<Module>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Module {
    opened: Opened,
    offset: i64,
    size: u64,
    align: u64,
    used: bool,
}

/// A block, until it is dropped.
#[derive(Debug)]
pub(super) struct PlacedBlock {
    offset: i64,
    /// Where new threads' values come from.
    image: u64,
    /// Of the whole block, which may be more than was asked for.
    size: u64,
    /// Whether the block is still all zero, as is its image.
    fresh: bool,
}

impl PlacedBlock {
    /// A block of at least this size; `None` if there is no place.
    pub(super) fn new(size: u64, align: u64) -> Option<Self> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |module: &&mut Module| !module.used && module.size >= size && module.align >= align;
        if let Some(module) = open
            .iter_mut()
            .filter(fits)
            .min_by_key(|module| module.size)
        {
            module.used = true;
            return Some(module.block(false));
        }
        while open.last().is_some_and(|last| !last.used) {
            if let Some(last) = open.pop() {
                last.opened.close();
            }
        }
        // A multiple of the alignment, so that no gap before the block is lost when it is closed.
        let align = align.max(16);
        let size = size
            .max(1)
            .checked_next_multiple_of(align)
            .filter(|&size| size < 1 << 40)?;
        let opened = Object::of_block(size, align).open().ok()?;
        let offset = opened.offset(0).filter(|&offset| {
            thread_pointer()
                .wrapping_add_signed(offset)
                .is_multiple_of(align)
        });
        let Some(offset) = offset else {
            opened.close();
            return None;
        };
        let module = Module {
            opened,
            offset,
            size,
            align,
            used: true,
        };
        let block = module.block(true);
        open.push(module);
        Some(block)
    }

    /// The block's offset from the thread pointer.
    pub(super) fn tp_offset(&self) -> i64 {
        self.offset
    }

    /// Sets the initial values of all threads to come, and of the calling one.
    pub(super) fn initialize(&self, values: &[u8]) {
        let own = thread_pointer().wrapping_add_signed(self.offset);
        let values = &values[..values.len().min(usize_of_u64(self.size))];
        for place in [self.image, own] {
            // SAFETY: the image is in a writable mapping that stays until this value is dropped,
            // and only the C library reads it, when a thread starts; the other is the calling
            // thread's part of the block. Both are as large as the block, which is this value's.
            unsafe {
                if !self.fresh {
                    zero(place, self.size);
                }
                write(place, values);
            }
        }
    }
}

impl Drop for PlacedBlock {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        for module in open
            .iter_mut()
            .filter(|module| module.offset == self.offset)
        {
            module.used = false;
        }
    }
}

impl Module {
    fn block(&self, fresh: bool) -> PlacedBlock {
        let (offset, image, size) = (self.offset, self.opened.image(), self.size);
        PlacedBlock {
            offset,
            image,
            size,
            fresh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(offset: i64) -> [u8; 3] {
        let address = thread_pointer().wrapping_add_signed(offset);
        let pointer: *const u8 = std::ptr::with_exposed_provenance(usize_of_u64(address));
        // SAFETY: the thread's own part of a block of 256 bytes.
        unsafe {
            [
                pointer.read(),
                pointer.add(1).read(),
                pointer.add(255).read(),
            ]
        }
    }

    /// One test, since others that run at the same time would share the little space there is.
    #[test]
    fn blocks_are_placed_and_used_again() {
        for round in 0..50_u8 {
            // Ever larger, so that none fits and its predecessor has to be closed.
            let size = 256 + u64::from(round % 10) * 16;
            let block = PlacedBlock::new(size, 64).expect("the space is given back");
            let offset = block.tp_offset();
            block.initialize(&[round, 8]);
            assert_eq!(bytes(offset), [round, 8, 0]);
            let there = std::thread::spawn(move || bytes(offset)).join().unwrap();
            assert_eq!(there, [round, 8, 0]);
            // Not the last one when it is dropped.
            let second = PlacedBlock::new(128, 16).expect("there is room for two");
            assert_ne!(second.tp_offset(), offset);
            drop(block);
            let again = PlacedBlock::new(size, 64).expect("it is there");
            assert_eq!(again.tp_offset(), offset);
            again.initialize(&[1]);
            assert_eq!(bytes(offset), [1, 0, 0]);
            let there = std::thread::spawn(move || bytes(offset)).join().unwrap();
            assert_eq!(there, [1, 0, 0]);
        }
        assert!(PlacedBlock::new(1 << 20, 8).is_none());
        assert!(PlacedBlock::new(8, 4096).is_none());
        assert!(PlacedBlock::new(u64::MAX - 3, 64).is_none());
    }
}
