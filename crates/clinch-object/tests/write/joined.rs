//! Blocks of one section: where they lie in it, and distances that are known.

use super::{digest, graph, header, read, try_write, write};
use crate::support::tool::llvm_mc;
use crate::support::{block, edges, place, symbol};
use clinch_object::WriteError;

const FRAMES: &str = "
    .globl f\nf: .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n pop %rbp\n ret\n .cfi_endproc\n
    .globl g\ng: .cfi_startproc\n nop\n ret\n .cfi_endproc\n
    .data\n .quad f, g, 1, f + 3\nend:\n";

/// What was split fits together again: content, edges, symbols.
#[test]
fn split_blocks() {
    let Some(object) = llvm_mc(FRAMES, &[]) else {
        return;
    };
    let whole = read(&object);
    let mut split = read(&object);
    for (name, offsets) in [
        (".eh_frame", &[24, 44][..]),
        (".data", &[8, 20, 24]),
        (".text", &[1]),
    ] {
        let block = block(&split, name);
        let pieces = split.split_block(block, offsets).unwrap();
        assert_eq!(pieces.len(), offsets.len() + 1);
    }
    assert_ne!(digest(&split), digest(&whole));
    assert_eq!(digest(&read(&write(&split))), digest(&whole));
    assert!(write(&split) == write(&whole));
}

#[test]
fn alignments_place_blocks() {
    let written = write(&graph(
        "section s1 \"x\" r--\n
           block b1 size 3 align 1\n bytes 01 02 03\n
           block b2 size 1 align 8 offset 6\n bytes 04\n
           block b3 size 5 align 1 zero\n
           block b4 size 2 align 16\n bytes 05 06\n edge +0 Pointer16 $2\n
         symbol $1 \"in2\" b2+1\nsymbol $2 \"in4\" b4+0 size 2\n",
    ));
    let (_, x) = header(&written, "x");
    assert_eq!(
        x.data(&written, "x").unwrap(),
        [1, 2, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6]
    );
    assert_eq!(x.align, 16);
    let again = read(&written);
    assert_eq!(place(&again, &symbol(&again, "in2")), ("x".into(), 7));
    assert_eq!(place(&again, &symbol(&again, "in4")), ("x".into(), 16));
    assert_eq!(edges(&again, "x")[0].0, 16);
}

/// A distance inside a section for which ELF has no relocation is written as its value.
#[test]
fn known_distances() {
    let text = "section s1 \"x\" r--\n
           block b1 size 8 align 1\n bytes ff ff ff ff ff ff ff ff\n
           block b2 size 8 align 1\n bytes ff ff ff ff ff ff ff ff\n edge +4 NegDelta32 $1 + 1\n
         section s2 \"y\" r--\n block b3 size 8 align 1\n bytes 00 00 00 00 00 00 00 00\n
         symbol $1 b1+2\nsymbol $2 \"far\" b3+0\n";
    let written = write(&graph(text));
    let (_, x) = header(&written, "x");
    // The place is 12, the target 2: 12 - 2 + 1.
    assert_eq!(
        x.data(&written, "x").unwrap()[8..],
        [255, 255, 255, 255, 11, 0, 0, 0]
    );
    assert!(edges(&read(&written), "x").is_empty());
    // Into another section it is not known.
    let error = try_write(&graph(&text.replace("NegDelta32 $1", "NegDelta32 $2")));
    assert_eq!(
        error.unwrap_err(),
        WriteError::Edge {
            section: "x".into(),
            offset: 12,
            kind: "NegDelta32",
            target: "far".into(),
            why: "ELF has no such relocation",
        }
    );
}

/// Kinds without a number of their own are written as what they write.
#[test]
fn equivalent_kinds() {
    let text = "section s1 \"x\" r-x\n block b1 size 16 align 1\n
          bytes 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n
          edge +0 PCRel32 $1 + 3\n edge +4 BranchPCRel32ToPtrJumpStubBypassable $1\n
        symbol $1 \"f\" external\n";
    let again = read(&write(&graph(text)));
    let arch = clinch_target::arch_named("x86_64").unwrap();
    let shown: Vec<(&str, i64)> = edges(&again, "x")
        .iter()
        .map(|edge| (arch.graph.kind_name(edge.1), edge.3))
        .collect();
    // R_X86_64_PC32 with 3 - 4, and R_X86_64_PLT32 with -4.
    assert_eq!(shown, [("Delta32", -1), ("BranchPCRel32", 0)]);
}

/// What is relative to a section stays so when the section is joined to another: the distance is in
/// the addend, as linkers that merge equal strings look for a string at symbol and addend together
/// only where the symbol is the section's (gABI, "SHF_MERGE"; LLVM's and GNU's linkers alike).
#[test]
fn section_symbols_of_joined_sections() {
    let text = "section s1 \".debug_str\" r-- lifetime noalloc kind debug entry 1 merge strings\n
           block b1 size 4 align 1\n string \"abc\\x00\"\n
           block b2 size 6 align 1\n string \"hello\\x00\"\n
         section s2 \"x\" r--\n block b3 size 8 align 1\n bytes 00 00 00 00 00 00 00 00\n
           edge +0 Pointer32 $1 + 2\n edge +4 Pointer32 $2 + 1\n
         symbol $1 b2+0 section\nsymbol $2 \"named\" b2+2 local\n";
    let again = read(&write(&graph(text)));
    let shown = edges(&again, "x");
    assert_eq!((shown[0].2.as_str(), shown[0].3), (".debug_str", 6));
    assert_eq!((shown[1].2.as_str(), shown[1].3), ("named", 1));
    assert_eq!(place(&again, &symbol(&again, "named")).1, 6);
    let refused = try_write(&graph(
        &text.replace("Pointer32 $1", "RequestGOTAndTransformToDelta32 $1"),
    ));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .ends_with("section was joined to another")
    );
}
