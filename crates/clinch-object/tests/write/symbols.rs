//! What symbol entries say: binding, type, visibility, place, order.

use super::{graph, write};
use crate::support::tool::says;
use crate::support::{read, symbol};
use clinch_graph::{Addressable, SymbolFlags};

const TEXT: &str = "section s1 \".text\" r-x\n block b1 size 16 align 16\n
      bytes 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90\n edge +0 Delta32 $4\n edge +4 Pointer32 $12\n
    section s2 \".tdata\" rw- tls\n block b2 size 4 align 4\n bytes 01 00 00 00\n
    symbol $1 \"global\" b1+4 size 4 callable\n
    symbol $2 \"weak\" b1+0 size 2 weak object\n
    symbol $3 \"hidden\" b1+0 hidden\n
    symbol $4 \"outside\" external\n
    symbol $5 \"perhaps\" external weakly-referenced\n
    symbol $6 \"local\" b1+8 size 8 local callable\n
    symbol $7 \"unique\" b1+0 weak unique object protected\n
    symbol $8 \"chosen\" b1+0 callable ifunc\n
    symbol $9 \"tls\" b2+0 size 4 object tls\n
    symbol $10 \"common\" common align 32 size 100 object\n
    symbol $11 \"absolute\" absolute 0x1234\n
    symbol $12 \"gone\" discarded\n
    symbol $13 \"unneeded\" discarded\n
    symbol $14 \"file.c\" absolute 0 local\n
    symbol $15 b1+0 section\n
    symbol $16 \"away\" discarded local\n
    symbol $17 \"hidden_outside\" external hidden object\n";

/// The table as `llvm-readelf` prints it: value, size, type, binding, visibility, section, name.
#[test]
fn every_property() {
    let written = write(&graph(TEXT));
    let Some(said) = says("llvm-readelf-22", &["-sW"], &written) else {
        return;
    };
    let lines: Vec<String> = said
        .lines()
        .skip_while(|line| !line.contains("Num:"))
        .skip(1)
        .map(|line| {
            let words = line.split_whitespace().skip(1);
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let z = "0000000000000000";
    let expected = [
        format!("{z} 0 NOTYPE LOCAL DEFAULT UND"),
        "0000000000000008 8 FUNC LOCAL DEFAULT 1 local".into(),
        format!("{z} 0 FILE LOCAL DEFAULT ABS file.c"),
        format!("{z} 0 SECTION LOCAL DEFAULT 1 .text"),
        format!("{z} 0 NOTYPE LOCAL DEFAULT UND away"),
        "0000000000000004 4 FUNC GLOBAL DEFAULT 1 global".into(),
        format!("{z} 2 OBJECT WEAK DEFAULT 1 weak"),
        format!("{z} 0 NOTYPE GLOBAL HIDDEN 1 hidden"),
        format!("{z} 0 NOTYPE GLOBAL DEFAULT UND outside"),
        format!("{z} 0 NOTYPE WEAK DEFAULT UND perhaps"),
        format!("{z} 0 OBJECT UNIQUE PROTECTED 1 unique"),
        format!("{z} 0 IFUNC GLOBAL DEFAULT 1 chosen"),
        format!("{z} 4 TLS GLOBAL DEFAULT 3 tls"),
        "0000000000000020 100 OBJECT GLOBAL DEFAULT COM common".into(),
        "0000000000001234 0 NOTYPE GLOBAL DEFAULT ABS absolute".into(),
        format!("{z} 0 NOTYPE GLOBAL DEFAULT UND gone"),
        format!("{z} 0 OBJECT GLOBAL HIDDEN UND hidden_outside"),
    ];
    assert_eq!(lines, expected);
}

/// A local zero that something refers to is no name of a file.
#[test]
fn a_zero_is_not_a_file() {
    let text = "section s1 \"x\" r--\n block b1 size 8 align 1\n bytes 00 00 00 00 00 00 00 00\n edge +0 Pointer64 $1\n
        symbol $1 \"zero\" absolute 0 local\n";
    let written = write(&graph(text));
    let Some(said) = says("llvm-readelf-22", &["-sW"], &written) else {
        return;
    };
    assert!(said.contains("NOTYPE  LOCAL  DEFAULT   ABS zero"), "{said}");
}

/// Symbol 0 of an input is symbol 0 of the file.
#[test]
fn symbol_0() {
    let text = TEXT.replace("symbol $1 ", "symbol $1 absolute 0\nsymbol $18 ");
    let again = read(&write(&graph(&text)));
    assert_eq!(again.symbols().count(), 17);
    let perhaps = symbol(&again, "perhaps");
    assert_eq!(perhaps.base, Addressable::External);
    assert!(perhaps.flags.contains(SymbolFlags::WEAKLY_REFERENCED));
}
