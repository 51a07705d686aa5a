//! One pass over an object's section headers, when its symbols are read: which sections can take
//! part, with their relocation tables and groups. What is noted of each is an eighth of its header,
//! so headers of those that stay are looked at again, but no others.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::headers::{ElfObject, Failure};
use super::object::ReadOptions;
use super::raw::{Format, SectionHeader, Sections, shf, sht, slice};
use crate::error::{ReadError, ReadErrorKind};
use clinch_graph::index::int::{u32_of, u64_of, usize_of};
use std::ops::Range;

/// No group.
pub(super) const NONE: u32 = u32::MAX;

/// The sections of an object that can take part.
#[derive(Debug, Default)]
pub struct SectionList {
    pub(super) sections: Vec<ListedSection>,
    /// The relocation tables that do not follow their sections: of a section's header, the number
    /// of the table's. Ascending.
    tables: Vec<(u32, u32)>,
    /// Sections that are ordered by another.
    pub(super) ordered: Vec<OrderedSection>,
}

/// A section that can take part. Small, since all objects' are alive at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedSection {
    /// Number of its header; the highest bit says that its relocation table follows.
    header: u32,
    /// Its group's place among the object's, or [`NONE`].
    pub(super) group: u32,
}

/// A section that says something about another and goes with it (`SHF_LINK_ORDER`).
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedSection {
    /// Number of its header.
    pub(super) section: u32,
    /// Number of the other's header.
    pub(super) parent: u32,
    /// The other's group, or [`NONE`].
    pub(super) group: u32,
}

const TABLE_FOLLOWS: u32 = 1 << 31;

impl ListedSection {
    /// Number of its header.
    pub(super) fn header(self) -> u32 {
        self.header & !TABLE_FOLLOWS
    }
}

impl SectionList {
    /// The place of a section's group among the object's groups.
    pub fn group_of(&self, section: u32) -> Option<usize> {
        let found = self
            .sections
            .binary_search_by_key(&section, |listed| listed.header());
        let listed = self.sections.get(found.ok()?)?;
        (listed.group != NONE).then(|| usize_of(listed.group))
    }

    /// Number of the header of a section's relocation records, 0 for none.
    pub(super) fn table(&self, section: ListedSection) -> u32 {
        if section.header & TABLE_FOLLOWS != 0 {
            return section.header() + 1;
        }
        let found = self
            .tables
            .binary_search_by_key(&section.header, |&(header, _)| header);
        let found = found.ok().and_then(|index| self.tables.get(index));
        found.map_or(0, |&(_, table)| table)
    }
}

/// What one pass finds.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) list: SectionList,
    /// The groups, in the order of their sections.
    pub(super) groups: Vec<Group>,
    /// Section numbers that did not fit symbols' own fields.
    pub(super) extended_sections: Option<Range<usize>>,
}

/// A section group as the file says it.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Number of its header.
    section: u32,
    /// Number of the symbol that names it.
    pub(super) signature: u32,
    pub(super) is_comdat: bool,
    /// Where the members' section numbers are.
    members: Range<usize>,
}

impl Scan {
    /// Looks at all section headers of an object.
    pub(super) fn of(
        object: &ElfObject,
        bytes: &[u8],
        options: ReadOptions,
    ) -> Result<Self, Failure> {
        let sections = object.header.sections(bytes);
        if object.format() == Format::LITTLE_64 {
            let sections = sections.in_format(Format::LITTLE_64);
            Self::of_sections(object, bytes, options, &sections)
        } else {
            Self::of_sections(object, bytes, options, &sections)
        }
    }

    #[inline(always)]
    fn of_sections(
        object: &ElfObject,
        bytes: &[u8],
        options: ReadOptions,
        sections: &Sections<'_>,
    ) -> Result<Self, Failure> {
        let mut scan = Self::default();
        let mut tables = Tables {
            of: vec![0; sections.len()],
            unused: u64_of(bytes.len()),
        };
        let mut listed = Vec::with_capacity(sections.len());
        for (number, section) in sections.iter() {
            let index = u32_of(number);
            let fail = |error| Failure {
                section: Some(index),
                error,
            };
            match section.kind {
                sht::SYMTAB if object.symtab != Some(index) => {
                    // The last is the one that was taken; it is the one too many.
                    let last = object.symtab.unwrap_or(index);
                    let kind = ReadErrorKind::Several("symbol table");
                    let at = sections.header_offset(usize_of(last));
                    return Err(Failure {
                        section: Some(last),
                        error: ReadError::new(at, kind),
                    });
                }
                sht::NULL | sht::SYMTAB => {}
                sht::SYMTAB_SHNDX => scan
                    .take_extended_sections(object, bytes, number, &section)
                    .map_err(fail)?,
                sht::GROUP => {
                    let group = Group::read(object, bytes, index, &section).map_err(fail)?;
                    scan.groups.push(group);
                }
                sht::REL | sht::RELA | sht::CREL => {
                    tables.add(object, bytes, number, &section).map_err(fail)?;
                }
                sht::STRTAB if section.flags & shf::ALLOC == 0 => {}
                _ if section.flags & shf::ALLOC == 0 && !options.metadata => {}
                _ => {
                    if section.flags & shf::LINK_ORDER != 0 {
                        let link = u64::from(section.link);
                        sections.need("SHF_LINK_ORDER", link).map_err(|error| {
                            fail(ReadError::new(sections.header_offset(number), error.kind))
                        })?;
                        scan.list.ordered.push(OrderedSection {
                            section: index,
                            parent: section.link,
                            group: NONE,
                        });
                    }
                    listed.push(index);
                }
            }
        }
        let group_of = scan.group_of(object, bytes, sections.len())?;
        let of = |section: u32| group_of.get(usize_of(section)).copied().unwrap_or(NONE);
        scan.list.sections.reserve_exact(listed.len());
        for header in listed {
            let table = tables.of.get(usize_of(header)).copied().unwrap_or(0);
            let follows = if table == header + 1 {
                TABLE_FOLLOWS
            } else {
                0
            };
            if table != 0 && follows == 0 {
                scan.list.tables.push((header, table));
            }
            scan.list.sections.push(ListedSection {
                header: header | follows,
                group: of(header),
            });
        }
        for ordered in &mut scan.list.ordered {
            ordered.group = of(ordered.parent);
        }
        Ok(scan)
    }

