//! What the tests share: compiling, making dylibs, calling what was linked, and looking at the
//! process's mappings.

pub(crate) mod elf;

use bytes::Bytes;
use clinch_graph::{InputName, LinkGraph};
use clinch_jit::debug::Audience;
use clinch_jit::memory::{InProcess, MemoryManager};
use clinch_jit::passes::Passes;
use clinch_jit::session::{
    Dylib, DylibSources, LinkInfo, LinkPlugin, LookUpError, Session, SessionOptions, SymbolState,
};
use clinch_jit::{LinkErrors, ProgramArguments};
use clinch_target::Arch;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

/// A folder for compiled files, removed when it is dropped.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("there is room for a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles a C (`x.c`), C++ (`x.cpp`) or assembly (`x.s`) source to the object `x.o`.
    pub(crate) fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let file = self.path().join(name);
        fs::write(&file, source).expect("it can be written");
        let object = file.with_extension("o");
        let compiler = if name.ends_with(".cpp") { "c++" } else { "cc" };
        let mut command = Command::new(compiler);
        command
            .arg("-c")
            .args(options)
            .arg(&file)
            .arg("-o")
            .arg(&object);
        run(&mut command);
        object
    }

    /// The bytes of an object.
    pub(crate) fn object(&self, name: &str, source: &str, options: &[&str]) -> Bytes {
        read(&self.compile(name, source, options))
    }

    /// An archive made by `program` with `options`.
    pub(crate) fn archive(
        &self,
        name: &str,
        program: &str,
        options: &[&str],
        members: &[&Path],
    ) -> PathBuf {
        let archive = self.path().join(name);
        run(Command::new(program)
            .args(options)
            .arg(&archive)
            .args(members));
        archive
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Bytes {
    match fs::read(path) {
        Ok(bytes) => bytes.into(),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Runs a tool and answers its output; fails the test when it fails.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}",
        output.status
    );
    output
}

/// Whether these tools can be called. If not, the test is skipped, or fails in CI.
pub(crate) fn have(tools: &[&str]) -> bool {
    let missing = tools
        .iter()
        .find(|&&tool| Command::new(tool).arg("--version").output().is_err());
    missing.is_none_or(|tool| {
        skip(&format!("no {tool}"));
        false
    })
}

/// Says that a test is skipped; fails in CI.
pub(crate) fn skip(why: &str) {
    assert!(
        env::var_os("CI").is_none(),
        "{why}, and nothing may be skipped here"
    );
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

pub(crate) fn arch() -> &'static Arch {
    clinch_target::arch_named("x86_64").expect("it is there")
}

/// What a test's dylib does.
#[derive(Clone, Copy)]
pub(crate) struct DylibOptions {
    pub(crate) threads: usize,
    pub(crate) sources: DylibSources,
    pub(crate) execute: bool,
    pub(crate) audience: Audience,
}

impl Default for DylibOptions {
    fn default() -> Self {
        Self {
            threads: 2,
            sources: DylibSources::default(),
            execute: true,
            audience: Audience::default(),
        }
    }
}

/// A dylib alone in a session, all of which is linked at once.
pub(crate) struct LinkedDylib {
    pub(crate) dylib: Dylib,
    /// Objects that are added, and passes that are installed, with the next link.
    objects: Vec<(InputName, Bytes)>,
    passes: Arc<NextPasses>,
}

/// Passes for the next link.
#[derive(Default)]
struct NextPasses(Mutex<Passes>);

impl LinkPlugin for NextPasses {
    fn modify_passes(&self, _link: &LinkInfo, _graph: &LinkGraph, passes: &mut Passes) {
        *passes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl LinkedDylib {
    pub(crate) fn new(options: DylibOptions, memory: Arc<dyn MemoryManager>) -> Self {
        let session_options = SessionOptions {
            threads: options.threads,
            execute: options.execute,
            keep_graphs: false,
            audience: options.audience,
            double_map: false,
        };
        let session = Session::new(arch(), session_options);
        let passes = Arc::<NextPasses>::default();
        session.add_plugin(Arc::clone(&passes) as Arc<dyn LinkPlugin>);
        let dylib = session.create_dylib_in("test", options.sources, memory);
        Self {
            dylib: dylib.expect("it is the only one"),
            objects: Vec::new(),
            passes,
        }
    }

    pub(crate) fn add(&mut self, name: &str, bytes: Bytes) -> &mut Self {
        self.objects.push((InputName::file(name), bytes));
        self
    }

    /// Adds the objects without linking them.
    pub(crate) fn add_objects(&mut self) {
        let added = self.dylib.add_objects(std::mem::take(&mut self.objects));
        added.unwrap_or_else(|errors| panic!("{errors}"));
    }

    /// Links all that was added.
    pub(crate) fn link(&mut self) -> Result<(), LinkErrors> {
        self.link_with(&[], Passes::default())
    }

    /// The same with names that must be defined too, and with passes.
    pub(crate) fn link_with(&mut self, names: &[&str], passes: Passes) -> Result<(), LinkErrors> {
        *self.passes.0.lock().unwrap_or_else(PoisonError::into_inner) = passes;
        self.dylib.add_objects(std::mem::take(&mut self.objects))?;
        match self.dylib.link_all(names) {
            Ok(_) => Ok(()),
            Err(LookUpError::Failed(causes)) => Err(LinkErrors(
                causes.iter().flat_map(|errors| errors.0.clone()).collect(),
            )),
            Err(error) => panic!("{error}"),
        }
    }

    /// Links; fails the test when that fails.
    pub(crate) fn linked(&mut self) -> &mut Self {
        if let Err(errors) = self.link() {
            panic!("{errors}");
        }
        self
    }

    /// The address of what was linked.
    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        (self.dylib.symbol_state(name)? == SymbolState::Ready)
            .then(|| self.dylib.look_up(name).ok())?
    }

    pub(crate) fn address(&self, name: &str) -> u64 {
        self.find(name)
            .unwrap_or_else(|| panic!("{name} is not linked"))
    }

    /// Calls an `int f(void)` or `long f(void)`.
    pub(crate) fn call(&self, name: &str) -> i64 {
        call(self.address(name))
    }

    pub(crate) fn initialize(&self) {
        let arguments = ProgramArguments::new(["test".into()]);
        // SAFETY: the tests' objects are fit to run in this process.
        let initialized = unsafe { self.dylib.initialize(&arguments) };
        assert_eq!(initialized, Ok(()));
    }
}

/// A dylib in this process, with its memory.
pub(crate) struct InProcessDylib {
    linked: LinkedDylib,
    pub(crate) memory: Arc<InProcess>,
}

impl std::ops::Deref for InProcessDylib {
    type Target = LinkedDylib;

