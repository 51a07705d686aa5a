//! Memory that a controller shares with an executor that it started: a memory file, which the
//! controller writes through views of parts, and of which the executor maps parts of its own.
//!
//! *Invariant:* parts do not overlap, and only a part's own view writes to it: the executor's
//! descriptor is for reading, and what is written to its pages is not in the file. *Invariant:* a file
//! never becomes shorter than an executor found it, so no page that it maps lies behind the end.

use super::descriptor;
use super::file::{View, add_seals, check, create, largest_file, seals};
use super::pages::page_size;
use crate::error::Error;
use crate::threads::lock;
use crate::wire::Refusal;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// The size of the file, which has memory only where something was written.
const SIZE: u64 = 1 << 40;

/// The controller's side.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    /// Parts that nobody has: end by start. They are zero.
    free: Mutex<BTreeMap<u64, u64>>,
}

impl SharedMemory {
    /// A new file, of which no part is used.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> Result<Self, Refusal> {
        let size = SIZE.min(largest_file());
        let size = size - size % page_size();
        let file = create()?;
        let wanted = libc::off_t::try_from(size).map_err(|_| Refusal::TooLarge(size))?;
        // SAFETY: changes the size of a file that nobody else knows.
        let sized = unsafe { libc::ftruncate(file.as_raw_fd(), wanted) };
        check(sized, "make a memory file")?;
        add_seals(
            &file,
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
        )?;
        let free = Mutex::new(BTreeMap::from([(0, size)]));
        Ok(Self { file, free })
    }

    /// Another descriptor of the file, by which nobody writes to it: for an executor.
    ///
    /// # Errors
    /// What the system says.
    pub fn for_reading(&self) -> std::io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        File::open(path).map(OwnedFd::from)
    }

    /// Takes a part for `size` bytes, in whole pages, which are zero. The first `content` bytes have
    /// memory at once, so that a lack of it is an error here and no signal when they are written.
    ///
    /// # Errors
    /// What the system says; all of the file is used.
    pub fn take(self: &Arc<Self>, size: u64, content: u64) -> Result<SharedPart, Refusal> {
        let full = Refusal::NoSpace(size);
        let size = size
            .max(1)
            .checked_next_multiple_of(page_size())
            .ok_or(full)?;
        let offset = self.find(size).ok_or(Refusal::NoSpace(size))?;
        let mut part = SharedPart {
            memory: Arc::clone(self),
            offset,
            size,
            view: None,
            is_kept: false,
        };
        let content = content.min(size);
        if content > 0 {
            let (start, content) = (part.signed(offset)?, part.signed(content)?);
            let number = self.file.as_raw_fd();
            // SAFETY: gives memory to a part of an open file.
            let filled = unsafe { libc::fallocate(number, 0, start, content) };
            check(filled, "find room in a memory file")?;
        }
        part.view = Some(View::new(&self.file, offset, size)?);
        Ok(part)
    }

    /// Takes the first free range of a size.
    fn find(&self, size: u64) -> Option<u64> {
        let mut free = lock(&self.free);
        let (&start, &end) = free.iter().find(|&(start, end)| end - start >= size)?;
        free.remove(&start);
        if end - start > size {
            free.insert(start + size, end);
        }
        Some(start)
    }

    fn give_back(&self, start: u64, end: u64) {
        let mut free = lock(&self.free);
        let (mut start, mut end) = (start, end);
        if let Some(next) = free.remove(&end) {
            end = next;
        }
        if let Some((&before, &its_end)) = free.range(..start).next_back()
            && its_end == start
        {
            start = before;
        }
        free.insert(start, end);
    }
}

/// A part of shared memory. Its memory is given back when it is dropped: who maps it finds zeros from
/// then on.
#[derive(Debug)]
pub struct SharedPart {
    memory: Arc<SharedMemory>,
    offset: u64,
    size: u64,
    view: Option<View>,
    is_kept: bool,
}

impl SharedPart {
    /// Where in the memory it begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What is in it; nothing when it is closed.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.view.as_mut().map_or(&mut [], View::bytes)
    }

    /// Ends writing.
    pub fn close(&mut self) {
        self.view = None;
    }

    /// Leaves its memory to whoever may still use it, for as long as any process has the file.
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    fn signed(&self, number: u64) -> Result<libc::off_t, Refusal> {
        libc::off_t::try_from(number).map_err(|_| Refusal::TooLarge(self.size))
    }
}

impl Drop for SharedPart {
    fn drop(&mut self) {
        let (Ok(start), Ok(size)) = (self.signed(self.offset), self.signed(self.size)) else {
            return;
        };
        if self.is_kept {
            return;
        }
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: makes a part of an open file zero, of which there is no view but this value's,
        // which nobody borrows.
        let punched = unsafe { libc::fallocate(self.memory.file.as_raw_fd(), mode, start, size) };
        // What could not be made zero is not used again.
        if punched == 0 {
            let end = self.offset + self.size;
            self.memory.give_back(self.offset, end);
        }
    }
}

/// The executor's side: a file of which parts can be mapped, whatever its controller does.
#[derive(Debug)]
pub struct SharedFile {
    file: OwnedFd,
    size: u64,
}

impl SharedFile {
    /// Takes a file that this process was started with for that, by its descriptor's number.
    ///
    /// # Errors
    /// It is not open, or no memory file, or may become shorter.
    pub fn inherited(number: i32) -> Result<Self, Error> {
        let failed = |error| Error::system("take shared memory", &error);
        let file = descriptor::inherited(number).map_err(failed)?;
        let is_sealed = seals(&file).map_err(failed)? & libc::F_SEAL_SHRINK != 0;
        if !is_sealed {
            let what = "take shared memory that is not sealed against shrinking";
            return Err(Error::system(what, &ErrorKind::InvalidInput.into()));
        }
        let file = File::from(file);
        let size = file.metadata().map_err(failed)?.len();
        let file = OwnedFd::from(file);
        Ok(Self { file, size })
    }

