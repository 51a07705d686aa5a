//! The seed corpus: small inputs of every shape that a compiler, assembler, archiver or linker on
//! this machine can make. A tool that is missing costs its seeds, nothing else.

use crate::shell::{self, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Raise it when the seeds change: corpora that were made from an older list get the new ones.
const VERSION: &str = "2";

/// Which seeds a target reads, by their file's extension.
fn extension(target: &str) -> &'static str {
    match target {
        "archive" => "a",
        "check_language" => "check",
        "shared_object" => "so",
        "graph_text" => "lg",
        "executor_messages" => "msg",
        "command_line" => "words",
        // Any bytes are choices.
        "generated_graph" | "executor_client" | "executor_server" => "none",
        _ => "o",
    }
}

/// C programs that need no header, so that `-m32` works without a second C library.
static C: &[(&str, &str)] = &[
    (
        "hello",
        "int puts(const char *); int main(void) { return puts(\"hello\") < 0; }",
    ),
    (
        "data",
        "extern int far; int common; static int zero[40]; int one = 1; int *p = &one, *q = &far;\n\
         const char *names[] = {\"a\", \"bc\", \"bc\"};\n\
         int get(int i) { return zero[i] + common + *q + names[i][0]; }",
    ),
    (
        "tls",
        "__thread int mine = 7; static __thread int local; extern __thread int theirs;\n\
         int *f(int i) { return i ? &mine : i + 1 ? &local : &theirs; }",
    ),
    (
        "attributes",
        "__attribute__((constructor(200))) void up(void) {}\n\
         __attribute__((destructor)) void down(void) {}\n\
         __attribute__((weak)) int w(void) { return 1; }\n\
         __attribute__((visibility(\"hidden\"))) int h;\n\
         __attribute__((section(\"own\"), used, aligned(64))) int o = 3;\n\
         int a(void) __attribute__((alias(\"w\")));\n\
         extern char __start_own[], __stop_own[]; char *r(void) { return __start_own; }",
    ),
    (
        "ifunc",
        "static int one(void) { return 1; } static void *pick(void) { return one; }\n\
         int chosen(void) __attribute__((ifunc(\"pick\"))); int f(void) { return chosen(); }",
    ),
    (
        "switch",
        "int g(int); int f(int i) { switch (i) { case 0: return g(9); case 1: return g(4);\n\
         case 2: return g(7); case 3: return g(1); case 4: return g(3); default: return 0; } }",
    ),
];

/// Flags that change what an object holds.
static C_FLAGS: &[(&str, &[&str])] = &[
    ("o0", &["-O0"]),
    ("o2", &["-O2", "-ffunction-sections", "-fdata-sections"]),
    ("abs", &["-O2", "-fno-pic", "-fno-pie", "-fcommon"]),
    ("pic", &["-O1", "-fPIC"]),
    ("large", &["-O1", "-mcmodel=large", "-fno-pic", "-fno-pie"]),
    ("g", &["-g", "-O1"]),
    ("gz", &["-g", "-gz=zlib"]),
    ("m32", &["-m32", "-O1", "-fno-pic", "-fno-pie"]),
];

/// C++ for COMDAT groups, exception tables and unique symbols.
const CXX: &str = "struct E { int n; virtual ~E() {} };\n\
    template <class T> struct S { static T value; virtual T get() { return value; } };\n\
    template <class T> T S<T>::value = 5; inline int &counter() { static int c; return c; }\n\
    int f(int i) { S<int> s; try { if (i) throw 1; } catch (int e) { return e; }\n\
    return s.get() + counter()++; }";

/// Assembly that every target's assembler takes.
const NEUTRAL: &str = "\t.text\n\t.globl f\n\t.type f,%function\nf:\n\t.long 0\n\t.size f,4\n\
    \t.data\n\t.globl d\n\t.p2align 2\nd:\n\t.long f\n\t.long g+4\n\t.long f-f\n\
    \t.section .rodata.str,\"aMS\",%progbits,1\n\t.asciz \"abc\"\n\
    \t.section .bss.z,\"aw\",%nobits\n\t.zero 24\n\
    \t.section .text.group,\"axG\",%progbits,sig,comdat\n\t.weak sig\nsig:\n\t.long 1\n\
    \t.section .init_array,\"aw\",%init_array\n\t.p2align 3\n\t.long f\n\t.long 0\n\
    \t.section .note.x,\"a\",%note\n\t.long 4,4,1\n\t.asciz \"GNU\"\n\t.long 7\n\
    \t.comm shared,16,8\n\t.local own\n\t.comm own,8,4\n\t.set absolute,77\n";

