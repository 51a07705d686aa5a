//! Contents that go to an executor through memory that it shares with its controller.

use super::memory::access;
use super::{CHILD, call, call_at, dylib, session_with, spawn};
use crate::session::{add, object};
use crate::support::{Folder, have, is_alone};
use clinch_executor::wire::{Place, Protection, Refusal, SharedSegment};
use clinch_executor::{Client, Controller, ControllerOptions, Error, Secret, Stream};
use clinch_graph::InputName;
use clinch_jit::ProgramArguments;
use clinch_jit::session::{Session, SessionOptions};
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const PAGE: u64 = 4096;

fn options() -> ControllerOptions {
    ControllerOptions {
        shared_memory: true,
        ..ControllerOptions::default()
    }
}

/// A session with a new executor that shares memory, and the number of its process.
fn session() -> (Session, u32) {
    let controller = spawn(options());
    let child = controller.child_id().expect("it is a child");
    (session_with(SessionOptions::default(), controller), child)
}

/// How many bytes of memory the controller's memory files have.
fn shared_bytes() -> u64 {
    let entries = fs::read_dir("/proc/self/fd").expect("it is there");
    let paths = entries.map(|entry| entry.expect("it is there").path());
    let is_shared = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("/memfd:clinch"))
    };
    let sizes = paths.filter(is_shared).map(|path| {
        let metadata = fs::metadata(path).expect("it is open");
        metadata.blocks() * 512
    });
    sizes.sum()
}

