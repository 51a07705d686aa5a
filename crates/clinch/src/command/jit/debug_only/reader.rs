//! How llvm-jitlink reads an ELF object into a graph: which sections, symbols and relocations it
//! takes. Told from the object's bytes, since clinch's graph holds only what is linked.

use clinch_graph::index::int::{usize_of, usize_of_u64};
use clinch_graph::index::map::Set;
use clinch_object::elf::raw::{Format, Header, RawSymbol, Sections, name_at, shf, shn, sht, st};
use clinch_target::{Arch, ElfRelocation};

/// Tells it of one object. What cannot be read ends the text.
pub(super) fn tell(arch: &Arch, name: &str, bytes: &[u8], text: &mut String) {
    *text += &format!("Building jitlink graph for new input {name}...\n");
    *text += &format!("Created ELFLinkGraphBuilder for \"{name}\"  Preparing to build...\n");
    if let Some(object) = Object::new(bytes) {
        object.sections(text);
        object.symbols(text);
        object.relocations(arch, text);
    }
}

/// What an object holds.
struct Object<'d> {
    bytes: &'d [u8],
    format: Format,
    sections: Sections<'d>,
    section_names: &'d [u8],
    /// The symbol table with its section's name.
    symbols: Vec<Symbol<'d>>,
    table: Option<&'d [u8]>,
}

/// A symbol.
#[derive(Clone, Copy)]
struct Symbol<'d> {
    raw: RawSymbol,
    name: &'d [u8],
    /// The section's number, from the table of large ones where it is there.
    section: usize,
}

impl<'d> Object<'d> {
    fn new(bytes: &'d [u8]) -> Option<Self> {
        let header = Header::parse(bytes).ok()?;
        let sections = header.sections(bytes);
        let names = sections.need("section names", header.names).ok()?;
        let mut object = Self {
            bytes,
            format: header.format,
            sections,
            section_names: names.data(bytes, "section names").ok()?,
            symbols: Vec::new(),
            table: None,
        };
        object.read_symbols();
        Some(object)
    }

    fn read_symbols(&mut self) -> Option<()> {
        let mut sections = self.sections.iter();
        let (index, table) = sections.find(|(_, section)| section.kind == sht::SYMTAB)?;
        self.table = name_at(self.section_names, table.name);
        let names = self.sections.get(usize_of(table.link))?;
        let names = names.data(self.bytes, "symbol names").ok()?;
        let large = self.sections.iter().find(|(_, section)| {
            section.kind == sht::SYMTAB_SHNDX && usize_of(section.link) == index
        });
        let large = large.and_then(|(_, section)| section.data(self.bytes, "section numbers").ok());
        let data = table.data(self.bytes, "symbol table").ok()?;
        for (index, raw) in data.chunks_exact(self.format.symbol_size()).enumerate() {
            let raw = RawSymbol::parse(self.format, raw)?;
            let section = match raw.section {
                shn::XINDEX => usize_of(self.format.u32(large?, index.checked_mul(4)?)?),
                section => section.into(),
            };
            self.symbols.push(Symbol {
                raw,
                name: name_at(names, raw.name).unwrap_or_default(),
                section,
            });
        }
        Some(())
    }

    fn name(&self, section: usize) -> String {
        let name = self.sections.get(section);
        let name = name.and_then(|section| name_at(self.section_names, section.name));
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    }

    fn sections(&self, text: &mut String) {
        text.push_str("  Creating graph sections...\n");
        let mut known: Set<String> = Set::default();
        for (index, section) in self.sections.iter() {
            if section.kind == sht::NULL {
                *text += &format!("    {index}: has type SHT_NULL. Skipping.\n");
                continue;
            }
            let name = self.name(index);
            *text += &format!("    {index}: Creating section for \"{name}\"\n");
            if section.flags & shf::ALLOC == 0 && !known.contains(&name) {
                *text += &format!(
                    "      {index}: \"{name}\" is not a SHF_ALLOC section. Using NoAlloc lifetime.\n"
                );
            }
            known.insert(name);
        }
    }

