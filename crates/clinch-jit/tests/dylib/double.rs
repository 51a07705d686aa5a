//! Memory that is mapped twice: code is written through one view, runs from another, and no page
//! that was writable becomes executable.

use crate::support::elf::{At, Object, R_PC32};
use crate::support::{
    self, DylibOptions, Folder, InProcessDylib, have, int, is_alone, is_without_access, mapping_of,
    mappings,
};
use clinch_jit::memory::{InProcess, MemoryManager};
use clinch_jit::passes::Passes;
use std::fs;
use std::sync::{Arc, Mutex};

fn dylib() -> InProcessDylib {
    support::dylib_in(DylibOptions::default(), InProcess::double_mapped())
}

/// The same with the object of [`SOURCE`] linked.
fn linked() -> InProcessDylib {
    let object = Folder::new().object("a.c", SOURCE, &["-fPIC"]);
    let mut linked = dylib();
    linked.add("a.o", object).linked();
    linked
}

const SOURCE: &str = "
    extern int puts(const char *);
    extern int fork(void), waitpid(int, int *, int);
    extern void _exit(int);
    int variable = 5;
    int zero[1000];
    const int constant = 7;
    int (*const pointer)(const char *) = puts;
    static int twice(int n) { return 2 * n; }
    static int (*choose(void))(int) { return twice; }
    int chosen(int) __attribute__((ifunc(\"choose\")));
    int f(void) { return variable + constant + zero[3] + (pointer == puts) + chosen(4); }
    int parent_and_child(void) {
        int status, child = fork();
        if (child == 0) { variable = 60; zero[3] = 1; _exit(f()); }
        waitpid(child, &status, 0);
        return (status >> 8) * 1000 + f();
    }
";

/// The lines of the process's mappings that are of memory files.
fn file_mappings() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/maps").expect("it is there");
    let lines = text.lines().filter(|line| line.contains("/memfd:clinch"));
    lines.map(str::to_owned).collect()
}

/// Access, as mappings begin with it.
fn access(address: u64) -> String {
    mapping_of(address).access
}

#[test]
fn code_is_never_writable_where_it_runs() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let mut linked = dylib();
    linked.add("a.o", folder.object("a.c", SOURCE, &["-fPIC"]));
    // While contents are complete and not final: the only access is elsewhere.
    let seen: Arc<Mutex<Vec<(u64, Vec<String>)>>> = Arc::default();
    let there = Arc::clone(&seen);
    let passes = Passes {
        post_fixup: vec![(
            "look".to_owned(),
            Box::new(move |_, _, address, _| {
                let mut seen = there.lock().expect("nobody panicked");
                seen.push((address, vec![access(address)]));
                seen.extend(file_mappings().into_iter().map(|line| (0, vec![line])));
                Ok(())
            }),
        )],
        ..Passes::default()
    };
    let linking = linked.link_with(&[], passes);
    assert_eq!(linking.map_err(|errors| errors.to_string()), Ok(()));
    assert_eq!(int(linked.call("f")), 21);

    let page = |name: &str| linked.address(name) & !0xfff;
    let seen = seen.lock().expect("nobody panicked");
    let before = |name: &str| {
        let found = seen
            .iter()
            .filter(|(start, _)| *start != 0 && *start <= page(name));
        let found = found.max_by_key(|(start, _)| *start);
        found.expect("its segment was seen").1.join("")
    };
    for name in ["f", "constant"] {
        assert_eq!(before(name), "---p", "{seen:?}");
    }
    for name in ["variable", "pointer"] {
        assert_eq!(before(name), "rw-p", "{seen:?}");
    }
    let views: Vec<&str> = seen
        .iter()
        .filter(|(start, _)| *start == 0)
        .map(|(_, line)| line[0].split(' ').nth(1).expect("an access"))
        .collect();
    assert!(!views.is_empty() && views.iter().all(|&view| view == "rw-s"));

    assert_eq!(access(linked.address("f")), "r-xp");
    assert_eq!(access(linked.address("variable")), "rw-p");
    assert_eq!(access(linked.address("zero")), "rw-p");
    assert_eq!(access(linked.address("constant")), "r--p");
    assert_eq!(access(linked.address("pointer")), "r--p");
    for map in mappings((0, u64::MAX)) {
        let both = map.access.contains('w') && map.access.contains('x');
        assert!(!both, "{map:x?}");
    }
    let files = file_mappings();
    assert!(
        files.iter().any(|line| line.contains(" r-xp ")),
        "{files:?}"
    );
    assert!(!files.iter().any(|line| line.contains(" rw")), "{files:?}");
}

/// What a child writes is its own.
#[test]
fn a_forked_child_has_its_own_variables() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let linked = linked();
    assert_eq!(int(linked.call("parent_and_child")), 77_021);
}

