//! Memory files: memory that is written through one view and used through another, for systems on
//! which pages that were writable may not become executable, and so that nothing that runs has a
//! writable view of code.
//!
//! *Invariant:* a [`SealedFile`] never changes again: its only writable view is gone, and the system
//! refuses new ones. A file never changes its size, so no page of a view lies behind its end.

use super::pages::last_error;
use crate::wire::Refusal;
use clinch_graph::index::int::usize_of_u64;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// What is refused when a file cannot be as large as it is to be.
const SIZE: &str = "make a memory file so large";

/// A memory file that is being written, and the view through which it is. Both go when it is
/// dropped.
#[derive(Debug)]
pub struct FileDraft {
    view: View,
    file: OwnedFd,
}

/// A memory file that can only be read and mapped, by
/// [`Reservation::map_file`](super::pages::Reservation::map_file). Mappings outlive it.
#[derive(Debug)]
pub struct SealedFile {
    file: OwnedFd,
    size: u64,
}

impl FileDraft {
    /// A file of `size` zeros, in whole pages. The first `content` bytes have memory at once, so
    /// that a lack of it is an error here and no signal when they are written.
    ///
    /// # Errors
    /// What the system says: it has no memory files, or no memory.
    pub fn new(size: u64, content: u64) -> Result<Self, Refusal> {
        let file = create()?;
        let wanted = libc::off_t::try_from(size).map_err(|_| too_large())?;
        if size > largest_file() {
            return Err(too_large());
        }
        let number = file.as_raw_fd();
        // SAFETY: changes the size of a file that nobody else knows.
        let sized = unsafe { libc::ftruncate(number, wanted) };
        check(sized, SIZE)?;
        if content > 0 {
            // No more than its size, which has the type.
            let content = libc::off_t::try_from(content.min(size)).unwrap_or(wanted);
            // SAFETY: gives memory to a part of the same file.
            let filled = unsafe { libc::fallocate(number, 0, 0, content) };
            check(filled, "find room for a memory file")?;
        }
        add_seals(&file, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)?;
        let view = View::new(&file, 0, size)?;
        Ok(Self { view, file })
    }

    /// What is in the file.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.view.bytes()
    }

    /// Ends writing: the view goes, and the system is told that nothing may write to the file any
    /// more.
    ///
    /// # Errors
    /// What the system says; the file is given up.
    pub fn seal(self) -> Result<SealedFile, Refusal> {
        let Self { view, file } = self;
        let size = view.size;
        // The system refuses the seal as long as there is a writable view.
        drop(view);
        add_seals(&file, libc::F_SEAL_WRITE | libc::F_SEAL_SEAL)?;
        Ok(SealedFile { file, size })
    }
}

impl SealedFile {
    /// Its size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its descriptor's number.
    pub(super) fn number(&self) -> libc::c_int {
        self.file.as_raw_fd()
    }
}

/// A writable mapping of a part of a file.
#[derive(Debug)]
pub(super) struct View {
    start: NonNull<c_void>,
    size: u64,
}

// SAFETY: a mapping belongs to the process, not to a thread; whoever has the value has the
// mapping.
unsafe impl Send for View {}
// SAFETY: the same; a shared reference to it gives no access.
unsafe impl Sync for View {}

impl View {
    /// A view of whole pages of a file, whose size must be sealed. Nobody else may write to them
    /// or view them.
    pub(super) fn new(file: &OwnedFd, offset: u64, size: u64) -> Result<Self, Refusal> {
        let what = "map a memory file for writing";
        let offset = libc::off_t::try_from(offset).map_err(|_| too_large())?;
        // SAFETY: a new mapping, which replaces nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                usize_of_u64(size),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last_error(what));
        }
        let start = NonNull::new(start).ok_or(Refusal::NoSpace(size))?;
        let view = Self { start, size };
        // A child that linked code forks meanwhile must have no writable view of what will run here.
        // SAFETY: advice about the new mapping.
        let kept =
            unsafe { libc::madvise(start.as_ptr(), usize_of_u64(size), libc::MADV_DONTFORK) };
        check(kept, what)?;
        Ok(view)
    }

    /// What is in it.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let size = usize_of_u64(self.size);
        // SAFETY: the view is mapped whole and writable until it is dropped; all of it lies in
        // the file, whose size is sealed; nobody else writes to it or has a view of it, so that
        // the borrow of `self` is that of the bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), size) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no borrow of it is left. Errors cannot happen
        // for a range that was mapped.
        unsafe { libc::munmap(self.start.as_ptr(), usize_of_u64(self.size)) };
    }
}

/// A new file, of nothing, that can be sealed. It is said never to be run as a program, where the
/// system knows how to say that.
pub(super) fn create() -> Result<OwnedFd, Refusal> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    match create_with(flags | libc::MFD_NOEXEC_SEAL) {
        // Systems from before Linux 6.3 do not know that flag.
        Err(Refusal::System { code, .. }) if code == libc::EINVAL => create_with(flags),
        created => created,
    }
}

