//! Entering linked code and being entered by it; the process's unwinder and exit handlers.
//!
//! That an address is that of code of the right kind is the word of the controller, which proved
//! that it may run anything here: serving it means just that. What is checked, so that a mistake
//! is an error and not a crash, is that code is there at all ([`Callable`]) and that unwind
//! records are a list with an end ([`Frames`]).

use super::library;
use super::memory::Memory;
use super::pages;
use crate::wire::{Array, MAX_PAYLOAD, Refusal};
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// An address where code was when it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callable(usize);

impl Callable {
    /// Code in executable pages of the connection, or in an object that the process has loaded.
    pub(crate) fn new(memory: &Memory, address: u64) -> Result<Self, Refusal> {
        let is_code = memory
            .is_code(address)
            .unwrap_or_else(|| library::is_loaded(address));
        if !is_code {
            return Err(Refusal::NotCode(address));
        }
        Ok(Self(usize_of_u64(address)))
    }

    /// An address of code that the caller placed.
    pub(super) fn unchecked(address: u64) -> Self {
        Self(usize_of_u64(address))
    }

    /// Where it is.
    pub(super) fn address(self) -> u64 {
        u64_of(self.0)
    }

    /// The C library's `exit`.
    pub(super) fn of_exit() -> Self {
        Self((libc::exit as *const ()).expose_provenance())
    }

    /// Calls a function without arguments, for nothing.
    pub(crate) fn call_void(self) {
        // SAFETY: a function as the controller says.
        unsafe { outermost(self.0, 0, 0, 0) };
    }

    /// Calls a function of an `int`.
    pub(crate) fn call_int(self, argument: i32) -> i32 {
        // The upper half of a register that holds an `int` does not count.
        let argument = usize_of(argument.cast_unsigned());
        // SAFETY: a function as the controller says.
        low_int(unsafe { outermost(self.0, argument, 0, 0) })
    }

    /// Calls a function as `main` and initializers are called.
    pub(crate) fn call_program(self, arguments: &Arguments) -> i32 {
        // SAFETY: reads the C library's variable; the environment is not being changed now.
        let environment = unsafe { environ }.expose_provenance();
        let values = arguments.pointers.as_ptr().expose_provenance();
        let count = arguments.strings.len();
        // SAFETY: a function as the controller says; the arguments live as long as it may run
        // code of the connection.
        low_int(unsafe { outermost(self.0, count, values, environment) })
    }

    /// Calls a resolver of an ifunc.
    pub(crate) fn resolve(self) -> u64 {
        // SAFETY: a function as the controller says; one without use for arguments ignores them.
        u64_of(unsafe { outermost(self.0, 0, 0, 0) })
    }

    /// Calls a wrapper.
    pub(crate) fn call_wrapper(self, input: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut sink = Collected::new();
        let reply = (&raw mut sink).expose_provenance();
        // SAFETY: a function as the controller says; the bytes and the sink outlive the call.
        unsafe {
            outermost(
                self.0,
                input.as_ptr().expose_provenance(),
                input.len(),
                reply,
            )
        };
        sink.take()
    }
}

fn low_int(value: usize) -> i32 {
    clinch_graph::index::int::low_u32(u64_of(value)).cast_signed()
}

unsafe extern "C" {
    static environ: *mut *mut c_char;
    static mut program_invocation_name: *mut c_char;
    static mut program_invocation_short_name: *mut c_char;
    fn __cxa_finalize(handle: *mut c_void);
    fn __register_frame(begin: *const c_void);
    fn __deregister_frame(begin: *const c_void);
}

