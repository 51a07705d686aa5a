//! What the process's mappings show of linked dylibs: no page writable and executable, constants
//! sealed, few mappings; and that a link needs little stack.

use crate::support::elf::{At, Object, R_64, R_PLT32};
use crate::support::{self, Folder, have, mapping_of, mappings};
use clinch_jit::memory::MemoryManager;

#[test]
fn no_page_is_writable_and_executable() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "
        extern int puts(const char *);
        int variable = 5;
        int zero[1000];
        const int constant = 7;
        int (*const pointer)(const char *) = puts;
        int f(void) { return variable + constant + zero[3] + (pointer == puts); }
    ";
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.c", source, &["-fPIC"]))
        .linked();
    assert_eq!(support::int(linked.call("f")), 13);

    let window = linked.memory.window(false).expect("it is in this process");
    let all = mappings(window);
    for map in &all {
        let both = map.access.contains('w') && map.access.contains('x');
        assert!(!both, "{map:x?} of {all:x?}");
    }
    let access = |name: &str| mapping_of(linked.address(name)).access[..3].to_owned();
    assert_eq!(access("f"), "r-x");
    assert_eq!(access("variable"), "rw-");
    assert_eq!(access("zero"), "rw-");
    assert_eq!(access("constant"), "r--");
    assert_eq!(access("pointer"), "r--");
}

/// Code in a section that is writable too runs, and is not writable.
#[test]
fn writable_code_is_only_run() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "
        .section .wx, \"awx\", @progbits
        .globl f
        f: mov $9, %eax
           ret
        .section .note.GNU-stack, \"\", @progbits
    ";
    let mut linked = support::dylib();
    linked
        .add("a.o", folder.object("a.s", source, &[]))
        .linked();
    assert_eq!(support::int(linked.call("f")), 9);
    assert_eq!(mapping_of(linked.address("f")).access, "r-xp");
}

/// One object that calls `next`, or answers its number.
fn object(n: usize, next: Option<usize>) -> Vec<u8> {
    let mut object = Object::new();
    let start = match next {
        // Only the last one answers; the others jump on.
        Some(next) => {
            let next = object.symbol(&format!("f{next}"), At::Undefined);
            object.code(&[0xe9, 0, 0, 0, 0], &[(1, R_PLT32, next, -4)])
        }
        None => {
            let [a, b, c, d] = (n as u32).to_le_bytes();
            object.code(&[0xb8, a, b, c, d, 0xc3], &[])
        }
    };
    let function = object.symbol(&format!("f{n}"), At::Text(start));
    let pointer = object.data(&[0; 8], &[(0, R_64, function, 0)]);
    object.symbol(&format!("p{n}"), At::Data(pointer));
    object.write()
}

#[test]
fn five_hundred_objects_make_few_mappings() {
    let mut linked = support::dylib();
    for n in 0..500 {
        linked.add(
            &format!("{n}.o"),
            object(n, (n < 499).then_some(n + 1)).into(),
        );
    }
    linked.linked();
    assert_eq!(support::int(linked.call("f0")), 499);
    let window = linked.memory.window(false).expect("it is in this process");
    let all = mappings(window);
    let used = all
        .iter()
        .filter(|map| !map.access.starts_with("---"))
        .count();
    // One for each kind of segment that is there: constants (the end of the call frame records),
    // code and data.
    assert!(used <= 3, "{all:x?}");
    assert!(all.len() <= 7, "{all:x?}");
}

/// Links of many small dylib parts, one after the other: segments of one kind lie side by side.
#[test]
fn five_hundred_links_make_few_mappings() {
    let mut linked = support::dylib();
    for n in 0..500_usize {
        linked
            .add(&format!("{n}.o"), object(n, n.checked_sub(1)).into())
            .linked();
    }
    assert_eq!(support::int(linked.call("f499")), 0);
    let window = linked.memory.window(false).expect("it is in this process");
    let all = mappings(window);
    assert!(all.len() <= 16, "{} mappings: {all:x?}", all.len());
}

#[test]
fn a_long_chain_needs_little_stack() {
    const LENGTH: usize = 20_000;
    let chain = || {
        let mut linked = support::dylib();
        for n in 0..LENGTH {
            linked.add(
                &format!("{n}.o"),
                object(n, (n + 1 < LENGTH).then_some(n + 1)).into(),
            );
        }
        linked.add_objects();
        let first = linked.dylib.look_up("f0");
        let first = first.unwrap_or_else(|error| panic!("{error}"));
        support::int(support::call(first))
    };
    let thread = std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(chain);
    let last = thread
        .expect("a thread can be started")
        .join()
        .expect("it has stack enough");
    assert_eq!(last, 19_999);
}
