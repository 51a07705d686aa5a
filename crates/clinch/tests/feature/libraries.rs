//! Shared libraries of ours, given as files and found by `-l`.

use super::{NO_PLT, NON_PIC, PIC, PIE, UNOPTIMIZED};
use crate::support::{Program, Source, archive, link_shared, scratch};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

struct Libraries {
    source: Source,
    library: PathBuf,
    folders: OsString,
}

/// A library that needs another one.
fn libraries() -> Libraries {
    let source = Source::read("feature/library.c");
    let deep = link_shared("libdeepest.so", "", &[source.object("deep.c", "-O1 -fPIC")]);
    let object = source.object("library.c", "-O1 -fPIC");
    let library = link_shared("libours.so", "", &[object, deep.clone()]);
    let folders = [&library, &deep].map(|path| path.parent().unwrap_or(Path::new(".")));
    let folders = std::env::join_paths(folders).expect("paths without colons");
    Libraries {
        source,
        library,
        folders,
    }
}

#[test]
fn by_path_and_by_name() {
    let Libraries {
        source,
        library,
        folders,
    } = libraries();
    let folder = library.parent().unwrap_or(Path::new("."));
    let in_folder = OsString::from(format!("-L{}", folder.display()));
    for (flags, link) in [PIC, PIE, NO_PLT, UNOPTIMIZED] {
        let main = source.object("main.c", flags).into_os_string();
        for inputs in [
            vec![main.clone(), library.clone().into()],
            vec![main.clone(), in_folder.clone(), "-lours".into()],
            vec![main, in_folder.clone(), "-l:libours.so".into()],
        ] {
            Program::new(inputs)
                .link(link)
                .link("-Wl,--no-as-needed,--allow-shlib-undefined")
                .variable("LD_LIBRARY_PATH", &folders)
                .prints(source.text("stdout"))
                .check();
        }
    }
}

/// Code without a GOT reads and writes the library's own variables.
#[test]
fn data_from_non_pic_code() {
    let Libraries {
        source,
        library,
        folders,
    } = libraries();
    let main = source.object("main.c", NON_PIC.0);
    Program::new([main, library])
        .link("-no-pie -Wl,--allow-shlib-undefined")
        .variable("LD_LIBRARY_PATH", &folders)
        .prints(source.text("stdout"))
        .check();
}

#[test]
fn address_of_a_function() {
    let Libraries {
        source,
        library,
        folders,
    } = libraries();
    for (flags, link) in [PIC, NO_PLT] {
        let main = source.object("pointers.c", flags);
        Program::new([main, library.clone()])
            .link(link)
            .link("-Wl,--allow-shlib-undefined")
            .variable("LD_LIBRARY_PATH", &folders)
            .prints("library begins\n1 checks, 0 failures\nlibrary ends\n")
            .check();
    }
}

/// A linker script in place of a library, as the C library itself has one; a folder that has
/// both kinds of a library; definitions in objects before those of libraries.
#[test]
fn found_as_by_a_linker() {
    let text = "//--- shared.c\nint where(void) { return 1; }\n\
                //--- archived.c\nint where(void) { return 2; }\n\
                //--- own.c\nint where(void) { return 3; }\n\
                //--- main.c\nint where(void);\nint main(void) { return where(); }\n";
    let source = Source::new(text);
    let shared = link_shared("libwhere.so", "", &[source.object("shared.c", "-fPIC")]);
    let archived = archive(
        "libwhere.a",
        "ar",
        "rcs",
        &[source.object("archived.c", "")],
    );
    let main = source.object("main.c", "").into_os_string();
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    fs::copy(&shared, at("libwhere.so")).expect("a scratch file can be written");
    fs::copy(&archived, at("libwhere.a")).expect("a scratch file can be written");
    let script = format!(
        "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( {} AS_NEEDED ( {} ) )\n",
        at("libwhere.a").display(),
        at("libwhere.so").display()
    );
    fs::write(at("libscript.so"), script).expect("a scratch file can be written");
    fs::write(at("input.ld"), "INPUT(-lwhere)").expect("a scratch file can be written");
    let search = OsString::from(format!("-L{}", folder.path().display()));
    let own = source.object("own.c", "").into_os_string();
    for (inputs, status) in [
        (vec![main.clone(), search.clone(), "-lwhere".into()], 1),
        (
            vec![main.clone(), search.clone(), "-l:libwhere.a".into()],
            2,
        ),
        (vec![main.clone(), search.clone(), "-lscript".into()], 2),
        (vec![main.clone(), search.clone(), at("input.ld").into()], 1),
        (
            vec![main.clone(), own.clone(), search.clone(), "-lwhere".into()],
            3,
        ),
        (vec![search.clone(), "-lwhere".into(), main, own], 3),
    ] {
        Program::new(inputs)
            .variable("LD_LIBRARY_PATH", folder.path())
            .exits(status)
            .check();
    }
}

/// What every C program may name.
#[test]
fn of_the_system() {
    let text = "//--- main.c\n#include <dlfcn.h>\n#include <math.h>\n#include <pthread.h>\n\
                #include <stdlib.h>\n#include <sys/stat.h>\n\
                static void *start(void *x) { return x; }\n\
                int main(void) {\n  pthread_t thread;\n  void *result;\n  struct stat status;\n\
                  pthread_create(&thread, 0, start, (void *)3L);\n\
                  pthread_join(thread, &result);\n\
                  atexit((void (*)(void))rand);\n\
                  double (*power)(double, double) = (double (*)(double, double))dlsym(RTLD_DEFAULT, \"pow\");\n\
                  return (long)result + (int)power(2, 5) + (int)floor(sqrt(17)) + !stat(\"/\", &status);\n}\n";
    let source = Source::new(text);
    let main = source.object("main.c", "-O1").into_os_string();
    let libraries = [
        "-lm",
        "-lpthread",
        "-ldl",
        "-lrt",
        "-lutil",
        "-lc",
        "-lgcc_s",
        "-lgcc",
    ];
    let inputs = [main].into_iter().chain(libraries.map(OsString::from));
    Program::new(inputs)
        .link("-Wl,--no-as-needed")
        .exits(3 + 32 + 4 + 1)
        .check();
}
