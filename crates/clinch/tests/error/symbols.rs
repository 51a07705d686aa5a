//! Undefined and duplicate symbols, and relocations out of range.

use super::{fails, in_order, name};
use crate::support::{Program, Source, archive};

const UNDEFINED: &str = "\
//--- main.c
int missing_function(int);
extern int missing_data;
int twice_missing(void);
int *pointer_to_data = &missing_data;
static int (*table[])(int) = {missing_function};
int in_other(void);
int helpful_function(int x) { return x; }
int helpful_functoin(int x);
int caller(int x) { return missing_function(x) + missing_function(1) + twice_missing(); }
int main(void) { return caller(1) + in_other() + helpful_functoin(2) + (*table)(3); }
//--- other.c
int twice_missing(void);
int only_in_other(void);
int in_other(void) { return twice_missing() + only_in_other(); }
";

#[test]
fn all_undefined_each_once_with_who_refers() {
    let source = Source::new(UNDEFINED);
    for flags in ["-O0", "-O0 -fPIC -fno-plt", "-O0 -fno-pic -fno-pie"] {
        let [main, other] = source.objects(["main.c", "other.c"], flags);
        let said = fails([&main, &other]);
        for symbol in [
            "missing_function",
            "missing_data",
            "twice_missing",
            "helpful_functoin",
            "only_in_other",
        ] {
            let line = format!("undefined symbol: {symbol}\n");
            assert_eq!(said.matches(&line).count(), 1, "{symbol} in:\n{said}");
        }
        assert_eq!(said.matches("undefined symbol: ").count(), 5, "{said}");
        assert_eq!(said.matches("did you mean").count(), 1, "{said}");
        in_order(
            &said,
            &[
                "undefined symbol: helpful_functoin\n",
                ">>> did you mean: helpful_function\n",
            ],
        );
        in_order(
            &said,
            &[
                "undefined symbol: missing_function\n",
                &format!(">>> referenced by {}:(.text+", name(&main)),
                "(function caller)\n",
            ],
        );
        in_order(
            &said,
            &[
                "undefined symbol: twice_missing\n",
                &format!(">>> referenced by {}:(.text+", name(&main)),
                "(function caller)\n",
                &format!(">>> referenced by {}:(.text+", name(&other)),
                "(function in_other)\n",
            ],
        );
        in_order(
            &said,
            &[
                "undefined symbol: missing_data\n",
                &format!(">>> referenced by {}:(.data", name(&main)),
            ],
        );
    }
}

#[test]
fn undefined_in_a_member() {
    let source = Source::new(UNDEFINED);
    let member = source.object("other.c", "");
    let library = archive("libother.a", "ar", "rcs", &[member]);
    let main =
        Source::new("//--- main.c\nint in_other(void);\nint main(void) { return in_other(); }\n");
    let said = fails([main.object("main.c", ""), library]);
    in_order(
        &said,
        &[
            "undefined symbol: twice_missing\n",
            "libother.a(other.o):(.text+",
        ],
    );
}

#[test]
fn many_references() {
    let mut text = String::from("//--- main.c\nint missing(void);\nint main(void) { return 0");
    text.push_str(&" + missing()".repeat(40));
    text.push_str("; }\n");
    let said = fails([Source::new(&text).object("main.c", "-O0")]);
    assert_eq!(said.matches(">>> referenced by ").count(), 3, "{said}");
    in_order(
        &said,
        &[
            "undefined symbol: missing\n",
            ">>> referenced 37 more times",
        ],
    );
}

#[test]
fn names_of_cpp_are_demangled() {
    let source = Source::new(
        "//--- main.cpp\n#include <string>\nnamespace space {\nstruct Thing {\n\
         virtual ~Thing();\nint method(const std::string &text, int number) const;\n\
         template <typename T> T convert(T) const;\n};\n}\n\
         int overloaded(int); int overloaded(double) { return 1; }\n\
         int main() { const space::Thing *thing = nullptr; return thing->method(\"x\", 1) + \
         thing->convert<long>(2) + overloaded(3); }\n",
    );
    let said = fails([
        source.object("main.cpp", "-O0").into_os_string(),
        "-lstdc++".into(),
    ]);
    in_order(
        &said,
        &[
            "undefined symbol: space::Thing::method(std::",
            "int) const\n",
        ],
    );
    in_order(
        &said,
        &["undefined symbol: long space::Thing::convert<long>(long) const\n"],
    );
    in_order(
        &said,
        &[
            "undefined symbol: overloaded(int)\n",
            "did you mean: overloaded(double)\n",
        ],
    );
    assert!(!said.contains("_ZN"), "{said}");
}

