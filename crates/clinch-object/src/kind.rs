//! What a file is, by its content alone: names and extensions are not looked at.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::archive;
use clinch_graph::Endian;
use clinch_graph::index::int::{usize_of, usize_of_u64};
use std::fmt;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// No byte at all.
    Empty,
    /// ELF relocatable object, `ET_REL`.
    ElfRelocatable,
    /// ELF executable at fixed addresses, `ET_EXEC`.
    ElfExecutable,
    /// ELF shared object or position-independent executable, `ET_DYN`.
    ElfShared,
    /// ELF core dump.
    ElfCore,
    /// ELF of a type that is none of the above.
    ElfOther,
    /// Archive with its members inside.
    Archive,
    /// Archive of references to files.
    ThinArchive,
    /// LLVM bitcode, raw or in its wrapper.
    Bitcode,
    /// Mach-O relocatable object.
    MachOObject,
    /// Any other Mach-O file.
    MachOImage,
    /// Several Mach-O files or archives, one to an architecture.
    MachOUniversal,
    /// COFF object.
    Coff,
    /// COFF object with 32-bit section numbers (`/bigobj`).
    CoffBigObj,
    /// Member of an import library: one name of a DLL.
    CoffImport,
    /// COFF object of Microsoft's link-time code generation, which no other tool reads.
    CoffLtcg,
    /// Windows executable or DLL.
    Pe,
    /// WebAssembly.
    Wasm,
    /// Text that begins like a linker script.
    LinkerScript,
    /// Text stub of a Darwin dynamic library (`.tbd`).
    TextStub,
    /// None of these.
    Unknown,
}

impl FileKind {
    /// Looks at the first bytes, and no further than it must.
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::Empty,
            [0x7f, b'E', b'L', b'F', ..] => elf_kind(bytes),
            [b'!', b'<', ..] if bytes.starts_with(archive::MAGIC) => Self::Archive,
            [b'!', b'<', ..] if bytes.starts_with(archive::THIN_MAGIC) => Self::ThinArchive,
            [b'B', b'C', 0xc0, 0xde, ..] | [0xde, 0xc0, 0x17, 0x0b, ..] => Self::Bitcode,
            [0xfe, 0xed, 0xfa, 0xce | 0xcf, ..] => mach_o_kind(bytes, Endian::Big),
            [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] => mach_o_kind(bytes, Endian::Little),
            // A Java class begins with the same bytes as a universal file, and its version, at
            // least 45, follows where the universal file has its number of architectures.
            [0xca, 0xfe, 0xba, 0xbe | 0xbf, ..] => match u32_at(bytes, 4, Endian::Big) {
                Some(1..=44) => Self::MachOUniversal,
                _ => Self::Unknown,
            },
            [0, b'a', b's', b'm', ..] => Self::Wasm,
            [b'M', b'Z', ..] => pe_kind(bytes),
            [0, 0, 0xff, 0xff, ..] => match u16_at(bytes, 4, Endian::Little) {
                Some(0) => Self::CoffImport,
                Some(1) => Self::CoffLtcg,
                Some(_) if bytes.get(12..28) == Some(BIG_OBJ_CLASS) => Self::CoffBigObj,
                _ => Self::Unknown,
            },
            _ if is_coff(bytes) => Self::Coff,
            _ => text_kind(bytes),
        }
    }

    /// What messages call it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Empty => "empty file",
            Self::ElfRelocatable => "ELF relocatable object",
            Self::ElfExecutable => "ELF executable",
            Self::ElfShared => "ELF shared object",
            Self::ElfCore => "ELF core dump",
            Self::ElfOther => "ELF file of unknown type",
            Self::Archive => "archive",
            Self::ThinArchive => "thin archive",
            Self::Bitcode => "LLVM bitcode",
            Self::MachOObject => "Mach-O object",
            Self::MachOImage => "Mach-O image",
            Self::MachOUniversal => "Mach-O universal file",
            Self::Coff => "COFF object",
            Self::CoffBigObj => "COFF object with extended section numbers",
            Self::CoffImport => "COFF import object",
            Self::CoffLtcg => "COFF object with Microsoft intermediate code",
            Self::Pe => "Windows executable or DLL",
            Self::Wasm => "WebAssembly module",
            Self::LinkerScript => "linker script",
            Self::TextStub => "text stub of a dynamic library",
            Self::Unknown => "file of unknown format",
        }
    }

    /// Whether it is ELF of any type.
    pub fn is_elf(self) -> bool {
        matches!(
            self,
            Self::ElfRelocatable
                | Self::ElfExecutable
                | Self::ElfShared
                | Self::ElfCore
                | Self::ElfOther
        )
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// What an ELF file says about itself in its first 20 bytes. It prints as
/// `ELF 64-bit LSB relocatable, AArch64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ElfIdent {
    /// Whether the class is `ELFCLASS64`.
    pub is_64: bool,
    /// The byte order.
    pub endian: Endian,
    /// `e_type`.
    pub file_type: u16,
    /// `e_machine`.
    pub machine: u16,
}