/// Calls a function as if nothing had called it: for the unwinder the stack ends here, as that of
/// a thread ends where it starts. So an exception that the function does not catch terminates the
/// process, `pthread_exit` ends the thread only, and nothing of ours is unwound.
///
/// # Safety
/// The address must be that of a function that takes these arguments or ignores them.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn outermost(
    function: usize,
    first: usize,
    second: usize,
    third: usize,
) -> usize {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "push rbp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "call rax",
        "pop rbp",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls a function. What it throws and does not catch ends the process at the first function of
/// ours.
///
/// # Safety
/// The address must be that of a function that takes these arguments or ignores them.
#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn outermost(
    function: usize,
    first: usize,
    second: usize,
    third: usize,
) -> usize {
    let function = std::ptr::with_exposed_provenance::<()>(function);
    // SAFETY: the caller's promise.
    unsafe {
        let function: unsafe extern "C" fn(usize, usize, usize) -> usize =
            std::mem::transmute(function);
        function(first, second, third)
    }
}

/// Arguments of a program, which it may keep pointers to for as long as its code is there.
#[derive(Debug)]
pub struct Arguments {
    strings: Vec<CString>,
    /// Pointers to them, ended by null.
    pointers: Vec<usize>,
}

impl Arguments {
    /// Arguments, the first of which is the program's name.
    ///
    /// # Errors
    /// A zero byte in one.
    pub fn new(values: &[&[u8]]) -> Result<Self, Refusal> {
        let strings = values
            .iter()
            .map(|&value| CString::new(value).map_err(|_| Refusal::ZeroByte))
            .collect::<Result<Vec<CString>, Refusal>>()?;
        let mut pointers: Vec<usize> = strings
            .iter()
            .map(|string| string.as_ptr().expose_provenance())
            .collect();
        pointers.push(0);
        Ok(Self { strings, pointers })
    }

    /// Makes the C library call the program by its first argument in messages, for as long as the
    /// process lives.
    pub fn name_process(&self) {
        let Some(name) = self.strings.first() else {
            return;
        };
        let name = name.clone().into_raw();
        // SAFETY: the string is valid and is never freed; the C library reads these variables when
        // it writes messages, and no other thread of ours uses them.
        unsafe {
            let slash = libc::strrchr(name, c_int::from(b'/'));
            program_invocation_name = name;
            program_invocation_short_name = if slash.is_null() { name } else { slash.add(1) };
        }
    }

    /// The arguments.
    pub fn values(&self) -> impl Iterator<Item = &CStr> {
        self.strings.iter().map(CString::as_c_str)
    }
}

impl Default for Arguments {
    /// None.
    fn default() -> Self {
        Self {
            strings: Vec::new(),
            pointers: vec![0],
        }
    }
}

/// The functions of an array in the order in which they are called. Null and minus one are skipped,
/// as by the C library's start code.
///
/// # Safety
/// The array must be readable and hold addresses of functions.
pub(super) unsafe fn functions_of(array: Array) -> Vec<Callable> {
    let function = |n| {
        let slot = pages::pointer(array.address + n * u64_of(size_of::<usize>()));
        // SAFETY: the caller's promise; alignment is not assumed.
        let function = unsafe { slot.cast::<usize>().read_unaligned() };
        (!is_none(function)).then_some(Callable(function))
    };
    array.slots().filter_map(function).collect()
}

/// Whether a word of an array of functions stands for no function.
pub(crate) fn is_none(function: usize) -> bool {
    function == 0 || function == usize::MAX
}

/// Calls a wrapper as an action: what it answers, unless it is nothing, is why it failed.
pub(crate) fn call_action(function: Callable, input: &[u8]) -> Result<(), Refusal> {
    let why = function.call_wrapper(input)?;
    if why.is_empty() {
        return Ok(());
    }
    Err(Refusal::Failed(String::from_utf8_lossy(&why).into_owned()))
}

/// Runs the exit handlers that were registered with a handle, last to first, each once.
pub(crate) fn run_handlers(handle: u64) {
    // Null stands for all handlers of the process.
    if handle != 0 {
        // SAFETY: the handlers are still there to be called, as the controller says.
        unsafe { __cxa_finalize(std::ptr::with_exposed_provenance_mut(usize_of_u64(handle))) };
    }
}

