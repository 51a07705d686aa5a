//! What `-show-…` prints.

use super::{PROGRAM, objects, succeeds};
use crate::support::{archive, available, run};
use std::fs;
use std::process::Command;

const SLAB: [&str; 4] = [
    "-noexec",
    "-slab-allocate=100",
    "-slab-address=0x10000000",
    "-abs=far=0x7fff00000000",
];

#[test]
fn graphs() {
    let folder = objects(PROGRAM);
    let words = SLAB.into_iter().chain(["-show-graphs=^ma.n", "main.o"]);
    let text = succeeds(folder.path(), words).text();
    let head = "Link graph \"main.o\" post-fixup:\nLinkGraph \"main.o\" (triple = x86_64--)\n\
                section $__GOT:\n\n  block 0x1000";
    assert!(text.starts_with(head), "{text}");
    for part in [
        "size = 0x00000008, align = 8, alignment-offset = 0\n    symbols:\n",
        "kind = Pointer64, target = far\n",
        "kind = BranchPCRel32ToPtrJumpStubBypassable, target = addressable@0x1000",
        "section .common:\n\n",
        "size = 0x00000010, align = 8, alignment-offset = 0, zero-fill\n",
        "linkage: strong, scope: default, live  -   main\n",
        "linkage: strong, scope: local, live  -   low\n",
        "addend = -0x00000004, kind = Delta32, target = addressable@",
        "    no edges\n",
        "\nAbsolute symbols:\n  none\n",
        "\nExternal symbols:\n  0x7fff00000000: 0x7fff00000000 (addressable + 0x00000000): size: \
         0x00000000, linkage: strong, scope: default, live  -   far\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let words = SLAB.into_iter().chain(["-show-graphs=other", "main.o"]);
    assert_eq!(succeeds(folder.path(), words).text(), "");
}

#[test]
fn addresses() {
    let folder = objects(PROGRAM);
    let words = SLAB.into_iter().chain(["-show-addrs", "main.o"]);
    let text = succeeds(folder.path(), words).text();
    assert!(
        text.starts_with("Registered addresses:\nSymbols:\n"),
        "{text}"
    );
    let line = |start: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(start));
        lines
            .next()
            .unwrap_or_else(|| panic!("{start}\n{text}"))
            .to_owned()
    };
    assert!(line("  \"main\" target addr = 0x0000000010").contains(", content: 0x10"));
    assert!(line("  \"main\"").ends_with(" (3 bytes)"));
    assert!(line("  \"common\"").ends_with(", zero-fill: 16 bytes"));
    assert_eq!(
        line("  \"far\""),
        "  \"far\" target addr = 0x00007fff00000000, zero-fill: 0 bytes"
    );
    assert_eq!(line("File"), "File \"main.o\":");
    assert!(line("  Section \".data\": target addr = ").ends_with(" (12 bytes)"));
    assert!(line("  GOT \"far\": target addr = ").ends_with(" (8 bytes)"));
    line("  GOT \"data\": target addr = ");
    line("  Stubs \"far\": target addr = ");
}

#[test]
fn linked_files_and_contents() {
    let folder = objects(
        "//--- main.s\n.globl main\nmain: call f@plt\nret\n//--- f.s\n.globl f\nf: ret\n\
         //--- idle.s\n.globl idle\nidle: ret\n",
    );
    let path = folder.path();
    let library = archive(
        "libf.a",
        "ar",
        "rcs",
        &[path.join("idle.o"), path.join("f.o")],
    );
    fs::copy(library, path.join("libf.a")).unwrap();
    let words = [
        "-noexec",
        "-show-linked-files",
        "idle.o",
        "main.o",
        "libf.a",
    ];
    let text = succeeds(path, words).text();
    assert_eq!(text, "Linking main.o\nLinking libf.a[1](f.o)\n");

    fs::write(path.join("bytes"), (0..20).collect::<Vec<u8>>()).unwrap();
    let user = objects("//--- user.s\n.globl main\nmain: movl b(%rip), %eax\nret\n");
    fs::copy(user.path().join("user.o"), path.join("user.o")).unwrap();
    let words = SLAB.into_iter().chain([
        "-show-relocated-section-contents",
        "-sectcreate=own,bytes@b=0",
        "user.o",
    ]);
    let text = succeeds(path, words).text();
    let start = text
        .find("own content:\n")
        .unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> = text[start..].lines().take(3).collect();
    assert_eq!(
        lines[1],
        "0x10000000: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"
    );
    assert_eq!(lines[2], "0x10000010: 10 11 12 13");
    assert!(
        text.contains("Relocated section contents for user.o:\n"),
        "{text}"
    );
}