impl ElfIdent {
    /// Reads it; `None` when this is no ELF file or one of unknown class or byte order.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let [0x7f, b'E', b'L', b'F', class @ (1 | 2), data @ (1 | 2), ..] = *bytes else {
            return None;
        };
        let endian = if data == 1 {
            Endian::Little
        } else {
            Endian::Big
        };
        Some(Self {
            is_64: class == 2,
            endian,
            file_type: u16_at(bytes, 16, endian)?,
            machine: u16_at(bytes, 18, endian)?,
        })
    }

    /// The name of the machine as messages print it; `None` for one not known even by name.
    pub fn machine_name(self) -> Option<&'static str> {
        machine_name(self.machine)
    }
}

impl fmt::Display for ElfIdent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.is_64 { "64-bit" } else { "32-bit" };
        let order = match self.endian {
            Endian::Little => "LSB",
            Endian::Big => "MSB",
        };
        let file_type = match self.file_type {
            1 => "relocatable",
            2 => "executable",
            3 => "shared object",
            4 => "core file",
            _ => "file of unknown type",
        };
        write!(f, "ELF {class} {order} {file_type}, ")?;
        match self.machine_name() {
            Some(name) => f.write_str(name),
            None => write!(f, "machine {}", self.machine),
        }
    }
}

/// What messages call a file's content, with the machine when it is ELF.
pub fn describe(bytes: &[u8]) -> String {
    match ElfIdent::of(bytes) {
        Some(ident) => ident.to_string(),
        None => FileKind::of(bytes).describe().to_owned(),
    }
}

/// What an ELF machine number stands for.
pub fn machine_name(machine: u16) -> Option<&'static str> {
    MACHINES
        .iter()
        .find(|(number, _)| *number == machine)
        .map(|(_, name)| *name)
}

/// Names of ELF machines, to tell the user what a file is for. It is not the list of what clinch
/// links, and deliberately has more.
const MACHINES: &[(u16, &str)] = &[
    (2, "SPARC"),
    (3, "Intel 80386"),
    (4, "Motorola 68000"),
    (8, "MIPS"),
    (15, "PA-RISC"),
    (18, "SPARC V8+"),
    (20, "PowerPC"),
    (21, "PowerPC64"),
    (22, "IBM S/390"),
    (40, "ARM"),
    (42, "Hitachi SH"),
    (43, "SPARC V9"),
    (50, "Intel Itanium"),
    (62, "x86-64"),
    (83, "Atmel AVR"),
    (94, "Xtensa"),
    (105, "MSP430"),
    (164, "Hexagon"),
    (183, "AArch64"),
    (189, "MicroBlaze"),
    (190, "NVIDIA CUDA"),
    (195, "ARC"),
    (224, "AMDGPU"),
    (243, "RISC-V"),
    (244, "Lanai"),
    (247, "BPF"),
    (252, "C-SKY"),
    (258, "LoongArch"),
    (0x9026, "Alpha"),
];

/// The class id that tells an object with 32-bit section numbers from other anonymous objects.
const BIG_OBJ_CLASS: &[u8] = &[
    0xc7, 0xa1, 0xba, 0xd1, 0xee, 0xba, 0xa9, 0x4b, 0xaf, 0x20, 0xfa, 0xf6, 0x6a, 0xa4, 0xdc, 0xb8,
];

/// COFF machine numbers; anything else is not taken for COFF, which has no magic number.
const COFF_MACHINES: &[u16] = &[
    0x014c, 0x01c0, 0x01c2, 0x01c4, 0x0200, 0x0ebc, 0x5032, 0x5064, 0x6232, 0x6264, 0x8664, 0xa641,
    0xa64e, 0xaa64,
];

fn elf_kind(bytes: &[u8]) -> FileKind {
    match ElfIdent::of(bytes).map(|ident| ident.file_type) {
        Some(1) => FileKind::ElfRelocatable,
        Some(2) => FileKind::ElfExecutable,
        Some(3) => FileKind::ElfShared,
        Some(4) => FileKind::ElfCore,
        _ => FileKind::ElfOther,
    }
}

fn mach_o_kind(bytes: &[u8], endian: Endian) -> FileKind {
    // After the magic number come CPU type and subtype, then the file type; 1 is MH_OBJECT.
    match u32_at(bytes, 12, endian) {
        Some(1) => FileKind::MachOObject,
        Some(_) => FileKind::MachOImage,
        None => FileKind::Unknown,
    }
}