/// Unwind records that the process's unwinder knows; it forgets them when this is dropped.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Where lists begin and end.
    registered: BTreeMap<u64, u64>,
}

impl Frames {
    pub(super) const fn new() -> Self {
        Self {
            registered: BTreeMap::new(),
        }
    }

    /// Registers the records that begin at an address and end with a zero length.
    pub(crate) fn register(&mut self, memory: &Memory, begin: u64) -> Result<(), Refusal> {
        let end = end_of_list(memory, begin).filter(|_| !self.registered.contains_key(&begin));
        let end = end.ok_or(Refusal::Frames(begin))?;
        // SAFETY: a list in readable memory that has an end, which stays until it is deregistered:
        // no page that it reaches into is given up before.
        unsafe { self.add(begin, end) };
        Ok(())
    }

    /// The same for records that the caller made.
    ///
    /// # Safety
    /// They must be a list that nobody registered, and stay until they are deregistered; `end` is
    /// behind the first of them at least.
    pub(super) unsafe fn add(&mut self, begin: u64, end: u64) {
        // SAFETY: the caller's promise.
        unsafe { __register_frame(std::ptr::with_exposed_provenance(usize_of_u64(begin))) };
        self.registered.insert(begin, end);
    }

    pub(crate) fn deregister(&mut self, begin: u64) -> Result<(), Refusal> {
        if self.registered.remove(&begin).is_none() {
            return Err(Refusal::Frames(begin));
        }
        deregister(begin);
        Ok(())
    }

    /// Deregisters what reaches into a range whose pages are about to be given up.
    pub(crate) fn deregister_within(&mut self, start: u64, end: u64) {
        let gone = self.registered.range(..end);
        let gone = gone.filter(|&(_, &list_end)| list_end > start);
        let gone: Vec<u64> = gone.map(|(&begin, _)| begin).collect();
        for begin in gone {
            self.registered.remove(&begin);
            deregister(begin);
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        for &begin in self.registered.keys() {
            deregister(begin);
        }
    }
}

fn deregister(begin: u64) {
    // SAFETY: registered, and not deregistered since.
    unsafe { __deregister_frame(std::ptr::with_exposed_provenance(usize_of_u64(begin))) };
}

/// Where a list of records ends, when that is in readable memory, and each description points back
/// to a record of the list: the unwinder follows both without looking.
fn end_of_list(memory: &Memory, begin: u64) -> Option<u64> {
    // The unwinder takes a list without records for an error, and ends the process.
    let mut any = false;
    let mut starts = BTreeSet::new();
    let mut at = begin;
    let word = |at: u64| memory.array(at).ok().map(u32::from_le_bytes);
    loop {
        let short = word(at)?;
        if short == 0 {
            return any.then(|| at.saturating_add(4));
        }
        let (body, size) = if short == u32::MAX {
            let long = memory.array(at.saturating_add(4)).ok()?;
            (at.saturating_add(12), u64::from_le_bytes(long))
        } else {
            (at.saturating_add(4), u64::from(short))
        };
        let id = word(body)?;
        if id == 0 {
            starts.insert(at);
        } else if !starts.contains(&body.wrapping_sub(u64::from(id))) {
            return None;
        }
        any = true;
        match body.checked_add(size) {
            Some(next) if size >= 4 => at = next,
            _ => return None,
        }
    }
}

/// How linked code answers: it calls `write` with itself and bytes, as often as it likes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Sink {
    write: unsafe extern "C" fn(*mut Sink, *const u8, usize),
}

/// A sink that keeps what is written to it.
#[repr(C)]
struct Collected {
    sink: Sink,
    bytes: Vec<u8>,
    too_large: bool,
}

impl Collected {
    fn new() -> Self {
        Self {
            sink: Sink { write: Self::write },
            bytes: Vec::new(),
            too_large: false,
        }
    }

