//! The sections of one object: which take part, and what they become.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::{ElfObject, Failure, align_log2, check_name};
use super::object::ReadOptions;
use super::raw::{SectionHeader, shf, sht};
use crate::compressed;
use crate::error::{ReadError, ReadErrorKind};
use bytes::Bytes;
use clinch_graph::index::int::{low_u32, u32_of, u64_of, usize_of};
use clinch_graph::{
    BlockId, BlockPart, ComdatId, IdRange, Lifetime, LinkGraph, NewSection, Prot, ReadBlock,
    SectionFlags, SectionKind,
};

/// A section that takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Number of its header.
    header: u32,
    /// Number of the header of its relocation records, 0 for none.
    table: u32,
    comdat: Option<ComdatId>,
}

/// What is left to do when a part is filled, since it touches more than the part.
#[derive(Debug, Default)]
pub(super) struct BlockRest {
    /// Decompressed contents with their alignment.
    contents: Vec<(BlockId, Vec<u8>, u64)>,
    /// Parent and child of `SHF_LINK_ORDER`.
    associations: Vec<(BlockId, BlockId)>,
}

impl BlockRest {
    pub(super) fn finish(self, graph: &mut LinkGraph) {
        for (block, content, align) in self.contents {
            // The block was just made, and the alignment checked.
            let _ = graph.fill_content(block, content);
            let _ = graph.set_block_align(block, align, 0);
        }
        for (parent, child) in self.associations {
            let _ = graph.associate(parent, child);
        }
    }
}

const NONE: u32 = u32::MAX;

/// Chooses the sections that take part: all but tables the reader itself uses up, metadata that
/// is not wanted, and members of groups that do not stay.
pub(super) fn choose(
    object: &ElfObject,
    bytes: &Bytes,
    comdats: IdRange<ComdatId>,
    options: ReadOptions,
    keep: &impl Fn(ComdatId) -> bool,
) -> Result<Vec<Kept>, Failure> {
    let sections = object.header.sections(bytes);
    let n_sections = sections.len();
    let mut group_of = vec![
        NONE;
        if object.groups.is_empty() {
            0
        } else {
            n_sections
        }
    ];
    for (number, group) in object.groups(bytes).enumerate() {
        for member in object.members(bytes, &group) {
            if member == 0 {
                let kind = ReadErrorKind::GroupMember(0);
                let error = ReadError::new(u64_of(group.members.start), kind);
                return Err(Failure {
                    section: Some(group.section),
                    error,
                });
            }
            let slot = group_of.get_mut(usize_of(member)).ok_or_else(|| {
                let kind = ReadErrorKind::NoSection {
                    what: "section group",
                    index: u64::from(member),
                    count: u64_of(n_sections),
                };
                Failure {
                    section: Some(group.section),
                    error: ReadError::new(u64_of(group.members.start), kind),
                }
            })?;
            if *slot != NONE {
                let kind = ReadErrorKind::TwoGroups(u64::from(member));
                let error = ReadError::new(u64_of(group.members.start), kind);
                return Err(Failure {
                    section: Some(member),
                    error,
                });
            }
            *slot = u32_of(number);
        }
    }

    let table_of = relocation_tables(object, bytes)?;
    let comdat_of = |section: usize| match group_of.get(section) {
        Some(&group) if group != NONE => comdats.get(usize_of(group)),
        _ => None,
    };
    let mut kept = Vec::new();
    for (index, section) in sections.iter() {
        let used_up = match section.kind {
            sht::NULL
            | sht::REL
            | sht::RELA
            | sht::CREL
            | sht::GROUP
            | sht::SYMTAB_SHNDX
            | sht::SYMTAB => true,
            sht::STRTAB => section.flags & shf::ALLOC == 0,
            _ => false,
        };
        if used_up || (section.flags & shf::ALLOC == 0 && !options.metadata) {
            continue;
        }
        let comdat = comdat_of(index);
        // What is ordered by a section says something about it and goes with it.
        let parent = usize_of(if section.flags & shf::LINK_ORDER != 0 {
            section.link
        } else {
            0
        });
        if comdat.is_none_or(keep) && (parent == 0 || comdat_of(parent).is_none_or(keep)) {
            let table = table_of.get(index).copied().unwrap_or(0);
            kept.push(Kept {
                header: u32_of(index),
                table,
                comdat,
            });
        }
    }
    // Thousands of these are alive at once.
    kept.shrink_to_fit();
    Ok(kept)
}

