//! Real objects with deterministic damage: reading answers an object or an error, and what it
//! answers is sound but for edges that cannot be decoded.

use crate::support::arch;
use crate::support::builder::{Builder, FORMATS, Section, Sym};
use crate::support::tool::{clang, llvm_mc};
use clinch_graph::{InputName, Stage, verify};
use clinch_object::elf::raw::{Header, shf, sht};
use clinch_object::{address_significant, read_object_with};
use std::hint::black_box;

const N: usize = 20_000;

const ASSEMBLY: &str = "
    .section .text.g,\"axG\",@progbits,sig,comdat\n .weak sig\nsig: call f@PLT\n
    .section .meta,\"ao\",@progbits,.text.g\n .quad sig\n
    .text\n .globl f\nf: .cfi_startproc\n movq v@GOTPCREL(%rip), %rax\n jmp g\n .cfi_endproc\n .size f, 9\n
    .section .rodata.str1.1,\"aMS\",@progbits,1\n.L0: .asciz \"abc\"\n
    .data\n .quad .L0, f - 4\n .long 0\n
    .section .init_array.5,\"aw\",@init_array\n .quad f\n
    .section .tbss,\"awT\",@nobits\nt: .zero 8\n .comm c,8,8\n
    .section .note.x,\"a\",@note\n .long 4, 0, 1\n .asciz \"abc\"\n
    .addrsig\n .addrsig_sym f\n";

fn objects() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    all.extend(llvm_mc(ASSEMBLY, &[]));
    all.extend(llvm_mc(ASSEMBLY, &["--crel"]));
    let source = "struct S { int a; }; int g(struct S *s) { return s->a + 1; }";
    all.extend(clang("t.c", source, &["-O1", "-g", "-gz=zlib"]));
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text", shf::ALLOC, &[3; 64]);
        let (kind, flags, size) = (sht::NOBITS, shf::ALLOC | shf::WRITE, Some(1 << 20));
        builder.section(Section {
            name: ".bss",
            kind,
            flags,
            size,
            align: 64,
            ..Section::default()
        });
        builder.symbol(Sym {
            name: "l",
            section: text,
            value: 3,
            size: 9,
            ..Sym::default()
        });
        let f = builder.global("f", text, 8);
        builder.group(f, 1, &[text]);
        builder.rel(text, &[(0, f, 1, 0), (8, 1, 3, 0), (60, 0, 2, 0)]);
        all.push(builder.build().bytes);
    }
    all
}

/// Numbers that look like chance, the same every time (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).unwrap()).unwrap()
    }
}

/// Damages the bytes in one to three places, half of them in the headers.
fn damage(bytes: &mut Vec<u8>, headers: usize, chance: &mut Chance) {
    const EDGES: [u64; 12] = [
        0,
        1,
        2,
        7,
        0x7f,
        0xff,
        0xffff,
        0xff00,
        0x7fff_ffff,
        0xffff_ffff,
        1 << 63,
        u64::MAX,
    ];
    for _ in 0..=chance.below(3) {
        let start = if chance.below(2) == 0 {
            headers.min(bytes.len())
        } else {
            0
        };
        let at = start + chance.below(bytes.len() - start);
        let width = 1 << chance.below(4);
        let value = match chance.below(3) {
            0 => EDGES[chance.below(EDGES.len())],
            1 => chance.next() % 64,
            _ => chance.next(),
        };
        match chance.below(8) {
            0 => bytes.truncate(at),
            1 | 2 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << chance.below(8);
                }
            }
            _ => {
                let raw = value.to_le_bytes();
                for (byte, raw) in bytes.iter_mut().skip(at).zip(&raw[..width]) {
                    *byte = *raw;
                }
            }
        }
    }
}

/// Reads, walks everything, verifies; answers whether it could be read.
fn check(bytes: &[u8]) -> bool {
    let name = InputName::file("t.o");
    let graph = match read_object_with(name, bytes.to_vec().into(), arch::find) {
        Ok(graph) => graph,
        Err(error) => {
            assert!(error.to_string().starts_with("t.o: "));
            return false;
        }
    };
    let mut edges = Vec::new();
    for block in graph.blocks() {
        black_box(graph.content(block).bytes().len());
        if graph.edges(block, &mut edges).is_ok() {
            assert_eq!(graph.n_edges(block), edges.len());
        }
        for edge in &edges {
            black_box(graph.symbol(edge.target));
        }
    }
    for (id, _) in graph.inputs() {
        let _ = black_box(address_significant(&graph, id));
    }
    for violation in verify(&graph, Stage::Read) {
        assert!(violation.rule == "edges-decode", "{violation}");
    }
    true
}

#[test]
fn damaged_objects_never_panic_and_stay_sound() {
    let objects = objects();
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut n_read = 0;
    for n in 0..N {
        let object = &objects[n % objects.len()];
        let header = Header::parse(object).unwrap();
        let mut bytes = object.clone();
        damage(
            &mut bytes,
            usize::try_from(header.section_headers).unwrap(),
            &mut chance,
        );
        n_read += usize::from(check(&bytes));
    }
    // Damage that is always found, or never, would say little.
    assert!(
        (N / 20..N - N / 20).contains(&n_read),
        "{n_read} of {N} were read"
    );
}
