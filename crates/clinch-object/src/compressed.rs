//! Compressed sections: `SHF_COMPRESSED` with its header (gABI, Section Compression), and the
//! older `.zdebug_*` of GNU tools.
//!
//! The declared size is not believed: output grows as it comes, never beyond that size, and one
//! that no stream of this length can have is refused before anything is done.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::elf::raw::Format;
use crate::error::ReadErrorKind;
use clinch_graph::Endian;
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use flate2::{FlushDecompress, Status};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// `ELFCOMPRESS_ZLIB`.
const ZLIB: u32 = 1;
/// `ELFCOMPRESS_ZSTD`.
const ZSTD: u32 = 2;

/// What a section is when it is no longer compressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decompressed {
    /// Its bytes.
    pub content: Vec<u8>,
    /// Its alignment as declared, not checked to be a power of two; 0 when none is declared.
    pub align: u64,
}

/// What is wrong with a compressed section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompressedErrorKind {
    /// The header is longer than the section, or is none.
    #[error("compressed section has no valid header")]
    Header,
    /// A method other than zlib and Zstandard.
    #[error("unknown compression type {0}")]
    Type(u32),
    /// The data cannot be decompressed.
    #[error("corrupt {0} data in compressed section")]
    Corrupt(&'static str),
    /// The declared size is beyond what the data can be.
    #[error("compressed section of {compressed} bytes cannot hold the declared {declared} bytes")]
    Impossible {
        /// How long the data are.
        compressed: u64,
        /// The size in the header.
        declared: u64,
    },
    /// The data are longer than declared.
    #[error("compressed section holds more than the declared {declared} bytes")]
    TooLong {
        /// The size in the header.
        declared: u64,
    },
    /// The data are shorter than declared.
    #[error("compressed section holds {found} bytes instead of the declared {declared}")]
    TooShort {
        /// How long the data are.
        found: u64,
        /// The size in the header.
        declared: u64,
    },
}

type Result<T> = std::result::Result<T, CompressedErrorKind>;

/// Decompresses a section with the flag `SHF_COMPRESSED`.
///
/// # Errors
///
/// When header or data are malformed, or the data are not as long as the header says.
pub fn decompress(
    section: &[u8],
    is_64: bool,
    endian: Endian,
) -> std::result::Result<Decompressed, ReadErrorKind> {
    Ok(with_header(section, Format { is_64, endian })?)
}

/// Decompresses a section named `.zdebug_*`.
///
/// # Errors
///
/// When header or data are malformed, or the data are not as long as the header says.
pub fn decompress_gnu(section: &[u8]) -> std::result::Result<Decompressed, ReadErrorKind> {
    // The letters ZLIB and the size, big-endian in any file.
    let (declared, data) = section
        .strip_prefix(b"ZLIB")
        .and_then(|rest| rest.split_first_chunk())
        .ok_or(CompressedErrorKind::Header)?;
    let content = inflate(data, u64::from_be_bytes(*declared))?;
    Ok(Decompressed { content, align: 0 })
}

fn with_header(section: &[u8], format: Format) -> Result<Decompressed> {
    // Elf64_Chdr has four reserved bytes behind the type.
    let words = if format.is_64 { 8 } else { 4 };
    let header = words + 2 * format.word_size();
    let (header, data) = section
        .split_at_checked(header)
        .ok_or(CompressedErrorKind::Header)?;
    let method = format.u32(header, 0);
    let declared = format.word(header, words);
    let align = format.word(header, words + format.word_size());
    let (Some(method), Some(declared), Some(align)) = (method, declared, align) else {
        return Err(CompressedErrorKind::Header);
    };
    let content = match method {
        ZLIB => inflate(data, declared)?,
        ZSTD => decode_zstd(data, declared)?,
        other => return Err(CompressedErrorKind::Type(other)),
    };
    Ok(Decompressed { content, align })
}

/// Refuses what `most` bytes out of each input byte could not yield, and makes room for a
/// usual ratio.
fn start(data: &[u8], declared: u64, most: u64) -> Result<Vec<u8>> {
    let compressed = u64_of(data.len());
    if declared > compressed.saturating_add(64).saturating_mul(most) {
        return Err(CompressedErrorKind::Impossible {
            compressed,
            declared,
        });
    }
    let likely = data.len().saturating_mul(8);
    Ok(Vec::with_capacity(usize_of_u64(declared).min(likely)))
}

fn finish(output: Vec<u8>, declared: u64) -> Result<Vec<u8>> {
    let found = u64_of(output.len());
    match found.cmp(&declared) {
        std::cmp::Ordering::Less => Err(CompressedErrorKind::TooShort { found, declared }),
        std::cmp::Ordering::Equal => Ok(output),
        std::cmp::Ordering::Greater => Err(CompressedErrorKind::TooLong { declared }),
    }
}

