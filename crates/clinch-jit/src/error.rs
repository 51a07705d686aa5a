//! What can go wrong when linking into a process.

use clinch_executor::Refusal;
use clinch_graph::{BlockEdgeError, GraphError};
use clinch_link::fixup::LinkFixupError;
use clinch_link::frames::FrameError;
use clinch_link::place::Place;
use clinch_link::resolve::Duplicate;
use clinch_link::tables::TableError;
use clinch_object::error::InputError;
use thiserror::Error;

/// A link's failure: one or more errors in a fixed order.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct LinkErrors(pub Vec<LinkError>);

impl LinkErrors {
    /// A value, unless there are errors.
    ///
    /// # Errors
    /// Those given.
    pub(crate) fn or<T>(errors: Vec<LinkError>, value: T) -> Result<T, Self> {
        if errors.is_empty() {
            Ok(value)
        } else {
            Err(Self(errors))
        }
    }
}

impl<E: Into<LinkError>> From<E> for LinkErrors {
    fn from(error: E) -> Self {
        Self(vec![error.into()])
    }
}

impl<E: Into<LinkError>> From<Vec<E>> for LinkErrors {
    fn from(errors: Vec<E>) -> Self {
        Self(errors.into_iter().map(Into::into).collect())
    }
}

/// One error of a link.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// An input that cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file that cannot be opened, found or used.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Two strong definitions.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// A symbol that nothing defines.
    #[error(transparent)]
    Undefined(#[from] Undefined),
    /// Relocation records that cannot be decoded.
    #[error(transparent)]
    Edges(#[from] BlockEdgeError),
    /// Call frame records that cannot be split.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// A table entry that cannot be made.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// An edge that cannot be applied.
    #[error(transparent)]
    Fixup(#[from] LinkFixupError),
    /// The graph refused a change.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A pass said no.
    #[error("pass {pass}: {why}")]
    Pass {
        /// The pass's name.
        pass: String,
        /// What it said.
        why: String,
    },
    /// This machine, or what was written of its architecture, cannot link functions when they
    /// are called.
    #[error("functions cannot be linked when they are called on this machine")]
    NoReentry,
    /// Something that needs code to be in this process.
    #[error("{0} is not possible for code in another process")]
    InExecutor(&'static str),
    /// An executor that cannot run the code.
    #[error("the executor is for {found}, and the code for {wanted}")]
    OtherArchitecture {
        /// What the code is for.
        wanted: &'static str,
        /// What the executor says that it is.
        found: String,
    },
    /// A tracker that was removed, or of another dylib.
    #[error("the resource tracker became defunct")]
    Defunct,
    /// A second strong definition in a dylib of a session.
    #[error("duplicate definition of {name} in dylib {dylib}: in {first} and in {second}")]
    Defined {
        /// The dylib.
        dylib: String,
        /// The mangled name.
        name: String,
        /// What defined it before.
        first: String,
        /// What defines it now.
        second: String,
    },
    /// Something that makes definitions on demand made none.
    #[error("nothing was made to define: [ {} ]", .symbols.join(", "))]
    Unmet {
        /// What it owed.
        symbols: Vec<String>,
    },
    /// An object lacks definitions that were promised.
    #[error("missing definitions: [ {} ]", .symbols.join(", "))]
    Missing {
        /// What it lacks.
        symbols: Vec<String>,
    },
    /// What a link depends on failed.
    #[error("{name}, which is needed here, failed: {why}")]
    Dependence {
        /// The mangled name.
        name: String,
        /// What failed.
        why: String,
    },
    /// A thread-local variable that is not where code expects it.
    #[error("thread-local symbol {name}: {why}")]
    ThreadLocal {
        /// The mangled name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// A symbol that something refers to and nothing defines.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("undefined symbol: {name}")]
pub struct Undefined {
    /// The mangled name.
    pub name: String,
    /// The first places that refer to it.
    pub referrers: Vec<Place>,
    /// How many places refer to it.
    pub n_referrers: usize,
    /// A defined name that is nearly the same, mangled.
    pub near_miss: Option<String>,
}

/// Why there is no memory.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The system refused.
    #[error("cannot {what}: {reason}")]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        reason: std::io::ErrorKind,
    },
    /// The reservation is full.
    #[error("no room for {want:#x} bytes in the dylib's address range")]
    NoSpace {
        /// How many bytes were wanted.
        want: u64,
    },
    /// Low memory is taken.
    #[error(
        "no address range of {want:#x} bytes is free below 2 GiB, which code compiled without \
         -fPIC or -fPIE needs"
    )]
    NoLowSpace {
        /// How many bytes were wanted.
        want: u64,
    },
    /// The slab is full.
    #[error("slab of {have:#x} bytes is too small: {want:#x} bytes are needed")]
    SlabFull {
        /// How many bytes are needed.
        want: u64,
        /// How many the slab has.
        have: u64,
    },
    /// Thread-local variables do not fit the space that every thread of this process has for
    /// them.
    #[error(
        "thread-local variables need {want} bytes aligned to {align}, but only {have} bytes are \
         left in this process (start it with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=BYTES \
         for more)"
    )]
    NoThreadLocalSpace {
        /// How many bytes are needed.
        want: u64,
        /// Their alignment.
        align: u64,
        /// How many are left.
        have: u64,
    },
    /// What runs in the process failed.
    #[error("{0}")]
    Runtime(String),
    /// An executor did not do what it was asked for, or is gone.
    #[error("executor: {0}")]
    Executor(clinch_executor::Error),
}

impl From<Refusal> for MemoryError {
    /// What this process does not do.
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoThreadLocalSpace { want, align, have } => {
                Self::NoThreadLocalSpace { want, align, have }
            }
            Refusal::System { what, code } => Self::System {
                what,
                reason: std::io::Error::from_raw_os_error(code).kind(),
            },
            other => Self::Runtime(other.to_string()),
        }
    }
}

impl From<clinch_executor::Error> for MemoryError {
    fn from(error: clinch_executor::Error) -> Self {
        Self::Executor(error)
    }
}