fn pe_kind(bytes: &[u8]) -> FileKind {
    // The DOS header has the place of the PE header at 0x3c.
    let is_pe = u32_at(bytes, 0x3c, Endian::Little)
        .and_then(|place| bytes.get(usize_of(place)..))
        .is_some_and(|rest| rest.starts_with(b"PE\0\0"));
    if is_pe {
        FileKind::Pe
    } else {
        FileKind::Unknown
    }
}

/// A known machine, no optional header, and tables that lie inside the file.
fn is_coff(bytes: &[u8]) -> bool {
    let field = |offset| u16_at(bytes, offset, Endian::Little);
    let (Some(machine), Some(n_sections), Some(0)) = (field(0), field(2), field(16)) else {
        return false;
    };
    let headers = 20 + 40 * u64::from(n_sections);
    let symbols = u32_at(bytes, 8, Endian::Little);
    COFF_MACHINES.contains(&machine)
        && usize_of_u64(headers) <= bytes.len()
        && symbols.is_some_and(|place| usize_of(place) <= bytes.len())
}

/// Commands that a linker script may begin with.
const SCRIPT_WORDS: &[&str] = &[
    "AS_NEEDED",
    "ASSERT",
    "ENTRY",
    "EXTERN",
    "FORCE_COMMON_ALLOCATION",
    "GROUP",
    "INCLUDE",
    "INHIBIT_COMMON_ALLOCATION",
    "INPUT",
    "INSERT",
    "MEMORY",
    "NOCROSSREFS",
    "OUTPUT",
    "OUTPUT_ARCH",
    "OUTPUT_FORMAT",
    "PHDRS",
    "PROVIDE",
    "PROVIDE_HIDDEN",
    "REGION_ALIAS",
    "SEARCH_DIR",
    "SECTIONS",
    "STARTUP",
    "TARGET",
    "VERSION",
];

fn text_kind(bytes: &[u8]) -> FileKind {
    let window = bytes.get(..1024).unwrap_or(bytes);
    if window
        .iter()
        .any(|&byte| byte < 0x20 && !byte.is_ascii_whitespace())
    {
        return FileKind::Unknown;
    }
    if bytes.starts_with(b"--- !tapi") {
        return FileKind::TextStub;
    }
    let mut rest = bytes.trim_ascii_start();
    let mut had_comment = false;
    while let Some(comment) = rest.strip_prefix(b"/*") {
        let Some(end) = memchr::memmem::find(comment, b"*/") else {
            return FileKind::Unknown;
        };
        had_comment = true;
        let behind = comment.get(end.saturating_add(2)..).unwrap_or(&[]);
        rest = behind.trim_ascii_start();
    }
    let word_end = rest
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .unwrap_or(rest.len());
    let word = rest.get(..word_end).unwrap_or(rest);
    let is_script = SCRIPT_WORDS.iter().any(|known| known.as_bytes() == word)
        || (had_comment && rest.is_empty());
    if is_script {
        FileKind::LinkerScript
    } else {
        FileKind::Unknown
    }
}

fn u16_at(bytes: &[u8], offset: usize, endian: Endian) -> Option<u16> {
    let raw = *bytes.get(offset..)?.first_chunk()?;
    Some(match endian {
        Endian::Little => u16::from_le_bytes(raw),
        Endian::Big => u16::from_be_bytes(raw),
    })
}