    fn deref(&self) -> &LinkedDylib {
        &self.linked
    }
}

impl std::ops::DerefMut for InProcessDylib {
    fn deref_mut(&mut self) -> &mut LinkedDylib {
        &mut self.linked
    }
}

pub(crate) fn dylib() -> InProcessDylib {
    dylib_with(DylibOptions::default())
}

pub(crate) fn dylib_with(options: DylibOptions) -> InProcessDylib {
    dylib_in(options, InProcess::new())
}

pub(crate) fn dylib_in(options: DylibOptions, memory: InProcess) -> InProcessDylib {
    let memory = Arc::new(memory);
    let manager: Arc<dyn MemoryManager> = Arc::clone(&memory) as Arc<dyn MemoryManager>;
    InProcessDylib {
        linked: LinkedDylib::new(options, manager),
        memory,
    }
}

impl InProcessDylib {
    /// Unloads; the memory manager stays.
    pub(crate) fn unload(self) -> Arc<InProcess> {
        // SAFETY: tests call nothing of it any longer.
        let unloaded = unsafe { self.linked.dylib.default_tracker().remove() };
        assert_eq!(unloaded, Ok(()));
        self.memory
    }
}

/// Calls an `int f(void)` or `long f(void)` at an address.
pub(crate) fn call(address: u64) -> i64 {
    let address = usize::try_from(address).expect("it is an address");
    // SAFETY: the address is that of a function of a linked object of the tests, which has this
    // type; an `int` leaves the upper half of the register undefined.
    unsafe {
        let function: unsafe extern "C-unwind" fn() -> i64 =
            std::mem::transmute(std::ptr::with_exposed_provenance::<()>(address));
        function()
    }
}

/// The lower half of what an `int f(void)` answered.
pub(crate) fn int(value: i64) -> i64 {
    (value << 32) >> 32
}

/// One line of `/proc/self/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) access: String,
}

/// The mappings inside a window, cut to it.
pub(crate) fn mappings((from, to): (u64, u64)) -> Vec<Mapping> {
    let text = fs::read_to_string("/proc/self/maps").expect("it is there");
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?.max(from);
        let end = u64::from_str_radix(end, 16).ok()?.min(to);
        let access = words.next()?.to_owned();
        (start < end).then_some(Mapping { start, end, access })
    };
    text.lines().filter_map(line).collect()
}

/// The mapping that holds an address.
pub(crate) fn mapping_of(address: u64) -> Mapping {
    let all = mappings((0, u64::MAX));
    let found = all
        .into_iter()
        .find(|map| (map.start..map.end).contains(&address));
    found.unwrap_or_else(|| panic!("{address:#x} is not mapped"))
}

/// Whether nothing in a window can be read, written or run.
pub(crate) fn is_without_access(window: (u64, u64)) -> bool {
    mappings(window)
        .iter()
        .all(|map| map.access.starts_with("---"))
}

/// Whether this is a process for the running test alone. If not, starts one and fails the test
/// when that fails: what a test says of the whole process must not depend on other tests.
pub(crate) fn is_alone() -> bool {
    output_of_itself().is_none()
}

/// Runs the test again in a process of its own, whose output the answer is, and fails the test when
/// that fails; `None` in that process.
pub(crate) fn output_of_itself() -> Option<Output> {
    const VARIABLE: &str = "CLINCH_JIT_TEST_ALONE";
    let thread = std::thread::current();
    let name = thread
        .name()
        .expect("tests run on named threads")
        .to_owned();
    if env::var(VARIABLE).is_ok_and(|value| value == name) {
        return None;
    }
    let program = env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command
        .args(["--exact", &name, "--nocapture"])
        .env(VARIABLE, &name);
    Some(run(&mut command))
}
