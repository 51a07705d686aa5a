//! Puts relocatable objects together byte by byte, in either class and order. Everything can be
//! made wrong: fields are written as given, and headers can be overwritten afterwards.

use super::arch;
use clinch_graph::Endian;
use clinch_object::elf::raw::{Format, shn, sht};

/// A `sh_link` or section number that [`Builder::build`] replaces by the symbol table's number.
pub(crate) const SYMTAB: u32 = u32::MAX;

/// All classes and orders.
pub(crate) const FORMATS: [Format; 4] = [
    Format {
        is_64: true,
        endian: Endian::Little,
    },
    Format {
        is_64: true,
        endian: Endian::Big,
    },
    Format {
        is_64: false,
        endian: Endian::Little,
    },
    Format {
        is_64: false,
        endian: Endian::Big,
    },
];

/// A section to write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) data: Vec<u8>,
    /// `sh_size`, where it is not the data's.
    pub(crate) size: Option<u64>,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entry_size: u64,
}

/// A symbol to write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sym {
    pub(crate) name: &'static str,
    /// Binding in the high half, type in the low one.
    pub(crate) info: u8,
    pub(crate) other: u8,
    /// The section's number; one from `SHN_LORESERVE` on goes to the table of section numbers.
    pub(crate) section: u32,
    /// Written to `st_shndx` instead of the section's number.
    pub(crate) special: Option<u16>,
    pub(crate) value: u64,
    pub(crate) size: u64,
}

/// A relocation record to write: place, symbol, type, addend.
pub(crate) type Record = (u64, u32, u32, i64);

/// An object in the making. Symbol 0 is there; the three tables come last.
#[derive(Debug)]
pub(crate) struct Builder {
    format: Format,
    sections: Vec<Section>,
    symbols: Vec<Sym>,
    /// Leave out the symbol table.
    pub(crate) no_symbols: bool,
    pub(crate) machine: u16,
    pub(crate) file_type: u16,
}

/// An object, with what is needed to damage it.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) bytes: Vec<u8>,
    format: Format,
    headers: usize,
    /// Numbers of the last sections.
    pub(crate) symtab: u32,
    pub(crate) strtab: u32,
    pub(crate) shstrtab: u32,
    /// Where the sections' data are.
    offsets: Vec<u64>,
}

/// A field of a section header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Name,
    Kind,
    Offset,
    Size,
    Link,
    Info,
    Align,
    EntrySize,
}

fn put(out: &mut Vec<u8>, format: Format, value: u64, width: usize) {
    match format.endian {
        Endian::Little => out.extend(&value.to_le_bytes()[..width]),
        Endian::Big => out.extend(&value.to_be_bytes()[8 - width..]),
    }
}

/// These numbers in a row, each of `width` bytes.
pub(crate) fn numbers(format: Format, width: usize, values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for &value in values {
        put(&mut out, format, value, width);
    }
    out
}

impl Builder {
    /// An object of a test architecture.
    pub(crate) fn new(format: Format) -> Self {
        let symbols = vec![Sym::default()];
        let sections = vec![Section::default()];
        let (machine, file_type) = (arch::MACHINE, 1);
        Self {
            format,
            sections,
            symbols,
            no_symbols: false,
            machine,
            file_type,
        }
    }

    /// Adds a section and answers its number.
    pub(crate) fn section(&mut self, section: Section) -> u32 {
        self.sections.push(section);
        u32::try_from(self.sections.len() - 1).unwrap()
    }

    /// Adds `SHT_PROGBITS` data.
    pub(crate) fn data(&mut self, name: &'static str, flags: u64, data: &[u8]) -> u32 {
        let data = data.to_vec();
        self.section(Section {
            name,
            kind: sht::PROGBITS,
            flags,
            data,
            ..Section::default()
        })
    }

    /// Adds a symbol and answers its number.
    pub(crate) fn symbol(&mut self, symbol: Sym) -> u32 {
        self.symbols.push(symbol);
        u32::try_from(self.symbols.len() - 1).unwrap()
    }

