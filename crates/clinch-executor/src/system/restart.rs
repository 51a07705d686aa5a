//! Starting this process again with more thread-local space: for programs, such as a command
//! line, to which nothing has happened yet that could not happen again.
//!
//! How much the C library keeps, and how it aligns, is decided before a program starts: the size
//! by a tunable, the alignment by the libraries that it starts with. So the process executes
//! itself with another environment, and puts the old one back when it comes here again.

use super::tls_object::Object;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

/// Holds the space, the descriptor of the library that asks for the alignment, and the old
/// values of the two below, each with its length before it; `-` for what is not there.
const PRIVATE: &str = "CLINCH_TLS_REEXEC";
const TUNABLES: &str = "GLIBC_TUNABLES";
const PRELOAD: &str = "LD_PRELOAD";
const TUNABLE: &str = "glibc.rtld.optional_static_tls=";
/// What blocks are aligned to without being asked.
const ALIGN: u64 = 64;
/// For libraries that are opened later and want such space.
const MORE: u64 = 64 << 10;
/// The C library cannot start with as much as it is told to, so it is told of no more.
const MOST: u64 = 1 << 30;

/// How much space the process was started again with.
static RESTARTED: OnceLock<Option<u64>> = OnceLock::new();

/// Puts the environment back to what it was before the process was started again, if it was, and
/// answers with how much thread-local space it was. To be called first, while there is one thread.
pub fn restore() -> Option<u64> {
    *RESTARTED.get_or_init(|| {
        let state = Saved::parse(std::env::var_os(PRIVATE)?.as_bytes())?;
        if std::fs::read_dir("/proc/self/task").ok()?.count() != 1 {
            return Some(state.space);
        }
        // SAFETY: there is no other thread that could be reading the environment; strings are
        // valid. The descriptor is one that `again` left open for this process.
        unsafe {
            for (name, value) in [(TUNABLES, &state.tunables), (PRELOAD, &state.preload)] {
                let Ok(name) = CString::new(name) else {
                    continue;
                };
                match value {
                    Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
                    None => libc::unsetenv(name.as_ptr()),
                };
            }
            let private = CString::new(PRIVATE).ok()?;
            libc::unsetenv(private.as_ptr());
            if let Some(descriptor) = state.descriptor {
                libc::close(descriptor);
            }
            // Else it would be called after the link that was executed.
            libc::prctl(libc::PR_SET_NAME, c"clinch".as_ptr());
        }
        Some(state.space)
    })
}

/// Starts the process again so that a thread-local block of this size and alignment has its
/// place. Comes back if it cannot, or did so before.
pub fn again(size: u64, align: u64) {
    if restore().is_some() || size > MOST || align > MOST / 16 {
        return;
    }
    let variable =
        |name| std::env::var_os(name).and_then(|value| CString::new(value.into_vec()).ok());
    let (tunables, preload) = (variable(TUNABLES), variable(PRELOAD));
    let library = (align > ALIGN)
        .then(|| Object::of_block(align, align).file().ok())
        .flatten();
    let space = size.next_multiple_of(4096) + 2 * align + MORE + asked(tunables.as_deref());
    let mut values = vec![(
        TUNABLES,
        join(tunables.as_deref(), &format!("{TUNABLE}{space}")),
    )];
    if let Some(library) = &library {
        let path = format!("/proc/self/fd/{}", library.as_raw_fd());
        values.push((PRELOAD, join(preload.as_deref(), &path)));
    }
    let descriptor = library.as_ref().map(AsRawFd::as_raw_fd);
    let saved = Saved {
        space,
        descriptor,
        tunables,
        preload,
    };
    values.push((PRIVATE, saved.write()));

    let strings = |values: Vec<Vec<u8>>| -> Vec<CString> {
        values
            .into_iter()
            .filter_map(|value| CString::new(value).ok())
            .collect()
    };
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let words = strings(std::env::args_os().map(OsStringExt::into_vec).collect());
    let environment = strings(environment(values));
    let (words, environment) = (pointers(&words), pointers(&environment));
    // SAFETY: arrays of valid strings that end with null; a descriptor that the file owns.
    unsafe {
        if let Some(descriptor) = descriptor {
            libc::fcntl(descriptor, libc::F_SETFD, 0);
        }
        libc::execve(
            c"/proc/self/exe".as_ptr(),
            words.as_ptr(),
            environment.as_ptr(),
        );
    }
}

