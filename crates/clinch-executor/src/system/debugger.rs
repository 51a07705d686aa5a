//! GDB's interface for code that a process makes (GDB manual, JIT Interface): a list of images that
//! the debugger reads from the process, and a function with a breakpoint in it that says when the
//! list changes. LLDB reads the same list.
//!
//! An entry holds the address of its image, which must be there when the entry is: the debugger may
//! attach and read the list at any time, and cannot ask for anything to be made. So images are made
//! for every link with debugger support, whether or not a debugger is there.

use super::library;
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock, PoisonError};

/// `jit_code_entry`.
#[repr(C)]
struct Entry {
    next: *mut Entry,
    previous: *mut Entry,
    image: *const u8,
    size: u64,
}

/// `jit_descriptor`.
#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut Entry,
    first: *mut Entry,
}

/// `JIT_NOACTION`, `JIT_REGISTER_FN`, `JIT_UNREGISTER_FN`.
const NO_ACTION: u32 = 0;
const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;
/// The interface's version.
const VERSION: u32 = 1;

/// A descriptor that the debugger reads behind the compiler's back.
#[repr(transparent)]
struct Shared(UnsafeCell<Descriptor>);

// SAFETY: it is read and written under the lock of `LIST` only.
unsafe impl Sync for Shared {}

/// Our descriptor, unless another JIT of the process brought one.
#[unsafe(export_name = "__jit_debug_descriptor")]
#[used]
static DESCRIPTOR: Shared = Shared(UnsafeCell::new(Descriptor {
    version: VERSION,
    action: NO_ACTION,
    relevant: ptr::null_mut(),
    first: ptr::null_mut(),
}));

/// The debugger's breakpoint is here.
#[unsafe(export_name = "__jit_debug_register_code")]
#[inline(never)]
extern "C" fn register_code() {
    // Neither the call nor what was written to the list before it may be optimized away.
    std::hint::black_box(DESCRIPTOR.0.get());
}

/// The list of the process: one, whoever made it.
#[derive(Clone, Copy)]
struct List {
    descriptor: NonNull<Descriptor>,
    register_code: extern "C" fn(),
}

// SAFETY: both pointers are to what lives as long as the process; who uses them holds `LOCK`.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}

/// Held while the list is changed. Other JITs of the process have locks of their own; the
/// interface provides for none.
static LOCK: Mutex<()> = Mutex::new(());
static LIST: OnceLock<List> = OnceLock::new();

impl List {
    /// The process's list: another JIT's if its library exports one, for debuggers that look for
    /// one only, else ours.
    fn of_process() -> Self {
        *LIST.get_or_init(|| Self::exported().unwrap_or_else(Self::ours))
    }

    fn ours() -> Self {
        Self {
            descriptor: NonNull::from(&DESCRIPTOR.0).cast(),
            register_code,
        }
    }

    fn exported() -> Option<Self> {
        let descriptor = library::find(b"__jit_debug_descriptor")?;
        let register = library::find(b"__jit_debug_register_code")?;
        if descriptor.size != u64_of(size_of::<Descriptor>()) || register.is_data {
            return None;
        }
        let descriptor = ptr::with_exposed_provenance_mut(usize_of_u64(descriptor.address));
        let descriptor = NonNull::<Descriptor>::new(descriptor)?;
        let register = ptr::with_exposed_provenance::<()>(usize_of_u64(register.address));
        // SAFETY: the process exports both under the names that the interface gives them, the
        // first as large as the interface's structure; libraries with it are not unloaded while
        // their list is in use.
        unsafe {
            if (*descriptor.as_ptr()).version != VERSION {
                return None;
            }
            Some(Self {
                descriptor,
                register_code: std::mem::transmute::<*const (), extern "C" fn()>(register),
            })
        }
    }

    /// Adds an entry for an image in front and tells the debugger.
    ///
    /// # Safety
    /// Under the lock; the image stays until the entry is removed.
    unsafe fn add(self, image: *const u8, size: u64) -> NonNull<Entry> {
        let descriptor = self.descriptor.as_ptr();
        // SAFETY: the caller holds the lock; the list's entries are alive until they are removed.
        unsafe {
            let next = (*descriptor).first;
            let entry = NonNull::from(Box::leak(Box::new(Entry {
                next,
                previous: ptr::null_mut(),
                image,
                size,
            })));
            if let Some(next) = NonNull::new(next) {
                (*next.as_ptr()).previous = entry.as_ptr();
            }
            (*descriptor).first = entry.as_ptr();
            self.tell(REGISTER, entry.as_ptr());
            entry
        }
    }

    /// Takes an entry out of the list and tells the debugger.
    ///
    /// # Safety
    /// Under the lock; the entry is one that `add` answered, and was not removed.
    unsafe fn remove(self, entry: NonNull<Entry>) {
        let descriptor = self.descriptor.as_ptr();
        let entry = entry.as_ptr();
        // SAFETY: the caller holds the lock; the entry's neighbors are in the list, and it came
        // from a box.
        unsafe {
            let (previous, next) = ((*entry).previous, (*entry).next);
            match NonNull::new(previous) {
                Some(previous) => (*previous.as_ptr()).next = next,
                None => (*descriptor).first = next,
            }
            if let Some(next) = NonNull::new(next) {
                (*next.as_ptr()).previous = previous;
            }
            self.tell(UNREGISTER, entry);
            drop(Box::from_raw(entry));
        }
    }

    /// Tells the debugger of an entry.
    ///
    /// # Safety
    /// Under the lock; the entry is in the list or was, and is alive.
    unsafe fn tell(self, action: u32, entry: *mut Entry) {
        let descriptor = self.descriptor.as_ptr();
        // SAFETY: the caller holds the lock.
        unsafe {
            (*descriptor).relevant = entry;
            (*descriptor).action = action;
            (self.register_code)();
            (*descriptor).action = NO_ACTION;
            (*descriptor).relevant = ptr::null_mut();
        }
    }
}

/// An image that debuggers know of, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    entry: NonNull<Entry>,
    address: u64,
    blank: Vec<u8>,
}

// SAFETY: the entry is touched under the lock only.
unsafe impl Send for Registration {}
// SAFETY: as above; nothing can be done with a shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    /// Tells debuggers of an image. Takes the same time however many there are. `blank` is an
    /// image of nothing.
    ///
    /// # Safety
    /// It must be readable and stay until the value is dropped.
    pub(crate) unsafe fn at(address: u64, size: u64, blank: Vec<u8>) -> Self {
        let list = List::of_process();
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let image = ptr::with_exposed_provenance(usize_of_u64(address));
        // SAFETY: the lock is held; the caller's promise.
        let entry = unsafe { list.add(image, size) };
        Self {
            entry,
            address,
            blank,
        }
    }

    /// Where the image is.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let list = List::of_process();
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held; the entry was added by `new` and is removed here only; the
        // blank image outlives its entry.
        unsafe {
            list.remove(self.entry);
            // GDB keeps breakpoints in code that goes, and fails to set them when its memory is
            // gone, until it looks all breakpoints up again; which it does for new code only.
            let blank = list.add(self.blank.as_ptr(), u64_of(self.blank.len()));
            list.remove(blank);
        }
    }
}
