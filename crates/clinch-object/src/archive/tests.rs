//! Archives assembled byte by byte, each damaged in each way, and ones that real tools make.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use super::*;
use std::fs;
use std::process::Command;

fn header(name: &str, size: &str) -> Vec<u8> {
    format!("{name:<16}0           0     0     644     {size:<10}`\n").into_bytes()
}

/// Appends a member, and answers the offset of its header.
fn push(archive: &mut Vec<u8>, name: &str, data: &[u8]) -> usize {
    let offset = archive.len();
    archive.extend(header(name, &data.len().to_string()));
    archive.extend(data);
    if !archive.len().is_multiple_of(2) {
        archive.push(b'\n');
    }
    offset
}

fn gnu_index(entries: &[(&str, u32)]) -> Vec<u8> {
    let mut index = u32_len(entries).to_be_bytes().to_vec();
    for (_, member) in entries {
        index.extend(member.to_be_bytes());
    }
    for (name, _) in entries {
        index.extend(name.as_bytes());
        index.push(0);
    }
    index
}

fn u32_len<T>(slice: &[T]) -> u32 {
    u32::try_from(slice.len()).unwrap()
}

/// An archive of `one.o` and a member with a long name, with an index; and where these are.
fn gnu() -> (Vec<u8>, u64, u64) {
    let long = "a_name_of_many_letters.o/\n";
    let mut archive = MAGIC.to_vec();
    let index_len = gnu_index(&[("f", 0), ("g", 0), ("f", 0)]).len();
    let first = u32::try_from(8 + 60 + index_len.next_multiple_of(2) + 60 + long.len()).unwrap();
    let second = first + 60 + 4;
    let index = gnu_index(&[("f", first), ("g", second), ("f", second)]);
    push(&mut archive, "/", &index);
    push(&mut archive, "//", long.as_bytes());
    assert_eq!(push(&mut archive, "one.o/", b"ONE"), first as usize);
    assert_eq!(push(&mut archive, "/0", b"SECOND"), second as usize);
    (archive, first.into(), second.into())
}

fn parse(bytes: &[u8]) -> Result<Archive> {
    Archive::parse(Bytes::copy_from_slice(bytes))
}

/// Names and contents of all members.
fn list(archive: &Archive) -> Vec<(String, String)> {
    archive
        .members()
        .map(|member| {
            let member = member.unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (
                text(member.name),
                text(&archive.content(&member).unwrap_or_default()),
            )
        })
        .collect()
}

fn strings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|&(name, content)| (name.to_owned(), content.to_owned()))
        .collect()
}

/// What goes wrong when everything is read.
fn failure(bytes: &[u8]) -> ArchiveErrorKind {
    let read = || -> Result<()> {
        let archive = parse(bytes)?;
        for member in archive.members() {
            member?;
        }
        if let Some(index) = archive.index()? {
            for entry in index.entries() {
                archive.member_at(entry?.member)?;
            }
        }
        IndexTable::new(&archive).map(|_| ())
    };
    match read().expect_err("the archive is malformed").kind {
        ReadErrorKind::Archive(kind) => kind,
        other => panic!("{other}"),
    }
}

#[test]
fn gnu_with_index_and_long_names() {
    let (bytes, first, second) = gnu();
    let archive = parse(&bytes).unwrap();
    assert!(!archive.is_thin() && archive.has_index());
    let want = strings(&[("one.o", "ONE"), ("a_name_of_many_letters.o", "SECOND")]);
    assert_eq!(list(&archive), want);

    let index = archive.index().unwrap().unwrap();
    let entries: Vec<_> = index
        .entries()
        .map(|entry| entry.map(|entry| (entry.name, entry.member)).unwrap())
        .collect();
    assert_eq!(
        entries,
        [(&b"f"[..], first), (b"g", second), (b"f", second)]
    );
    assert_eq!(index.len(), 3);

    let table = IndexTable::new(&archive).unwrap().unwrap();
    assert_eq!(table.find(b"f"), Some(first), "the first of two counts");
    assert_eq!(table.find(b"g"), Some(second));
    assert_eq!(table.find(b""), None);
    assert_eq!(table.find(b"fg"), None);
    assert_eq!(table.len(), 2);
    assert!(table.iter().eq([(&b"f"[..], first), (b"g", second)]));
    let member = archive.member_at(table.find(b"g").unwrap()).unwrap();
    assert_eq!(archive.content(&member).unwrap(), b"SECOND"[..]);
}

