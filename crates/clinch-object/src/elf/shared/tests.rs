//! Shared objects assembled byte by byte in all classes and orders, damaged ones, and the
//! machine's own against `llvm-readelf`.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use super::*;
use crate::elf::raw::sht;
use clinch_graph::Endian;
use std::process::Command;

/// Where the file's first byte is in memory.
const BASE: u64 = 0x1_0000;

/// Bytes of one class and order, written one after the other.
struct Writer {
    format: Format,
    bytes: Vec<u8>,
}

impl Writer {
    fn number(&mut self, value: u64, width: usize) -> &mut Self {
        match self.format.endian {
            Endian::Little => self.bytes.extend(&value.to_le_bytes()[..width]),
            Endian::Big => self.bytes.extend(&value.to_be_bytes()[8 - width..]),
        }
        self
    }

    fn halves(&mut self, values: &[u16]) -> &mut Self {
        for &value in values {
            self.number(value.into(), 2);
        }
        self
    }

    fn words(&mut self, values: &[u32]) -> &mut Self {
        for &value in values {
            self.number(value.into(), 4);
        }
        self
    }

    fn longs(&mut self, values: &[u64]) -> &mut Self {
        for &value in values {
            self.number(value, self.format.word_size());
        }
        self
    }
}

/// A symbol: name, section, `st_info`, `st_other`, version.
type Spec = (&'static str, u16, u8, u8, u16);

const FUNC: u8 = st::GLOBAL << 4 | st::FUNC;

const SYMBOLS: &[Spec] = &[
    ("", 0, 0, 0, 0),
    ("u", 0, FUNC, 0, 5),
    ("f", 1, FUNC, 0, 0x8002),
    ("f", 1, FUNC, 0, 3),
    ("base", 1, FUNC, 0, 1),
    ("hidden", 1, FUNC, st::HIDDEN, 3),
    ("local", 1, FUNC, 0, 0),
    ("weak", 1, st::WEAK << 4 | st::OBJECT, 0, 2),
    (
        "unique",
        1,
        st::GNU_UNIQUE << 4 | st::OBJECT,
        st::PROTECTED,
        3,
    ),
    ("tls", 1, st::GLOBAL << 4 | st::TLS, 0, 3),
];

/// What a library is to be made of.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Form {
    format: Format,
    sections: bool,
    gnu: bool,
    sysv: bool,
}

fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for bits in 0..32 {
        let bit = |n: u32| bits >> n & 1 == 1;
        let endian = if bit(1) { Endian::Big } else { Endian::Little };
        let form = Form {
            format: Format {
                is_64: bit(0),
                endian,
            },
            sections: bit(2),
            gnu: bit(3),
            sysv: bit(4),
        };
        // Without any of these nothing says how many symbols there are.
        if form.sections || form.gnu || form.sysv {
            forms.push(form);
        }
    }
    forms
}

/// The tables' places in the file, and all of it.
struct Library {
    bytes: Vec<u8>,
    places: Vec<(u32, usize, usize)>,
}

impl Library {
    /// The place of the table of a section type.
    fn place(&self, kind: u32) -> usize {
        self.places.iter().find(|place| place.0 == kind).unwrap().1
    }

    /// The place of a table's section header, in the 64-bit form.
    fn section_header(&self, kind: u32) -> usize {
        let table = self.bytes.len() - (self.places.len() + 1) * 64;
        let number = self
            .places
            .iter()
            .position(|place| place.0 == kind)
            .unwrap()
            + 1;
        table + number * 64
    }

    fn parse(&self) -> Result<SharedObject> {
        SharedObject::parse(Bytes::copy_from_slice(&self.bytes))
    }

    /// The library with 16 bits at `offset` in a table replaced, in its order.
    fn with_u16(&self, kind: u32, offset: usize, value: u16) -> Vec<u8> {
        self.with(kind, offset, &value.to_le_bytes())
    }

    fn with_u32(&self, kind: u32, offset: usize, value: u32) -> Vec<u8> {
        self.with(kind, offset, &value.to_le_bytes())
    }

