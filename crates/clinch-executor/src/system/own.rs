//! What an executor does, done in this process for a controller that links into it. Nothing is
//! checked: who links into its own process knows what it placed where.

use super::bindings;
use super::code::{self, Arguments, Callable};
use super::debugger::Registration;
use super::finalizers::Finalizers;
use super::library_tls;
use super::pages;
use super::registry::Registry;
use super::tls::ThreadBlock;
use crate::threads::lock;
use crate::wire::{Action, Array, Refusal, ThreadLocal};
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::sync::Mutex;

/// What this process was told of code that it linked itself.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry::new());

/// Does an action, with these arguments for initializers.
///
/// # Errors
/// What linked code or the process says.
///
/// # Safety
/// The action's addresses must be what it says of them. What it runs must be fit to run now; what
/// it registers must stay until it is taken back.
pub unsafe fn perform(action: &Action, arguments: &Arguments) -> Result<(), Refusal> {
    let callable = |address| Callable::unchecked(address);
    match action {
        Action::RegisterFrames { begin } => {
            // SAFETY: the caller's promise.
            unsafe { lock(&REGISTRY).frames.add(*begin, *begin + 1) };
        }
        Action::DeregisterFrames { begin } => lock(&REGISTRY).frames.deregister(*begin)?,
        Action::WriteWord { address, value } => {
            // SAFETY: the caller's promise.
            unsafe { write_word(*address, *value) };
        }
        Action::ResolveIfunc { slot, resolver } => {
            let value = callable(*resolver).resolve();
            // SAFETY: the caller's promise.
            unsafe { write_word(*slot, value) };
        }
        Action::RunArray(array) => {
            // SAFETY: the caller's promise.
            for function in unsafe { code::functions_of(*array) } {
                function.call_program(arguments);
            }
        }
        Action::RunHandlers { handle } => code::run_handlers(*handle),
        Action::Call { function, input } => code::call_action(callable(*function), input)?,
        Action::MoveVariable { from, to, size } => {
            // SAFETY: the caller's promise.
            unsafe { bindings::move_variable(*from, *to, *size) };
        }
        Action::InitializeThreadLocal { block, image, size } => {
            // SAFETY: the caller's promise.
            let image = unsafe { pages::read(*image, *size) };
            lock(&REGISTRY).initialize_thread_local(*block, image)?;
        }
        Action::ReleaseThreadLocal { block } => lock(&REGISTRY).release_thread_local(*block),
        Action::RegisterImage {
            address,
            size,
            blank,
        } => {
            // SAFETY: the caller's promise.
            let image = unsafe { Registration::at(*address, *size, blank.clone()) };
            lock(&REGISTRY).add_image(image, Vec::new());
        }
        Action::DeregisterImage { address } => lock(&REGISTRY).remove_image(*address)?,
        Action::RegisterFinalizers { arrays } => {
            if let Some(Array { address, .. }) = arrays.first() {
                let functions = arrays.iter().flat_map(|&array| {
                    // SAFETY: the caller's promise.
                    unsafe { code::functions_of(array) }
                });
                let functions = functions.collect();
                // SAFETY: the caller's promise.
                let finalizers = unsafe { Finalizers::register(arrays, functions) };
                lock(&REGISTRY).add_finalizers(*address, finalizers);
            }
        }
        Action::RunFinalizers { first } => {
            let finalizers = lock(&REGISTRY).take_finalizers(*first);
            if let Some(finalizers) = finalizers {
                finalizers.run();
            }
        }
    }
    Ok(())
}

/// Tells debuggers of an image, with an image of nothing (see [`Action::RegisterImage`]), and
/// answers the address by which [`Action::DeregisterImage`] knows it.
pub fn register_image(image: Vec<u8>, blank: Vec<u8>) -> u64 {
    let address = u64_of(image.as_ptr().expose_provenance());
    // SAFETY: the registry holds the bytes for as long as the registration.
    let registration = unsafe { Registration::at(address, u64_of(image.len()), blank) };
    lock(&REGISTRY).add_image(registration, image);
    address
}

/// Takes back what was registered and lies in a range whose memory goes.
pub fn forget_within(start: u64, end: u64) {
    lock(&REGISTRY).forget_within(start, end);
}

/// Finds a place for a thread-local block of linked code.
///
/// # Errors
/// There is none.
pub fn reserve_thread_local(size: u64, align: u64) -> Result<ThreadLocal, Refusal> {
    let place = ThreadBlock::new(size, align)?;
    Ok(lock(&REGISTRY).add_thread_local(place))
}

/// The offsets of libraries' thread-local variables from the thread pointer; `None` for those that
/// no opened library defines.
///
/// # Errors
/// What the dynamic linker says: most likely that there is no more space.
pub fn thread_local_offsets(names: &[&[u8]]) -> Result<Vec<Option<i64>>, String> {
    library_tls::offsets(names)
}

/// Calls a function as `main` and initializers are called.
///
/// # Safety
/// The address must be that of such a function, which may be called now.
pub unsafe fn call_program(function: u64, arguments: &Arguments) -> i32 {
    Callable::unchecked(function).call_program(arguments)
}

/// Ends the process as a program that returns from `main` does: handlers, finalizers, streams.
pub fn exit(status: i32) -> ! {
    // Destructors of ours need not run; what handlers throw must not come here.
    Callable::of_exit().call_int(status);
    std::process::abort()
}

/// Writes a pointer-sized word.
///
/// # Safety
/// The address must be writable and nobody else's.
unsafe fn write_word(address: u64, value: u64) {
    let place = pages::pointer(address).cast::<usize>();
    // SAFETY: the caller's promise; alignment is not assumed.
    unsafe { place.write_unaligned(usize_of_u64(value)) };
}
