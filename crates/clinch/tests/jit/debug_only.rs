//! `-debug` and `-debug-only`: what is told of linking, in the words of an LLVM with assertions.
//! Such an LLVM is not at hand; the texts are those that its tests read.

use super::{PROGRAM, fails, objects, succeeds};

/// What is told with these options, on a link of one source that succeeds.
#[track_caller]
fn told(source: &str, words: &[&str]) -> String {
    let folder = objects(source);
    let words = words.iter().copied().chain(["-noexec", "main.o"]);
    succeeds(folder.path(), words).errors()
}

/// Asserts that texts stand in one another's order.
#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("no {part:?} in its place in {text}"));
        rest = &rest[at + part.len()..];
    }
}

/// Two functions with call frame records, of which one is dead; a stub and a GOT entry; loads
/// and jumps that need none.
const FAR: &str = "//--- main.s\n\
    .text\n.globl main\n.type main,@function\nmain: .cfi_startproc\n\
    .cfi_personality 0x9b, DW.ref.personality\n.cfi_lsda 0x1b, lsda\n\
    call far@PLT\nmovq far@GOTPCREL(%rip), %rax\ncall *main@GOTPCREL(%rip)\n\
    jmp *main@GOTPCREL(%rip)\n.cfi_endproc\n.size main,.-main\n\
    .section .text.dead,\"ax\",@progbits\ndead: .cfi_startproc\nnop\n.cfi_endproc\n\
    .section .gcc_except_table,\"a\",@progbits\nlsda: .byte 255,255,1,0\n\
    .data\n.weak DW.ref.personality\n.hidden DW.ref.personality\n\
    DW.ref.personality: .quad far\n\
    .section .note.GNU-stack,\"\",@progbits\n";
const FAR_AWAY: [&str; 2] = ["-abs", "far=0x123456789abcdef0"];

#[test]
fn an_object_is_read() {
    let text = told(PROGRAM, &["-debug-only=jitlink", "-phony-externals"]);
    in_order(
        &text,
        &[
            "Building jitlink graph for new input main.o...\n",
            "Created ELFLinkGraphBuilder for \"main.o\"",
            "  Creating graph sections...\n    0: has type SHT_NULL. Skipping.\n",
            ": Creating section for \".text\"\n",
            "\".note.GNU-stack\" is not a SHF_ALLOC section. Using NoAlloc lifetime.\n",
            "  Creating graph symbols...\n    Adding symbols from symtab section \".symtab\"\n",
            ": Creating defined graph symbol for ELF symbol \"main\"\n",
            ": Creating external graph symbol for ELF symbol \"far\"\n",
            "Processing relocations:\n  .text:\n",
            "-- BranchPCRel32 -> far\n",
        ],
    );
    assert!(
        !text.contains("\".text\" is not a SHF_ALLOC section"),
        "{text}"
    );
    assert!(!text.contains("ELF symbol \"common\""), "{text}");
}

#[test]
fn call_frame_records_are_kept_by_their_functions() {
    let text = told(FAR, &["-debug-only=jitlink", FAR_AWAY[0], FAR_AWAY[1]]);
    in_order(
        &text,
        &[
            "DWARFRecordSectionSplitter: Processing .eh_frame...\n  Processing block at 0x0\n    \
             Processing CFI record at 0x0\n",
            "EHFrameEdgeFixer: Processing .eh_frame in \"main.o\"...\n",
            "    Record is CIE\n      Existing edge at ",
            " to personality at 0x0 (DW.ref.personality)\n",
            "    Record is FDE\n        Adding edge at ",
            " to CIE at: 0x0\n      Processing PC-begin at ",
            "        Adding keep-alive edge from target at 0x0 to FDE at ",
            " to LSDA at 0x0",
            "Adding keep-alive edge from target at 0x0 to FDE at ",
            "EHFrameNullTerminator adding null terminator to .eh_frame\n",
            "kind = Keep-Alive, target = addressable@",
        ],
    );
    let bare = "//--- main.s\n.globl main\nmain: ret\n";
    in_order(
        &told(bare, &["-debug-only=jitlink"]),
        &[
            "DWARFRecordSectionSplitter: No .eh_frame section. Nothing to do\n",
            "EHFrameEdgeFixer: No .eh_frame section in \"main.o\". Nothing to do.\n",
        ],
    );
}