    fn with(&self, kind: u32, offset: usize, value: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let at = self.place(kind) + offset;
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    }
}

fn build(form: Form) -> Library {
    let format = form.format;
    let mut names = vec![0];
    let mut name = |text: &str| {
        let place = names.len() as u32;
        names.extend(text.as_bytes());
        names.push(0);
        place
    };
    let [soname, needed_a, needed_b, rpath, runpath] =
        ["libx.so.1", "liba.so", "libb.so", "/r", "/p:/q"].map(&mut name);
    let [v1, v2, vn] = ["V1", "V2", "VN"].map(&mut name);
    let symbol_names: Vec<u32> = SYMBOLS.iter().map(|symbol| name(symbol.0)).collect();

    let mut out = Writer {
        format,
        bytes: Vec::new(),
    };
    let header_size = if format.is_64 { 64 } else { 52 };
    out.bytes
        .resize(header_size + 3 * format.program_header_size(), 0);
    let mut places = Vec::new();
    let mut table = |out: &mut Writer, kind: u32, write: &mut dyn FnMut(&mut Writer)| {
        out.bytes.resize(out.bytes.len().next_multiple_of(8), 0);
        let start = out.bytes.len();
        write(out);
        places.push((kind, start, out.bytes.len() - start));
        BASE + start as u64
    };

    let strings_at = table(&mut out, sht::STRTAB, &mut |out| out.bytes.extend(&names));
    let symbols_at = table(&mut out, sht::DYNSYM, &mut |out| {
        for (n, symbol) in SYMBOLS.iter().enumerate() {
            let value = if symbol.1 == 0 {
                0
            } else {
                BASE + 4 * n as u64
            };
            out.words(&[symbol_names[n]]);
            if !format.is_64 {
                out.longs(&[value, 8]);
            }
            out.bytes.extend([symbol.2, symbol.3]);
            out.halves(&[symbol.1]);
            if format.is_64 {
                out.longs(&[value, 8]);
            }
        }
    });
    let versym_at = table(&mut out, sht::GNU_VERSYM, &mut |out| {
        for symbol in SYMBOLS {
            out.halves(&[symbol.4]);
        }
    });
    let verdef_at = table(&mut out, sht::GNU_VERDEF, &mut |out| {
        out.halves(&[1, 1, 1, 1]).words(&[0, 20, 28, soname, 0]);
        out.halves(&[1, 0, 2, 1]).words(&[0, 20, 28, v1, 0]);
        out.halves(&[1, 0, 3, 2]).words(&[0, 20, 0, v2, 8, v1, 0]);
    });
    let verneed_at = table(&mut out, sht::GNU_VERNEED, &mut |out| {
        out.halves(&[1, 1]).words(&[needed_a, 16, 0, 0]);
        out.halves(&[0, 5]).words(&[vn, 0]);
    });
    let mut hashes = Vec::new();
    if form.gnu {
        let at = table(&mut out, sht::GNU_HASH, &mut |out| {
            let bits = if format.is_64 { 64 } else { 32 };
            let defined: Vec<u32> = SYMBOLS[2..]
                .iter()
                .map(|s| gnu_hash(s.0.as_bytes()))
                .collect();
            let filter = defined.iter().fold(0, |all, &hash| {
                all | 1_u64 << (hash % bits) | 1 << ((hash >> 5) % bits)
            });
            out.words(&[1, 2, 1, 5]).longs(&[filter]).words(&[2]);
            for (n, hash) in defined.iter().enumerate() {
                let is_last = n + 1 == defined.len();
                out.words(&[if is_last { hash | 1 } else { hash & !1 }]);
            }
        });
        hashes.push((dt::GNU_HASH, at));
    }
    if form.sysv {
        let at = table(&mut out, sht::HASH, &mut |out| {
            let n = SYMBOLS.len() as u32;
            out.words(&[1, n, 1, 0]);
            for next in 2..n {
                out.words(&[next]);
            }
            out.words(&[0]);
        });
        hashes.push((dt::HASH, at));
    }
    table(&mut out, sht::DYNAMIC, &mut |out| {
        for (tag, value) in [
            (dt::NEEDED, u64::from(needed_a)),
            (dt::NEEDED, needed_b.into()),
            (dt::SONAME, soname.into()),
            (dt::RPATH, rpath.into()),
            (dt::RUNPATH, runpath.into()),
            (dt::STRTAB, strings_at),
            (dt::STRSZ, names.len() as u64),
            (dt::SYMTAB, symbols_at),
            (dt::VERSYM, versym_at),
            (dt::VERDEF, verdef_at),
            (dt::VERDEFNUM, 3),
            (dt::VERNEED, verneed_at),
            (dt::VERNEEDNUM, 1),
            (dt::FLAGS_1, 0x0800_0001),
        ]
        .into_iter()
        .chain(hashes.iter().copied())
        .chain([(dt::NULL, 0), (dt::NEEDED, 0xffff)])
        {
            out.longs(&[tag, value]);
        }
    });

    let dynamic = *places.last().unwrap();
    let mut section_headers = 0;
    if form.sections {
        out.bytes.resize(out.bytes.len().next_multiple_of(8), 0);
        section_headers = out.bytes.len() as u64;
        // Section 0, then 1 is the string table.
        out.bytes
            .resize(out.bytes.len() + format.section_header_size(), 0);
        for &(kind, start, size) in &places {
            let entry = if kind == sht::DYNSYM {
                format.symbol_size() as u64
            } else {
                0
            };
            let count = match kind {
                sht::GNU_VERDEF => 3,
                sht::GNU_VERNEED => 1,
                _ => 0,
            };
            out.words(&[0, kind])
                .longs(&[2, BASE + start as u64, start as u64, size as u64]);
            out.words(&[1, count]).longs(&[8, entry]);
        }
    }

    // The headers, now that all places are known.
    let total = out.bytes.len() as u64;
    let mut head = Writer {
        format,
        bytes: Vec::new(),
    };
    let class = if format.is_64 { 2 } else { 1 };
    let order = if format.endian == Endian::Little {
        1
    } else {
        2
    };
    head.bytes.extend([
        0x7f, b'E', b'L', b'F', class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    head.halves(&[ET_DYN, 62]).words(&[1]);
    head.longs(&[0, header_size as u64, section_headers])
        .words(&[0x42]);
    let n_sections = if form.sections {
        places.len() as u16 + 1
    } else {
        0
    };
    let (program, section) = (format.program_header_size(), format.section_header_size());
    head.halves(&[
        header_size as u16,
        program as u16,
        3,
        section as u16,
        n_sections,
        0,
    ]);
    for (kind, offset, size, flags) in [
        (1, 0, total, 6),
        (2, dynamic.1 as u64, dynamic.2 as u64, 6),
        (0x6474_e552, 0, 0x20, 4),
    ] {
        head.words(&[kind]);
        if format.is_64 {
            head.words(&[flags]);
        }
        head.longs(&[offset, BASE + offset, BASE + offset, size, size]);
        if !format.is_64 {
            head.words(&[flags]);
        }
        head.longs(&[8]);
    }
    out.bytes[..head.bytes.len()].copy_from_slice(&head.bytes);
    Library {
        bytes: out.bytes,
        places,
    }
}

fn defined(name: &str, is_default: bool) -> SymbolVersion<'_> {
    let name = name.as_bytes();
    SymbolVersion::Defined { name, is_default }
}

#[test]
fn every_form_says_the_same() {
    for form in forms() {
        let object = build(form)
            .parse()
            .unwrap_or_else(|error| panic!("{form:?}: {error}"));
        assert_eq!(object.format(), form.format);
        assert_eq!((object.machine(), object.flags()), (62, 0x42));
        assert_eq!(object.soname(), Some(&b"libx.so.1"[..]));
        assert!(object.needed().eq([&b"liba.so"[..], b"libb.so"]));
        assert_eq!(object.rpath(), Some(&b"/r"[..]));
        assert_eq!(object.runpath(), Some(&b"/p:/q"[..]));
        assert!(object.is_program());
        assert!(object.defined_versions().eq([b"V1", b"V2"]));

        let symbols: Vec<_> = object.symbols().map(Result::unwrap).collect();
        let got: Vec<_> = symbols
            .iter()
            .map(|s| (s.name, s.version, s.is_export()))
            .collect();
        let needed = SymbolVersion::Needed {
            name: b"VN",
            file: b"liba.so",
        };
        let want = [
            (&b"u"[..], needed, false),
            (b"f", defined("V1", false), true),
            (b"f", defined("V2", true), true),
            (b"base", SymbolVersion::Unversioned, true),
            (b"hidden", defined("V2", true), false),
            (b"local", SymbolVersion::Local, false),
            (b"weak", defined("V1", true), true),
            (b"unique", defined("V2", true), true),
            (b"tls", defined("V2", true), true),
        ];
        assert_eq!(got, want, "{form:?}");
        assert!(!symbols[0].is_defined() && symbols[1].is_defined());
        assert_eq!((symbols[1].raw.value, symbols[1].raw.size), (BASE + 8, 8));

        let find = |name: &str| {
            object
                .find(name.as_bytes())
                .unwrap()
                .map(|symbol| symbol.index)
        };
        assert_eq!(find("f"), Some(3));
        assert_eq!(find("base"), Some(4));
        assert_eq!(find("weak"), Some(7));
        assert_eq!(find("tls"), Some(9));
        for absent in ["u", "hidden", "local", "g", "", "ff", "V1"] {
            assert_eq!(find(absent), None, "{absent}");
        }
        let both: Vec<_> = object.versions_of(b"f").map(|s| s.unwrap().index).collect();
        assert_eq!(both, [2, 3]);
        let old = object.find_version(b"f", b"V1").unwrap().unwrap();
        assert_eq!((old.index, old.is_default()), (2, false));
        assert_eq!(object.find_version(b"f", b"VN").unwrap(), None);
        assert_eq!(
            object.find_version(b"weak", b"V1").unwrap().unwrap().index,
            7
        );
    }
}

#[test]
fn what_a_copy_relocation_asks() {
    let form = Form {
        sections: true,
        ..forms()[0]
    };
    let object = build(Form { gnu: true, ..form }).parse().unwrap();
    let align = |index| object.alignment(&object.symbol(index).unwrap().raw);
    // Symbol n is at 4 * n in a section aligned to 8.
    assert_eq!([align(2), align(3), align(4)], [8, 4, 8]);
    assert_eq!(object.relro(), Some(BASE..BASE + 0x20));
    assert!(object.is_read_only(BASE + 8) && !object.is_read_only(BASE + 0x20));
    assert!(!object.is_read_only(0));
    assert_eq!(object.load_segments().len(), 1);
}

fn little(sections: bool) -> Library {
    let format = Format {
        is_64: true,
        endian: Endian::Little,
    };
    let (gnu, sysv) = (sections, !sections);
    build(Form {
        format,
        sections,
        gnu,
        sysv,
    })
}

fn failure(bytes: Vec<u8>) -> ReadErrorKind {
    SharedObject::parse(bytes.into())
        .and_then(|object| object.symbols().try_for_each(|symbol| symbol.map(|_| ())))
        .expect_err("the library is malformed")
        .kind
}

#[test]
fn malformed_versions() {
    use ReadErrorKind as Kind;
    let library = little(true);
    let (def, need) = (sht::GNU_VERDEF, sht::GNU_VERNEED);
    let past = Kind::Version("record extends past the table");
    let out = Kind::Version("link leads out of the table");
    let cases = [
        (
            library.with_u16(def, 0, 2),
            Kind::Version("definition of unknown revision"),
        ),
        (
            library.with_u16(need, 0, 2),
            Kind::Version("need of unknown revision"),
        ),
        (
            library.with_u16(def, 4, 0x8000),
            Kind::Version("number out of range"),
        ),
        (library.with_u32(def, 16, u32::MAX), out),
        (library.with_u32(def, 12, 1 << 20), out),
        (library.with_u32(need, 8, 1 << 20), out),
        (library.with_u32(need, 28, 1 << 20), out),
        (library.with_u32(def, 28 + 16, 63), past),
        (
            library.with_u16(sht::GNU_VERSYM, 4, 9),
            Kind::NoVersion {
                symbol: 2,
                version: 9,
            },
        ),
    ];
    for (n, (bytes, want)) in cases.into_iter().enumerate() {
        assert_eq!(failure(bytes), want, "case {n}");
    }
    let name = failure(library.with_u32(def, 20, 0xffff));
    assert!(
        matches!(
            name,
            Kind::NameOutside {
                what: "version",
                ..
            }
        ),
        "{name}"
    );

    // The version table has to be as long as the symbol table.
    let mut short = library.bytes.clone();
    short[library.section_header(sht::GNU_VERSYM) + 32] -= 1;
    assert_eq!(
        failure(short),
        Kind::Version("table ends before the last symbol")
    );
}

#[test]
fn chains_of_records_end() {
    // Records that overlap, each a byte behind the last, and counts beyond all bounds.
    let format = Format {
        is_64: true,
        endian: Endian::Little,
    };
    let n = 1 << 16;
    let mut bytes = vec![1_u8, 0];
    bytes.resize(n, 0);
    let mut tables = Tables {
        strings: 2..n,
        versym: Some(0..n),
        ..Tables::default()
    };
    let records = tables::Records {
        range: 0..n,
        count: u64::MAX,
    };
    for chunk in bytes.chunks_exact_mut(4) {
        chunk.copy_from_slice(&[1, 0, 1, 0]);
    }
    for is_need in [false, true] {
        tables.verneed = is_need.then(|| records.clone());
        tables.verdef = (!is_need).then(|| records.clone());
        assert!(Versions::parse(format, &bytes, &tables).is_err());
    }
}

#[test]
fn malformed_tables() {
    use ReadErrorKind as Kind;
    let library = little(true);
    let mut object = library.bytes.clone();
    object[16] = 1;
    assert_eq!(failure(object), Kind::NotShared(1));
    let error = failure(library.with_u32(sht::GNU_HASH, 0, u32::MAX));
    assert_eq!(error, Kind::SymbolHash);
    let error = failure(library.with_u32(sht::GNU_HASH, 8, u32::MAX));
    assert_eq!(error, Kind::SymbolHash);
    let error = failure(library.with_u32(sht::DYNSYM, 24, u32::MAX));
    assert!(matches!(
        error,
        Kind::NameOutside {
            what: "dynamic symbol",
            ..
        }
    ));
    let error = failure(library.with_u32(sht::DYNAMIC, 8, u32::MAX));
    assert!(matches!(
        error,
        Kind::NameOutside {
            what: "dynamic entry",
            ..
        }
    ));
    let mut entry = library.bytes.clone();
    entry[library.section_header(sht::DYNSYM) + 56] = 23;
    assert!(matches!(failure(entry), Kind::EntrySize { found: 23, .. }));

    let stripped = little(false);
    for (offset, what) in [
        // Values of the entries STRTAB, STRSZ, SYMTAB.
        (5 * 16 + 8, "an address in it is in no loaded segment"),
        (6 * 16 + 8, "its string table extends past its segment"),
        (7 * 16 + 8, "an address in it is in no loaded segment"),
    ] {
        let error = failure(stripped.with_u32(sht::DYNAMIC, offset, 0xffff_0000));
        assert_eq!(error, Kind::Dynamic(what));
    }
    let error = failure(stripped.with_u32(sht::DYNAMIC, 5 * 16, 0x7777));
    assert_eq!(error, Kind::Dynamic("it has no string table"));
    let error = failure(stripped.with_u32(sht::HASH, 4, u32::MAX));
    assert_eq!(
        error,
        Kind::Dynamic("its symbol table extends past its segment")
    );
    let mut none = stripped.bytes.clone();
    none[64 + 56] = 9;
    assert_eq!(failure(none), Kind::Dynamic("there is none"));
}

#[test]
fn hash_chains_in_a_circle_end() {
    let library = little(false);
    // Each chain entry leads to symbol 4.
    let mut bytes = library.bytes.clone();
    let chains = library.place(sht::HASH) + 12;
    for entry in bytes[chains..chains + 4 * SYMBOLS.len()].chunks_exact_mut(4) {
        entry.copy_from_slice(&4_u32.to_le_bytes());
    }
    let object = SharedObject::parse(bytes.into()).unwrap();
    assert_eq!(object.find(b"f").unwrap(), None);
    assert_eq!(object.versions_of(b"tls").count(), 0);
}

#[test]
fn no_prefix_and_no_damage_makes_it_panic() {
    let read = |bytes: Vec<u8>| {
        if let Ok(object) = SharedObject::parse(bytes.into()) {
            for symbol in object.symbols().take(100).flatten() {
                let _ = object.find(symbol.name);
                let _ = object.alignment(&symbol.raw);
            }
            let _ = (
                object.soname(),
                object.needed().count(),
                object.is_read_only(0x1_0008),
            );
            for name in [&b"f"[..], b"base", b"tls", b""] {
                let _ = object.versions_of(name).take(1000).count();
            }
        }
    };
    for sections in [true, false] {
        let library = little(sections);
        for len in 0..library.bytes.len() {
            read(library.bytes[..len].to_vec());
        }
        for at in 0..library.bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = library.bytes.clone();
                bytes[at] = value;
                read(bytes);
            }
        }
    }
}