#[test]
fn without_index_and_empty() {
    let empty = parse(MAGIC).unwrap();
    assert_eq!(list(&empty), []);
    assert!(empty.index().unwrap().is_none());
    assert!(IndexTable::new(&empty).unwrap().is_none());

    let mut bytes = MAGIC.to_vec();
    push(&mut bytes, "x.o/", b"1");
    push(&mut bytes, "y.o", b"");
    let archive = parse(&bytes).unwrap();
    assert!(!archive.has_index());
    assert_eq!(list(&archive), strings(&[("x.o", "1"), ("y.o", "")]));

    // The last member need not be padded.
    let mut bytes = MAGIC.to_vec();
    push(&mut bytes, "x.o/", b"1");
    bytes.pop();
    assert_eq!(list(&parse(&bytes).unwrap()).len(), 1);

    // An index without anything in it.
    let mut bytes = MAGIC.to_vec();
    push(&mut bytes, "/", b"");
    let archive = parse(&bytes).unwrap();
    assert!(archive.index().unwrap().unwrap().is_empty());
    assert!(IndexTable::new(&archive).unwrap().unwrap().is_empty());
}

#[test]
fn wide_index() {
    let mut bytes = MAGIC.to_vec();
    let mut index = 1_u64.to_be_bytes().to_vec();
    index.extend(88_u64.to_be_bytes());
    index.extend(b"sym\0");
    push(&mut bytes, "/SYM64/", &index);
    assert_eq!(push(&mut bytes, "m.o/", b"M"), 88);
    let table = IndexTable::new(&parse(&bytes).unwrap()).unwrap().unwrap();
    assert_eq!(table.find(b"sym"), Some(88));
}

#[test]
fn second_linker_member_of_a_coff_library_is_passed_over() {
    let mut bytes = MAGIC.to_vec();
    let index = gnu_index(&[("f", 8 + 60 + 10 + 60 + 4 + 60 + 4 + 60)]);
    push(&mut bytes, "/", &index);
    push(&mut bytes, "/", &[1, 0, 0, 0]);
    push(&mut bytes, "//", b"n.o\0");
    push(&mut bytes, "/<ECSYMBOLS>/", b"");
    let member = push(&mut bytes, "/0", b"N");
    let archive = parse(&bytes).unwrap();
    assert_eq!(list(&archive), strings(&[("n.o", "N")]));
    let table = IndexTable::new(&archive).unwrap().unwrap();
    assert_eq!(table.find(b"f"), Some(member as u64));
}

#[test]
fn bsd_names_and_indexes() {
    for big in [false, true] {
        for wide in [false, true] {
            for name in ["__.SYMDEF", "__.SYMDEF SORTED", "#1/20"] {
                if wide && name == "__.SYMDEF SORTED" {
                    continue; // too long for a header
                }
                let mut index = Vec::new();
                if name == "#1/20" {
                    let long: &[u8] = if wide {
                        b"__.SYMDEF_64"
                    } else {
                        b"__.SYMDEF SORTED"
                    };
                    index.extend(long);
                    index.resize(20, 0);
                }
                let strings_of = b"\0g\0f\0pad";
                let n = if wide { 8 } else { 4 };
                let first = 8 + 60 + index.len() + n * 6 + strings_of.len();
                let mut number = |value: usize| {
                    let value = value as u64;
                    match big {
                        true => index.extend(&value.to_be_bytes()[8 - n..]),
                        false => index.extend(&value.to_le_bytes()[..n]),
                    }
                };
                number(4 * n);
                for value in [3, first, 1, first] {
                    number(value);
                }
                number(strings_of.len());
                index.extend(strings_of);
                let name = if wide && name == "__.SYMDEF" {
                    "__.SYMDEF_64"
                } else {
                    name
                };
                let mut bytes = MAGIC.to_vec();
                push(&mut bytes, name, &index);
                assert_eq!(push(&mut bytes, "#1/12", b"long name.o\0DATA"), first);
                push(&mut bytes, "short.o", b"S");
                let archive = parse(&bytes).unwrap();
                let want = strings(&[("long name.o", "DATA"), ("short.o", "S")]);
                assert_eq!(list(&archive), want);
                let table = IndexTable::new(&archive).unwrap().unwrap();
                assert_eq!(table.find(b"f"), Some(first as u64), "{name} {big} {wide}");
                assert_eq!(table.find(b"g"), Some(first as u64));
                assert_eq!(table.find(b"h"), None);
            }
        }
    }
}

