//! Lua's interpreter, from its own object and `liblua.a`, runs a script: `pcall` is `longjmp`
//! through linked code, coroutines switch stacks, libraries are reached by tables of functions.

use super::{DEBUG, DEFAULT, NON_PIC, Variant, source};
use crate::support::{Program, Source, archive, available, compile, root};
use std::fs;
use std::path::PathBuf;

const LIBRARY: &str = "lapi lcode lctype ldebug ldo ldump lfunc lgc llex lmem lobject lopcodes \
                       lparser lstate lstring ltable ltm lundump lvm lzio lauxlib lbaselib \
                       lcorolib ldblib liolib lmathlib loadlib loslib lstrlib ltablib lutf8lib \
                       linit";

fn check(variant: Variant) {
    if !available(&["dpkg-source", "ar"]) {
        return;
    }
    let Some(folder) = source("lua5.4").map(|folder| folder.join("src")) else {
        return;
    };
    // Debian's build writes this header.
    let header = Source::new(
        "//--- lua5.4-deb-multiarch.h\n#define DEB_HOST_MULTIARCH \"x86_64-linux-gnu\"\n",
    );
    let include = header.path("lua5.4-deb-multiarch.h");
    let include = include.parent().unwrap_or(&folder);
    let flags = format!(
        "{} -std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_POSIX -DLUA_USE_DLOPEN -I{}",
        variant.compile,
        include.display()
    );
    let object = |name: &str| compile("cc", &folder.join(format!("{name}.c")), &flags);
    let library: Vec<PathBuf> = LIBRARY.split_whitespace().map(object).collect();
    let library = archive("liblua.a", "ar", "rcs", &library);
    let script = fs::read(root().join("tests/programs/lua/script.lua")).expect("our script");
    let inputs = [
        object("lua").into_os_string(),
        library.into(),
        "-lm".into(),
        "-ldl".into(),
    ];
    let output = Program::new(inputs)
        .link(variant.link)
        .link("-Wl,-E")
        .file("script.lua", script)
        .arguments(["script.lua", "first", "second argument"])
        .variable("CLINCH_TEST_VARIABLE", "from the environment")
        .stdin("a line\n 42 and\nthe rest")
        .exits(3)
        .check();
    let text = output.text();
    for line in [
        "arguments\t2\tfirst\tsecond argument",
        "finalized\t1000",
        "finalizer at close",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }
}

#[test]
fn default_flags() {
    check(DEFAULT);
}

#[test]
fn optimized_non_pic() {
    check(NON_PIC);
}

#[test]
fn unoptimized_with_debug_information() {
    check(DEBUG);
}
