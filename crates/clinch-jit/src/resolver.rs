//! Where names that a dylib's own objects do not define come from: absolute definitions, shared
//! libraries, the process.

use crate::context::lock;
use crate::error::LinkError;
use crate::link::{External, Found};
use crate::process::{Library, Process, ProcessSymbol};
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{GraphError, LinkGraph, Names, Scope, SymbolFlags, SymbolId};
use clinch_link::Resolution;
use clinch_link::tables::Reach;
use std::ffi::OsStr;
use std::sync::{Mutex, PoisonError, RwLock};

/// Libraries that are opened when a strong reference is found nowhere: what compiler drivers link
/// without being asked.
const FALLBACK_LIBRARIES: [&str; 3] = ["libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"];

/// What is known outside the objects.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// Names with given addresses.
    pub(crate) absolutes: Map<Vec<u8>, u64>,
    /// Those of them whose address is a value: no reference may mean anything else.
    pub(crate) values: Set<Vec<u8>>,
    /// The process that code is linked into.
    pub(crate) at: Process,
    /// Opened libraries with their place among all libraries.
    pub(crate) libraries: RwLock<Vec<(usize, Library)>>,
    /// Whether the process's own symbols may be used.
    pub(crate) process: bool,
    /// Whether libraries that were not asked for may be opened.
    pub(crate) fallback: bool,
    /// Whether what is found nowhere has address 0.
    pub(crate) phony: bool,
    pub(crate) answers: Mutex<Answers>,
    pub(crate) opened: Mutex<Option<Vec<Library>>>,
}

/// What libraries and the process said of names.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    found: Map<Vec<u8>, ProcessSymbol>,
    /// What nobody had, and whether all were asked: for weak references, libraries are not opened.
    missing: Map<Vec<u8>, bool>,
}

impl Answers {
    /// What was said of a name; `None` where somebody is to be asked.
    fn of(&self, name: &[u8], weak: bool) -> Option<Option<ProcessSymbol>> {
        if let Some(&found) = self.found.get(name) {
            return Some(Some(found));
        }
        let &all_were_asked = self.missing.get(name)?;
        (weak || all_were_asked).then_some(None)
    }
}

impl Resolver {
    /// Adds an opened library at a place among all libraries. One of another process has nothing
    /// to offer.
    pub(crate) fn add_library(&self, position: usize, library: Library) {
        if !self.at.has(&library) {
            return;
        }
        let mut libraries = self
            .libraries
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        libraries.push((position, library));
        // What was not there may be there now.
        *lock(&self.answers) = Answers::default();
    }

    /// What the first of the libraries before a place says of a name.
    fn in_libraries(&self, name: &[u8], before: usize) -> Option<ProcessSymbol> {
        let libraries = self
            .libraries
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut libraries = libraries.iter().filter(|(at, _)| *at < before);
        libraries.find_map(|(_, library)| library.find(name))
    }