/// The names that `llvm-readelf --dyn-syms` prints, `name@@version` and so on.
fn readelf(path: &str) -> Option<Vec<String>> {
    let output = Command::new("llvm-readelf-22")
        .args(["--dyn-syms", "-W", path])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let symbols = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = fields.first()?.strip_suffix(':')?.parse::<u32>().ok()?;
        (number != 0).then(|| fields.get(7).copied().unwrap_or_default().to_owned())
    });
    Some(symbols.collect())
}

fn spelled(symbol: &DynamicSymbol<'_>) -> String {
    let text = |name| String::from_utf8_lossy(name).into_owned();
    let at = match symbol.version {
        SymbolVersion::Unversioned | SymbolVersion::Local => "",
        SymbolVersion::Defined {
            is_default: true, ..
        } => "@@",
        SymbolVersion::Defined { .. } | SymbolVersion::Needed { .. } => "@",
    };
    let version = symbol.version.name().unwrap_or_default();
    format!("{}{at}{}", text(symbol.name), text(version))
}

#[test]
fn the_libraries_of_this_machine() {
    for name in ["libc.so.6", "libstdc++.so.6", "libm.so.6"] {
        let path = format!("/usr/lib/x86_64-linux-gnu/{name}");
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        let object = SharedObject::parse(bytes.clone().into()).unwrap();
        assert_eq!(object.soname(), Some(name.as_bytes()));
        let symbols: Vec<_> = object.symbols().map(Result::unwrap).collect();
        if let Some(want) = readelf(&path) {
            assert!(symbols.iter().map(spelled).eq(want));
        }
        // Each look-up finds what a walk finds.
        for symbol in &symbols {
            let same = symbols
                .iter()
                .filter(|s| s.name == symbol.name && s.is_export());
            let mut found: Vec<_> = object
                .versions_of(symbol.name)
                .map(Result::unwrap)
                .collect();
            found.sort_by_key(|symbol| symbol.index);
            assert!(same.eq(&found), "{}", spelled(symbol));
        }
        if name == "libc.so.6" {
            let memcpy = object.find(b"memcpy").unwrap().unwrap();
            assert_eq!(spelled(&memcpy), "memcpy@@GLIBC_2.14");
            assert!(
                object
                    .find_version(b"memcpy", b"GLIBC_2.2.5")
                    .unwrap()
                    .is_some()
            );
        }
        // Without section headers it says the same.
        let mut stripped = bytes;
        stripped[40..48].fill(0);
        stripped[60..64].fill(0);
        let stripped = SharedObject::parse(stripped.into()).unwrap();
        assert!(
            stripped
                .symbols()
                .map(Result::unwrap)
                .eq(symbols.iter().copied())
        );
    }
}