/// The number of the relocation table of each section, 0 for none.
fn relocation_tables(object: &ElfObject, bytes: &[u8]) -> Result<Vec<u32>, Failure> {
    let sections = object.header.sections(bytes);
    let mut table_of = vec![0_u32; sections.len()];
    let mut unused = u64_of(bytes.len());
    for (index, section) in sections.iter() {
        if !matches!(section.kind, sht::REL | sht::RELA | sht::CREL) {
            continue;
        }
        let at = sections.header_offset(index);
        let fail = |kind| Failure {
            section: Some(u32_of(index)),
            error: ReadError::new(at, kind),
        };
        check_table(object, bytes, &section, at).map_err(|error| Failure {
            section: Some(u32_of(index)),
            error,
        })?;
        // Else a small file could hold a table for each section, each as long as the file.
        unused = unused
            .checked_sub(section.size)
            .ok_or_else(|| fail(ReadErrorKind::Overlap("relocation tables")))?;
        let slot = table_of.get_mut(usize_of(section.info)).ok_or_else(|| {
            fail(ReadErrorKind::NoSection {
                what: "relocation section",
                index: u64::from(section.info),
                count: u64_of(sections.len()),
            })
        })?;
        if section.info == 0 {
            let what = "what a relocation section is for";
            let found = sht::NULL;
            return Err(fail(ReadErrorKind::SectionType {
                what,
                index: 0,
                found,
            }));
        }
        // A compact table has a head at least.
        if section.size == 0 && section.kind != sht::CREL {
            continue;
        }
        if *slot != 0 {
            return Err(fail(ReadErrorKind::Several(
                "relocation section for one section",
            )));
        }
        *slot = u32_of(index);
    }
    Ok(table_of)
}

fn check_table(
    object: &ElfObject,
    bytes: &[u8],
    section: &SectionHeader,
    at: u64,
) -> Result<(), ReadError> {
    section.data_range(bytes, "relocation table")?;
    let words = u64_of(object.format().word_size());
    let want = match section.kind {
        sht::RELA => words * 3,
        sht::REL => words * 2,
        _ => return Ok(()),
    };
    if section.entry_size != want && section.size != 0 {
        let found = section.entry_size;
        let kind = ReadErrorKind::EntrySize {
            what: "relocation table",
            found,
            want,
        };
        return Err(ReadError::new(at, kind));
    }
    Ok(())
}