    /// Asks an executor for many names at once (with whether each is a weak reference), so that
    /// what it says of each is known when it is asked for.
    pub(crate) fn prefetch<'n>(&self, names: impl Iterator<Item = (&'n [u8], bool)>) {
        if self.at.other().is_none() {
            return;
        }
        let mut wanted: Map<&[u8], bool> = Map::default();
        {
            let answers = lock(&self.answers);
            let names = names.filter(|(name, _)| answers.of(name, true).is_none());
            for (name, is_weak) in names.filter(|(name, _)| self.own(name).is_none()) {
                *wanted.entry(name).or_insert(is_weak) &= is_weak;
            }
        }
        let mut rest: Vec<&[u8]> = wanted.keys().copied().collect();
        rest.sort_unstable();
        let libraries: Vec<Library> = {
            let libraries = self.libraries.read();
            let libraries = libraries.unwrap_or_else(PoisonError::into_inner);
            libraries
                .iter()
                .map(|(_, library)| library.clone())
                .collect()
        };
        for library in &libraries {
            self.fetch(Some(library), &mut rest);
        }
        if self.process {
            self.fetch(None, &mut rest);
        }
        let mut strong: Vec<&[u8]> = rest.iter().copied().filter(|&name| !wanted[name]).collect();
        if self.fallback && !strong.is_empty() {
            self.open_fallback();
            let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            let opened = opened.clone().unwrap_or_default();
            for library in &opened {
                self.fetch(Some(library), &mut strong);
            }
        }
        let mut answers = lock(&self.answers);
        for name in rest {
            answers.missing.entry(name.to_vec()).or_insert(false);
        }
    }

    /// Has the process asked again for what it did not have: a link begins, before which it may
    /// have loaded something.
    pub(crate) fn forget_missing(&self) {
        if self.at.other().is_none() {
            lock(&self.answers).missing.clear();
        }
    }

    /// The same for one name, which somebody looks up.
    pub(crate) fn forget_if_missing(&self, name: &[u8]) {
        lock(&self.answers).missing.remove(name);
    }

    /// Notes what a library or the process says of names; leaves those that it does not define.
    fn fetch(&self, library: Option<&Library>, names: &mut Vec<&[u8]>) {
        if names.is_empty() {
            return;
        }
        let found = self.at.find_all(library, names);
        let mut answers = lock(&self.answers);
        let mut found = found.into_iter();
        names.retain(|name| match found.next().flatten() {
            Some(symbol) => {
                answers.found.insert(name.to_vec(), symbol);
                false
            }
            None => true,
        });
    }

    /// Whether a name is defined by what comes before the libraries at `position`.
    /// Libraries are not asked for thread-local variables, since to ask is to use them, in the
    /// wrong way.
    pub(crate) fn knows_before(&self, name: &[u8], position: usize, is_tls: bool) -> bool {
        self.absolutes.contains_key(name) || !is_tls && self.in_libraries(name, position).is_some()
    }

    /// What a library or the process says of a name.
    pub(crate) fn shared(&self, name: &[u8], weak: bool) -> Option<ProcessSymbol> {
        if let Some(answer) = lock(&self.answers).of(name, weak) {
            return answer;
        }
        let found = self
            .in_libraries(name, usize::MAX)
            .or_else(|| self.process.then(|| self.at.find(name)).flatten())
            .or_else(|| {
                (self.fallback && !weak)
                    .then(|| self.fallback(name))
                    .flatten()
            });
        let mut answers = lock(&self.answers);
        match found {
            Some(symbol) => drop(answers.found.insert(name.to_vec(), symbol)),
            None => drop(answers.missing.insert(name.to_vec(), !weak)),
        }
        drop(answers);
        found
    }

    fn fallback(&self, name: &[u8]) -> Option<ProcessSymbol> {
        self.open_fallback();
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened
            .iter()
            .flatten()
            .find_map(|library| library.find(name))
    }

    /// Opens the libraries that nobody asked for; answers whether they were not open yet.
    fn open_fallback(&self) -> bool {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.is_some() {
            return false;
        }
        // One that is not installed has nothing to offer.
        let libraries = FALLBACK_LIBRARIES.iter();
        *opened = Some(
            libraries
                .filter_map(|name| self.at.open_library(OsStr::new(name)).ok())
                .collect(),
        );
        true
    }

    /// How code anywhere in `window` reaches an external symbol.
    pub(crate) fn reach(
        &self,
        graph: &LinkGraph,
        symbol: SymbolId,
        window: Option<(u64, u64)>,
    ) -> Reach {
        let name = graph.symbol_name(symbol);
        let flags = graph.symbol_flags(symbol);
        let weak = flags.contains(SymbolFlags::WEAKLY_REFERENCED);
        if flags.contains(SymbolFlags::TLS) {
            return Reach::Near;
        }
        let (address, data) = match self.own(name) {
            Some(address) => (address, None),
            None => match self.shared(name, weak) {
                Some(found) => (found.address, found.is_data.then_some(found.size)),
                None if self.phony => (0, None),
                // Code in low memory reaches 0.
                None if weak && window.is_some_and(|(_, end)| end <= 1 << 31) => {
                    return Reach::Near;
                }
                // Elsewhere undefined weak functions are called through a stub that holds 0.
                None => return Reach::Far,
            },
        };
        if window.is_some_and(|window| reaches(window, address)) {
            return Reach::Near;
        }
        if self.values.contains(name) {
            return Reach::FarValue;
        }
        match data {
            Some(size) if size > 0 => Reach::FarData {
                size,
                align: copy_align(address),
            },
            _ => Reach::Far,
        }
    }

    /// Makes variables that every part of a process shares (inline variables, static variables of
    /// inline functions and their guards) those of a library that has them too. The library is
    /// loaded and bound to its own, so it is the program's that give way.
    ///
    /// # Errors
    /// None in a graph that the verifier accepts.
    pub(crate) fn share_variables(
        &self,
        graph: &mut LinkGraph,
        names: &Names,
        resolution: &Resolution,
    ) -> Result<(), GraphError> {
        const SHARED: SymbolFlags = SymbolFlags::WEAK.union(SymbolFlags::OBJECT);
        let is_shared = |&symbol: &SymbolId| {
            let flags = graph.symbol_flags(symbol);
            flags.is_definition()
                && flags.contains(SHARED)
                && !flags.contains(SymbolFlags::TLS)
                && flags.scope() == Scope::Default
        };
        let symbols = names.ids().filter_map(|name| resolution.of_name(name));
        let symbols: Vec<SymbolId> = symbols.filter(is_shared).collect();
        let mut found: Vec<SymbolId> = Vec::new();
        let mut ask = |library: Option<&Library>, symbols: Vec<SymbolId>| {
            let texts: Vec<&[u8]> = symbols.iter().map(|&id| graph.symbol_name(id)).collect();
            let answers = self.at.find_all(library, &texts);
            let (there, missing): (Vec<_>, Vec<_>) = symbols
                .into_iter()
                .zip(answers)
                .partition(|(_, answer)| answer.is_some());
            found.extend(there.into_iter().map(|(symbol, _)| symbol));
            missing.into_iter().map(|(symbol, _)| symbol).collect()
        };
        let mut rest = symbols;
        {
            let libraries = self.libraries.read();
            let libraries = libraries.unwrap_or_else(PoisonError::into_inner);
            for (_, library) in &*libraries {
                rest = ask(Some(library), rest);
            }
        }
        if self.process {
            rest.retain(|&symbol| graph.symbol_flags(symbol).contains(SymbolFlags::UNIQUE));
            ask(None, rest);
        }
        for symbol in found {
            graph.make_external(symbol)?;
        }
        Ok(())
    }

    fn own(&self, name: &[u8]) -> Option<u64> {
        self.absolutes.get(name).copied()
    }

    /// Answers the look-up of a link.
    pub(crate) fn look_up(&self, externals: &[External]) -> Vec<Found> {
        let names = externals.iter().filter(|external| !external.is_tls);
        self.prefetch(names.map(|external| (&*external.name, external.weak)));
        // Offsets in the dylib's own block count from the thread pointer.
        let is_base = |external: &External| external.name == b"_TLS_MODULE_BASE_";
        let thread_local: Vec<&External> = externals
            .iter()
            .filter(|external| external.is_tls && !is_base(external))
            .collect();
        let mut offsets = self.find_thread_local(&thread_local).into_iter();
        externals
            .iter()
            .map(|external| match external.is_tls {
                true if is_base(external) => Ok(Some(0)),
                true => offsets.next().unwrap_or(Ok(None)),
                false => self.find(external, external.weak),
            })
            .collect()
    }

    /// Answers a look-up of one symbol.
    pub(crate) fn find(&self, external: &External, weak: bool) -> Found {
        if let Some(address) = self.own(&external.name) {
            return Ok(Some(address));
        }
        let found = self.shared(&external.name, weak).map(|found| found.address);
        if let (None, Some(failure)) = (found, self.at.failure()) {
            return Err(failure);
        }
        Ok(found.or(self.phony.then_some(0)))
    }

    /// Answers a look-up of thread-local variables: offsets from the thread pointer.
    pub(crate) fn find_thread_local(&self, externals: &[&External]) -> Vec<Found> {
        let mut found = self.thread_local_offsets(externals);
        let lacks =
            |(found, external): (&Found, &&External)| matches!(found, Ok(None)) && !external.weak;
        if self.fallback && found.iter().zip(externals).any(lacks) && self.open_fallback() {
            found = self.thread_local_offsets(externals);
        }
        let or_phony = |found: Found| found.map(|found| found.or(self.phony.then_some(0)));
        found.into_iter().map(or_phony).collect()
    }

    /// The offsets of libraries' thread-local variables from the thread pointer.
    fn thread_local_offsets(&self, externals: &[&External]) -> Vec<Found> {
        let names: Vec<&[u8]> = externals.iter().map(|external| &*external.name).collect();
        let answer = |offset: Option<i64>| Ok(offset.map(i64::cast_unsigned));
        match self.at.thread_local_offsets(&names) {
            Ok(offsets) => offsets.into_iter().map(answer).collect(),
            Err(_) if self.at.failure().is_some() => {
                let failure = self.at.failure();
                let failed = || failure.clone().map_or(Ok(None), Err);
                names.iter().map(|_| failed()).collect()
            }
            // One by one, to tell which it is.
            Err(_) => names
                .iter()
                .map(|name| match self.at.thread_local_offsets(&[name]) {
                    Ok(offsets) => answer(offsets.first().copied().flatten()),
                    Err(why) => Err(LinkError::ThreadLocal {
                        name: String::from_utf8_lossy(name).into_owned(),
                        why,
                    }),
                })
                .collect(),
        }
    }
}

/// Whether a signed 32-bit distance leads from anywhere in the window to an address.
fn reaches((start, end): (u64, u64), address: u64) -> bool {
    const REACH: u64 = (1 << 31) - (1 << 16);
    address.abs_diff(start) < REACH && address.abs_diff(end) < REACH
}

/// The alignment that a copy of data at an address needs: what the address has, up to a cache
/// line.
fn copy_align(address: u64) -> u64 {
    1 << address.trailing_zeros().min(6)
}
