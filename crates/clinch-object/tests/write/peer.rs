//! Whole objects of compilers and assemblers, and an archive of them; and what `llvm-readelf`
//! says of what was written.

use super::{round_trip, write};
use crate::support::read;
use crate::support::tool::{available, clang, gnu_as, llvm_mc, make};
use clinch_object::{Archive, FileBytes, FileKind};
use std::path::Path;
use std::process::Command;

const C: &str = "
    #include <stdio.h>\n
    int common; long commons[100]; __thread int tls = 7; static __thread char zero[9];\n
    extern __thread int other; __attribute__((weak)) int missing(void);\n
    static int three(int x) { return x * 3; }\n
    static int (*resolve(void))(int) { return three; }\n
    int chosen(int) __attribute__((ifunc(\"resolve\")));\n
    int *pointers[] = {&common, 0}; const char *const names[] = {\"a\", \"bc\"};\n
    __attribute__((section(\"mine\"), used)) int mine_array[3] = {1, 2, 3};\n
    extern int __start_mine[]; int first(void) { return __start_mine[0] + zero[tls] + other; }\n
    __attribute__((constructor(200))) static void early(void) { puts(\"early\"); }\n
    __attribute__((destructor)) static void late(void) { puts(\"late\"); }\n
    __attribute__((visibility(\"hidden\"))) int hidden(int x) { return missing ? missing() : x; }\n
    __attribute__((visibility(\"protected\"))) int protected(int x) {\n
      switch (x) { case 1: return 5; case 2: return 9; case 3: return 7; case 4: return 8; case 5: return 77; }\n
      return chosen(x) + (int)commons[x]; }\n";

const CPP: &str = "
    #include <cstdio>\n#include <stdexcept>\n#include <string>\n#include <vector>\n
    struct Base { virtual ~Base(); virtual int get() const = 0; };\n Base::~Base() {}\n
    template <class T> struct Box : Base { T value; int get() const override { return int(value); } };\n
    static thread_local int counter = 3; inline thread_local std::string word = \"abc\";\n
    template <class T> int &one_of() { static int value = sizeof(T); return value; }\n
    int run(const std::vector<std::string> &words) {\n
      Box<int> box; box.value = counter; int sum = one_of<long>();\n
      try { for (auto &w : words) sum += std::stoi(w + word); }\n
      catch (const std::exception &e) { std::puts(e.what()); }\n
      return sum + box.get(); }\n";

const OPTIONS: &[&[&str]] = &[
    &["-O2", "-fPIC"],
    &["-O0", "-g", "-fno-pie"],
    &["-O2", "-ffunction-sections", "-fdata-sections", "-g"],
    &["-Os", "-fcf-protection=full", "-g", "-gz"],
    &["-O1", "-mcmodel=large", "-fno-pie"],
    &["-O2", "-fPIC", "-mtls-dialect=gnu2", "-fsplit-stack"],
];

/// What `llvm-readelf` complains of.
fn warnings(object: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.o");
    std::fs::write(&file, object).unwrap();
    let said = Command::new("llvm-readelf-22")
        .args(["--all", "--wide", "--unwind", "--section-groups"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8_lossy(&said.stderr).into_owned()
}

#[track_caller]
fn check(object: &[u8]) {
    let written = round_trip(object);
    // What it says of the original is no news.
    if available(&["llvm-readelf-22"]) && warnings(object).is_empty() {
        assert_eq!(warnings(&written), "");
    }
}

#[test]
fn objects_of_compilers() {
    for options in OPTIONS {
        for (name, text) in [("t.c", C), ("t.cpp", CPP)] {
            if let Some(object) = clang(name, text, options) {
                check(&object);
            }
            let compiler = if name == "t.c" { "gcc" } else { "g++" };
            let mut words = vec!["-c", "{in}", "-o", "{out}"];
            words.extend(*options);
            if let Some(object) = make(compiler, &words, name, text) {
                check(&object);
            }
        }
    }
}

#[test]
fn objects_of_clang_with_more_tables() {
    for options in [
        &["-O2", "-g", "-gsplit-dwarf"][..],
        &["-O2", "-fstack-size-section", "-fbasic-block-address-map"],
        &["-O2", "-fxray-instrument"],
        &["-O2", "-fsanitize=address"],
        &["-O2", "-Wa,--crel,--allow-experimental-crel"],
        &["-O2", "-fPIC", "-Wa,-mrelax-relocations=no"],
    ] {
        if let Some(object) = clang("t.cpp", CPP, options) {
            check(&object);
        }
    }
}

/// Every relocation that an assembler writes for x86-64 and an object may hold, and what is about
/// sections and symbols.
const ASSEMBLY: &str = "
    .text\n .globl f\n .type f, @function\nf:\n
    call g@PLT\n jmp g\n movq x@GOTPCREL(%rip), %rax\n movl x@GOTPCREL(%rip), %eax\n call *g@GOTPCREL(%rip)\n
    movabsq $_GLOBAL_OFFSET_TABLE_-f, %r11\n leaq _GLOBAL_OFFSET_TABLE_(%rip), %r15\n
    movabsq $x@GOT, %rcx\n movabsq $x@GOTOFF, %rcx\n movabsq $g@PLTOFF, %rcx\n
    leaq v@TLSGD(%rip), %rdi\n call __tls_get_addr@PLT\n leaq v@TLSLD(%rip), %rdi\n
    leaq v@DTPOFF(%rax), %rax\n movq v@GOTTPOFF(%rip), %rax\n movl %fs:v@TPOFF, %eax\n
    leaq v@TLSDESC(%rip), %rax\n call *v@TLSCALL(%rax)\n .size f, . - f\n
    .section .tdata,\"awT\",@progbits\n .globl v\n .type v, @object\nv: .long 1\n
    .data\n .quad x, v@DTPOFF, v@TPOFF, x@SIZE\n .long x, x - ., x@SIZE\n .short x, x - .\n .byte x, x - .\n
    .quad -9223372036854775808 + x, 9223372036854775807 + y\n
    .section .gcc_except_table,\"ao\",@progbits,.text\n .long 1\n
    .section kept,\"awR\",@progbits\n .long 2\n .section out,\"e\"\n .long 3\n
    .section .ldata,\"awl\",@progbits\n .quad 4\n .section .init_array.7,\"aw\",@init_array\n .quad f\n
    .section .rodata.str2.2,\"aMS\",@progbits,2\n .short 65, 0\n .section .rodata.cst8,\"aM\",@progbits,8\n .quad 8\n
    .section .text.one,\"axG\",@progbits,one,comdat\n .weak one\none: ret\n
    .section .data.one,\"awG\",@progbits,one,comdat\n .quad one\n
    .section .data.tied,\"awG\",@progbits,tied\n .quad one\n
    .bss\n .balign 64\n .skip 4096\n .comm shared, 24, 16\n .lcomm mine, 8\n
    .hidden h\n .globl h\nh = 0xfedcba9876543210\n .protected p\n .globl p\np = f + 4\n
    .type u, @gnu_unique_object\nu = mine\n .type i, @gnu_indirect_function\n .globl i\ni = f\n
    .section .same,\"a\",@progbits,unique,1\n .long 1\n .section .same,\"a\",@progbits,unique,2\n .long 2\n";

#[test]
fn objects_of_assemblers() {
    if let Some(object) = llvm_mc(ASSEMBLY, &[]) {
        check(&object);
    }
    let gnu = ASSEMBLY.replace(",unique,", ",unique, ").replace(
        ".section .same,\"a\",@progbits,unique, 1",
        ".section .same,\"a\"",
    );
    if let Some(object) = gnu_as(&gnu.replace(".section .same,\"a\",@progbits,unique, 2\n", "")) {
        check(&object);
    }
    if let Some(object) = llvm_mc("f: call g\n .quad v\n .addrsig\n .addrsig_sym g\n", &[]) {
        check(&object);
    }
    for empty in [llvm_mc("", &[]), gnu_as("")].into_iter().flatten() {
        check(&empty);
    }
}

/// Members of an archive of LLVM's, where it is installed.
#[test]
fn members_of_an_archive() {
    const ARCHIVE: &str = "/usr/lib/llvm-22/lib/libLLVMSupport.a";
    if !Path::new(ARCHIVE).is_file() {
        return;
    }
    let archive = Archive::parse(FileBytes::open(Path::new(ARCHIVE)).unwrap()).unwrap();
    let mut n_members = 0;
    for member in archive.members().step_by(4) {
        let bytes = archive.content(&member.unwrap()).unwrap();
        if FileKind::of(&bytes) == FileKind::ElfRelocatable {
            round_trip(&bytes);
            n_members += 1;
        }
    }
    assert!(n_members > 20);
}

/// Records are found again from kinds that several numbers mean: the usual one is written.
#[test]
fn numbers_of_records() {
    let Some(object) = llvm_mc(ASSEMBLY, &[]) else {
        return;
    };
    let Some(before) = crate::support::tool::says("llvm-readelf-22", &["-rW"], &object) else {
        return;
    };
    let after = crate::support::tool::says("llvm-readelf-22", &["-rW"], &write(&read(&object)));
    let kinds = |text: &str| -> Vec<String> {
        let words = text
            .split_whitespace()
            .filter(|word| word.starts_with("R_X86_64_"));
        words.map(str::to_owned).collect()
    };
    let (before, after) = (kinds(&before), kinds(&after.unwrap()));
    assert!(before.len() > 30, "{before:?}");
    assert_eq!(before, after);
}
