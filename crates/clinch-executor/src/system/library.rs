//! The dynamic linker: opening libraries and looking names up.

use crate::wire::{Found, Refusal};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;

/// A shared library that was opened. It stays open, since code linked against it may run until
/// the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Library {
    handle: usize,
}

impl Library {
    /// Opens a library by path or, without a slash, by the system's search, and runs its
    /// initializers.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub fn open(path: &OsStr) -> Result<Self, String> {
        let name = CString::new(path.as_bytes()).map_err(|_| "zero byte in the name".to_owned())?;
        // SAFETY: a valid string; running the library's initializers is what opening means.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            // SAFETY: `dlerror` answers null or a string that is valid until the next call on
            // this thread; it is copied at once.
            let text = unsafe {
                let error = libc::dlerror();
                (!error.is_null()).then(|| CStr::from_ptr(error).to_string_lossy().into_owned())
            };
            return Err(text.unwrap_or_else(|| "cannot be opened".to_owned()));
        }
        Ok(Self {
            handle: handle.expose_provenance(),
        })
    }

    /// Looks a name up in the library and what it needs.
    pub fn find(&self, name: &[u8]) -> Option<Found> {
        look_up(std::ptr::with_exposed_provenance_mut(self.handle), name)
    }
}

/// A library that a connection opened, closed when dropped.
#[derive(Debug)]
pub(crate) struct HeldLibrary(Library);

impl HeldLibrary {
    /// Opens a library as [`Library::open`] does.
    pub(crate) fn open(path: &[u8]) -> Result<Self, Refusal> {
        if path.contains(&0) {
            return Err(Refusal::ZeroByte);
        }
        let library = Library::open(OsStr::from_bytes(path));
        library.map(Self).map_err(Refusal::Library)
    }

    /// Looks a name up in the library and what it needs.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Found> {
        self.0.find(name)
    }
}

impl Drop for HeldLibrary {
    fn drop(&mut self) {
        // SAFETY: opened by `open` and not closed since. Whoever sent code that still uses it
        // ended the connection.
        unsafe { libc::dlclose(std::ptr::with_exposed_provenance_mut(self.0.handle)) };
    }
}

/// Looks a name up in everything the process has loaded.
pub fn find(name: &[u8]) -> Option<Found> {
    look_up(libc::RTLD_DEFAULT, name)
}

/// Whether an address lies in a loaded object's image.
pub(crate) fn is_loaded(address: u64) -> bool {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is only compared; the structure is plain data.
    let found = unsafe {
        libc::dladdr(
            std::ptr::with_exposed_provenance(usize_of_u64(address)),
            info.as_mut_ptr(),
        )
    };
    found != 0
}

/// `name` may carry a version: `name@VERSION` or `name@@VERSION`.
fn look_up(handle: *mut c_void, name: &[u8]) -> Option<Found> {
    let at = name.iter().position(|&c| c == b'@').filter(|&at| at > 0);
    let (plain, version) = match at.and_then(|at| name.split_at_checked(at)) {
        Some((plain, version)) => {
            let version = version.strip_prefix(b"@").unwrap_or(version);
            (plain, Some(version.strip_prefix(b"@").unwrap_or(version)))
        }
        None => (name, None),
    };
    let symbol = CString::new(plain).ok()?;
    let address = match version {
        // SAFETY: valid strings and a handle from `dlopen`, or the default one.
        None => unsafe { libc::dlsym(handle, symbol.as_ptr()) },
        Some(version) => {
            let version = CString::new(version).ok()?;
            // SAFETY: as above.
            unsafe { libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr()) }
        }
    };
    if address.is_null() {
        return None;
    }
    let (size, is_data) = describe(address);
    Some(Found {
        address: u64_of(address.expose_provenance()),
        size,
        is_data,
    })
}

/// `Elf64_Sym`, as far as it matters here.
#[repr(C)]
struct ElfSymbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: libc::c_int,
    ) -> libc::c_int;
}

/// Size of what lies at an address, and whether it is data, by the symbol that starts there.
fn describe(address: *const c_void) -> (u64, bool) {
    const RTLD_DL_SYMENT: libc::c_int = 1;
    const STT_OBJECT: u8 = 1;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut symbol: *mut c_void = std::ptr::null_mut();
    // SAFETY: writes two variables of ours; the symbol it answers is null or an entry of a loaded
    // library's symbol table.
    unsafe {
        if dladdr1(address, info.as_mut_ptr(), &raw mut symbol, RTLD_DL_SYMENT) == 0 {
            return (0, false);
        }
        let info = info.assume_init();
        match symbol.cast::<ElfSymbol>().as_ref() {
            Some(symbol) if std::ptr::eq(info.dli_saddr, address) => {
                (symbol.size, symbol.info & 15 == STT_OBJECT)
            }
            _ => (0, false),
        }
    }
}