    fn symbols(&self, text: &mut String) {
        text.push_str("  Creating graph symbols...\n");
        let Some(table) = self.table else { return };
        let table = String::from_utf8_lossy(table);
        *text += &format!("    Adding symbols from symtab section \"{table}\"\n");
        for (index, symbol) in self.symbols.iter().enumerate() {
            let (raw, kind) = (&symbol.raw, symbol.raw.kind());
            let name = String::from_utf8_lossy(symbol.name);
            let is_undefined = raw.section == shn::UNDEF;
            let what = if kind == st::FILE {
                format!("Skipping STT_FILE symbol \"{name}\"")
            } else if kind == st::COMMON || raw.section == shn::COMMON {
                // They get space without a word.
                continue;
            } else if !is_undefined && is_definition(kind) {
                if !self.has_section(symbol.section) {
                    continue;
                }
                format!("Creating defined graph symbol for ELF symbol \"{name}\"")
            } else if is_undefined && raw.binding() != st::LOCAL {
                format!("Creating external graph symbol for ELF symbol \"{name}\"")
            } else if is_undefined
                && (raw.value, raw.size, kind) == (0, 0, st::NOTYPE)
                && name.is_empty()
            {
                "Creating null graph symbol".to_owned()
            } else {
                format!(
                    "Not creating graph symbol for ELF symbol \"{name}\" with unrecognized type"
                )
            };
            *text += &format!("      {index}: {what}\n");
        }
    }

    fn has_section(&self, index: usize) -> bool {
        let section = self.sections.get(index);
        section.is_some_and(|section| section.kind != sht::NULL)
    }

    fn relocations(&self, arch: &Arch, text: &mut String) {
        text.push_str("Processing relocations:\n");
        for (_, section) in self.sections.iter() {
            if section.kind != sht::RELA {
                continue;
            }
            *text += &format!("  {}:\n", self.name(usize_of(section.info)));
            let data = section.data(self.bytes, "relocations").unwrap_or_default();
            for record in data.chunks_exact(3 * self.format.word_size()) {
                if self.relocation(arch, record, text).is_none() {
                    return;
                }
            }
            text.push('\n');
        }
    }

    /// Tells of a relocation; `None` when it is none that an object may hold.
    fn relocation(&self, arch: &Arch, record: &[u8], text: &mut String) -> Option<()> {
        let word = self.format.word_size();
        let offset = self.format.word(record, 0)?;
        let info = self.format.word(record, word)?;
        let addend = self.format.word(record, 2 * word)?;
        let addend = if self.format.is_64 {
            addend.cast_signed()
        } else {
            i64::from(u32::try_from(addend).ok()?.cast_signed())
        };
        let (symbol, number) = if self.format.is_64 {
            (info >> 32, info & 0xffff_ffff)
        } else {
            (info >> 8, info & 0xff)
        };
        let meaning = arch.elf?.relocation(u32::try_from(number).ok()?);
        let (kind, bias) = match meaning {
            ElfRelocation::Edge { kind, bias } => (kind, bias),
            ElfRelocation::KeepAlive => return Some(()),
            ElfRelocation::Dynamic | ElfRelocation::Unknown => return None,
        };
        let index = symbol;
        let symbol = self.symbols.get(usize_of_u64(index))?;
        let target = match String::from_utf8_lossy(symbol.name) {
            name if !name.is_empty() => name.into_owned(),
            _ if symbol.raw.section == shn::UNDEF => format!("__jitlink_ELF_SYM_UND_{index}"),
            _ => {
                let (at, name) = (symbol.raw.value, self.name(symbol.section));
                let distance = match at {
                    0 => String::new(),
                    at => format!(" + {at:#x}"),
                };
                format!("{at:#x} (section {name}{distance} / block 0x0{distance})")
            }
        };
        let kind = arch.graph.kind_name(kind);
        *text += &format!("    edge@{offset:#x}: 0x0 + {offset:#x} -- {kind} -> {target}");
        match addend.wrapping_add(bias) {
            0 => {}
            addend => *text += &format!(" + {addend}"),
        }
        text.push('\n');
        Some(())
    }
}

/// The types of symbols that become definitions.
fn is_definition(kind: u8) -> bool {
    matches!(
        kind,
        st::NOTYPE | st::FUNC | st::OBJECT | st::SECTION | st::TLS
    )
}