    /// Whether a range begins at a page and lies in the file, with all of its last page.
    pub(super) fn has(&self, offset: u64, size: u64) -> bool {
        let page = page_size();
        let end = offset
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(page));
        offset.is_multiple_of(page) && end.is_some_and(|end| end <= self.size)
    }

    /// Its descriptor's number.
    pub(super) fn number(&self) -> libc::c_int {
        self.file.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;
    use crate::wire::{Place, Protection};
    use std::os::fd::IntoRawFd;

    const PAGE: u64 = 4096;

    fn used(memory: &SharedMemory) -> u64 {
        let file = memory.for_reading().map(File::from).unwrap();
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512
    }

    fn of(file: OwnedFd) -> Result<SharedFile, Error> {
        SharedFile::inherited(file.into_raw_fd())
    }

    #[test]
    fn parts_are_used_again_and_are_zero() {
        let memory = Arc::new(SharedMemory::new().unwrap());
        let mut first = memory.take(PAGE + 1, 3).unwrap();
        let second = memory.take(1, 0).unwrap();
        assert_eq!((first.offset(), second.offset()), (0, 2 * PAGE));
        assert_eq!(first.bytes().len(), 2 * 4096);
        first.bytes().fill(7);
        assert_eq!(used(&memory), 2 * PAGE);
        drop(first);
        assert_eq!(used(&memory), 0);
        let mut again = memory.take(2 * PAGE, 0).unwrap();
        assert_eq!(again.offset(), 0);
        assert!(again.bytes().iter().all(|&byte| byte == 0));
        again.close();
        assert_eq!(again.bytes(), []);
        drop((again, second));
        assert_eq!(lock(&memory.free).len(), 1);
        assert_eq!(
            memory.take(u64::MAX, 0).unwrap_err(),
            Refusal::NoSpace(u64::MAX)
        );
    }

    #[test]
    fn what_is_kept_is_not_used_again() {
        let memory = Arc::new(SharedMemory::new().unwrap());
        let mut part = memory.take(1, 1).unwrap();
        part.bytes()[0] = 1;
        part.keep();
        assert_eq!(used(&memory), PAGE);
        assert_eq!(memory.take(1, 0).unwrap().offset(), PAGE);
    }

    /// The executor's descriptor neither writes nor shortens.
    #[test]
    fn the_other_side_only_reads() {
        use std::io::Write;
        let memory = SharedMemory::new().unwrap();
        let mut file = File::from(memory.for_reading().unwrap());
        assert!(file.write(b"x").is_err() && file.set_len(0).is_err());
    }

    #[test]
    fn parts_are_mapped_where_they_are_shared() {
        let shared = Arc::new(SharedMemory::new().unwrap());
        let file = of(shared.for_reading().unwrap()).unwrap();
        let mut part = shared.take(2 * PAGE, 0).unwrap();
        part.bytes()[4096..][..3].copy_from_slice(b"abc");
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(4 * PAGE, 16, Place::Any).unwrap();
        let offset = part.offset();
        let read = Protection::Read;
        memory
            .map(base + PAGE, 2 * PAGE, read, &file, offset)
            .unwrap();
        assert_eq!(memory.read(base + 2 * PAGE, 3).unwrap(), b"abc");
        assert!(memory.write(base + PAGE, b"x").is_err());
        let (write, other) = (Protection::ReadWrite, base + 3 * PAGE);
        memory
            .map(other, PAGE, write, &file, offset + PAGE)
            .unwrap();
        memory.write(other, b"x").unwrap();
        assert_eq!(memory.read(other, 3).unwrap(), b"xbc");
        // What one side writes is not the other's.
        assert_eq!(part.bytes()[4096], b'a');
        memory.protect(base, 4 * PAGE, Protection::None).unwrap();
        assert!(memory.read(base + PAGE, 1).is_err());
    }

    #[test]
    fn what_is_not_shared_is_not_mapped() {
        let shared = SharedMemory::new().unwrap();
        let file = of(shared.for_reading().unwrap()).unwrap();
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(4 * PAGE, 16, Place::Any).unwrap();
        let end = file.size;
        for (size, offset) in [
            (PAGE, end),
            (2 * PAGE, end - PAGE),
            (1, u64::MAX - PAGE + 1),
            (PAGE, 1),
        ] {
            let mapped = memory.map(base, size, Protection::Read, &file, offset);
            assert_eq!(mapped, Err(Refusal::NotShared { offset, size }));
        }
        for (address, size) in [(base + 1, 1), (base, 5 * PAGE), (0, PAGE), (base, u64::MAX)] {
            assert!(
                memory
                    .map(address, size, Protection::Read, &file, 0)
                    .is_err()
            );
        }
        assert!(
            memory
                .map(base, PAGE, Protection::Read, &file, end - PAGE)
                .is_ok()
        );
    }

    #[test]
    fn files_that_may_become_shorter_are_refused() {
        let unsealed = create().unwrap();
        let said = of(unsealed).unwrap_err().to_string();
        assert!(said.contains("not sealed against shrinking"), "{said}");
        let ordinary = tempfile::tempfile().unwrap();
        assert!(of(ordinary.into()).is_err());
        assert!(SharedFile::inherited(-1).is_err());
        // A file of nothing is no danger, and of no use.
        let empty = create().unwrap();
        add_seals(&empty, libc::F_SEAL_SHRINK).unwrap();
        let empty = of(empty).unwrap();
        assert!(empty.has(0, 0) && !empty.has(0, 1));
    }
}