    /// Adds a global symbol.
    pub(crate) fn global(&mut self, name: &'static str, section: u32, value: u64) -> u32 {
        self.symbol(Sym {
            name,
            info: 1 << 4,
            section,
            value,
            ..Sym::default()
        })
    }

    /// Adds a relocation table without data.
    fn table(&mut self, kind: u32, target: u32, data: Vec<u8>, words: u64) -> u32 {
        let name = match kind {
            sht::REL => ".rel",
            sht::RELA => ".rela",
            _ => ".crel",
        };
        let word = if self.format.is_64 { 8 } else { 4 };
        let entry_size = if words == 0 { 1 } else { word * words };
        let (link, info) = (SYMTAB, target);
        self.section(Section {
            name,
            kind,
            data,
            link,
            info,
            entry_size,
            ..Section::default()
        })
    }

    /// Adds `SHT_REL`; addends are not written.
    pub(crate) fn rel(&mut self, target: u32, records: &[Record]) -> u32 {
        let data = self.records(records, false);
        self.table(sht::REL, target, data, 2)
    }

    /// Adds `SHT_RELA`.
    pub(crate) fn rela(&mut self, target: u32, records: &[Record]) -> u32 {
        let data = self.records(records, true);
        self.table(sht::RELA, target, data, 3)
    }

    /// Adds `SHT_CREL`, whose places are multiples of `1 << shift`.
    pub(crate) fn crel(
        &mut self,
        target: u32,
        records: &[Record],
        addends: bool,
        shift: u32,
    ) -> u32 {
        self.table(sht::CREL, target, crel(records, addends, shift), 0)
    }

    /// Adds `SHT_CREL` with these bytes.
    pub(crate) fn raw_crel(&mut self, target: u32, data: &[u8]) -> u32 {
        self.table(sht::CREL, target, data.to_vec(), 0)
    }

    fn records(&self, records: &[Record], addends: bool) -> Vec<u8> {
        let (format, mut out) = (self.format, Vec::new());
        let word = format.word_size();
        for &(place, symbol, kind, addend) in records {
            put(&mut out, format, place, word);
            let shift = if format.is_64 { 32 } else { 8 };
            put(
                &mut out,
                format,
                u64::from(symbol) << shift | u64::from(kind),
                word,
            );
            if addends {
                put(&mut out, format, addend.cast_unsigned(), word);
            }
        }
        out
    }

    /// Adds `SHT_GROUP`.
    pub(crate) fn group(&mut self, signature: u32, flags: u32, members: &[u32]) -> u32 {
        let mut data = Vec::new();
        put(&mut data, self.format, flags.into(), 4);
        for &member in members {
            put(&mut data, self.format, member.into(), 4);
        }
        let (name, kind, link) = (".group", sht::GROUP, SYMTAB);
        let (info, entry_size, align) = (signature, 4, 4);
        self.section(Section {
            name,
            kind,
            data,
            link,
            info,
            entry_size,
            align,
            ..Section::default()
        })
    }