    unsafe extern "C" fn write(sink: *mut Sink, bytes: *const u8, size: usize) {
        // SAFETY: the sink is the first field of a `Collected`, to which linked code got a pointer
        // in `call_wrapper`, which waits for it and does not touch it meanwhile.
        let collected = unsafe { &mut *sink.cast::<Self>() };
        // Room for the number of bytes in the message.
        if size > MAX_PAYLOAD - 4 - collected.bytes.len().min(MAX_PAYLOAD - 4) {
            collected.too_large = true;
        } else if size > 0 {
            // SAFETY: linked code says that these bytes are readable.
            let bytes = unsafe { std::slice::from_raw_parts(bytes, size) };
            collected.bytes.extend_from_slice(bytes);
        }
    }

    fn take(self) -> Result<Vec<u8>, Refusal> {
        if self.too_large {
            return Err(Refusal::TooLarge(u64_of(MAX_PAYLOAD)));
        }
        Ok(self.bytes)
    }
}

/// The address of the function by which linked code calls the controller.
pub(crate) fn dispatch_address() -> u64 {
    u64_of((dispatch as *const ()).expose_provenance())
}

/// Linked code calls the controller. The answer goes to the sink, unless there is no sink;
/// the result is 0 for an answer, 1 for an answer that says why there is none, 2 when the
/// connection has ended.
unsafe extern "C" fn dispatch(
    context: u64,
    tag: u64,
    input: *const u8,
    size: usize,
    reply: *mut Sink,
) -> c_int {
    let input = if size == 0 {
        &[]
    } else {
        // SAFETY: linked code says that these bytes are readable; nobody writes to them while it
        // waits for the answer.
        unsafe { std::slice::from_raw_parts(input, size) }
    };
    let (status, answer) = crate::server::dispatch(context, tag, input);
    // SAFETY: null, or a sink of linked code's.
    if let Some(sink) = unsafe { reply.as_ref() } {
        // SAFETY: the sink takes what it is given.
        unsafe { (sink.write)(reply, answer.as_ptr(), answer.len()) };
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Place, Protection};

    fn memory_with(bytes: &[u8]) -> (Memory, u64) {
        let mut memory = Memory::new(1 << 30);
        let base = memory.reserve(4096, 16, Place::Any).unwrap();
        memory.protect(base, 4096, Protection::ReadWrite).unwrap();
        memory
            .write(base + 4096 - u64_of(bytes.len()), bytes)
            .unwrap();
        (memory, base + 4096 - u64_of(bytes.len()))
    }

    #[test]
    fn lists_of_records_must_end_and_point_back() {
        let cie = [8_u32, 0, 0];
        let fde = [8_u32, 16, 0];
        let check = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (memory, begin) = memory_with(&bytes);
            end_of_list(&memory, begin).is_some()
        };
        assert!(check(&[&cie[..], &fde, &[0]].concat()));
        assert!(check(&[&[u32::MAX, 8, 0, 0, 0], &[0][..]].concat()));
        // No end, an end within a record, a length that leads out, no records.
        assert!(!check(&[&cie[..], &fde].concat()));
        assert!(!check(&[12, 0, 0]));
        assert!(!check(&[u32::MAX - 1, 0, 0]));
        assert!(!check(&[u32::MAX, u32::MAX, u32::MAX, 0]));
        assert!(!check(&[0]));
        // Too short for an id, and descriptions without their common record.
        assert!(!check(&[2, 0, 0]));
        assert!(!check(&[8, 4, 0, 0]));
        assert!(!check(&[&cie[..], &[8, 12, 0, 0]].concat()));
    }

    #[test]
    fn code_is_called_only_where_code_is() {
        let (memory, begin) = memory_with(&[0]);
        assert!(matches!(
            Callable::new(&memory, begin),
            Err(Refusal::NotCode(address)) if address == begin
        ));
        assert!(Callable::new(&memory, 0).is_err());
        let abs = library::find(b"abs").unwrap().address;
        let abs = Callable::new(&memory, abs).unwrap();
        assert_eq!(abs.call_int(-7), 7);
    }
}
