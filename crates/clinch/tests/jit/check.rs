//! `-check`: rules over a real link.

use super::{PROGRAM, fails, objects, succeeds};
use std::fs;

const SLAB: [&str; 8] = [
    "-noexec",
    "-slab-allocate",
    "100Kb",
    "-slab-page-size=4096",
    "-slab-address",
    "0x10000000",
    "-abs",
    "far=0x7fff00000000",
];

fn words<'w>(more: &[&'w str]) -> Vec<&'w str> {
    SLAB.iter().chain(more).copied().collect()
}

#[test]
fn rules_that_hold() {
    let folder = objects(PROGRAM);
    let rules = "# jitlink-check: *{8}data = 42\n\
        # jitlink-check: *{4}(common) = 0\n\
        # jitlink-check: decode_operand(calls, 0) = stub_addr(main.o, far) - next_pc(calls)\n\
        # jitlink-check: *{8}(got_addr(main.o, far)) = far\n\
        # jitlink-check: *{8}(got_addr(main.o, data)) = \\\n\
        # jitlink-check:   data\n\
        # jitlink-check: decode_operand(calls+5, 4) = got_addr(main.o, data) - (calls + 11)\n\
        # jitlink-check: decode_operand(calls+11, 3) = low\n\
        # jitlink-check: decode_operand(calls+11, 5) = data\n\
        # jitlink-check: section_addr(main.o, .text) = main\n\
        # jitlink-check: section_addr(main.o, .common) = common\n\
        # jitlink-check: *{2}main = 0xc031\n\
        # jitlink-check: far[47:32] = 0x7fff\n";
    fs::write(folder.path().join("good"), rules).unwrap();
    succeeds(folder.path(), words(&["main.o", "-check=good"]));
    succeeds(
        folder.path(),
        words(&["-check", "good", "--check=good", "main.o"]),
    );
    // Each of them is looked at: made false, it fails and is named with both values.
    for (index, _) in rules.match_indices(" = ") {
        let changed = format!("{} = 1 + {}", &rules[..index], &rules[index + 3..]);
        if rules[index..].starts_with(" = \\") {
            continue;
        }
        fs::write(folder.path().join("bad"), changed).unwrap();
        let said = fails(folder.path(), words(&["main.o", "-check=bad"]));
        assert!(
            said.contains("is false: 0x") && said.contains(" != 0x"),
            "{said}"
        );
        assert!(
            said.ends_with("llvm-jitlink error: Some checks in bad failed\n"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

#[test]
fn all_rules_of_all_files_are_told() {
    let folder = objects(PROGRAM);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "one",
        "# jitlink-check: 1 = 2\n# jitlink-check: 1 = 1\n# jitlink-check: none = 1\n",
    );
    write(
        "two",
        "# jitlink-check: got_addr(main.o, main) = 0\n# jitlink-check: 3 = 4\n",
    );
    write("none", "# other-check: 1 = 1\n");
    let said = fails(
        folder.path(),
        words(&["main.o", "-check=one", "-check=two", "-check=none"]),
    );
    let expected = "Expression '1 = 2' is false: 0x1 != 0x2\n\
        Error evaluating expression 'none = 1': no known address for symbol 'none'\n\
        Error evaluating expression 'got_addr(main.o, main) = 0': no GOT entry for \"main\" \
        registered for file \"main.o\"\n\
        Expression '3 = 4' is false: 0x3 != 0x4\n\
        llvm-jitlink error: Some checks in one failed\n\
        llvm-jitlink error: Some checks in two failed\n\
        llvm-jitlink error: Some checks in none failed\n";
    assert_eq!(said, expected);
    succeeds(
        folder.path(),
        words(&["main.o", "-check=none", "-check-name=other-check"]),
    );
    let said = fails(folder.path(), words(&["main.o", "-check=missing"]));
    assert_eq!(
        said,
        "llvm-jitlink error: 'missing': No such file or directory\n"
    );
}

#[test]
fn names_of_files_in_rules() {
    let folder = objects(
        "//--- main.s\n.globl main\nmain: call f@plt\n ret\n.type main,@function\n\
         //--- f.s\n.globl f\nf: movq v@GOTPCREL(%rip),%rax\n jmp *v@GOTPCREL(%rip)\n ret\n\
         .type f,@function\n.section .text.b,\"ax\",@progbits\n.globl g\ng: nop\n",
    );
    let path = folder.path();
    let archive = crate::support::archive("libf.a", "ar", "rcs", &[path.join("f.o")]);
    fs::copy(archive, path.join("libf.a")).unwrap();
    let rule = "# jitlink-check: section_addr(libf.a[0](f.o), .text) = f\n\
                # jitlink-check: *{8}got_addr(libf.a[0](f.o), v) = v\n\
                # jitlink-check: section_addr(libf.a[0](f.o), .text.b) = g\n";
    fs::write(path.join("rules"), rule).unwrap();
    let abs = "-abs=v=0x7fff12345678";
    succeeds(path, ["-noexec", abs, "main.o", "libf.a", "-check=rules"]);
    let folder_of_its_own = path.join("other");
    fs::create_dir(&folder_of_its_own).unwrap();
    fs::copy(path.join("f.o"), folder_of_its_own.join("main.o")).unwrap();
    let said = fails(
        path,
        ["-noexec", abs, "main.o", "other/main.o", "-check=rules"],
    );
    assert!(
        said.contains("file names must be distinct (duplicate: \"main.o\")"),
        "{said}"
    );
}

/// An object that nothing needs is not linked, so rules do not know it.
#[test]
fn only_what_is_linked_is_known() {
    let folder =
        objects("//--- main.s\n.globl main\nmain: ret\n//--- idle.s\n.globl idle\nidle: ret\n");
    fs::write(
        folder.path().join("rules"),
        "# jitlink-check: idle = idle\n",
    )
    .unwrap();
    let said = fails(
        folder.path(),
        ["-noexec", "main.o", "idle.o", "-check=rules"],
    );
    assert!(
        said.contains("no known address for symbol 'idle'"),
        "{said}"
    );
    succeeds(
        folder.path(),
        ["-noexec", "-entry=idle", "main.o", "idle.o", "-check=rules"],
    );
}