#[test]
fn exceptions_initializers_and_thread_local_variables() {
    if !have(&["c++"]) {
        return;
    }
    let folder = Folder::new();
    let source = "
        #include <stdexcept>
        #include <string>
        thread_local int own = 30;
        static std::string text(\"made\");
        static int deep(int n) {
            if (n == 0) throw std::runtime_error(text + \" and thrown\");
            return deep(n - 1);
        }
        extern \"C\" int f() {
            try { return deep(5); }
            catch (const std::exception &e) { return std::string(e.what()).size() + ++own; }
        }
    ";
    for options in [&["-fPIC"][..], &["-O1", "-fno-pic", "-fno-pie"]] {
        let object = folder.object("a.cpp", source, options);
        let mut linked = dylib();
        linked.add("a.o", object).linked();
        linked.initialize();
        let f = linked.address("f");
        assert_eq!(int(support::call(f)), 15 + 31, "{options:?}");
        let thread = std::thread::spawn(move || int(support::call(f)));
        assert_eq!(thread.join().expect("it does not panic"), 15 + 31);
        assert_eq!(int(support::call(f)), 15 + 32);
        drop(linked.unload());
    }
}

/// How many descriptors and mappings there are. Threads keep their stacks.
fn used() -> (usize, usize) {
    let descriptors = fs::read_dir("/proc/self/fd").expect("it is there");
    (descriptors.count(), mappings((0, u64::MAX)).len())
}

/// An object whose link fails when memory is filled.
fn too_far() -> Vec<u8> {
    let mut object = Object::new();
    let here = object.symbol("here", At::Text(0));
    object.code(&[0; 8], &[(0, R_PC32, here, 1 << 40)]);
    object.data(&[1; 8], &[]);
    object.write()
}

#[test]
fn links_leave_nothing_behind() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let good = folder.object("a.c", SOURCE, &["-fPIC"]);
    let undefined = "int nowhere(void); int bad(void) { return nowhere(); }";
    let undefined = folder.object("u.c", undefined, &["-fPIC"]);
    let options = DylibOptions {
        threads: 1,
        ..DylibOptions::default()
    };
    let round = || {
        let mut linked = support::dylib_in(options, InProcess::double_mapped());
        let before = fs::read_dir("/proc/self/fd").expect("it is there").count();
        for (bad, why) in [
            (too_far().into(), "Delta32 to here"),
            (undefined.clone(), "undefined symbol: nowhere"),
        ] {
            linked.add("bad.o", bad);
            let errors = linked.link().expect_err(why).to_string();
            assert!(errors.contains(why), "{errors}");
            assert_eq!(file_mappings(), Vec::<String>::new());
        }
        linked.add("a.o", good.clone()).linked();
        assert_eq!(int(linked.call("f")), 21);
        assert!(!file_mappings().is_empty());
        let after = fs::read_dir("/proc/self/fd").expect("it is there").count();
        assert_eq!(before, after);
        let window = linked.memory.window(false).expect("it is in this process");
        let memory = linked.unload();
        assert!(is_without_access(window), "{:x?}", mappings(window));
        assert_eq!(file_mappings(), Vec::<String>::new());
        drop(memory);
    };
    round();
    let before = used();
    (0..20).for_each(|_| round());
    assert_eq!(used(), before);
}

/// Code goes and its memory with it, while variables stay.
#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn code_alone_is_given_back() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let linked = linked();
    let [code, variable, constant] = ["f", "variable", "constant"].map(|name| linked.address(name));
    let is_code = |line: &String| line.contains(" r-xp ");
    assert_eq!(
        file_mappings().iter().filter(|line| is_code(line)).count(),
        1
    );
    // SAFETY: nothing of it runs any longer.
    let removed = unsafe { linked.dylib.default_tracker().remove_code() };
    assert_eq!(removed, Ok(()));
    assert!(!file_mappings().iter().any(is_code));
    assert_eq!(access(code), "---p");
    assert_eq!(access(variable), "rw-p");
    assert_eq!(access(constant), "r--p");
}

/// A system that gives no file, or none so large: an error, nothing is left, and the next link goes
/// on.
#[test]
#[expect(unsafe_code, reason = "limits what the system gives to this process")]
fn a_system_that_gives_no_files() {
    if !have(&["cc"]) || !is_alone() {
        return;
    }
    let folder = Folder::new();
    let object = folder.object("a.c", SOURCE, &["-fPIC"]);
    let mut linked = dylib();
    let window = linked.memory.window(false).expect("it is in this process");
    for (resource, why) in [
        (libc::RLIMIT_NOFILE, "cannot make a memory file: "),
        (
            libc::RLIMIT_FSIZE,
            "cannot make a memory file so large: file too large",
        ),
    ] {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: asks for and sets limits of this process, which runs nothing else.
        let set = |limit: &libc::rlimit| unsafe { libc::setrlimit(resource, limit) };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::getrlimit(resource, &raw mut limit) }, 0);
        linked.add("a.o", object.clone());
        linked.add_objects();
        let none = libc::rlimit {
            rlim_cur: 0,
            ..limit
        };
        assert_eq!(set(&none), 0);
        let errors = linked.link();
        assert_eq!(set(&limit), 0);
        let errors = errors.expect_err(why).to_string();
        assert!(errors.contains(why), "{errors}");
        assert!(is_without_access(window), "{:x?}", mappings(window));
        assert_eq!(file_mappings(), Vec::<String>::new());
        // SAFETY: nothing of it was linked.
        let removed = unsafe { linked.dylib.default_tracker().remove() };
        assert_eq!(removed, Ok(()));
    }
    linked.add("a.o", object).linked();
    assert_eq!(int(linked.call("f")), 21);
}