    /// Writes the object.
    pub(crate) fn build(mut self) -> Built {
        let format = self.format;
        let mut symtab = 0;
        let mut strtab = 0;
        if !self.no_symbols {
            let (mut strings, mut table, mut extended) = (vec![0], Vec::new(), Vec::new());
            for symbol in &self.symbols {
                let name = add_name(&mut strings, symbol.name);
                let wide = symbol.section >= u32::from(shn::LORESERVE);
                let short = if wide {
                    shn::XINDEX
                } else {
                    u16::try_from(symbol.section).unwrap()
                };
                let short = symbol.special.unwrap_or(short);
                put(
                    &mut extended,
                    format,
                    u64::from(if wide { symbol.section } else { 0 }),
                    4,
                );
                put(&mut table, format, name, 4);
                if !format.is_64 {
                    put(&mut table, format, symbol.value, 4);
                    put(&mut table, format, symbol.size, 4);
                }
                table.extend([symbol.info, symbol.other]);
                put(&mut table, format, short.into(), 2);
                if format.is_64 {
                    put(&mut table, format, symbol.value, 8);
                    put(&mut table, format, symbol.size, 8);
                }
            }
            let number = self.sections.len();
            let any = self
                .symbols
                .iter()
                .any(|symbol| symbol.section >= shn::LORESERVE.into());
            (symtab, strtab) = (
                u32::try_from(number).unwrap(),
                u32::try_from(number).unwrap() + 1,
            );
            let entry_size = u64::try_from(format.symbol_size()).unwrap();
            self.section(Section {
                name: ".symtab",
                kind: sht::SYMTAB,
                data: table,
                link: strtab,
                info: 1,
                align: 8,
                entry_size,
                ..Section::default()
            });
            let (name, kind) = (".strtab", sht::STRTAB);
            self.section(Section {
                name,
                kind,
                data: strings,
                ..Section::default()
            });
            if any {
                let (name, kind, link) = (".symtab_shndx", sht::SYMTAB_SHNDX, symtab);
                self.section(Section {
                    name,
                    kind,
                    link,
                    data: extended,
                    ..Section::default()
                });
            }
        }
        let shstrtab = self.section(Section {
            name: ".shstrtab",
            kind: sht::STRTAB,
            ..Section::default()
        });
        let mut names = vec![0];
        let name_offsets: Vec<u64> = self
            .sections
            .iter()
            .map(|section| add_name(&mut names, section.name))
            .collect();
        self.sections[usize::try_from(shstrtab).unwrap()].data = names;

        // Header, data, section headers.
        let head = if format.is_64 { 64 } else { 52 };
        let mut bytes = vec![0; head];
        let mut offsets = Vec::new();
        for section in &self.sections {
            while !bytes.len().is_multiple_of(8) {
                bytes.push(0);
            }
            offsets.push(u64::try_from(bytes.len()).unwrap());
            bytes.extend(&section.data);
        }
        while !bytes.len().is_multiple_of(8) {
            bytes.push(0);
        }
        let headers = bytes.len();
        let count = u64::try_from(self.sections.len()).unwrap();
        let many = count >= u64::from(shn::LORESERVE);
        for (n, section) in self.sections.iter().enumerate() {
            let mut size = section
                .size
                .unwrap_or(u64::try_from(section.data.len()).unwrap());
            let mut link = if section.link == SYMTAB {
                symtab
            } else {
                section.link
            };
            if n == 0 && many {
                (size, link) = (count, shstrtab);
            }
            let offset = if section.kind == sht::NULL {
                0
            } else {
                offsets[n]
            };
            let word = format.word_size();
            put(&mut bytes, format, name_offsets[n], 4);
            put(&mut bytes, format, section.kind.into(), 4);
            for value in [section.flags, 0, offset, size] {
                put(&mut bytes, format, value, word);
            }
            put(&mut bytes, format, link.into(), 4);
            put(&mut bytes, format, section.info.into(), 4);
            for value in [section.align, section.entry_size] {
                put(&mut bytes, format, value, word);
            }
        }
        let file_header = self.file_header(
            headers,
            if many { 0 } else { count },
            if many {
                u64::from(shn::XINDEX)
            } else {
                u64::from(shstrtab)
            },
        );
        bytes[..head].copy_from_slice(&file_header);
        Built {
            bytes,
            format,
            headers,
            symtab,
            strtab,
            shstrtab,
            offsets,
        }
    }

    fn file_header(&self, headers: usize, count: u64, names: u64) -> Vec<u8> {
        let format = self.format;
        let class = if format.is_64 { 2 } else { 1 };
        let order = if format.endian == Endian::Little {
            1
        } else {
            2
        };
        let mut out = vec![0x7f, b'E', b'L', b'F', class, order, 1, 0];
        out.resize(16, 0);
        put(&mut out, format, self.file_type.into(), 2);
        put(&mut out, format, self.machine.into(), 2);
        put(&mut out, format, 1, 4);
        let word = format.word_size();
        for value in [0, 0, u64::try_from(headers).unwrap()] {
            put(&mut out, format, value, word);
        }
        put(&mut out, format, 0, 4);
        let size = if format.is_64 { 64 } else { 52 };
        let entry = u64::try_from(format.section_header_size()).unwrap();
        for value in [size, 0, 0, entry, count, names] {
            put(&mut out, format, value, 2);
        }
        out
    }
}