    fn take_extended_sections(
        &mut self,
        object: &ElfObject,
        bytes: &[u8],
        number: usize,
        section: &SectionHeader,
    ) -> Result<(), ReadError> {
        if object.symtab != Some(section.link) {
            return Ok(());
        }
        if self.extended_sections.is_some() {
            let at = object.header.sections(bytes).header_offset(number);
            let kind = ReadErrorKind::Several("table of section numbers");
            return Err(ReadError::new(at, kind));
        }
        self.extended_sections = Some(section.data_range(bytes, "table of section numbers")?);
        Ok(())
    }

    /// The place of each section's group among the groups, empty when there is none.
    fn group_of(
        &self,
        object: &ElfObject,
        bytes: &[u8],
        n_sections: usize,
    ) -> Result<Vec<u32>, Failure> {
        let len = if self.groups.is_empty() {
            0
        } else {
            n_sections
        };
        let mut group_of = vec![NONE; len];
        for (number, group) in self.groups.iter().enumerate() {
            let fail = |section, kind| Failure {
                section: Some(section),
                error: ReadError::new(u64_of(group.members.start), kind),
            };
            let members = bytes.get(group.members.clone()).unwrap_or(&[]);
            for raw in members.chunks_exact(4) {
                let member = object.format().u32(raw, 0).unwrap_or(0);
                let slot = match group_of.get_mut(usize_of(member)) {
                    _ if member == 0 => {
                        return Err(fail(group.section, ReadErrorKind::GroupMember(0)));
                    }
                    Some(slot) if *slot == NONE => slot,
                    Some(_) => {
                        let kind = ReadErrorKind::TwoGroups(u64::from(member));
                        return Err(fail(member, kind));
                    }
                    None => {
                        let kind = ReadErrorKind::NoSection {
                            what: "section group",
                            index: u64::from(member),
                            count: u64_of(n_sections),
                        };
                        return Err(fail(group.section, kind));
                    }
                };
                *slot = u32_of(number);
            }
        }
        Ok(group_of)
    }

    /// A section number that did not fit a symbol's own field.
    pub(super) fn extended_section(
        &self,
        object: &ElfObject,
        bytes: &[u8],
        symbol: usize,
    ) -> Option<u32> {
        let table = bytes.get(self.extended_sections.clone()?)?;
        object.format().u32(table, symbol.checked_mul(4)?)
    }
}

impl Group {
    fn read(
        object: &ElfObject,
        bytes: &[u8],
        index: u32,
        section: &SectionHeader,
    ) -> Result<Self, ReadError> {
        const GRP_COMDAT: u32 = 1;
        let range = section.data_range(bytes, "section group")?;
        let data = slice(bytes, "section group", section.offset, section.size)?;
        if data.len() < 4 || data.len() % 4 != 0 {
            let size = section.size;
            let kind = ReadErrorKind::UnevenTable {
                what: "section group",
                size,
                entry: 4,
            };
            return Err(ReadError::new(section.offset, kind));
        }
        if usize_of(section.info) >= object.n_symbols() {
            let kind = ReadErrorKind::NoSymbol {
                what: "section group",
                index: u64::from(section.info),
                count: u64_of(object.n_symbols()),
            };
            return Err(ReadError::new(section.offset, kind));
        }
        let flags = object.format().u32(data, 0).unwrap_or(0);
        Ok(Self {
            section: index,
            signature: section.info,
            is_comdat: flags & GRP_COMDAT != 0,
            members: range.start + 4..range.end,
        })
    }
}

/// The relocation tables of an object.
struct Tables {
    /// The number of the table of each section, 0 for none.
    of: Vec<u32>,
    /// Bytes of the file that no table has yet. Else a small file could hold a table for each
    /// section, each as long as the file.
    unused: u64,
}

impl Tables {
    fn add(
        &mut self,
        object: &ElfObject,
        bytes: &[u8],
        index: usize,
        section: &SectionHeader,
    ) -> Result<(), ReadError> {
        let at = object.header.sections(bytes).header_offset(index);
        check_table(object, bytes, section, at)?;
        let kind = match self.of.get_mut(usize_of(section.info)) {
            None => ReadErrorKind::NoSection {
                what: "relocation section",
                index: u64::from(section.info),
                count: u64_of(self.of.len()),
            },
            Some(_) if section.size > self.unused => ReadErrorKind::Overlap("relocation tables"),
            Some(_) if section.info == 0 => ReadErrorKind::SectionType {
                what: "what a relocation section is for",
                index: 0,
                found: sht::NULL,
            },
            // A compact table has a head at least.
            Some(_) if section.size == 0 && section.kind != sht::CREL => return Ok(()),
            Some(slot) if *slot == 0 => {
                *slot = u32_of(index);
                self.unused -= section.size;
                return Ok(());
            }
            Some(_) => ReadErrorKind::Several("relocation section for one section"),
        };
        Err(ReadError::new(at, kind))
    }
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