#[test]
#[expect(unsafe_code, reason = "runs linked code")]
fn a_program_runs() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let (session, _) = session();
    let main = dylib(&session, "main");
    let source = "#include <stdio.h>
        #include <stdlib.h>
        static int begun;
        __attribute__((constructor)) static void begin(void) { begun = 30; }
        static void last(void) { puts(\"last\"); }
        __attribute__((destructor)) static void end(void) { puts(\"end\"); }
        int main(int count, char **values) {
            atexit(last);
            puts(\"hello\");
            return begun + count;
        }";
    add(&main, vec![object(&folder, "hello", source)]);
    let found = main.link_all(&["main"]);
    let entry = found.unwrap_or_else(|error| panic!("{error}"))[0].expect("it is there");
    let arguments = ProgramArguments::new(["hello", "x"].map(Into::into));
    // SAFETY: the program is fit to run in an executor.
    let ended = unsafe { main.run_program(entry, &arguments) };
    let ended = ended.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ended.code(), Some(32));
}

#[test]
fn exceptions_thread_local_variables_and_forks() {
    if !have(&["c++"]) {
        return;
    }
    let folder = Folder::new();
    let (session, child) = session();
    let main = dylib(&session, "main");
    let source = "
        #include <stdexcept>
        #include <string>
        #include <thread>
        #include <sys/wait.h>
        #include <unistd.h>
        thread_local int own = 30;
        int variable = 5;
        extern const int constant = 6;
        static int deep(int n) {
            if (n == 0) throw std::runtime_error(\"thrown\");
            return deep(n - 1);
        }
        extern \"C\" int caught() {
            try { return deep(5); }
            catch (const std::exception &e) { return std::string(e.what()).size() + ++own; }
        }
        extern \"C\" int threads() {
            int theirs = 0, first = caught();
            std::thread([&] { theirs = caught(); }).join();
            return theirs * 100 + caught() - first;
        }
        extern \"C\" int forks() {
            int status;
            pid_t child = fork();
            if (child == 0) { variable = 9; _exit(variable + constant); }
            waitpid(child, &status, 0);
            return WEXITSTATUS(status) * 100 + variable;
        }
    ";
    let bytes = folder.object("a.cpp", source, &["-O1", "-fPIC"]);
    let added = main.add_objects(vec![(InputName::file("a.o"), bytes)]);
    assert_eq!(added, Ok(()));
    assert_eq!(call(&session, &main, "caught"), 6 + 31);
    assert_eq!(call(&session, &main, "threads"), 3701);
    assert_eq!(call(&session, &main, "forks"), 1505);
    for (name, wanted) in [
        ("caught", "r-xp"),
        ("variable", "rw-p"),
        ("constant", "r--p"),
    ] {
        let address = main.look_up(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(access(child, address), wanted, "{name}");
    }
}

/// What a process has read, from files and streams, in bytes.
fn has_read(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/io")).expect("it is there");
    let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.and_then(|number| number.parse().ok())
        .expect("a number")
}

#[test]
fn contents_do_not_go_through_the_stream() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "unsigned char data[8 << 20] = {[0] = 1, [5 << 20] = 2, [(8 << 20) - 1] = 3};
        int ends(void) { return data[0] * 100 + data[5 << 20] * 10 + data[(8 << 20) - 1]; }";
    let part = object(&folder, "large", source);
    let read = |options| {
        let controller = spawn(options);
        let child = controller.child_id().expect("it is a child");
        let session = session_with(SessionOptions::default(), controller);
        let main = dylib(&session, "main");
        add(&main, vec![part.clone()]);
        let before = has_read(child);
        assert_eq!(call(&session, &main, "ends"), 123);
        has_read(child) - before
    };
    let through_stream = read(ControllerOptions::default());
    assert!(through_stream > 8 << 20, "{through_stream}");
    let shared = read(options());
    assert!(shared < 64 << 10, "{shared}");
}

/// Memory comes and goes with what is linked, and with what fails to link.
#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn removal_gives_memory_back() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let (session, child) = session();
    let main = dylib(&session, "main");
    let good = "_Thread_local int own = 3; int variable = 4; const int constant = 5;
        char data[1 << 20] = {1};
        int f(void) { return own + variable + constant + data[0]; }";
    let good = object(&folder, "good", good);
    let bad = "extern int nowhere(void); char data[1 << 20] = {1};
        int bad(void) { return nowhere() + data[0]; }";
    let bad = object(&folder, "bad", bad);
    let mut places = None;
    for _ in 0..20 {
        let tracker = main.create_tracker();
        assert_eq!(tracker.add_objects(vec![bad.clone()]), Ok(()));
        let error = main.look_up("bad").unwrap_err().to_string();
        assert_eq!(error, "undefined symbol: nowhere");
        // SAFETY: nothing of it runs.
        assert_eq!(unsafe { tracker.remove() }, Ok(()));
        assert_eq!(shared_bytes(), 0);

        let tracker = main.create_tracker();
        assert_eq!(tracker.add_objects(vec![good.clone()]), Ok(()));
        let found = ["f", "variable", "constant"].map(|name| {
            let found = main.look_up(name);
            found.unwrap_or_else(|error| panic!("{error}"))
        });
        assert_eq!(call_at(&session, found[0]), 13);
        assert_eq!(*places.get_or_insert(found), found);
        let all = shared_bytes();
        assert!(all > 1 << 20, "{all}");
        // SAFETY: nothing of it runs.
        assert_eq!(unsafe { tracker.remove_code() }, Ok(()));
        assert!(shared_bytes() < all);
        assert_eq!(access(child, found[0]), "---p");
        assert_eq!(access(child, found[1]), "rw-p");
        // SAFETY: as above.
        assert_eq!(unsafe { tracker.remove() }, Ok(()));
        assert_eq!(shared_bytes(), 0);
        for address in found {
            assert_eq!(access(child, address), "---p");
        }
    }
}

/// A segment of so many bytes of shared memory.
fn segment(address: u64, size: u64, offset: u64) -> SharedSegment {
    SharedSegment {
        address,
        size,
        protection: Protection::Read,
        sealed_late: false,
        offset,
    }
}

/// What is refused of segments of a file of `end` bytes, and that the rest goes on.
fn check_ranges(client: &Client, end: u64) {
    let base = client.reserve(8 * PAGE, PAGE, Place::Any).expect("room");
    for (size, offset) in [
        (PAGE, end),
        (2 * PAGE, end - PAGE),
        (1, end + PAGE),
        (1, u64::MAX - PAGE + 1),
        (PAGE, 1),
    ] {
        let not_shared = Error::Refused(Refusal::NotShared { offset, size });
        // The first segment is given up with the second.
        let segments = vec![segment(base, PAGE, 0), segment(base + PAGE, size, offset)];
        let refused = client.finalize_shared(segments, Vec::new());
        assert_eq!(refused, Err(not_shared));
        assert!(client.read(base, 1).is_err_and(|error| error.is_refusal()));
    }
    for wrong in [
        segment(base + 1, PAGE, 0),
        segment(base, 9 * PAGE, 0),
        segment(base, u64::MAX, 0),
        segment(PAGE, PAGE, 0),
    ] {
        let refused = client.finalize_shared(vec![wrong], Vec::new());
        assert!(refused.is_err_and(|error| error.is_refusal()), "{wrong:?}");
    }
    let twice = vec![segment(base, PAGE, 0), segment(base, PAGE, 0)];
    let refused = client.finalize_shared(twice, Vec::new());
    assert_eq!(refused, Err(Error::Refused(Refusal::InUse(base))));
    let good = vec![segment(base, PAGE, end - PAGE)];
    let allocation = client.finalize_shared(good, Vec::new());
    let allocation = allocation.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(client.read(base, 4).as_deref(), Ok(&[0; 4][..]));
    assert!(
        client
            .write(base, b"x")
            .is_err_and(|error| error.is_refusal())
    );
    assert_eq!(client.deallocate(&[allocation]), Ok(()));
}

