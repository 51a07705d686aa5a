//! Where a dylib of a session finds what none of its units defines: archives, whose members
//! become units when one of their symbols is wanted; shared libraries and the process; and what
//! callers add.

use crate::archives::{Archives, Member};
use crate::error::LinkError;
use crate::linker_defined;
use crate::resolver::Resolver;
use bytes::Bytes;
use clinch_graph::{InputName, Workers};
use clinch_target::Arch;
use std::sync::Arc;

/// Defines symbols that were looked for and not found. One look-up at a time is closed over what
/// it needs, and generators are asked meanwhile: so they must not look anything up themselves.
pub trait Generator: Send {
    /// Objects that define some of the names; they are added to the dylib. Called for a name once.
    ///
    /// # Errors
    /// Makes the look-up fail.
    fn generate(&mut self, names: &[&[u8]]) -> Result<Vec<(InputName, Bytes)>, LinkError>;
}

/// A member of a dylib's archives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberKey {
    is_fallback: bool,
    /// Its archive and its place in it.
    order: (usize, u64),
}

/// What sources define.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Members of archives, then what generators made.
    pub(crate) objects: Vec<(InputName, Bytes)>,
    /// The members, which are the first objects.
    pub(crate) members: Vec<MemberKey>,
}

/// The sources of a dylib.
pub(crate) struct Sources {
    archives: Archives,
    fallback: Archives,
    generators: Vec<Box<dyn Generator>>,
    n_libraries: usize,
    pub(crate) resolver: Arc<Resolver>,
}

impl Sources {
    pub(crate) fn new(arch: &'static Arch, workers: &Arc<Workers>, resolver: Resolver) -> Self {
        let archives = || Archives::new(arch, Arc::clone(workers));
        Self {
            archives: archives(),
            fallback: archives(),
            generators: Vec::new(),
            n_libraries: 0,
            resolver: Arc::new(resolver),
        }
    }

    pub(crate) fn add_archive(&mut self, path: &str, bytes: Bytes) -> Result<(), LinkError> {
        self.n_libraries += 1;
        self.archives.add(path, bytes, self.n_libraries)
    }

    pub(crate) fn add_fallback(&mut self, path: &str, bytes: Bytes) -> Result<(), LinkError> {
        self.fallback.add(path, bytes, usize::MAX)
    }

    pub(crate) fn add_library(&mut self, library: crate::process::Library) {
        self.n_libraries += 1;
        self.resolver.add_library(self.n_libraries, library);
    }

    pub(crate) fn add_generator(&mut self, generator: Box<dyn Generator>) {
        self.generators.push(generator);
    }

    /// All members of archives that were not taken yet.
    pub(crate) fn take_all(&mut self) -> Result<Vec<(InputName, Bytes)>, LinkError> {
        self.archives.take_all()
    }

    /// Lets members be found again: what they were linked with failed.
    pub(crate) fn give_back(&mut self, members: Vec<MemberKey>) {
        for MemberKey { is_fallback, order } in members {
            let archives = if is_fallback {
                &mut self.fallback
            } else {
                &mut self.archives
            };
            archives.give_back(order);
        }
    }

    /// Objects that define some of the names (with whether each is a thread-local variable's), in
    /// the order of archives and in them, whoever asked first.
    pub(crate) fn objects(&mut self, names: &[(Vec<u8>, bool)]) -> Result<Found, LinkError> {
        let (mut members, mut rest): (Vec<(bool, Member)>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        self.prefetch(names)?;
        for (name, is_tls) in names {
            match self.member(name, *is_tls)? {
                Some(member) => members.push(member),
                None => rest.push(name),
            }
        }
        members.sort_by_key(|(is_fallback, member)| (*is_fallback, member.order));
        let mut found = Found::default();
        for (is_fallback, Member { order, name, bytes }) in members {
            found.objects.push((name, bytes));
            found.members.push(MemberKey { is_fallback, order });
        }
        for generator in &mut self.generators {
            found.objects.extend(generator.generate(&rest)?);
        }
        Ok(found)
    }

    /// Asks for the names that no archive has at once, where asking takes time.
    fn prefetch(&mut self, names: &[(Vec<u8>, bool)]) -> Result<(), LinkError> {
        let resolver = Arc::clone(&self.resolver);
        if resolver.at.other().is_none() {
            return Ok(());
        }
        let mut outside: Vec<(&[u8], bool)> = Vec::new();
        for (name, _) in names.iter().filter(|(_, is_tls)| !is_tls) {
            if !linker_defined::is_linker_defined(name)
                && self.archives.position_of(name)?.is_none()
            {
                outside.push((name, false));
            }
        }
        resolver.prefetch(outside.into_iter());
        Ok(())
    }

    /// The archive member to link for a name that no object defines.
    fn member(&mut self, name: &[u8], is_tls: bool) -> Result<Option<(bool, Member)>, LinkError> {
        let resolver = &self.resolver;
        if let Some(position) = self.archives.position_of(name)? {
            if resolver.knows_before(name, position, is_tls) {
                return Ok(None);
            }
            let taken = self.archives.take(name)?;
            return Ok(taken.map(|member| (false, member)));
        }
        if !resolver.fallback
            || is_tls
            || linker_defined::is_linker_defined(name)
            || resolver.knows_before(name, usize::MAX, is_tls)
            || resolver.shared(name, false).is_some()
        {
            return Ok(None);
        }
        match self.fallback.position_of(name)? {
            Some(_) => Ok(self.fallback.take(name)?.map(|member| (true, member))),
            None => Ok(None),
        }
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("n_libraries", &self.n_libraries)
            .field("generators", &self.generators.len())
            .finish_non_exhaustive()
    }
}
