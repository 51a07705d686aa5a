//! Programs that run in an executor as they run by themselves.

use super::{call, call_at, dylib, session, shared_library};
use crate::session::open::logging_dylibs;
use crate::session::{add, object};
use crate::support::{Folder, have, output_of_itself};
use clinch_graph::InputName;
use clinch_jit::ProgramArguments;
use clinch_jit::session::{Dylib, Match, Session};
use std::process::ExitStatus;
use std::time::Duration;

/// Links all of a dylib and runs its `main`.
#[expect(unsafe_code, reason = "runs linked code")]
fn run(dylib: &Dylib, arguments: &[&str]) -> ExitStatus {
    let found = dylib.link_all(&["main"]);
    let main = found.unwrap_or_else(|error| panic!("{error}"))[0].expect("it is there");
    let arguments = ProgramArguments::new(arguments.iter().map(Into::into));
    // SAFETY: the tests' programs are fit to run in an executor.
    let ended = unsafe { dylib.run_program(main, &arguments) };
    ended.unwrap_or_else(|error| panic!("{error}"))
}

/// What a test's process wrote.
fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_prints_and_ends_with_its_status() {
    if !have(&["cc"]) {
        return;
    }
    if let Some(output) = output_of_itself() {
        let out = said(&output.stdout);
        assert!(out.contains("<bin/hello one two 3>\n"), "{out}");
        assert!(said(&output.stderr).contains("<to stderr by hello>"));
        return;
    }
    let folder = Folder::new();
    let source = "#define _GNU_SOURCE
        #include <errno.h>
        #include <stdio.h>
        int main(int count, char **values, char **environment) {
            printf(\"<%s %s %s %d>\\n\", values[0], values[1], values[2], count);
            fprintf(stderr, \"<to stderr by %s>\", program_invocation_short_name);
            return values[3] == 0 && environment[0] != 0 ? 7 : 1;
        }";
    let session = session(1);
    let main = dylib(&session, "main");
    add(&main, vec![object(&folder, "hello", source)]);
    assert_eq!(run(&main, &["bin/hello", "one", "two"]).code(), Some(7));
}

/// A program may end itself; its handlers run, last to first, then its finalizers.
#[test]
fn initializers_handlers_and_finalizers_in_order() {
    if !have(&["cc"]) {
        return;
    }
    if let Some(output) = output_of_itself() {
        let out = said(&output.stdout);
        assert!(out.contains("<first second main late early last>"), "{out}");
        assert!(
            out.contains("<first second main exit late early last>"),
            "{out}"
        );
        return;
    }
    let folder = Folder::new();
    let source = "#include <stdio.h>
        #include <stdlib.h>
        static void early(void) { printf(\" early\"); }
        static void late(void) { printf(\" late\"); }
        __attribute__((constructor(200))) static void second(void) { printf(\" second\"); }
        __attribute__((constructor(101))) static void first(void) { printf(\"<first\"); }
        __attribute__((destructor)) static void last(void) { printf(\" last>\\n\"); }
        int main(int count, char **values) {
            printf(\" main\");
            atexit(early);
            atexit(late);
            if (count > 1) { printf(\" exit\"); exit(4); }
            return 3;
        }";
    for (arguments, status) in [(&["program"][..], 3), (&["program", "exit"][..], 4)] {
        let session = session(1);
        let main = dylib(&session, "main");
        add(&main, vec![object(&folder, "ends", source)]);
        assert_eq!(run(&main, arguments).code(), Some(status));
    }
}

#[test]
fn a_program_that_crashes_tells_by_which_signal() {
    use std::os::unix::process::ExitStatusExt;
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "int main(void) { __builtin_trap(); }";
    add(&main, vec![object(&folder, "crash", source)]);
    assert_eq!(run(&main, &["crash"]).signal(), Some(4));
}

#[test]
fn exceptions_are_caught_there() {
    if !have(&["c++"]) {
        return;
    }
    let folder = Folder::new();
    let source = "#include <stdexcept>
        #include <string>
        struct Guard { int &n; ~Guard() { n += 10; } };
        static int thrown(int n, int &count) {
            Guard guard{count};
            if (n == 0) throw std::runtime_error(\"five\");
            return thrown(n - 1, count);
        }
        extern \"C\" int caught(void) {
            int count = 0;
            try { thrown(2, count); }
            catch (const std::exception &e) { return count + (int)std::string(e.what()).size(); }
            return -1;
        }";
    let bytes = folder.object("throw.cpp", source, &["-O0", "-fPIC"]);
    let session = session(2);
    let main = dylib(&session, "main");
    add(&main, vec![(InputName::file("throw.o"), bytes)]);
    assert_eq!(call(&session, &main, "caught"), 34);
}

/// Every thread has its own, also those that the executor had before; an initializer and `main`
/// run in one thread.
#[test]
fn thread_local_variables() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let warm = "int warm(void) { return 1; }";
    add(&main, vec![object(&folder, "warm", warm)]);
    assert_eq!(call(&session, &main, "warm"), 1);
    let other = "_Thread_local long other = 40; _Thread_local char large[3000];";
    let source = "#include <pthread.h>
        extern _Thread_local long other;
        extern _Thread_local char large[3000];
        static _Thread_local int own = 2;
        static int set_by_initializer;
        __attribute__((constructor)) static void begin(void) { own = 100; set_by_initializer = 1; }
        static void *of_thread(void *sum) {
            own += 1; large[2999] = 1;
            *(long *)sum = own + other + large[0] + large[2999];
            return 0;
        }
        int in_thread(void) {
            pthread_t thread; long sum = 0;
            if (pthread_create(&thread, 0, of_thread, &sum)) return -1;
            pthread_join(thread, 0);
            return sum;
        }
        int here(void) { return own + other; }
        int main(void) { return set_by_initializer && own == 100 && in_thread() == 44 ? 9 : own; }";
    add(
        &main,
        vec![
            object(&folder, "other", other),
            object(&folder, "tls", source),
        ],
    );
    assert_eq!(call(&session, &main, "in_thread"), 44);
    // A thread that the executor has for calls.
    assert_eq!(call(&session, &main, "here"), 42);
    assert_eq!(run(&main, &["tls"]).code(), Some(9));
}

#[test]
fn thread_local_variables_of_libraries() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "__thread int shared = 5; int get(void) { return shared; }";
    let library = shared_library(&folder, "tls", source);
    let library = session.open_library(library.as_os_str());
    main.add_library(library.unwrap_or_else(|error| panic!("{error}")));
    let source = "extern __thread int shared; int get(void);
        int set(void) { shared += 3; return get() * 10 + shared; }";
    add(&main, vec![object(&folder, "user", source)]);
    assert_eq!(call(&session, &main, "set"), 88);
}

#[test]
fn functions_choose_their_implementation_there() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "#include <unistd.h>
        static int even(void) { return 4; }
        static int *choose(void) { return (int *)even; }
        int chosen(void) __attribute__((ifunc(\"choose\")));
        int call(void) { return chosen() + (getppid() > 1); }";
    add(&main, vec![object(&folder, "ifunc", source)]);
    assert_eq!(call(&session, &main, "call"), 5);
}

/// Code in low memory has a copy of a library's variable, which the library then uses; when the
/// code is removed, the library has it back, with its value.
#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn a_variable_of_a_library_is_copied_and_put_back() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "int counter = 3; int get(void) { return counter; }";
    let library = shared_library(&folder, "counter", source);
    let library = session.open_library(library.as_os_str());
    let library = library.unwrap_or_else(|error| panic!("{error}"));
    main.add_library(library.clone());
    let source = "extern int counter; int get(void);
        int add(void) { counter += 4; return get(); }
        int *where(void) { return &counter; }";
    let options = ["-O1", "-fno-pic", "-mcmodel=small"];
    let bytes = folder.object("low.c", source, &options);
    let tracker = main.create_tracker();
    let added = tracker.add_objects(vec![(InputName::file("low.o"), bytes)]);
    assert_eq!(added, Ok(()));
    let real = library.find(b"counter").expect("it is there").address;
    let add = main
        .look_up("add")
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(add < 1 << 31, "it needs low memory");
    assert_eq!(call_at(&session, add), 7);
    let client = session.executor().expect("it is in an executor");
    let copy = call(&session, &main, "where").cast_unsigned();
    assert_ne!(u64::from(copy), real);
    assert_eq!(
        client.read(copy.into(), 4).as_deref(),
        Ok(&[7, 0, 0, 0][..])
    );
    // SAFETY: nothing of it runs.
    assert_eq!(unsafe { tracker.remove() }, Ok(()));
    let get = library.find(b"get").expect("it is there").address;
    assert_eq!(call_at(&session, get), 7);
}

/// Initializers of what a dylib looks into run first; with the last close handlers and finalizers
/// run the other way around.
#[test]
#[expect(unsafe_code, reason = "runs linked code")]
fn dylibs_are_opened_and_closed_in_order() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(2);
    let (user, said) = logging_dylibs(&session, &folder);
    let said = || call_at(&session, said);
    for _ in 0..2 {
        // SAFETY: the objects are fit to run there.
        unsafe { user.open() }.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(said(), 12);
        // SAFETY: as above.
        assert_eq!(unsafe { user.close() }, Ok(true));
        assert_eq!(said(), 6789);
        // SAFETY: as above.
        assert_eq!(unsafe { user.close() }, Ok(false));
    }
}

/// A function is pointed elsewhere by the executor.
#[test]
#[expect(unsafe_code, reason = "changes where linked code jumps")]
fn functions_are_pointed_elsewhere() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let source = "int one(void) { return 1; } int two(void) { return 2; }
        int it(void); int user(void) { return it(); }";
    add(&main, vec![object(&folder, "targets", source)]);
    let order = [(main.id(), Match::All)];
    let defined = main.add_redirectable(&[("it", 0)]);
    assert_eq!(defined, Ok(()));
    let found = session.look_up(&order, &["one", "two", "user"]);
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    for (target, answer) in [(found[0], 1), (found[1], 2)] {
        // SAFETY: functions of the same type.
        assert_eq!(unsafe { main.redirect(&[("it", target)]) }, Ok(()));
        assert_eq!(call_at(&session, found[2]), answer);
    }
}

/// What needs the code to be in this process says so.
#[test]
#[expect(unsafe_code, reason = "takes no code away")]
fn what_is_not_possible_is_refused() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session: Session = session(1);
    let main = dylib(&session, "main");
    let source = "extern char __clinch_session[];
        void *clinch_dlopen(void *, const char *, int);
        int opens(void) { return clinch_dlopen(__clinch_session, \"main\", 0) != 0; }";
    add(&main, vec![object(&folder, "opens", source)]);
    let error = main.look_up("opens").unwrap_err().to_string();
    let wanted = "asking the session from linked code is not possible for code in another process";
    assert_eq!(error, wanted);
    let lazy = main.add_lazy_objects(vec![object(&folder, "lazy", "int f(void) { return 1; }")]);
    let wanted =
        "linking functions when they are called is not possible for code in another process";
    assert_eq!(lazy.unwrap_err().to_string(), wanted);
    // SAFETY: it removes nothing.
    let removed = unsafe {
        let tracker = main.default_tracker();
        tracker.remove_code_when_unused(Duration::ZERO)
    };
    let wanted =
        "finding out whether somebody is in code is not possible for code in another process";
    assert_eq!(removed.unwrap_err().to_string(), wanted);
}