fn create_with(flags: libc::c_uint) -> Result<OwnedFd, Refusal> {
    // SAFETY: makes a descriptor; the name is a string of C's.
    let number = unsafe { libc::memfd_create(c"clinch".as_ptr(), flags) };
    check(number, "make a memory file")?;
    // SAFETY: the descriptor was just made.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// How large this process's files may become. What wants to be larger is a signal, which ends the
/// process.
pub(super) fn largest_file() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes to a variable of the type that is told.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn too_large() -> Refusal {
    Refusal::System {
        what: SIZE.to_owned(),
        code: libc::EFBIG,
    }
}

pub(super) fn add_seals(file: &OwnedFd, seals: libc::c_int) -> Result<(), Refusal> {
    // SAFETY: adds seals to an open file.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    check(sealed, "seal a memory file")
}

/// Which seals a file has.
pub(super) fn seals(file: &OwnedFd) -> std::io::Result<libc::c_int> {
    // SAFETY: asks about an open file.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(seals)
}

pub(super) fn check(result: libc::c_int, what: &str) -> Result<(), Refusal> {
    if result < 0 {
        return Err(last_error(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::pages::Reservation;
    use super::*;
    use crate::wire::Protection;
    use clinch_graph::index::int::u64_of;

    const PAGE: u64 = 4096;

    /// Access of the mapping around an address, as the system says it.
    fn access(address: u64) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines()
            .find_map(|line| {
                let mut words = line.split_whitespace();
                let (start, end) = words.next()?.split_once('-')?;
                let start = u64::from_str_radix(start, 16).ok()?;
                let end = u64::from_str_radix(end, 16).ok()?;
                (start..end).contains(&address).then(|| words.next())?
            })
            .map(str::to_owned)
    }

    #[test]
    fn what_was_written_is_mapped_and_stays() {
        let mut draft = FileDraft::new(2 * PAGE, 5).unwrap();
        draft.bytes()[..5].copy_from_slice(b"hello");
        let view = u64_of(draft.bytes().as_ptr().addr());
        assert_eq!(access(view).as_deref(), Some("rw-s"));
        let file = draft.seal().unwrap();
        assert_ne!(access(view).as_deref(), Some("rw-s"));
        let place = Reservation::anywhere(3 * PAGE, PAGE).unwrap();
        let (base, second) = (place.base(), place.base() + PAGE);
        place
            .map_file(second, 2 * PAGE, Protection::ReadExecute, &file)
            .unwrap();
        assert_eq!(access(base).as_deref(), Some("---p"));
        assert_eq!(access(second).as_deref(), Some("r-xp"));
        drop(file);
        // SAFETY: the pages were just mapped so that they can be read.
        let found = unsafe { super::super::pages::read(second, 6) };
        assert_eq!(found, b"hello\0");
        place.protect(second, 2 * PAGE, Protection::None).unwrap();
        assert_eq!(access(second).as_deref(), Some("---p"));
    }

    /// Nobody gets a writable view, not even by another descriptor, and the size stays.
    #[test]
    fn a_sealed_file_cannot_be_changed() {
        use std::io::Write;
        let file = FileDraft::new(PAGE, 0).unwrap().seal().unwrap();
        let path = format!("/proc/self/fd/{}", file.number());
        let mut again = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let denied = std::io::ErrorKind::PermissionDenied;
        assert_eq!(again.write(b"x").unwrap_err().kind(), denied);
        assert_eq!(again.set_len(0).unwrap_err().kind(), denied);
        assert_eq!(again.set_len(2 * PAGE).unwrap_err().kind(), denied);
        let view = View::new(&file.file, 0, PAGE).unwrap_err();
        let code = libc::EPERM;
        let what = "map a memory file for writing".to_owned();
        assert_eq!(view, Refusal::System { what, code });
    }

    #[test]
    fn a_file_is_not_mapped_past_its_end_or_out_of_place() {
        let file = FileDraft::new(PAGE, 0).unwrap().seal().unwrap();
        let place = Reservation::anywhere(2 * PAGE, PAGE).unwrap();
        let (base, read) = (place.base(), Protection::Read);
        let larger = place.map_file(base, 2 * PAGE, read, &file);
        assert_eq!(larger, Err(Refusal::TooLarge(2 * PAGE)));
        let outside = place.map_file(place.end(), PAGE, read, &file);
        assert!(matches!(outside, Err(Refusal::NotOwned { .. })));
        assert_eq!(place.map_file(base, PAGE, read, &file), Ok(()));
    }

    #[test]
    fn sizes_that_no_file_has_are_refused() {
        assert_eq!(FileDraft::new(u64::MAX, 0).unwrap_err(), too_large());
        assert!(FileDraft::new(1 << 62, 0).is_err());
    }
}
