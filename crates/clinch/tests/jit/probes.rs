//! Programs that llvm-jitlink gets wrong or refuses (thread-local variables of every model, ifuncs,
//! constructors over several objects, code that is not position independent ...): here they do
//! what they do when the system's linker has linked them.

use super::jit;
use crate::support::{Source, run, scratch};
use std::path::PathBuf;
use std::process::Command;

/// Compiles each part with its options, links them with the system's linker with `link`'s options,
/// and asserts that `clinch jit` has the same output and status as the program.
#[track_caller]
fn same_as_linked(text: &str, parts: &[(&str, &str)], link: &str) {
    let source = Source::new(text);
    let objects: Vec<PathBuf> = parts
        .iter()
        .map(|(part, flags)| source.object(part, flags))
        .collect();
    let folder = scratch();
    let program = folder.path().join("program");
    let mut linker = Command::new("c++");
    linker.args(link.split_whitespace()).args(&objects);
    let linked = run(linker.arg("-o").arg(&program), b"");
    assert!(linked.status.success(), "{linked:?}");
    let expected = run(&mut Command::new(&program), b"");
    let found = jit(folder.path(), &objects);
    assert_eq!(found.status.code(), expected.status.code(), "{found:?}");
    assert_eq!(found.stdout, expected.stdout, "{found:?}");
    assert_eq!(found.stderr, expected.stderr);
}

/// Variables of one object and of another, from two threads.
const THREAD_LOCAL: &str = "//--- main.c\n\
    #include <pthread.h>\n#include <stdio.h>\n\
    __thread int own = 3; static __thread int hidden = 4; extern __thread int other;\n\
    int *there(void);\n\
    static void *run(void *p) { own++; hidden += 2; other += 3;\n\
        printf(\"%s %d %d %d %d\\n\", (char *)p, own, hidden, other, &other == there());\n\
        return 0; }\n\
    int main(void) { pthread_t t; run(\"main\"); pthread_create(&t, 0, run, \"thread\");\n\
        pthread_join(t, 0); run(\"main\"); return own + hidden + other; }\n\
    //--- other.c\n__thread int other = 7; int *there(void) { return &other; }\n";

#[test]
fn thread_local_variables_of_every_model() {
    for flags in [
        "-O1 -fPIC -ftls-model=global-dynamic",
        "-O1 -fPIC -ftls-model=local-dynamic",
        "-O1 -fPIC -ftls-model=initial-exec",
        "-O1 -ftls-model=local-exec",
        "-O1 -fPIC -mtls-dialect=gnu2",
    ] {
        // Only the main object's own variables may be of the models that stay in a file.
        let other = flags.replace("local-exec", "initial-exec");
        let main = match flags.contains("local-") {
            true => flags
                .replace("local-dynamic", "global-dynamic")
                .replace("local-exec", "initial-exec"),
            false => flags.to_owned(),
        };
        for first in [flags, &main] {
            let parts = [("main.c", first), ("other.c", &*other)];
            same_as_linked(THREAD_LOCAL, &parts, "-pthread");
        }
    }
}

#[test]
fn functions_that_choose_their_implementation() {
    let text = "//--- main.c\n#include <stdio.h>\nint chosen(int);\n\
        int (*pointer)(int) = chosen;\n\
        int main(void) { printf(\"%d %d %d\\n\", chosen(1), pointer(2), pointer == chosen); return 0; }\n\
        //--- other.c\nstatic int real(int n) { return n + 40; }\n\
        static void *choose(void) { return (void *)real; }\n\
        int chosen(int) __attribute__((ifunc(\"choose\")));\n";
    for flags in ["-O1", "-O1 -fPIC", "-O1 -fno-pic -fno-pie"] {
        let link = if flags.contains("no-pie") {
            "-no-pie"
        } else {
            ""
        };
        same_as_linked(text, &[("main.c", flags), ("other.c", flags)], link);
    }
}

#[test]
fn absolute_symbols() {
    let text = "//--- main.c\n#include <stdio.h>\nextern char size[];\n\
        int main(void) { printf(\"%ld\\n\", (long)size); return 0; }\n\
        //--- other.s\n.globl size\nsize = 1234\n.section .note.GNU-stack,\"\",@progbits\n";
    same_as_linked(text, &[("main.c", "-O1 -fPIC"), ("other.s", "")], "");
}

#[test]
fn sections_over_all_objects() {
    let text = "//--- main.c\n#include <stdio.h>\n\
        extern int __start_list[], __stop_list[]; int there(void);\n\
        __attribute__((section(\"list\"), used)) static int first = 1;\n\
        int main(void) { int sum = there(); for (int *p = __start_list; p < __stop_list; p++) sum += *p;\n\
            printf(\"%d %d\\n\", (int)(__stop_list - __start_list), sum); return 0; }\n\
        //--- other.c\n__attribute__((section(\"list\"), used)) static int rest[] = {20, 300};\n\
        int there(void) { return 4000; }\n";
    same_as_linked(text, &[("main.c", "-O1"), ("other.c", "-O1")], "");
}

