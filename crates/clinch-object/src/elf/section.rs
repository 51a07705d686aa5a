//! The sections of one object: which take part, and what they become.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::{ElfObject, Failure, align_log2, check_name};
use super::raw::{Format, SectionHeader, Sections, shf, sht};
use super::scan::{ListedSection, NONE, SectionList};
use crate::compressed;
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{low_u32, u32_of, u64_of, usize_of};
use clinch_graph::index::map::Set;
use clinch_graph::{
    BlockId, BlockPart, ComdatId, IdRange, Lifetime, LinkGraph, NewSection, Prot, ReadBlock,
    SectionFlags, SectionKind,
};
use clinch_target::ElfArch;

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

/// Leaves the sections that take part: not the members of groups that do not stay, nor what is
/// ordered by one.
pub(super) fn choose(
    list: &mut SectionList,
    comdats: IdRange<ComdatId>,
    keep: impl Fn(ComdatId) -> bool,
) {
    let stays = |group| comdats.get(usize_of(group)).is_none_or(&keep);
    list.sections.retain(|section| stays(section.group));
    let goes = list.ordered.iter().filter(|ordered| !stays(ordered.group));
    let goes: Set<u32> = goes.map(|ordered| ordered.section).collect();
    if !goes.is_empty() {
        let goes = |section: &ListedSection| goes.contains(&section.header());
        list.sections.retain(|section| !goes(section));
    }
}

/// Fills an object's part of the section and block columns with the chosen sections.
pub(super) fn fill(
    object: &ElfObject,
    part: &mut BlockPart<'_>,
    comdats: IdRange<ComdatId>,
    list: &SectionList,
) -> Result<BlockRest, Failure> {
    let sections = object.header.sections(part.bytes);
    if object.format() == Format::LITTLE_64 {
        let sections = sections.in_format(Format::LITTLE_64);
        fill_from(object, part, comdats, list, &sections)
    } else {
        fill_from(object, part, comdats, list, &sections)
    }
}

#[inline(always)]
fn fill_from(
    object: &ElfObject,
    part: &mut BlockPart<'_>,
    comdats: IdRange<ComdatId>,
    list: &SectionList,
    sections: &Sections<'_>,
) -> Result<BlockRest, Failure> {
    let bytes = part.bytes;
    read_ahead(bytes.get(object.names.clone()).unwrap_or(&[]));
    let mut number_of = vec![NONE; sections.len()];
    let mut rest = BlockRest::default();
    let mut unused = bytes.len();
    for (number, listed) in list.sections.iter().enumerate() {
        let index = listed.header();
        let fail = |error| Failure {
            section: Some(index),
            error,
        };
        let header = sections.need("section", u64::from(index)).map_err(fail)?;
        let at = sections.header_offset(usize_of(index));
        check_name("section", header.name, &object.names, at).map_err(fail)?;
        let data = header.data_range(bytes, "section").map_err(fail)?;
        let name = name_head(bytes, object, header.name);
        let mut block = ReadBlock {
            name: header.name,
            section: NewSection {
                comdat: comdats.get(usize_of(listed.group)),
                ..describe(object.elf, &header, name)
            },
            content: (header.kind != sht::NOBITS).then_some(header.offset),
            size: header.size,
            align_log2: align_log2(header.align, at).map_err(fail)?,
            table: list.table(*listed),
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
        if let (Some(slot), Some(pushed)) = (number_of.get_mut(usize_of(index)), part.push(&block))
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
    for ordered in &list.ordered {
        if let (Some(parent), Some(child)) = (number(ordered.parent), number(ordered.section)) {
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

/// What a section header means to the graph. Of the name the first bytes are enough.
pub(super) fn describe(elf: &ElfArch, header: &SectionHeader, name: &[u8]) -> NewSection {
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
    let large = elf.large_section_flag;
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
        kind if kind == elf.unwind_section_type && kind != 0 && alloc => SectionKind::EhFrame,
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

/// Touches bytes in order, since only then does the processor fetch ahead: names are read at
/// random places. (Saves 3 of 43 ms when a few thousand objects are read.)
fn read_ahead(bytes: &[u8]) {
    const LINE: usize = 64;
    let lines = bytes.iter().step_by(LINE);
    std::hint::black_box(lines.fold(0, |all, &byte| all | byte));
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
