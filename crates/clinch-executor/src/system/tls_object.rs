//! Shared objects without code, made in memory for the dynamic linker to open: it gives their
//! thread-local block a place and writes offsets from the thread pointer into their slots.

use clinch_graph::index::int::{u32_of, u64_of, usize_of_u64};
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const N_PROGRAM_HEADERS: usize = 4;
const SYMBOL: usize = 24;
const RELOCATION: usize = 24;
const PAGE: u64 = 4096;
/// `R_X86_64_TPOFF64`.
const TP_OFFSET: u64 = 18;
/// What a slot holds when nothing defines its name: no offset.
const NOTHING: i64 = i64::MIN;

/// The bytes of an object, and where in it things are.
#[derive(Debug)]
pub(super) struct Object {
    bytes: Vec<u8>,
    slots: usize,
    n_slots: usize,
    image: u64,
}

/// An opened object. It stays open until it is closed.
#[derive(Debug)]
pub(super) struct Opened {
    handle: usize,
    base: usize,
    slots: usize,
    n_slots: usize,
    image: u64,
}

impl Object {
    /// One with a slot for the offset of each of these variables, wherever they are defined.
    pub(super) fn of_names(names: &[&[u8]]) -> Self {
        let symbols: Vec<u64> = (1..=u64_of(names.len())).collect();
        Self::new(names, &symbols, (0, 0))
    }

    /// One with a block of its own, and a slot for its offset. The initial image is all zero,
    /// as large as the block, and may be written to. The alignment is a power of two.
    pub(super) fn of_block(size: u64, align: u64) -> Self {
        // Symbol 0 stands for the object's own block.
        Self::new(&[], &[0], (size, align))
    }

    /// `relocated` has the number of the symbol of each slot.
    fn new(names: &[&[u8]], relocated: &[u64], (block, align): (u64, u64)) -> Self {
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
        let at_dynamic = at_relocations + relocated.len() * RELOCATION;
        let mut dynamic: Vec<u64> = Vec::new();
        for (tag, value) in [
            (5, at_strings),                   // DT_STRTAB
            (6, at_symbols),                   // DT_SYMTAB
            (10, strings.len()),               // DT_STRSZ
            (11, SYMBOL),                      // DT_SYMENT
            (7, at_relocations),               // DT_RELA
            (8, relocated.len() * RELOCATION), // DT_RELASZ
            (9, RELOCATION),                   // DT_RELAENT
            (30, 0x10),                        // DT_FLAGS: DF_STATIC_TLS
            (0, 0),
        ] {
            dynamic.extend([tag, u64_of(value)]);
        }
        let slots = at_dynamic + dynamic.len() * 8;
        let size = slots + relocated.len() * 8;

        let mut bytes = Vec::with_capacity(size);
        // ELF header: 64 bits, little-endian, shared object for x86-64.
        bytes.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        bytes.extend_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
        for word in [0, u64_of(HEADER), 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0, 4, 0, 64, 0, 0, 0, 0, 0]);
        // PT_LOAD of everything, PT_DYNAMIC, PT_TLS, PT_GNU_STACK; all readable and writable.
        // The block's image lies behind the file's end, where memory is zero.
        let file = u64_of(size);
        let image = file.next_multiple_of(align.max(64));
        let table = (u64_of(at_dynamic), u64_of(dynamic.len() * 8));
        for (kind, at, filled, whole, align) in [
            (1_u32, 0, file, image + block, PAGE),
            (2, table.0, table.1, table.1, 8),
            (7, image, block, block, align),
            (0x6474_e551, 0, 0, 0, 16),
        ] {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&6_u32.to_le_bytes());
            for word in [at, at, at, filled, whole, align] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&symbols);
        bytes.extend_from_slice(&strings);
        for (n, symbol) in relocated.iter().enumerate() {
            for word in [u64_of(slots + n * 8), symbol << 32 | TP_OFFSET, 0] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        for word in dynamic {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for _ in relocated {
            bytes.extend_from_slice(&NOTHING.to_le_bytes());
        }
        Self {
            bytes,
            slots,
            n_slots: relocated.len(),
            image,
        }
    }

    /// A file in memory that holds the object.
    pub(super) fn file(&self) -> std::io::Result<File> {
        // SAFETY: a valid string; the descriptor is owned by the file from here on.
        let mut file = unsafe {
            let descriptor = libc::memfd_create(c"clinch-tls".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(std::io::Error::last_os_error());
            }
            File::from_raw_fd(descriptor)
        };
        file.write_all(&self.bytes)?;
        Ok(file)
    }

    /// Opens the object.
    ///
    /// # Errors
    /// What the dynamic linker says: most likely that the spare part of the static block is full.
    pub(super) fn open(&self) -> Result<Opened, String> {
        /// How many objects were opened.
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let file = self.file().map_err(|error| error.to_string())?;
        // The dynamic linker knows objects by their paths, and descriptors are used again: the
        // number is told by ways of writing a path that make no difference to the system.
        let n = OPENED.fetch_add(1, Ordering::Relaxed);
        let digit = |bit| if n >> bit & 1 == 1 { "./" } else { "/" };
        let number: String = (0..usize::BITS).map(digit).collect();
        let path = format!("/proc/self/fd/{number}{}", file.as_raw_fd());
        let path = CString::new(path).map_err(|error| error.to_string())?;
        // SAFETY: a valid string; the object has no code.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                let error = libc::dlerror();
                let text = (!error.is_null()).then(|| CStr::from_ptr(error).to_string_lossy());
                return Err(text.map_or_else(String::new, |text| text.into_owned()));
            }
            // A handle is the address of the link map, whose first word is the object's base.
            let base = handle.cast::<*const c_void>().read().expose_provenance();
            let handle = handle.expose_provenance();
            let Self {
                slots,
                n_slots,
                image,
                ..
            } = *self;
            Ok(Opened {
                handle,
                base,
                slots,
                n_slots,
                image,
            })
        }
    }
}

impl Opened {
    /// The offset in a slot, one of those the object was made with; `None` if nothing defines its
    /// variable.
    pub(super) fn offset(&self, slot: usize) -> Option<i64> {
        debug_assert!(slot < self.n_slots, "the object has no such slot");
        let slot = slot.min(self.n_slots.saturating_sub(1));
        let address = self.base.wrapping_add(self.slots + slot * 8);
        // SAFETY: the object is mapped whole, is open for as long as this value is there, and
        // has a word for every slot, of which there is one at least.
        let offset = unsafe { std::ptr::with_exposed_provenance::<i64>(address).read() };
        (offset != NOTHING).then_some(offset)
    }

    /// Where the initial image of the object's block is.
    pub(super) fn image(&self) -> u64 {
        u64_of(self.base.wrapping_add(usize_of_u64(self.image)))
    }

    /// Closes the object, whose block and image are then gone.
    pub(super) fn close(self) {
        // SAFETY: `dlopen`'s answer, given back once: the value is consumed.
        unsafe { libc::dlclose(std::ptr::with_exposed_provenance_mut(self.handle)) };
    }
}
