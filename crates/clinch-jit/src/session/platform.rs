//! What linked code may ask of its session, as programs ask the dynamic linker: to open a dylib
//! by name, to look a symbol up in it, to close it, and what went wrong.
//!
//! ```c
//! extern char __clinch_session[];
//! void *clinch_dlopen(void *session, const char *name, int mode);
//! void *clinch_dlsym(void *session, void *handle, const char *name);
//! int clinch_dlclose(void *session, void *handle);
//! const char *clinch_dlerror(void *session);
//!
//! void *handle = clinch_dlopen(__clinch_session, "plugin", 0);
//! ```
//!
//! A handle is valid until the session ends, and dylibs are counted: one that was opened twice
//! must be closed twice. `mode` has no meaning yet and must be 0. After a failure `clinch_dlerror`
//! answers a text once, and null otherwise; each thread has its own.

use super::core::Core;
use super::state::{DylibId, Match};
use clinch_graph::index::int::{u32_of, u64_of, usize_of, usize_of_u64};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, Weak};

/// The session as linked code names it: a place that does not move.
#[derive(Debug)]
pub(crate) struct Platform {
    core: Weak<Core>,
}

impl Platform {
    /// The platform of a session.
    pub(crate) fn new(core: Weak<Core>) -> Box<Self> {
        Box::new(Self { core })
    }

    /// The symbols that every dylib of the session has when it does not define them itself.
    pub(crate) fn symbols(&self) -> [(&'static [u8], u64); 5] {
        let here: *const Self = self;
        let address = |function: *const ()| u64_of(function.expose_provenance());
        [
            (b"__clinch_session", u64_of(here.expose_provenance())),
            (b"clinch_dlopen", address(dlopen as *const ())),
            (b"clinch_dlsym", address(dlsym as *const ())),
            (b"clinch_dlclose", address(dlclose as *const ())),
            (b"clinch_dlerror", address(dlerror as *const ())),
        ]
    }
}

/// Whether a name is one by which linked code asks its session.
pub(crate) fn is_symbol(name: &[u8]) -> bool {
    let names: [&[u8]; 5] = [
        b"__clinch_session",
        b"clinch_dlopen",
        b"clinch_dlsym",
        b"clinch_dlclose",
        b"clinch_dlerror",
    ];
    names.contains(&name)
}

thread_local! {
    /// The error that `clinch_dlerror` has not answered yet, and the one that it answered.
    static ERROR: RefCell<(Option<CString>, Option<CString>)> = const { RefCell::new((None, None)) };
}

fn fail(why: &str) {
    let text = CString::new(why.replace('\0', " ")).ok();
    ERROR.with(|error| error.borrow_mut().0 = text);
}

/// # Safety
/// `session` is null or the address of `__clinch_session`.
unsafe fn core(session: *const Platform) -> Option<Arc<Core>> {
    // SAFETY: the caller's promise; the platform lives as long as the session's code.
    let platform = unsafe { session.as_ref() }?;
    platform.core.upgrade()
}

/// # Safety
/// `text` is null or a string that ends with a zero.
unsafe fn text<'t>(text: *const c_char) -> Option<&'t str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Handles count dylibs from 1, so that none is null.
fn handle_of(dylib: DylibId) -> *mut c_void {
    std::ptr::without_provenance_mut(usize_of(dylib.0) + 1)
}

fn dylib_of(core: &Core, handle: *mut c_void) -> Option<DylibId> {
    let index = handle.addr().checked_sub(1)?;
    (index < core.read().dylibs.len()).then(|| DylibId(u32_of(index)))
}

unsafe extern "C" fn dlopen(
    session: *const Platform,
    name: *const c_char,
    mode: c_int,
) -> *mut c_void {
    // SAFETY: linked code calls this as its declaration says.
    let (core, name) = unsafe { (core(session), text(name)) };
    let (Some(core), Some(name)) = (core, name) else {
        fail("clinch_dlopen: no session or no name");
        return std::ptr::null_mut();
    };
    let found = {
        let state = core.read();
        state.dylibs.iter().position(|dylib| dylib.name == name)
    };
    let Some(index) = found else {
        fail(&format!("{name}: the session has no dylib of this name"));
        return std::ptr::null_mut();
    };
    if mode != 0 {
        fail(&format!("{name}: unknown mode {mode:#x}"));
        return std::ptr::null_mut();
    }
    let dylib = DylibId(u32_of(index));
    // SAFETY: the code that asks for it knows that it is fit to run.
    match unsafe { core.open(dylib) } {
        Ok(()) => handle_of(dylib),
        Err(error) => {
            fail(&format!("{name}: {error}"));
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn dlsym(
    session: *const Platform,
    handle: *mut c_void,
    name: *const c_char,
) -> *mut c_void {
    // SAFETY: as above.
    let (core, name) = unsafe { (core(session), text(name)) };
    let (Some(core), Some(name)) = (core, name) else {
        fail("clinch_dlsym: no session or no name");
        return std::ptr::null_mut();
    };
    let Some(dylib) = dylib_of(&core, handle) else {
        fail("clinch_dlsym: not a handle");
        return std::ptr::null_mut();
    };
    let session = super::Session::of(core);
    match session.look_up(&[(dylib, Match::Exported)], &[name]) {
        Ok(found) => {
            let address = found.first().copied().unwrap_or(0);
            std::ptr::with_exposed_provenance_mut(usize_of_u64(address))
        }
        Err(error) => {
            fail(&error.to_string());
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn dlclose(session: *const Platform, handle: *mut c_void) -> c_int {
    // SAFETY: as above.
    let Some(core) = (unsafe { core(session) }) else {
        fail("clinch_dlclose: no session");
        return -1;
    };
    // SAFETY: who closes a dylib says that nobody is in it.
    let closed = dylib_of(&core, handle).map(|dylib| unsafe { core.close_dylib(dylib) });
    match closed {
        Some(Ok(true)) => return 0,
        Some(Err(error)) => fail(&format!("clinch_dlclose: {error}")),
        Some(Ok(false)) | None => fail("clinch_dlclose: not a handle of an open dylib"),
    }
    -1
}

unsafe extern "C" fn dlerror(_session: *const Platform) -> *const c_char {
    ERROR.with(|error| {
        let mut error = error.borrow_mut();
        error.1 = error.0.take();
        error
            .1
            .as_ref()
            .map_or(std::ptr::null(), |text| text.as_ptr())
    })
}