/// Assembly that every target's linker makes a shared object of.
const EXPORTS: &str = "\t.text\n\t.globl f\n\t.type f,%function\nf:\n\t.long 0\n\t.size f,4\n\
    \t.data\n\t.globl d\n\t.type d,%object\nd:\n\t.long 7\n\t.size d,4\n\t.weak missing\n";

/// Targets of 32 and 64 bits and both byte orders; most are unknown to clinch, which is a seed too.
static TRIPLES: &[&str] = &[
    "x86_64-linux-gnu",
    "x86_64-linux-gnux32",
    "i386-linux",
    "aarch64-linux",
    "aarch64_be-linux",
    "armv7-linux",
    "armv7eb-linux",
    "riscv32",
    "riscv64",
    "powerpc-linux",
    "powerpc64-linux",
    "s390x-linux",
    "mips-linux",
    "mips64el-linux",
    "loongarch64",
    "sparcv9-linux",
];

/// Graphs in the text form.
static GRAPHS: &[&str] = &[
    "graph \"\" x86_64\n",
    "graph \"hello.o\" x86_64\ncomdat c1 $3 any\nsection s1 \".text\" r-x\n\
     \x20 block b1 size 9 align 16\n    bytes 55 48 89 e5 e8 00 00 00 00\n\
     \x20   edge +0x5 KeepAlive $2 - 4\n\
     section s2 \".rodata.f\" r-- comdat c1 entry 1 merge strings\n\
     \x20 block b2 size 6 align 1\n    string \"hello\\x00\"\n\
     section s3 \".bss\" rw- kind regular lifetime noalloc ordinal 9\n\
     \x20 block b3 size 4096 align 64 offset 8 zero\n\
     symbol $1 \"main\" b1+0x0 size 9 callable\nsymbol $2 \"puts\" external weakly-referenced\n\
     symbol $3 \"f\" b2+0x0 weak hidden\nsymbol $4 b2+0x0 section\n\
     symbol $5 \"limit\" absolute 0x1000\n\
     symbol $6 \"buf\" common align 32 size 64 object\nsymbol $7 \"gone\" discarded\n\
     associate b1 b2\n",
];

/// Rules of the check language, every form of them.
const RULES: &str = "# jitlink-check: *{8}a = 0x2a\n\
    # jitlink-check: decode_operand(main, 4) = \\\n\
    # jitlink-check:   got_addr(f.o, a) - next_pc(main)\n\
    # jitlink-check: decode_operand(main+0x7, 0)[31:0] = (stub_addr(lib.a[0](f.o), b))[31:0]\n\
    # jitlink-check: stub_addr(f.o, b, thumbv7_abs_le) = *{4}(section_addr(f.o, __DATA,__data)) + 4\n\
    # jitlink-check: ((a.b$c:d | 1) & 0xff << 2) >> 3 = _e - 99999999999999999999\n";

/// Command lines: which command, its words, and behind 255 each response file.
static WORDS: &[&[u8]] = &[
    b"\0a.o\n-noexec\n-entry=f\n-abs\nx=0x10\n-args\n-x\n--\n",
    b"\0-check=f\n--check-name\nn\n-slab-allocate=10Mb\n-slab-address=0x1000\n-slab-page-size=4096",
    b"\0-alias=a=b\n-sectcreate=s,f@x=1,y=0x2\n-harness\nh.o\n-args\n1\n-debug-only=orc:0,a",
    b"\0-l\nm\n-lz\n-L.\n-hidden-lx\n-weak-ly\n-show-graphs=a.*[bc]\n-num-threads=2\nb.a",
    b"\0@0\nc.o\n@2\n--\n@0\xff-noexec 'a b' \"c\\\"d\" @1\xff-jd x\\ y\n\t-lazy @1",
    b"\x01a.c\n-O2\n-I\ninc\n-DX=1\n-lm\n-L\nl\n-std=c11\n--gdb\n--time\n--\n-x",
    b"\x01@0\n-entry=f\n-num-threads\n3\xff-include h -pthread -Ufoo -w",
];

