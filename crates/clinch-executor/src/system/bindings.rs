//! Variables of loaded libraries that linked code has a copy of, because it cannot reach them
//! where they are: the libraries are pointed at the copy. Every place in them that holds the
//! variable's address is a dynamic relocation.

use super::pages;
use clinch_graph::index::int::usize_of_u64;
use clinch_target::host_arch;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;

/// `Elf64_Rela`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rela {
    offset: u64,
    info: u64,
    addend: i64,
}

/// One loaded object: its relocations by symbol, and the range that is read-only after
/// relocation.
struct Object {
    base: u64,
    dynamic: u64,
    relro: (u64, u64),
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the dynamic linker passes a filled record, and `data` is the vector that
    // `rebind` passed, alive and not otherwise used during the walk.
    let (info, objects) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
    let mut object = Object {
        base: info.dlpi_addr,
        dynamic: 0,
        relro: (0, 0),
    };
    for n in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the record's array has `dlpi_phnum` entries.
        let header = unsafe { &*info.dlpi_phdr.add(n) };
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        match header.p_type {
            PT_DYNAMIC => object.dynamic = start,
            PT_GNU_RELRO => object.relro = (start, start.wrapping_add(header.p_memsz)),
            _ => {}
        }
    }
    if object.dynamic != 0 {
        objects.push(object);
    }
    0
}

/// Copies a variable and points the loaded libraries at its new place. Bytes that do not differ
/// are not written: constants are moved as well, and back to where nobody may write.
///
/// # Safety
/// The variable must be readable, its new place writable unless it holds the same, and nobody may
/// write to either meanwhile.
pub(crate) unsafe fn move_variable(from: u64, to: u64, size: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if pages::read(from, size) != pages::read(to, size) {
            let from = pages::pointer(from).cast::<u8>();
            std::ptr::copy(from, pages::pointer(to).cast(), usize_of_u64(size));
        }
    }
    if let Some(elf) = host_arch().and_then(|arch| arch.elf) {
        rebind(from, to, elf.is_dynamic_address);
    }
}

/// Points every reference of the loaded libraries to the variable at `from` to its copy at
/// `to`: what the dynamic linker does for a program's copy of a library's variable. A
/// variable may have several names; they are told by the address that was bound.
/// `is_address` says whether a relocation number writes a symbol's address.
fn rebind(from: u64, to: u64, is_address: fn(u32) -> bool) {
    /// Two writers of one page must not seal it for one another.
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: `collect` expects the vector and does not keep it.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut objects).cast()) };
    for object in &objects {
        rebind_object(object, from, to, is_address);
    }
}

fn rebind_object(object: &Object, from: u64, to: u64, is_address: fn(u32) -> bool) {
    let (mut table, mut size) = (0_u64, 0_u64);
    let mut at = object.dynamic;
    loop {
        // SAFETY: the dynamic section is mapped and ends with a null tag.
        let (tag, value) = unsafe { (read::<u64>(at), read::<u64>(at + 8)) };
        match tag {
            0 => break,
            DT_RELA => table = value,
            DT_RELASZ => size = value,
            _ => {}
        }
        at += 16;
    }
    // The kernel's own object is not relocated by the dynamic linker: its addresses are
    // offsets. It has no relocations either.
    if table < object.base || size == 0 {
        return;
    }
    for n in 0..size / 24 {
        // SAFETY: the table has this size and is mapped for as long as the library is.
        let rela = unsafe { read::<Rela>(table + n * 24) };
        let kind = clinch_graph::index::int::low_u32(rela.info);
        if !is_address(kind) {
            continue;
        }
        let place = object.base.wrapping_add(rela.offset);
        let bound = from.wrapping_add_signed(rela.addend);
        // SAFETY: a relocated word of a loaded library is mapped and readable.
        if unsafe { read::<u64>(place) } == bound {
            write(object, place, to.wrapping_add_signed(rela.addend));
        }
    }
}

fn write(object: &Object, place: u64, value: u64) {
    const PAGE: u64 = 4096;
    let sealed = (object.relro.0..object.relro.1).contains(&place);
    let page = place & !(PAGE - 1);
    // A relocated word is aligned, so it lies in one page.
    let protect = |bits| {
        // SAFETY: changes what the page around one relocated word allows, for the time of
        // one write, and back to what the dynamic linker had set.
        unsafe { libc::mprotect(pointer(page), usize_of_u64(PAGE), bits) }
    };
    if sealed && protect(libc::PROT_READ | libc::PROT_WRITE) != 0 {
        return;
    }
    // SAFETY: the place is a relocated word of a loaded library, writable now; it is the
    // width of a pointer and aligned. The program is not running yet.
    unsafe { pointer(place).cast::<u64>().write_volatile(value) };
    if sealed {
        protect(libc::PROT_READ);
    }
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize_of_u64(address))
}

/// Reads a value.
///
/// # Safety
/// The address must hold a readable `T`.
unsafe fn read<T>(address: u64) -> T {
    // SAFETY: the caller's promise; alignment is not assumed.
    unsafe { pointer(address).cast::<T>().read_unaligned() }
}