#[test]
fn nothing_is_mapped_that_is_not_shared() {
    let controller = spawn(options());
    check_ranges(&controller, 1 << 40);
    let controller = spawn(ControllerOptions::default());
    let base = controller.reserve(PAGE, PAGE, Place::Any).expect("room");
    let refused = controller.finalize_shared(vec![segment(base, PAGE, 0)], Vec::new());
    let (offset, size) = (0, PAGE);
    let not_shared = Error::Refused(Refusal::NotShared { offset, size });
    assert_eq!(refused, Err(not_shared));
}

/// A new descriptor of the same, which children inherit.
#[expect(unsafe_code, reason = "lets a child have a descriptor")]
fn inheritable(descriptor: BorrowedFd<'_>) -> OwnedFd {
    // SAFETY: copies an open descriptor; the copy is ours.
    unsafe {
        let number = libc::dup(descriptor.as_raw_fd());
        assert!(number >= 0);
        OwnedFd::from_raw_fd(number)
    }
}

/// An executor that is given a memory file of a size with seals.
#[expect(unsafe_code, reason = "makes a memory file")]
fn with_file(size: i64, seals: i32) -> Result<Controller, Error> {
    // SAFETY: makes a descriptor, whose file gets a size and seals.
    let file = unsafe {
        let number = libc::memfd_create(c"test".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert!(number >= 0);
        assert_eq!(libc::ftruncate(number, size), 0);
        assert_eq!(libc::fcntl(number, libc::F_ADD_SEALS, seals), 0);
        OwnedFd::from_raw_fd(number)
    };
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let (reading, mut writing) = std::io::pipe().expect("a pipe");
    let secret = b"a secret of these tests";
    writing.write_all(secret).expect("it fits");
    drop(writing);
    let theirs = inheritable(theirs.as_fd());
    let reading = inheritable(reading.as_fd());
    let number = theirs.as_raw_fd();
    let program = std::env::current_exe().expect("it has a path");
    let mut child = Command::new(program)
        .args(CHILD)
        .arg(format!("filedescs={number},{number}"))
        .arg(format!("--secret-fd={}", reading.as_raw_fd()))
        .arg(format!("--shared-fd={}", file.as_raw_fd()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    drop((theirs, reading));
    std::thread::spawn(move || child.wait());
    let secret = Secret::new(secret).expect("it is one");
    Controller::connect(Stream::socket(ours)?, &secret)
}

#[test]
fn a_file_that_is_too_short_is_not_mapped_past_its_end() {
    let pages = i64::try_from(3 * PAGE).expect("it is small");
    let controller = with_file(pages, libc::F_SEAL_SHRINK);
    let controller = controller.unwrap_or_else(|error| panic!("{error}"));
    check_ranges(&controller, 3 * PAGE);
    // The last page must be whole.
    let controller = with_file(pages + 1, libc::F_SEAL_SHRINK);
    let controller = controller.unwrap_or_else(|error| panic!("{error}"));
    check_ranges(&controller, 3 * PAGE);
}

#[test]
fn a_file_that_may_become_shorter_is_refused() {
    for seals in [0, libc::F_SEAL_GROW, libc::F_SEAL_WRITE] {
        assert!(with_file(1 << 20, seals).is_err(), "{seals}");
    }
}

#[test]
fn memory_is_shared_only_with_what_was_started_here() {
    let (ours, _theirs) = UnixStream::pair().expect("a pair");
    let secret = Secret::random().expect("random numbers");
    let stream = Stream::socket(ours).expect("a stream");
    let refused = Controller::connect_with(stream, &secret, options());
    let said = refused.map(drop).unwrap_err().to_string();
    assert!(said.contains("not started here"), "{said}");
}