/// zlib. Several streams in a row are their contents in a row, as GNU ld makes of `.zdebug_*`
/// sections with `-r`.
fn inflate(mut data: &[u8], declared: u64) -> Result<Vec<u8>> {
    let corrupt = CompressedErrorKind::Corrupt("zlib");
    // Deflate codes at most 258 bytes in 2 bits.
    let mut output = start(data, declared, 1032)?;
    let mut stream = flate2::Decompress::new(true);
    loop {
        // One byte more than declared, to see whether there is more.
        let room = usize_of_u64(declared)
            .saturating_sub(output.len())
            .saturating_add(1);
        if output.len() == output.capacity() {
            let more = output.len().max(64 * 1024).min(room);
            output.reserve_exact(more);
        }
        let (before_in, before_out) = (stream.total_in(), output.len());
        let status = stream
            .decompress_vec(data, &mut output, FlushDecompress::None)
            .map_err(|_| corrupt)?;
        let used = usize_of_u64(stream.total_in().saturating_sub(before_in));
        data = data.get(used..).unwrap_or(&[]);
        if u64_of(output.len()) > declared {
            return Err(CompressedErrorKind::TooLong { declared });
        }
        match status {
            Status::StreamEnd if u64_of(output.len()) == declared || data.is_empty() => {
                return finish(output, declared);
            }
            Status::StreamEnd => stream.reset(true),
            Status::Ok | Status::BufError => {
                if used == 0 && output.len() == before_out {
                    return Err(corrupt);
                }
            }
        }
    }
}

