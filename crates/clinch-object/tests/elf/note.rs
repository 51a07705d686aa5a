//! Notes and GNU properties.

use crate::support::builder::{FORMATS, numbers};
use crate::support::tool::{clang, llvm_mc};
use crate::support::{block, read};
use clinch_graph::LinkGraph;
use clinch_object::elf::note::{NT_GNU_PROPERTY_TYPE_0, notes, properties};
use clinch_object::elf::raw::Format;
use clinch_object::{ReadError, ReadErrorKind};

const LITTLE64: Format = FORMATS[0];

fn content<'g>(graph: &'g LinkGraph, section: &str) -> (&'g [u8], u64) {
    let id = block(graph, section);
    (graph.content(id).bytes(), graph.block_align(id))
}

#[test]
fn properties_that_a_compiler_writes() {
    let Some(object) = clang("t.c", "int f;", &["-fcf-protection=full"]) else {
        return;
    };
    let graph = read(&object);
    let (bytes, align) = content(&graph, ".note.gnu.property");
    let notes = notes(LITTLE64, bytes, align).unwrap();
    assert_eq!(notes.len(), 1);
    assert_eq!(
        (notes[0].name, notes[0].kind),
        (&b"GNU"[..], NT_GNU_PROPERTY_TYPE_0)
    );
    let properties = properties(LITTLE64, notes[0].description).unwrap();
    // GNU_PROPERTY_X86_FEATURE_1_AND: IBT and SHSTK.
    assert_eq!(
        (properties[0].kind, properties[0].data),
        (0xc000_0002, &[3, 0, 0, 0][..])
    );
}

#[test]
fn notes_of_an_assembler() {
    let text = ".section .note.x,\"a\",@note\n.p2align 2\n
        .long 4, 5, 7\n .asciz \"ABC\"\n .ascii \"12345\"\n .zero 3\n
        .long 6, 0, 8\n .asciz \"LONGR\"\n .zero 2\n
        .long 0, 4, 9\n .long 1\n";
    let Some(object) = llvm_mc(text, &[]) else {
        return;
    };
    let graph = read(&object);
    let (bytes, align) = content(&graph, ".note.x");
    let notes = notes(LITTLE64, bytes, align).unwrap();
    let found: Vec<_> = notes
        .iter()
        .map(|note| (note.name, note.kind, note.description))
        .collect();
    let expected: [(&[u8], u32, &[u8]); 3] = [
        (b"ABC", 7, b"12345"),
        (b"LONGR", 8, b""),
        (b"", 9, &[1, 0, 0, 0]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_class_and_order() {
    for format in FORMATS {
        // Properties are padded to the class's word.
        let padding = format.word_size() - 4;
        let size = u64::try_from(12 + padding).unwrap();
        let mut data = numbers(format, 4, &[4, size, 5]);
        data.extend(b"GNU\0");
        data.extend(numbers(format, 4, &[1, 4, 0x1234_5678]));
        data.extend(vec![0; padding]);
        let notes = notes(format, &data, if format.is_64 { 8 } else { 4 }).unwrap();
        let properties = properties(format, notes[0].description).unwrap();
        assert_eq!(properties[0].kind, 1);
        assert_eq!(properties[0].data, numbers(format, 4, &[0x1234_5678]));
        assert_eq!(properties.len(), 1, "{format:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let note = |words: &[u64], rest: &[u8]| {
        let mut data = numbers(LITTLE64, 4, words);
        data.extend(rest);
        notes(LITTLE64, &data, 4).map(|notes| notes.len())
    };
    let bad = |at, why| Err(ReadError::new(at, ReadErrorKind::Note(why)));
    assert_eq!(note(&[0, 0, 1], &[]), Ok(1));
    assert_eq!(note(&[0, 0], &[]), bad(0, "the header is truncated"));
    assert_eq!(
        note(&[0, 0, 1, 0, 0], &[]),
        bad(12, "the header is truncated")
    );
    assert_eq!(note(&[5, 0, 1], b"GNU\0"), bad(0, "the name is truncated"));
    assert_eq!(
        note(&[0xffff_ffff, 0, 1], b"GNU\0"),
        bad(0, "the name is truncated")
    );
    assert_eq!(
        note(&[4, 5, 1], b"GNU\0abcd"),
        bad(0, "the description is truncated")
    );
    assert_eq!(
        note(&[4, 0xffff_ffff, 1], b"GNU\0"),
        bad(0, "the description is truncated")
    );
    // A last note may lack its padding.
    assert_eq!(note(&[4, 1, 1], b"GNU\0a"), Ok(1));

    let property = |data: &[u8]| properties(LITTLE64, data).map(|found| found.len());
    let cut = |at| {
        Err(ReadError::new(
            at,
            ReadErrorKind::Note("a property is truncated"),
        ))
    };
    assert_eq!(property(&[]), Ok(0));
    assert_eq!(property(&[1, 0, 0, 0, 0, 0, 0, 0]), Ok(1));
    assert_eq!(property(&[1, 0, 0, 0, 0, 0, 0]), cut(0));
    assert_eq!(property(&[1, 0, 0, 0, 1, 0, 0, 0]), cut(0));
    assert_eq!(property(&[1, 0, 0, 0, 0, 0, 0, 0, 9]), cut(8));
    assert_eq!(property(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), cut(0));
}