#[test]
fn names_of_rust_are_demangled() {
    let source = Source::new(
        "#--- a.s\n.globl main\nmain: call _ZN7example6module8function17h0123456789abcdefE\n\
         call _RNvCskwGfYPst2Cb_7example8function\nret\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    let said = fails([source.object("a.s", "")]);
    in_order(&said, &["undefined symbol: example::module::function\n"]);
    in_order(&said, &["undefined symbol: example::function\n"]);
}

#[test]
fn no_main() {
    let source = Source::new("//--- a.c\nint other_function(void) { return 0; }\n");
    let said = fails([source.object("a.c", "")]);
    in_order(&said, &["undefined symbol: main"]);
}

/// Unused members and functions that nothing refers to need not be complete.
#[test]
fn undefined_weak_is_no_error() {
    let source = Source::new(
        "//--- a.c\nint missing(void) __attribute__((weak));\n\
         int main(void) { return missing ? missing() : 6; }\n",
    );
    Program::new([source.object("a.c", "")]).exits(6).check();
}

const DUPLICATES: &str = "\
//--- a.c
int first(void) { return 1; }
int second = 2;
int third(void) { return 3; }
int fine __attribute__((weak)) = 4;
int main(void) { return 0; }
//--- b.c
int unrelated(void) { return 0; }
int third(void) { return 3; }
int second = 2;
int first(void) { return 1; }
int fine = 5;
";

#[test]
fn duplicates_name_both_places() {
    let source = Source::new(DUPLICATES);
    let [a, b] = source.objects(["a.c", "b.c"], "-O0 -fno-toplevel-reorder");
    let said = fails([&a, &b]);
    assert_eq!(said.matches("duplicate symbol: ").count(), 3, "{said}");
    for (symbol, section) in [("first", ".text"), ("second", ".data"), ("third", ".text")] {
        in_order(
            &said,
            &[
                &format!("duplicate symbol: {symbol}\n"),
                &format!(">>> defined at {}:({section}+", name(&a)),
                &format!(">>> defined at {}:({section}+", name(&b)),
            ],
        );
    }
    // One input given twice defines everything twice.
    let said = fails([&a, &a]);
    in_order(&said, &["duplicate symbol: first\n"]);
    in_order(&said, &["duplicate symbol: main\n"]);
}

#[test]
fn duplicates_in_cpp_and_members() {
    let text = "//--- a.cpp\nint twice(int, char *) { return 1; }\nint needed();\n\
                int main() { return twice(1, nullptr) + needed(); }\n\
                //--- b.cpp\nint twice(int, char *) { return 2; }\nint needed() { return 3; }\n";
    let source = Source::new(text);
    let [a, b] = source.objects(["a.cpp", "b.cpp"], "");
    let library = archive("libtwice.a", "ar", "rcs", &[b]);
    let said = fails([a.clone(), library]);
    in_order(
        &said,
        &[
            "duplicate symbol: twice(int, char*)\n",
            &format!(">>> defined at {}:(.text+", name(&a)),
            "libtwice.a(b.o):(.text+",
        ],
    );
}

#[test]
fn relocation_out_of_range() {
    let source = Source::new(
        "#--- a.s\n.globl main\nmain: ret\n.data\nplace: .reloc ., R_X86_64_PC8, far_away\n\
         .byte 0\n.2byte large\n.globl large\n.set large, 0x123456\n\
         .bss\n.skip 100000\nfar_away: .skip 1\n.section .note.GNU-stack,\"\",@progbits\n\
         #--- b.s\n.globl main\nmain: jmp near\n.byte 0xeb\n.reloc ., R_X86_64_PC8, distant\n\
         .byte 0\nnear: ret\n.section .text.distant,\"ax\",@progbits\n.skip 70000\n\
         distant: ret\n.section .note.GNU-stack,\"\",@progbits\n\
         #--- c.s\n.globl main\nmain: movl $wide, %eax\nret\n.globl wide\n\
         .set wide, 0x123456789a\n.section .note.GNU-stack,\"\",@progbits\n",
    );
    // Kind, place, target and distance.
    for (part, wanted) in [
        (
            "b.s",
            &[
                ":(.text+0x",
                "Delta8",
                "out of range",
                "distant",
                "distance 70002",
            ][..],
        ),
        (
            "c.s",
            &[":(.text+0x1)", "wide", "out of range", "0x123456789a"],
        ),
    ] {
        let object = source.object(part, "");
        let said = fails([&object]);
        for text in wanted {
            assert!(said.contains(text), "no {text} in:\n{said}");
        }
        assert!(said.contains(&name(&object)), "{said}");
    }
}