/// Zstandard, frame by frame.
fn decode_zstd(mut data: &[u8], declared: u64) -> Result<Vec<u8>> {
    let corrupt = CompressedErrorKind::Corrupt("Zstandard");
    // A block has at least 4 bytes and yields at most 128 KiB.
    let mut output = start(data, declared, 32 * 1024)?;
    while !data.is_empty() {
        // A decoder keeps as much as the window that the frame asks for; a frame has no use for
        // one that is larger than its content, but encoders take 8 MiB without a thought.
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(declared.saturating_mul(2).max(8 << 20));
        match decoder.init(&mut data) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                data = data.get(usize_of(length)..).ok_or(corrupt)?;
                continue;
            }
            Err(_) => return Err(corrupt),
        }
        while !decoder.is_finished() {
            decoder
                .decode_blocks(&mut data, BlockDecodingStrategy::UptoBytes(128 * 1024))
                .map_err(|_| corrupt)?;
            if u64_of(output.len().saturating_add(decoder.can_collect())) > declared {
                return Err(CompressedErrorKind::TooLong { declared });
            }
            decoder
                .collect_to_writer(&mut output)
                .map_err(|_| corrupt)?;
        }
    }
    finish(output, declared)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "a test may panic"
    )]
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn zlib(content: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn chdr(method: u32, declared: u64, is_64: bool, endian: Endian, data: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        let mut number = |value: u64, width: usize| match endian {
            Endian::Little => section.extend(&value.to_le_bytes()[..width]),
            Endian::Big => section.extend(&value.to_be_bytes()[8 - width..]),
        };
        number(method.into(), 4);
        if is_64 {
            number(0, 4);
        }
        let width = if is_64 { 8 } else { 4 };
        number(declared, width);
        number(16, width);
        section.extend(data);
        section
    }

    fn run(method: u32, declared: usize, data: &[u8]) -> Result<Vec<u8>> {
        let section = chdr(method, u64_of(declared), true, Endian::Little, data);
        match decompress(&section, true, Endian::Little) {
            Ok(section) => Ok(section.content),
            Err(ReadErrorKind::Compressed(kind)) => Err(kind),
            Err(other) => unreachable!("{other}"),
        }
    }

    fn sample(len: usize) -> Vec<u8> {
        // Neither constant nor random.
        (0..len)
            .map(|n| (n.wrapping_mul(n) >> 7).to_le_bytes()[0])
            .collect()
    }

    #[test]
    fn both_methods_in_all_classes_and_orders() {
        for len in [0, 1, 1000, 1_000_000] {
            let content = sample(len);
            for (method, data) in [(ZLIB, zlib(&content)), (ZSTD, zstd(&content))] {
                for is_64 in [true, false] {
                    for endian in [Endian::Little, Endian::Big] {
                        let section = chdr(method, u64_of(len), is_64, endian, &data);
                        let got = decompress(&section, is_64, endian).unwrap();
                        assert_eq!(got.content, content);
                        assert_eq!(got.align, 16);
                    }
                }
            }
        }
    }

    #[test]
    fn old_gnu_form() {
        let content = sample(5000);
        let mut section = b"ZLIB".to_vec();
        section.extend(5000_u64.to_be_bytes());
        section.extend(zlib(&content));
        assert_eq!(decompress_gnu(&section).unwrap().content, content);
        for bad in [&b"ZLIB\0\0\0\0"[..], b"ZSTD\0\0\0\0\0\0\0\0", b""] {
            assert_eq!(decompress_gnu(bad), Err(CompressedErrorKind::Header.into()));
        }
    }

    #[test]
    fn streams_in_a_row() {
        let content = sample(3000);
        for (method, encode) in [(ZLIB, zlib as fn(&[u8]) -> Vec<u8>), (ZSTD, zstd)] {
            let data = [encode(&content[..1000]), encode(&content[1000..])].concat();
            assert_eq!(run(method, 3000, &data).unwrap(), content);
        }
        // A Zstandard frame to be skipped.
        let skip = [
            &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
            &zstd(&content),
        ]
        .concat();
        assert_eq!(run(ZSTD, 3000, &skip).unwrap(), content);
        assert_eq!(
            run(ZSTD, 3000, &skip[..10]),
            Err(CompressedErrorKind::Corrupt("Zstandard"))
        );
    }

    #[test]
    fn wrong_sizes() {
        let content = vec![7; 100_000];
        for (method, data) in [(ZLIB, zlib(&content)), (ZSTD, zstd(&content))] {
            let declared = 99_999;
            let too_long = CompressedErrorKind::TooLong { declared };
            assert_eq!(run(method, 99_999, &data), Err(too_long));
            let too_short = CompressedErrorKind::TooShort {
                found: 100_000,
                declared: 100_001,
            };
            assert_eq!(run(method, 100_001, &data), Err(too_short));
            let compressed = u64_of(data.len());
            let impossible = CompressedErrorKind::Impossible {
                compressed,
                declared: 1 << 60,
            };
            assert_eq!(run(method, 1 << 60, &data), Err(impossible));
            assert!(run(method, usize::MAX, &data).is_err());
        }
    }

    #[test]
    fn damaged_data_is_refused() {
        let content = sample(20_000);
        for (method, data) in [(ZLIB, zlib(&content)), (ZSTD, zstd(&content))] {
            for len in 0..data.len().min(400) {
                assert!(run(method, 20_000, &data[..len]).is_err());
            }
            // Any single damaged byte: an error or other bytes, but never a panic.
            for at in 0..data.len().min(2000) {
                for flip in [1, 0x80, 0xff] {
                    let mut damaged = data.clone();
                    damaged[at] ^= flip;
                    if let Ok(got) = run(method, 20_000, &damaged) {
                        assert_eq!(got.len(), 20_000);
                    }
                }
            }
        }
        assert_eq!(run(3, 0, &[]), Err(CompressedErrorKind::Type(3)));
        let short = decompress(&[1; 23], true, Endian::Little);
        assert_eq!(short, Err(CompressedErrorKind::Header.into()));
        let short = decompress(&[1; 11], false, Endian::Little);
        assert_eq!(short, Err(CompressedErrorKind::Header.into()));
    }
    #[test]
    fn what_objcopy_makes() {
        use crate::elf::raw::{Header, name_at};
        use std::process::Command;

        let dir = tempfile::tempdir().unwrap();
        let run = |tool: &str, arguments: &[&str]| {
            let command = Command::new(tool)
                .args(arguments)
                .current_dir(&dir)
                .output();
            command.is_ok_and(|output| output.status.success())
        };
        // Debug sections of a name, decompressed where they are not plain.
        let read = |file: &str| {
            let bytes = std::fs::read(dir.path().join(file)).unwrap();
            let header = Header::parse(&bytes).unwrap();
            let sections = header.sections(&bytes);
            let names = sections.need("file", header.names).unwrap();
            let names = names.data(&bytes, "names").unwrap();
            let (_, section) = sections
                .iter()
                .find(|(_, section)| {
                    let name = name_at(names, section.name).unwrap();
                    name == b".debug_x" || name == b".zdebug_x"
                })
                .unwrap();
            let data = section.data(&bytes, "section").unwrap();
            if section.flags & crate::elf::raw::shf::COMPRESSED != 0 {
                let section = decompress(data, header.format.is_64, header.format.endian);
                (section.unwrap().content, true)
            } else if data.starts_with(b"ZLIB") {
                (decompress_gnu(data).unwrap().content, true)
            } else {
                (data.to_vec(), false)
            }
        };
        let text = ".section .debug_x,\"\",@progbits\n.set n, 0\n.rept 300000\n.byte (n * n >> 9) \
                    & 255\n.set n, n + 1\n.endr\n";
        std::fs::write(dir.path().join("x.s"), text).unwrap();
        if !run("as", &["x.s", "-o", "plain.o"]) {
            return;
        }
        let (plain, _) = read("plain.o");
        assert_eq!(plain.len(), 300_000);
        for tool in ["objcopy", "llvm-objcopy-22"] {
            for method in ["zlib", "zlib-gnu", "zstd"] {
                let option = format!("--compress-debug-sections={method}");
                // Not every version knows every method.
                if run(tool, &[&option, "plain.o", "out.o"]) {
                    assert_eq!(read("out.o"), (plain.clone(), true), "{tool} {method}");
                }
            }
        }
    }
}