fn add_name(table: &mut Vec<u8>, name: &str) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let offset = u64::try_from(table.len()).unwrap();
    table.extend(name.as_bytes());
    table.push(0);
    offset
}

/// A compact relocation table.
pub(crate) fn crel(records: &[Record], addends: bool, shift: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let count = u64::try_from(records.len()).unwrap();
    uleb(
        &mut out,
        count << 3 | u64::from(addends) << 2 | u64::from(shift),
    );
    let (mut last_place, mut last_symbol, mut last_kind, mut last_addend) = (0, 0, 0, 0);
    let bits = if addends { 3 } else { 2 };
    for &(place, symbol, kind, addend) in records {
        let place = place >> shift;
        let delta = place.wrapping_sub(last_place);
        let mut first = u8::from(symbol != last_symbol) | u8::from(kind != last_kind) << 1;
        if addends {
            first |= u8::from(addend != last_addend) << 2;
        }
        let low = u8::try_from(delta & ((1 << (7 - bits)) - 1)).unwrap() << bits;
        if delta >> (7 - bits) == 0 {
            out.push(first | low);
        } else {
            out.push(first | low | 0x80);
            uleb(&mut out, delta >> (7 - bits));
        }
        if symbol != last_symbol {
            sleb(&mut out, i64::from(symbol) - i64::from(last_symbol));
        }
        if kind != last_kind {
            sleb(&mut out, i64::from(kind) - i64::from(last_kind));
        }
        if addends && addend != last_addend {
            sleb(&mut out, addend.wrapping_sub(last_addend));
        }
        (last_place, last_symbol, last_kind, last_addend) = (place, symbol, kind, addend);
    }
    out
}

/// Appends an unsigned LEB128 number.
pub(crate) fn uleb(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn sleb(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap();
        value >>= 7;
        if value == if low & 0x40 == 0 { 0 } else { -1 } {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

impl Built {
    /// File offset of a section's header.
    pub(crate) fn header(&self, section: u32) -> u64 {
        let size = self.format.section_header_size();
        u64::try_from(self.headers + usize::try_from(section).unwrap() * size).unwrap()
    }

    /// File offset of a section's data.
    pub(crate) fn offset(&self, section: u32) -> u64 {
        self.offsets[usize::try_from(section).unwrap()]
    }

    /// File offset of a symbol.
    pub(crate) fn symbol(&self, number: u64) -> u64 {
        self.offset(self.symtab) + number * u64::try_from(self.format.symbol_size()).unwrap()
    }

    /// The file's length.
    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap()
    }

    /// Overwrites a field of a section's header.
    pub(crate) fn set(&mut self, section: u32, field: Field, value: u64) -> &mut Self {
        let (place, width) = match (field, self.format.is_64) {
            (Field::Name, _) => (0, 4),
            (Field::Kind, _) => (4, 4),
            (Field::Offset, true) => (24, 8),
            (Field::Offset, false) => (16, 4),
            (Field::Size, true) => (32, 8),
            (Field::Size, false) => (20, 4),
            (Field::Link, true) => (40, 4),
            (Field::Link, false) => (24, 4),
            (Field::Info, true) => (44, 4),
            (Field::Info, false) => (28, 4),
            (Field::Align, true) => (48, 8),
            (Field::Align, false) => (32, 4),
            (Field::EntrySize, true) => (56, 8),
            (Field::EntrySize, false) => (36, 4),
        };
        self.write(self.header(section) + place, value, width)
    }

    /// Overwrites a number anywhere.
    pub(crate) fn write(&mut self, offset: u64, value: u64, width: usize) -> &mut Self {
        let raw = numbers(self.format, width, &[value]);
        let start = usize::try_from(offset).unwrap();
        self.bytes[start..start + width].copy_from_slice(&raw);
        self
    }
}
