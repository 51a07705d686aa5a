//! Writes relocatable ELF objects for x86-64, for tests that need more of them than a compiler
//! makes in a test's time. As little as a linker needs: sections, symbols, relocations.

use std::iter;

pub(crate) const R_64: u32 = 1;
pub(crate) const R_PC32: u32 = 2;
pub(crate) const R_PLT32: u32 = 4;
pub(crate) const R_32S: u32 = 11;

const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;

/// Where a symbol is defined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Undefined,
    Text(u64),
    Data(u64),
}

/// An object to be written.
#[derive(Default)]
pub(crate) struct Object {
    text: Vec<u8>,
    data: Vec<u8>,
    /// Name and place; all are global.
    symbols: Vec<(String, At)>,
    /// Offset, number, symbol and addend; of the code and of the data.
    relocations: [Vec<(u64, u32, usize, i64)>; 2],
}

impl Object {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a symbol and answers its number.
    pub(crate) fn symbol(&mut self, name: &str, at: At) -> usize {
        self.symbols.push((name.to_owned(), at));
        self.symbols.len() - 1
    }

    /// Adds code with relocations at offsets in it; answers where it begins.
    pub(crate) fn code(&mut self, bytes: &[u8], relocations: &[(u64, u32, usize, i64)]) -> u64 {
        Self::append(&mut self.text, &mut self.relocations[0], bytes, relocations)
    }

    /// Adds data likewise.
    pub(crate) fn data(&mut self, bytes: &[u8], relocations: &[(u64, u32, usize, i64)]) -> u64 {
        Self::append(&mut self.data, &mut self.relocations[1], bytes, relocations)
    }

    fn append(
        section: &mut Vec<u8>,
        all: &mut Vec<(u64, u32, usize, i64)>,
        bytes: &[u8],
        relocations: &[(u64, u32, usize, i64)],
    ) -> u64 {
        let start = section.len() as u64;
        section.extend_from_slice(bytes);
        all.extend(
            relocations
                .iter()
                .map(|&(at, kind, s, a)| (start + at, kind, s, a)),
        );
        start
    }

    /// The file.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut names = vec![0];
        let mut symbols = vec![0; 24];
        for (name, at) in &self.symbols {
            const GLOBAL: u8 = 1 << 4;
            const FUNC: u8 = 2;
            let (section, value, kind): (u16, u64, u8) = match *at {
                At::Undefined => (0, 0, 0),
                At::Text(offset) => (1, offset, FUNC),
                At::Data(offset) => (2, offset, 0),
            };
            symbols.extend((names.len() as u32).to_le_bytes());
            symbols.extend([GLOBAL | kind, 0]);
            symbols.extend(section.to_le_bytes());
            symbols.extend(value.to_le_bytes());
            symbols.extend(0_u64.to_le_bytes());
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let records = |list: &[(u64, u32, usize, i64)]| -> Vec<u8> {
            let one = |&(at, kind, symbol, addend): &(u64, u32, usize, i64)| {
                let info = (symbol as u64 + 1) << 32 | u64::from(kind);
                [at, info, addend.cast_unsigned()]
                    .map(u64::to_le_bytes)
                    .concat()
            };
            list.iter().flat_map(one).collect()
        };
        let (code, data) = (SHF_ALLOC | SHF_EXECINSTR, SHF_ALLOC | SHF_WRITE);
        let section_names =
            b"\0.text\0.data\0.rela.text\0.rela.data\0.symtab\0.strtab\0.shstrtab\0";
        // Name, type, flags, content, link, info, alignment, entry size.
        let sections: [(u32, u32, u64, &[u8], u32, u32, u64, u64); 7] = [
            (1, 1, code, &self.text, 0, 0, 16, 0),
            (7, 1, data, &self.data, 0, 0, 8, 0),
            (13, 4, 0, &records(&self.relocations[0]), 5, 1, 8, 24),
            (24, 4, 0, &records(&self.relocations[1]), 5, 2, 8, 24),
            (35, 2, 0, &symbols, 6, 1, 8, 24),
            (43, 3, 0, &names, 0, 0, 1, 0),
            (51, 3, 0, section_names, 0, 0, 1, 0),
        ];
        let mut file = vec![0; 64];
        let mut headers = vec![0; 64];
        for (name, kind, flags, content, link, info, align, entry) in sections {
            file.extend(iter::repeat_n(
                0,
                file.len().next_multiple_of(16) - file.len(),
            ));
            headers.extend(name.to_le_bytes());
            headers.extend(kind.to_le_bytes());
            for word in [flags, 0, file.len() as u64, content.len() as u64] {
                headers.extend(word.to_le_bytes());
            }
            headers.extend(link.to_le_bytes());
            headers.extend(info.to_le_bytes());
            headers.extend(align.to_le_bytes());
            headers.extend(entry.to_le_bytes());
            file.extend_from_slice(content);
        }
        file.extend(iter::repeat_n(
            0,
            file.len().next_multiple_of(16) - file.len(),
        ));
        let table = file.len() as u64;
        file.extend(headers);
        let header = &mut file[..64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[16..24].copy_from_slice(&[1, 0, 62, 0, 1, 0, 0, 0]);
        header[40..48].copy_from_slice(&table.to_le_bytes());
        header[52] = 64;
        header[58..64].copy_from_slice(&[64, 0, 8, 0, 7, 0]);
        file
    }
}