/// Fills an object's part of the section and block columns with the chosen sections.
pub(super) fn fill(
    object: &ElfObject,
    part: &mut BlockPart<'_>,
    kept: &[Kept],
) -> Result<BlockRest, Failure> {
    let bytes = part.bytes;
    let sections = object.header.sections(bytes);
    let mut number_of = vec![NONE; sections.len()];
    let mut rest = BlockRest::default();
    let mut unused = bytes.len();
    for (number, kept) in kept.iter().enumerate() {
        let fail = |error| Failure {
            section: Some(kept.header),
            error,
        };
        let header = sections
            .need("section", u64::from(kept.header))
            .map_err(fail)?;
        let at = sections.header_offset(usize_of(kept.header));
        check_name("section", header.name, &object.names, at).map_err(fail)?;
        let data = header.data_range(bytes, "section").map_err(fail)?;
        let name = name_head(bytes, object, header.name);
        let mut block = ReadBlock {
            name: header.name,
            section: NewSection {
                comdat: kept.comdat,
                ..describe(object, &header, name)
            },
            content: (header.kind != sht::NOBITS).then_some(header.offset),
            size: header.size,
            align_log2: align_log2(header.align, at).map_err(fail)?,
            table: kept.table,
        };
        if header.kind == sht::NOBITS {
            // Nothing can be written where nothing is; debug tools leave such tables behind.
            block.table = 0;
        }
        let is_compressed = header.flags & shf::COMPRESSED != 0
            || (header.flags & shf::ALLOC == 0 && name.starts_with(b".zdebug"));
        if is_compressed && header.kind != sht::NOBITS {
            // Else a small file could ask for the same bytes to be decompressed many times.
            unused = unused.checked_sub(data.len()).ok_or_else(|| {
                fail(ReadError::new(
                    at,
                    ReadErrorKind::Overlap("compressed sections"),
                ))
            })?;
            let raw = bytes.get(data).unwrap_or(&[]);
            let (content, align) = decompress(object, &header, raw).map_err(fail)?;
            block.size = u64_of(content.len());
            rest.contents
                .push((part.block_id(u32_of(number)), content, align));
        }
        if let (Some(slot), Some(pushed)) =
            (number_of.get_mut(usize_of(kept.header)), part.push(&block))
        {
            *slot = pushed;
        }
    }
    let number = |section: u32| {
        number_of
            .get(usize_of(section))
            .copied()
            .filter(|&number| number != NONE)
    };
    for kept in kept {
        let Some(header) = sections.get(usize_of(kept.header)) else {
            continue;
        };
        if header.flags & shf::LINK_ORDER == 0 {
            continue;
        }
        let at = sections.header_offset(usize_of(kept.header));
        sections
            .need("SHF_LINK_ORDER", u64::from(header.link))
            .map_err(|error| Failure {
                section: Some(kept.header),
                error: ReadError::new(at, error.kind),
            })?;
        if let (Some(parent), Some(child)) = (number(header.link), number(kept.header)) {
            rest.associations
                .push((part.block_id(parent), part.block_id(child)));
        }
    }
    part.resolve_symbols(number).map_err(|bad| {
        let kind = ReadErrorKind::SymbolOutside {
            index: u64_of(bad.index),
            offset: bad.offset,
            size: bad.size,
        };
        let at = u64_of(object.symbols.start + bad.index * object.format().symbol_size());
        Failure::from(ReadError::new(at, kind))
    })?;
    Ok(rest)
}

fn decompress(
    object: &ElfObject,
    header: &SectionHeader,
    raw: &[u8],
) -> Result<(Vec<u8>, u64), ReadError> {
    let format = object.format();
    let result = if header.flags & shf::COMPRESSED != 0 {
        compressed::decompress(raw, format.is_64, format.endian)
    } else {
        compressed::decompress_gnu(raw)
    };
    let section = result.map_err(|kind| ReadError::new(header.offset, kind))?;
    let align = if header.flags & shf::COMPRESSED != 0 {
        section.align.max(1)
    } else {
        // The old form says it in the section's header, which was checked.
        header.align.max(1)
    };
    if !align.is_power_of_two() {
        return Err(ReadError::new(
            header.offset,
            ReadErrorKind::Alignment(align),
        ));
    }
    Ok((section.content, align))
}