#[test]
fn thin() {
    let mut bytes = THIN_MAGIC.to_vec();
    push(&mut bytes, "//", b"dir/a.o/\n../in.a/\n");
    bytes.extend(header("/0", "1000"));
    bytes.extend(header("/9:68", "7"));
    bytes.extend(header("b.o/", "5"));
    let archive = parse(&bytes).unwrap();
    assert!(archive.is_thin());
    let members: Vec<_> = archive.members().map(Result::unwrap).collect();
    let file = |size, nested| MemberContent::File { size, nested };
    let got: Vec<_> = members
        .iter()
        .map(|m| (m.name, m.content.clone()))
        .collect();
    let want = [
        (&b"dir/a.o"[..], file(1000, None)),
        (b"../in.a", file(7, Some(68))),
        (b"b.o", file(5, None)),
    ];
    assert_eq!(got, want);
    assert_eq!(archive.content(&members[0]), None);
    assert_eq!(archive.member_at(members[1].offset).unwrap(), members[1]);

    let path = |name| member_path(Path::new("lib/x.a"), name);
    assert_eq!(path(b"dir/a.o"), Path::new("lib/dir/a.o"));
    assert_eq!(path(b"/abs/a.o"), Path::new("/abs/a.o"));
    assert_eq!(member_path(Path::new("x.a"), b"a.o"), Path::new("a.o"));
}

#[test]
fn malformed_headers() {
    use ArchiveErrorKind as Kind;
    let with = |name: &str, size: &str, data: &[u8]| {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(header(name, size));
        bytes.extend(data);
        bytes
    };
    assert_eq!(failure(b""), Kind::Magic);
    assert_eq!(failure(b"!<arch>\r"), Kind::Magic);
    assert_eq!(failure(b"!<arch>\nx"), Kind::TruncatedHeader);
    let good = with("a/", "1", b"x");
    assert_eq!(failure(&good[..8 + 59]), Kind::TruncatedHeader);
    let mut bad = good.clone();
    bad[66] = b'x';
    assert_eq!(failure(&bad), Kind::Terminator);
    // An error in a later member has that member's offset.
    let mut later = with("a/", "2", b"xy");
    later.extend(b"junk");
    let error = parse(&later)
        .unwrap()
        .members()
        .find_map(Result::err)
        .unwrap();
    assert_eq!(error.offset, 70);
    assert_eq!(
        error.to_string(),
        "truncated archive member header (file offset 0x46)"
    );

    for size in ["", "-1", "0x10", "1 2", "99999999999"] {
        let size = &size[..size.len().min(10)];
        let kind = failure(&with("a/", size, b"x"));
        match size {
            "9999999999" => assert_eq!(
                kind,
                Kind::PastEnd {
                    size: 9_999_999_999
                }
            ),
            _ => assert_eq!(kind, Kind::Size, "{size}"),
        }
    }
    assert_eq!(failure(&with("a/", "2", b"x")), Kind::PastEnd { size: 2 });
    for name in ["#1/", "#1/3", "#1/x", "#1/9999999999999"] {
        assert_eq!(failure(&with(name, "2", b"xy")), Kind::BsdName, "{name}");
    }
    assert_eq!(failure(&with("/0", "2", b"xy")), Kind::NoLongNames);
    for name in ["/9", "/3", "/x", "/99999999999999", "/0:1"] {
        let mut bytes = MAGIC.to_vec();
        push(&mut bytes, "//", b"a/\nb");
        push(&mut bytes, name, b"");
        assert_eq!(failure(&bytes), Kind::LongName, "{name}");
    }
    for name in ["/0:", "/0:x", "/:1"] {
        let mut bytes = THIN_MAGIC.to_vec();
        push(&mut bytes, "//", b"a/\n");
        bytes.extend(header(name, "3"));
        assert_eq!(failure(&bytes), Kind::LongName, "{name}");
    }
}