/// The environment with these values, in its order: what is new comes last.
fn environment(values: Vec<(&str, Vec<u8>)>) -> Vec<Vec<u8>> {
    let line = |(name, value): &(&str, Vec<u8>)| [name.as_bytes(), b"=", value].concat();
    let mut lines: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    for value in &values {
        let start = [value.0.as_bytes(), b"="].concat();
        match lines.iter_mut().find(|line| line.starts_with(&start)) {
            Some(old) => *old = line(value),
            None => lines.push(line(value)),
        }
    }
    lines
}

/// A list with one more element at its end.
fn join(list: Option<&CStr>, element: &str) -> Vec<u8> {
    match list {
        Some(list) => [list.to_bytes(), b":", element.as_bytes()].concat(),
        None => element.into(),
    }
}

/// How much space the user asks for.
fn asked(tunables: Option<&CStr>) -> u64 {
    let text = tunables.map(CStr::to_string_lossy).unwrap_or_default();
    let asked = text
        .rsplit(':')
        .find_map(|tunable| tunable.strip_prefix(TUNABLE));
    asked
        .and_then(|number| number.parse().ok())
        .filter(|&number| number < MOST)
        .unwrap_or(0)
}

/// What a process tells itself.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Saved {
    space: u64,
    descriptor: Option<c_int>,
    tunables: Option<CString>,
    preload: Option<CString>,
}

impl Saved {
    fn write(&self) -> Vec<u8> {
        let number = |number: Option<i64>| number.map_or("-".to_owned(), |n| n.to_string());
        let mut text = format!("{} {}", self.space, number(self.descriptor.map(i64::from)));
        let values = [&self.tunables, &self.preload];
        for value in values {
            let length = value
                .as_ref()
                .map_or("-".to_owned(), |v| v.as_bytes().len().to_string());
            text.push_str(&format!(" {length}"));
        }
        text.push(' ');
        let mut bytes = text.into_bytes();
        values
            .into_iter()
            .flatten()
            .for_each(|value| bytes.extend_from_slice(value.as_bytes()));
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.splitn(5, |&byte| byte == b' ');
        let mut field = || std::str::from_utf8(fields.next()?).ok();
        let space = field()?.parse().ok()?;
        let descriptor = field()?.parse().ok();
        let lengths: [Option<usize>; 2] = [field()?.parse().ok(), field()?.parse().ok()];
        let mut rest = fields.next()?;
        let mut values = lengths.map(|length| {
            let (value, behind) = rest.split_at_checked(length?)?;
            rest = behind;
            CString::new(value).ok()
        });
        let (tunables, preload) = (values[0].take(), values[1].take());
        Some(Self {
            space,
            descriptor,
            tunables,
            preload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_back() {
        for (descriptor, tunables, preload) in [
            (None, None, None),
            (Some(7), Some(c"a.b=1:c d=2"), None),
            (Some(-1), Some(c""), Some(c" x ")),
        ] {
            let (tunables, preload) = (tunables.map(CString::from), preload.map(CString::from));
            let saved = Saved {
                space: 1 << 20,
                descriptor,
                tunables,
                preload,
            };
            assert_eq!(Saved::parse(&saved.write()), Some(saved));
        }
        for broken in ["", "x", "1 2", "1 - - -", "nothing at all - -"] {
            assert_eq!(Saved::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn lists_grow_at_their_end() {
        assert_eq!(join(None, "x"), b"x");
        assert_eq!(join(Some(c"a=b"), "x"), b"a=b:x");
        assert_eq!(asked(None), 0);
        assert_eq!(asked(Some(c"a=1:glibc.rtld.optional_static_tls=77")), 77);
    }
}