#[test]
fn constructors_and_destructors_by_priority_over_all_objects() {
    let part = |letter: char| {
        format!(
            "#include <stdio.h>\n#include <stdlib.h>\n\
            __attribute__((constructor(300))) static void c3(void) {{ puts(\"{letter} 300\"); }}\n\
            __attribute__((constructor(200))) static void c2(void) {{ puts(\"{letter} 200\"); }}\n\
            __attribute__((constructor)) static void c(void) {{ puts(\"{letter}\"); }}\n\
            __attribute__((destructor(200))) static void d2(void) {{ puts(\"{letter} end 200\"); }}\n\
            __attribute__((destructor)) static void d(void) {{ puts(\"{letter} end\"); }}\n\
            static void at_end(void) {{ puts(\"{letter} handler\"); }}\n\
            void register_{letter}(void) {{ atexit(at_end); }}\n"
        )
    };
    let text = format!(
        "//--- a.c\n{}//--- b.c\n{}//--- main.c\n#include <stdio.h>\n\
        void register_a(void); void register_b(void);\n\
        int main(void) {{ register_a(); register_b(); puts(\"main\"); return 5; }}\n",
        part('a'),
        part('b')
    );
    let parts = [("a.c", "-O1"), ("b.c", "-O1"), ("main.c", "-O1")];
    same_as_linked(&text, &parts, "");
}

#[test]
fn static_objects_and_exceptions_of_cpp() {
    let text = "//--- main.cpp\n#include <cstdio>\n#include <stdexcept>\n\
        struct Log { const char *name; Log(const char *n) : name(n) { std::puts(n); }\n\
            ~Log() { std::printf(\"~%s\\n\", name); } };\n\
        Log global(\"global\"); void thrower(int);\n\
        int main() { static Log local(\"local\");\n\
            try { thrower(3); } catch (const std::exception &e) { std::puts(e.what()); return 4; }\n\
            return 0; }\n\
        //--- other.cpp\n#include <stdexcept>\n#include <string>\n\
        void thrower(int n) { throw std::runtime_error(\"thrown \" + std::to_string(n)); }\n";
    for (flags, link) in [
        ("-O1", ""),
        ("-O1 -fno-pic -fno-pie -mno-red-zone", "-no-pie"),
    ] {
        same_as_linked(text, &[("main.cpp", flags), ("other.cpp", flags)], link);
    }
}

#[test]
fn code_and_data_that_are_not_position_independent() {
    let text = "//--- main.c\n#include <stdio.h>\nextern int numbers[]; extern int (*table[])(int);\n\
        int twice(int n) { return 2 * n; }\n\
        int main(void) { fprintf(stdout, \"%d %d\\n\", numbers[2], table[0](21)); return 0; }\n\
        //--- other.c\nint numbers[] = {1, 2, 3}; int twice(int); int (*table[])(int) = {twice};\n";
    let flags = "-O2 -fno-pic -fno-pie";
    same_as_linked(text, &[("main.c", flags), ("other.c", flags)], "-no-pie");
    // Calls through the table without stubs.
    for flags in ["-O2 -fno-plt -fPIC", "-O2 -fno-plt -fno-pic -fno-pie"] {
        let link = if flags.contains("no-pie") {
            "-no-pie"
        } else {
            ""
        };
        same_as_linked(text, &[("main.c", flags), ("other.c", flags)], link);
    }
}

#[test]
fn alignment_above_a_page() {
    let text = "//--- main.c\n#include <stdint.h>\n#include <stdio.h>\n\
        __attribute__((aligned(65536))) char big[10] = \"aligned\";\n\
        int main(void) { printf(\"%d %s\\n\", (int)((uintptr_t)big % 65536), big); return 0; }\n";
    same_as_linked(text, &[("main.c", "-O1")], "-Wl,-z,max-page-size=65536");
}

/// Compact relocation records, which llvm-jitlink ignores. (The system's linker may not know
/// them, so the answer stands here.)
#[test]
fn compact_relocation_records() {
    let text = "//--- main.c\nint f(void); int data[] = {40, 2}; int *where = data + 1;\n\
        int main(void) { return data[0] + *where + f(); }\n\
        //--- other.c\nextern int data[]; int f(void) { return data[0] - 40; }\n";
    let source = Source::new(text);
    let flags = "-O1 -Wa,--crel,--allow-experimental-crel";
    let objects = ["main.c", "other.c"].map(|part| source.clang(part, flags));
    let folder = scratch();
    let found = jit(folder.path(), &objects);
    assert_eq!(found.status.code(), Some(42), "{found:?}");
}

#[test]
fn missing_symbols_say_who_wants_them() {
    let text = "//--- main.c\nint missing(void); int main(void) { return missing(); }\n";
    let object = Source::new(text).object("main.c", "-O1");
    let folder = scratch();
    let found = jit(folder.path(), [&object]);
    assert_eq!(found.status.code(), Some(1));
    let said = found.errors();
    assert!(said.contains("Symbols not found: [ missing ]"), "{said}");
    assert!(said.contains("(function main)"), "{said}");
}