#[test]
fn after_an_error_members_end() {
    let mut bytes = MAGIC.to_vec();
    push(&mut bytes, "a/", b"");
    bytes.extend(b"junk");
    let archive = parse(&bytes).unwrap();
    let mut members = archive.members();
    assert!(members.next().unwrap().is_ok());
    assert!(members.next().unwrap().is_err());
    assert!(members.next().is_none());
}

#[test]
fn offsets_that_lead_nowhere() {
    use ArchiveErrorKind as Kind;
    let (bytes, first, _) = gnu();
    let archive = parse(&bytes).unwrap();
    let kind = |offset| match archive.member_at(offset).unwrap_err().kind {
        ReadErrorKind::Archive(kind) => kind,
        other => panic!("{other}"),
    };
    assert_eq!(kind(0), Kind::TruncatedHeader);
    assert_eq!(kind(8), Kind::SpecialMember);
    assert_eq!(kind(first + 1), Kind::Terminator);
    assert_eq!(kind(bytes.len() as u64), Kind::TruncatedHeader);
    assert_eq!(kind(u64::MAX), Kind::TruncatedHeader);
}

#[test]
fn malformed_indexes() {
    use ArchiveErrorKind as Kind;
    let with = |name: &str, index: &[u8]| {
        let mut bytes = MAGIC.to_vec();
        push(&mut bytes, name, index);
        push(&mut bytes, "m.o/", b"M");
        bytes
    };
    // Counts that the table has no room for; none leads to an allocation.
    let mut huge = gnu_index(&[("f", 8)]);
    huge[..4].fill(0xff);
    assert_eq!(failure(&with("/", &huge)), Kind::IndexSize);
    assert_eq!(failure(&with("/SYM64/", &[0xff; 24])), Kind::IndexSize);
    assert_eq!(failure(&with("/", &[0, 0])), Kind::IndexSize);
    assert_eq!(failure(&with("__.SYMDEF", &[0xff; 40])), Kind::IndexSize);
    assert_eq!(failure(&with("__.SYMDEF_64", &[0xff; 40])), Kind::IndexSize);
    assert_eq!(
        failure(&with("__.SYMDEF", &[4, 0, 0, 0, 0, 0, 0, 0])),
        Kind::IndexSize
    );
    assert_eq!(failure(&with("__.SYMDEF", b"")), Kind::IndexSize);

    // Names without an end or outside.
    let mut open = gnu_index(&[("f", 8)]);
    open.pop();
    assert_eq!(failure(&with("/", &open)), Kind::IndexName);
    let bsd = |name: u32, member: u32| {
        let words = [8, name, member, 2].map(u32::to_le_bytes).concat();
        [&words[..], b"f\0"].concat()
    };
    assert_eq!(failure(&with("__.SYMDEF", &bsd(2, 8))), Kind::IndexName);
    assert_eq!(
        failure(&with("__.SYMDEF", &bsd(u32::MAX, 8))),
        Kind::IndexName
    );

    // Members where none can be.
    for member in [0, 7, 0x1000, u32::MAX] {
        let want = Kind::IndexOffset {
            member: member.into(),
        };
        assert_eq!(failure(&with("/", &gnu_index(&[("f", member)]))), want);
        assert_eq!(failure(&with("__.SYMDEF", &bsd(0, member))), want);
    }
    assert_eq!(
        failure(&with("/", &gnu_index(&[("f", 8)]))),
        Kind::SpecialMember
    );
}

#[test]
fn no_prefix_and_no_damage_makes_it_panic() {
    let (bytes, ..) = gnu();
    let read = |bytes: &[u8]| {
        if let Ok(archive) = parse(bytes) {
            for member in archive.members().flatten() {
                let _ = archive.content(&member);
                let _ = archive.member_at(member.offset);
            }
            let _ = IndexTable::new(&archive);
        }
    };
    for len in 0..bytes.len() {
        read(&bytes[..len]);
    }
    for at in 0..bytes.len() {
        for value in [0, b'/', b'9', b'#', 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            read(&damaged);
        }
    }
}

