//! What is to be dropped when a thread ends without coming back to us: linked code may end its
//! thread, which unwinds nothing of ours. `thread_local!` does not do: `exit` drops its values in
//! the thread that calls it, while the thread does not end, but the process.

use std::any::Any;
use std::ffi::c_void;
use std::sync::OnceLock;

/// Values of one thread, dropped last to first.
type Values = Vec<Box<dyn Any>>;

/// The key of this thread's values; `None` when the C library has none left.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: writes a variable of ours; the function takes what is set for the key.
        let result = unsafe { libc::pthread_key_create(&raw mut key, Some(drop_values)) };
        (result == 0).then_some(key)
    })
}

unsafe extern "C" fn drop_values(values: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `push`; the C library has already taken it from the key.
    let mut values = unsafe { Box::from_raw(values.cast::<Values>()) };
    while let Some(value) = values.pop() {
        drop(value);
    }
}

/// Drops a value when this thread ends, unless it is popped before.
pub(crate) fn push(value: Box<dyn Any>) {
    let Some(key) = key() else { return };
    // SAFETY: null, or what the lines below set; only this thread has it, and not elsewhere now.
    unsafe {
        let mut values = libc::pthread_getspecific(key).cast::<Values>();
        if values.is_null() {
            values = Box::into_raw(Box::default());
            libc::pthread_setspecific(key, values.cast());
        }
        (*values).push(value);
    }
}

/// Takes the last value back.
pub(crate) fn pop() -> Option<Box<dyn Any>> {
    let key = key()?;
    // SAFETY: null, or what `push` set; only this thread has it, and not elsewhere now.
    unsafe {
        libc::pthread_getspecific(key)
            .cast::<Values>()
            .as_mut()?
            .pop()
    }
}