#[test]
fn a_link_is_told_phase_by_phase() {
    let text = told(FAR, &["-debug-only", "jitlink", FAR_AWAY[0], FAR_AWAY[1]]);
    in_order(
        &text,
        &[
            "Starting link phase 1\n",
            "Link graph pre-pruning:\nLinkGraph \"main.o\" (triple = x86_64--)\n",
            "  block 0xfffffffffffffffb size = 0x00000004, align = 1, alignment-offset = 0\n",
            "scope: local, dead  -   dead\n",
            "Dead-stripping defined symbols:\n",
            "linkage: strong, scope: local, dead  -   dead...\n",
            "Dead-stripping blocks:\n",
            "content, align = 1, align-ofs = 0, section = .text.dead...\n",
            "Removing unused external symbols:\n",
            "Link graph post-pruning:\n",
            "section .text.dead:\n\nAbsolute symbols:\n",
            "Visiting edges in graph:\n  Fixing BranchPCRel32 edge at 0x1 (0x0 + 0x1)\n",
            "    Created $__GOT entry for far: 0x0 (block + 0x00000000): size: 0x00000008, ",
            "    Using $__GOT entry ",
            "    Created $__STUBS entry for far: ",
            "    Using $__STUBS entry ",
            "  Fixing RequestGOTAndTransformToPCRel32GOTLoadREXRelaxable edge at 0x8 (0x0 + 0x8)\n    \
             Using $__GOT entry ",
            "Generated BasicLayout for main.o:\n  Seg (",
            "Starting link phase 2\nLink graph before post-allocation passes:\n",
            "Resolving symbols defined in main.o\nIssuing lookup for external symbols for main.o",
            "Starting link phase 3\nExternals after applying lookup result:\n  \
             far: 0x123456789abcdef0 (exported)\nLink graph before pre-fixup passes:\n",
            "Optimizing GOT entries and stubs:\n  \
             replaced call instruction's memory operand wih imm operand:\n    edge@0x",
            " + 0xe -- BranchPCRel32 -> main\n  \
             replaced jmp instruction's memory operand wih imm operand:\n    edge@0x",
            " + 0x13 -- BranchPCRel32 -> main\n",
            "Link graph before copy-and-fixup:\n",
            "section $__GOT:\n",
            "kind = Pointer64, target = far\n",
            "Link graph after copy-and-fixup:\n",
            "Starting link phase 4\nLink complete\n",
        ],
    );
    assert_eq!(text.matches("Created $__GOT entry").count(), 1, "{text}");
    // Of a file that needs nothing, that is told; a load of an address in reach becomes one of
    // the address itself.
    let near = "//--- main.s\n.globl main\nmain: movq data@GOTPCREL(%rip), %rax\nret\n\
        .data\n.globl data\ndata: .quad 1\n";
    in_order(
        &told(near, &["-debug-only=jitlink"]),
        &[
            "Link graph post-pruning:\n",
            "Visiting edges in graph:\nGenerated BasicLayout",
            "No external symbols for main.o. Proceeding immediately with link phase 3.\n",
            "  Replaced GOT load wih LEA:\n    edge@0x",
            " -> data\n",
        ],
    );
}

/// LLVM's test LocalDependencyPropagation, as an ELF object: `baz` waits for `foo` through a
/// function that has no name for others.
#[test]
fn what_symbols_wait_for_is_told_and_simplified() {
    let source = "//--- main.s\n\
        .section .text.foo,\"ax\",@progbits\n.globl main\n.type main,@function\n\
        main: jmp external\n\
        .section .text.bar,\"ax\",@progbits\nbar: jmp main\n\
        .section .text.baz,\"ax\",@progbits\n.globl baz\n.type baz,@function\nbaz: jmp bar\n\
        .section .text.lone,\"ax\",@progbits\n.weak lone\n.hidden lone\nlone: jmp baz\n\
        .data\n.globl data\n.type data,@object\ndata: .quad main, baz, lone\n";
    let text = told(source, &["-debug-only=orc", "-abs", "external=1"]);
    in_order(
        &text,
        &[
            "Looking up { (main, RequiredSymbol) } in [ (\"main\", MatchAllSymbols), (\"Process\", \
             MatchExportedSymbolsOnly) ] (required state: Ready)\n",
            "Defining MU main.o for main (tracker: default)\n",
            "(\"lone\", [Data][Weak][Hidden]), (\"main\", [Callable]) }\n",
            "Dispatching MaterializationUnits...\n  Dispatching \"main.o\"\n",
            "In main resolving { ",
            "Looking up { (external, RequiredSymbol) } in [ ",
            "In main emitting { ",
            "(\"main\", [Callable]) }\n  Initial dependencies:\n",
            "    Symbols: { baz }, Dependencies: { (main, { main }) }\n",
            "    Symbols: { main }, Dependencies: { (main, { external }) }\n",
            "  Simplified dependencies:\n    Defs: { (main, [ ",
            "baz",
            "main ]) }, Deps: { (main, [ external ]) }\n",
        ],
    );
    // Without what it waits for, nothing is emitted.
    let folder = objects(source);
    let said = fails(
        folder.path(),
        ["-debug-only=orc", "-no-process-syms", "main.o", "-noexec"],
    );
    assert!(
        said.contains("In main resolving {") && !said.contains("emitting"),
        "{said}"
    );
    assert!(!said.contains("Process"), "{said}");
}

#[test]
fn the_tool_tells_of_the_session() {
    let text = told(
        PROGRAM,
        &[
            "-debug-only=llvm_jitlink",
            "-show-addrs",
            "-phony-externals",
        ],
    );
    in_order(
        &text,
        &[
            "Creating JITDylibs...\n  0: main\nDylib search order is [ main Process ]\n",
            "Adding objects...\n",
            "\"main.o\"  to main\n",
            "Registering ELF file info for \"main.o\"\n",
            "  Section \".text\": processing...\n",
            "Using entry point \"main\": 0x0000",
        ],
    );
}

#[test]
fn only_what_is_asked_for_is_told() {
    let quiet: [&[&str]; 4] = [
        &[],
        &["-debug-only=nothing"],
        &["-debug-only="],
        &["-debug-only=jitlink:0,nothing"],
    ];
    for words in quiet {
        let words: Vec<&str> = words.iter().copied().chain(["-phony-externals"]).collect();
        assert_eq!(told(PROGRAM, &words), "", "{words:?}");
    }
    let has = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(["-phony-externals"]).collect();
        let text = told(PROGRAM, &words);
        [
            "Starting link phase",
            "In main emitting",
            "Creating JITDylibs",
        ]
        .map(|t| text.contains(t))
    };
    assert_eq!(has(&["-debug"]), [true, true, true]);
    assert_eq!(has(&["-debug-only=orc,llvm_jitlink"]), [false, true, true]);
    assert_eq!(has(&["-debug-only=orc:0"]), [true, false, true]);
    assert_eq!(
        has(&["-debug", "-debug-only=jitlink"]),
        [true, false, false]
    );
}
