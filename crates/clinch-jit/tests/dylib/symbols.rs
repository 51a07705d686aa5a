//! What links say of symbols that are missing or defined twice, and the order of initializers.

use crate::support::{self, Folder, have, int};
use clinch_jit::LinkError;

#[test]
fn undefined_symbols_are_told_once_each_with_who_refers_to_them() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let a = "
        extern int missing(void), only_data, prnt_line(int);
        int *pointer = &only_data;
        int print_line(int n) { return n; }
        int f(void) { return missing() + prnt_line(1); }
        int g(void) { return missing(); }
    ";
    let b = "
        extern int missing(void); extern int maybe(void) __attribute__((weak));
        int h(void) { return missing() + missing() + (maybe ? maybe() : 0); }
    ";
    let options = [
        "-fPIC",
        "-O1",
        "-fno-builtin",
        "-fno-optimize-sibling-calls",
    ];
    let mut linked = support::dylib();
    linked.add("a.o", folder.object("a.c", a, &options));
    linked.add("b.o", folder.object("b.c", b, &options));
    let errors = linked.link().expect_err("symbols are missing").0;
    let undefined: Vec<_> = errors
        .iter()
        .map(|error| match error {
            LinkError::Undefined(undefined) => undefined,
            other => panic!("{other}"),
        })
        .collect();
    let mut names: Vec<&str> = undefined
        .iter()
        .map(|symbol| symbol.name.as_str())
        .collect();
    // By the first place that refers to them: code before data.
    assert_eq!(names, ["missing", "prnt_line", "only_data"]);
    names.dedup();
    assert_eq!(names.len(), undefined.len());

    let missing = undefined[0];
    assert_eq!(missing.n_referrers, 4);
    let places: Vec<(&str, &str, Option<&str>)> = missing
        .referrers
        .iter()
        .map(|place| (&*place.input, &*place.section, place.function.as_deref()))
        .collect();
    let expected = [
        ("a.o", ".text", Some("f")),
        ("a.o", ".text", Some("g")),
        ("b.o", ".text", Some("h")),
    ];
    assert_eq!(places, expected);
    assert_eq!(missing.near_miss, None);
    assert_eq!(undefined[1].near_miss.as_deref(), Some("print_line"));
    let data = &undefined[2].referrers;
    assert_eq!(data.len(), 1);
    assert!(data[0].section.starts_with(".data"), "{data:?}");
    assert_eq!(data[0].function, None);
}

/// A name that only a discarded group defines is undefined, not 0.
#[test]
fn names_of_discarded_groups_are_undefined() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let group = |more: &str| {
        format!(
            ".section .text.sig, \"axG\", @progbits, sig, comdat
             .weak sig
             sig: ret
             {more}
             .section .note.GNU-stack, \"\", @progbits\n"
        )
    };
    let more = ".globl only
                only: ret
                .text
                .globl f
                f: call only
                   ret";
    let mut linked = support::dylib();
    linked.add("a.o", folder.object("a.s", &group(""), &[]));
    linked.add("b.o", folder.object("b.s", &group(more), &[]));
    let errors = linked
        .link()
        .expect_err("only the second group defines it")
        .to_string();
    assert_eq!(errors, "undefined symbol: only");
}

#[test]
fn duplicates_are_told_with_both_places() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let a = "int first(void) { return 0; } int f(void) { return 1; } int v = 3;";
    let b = "int f(void) { return 2; } int second; int v = 4;";
    let options = ["-fPIC", "-ffunction-sections", "-fdata-sections"];
    let mut linked = support::dylib();
    linked.add("a.o", folder.object("a.c", a, &options));
    linked.add("b.o", folder.object("b.c", b, &options));
    let errors = linked
        .link()
        .expect_err("two are defined twice")
        .to_string();
    let expected = "duplicate symbol: f\n>>> defined at a.o:(.text.f+0x0)\n\
                    >>> defined at b.o:(.text.f+0x0)\n\
                    duplicate symbol: v\n>>> defined at a.o:(.data.v+0x0)\n\
                    >>> defined at b.o:(.data.v+0x0)";
    let mut blocks: Vec<&str> = errors.split("duplicate symbol: ").collect();
    let mut wanted: Vec<&str> = expected.split("duplicate symbol: ").collect();
    // Which comes first is the compiler's choice.
    blocks.sort_unstable();
    wanted.sort_unstable();
    let trim = |list: Vec<&str>| -> Vec<String> {
        list.iter().map(|text| text.trim_end().to_owned()).collect()
    };
    assert_eq!(trim(blocks), trim(wanted));
}