/// Makes the seeds and puts them into the corpora of these targets. Says what it did.
pub(crate) fn make(targets: &[String]) -> Result<String> {
    let corpora = shell::root().join("fuzz/corpus");
    let stale: Vec<&String> = targets
        .iter()
        .filter(|target| !corpora.join(target).join(marker()).exists())
        .collect();
    if stale.is_empty() {
        return Ok("seeds are there".to_owned());
    }
    let folder = shell::target_folder().join("fuzz-seeds");
    fs::create_dir_all(&folder)?;
    let mut maker = Maker { folder, failed: 0 };
    maker.objects()?;
    maker.archives()?;
    maker.shared_objects()?;
    maker.graphs()?;
    fs::write(maker.folder.join("rules.check"), RULES)?;
    maker.messages()?;
    for (index, words) in WORDS.iter().enumerate() {
        fs::write(maker.folder.join(format!("line{index}.words")), words)?;
    }
    let mut copied = 0;
    for target in stale {
        let corpus = corpora.join(target);
        fs::create_dir_all(&corpus)?;
        for file in with_extension(&maker.folder, extension(target))? {
            if let Some(name) = file.file_name() {
                fs::copy(&file, corpus.join(name))?;
                copied += 1;
            }
        }
        fs::write(corpus.join(marker()), "")?;
    }
    Ok(format!(
        "{copied} seeds, {} could not be made",
        maker.failed
    ))
}

fn marker() -> String {
    format!("seeds-{VERSION}")
}

struct Maker {
    folder: PathBuf,
    failed: usize,
}

impl Maker {
    /// Runs a tool in the folder; a failure is counted.
    fn call(&mut self, program: impl AsRef<Path>, arguments: &[&str]) {
        let status = shell::command(program.as_ref())
            .args(arguments)
            .current_dir(&self.folder)
            .env(
                "SYM64_THRESHOLD",
                if arguments.contains(&"sym64.a") {
                    "0"
                } else {
                    ""
                },
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            self.failed += 1;
        }
    }

    fn objects(&mut self) -> Result {
        for (name, text) in C {
            let source = format!("{name}.c");
            fs::write(self.folder.join(&source), text)?;
            for (variant, flags) in C_FLAGS {
                let object = format!("{name}-{variant}.o");
                let arguments = [*flags, &["-w", "-c", &source, "-o", &object]].concat();
                self.call("cc", &arguments);
            }
            let object = format!("{name}-clang.o");
            let crel = ["-Wa,--crel,--allow-experimental-crel", "-gz=zstd", "-g"];
            let rest = ["-w", "-O2", "-faddrsig", "-c", &source, "-o", &object];
            self.call(shell::llvm("clang"), &[&crel[..], &rest[..]].concat());
        }
        fs::write(self.folder.join("cxx.cpp"), CXX)?;
        self.call(
            "c++",
            &["-w", "-O0", "-g", "-c", "cxx.cpp", "-o", "cxx-g.o"],
        );
        self.call("c++", &["-w", "-O1", "-c", "cxx.cpp", "-o", "cxx.o"]);
        fs::write(self.folder.join("neutral.s"), NEUTRAL)?;
        let assembler = shell::llvm("llvm-mc");
        for triple in TRIPLES {
            let target = format!("-triple={triple}");
            for (variant, flags) in [("", &[][..]), ("-crel", &["--crel"][..])] {
                let object = format!("mc-{triple}{variant}.o");
                let arguments = [&target, "--filetype=obj", "neutral.s", "-o", &object];
                self.call(&assembler, &[&arguments[..], flags].concat());
            }
        }
        Ok(())
    }

