//! Thread-local variables of shared libraries that were opened after the process started: their
//! offset from the thread pointer, the same in every thread.
//!
//! The C library gives such a library's block its place when something first uses it: in the
//! spare part of the static block, which every thread has at the same offset, if the first use
//! is a relocation that needs a fixed offset; else in memory of its own for each thread, for ever.
//! `dlsym` is a use of the second kind, so it must not be asked. Instead a library is made that
//! consists of nothing but such relocations, and opened; it then holds the offsets.

use clinch_graph::index::int::{u32_of, u64_of};
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const N_PROGRAM_HEADERS: usize = 3;
const SYMBOL: usize = 24;
const RELOCATION: usize = 24;
/// `R_X86_64_TPOFF64`.
const TP_OFFSET: u64 = 18;
/// What a slot holds when nothing defines its name: no offset.
const NOTHING: i64 = i64::MIN;

/// The offsets of thread-local variables by name; `None` for those that no opened library
/// defines.
///
/// # Errors
/// What the dynamic linker says: most likely that the spare part of the static block is full.
pub fn offsets(names: &[&[u8]]) -> Result<Vec<Option<i64>>, String> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (image, slots) = build(names);
    let base = open(&image)?;
    let slot = |n: usize| {
        let address = base.wrapping_add(slots + n * 8);
        // SAFETY: the library is mapped whole, stays open, and has a word for every name there.
        let offset = unsafe { std::ptr::with_exposed_provenance::<i64>(address).read() };
        (offset != NOTHING).then_some(offset)
    };
    Ok((0..names.len()).map(slot).collect())
}

/// The library's bytes, and where in it the slots begin.
fn build(names: &[&[u8]]) -> (Vec<u8>, usize) {
    let mut strings = vec![0_u8];
    let mut symbols = vec![0_u8; SYMBOL];
    for name in names {
        let plain = name.split(|&byte| byte == b'@').next().unwrap_or(name);
        symbols.extend_from_slice(&u32_of(strings.len()).to_le_bytes());
        // Weak, so that a name that nothing defines is no failure, and thread-local.
        symbols.extend_from_slice(&[2 << 4 | 6, 0, 0, 0]);
        symbols.extend_from_slice(&[0; 16]);
        strings.extend_from_slice(plain);
        strings.push(0);
    }
    strings.resize(strings.len().next_multiple_of(8), 0);

    let at_symbols = HEADER + N_PROGRAM_HEADERS * PROGRAM_HEADER;
    let at_strings = at_symbols + symbols.len();
    let at_relocations = at_strings + strings.len();
    let at_dynamic = at_relocations + names.len() * RELOCATION;
    let mut dynamic: Vec<u64> = Vec::new();
    for (tag, value) in [
        (5, at_strings),               // DT_STRTAB
        (6, at_symbols),               // DT_SYMTAB
        (10, strings.len()),           // DT_STRSZ
        (11, SYMBOL),                  // DT_SYMENT
        (7, at_relocations),           // DT_RELA
        (8, names.len() * RELOCATION), // DT_RELASZ
        (9, RELOCATION),               // DT_RELAENT
        (30, 0x10),                    // DT_FLAGS: DF_STATIC_TLS
        (0, 0),
    ] {
        dynamic.extend([tag, u64_of(value)]);
    }
    let slots = at_dynamic + dynamic.len() * 8;
    let size = slots + names.len() * 8;

    let mut image = Vec::with_capacity(size);
    // ELF header: 64 bits, little-endian, shared object for x86-64.
    image.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    image.extend_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    for word in [0, u64_of(HEADER), 0] {
        image.extend_from_slice(&word.to_le_bytes());
    }
    image.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0, 3, 0, 64, 0, 0, 0, 0, 0]);
    // PT_LOAD of everything, PT_DYNAMIC, PT_GNU_STACK; all readable and writable.
    let (all, table) = (u64_of(size), u64_of(dynamic.len() * 8));
    for (kind, offset, size, align) in [
        (1_u32, 0, all, 4096),
        (2, u64_of(at_dynamic), table, 8),
        (0x6474_e551, 0, 0, 16),
    ] {
        image.extend_from_slice(&kind.to_le_bytes());
        image.extend_from_slice(&6_u32.to_le_bytes());
        for word in [offset, offset, offset, size, size, align] {
            image.extend_from_slice(&word.to_le_bytes());
        }
    }
    image.extend_from_slice(&symbols);
    image.extend_from_slice(&strings);
    for n in 0..names.len() {
        for word in [u64_of(slots + n * 8), (u64_of(n) + 1) << 32 | TP_OFFSET, 0] {
            image.extend_from_slice(&word.to_le_bytes());
        }
    }
    for word in dynamic {
        image.extend_from_slice(&word.to_le_bytes());
    }
    for _ in names {
        image.extend_from_slice(&NOTHING.to_le_bytes());
    }
    (image, slots)
}

/// How many libraries were opened.
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// Opens a library for good; answers where it is mapped.
fn open(image: &[u8]) -> Result<usize, String> {
    // SAFETY: a valid string; the descriptor is owned by the file from here on.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"clinch-tls".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        File::from_raw_fd(descriptor)
    };
    file.write_all(image).map_err(|error| error.to_string())?;
    // The dynamic linker knows libraries by their paths, and descriptors are used again.
    let n = OPENED.fetch_add(1, Ordering::Relaxed);
    let path = format!("/proc/self/fd/{}{}", "./".repeat(n), file.as_raw_fd());
    let path = CString::new(path).map_err(|error| error.to_string())?;
    // SAFETY: a valid string; the library has no code.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            let error = libc::dlerror();
            let text = (!error.is_null()).then(|| CStr::from_ptr(error).to_string_lossy());
            return Err(text.map_or_else(String::new, |text| text.into_owned()));
        }
        // A handle is the address of the link map, whose first word is the library's base.
        Ok(handle.cast::<*const c_void>().read().expose_provenance())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_defines_has_no_offset() {
        let found = offsets(&[b"clinch_defines_no_such_variable", b"nor_this@VERSION"]);
        assert_eq!(found, Ok(vec![None, None]));
        assert_eq!(offsets(&[]), Ok(Vec::new()));
    }
}
