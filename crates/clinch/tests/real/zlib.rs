//! zlib's own test program, and its `minigzip` over a real file and back.

use super::{DEBUG, DEFAULT, NON_PIC, Variant, source};
use crate::support::{Program, archive, available, compile};
use std::fs;
use std::path::PathBuf;

const LIBRARY: &str = "adler32 crc32 deflate infback inffast inflate inftrees trees zutil compress \
                       uncompr gzclose gzlib gzread gzwrite";

fn check(variant: Variant) {
    if !available(&["dpkg-source", "ar"]) {
        return;
    }
    let Some(folder) = source("zlib") else { return };
    let flags = format!(
        "{} -DZ_HAVE_UNISTD_H -I{}",
        variant.compile,
        folder.display()
    );
    let object = |name: &str| compile("cc", &folder.join(format!("{name}.c")), &flags);
    let library: Vec<PathBuf> = LIBRARY.split_whitespace().map(object).collect();
    let library = archive("libz.a", "ar", "rcs", &library);
    let program = |name: &str| Program::new([object(name), library.clone()]).link(variant.link);

    let output = program("test/example").arguments(["example.gz"]).check();
    assert!(
        output.text().contains("gzread(): hello, hello!"),
        "{output:?}"
    );

    let original = fs::read(folder.join("deflate.c")).expect("zlib's own source");
    let compressed = program("test/minigzip")
        .stdin(original.clone())
        .check()
        .stdout;
    assert!(compressed.starts_with(&[0x1f, 0x8b]) && compressed.len() < original.len() / 2);
    let back = program("test/minigzip")
        .arguments(["-d"])
        .stdin(compressed.clone())
        .check();
    assert!(back.stdout == original, "the round trip changes the file");
    let broken = &compressed[..compressed.len() / 2];
    program("test/minigzip")
        .arguments(["-d"])
        .stdin(broken)
        .exits(1)
        .check();
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