    /// The graphs above, and those of the file tests: each file holds several, between lines.
    fn graphs(&self) -> Result {
        let mut texts: Vec<String> = GRAPHS.iter().map(ToString::to_string).collect();
        let mut folders = vec![shell::root().join("tests/graph")];
        while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
            for file in with_extension(&folder, "lg")? {
                let text = fs::read_to_string(file)?;
                texts.extend(text.split("----\n").map(str::to_owned));
            }
            for entry in fs::read_dir(&folder)? {
                folders.extend(Some(entry?.path()).filter(|path| path.is_dir()));
            }
        }
        for (index, text) in texts.iter().enumerate() {
            fs::write(self.folder.join(format!("graph{index}.lg")), text)?;
        }
        Ok(())
    }

    /// Messages of the executor protocol: every kind each way, with payloads of zeros, which many
    /// of them take, and with lists of one element.
    fn messages(&self) -> Result {
        let kinds: [(u8, std::ops::RangeInclusive<u16>); 4] =
            [(0, 0x10..=0x23), (1, 0x80..=0x93), (2, 1..=5), (3, 0..=0)];
        for (direction, kinds) in kinds {
            for kind in kinds {
                for size in [0, 4, 8, 9, 12, 17, 26, 49] {
                    let mut message = vec![direction];
                    message.extend(kind.to_le_bytes());
                    message.resize(3 + size, 0);
                    let name = format!("{direction}-{kind:x}-{size}");
                    fs::write(self.folder.join(format!("{name}.msg")), &message)?;
                    if let Some(count) = message.get_mut(3) {
                        *count = 1;
                        fs::write(self.folder.join(format!("{name}-one.msg")), &message)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn archives(&mut self) -> Result {
        // Long names, an odd size, and one name twice.
        fs::write(self.folder.join("odd.txt"), "odd")?;
        let members = [
            "hello-o0.o",
            "attributes-o2.o",
            "mc-x86_64-linux-gnu.o",
            "odd.txt",
        ];
        let ar = shell::llvm("llvm-ar");
        for old in with_extension(&self.folder, "a")? {
            fs::remove_file(old)?;
        }
        let with_members = |first: &[&'static str]| [first, &members[..]].concat();
        self.call("ar", &with_members(&["rcs", "gnu.a"]));
        self.call("ar", &with_members(&["rcS", "noindex.a"]));
        self.call("ar", &with_members(&["rcsT", "thin.a"]));
        self.call("ar", &["rcs", "empty.a"]);
        self.call(
            "ar",
            &["qcs", "twice.a", "hello-o0.o", "data-o2.o", "hello-o0.o"],
        );
        self.call(&ar, &with_members(&["--format=bsd", "rcs", "bsd.a"]));
        self.call(&ar, &with_members(&["--format=darwin", "rcs", "darwin.a"]));
        self.call(&ar, &with_members(&["--format=coff", "rcs", "coff.a"]));
        self.call(&ar, &with_members(&["rcs", "sym64.a"]));
        Ok(())
    }

    fn shared_objects(&mut self) -> Result {
        fs::write(
            self.folder.join("version.map"),
            "V1 { global: get; w; local: h; };\nV2 { global: a; one; } V1;\n",
        )?;
        let objects = ["data-pic.o", "attributes-pic.o"];
        let link = |arguments: &[&'static str]| {
            [&["-shared", "-nostdlib"], arguments, &objects[..]].concat()
        };
        self.call("cc", &link(&["-o", "plain.so"]));
        self.call("cc", &link(&["-o", "sysv.so", "-Wl,--hash-style=sysv"]));
        self.call("cc", &link(&["-o", "gnu.so", "-Wl,--hash-style=gnu", "-s"]));
        let versioned = ["-o", "versions.so", "-Wl,--version-script=version.map"];
        self.call("cc", &link(&versioned));
        self.call(
            "cc",
            &link(&["-o", "needs.so", "-Wl,--no-as-needed,-soname,x.so.1", "-lc"]),
        );
        let lld = shell::llvm("ld.lld");
        let relr = ["-shared", "-zpack-relative-relocs", "-o", "relr.so"];
        self.call(&lld, &[&relr[..], &objects[..]].concat());
        fs::write(self.folder.join("exports.s"), EXPORTS)?;
        let assembler = shell::llvm("llvm-mc");
        for triple in [
            "i386-linux",
            "powerpc64-linux",
            "powerpc-linux",
            "aarch64-linux",
        ] {
            let target = format!("-triple={triple}");
            let (object, output) = (format!("{triple}.exports.o"), format!("{triple}.so"));
            let assemble = [&target, "--filetype=obj", "exports.s", "-o", &object];
            self.call(&assembler, &assemble);
            self.call(&lld, &["-shared", "-o", &output, &object]);
        }
        Ok(())
    }
}

/// The files with this extension, in order.
fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_seed_has_a_target() {
        assert_eq!(extension("elf_object"), "o");
        assert_eq!(extension("object_graph_verify"), "o");
        assert_eq!(extension("archive"), "a");
        assert_eq!(extension("shared_object"), "so");
        assert_eq!(extension("check_language"), "check");
        assert_eq!(extension("graph_text"), "lg");
        assert_eq!(extension("command_line"), "words");
        assert_eq!(extension("executor_server"), "none");
    }
}