/// What a section header means to the graph.
fn describe(object: &ElfObject, header: &SectionHeader, name: &[u8]) -> NewSection {
    let has = |flag| header.flags & flag != 0;
    let mut prot = Prot::R;
    prot.set(Prot::WRITE, has(shf::WRITE));
    prot.set(Prot::EXEC, has(shf::EXECINSTR));
    let alloc = has(shf::ALLOC);

    let mut flags = SectionFlags::empty();
    flags.set(SectionFlags::MERGE, has(shf::MERGE));
    flags.set(SectionFlags::STRINGS, has(shf::STRINGS));
    flags.set(SectionFlags::TLS, has(shf::TLS));
    flags.set(SectionFlags::RETAIN, has(shf::GNU_RETAIN));
    flags.set(SectionFlags::EXCLUDE, has(shf::EXCLUDE));
    let large = object.elf.large_section_flag;
    flags.set(SectionFlags::LARGE, large != 0 && has(large));

    let starts = |prefix: &[u8]| named(name, prefix);
    let data = alloc && !has(shf::EXECINSTR);
    let kind = match header.kind {
        sht::INIT_ARRAY => SectionKind::InitArray,
        sht::FINI_ARRAY => SectionKind::FiniArray,
        sht::PREINIT_ARRAY => SectionKind::PreinitArray,
        sht::NOTE => SectionKind::Note,
        // Tools that renumber symbols without knowing the table (GNU ld -r, objcopy) drop the
        // link to the symbol table: its numbers mean nothing then.
        sht::LLVM_ADDRSIG if header.link != 0 => SectionKind::Addrsig,
        kind if kind == object.elf.unwind_section_type && kind != 0 && alloc => {
            SectionKind::EhFrame
        }
        sht::PROGBITS if data && is_named(name, b".eh_frame") => SectionKind::EhFrame,
        // Old compilers give arrays no type of their own.
        sht::PROGBITS if data && starts(b".init_array") => SectionKind::InitArray,
        sht::PROGBITS if data && starts(b".fini_array") => SectionKind::FiniArray,
        sht::PROGBITS if data && starts(b".ctors") => SectionKind::Ctors,
        sht::PROGBITS if data && starts(b".dtors") => SectionKind::Dtors,
        _ if !alloc && (name.starts_with(b".debug") || name.starts_with(b".zdebug")) => {
            SectionKind::Debug
        }
        _ => SectionKind::Regular,
    };
    let relro = has(shf::WRITE)
        && (matches!(
            kind,
            SectionKind::InitArray
                | SectionKind::FiniArray
                | SectionKind::PreinitArray
                | SectionKind::Ctors
                | SectionKind::Dtors
        ) || starts(b".data.rel.ro")
            || starts(b".bss.rel.ro")
            || starts(b".jcr"));
    flags.set(SectionFlags::RELRO, relro);
    // Initializers and what the program asked to keep are there without being referred to.
    let is_array = matches!(
        kind,
        SectionKind::InitArray
            | SectionKind::FiniArray
            | SectionKind::PreinitArray
            | SectionKind::Ctors
            | SectionKind::Dtors
    );
    if is_array || is_named(name, b".init") || is_named(name, b".fini") {
        flags |= SectionFlags::RETAIN;
    }
    NewSection {
        prot,
        lifetime: if alloc {
            Lifetime::Standard
        } else {
            Lifetime::NoAlloc
        },
        kind,
        flags,
        entry_size: if has(shf::MERGE) {
            low_u32(header.entry_size)
        } else {
            0
        },
        comdat: None,
    }
}

/// The first bytes of a name, more than any name that means something has, with what follows a
/// shorter one. Finding the ends of names would cost as much as all the rest of this file.
fn name_head<'d>(bytes: &'d [u8], object: &ElfObject, offset: u32) -> &'d [u8] {
    let names = bytes.get(object.names.clone()).unwrap_or(&[]);
    let rest = names.get(usize_of(offset)..).unwrap_or(&[]);
    rest.get(..24).unwrap_or(rest)
}

/// Whether a name, as [`name_head`] gives it, is `base`.
fn is_named(name: &[u8], base: &[u8]) -> bool {
    name.strip_prefix(base)
        .is_some_and(|rest| rest.first().is_none_or(|&c| c == 0))
}

/// Whether a name, as [`name_head`] gives it, is `base` or `base.SOMETHING`.
fn named(name: &[u8], base: &[u8]) -> bool {
    name.strip_prefix(base)
        .is_some_and(|rest| rest.first().is_none_or(|&c| c == b'.' || c == 0))
}