#[test]
fn sizes_and_times() {
    let folder = objects("//--- main.s\n.globl main\nmain: ret\n.data\n.zero 100\n");
    let words = [
        "-noexec",
        "-show-times",
        "-pre-prune-total-block-size",
        "-post-fixup-total-block-size",
        "main.o",
    ];
    let said = succeeds(folder.path(), words).errors();
    let size = |what: &str| -> u64 {
        let at = said.find(what).unwrap_or_else(|| panic!("{said}")) + what.len();
        said[at..].lines().next().unwrap().trim().parse().unwrap()
    };
    let before = size("Total size of all blocks before pruning:");
    let after = size("Total size of all blocks after fixups:");
    assert!(before >= 101 && after < 100, "{before} {after}");
    assert!(said.contains("total"), "{said}");
}

const NAMES: &str = "//--- main.s\n.globl main\n.type main,@function\nmain: movl v(%rip), %eax\n\
     ret\n.size main,.-main\n.weak w\n.data\nw: .long 1\n.hidden hid\n.globl hid\nhid: .long 2\n\
     .comm com,16,8\n.section .init_array,\"aw\",@init_array\n.quad main\n\
     //--- v.s\n.globl v\n.data\nv: .long 0\n\
     //--- idle.s\n.globl idle\n.type idle,@function\nidle: ret\n";

/// The dylib's symbols before and after linking, as llvm-jitlink prints them but for pointers.
#[test]
fn symbol_tables() {
    let folder = objects(NAMES);
    let path = folder.path();
    let library = archive("libv.a", "ar", "rcs", &[path.join("v.o")]);
    fs::copy(library, path.join("libv.a")).unwrap();
    let words = [
        "-noexec",
        "-show-init-es",
        "-all_load",
        "idle.o",
        "main.o",
        "libv.a",
    ];
    let text = succeeds(path, words).text();
    let expected = "JITDylib \"Process\" (ES: 0x, State = Open)\n\
        Link order: [ (\"Process\", MatchAllSymbols) ]\nSymbol table:\n\
        JITDylib \"main\" (ES: 0x, State = Open)\n\
        Link order: [ (\"main\", MatchAllSymbols), (\"Process\", MatchExportedSymbolsOnly) ]\n\
        Symbol table:\n\
        \x20   \"$.main.o.__inits.0\": <not resolved>  [Data][Hidden] Never-Searched (Materializer 0x, main.o)\n\
        \x20   \"com\": <not resolved>  [Data][Common] Never-Searched (Materializer 0x, main.o)\n\
        \x20   \"hid\": <not resolved>  [Data][Hidden] Never-Searched (Materializer 0x, main.o)\n\
        \x20   \"idle\": <not resolved>  [Callable] Never-Searched (Materializer 0x, idle.o)\n\
        \x20   \"main\": <not resolved>  [Callable] Never-Searched (Materializer 0x, main.o)\n\
        \x20   \"v\": <not resolved>  [Data] Never-Searched (Materializer 0x, libv.a[0](v.o))\n\
        \x20   \"w\": <not resolved>  [Data][Weak] Never-Searched (Materializer 0x, main.o)\n";
    assert_eq!(without_numbers(&text), expected);
    if available(&["llvm-jitlink-22"]) {
        let mut peer = Command::new("llvm-jitlink-22");
        let output = run(peer.args(words).current_dir(path), b"");
        assert_eq!(without_numbers(&output.text()), expected, "{output:?}");
    }

    let words = [
        "-noexec",
        "-show-entry-es",
        "-no-process-syms",
        "idle.o",
        "main.o",
        "libv.a",
    ];
    let text = without_numbers(&succeeds(path, words).text());
    let head = "JITDylib \"main\" (ES: 0x, State = Open)\n\
                Link order: [ (\"main\", MatchAllSymbols) ]\nSymbol table:\n";
    assert!(text.starts_with(head), "{text}");
    for line in [
        "    \"idle\": <not resolved>  [Callable] Never-Searched (Materializer 0x, idle.o)\n",
        "    \"main\": 0x [Callable] Ready\n",
        "    \"v\": 0x [Data] Ready\n",
        "    \"$.main.o.__inits.0\": <not resolved>  [Data][Hidden] Ready\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// The text without the digits of hexadecimal numbers.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("0x");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}
