//! Where a dylib of a session finds what none of its units defines: archives, whose members
//! become units when one of their symbols is wanted; shared libraries and the process; and what
//! callers add.

use crate::archives::Archives;
use crate::closure::Member;
use crate::dylib::Search;
use crate::error::LinkError;
use crate::resolver::Resolver;
use bytes::Bytes;
use clinch_graph::InputName;
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

/// The sources of a dylib.
pub(crate) struct Sources {
    arch: &'static Arch,
    archives: Archives,
    fallback: Archives,
    generators: Vec<Box<dyn Generator>>,
    n_libraries: usize,
    pub(crate) resolver: Arc<Resolver>,
}

impl Sources {
    pub(crate) fn new(arch: &'static Arch, resolver: Resolver) -> Self {
        Self {
            arch,
            archives: Archives::default(),
            fallback: Archives::default(),
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

    /// Objects that define some of the names (with whether each is a thread-local variable's), in
    /// the order of archives and in them, whoever asked first.
    pub(crate) fn objects(
        &mut self,
        names: &[(Vec<u8>, bool)],
    ) -> Result<Vec<(InputName, Bytes)>, LinkError> {
        let resolver = Arc::clone(&self.resolver);
        let mut search = Search {
            arch: self.arch,
            archives: &mut self.archives,
            fallback: &mut self.fallback,
            resolver: &resolver,
            wide: resolver.fallback,
        };
        let (mut members, mut rest): (Vec<Member>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        for (name, is_tls) in names {
            match search.member(name, *is_tls)? {
                Some(member) => members.push(member),
                None => rest.push(name),
            }
        }
        self.archives.settle(true);
        self.fallback.settle(true);
        members.sort_by_key(|member| member.order);
        let members = members
            .into_iter()
            .map(|member| (member.name, member.bytes));
        let mut objects: Vec<(InputName, Bytes)> = members.collect();
        for generator in &mut self.generators {
            objects.extend(generator.generate(&rest)?);
        }
        Ok(objects)
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