fn u32_at(bytes: &[u8], offset: usize, endian: Endian) -> Option<u32> {
    let raw = *bytes.get(offset..)?.first_chunk()?;
    Some(match endian {
        Endian::Little => u32::from_le_bytes(raw),
        Endian::Big => u32::from_be_bytes(raw),
    })
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "a test may panic"
    )]
    use super::*;

    fn elf(class: u8, data: u8, file_type: u16, machine: u16) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, data, 1, 0];
        bytes.resize(16, 0);
        for field in [file_type, machine] {
            bytes.extend(if data == 1 {
                field.to_le_bytes()
            } else {
                field.to_be_bytes()
            });
        }
        bytes
    }

    #[test]
    fn elf_and_its_description() {
        assert_eq!(
            describe(&elf(2, 1, 1, 183)),
            "ELF 64-bit LSB relocatable, AArch64"
        );
        assert_eq!(
            describe(&elf(1, 2, 3, 20)),
            "ELF 32-bit MSB shared object, PowerPC"
        );
        assert_eq!(
            describe(&elf(2, 1, 2, 7777)),
            "ELF 64-bit LSB executable, machine 7777"
        );
        assert_eq!(FileKind::of(&elf(2, 1, 3, 62)), FileKind::ElfShared);
        assert_eq!(FileKind::of(&elf(2, 1, 4, 62)), FileKind::ElfCore);
        assert_eq!(FileKind::of(&elf(3, 1, 1, 62)), FileKind::ElfOther);
        assert_eq!(FileKind::of(b"\x7fELF"), FileKind::ElfOther);
        assert!(FileKind::ElfOther.is_elf() && !FileKind::Archive.is_elf());
    }

    #[test]
    fn magic_numbers() {
        let cases: &[(&[u8], FileKind)] = &[
            (b"", FileKind::Empty),
            (b"!<arch>\n", FileKind::Archive),
            (b"!<thin>\n", FileKind::ThinArchive),
            (b"!<arch", FileKind::Unknown),
            (b"BC\xc0\xde", FileKind::Bitcode),
            (b"\xde\xc0\x17\x0b", FileKind::Bitcode),
            (b"\0asm\x01\0\0\0", FileKind::Wasm),
            (b"\xca\xfe\xba\xbe\0\0\0\x02", FileKind::MachOUniversal),
            (b"\xca\xfe\xba\xbf\0\0\0\x02", FileKind::MachOUniversal),
            // Java 8 and a version with a minor number.
            (b"\xca\xfe\xba\xbe\0\0\0\x34", FileKind::Unknown),
            (b"\xca\xfe\xba\xbe\0\x03\0\x2d", FileKind::Unknown),
            (b"\xca\xfe\xba\xbe", FileKind::Unknown),
            (b"\0\0\xff\xff\0\0\x64\x86", FileKind::CoffImport),
            (b"\0\0\xff\xff\x01\0\x64\x86", FileKind::CoffLtcg),
            (b"\0\0\xff\xff\x02\0\x64\x86", FileKind::Unknown),
            (b"\0\0\xff\xff", FileKind::Unknown),
            (b"--- !tapi-tbd\ntbd-version: 4\n", FileKind::TextStub),
            (b"MZ", FileKind::Unknown),
            (b"hello", FileKind::Unknown),
            (b"\x01\x02\x03", FileKind::Unknown),
        ];
        for (bytes, kind) in cases {
            assert_eq!(FileKind::of(bytes), *kind, "{bytes:?}");
        }
    }

    #[test]
    fn mach_o_in_both_orders() {
        for (magic, big) in [
            (0xfeed_face_u32, true),
            (0xfeed_facf, true),
            (0xfeed_face, false),
            (0xfeed_facf, false),
        ] {
            for (file_type, kind) in [(1_u32, FileKind::MachOObject), (6, FileKind::MachOImage)] {
                let bytes: Vec<u8> = [magic, 0, 0, file_type]
                    .into_iter()
                    .flat_map(|word| {
                        if big {
                            word.to_be_bytes()
                        } else {
                            word.to_le_bytes()
                        }
                    })
                    .collect();
                assert_eq!(FileKind::of(&bytes), kind);
                assert_eq!(FileKind::of(&bytes[..15]), FileKind::Unknown);
            }
        }
    }

    #[test]
    fn coff_and_pe() {
        let mut coff = vec![0_u8; 60];
        coff[..4].copy_from_slice(&[0x64, 0x86, 1, 0]);
        assert_eq!(FileKind::of(&coff), FileKind::Coff);
        assert_eq!(FileKind::of(&coff[..59]), FileKind::Unknown);
        coff[8] = 61;
        assert_eq!(FileKind::of(&coff), FileKind::Unknown);
        coff[8] = 60;
        coff[16] = 1;
        assert_eq!(FileKind::of(&coff), FileKind::Unknown);

        let mut pe = vec![0_u8; 0x48];
        pe[..2].copy_from_slice(b"MZ");
        pe[0x3c] = 0x44;
        assert_eq!(FileKind::of(&pe), FileKind::Unknown);
        pe[0x44..].copy_from_slice(b"PE\0\0");
        assert_eq!(FileKind::of(&pe), FileKind::Pe);
        pe[0x3f] = 0xff;
        assert_eq!(FileKind::of(&pe), FileKind::Unknown);

        let mut big = b"\0\0\xff\xff\x02\0\x64\x86\0\0\0\0".to_vec();
        big.extend(BIG_OBJ_CLASS);
        assert_eq!(FileKind::of(&big), FileKind::CoffBigObj);
    }

    #[test]
    fn scripts() {
        let yes = [
            "/* GNU ld script\n*/\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( a )",
            "INPUT(-lfoo)",
            "  \n\tGROUP(libc.so.6)",
            "SECTIONS { }",
            "/* nothing */ /* more */",
            "/* umlaut \u{e4} */ SEARCH_DIR(\"/lib\")",
        ];
        for text in yes {
            assert_eq!(
                FileKind::of(text.as_bytes()),
                FileKind::LinkerScript,
                "{text}"
            );
        }
        let no = [
            "INPUTS(-lfoo)",
            "/* open",
            "/* C */ int main;",
            "#include <stdio.h>",
            "{ global: x; };",
            "INPUT(\0)",
            "\n",
        ];
        for text in no {
            assert_eq!(FileKind::of(text.as_bytes()), FileKind::Unknown, "{text}");
        }
    }
}