/// Runs a tool; `false` when it is not installed.
fn run(dir: &Path, tool: &str, arguments: &[&str]) -> bool {
    match Command::new(tool).args(arguments).current_dir(dir).output() {
        Ok(output) => {
            assert!(output.status.success(), "{tool}: {output:?}");
            true
        }
        Err(_) => false,
    }
}

#[test]
fn what_ar_makes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let names = ["a.o", "quite_a_long_name_of_an_object.o", "c.o"];
    for (n, name) in names.iter().enumerate() {
        let text = format!(".globl f{n}\nf{n}: .quad {n}\n");
        fs::write(path("x.s"), text).unwrap();
        if !run(dir.path(), "as", &["x.s", "-o", name]) {
            return;
        }
    }
    fs::create_dir(path("sub")).unwrap();
    let with = |options: &[&'static str]| [options, &["x.a"], &names[..]].concat();
    let forms = [
        ("ar", with(&["rcs"])),
        ("ar", with(&["rcS"])),
        ("ar", with(&["rcsT"])),
        ("llvm-ar-22", with(&["--format=gnu", "rcs"])),
        ("llvm-ar-22", with(&["--format=bsd", "rcs"])),
        ("llvm-ar-22", with(&["--format=darwin", "rcs"])),
        ("llvm-ar-22", with(&["--format=coff", "rcs"])),
        ("llvm-ar-22", with(&["rcsT"])),
        (
            "ar",
            vec![
                "rcsT",
                "sub/x.a",
                "a.o",
                "quite_a_long_name_of_an_object.o",
                "c.o",
            ],
        ),
    ];
    for (tool, arguments) in forms {
        let file = path(if arguments[1] == "sub/x.a" {
            "sub/x.a"
        } else {
            "x.a"
        });
        let _ = fs::remove_file(&file);
        if !run(dir.path(), tool, &arguments) {
            continue;
        }
        let archive = parse(&fs::read(&file).unwrap()).unwrap();
        let members: Vec<_> = archive.members().map(Result::unwrap).collect();
        assert_eq!(members.len(), 3, "{arguments:?}");
        for (member, name) in members.iter().zip(names) {
            let object = fs::read(path(name)).unwrap();
            match archive.content(member) {
                // The Darwin form pads a member inside of its size.
                Some(content) => {
                    assert_eq!(member.name, name.as_bytes());
                    assert!(content.starts_with(&object) && content.len() < object.len() + 8);
                }
                None => {
                    let found = fs::read(member_path(&file, member.name)).unwrap();
                    assert_eq!(found, object);
                }
            }
        }
        let table = IndexTable::new(&archive).unwrap();
        assert_eq!(table.is_some(), arguments[0] != "rcS");
        if let Some(table) = table {
            assert_eq!(table.len(), 3);
            for (n, member) in members.iter().enumerate() {
                let name = format!("f{n}");
                assert_eq!(
                    table.find(name.as_bytes()),
                    Some(member.offset),
                    "{arguments:?}"
                );
            }
        }
    }
}

#[test]
fn an_archive_in_a_thin_archive() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["p.o", "q.o"] {
        fs::write(path(name), name).unwrap();
    }
    if !run(dir.path(), "ar", &["rc", "in.a", "p.o", "q.o"])
        || !run(dir.path(), "ar", &["rcT", "out.a", "in.a"])
    {
        return;
    }
    let outer = parse(&fs::read(path("out.a")).unwrap()).unwrap();
    let inner = parse(&fs::read(path("in.a")).unwrap()).unwrap();
    let mut contents = Vec::new();
    for member in outer.members().map(Result::unwrap) {
        assert_eq!(member_path(&path("out.a"), member.name), path("in.a"));
        let MemberContent::File { nested, .. } = member.content else {
            panic!("a thin archive has nothing inside");
        };
        let member = inner.member_at(nested.unwrap()).unwrap();
        contents.push(inner.content(&member).unwrap());
    }
    assert_eq!(contents, [&b"p.o"[..], b"q.o"]);
}
