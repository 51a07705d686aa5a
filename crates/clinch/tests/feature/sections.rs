//! Sections: alignment, size, number, compression, merging.

use super::{ALL, NON_PIC, PIC, PIE, check_in_all_ways};
use crate::support::{Program, Source, available};
use std::fmt::Write;

#[test]
fn alignments_above_a_page() {
    check_in_all_ways("feature/alignment.c", ["a.c", "b.c"], "", &ALL);
}

#[test]
fn large_zero_fill() {
    let sizes = "-DSIZE_A=256 -DSIZE_B=512";
    check_in_all_ways(
        "feature/large.c",
        ["a.c", "b.c"],
        sizes,
        &[PIC, PIE, NON_PIC],
    );
    let large = "-DSIZE_A=300 -DSIZE_B=500";
    check_in_all_ways(
        "feature/large.c",
        ["a.c", "b.c"],
        large,
        &[("-mcmodel=medium", "")],
    );
}

#[test]
fn strings_and_constants() {
    check_in_all_ways("feature/strings.c", ["a.c", "b.c"], "", &ALL);
}

/// More sections than 16 bits count: numbers move to tables of their own.
#[test]
fn more_than_65280() {
    const N: usize = 66_000;
    let mut text = String::from("#--- a.s\n.globl main, first, last\n");
    for i in 0..N {
        let _ = writeln!(
            text,
            ".section .text.f{i},\"ax\",@progbits\nf{i}: movl ${i}, %eax\nret"
        );
    }
    let _ = writeln!(text, ".set first, f0\n.set last, f{}", N - 1);
    // Symbols and relocations of sections with high numbers, and a group among them.
    text.push_str(
        ".section .text.main,\"axG\",@progbits,main_group,comdat\n\
         main: pushq %rbx\ncall f65999\nmovl %eax, %ebx\ncall f65281\nsubl %eax, %ebx\n\
         movslq table(%rip), %rax\nleaq table(%rip), %rcx\naddq %rcx, %rax\ncall *%rax\n\
         addl %ebx, %eax\npopq %rbx\nret\n\
         .section .rodata.table,\"a\",@progbits\ntable: .long f65300 - table, f1 - table\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    let source = Source::new(&text);
    // 65999 - 65281 + 65300, as a status.
    Program::new([source.object("a.s", "")])
        .exits((718 + 65300) & 255)
        .check();
    if available(&["clang-22"]) {
        let object = source.clang("a.s", "");
        Program::new([object]).exits((718 + 65300) & 255).check();
    }
}

#[test]
fn compressed_debug_information() {
    check_in_all_ways(
        "feature/models.c",
        ["a.c", "b.c"],
        "-g3 -gz=zlib",
        &[PIC, NON_PIC],
    );
    if !available(&["clang-22"]) {
        return;
    }
    let source = Source::read("feature/models.c");
    for flags in [
        "-g -gz=zlib",
        "-g -gz=zstd",
        "-g3 -gdwarf-4 -gz=zstd -gsplit-dwarf=single",
    ] {
        let compressed = ["a.c", "b.c"].map(|part| source.clang(part, flags));
        let plain = ["a.c", "b.c"].map(|part| source.clang(part, "-g"));
        Program::new(compressed)
            .reference(plain)
            .prints(source.text("stdout"))
            .check();
    }
}
