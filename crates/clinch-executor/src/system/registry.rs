//! What this process was told of linked code: unwind records, images for debuggers, finalizers,
//! thread-local blocks. A connection has a registry of its own, and so has the process for what is
//! linked into it by itself. What is in it when it is dropped is taken back.

use super::code::Frames;
use super::debugger::Registration;
use super::finalizers::Finalizers;
use super::tls::ThreadBlock;
use crate::wire::{Refusal, ThreadLocal};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the process was told of.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) frames: Frames,
    /// By address, with the bytes of those that nobody else holds.
    images: BTreeMap<u64, (Registration, Vec<u8>)>,
    /// By the address of the first array.
    finalizers: BTreeMap<u64, Finalizers>,
    /// By number.
    blocks: BTreeMap<u64, ThreadBlock>,
}

impl Registry {
    pub(crate) const fn new() -> Self {
        Self {
            frames: Frames::new(),
            images: BTreeMap::new(),
            finalizers: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// Keeps an image that debuggers were told of, by its address, with its bytes unless somebody
    /// else holds them.
    pub(crate) fn add_image(&mut self, image: Registration, bytes: Vec<u8>) {
        self.images.insert(image.address(), (image, bytes));
    }

    pub(crate) fn has_image(&self, address: u64) -> bool {
        self.images.contains_key(&address)
    }

    pub(crate) fn remove_image(&mut self, address: u64) -> Result<(), Refusal> {
        match self.images.remove(&address) {
            Some(_) => Ok(()),
            None => Err(Refusal::Image(address)),
        }
    }

    /// Keeps finalizers by the address of their first array.
    pub(crate) fn add_finalizers(&mut self, first: u64, finalizers: Finalizers) {
        self.finalizers.insert(first, finalizers);
    }

    /// Finalizers that were kept, to be run by who holds no lock.
    pub(crate) fn take_finalizers(&mut self, first: u64) -> Option<Finalizers> {
        self.finalizers.remove(&first)
    }

    /// Keeps a thread-local block.
    pub(crate) fn add_thread_local(&mut self, place: ThreadBlock) -> ThreadLocal {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let block = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let offset = place.tp_offset();
        self.blocks.insert(block, place);
        ThreadLocal { block, offset }
    }

    /// Sets the initial values of a block.
    pub(crate) fn initialize_thread_local(&self, block: u64, image: &[u8]) -> Result<(), Refusal> {
        match self.blocks.get(&block) {
            Some(place) => place.initialize(image),
            None => Err(Refusal::ThreadLocal(format!("there is no block {block}"))),
        }
    }

    pub(crate) fn release_thread_local(&mut self, block: u64) {
        self.blocks.remove(&block);
    }

    /// Takes back what lies in a range whose pages are about to be given up.
    pub(crate) fn forget_within(&mut self, start: u64, end: u64) {
        self.frames.deregister_within(start, end);
        while let Some(&address) = self
            .images
            .range(start..end.max(start))
            .next()
            .map(|(at, _)| at)
        {
            self.images.remove(&address);
        }
        self.finalizers
            .retain(|_, finalizers| !finalizers.is_within(start, end));
    }
}