#[test]
fn weak_undefined_symbols_are_zero() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let source = "
        extern int absent(void) __attribute__((weak));
        extern int absent_data __attribute__((weak));
        int (*pointer)(void) = absent;
        int f(void) { return absent == 0; }
        int g(void) { return &absent_data == 0; }
        int h(void) { return pointer == 0; }
    ";
    for options in [
        &["-fPIC"][..],
        &["-fPIE", "-O2"],
        &["-fPIC", "-O2", "-fno-plt"],
    ] {
        let mut linked = support::dylib();
        linked
            .add("a.o", folder.object("a.c", source, options))
            .linked();
        for name in ["f", "g", "h"] {
            assert_eq!(int(linked.call(name)), 1, "{name} with {options:?}");
        }
    }
}

/// Priorities count over all objects; in one priority the order is that of the objects, and
/// finalizers mirror it.
#[test]
fn initializers_and_finalizers_run_in_order() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let log = "
        char log_text[256]; int log_len; char *log_out;
        void note(char c) { log_text[log_len++] = c; if (log_out) log_out[log_len - 1] = c; }
        char *log_address(void) { return log_text; }
        char **log_slot(void) { return &log_out; }
    ";
    let object = |letter: char| {
        let upper = letter.to_ascii_uppercase();
        format!(
            "void note(char);
             __attribute__((constructor)) static void c(void) {{ note('{letter}'); }}
             __attribute__((constructor(200))) static void early(void) {{ note('{upper}'); }}
             __attribute__((constructor({}))) static void own(void) {{ note('{}'); }}
             __attribute__((destructor)) static void d(void) {{ note('{letter}'); }}
             __attribute__((destructor(200))) static void late(void) {{ note('{upper}'); }}",
            300 - u32::from(letter),
            char::from(letter as u8 - b'a' + b'1'),
        )
    };
    let mut linked = support::dylib();
    linked.add("log.o", folder.object("log.c", log, &["-fPIC"]));
    for letter in ['a', 'b', 'c'] {
        let bytes = folder.object(&format!("{letter}.c"), &object(letter), &["-fPIC"]);
        linked.add(&format!("{letter}.o"), bytes);
    }
    linked.linked();
    linked.initialize();
    let address = |value: i64| usize::try_from(value.cast_unsigned()).expect("an address");
    let text = address(linked.call("log_address"));
    // SAFETY: the object's buffer; nothing of the dylib is running.
    let text = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(text), 9) };
    // 300 - 'c' is 201, so own priorities come last to first, behind 200 and before none.
    assert_eq!(std::str::from_utf8(text), Ok("ABC321abc"));

    let out: &'static mut [u8; 256] = Box::leak(Box::new([0; 256]));
    let out = out.as_mut_ptr();
    let slot = address(linked.call("log_slot"));
    // SAFETY: the object's pointer; nothing of the dylib is running.
    unsafe { std::ptr::with_exposed_provenance_mut::<*mut u8>(slot).write(out) };
    drop(linked.unload());
    // SAFETY: the leaked buffer, which nobody writes to any longer.
    let text = unsafe { std::slice::from_raw_parts(out.add(9), 6) };
    assert_eq!(std::str::from_utf8(text), Ok("cbaCBA"));
}
