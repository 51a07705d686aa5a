//! The line tables of a link's debug sections: which source line each address belongs to.
//!
//! Tables are read one behind the other, without the units that they belong to: each byte is looked
//! at once, whatever a file says. Of tables before DWARF 5 the folder of the compilation is then not
//! known, and paths are relative to it. What cannot be read is left out: a profile without some
//! lines is better than none.

use super::sections::DebugSection;
use clinch_graph::Endian;
use clinch_graph::index::int::{low_u32, u32_of, u64_of, usize_of};
use clinch_graph::index::map::Map;
use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, DebugLineStr, DebugStr, EndianSlice, FileEntry,
    LineProgramHeader, Reader, RunTimeEndian,
};

type Slice<'d> = EndianSlice<'d, RunTimeEndian>;

/// From this address on, up to the next row's, code is of this line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) address: u64,
    pub(crate) line: u32,
    pub(crate) discriminator: u32,
    file: u32,
}

/// All rows, ascending by address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lines {
    rows: Vec<Row>,
    files: Vec<Vec<u8>>,
}

impl Lines {
    /// Reads all tables.
    pub(crate) fn read(sections: &[DebugSection], endian: Endian, pointer_size: u8) -> Self {
        let endian = match endian {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let content = |name: &[u8]| {
            let section = sections.iter().find(|section| section.name == name);
            section.map_or(&[][..], |section| &section.content)
        };
        let table = content(b".debug_line");
        let all = sections.iter().map(|section| section.content.len()).sum();
        let mut strings = Strings {
            plain: DebugStr::new(content(b".debug_str"), endian),
            line: DebugLineStr::new(content(b".debug_line_str"), endian),
            unread: u64_of(all).saturating_mul(16),
        };
        let mut lines = Self::default();
        let mut numbers = Map::default();
        let section = DebugLine::new(table, endian);
        let mut rest = EndianSlice::new(table, endian);
        while !rest.is_empty() {
            let start = table.len() - rest.len();
            let Ok((length, _)) = rest.read_initial_length() else {
                break;
            };
            if rest.skip(length).is_err() {
                break;
            }
            // Its rows up to where it is damaged, if it is.
            let _ = lines.read_table(&section, start, pointer_size, &mut strings, &mut numbers);
        }
        lines.rows.sort_by_key(|row| row.address);
        lines
    }

    fn read_table<'d>(
        &mut self,
        section: &DebugLine<Slice<'d>>,
        start: usize,
        pointer_size: u8,
        strings: &mut Strings<'d>,
        numbers: &mut Map<Vec<u8>, u32>,
    ) -> Result<(), gimli::Error> {
        let program = section.program(DebugLineOffset(start), pointer_size, None, None)?;
        // Per file of the table its number among all, once it is known.
        let mut known: Map<u64, Option<u32>> = Map::default();
        let mut rows = program.rows();
        while let Some((header, row)) = rows.next_row()? {
            // Line 0 is code of no line.
            let (Some(line), false) = (row.line(), row.end_sequence()) else {
                continue;
            };
            let file = *known.entry(row.file_index()).or_insert_with(|| {
                let path = strings.path_of(header, header.file(row.file_index())?)?;
                Some(*numbers.entry(path).or_insert_with_key(|path| {
                    self.files.push(path.clone());
                    u32_of(self.files.len() - 1)
                }))
            });
            let Some(file) = file else { continue };
            self.rows.push(Row {
                address: row.address(),
                line: u32::try_from(line.get()).unwrap_or(u32::MAX),
                discriminator: low_u32(row.discriminator()),
                file,
            });
        }
        Ok(())
    }

    /// The rows of an address range.
    pub(crate) fn of(&self, start: u64, size: u64) -> &[Row] {
        let end = start.saturating_add(size);
        let from = self.rows.partition_point(|row| row.address < start);
        let to = self.rows.partition_point(|row| row.address < end);
        &self.rows[from..to.max(from)]
    }

    /// The path of a row's source.
    pub(crate) fn file(&self, row: &Row) -> &[u8] {
        self.files
            .get(usize_of(row.file))
            .map_or(&[], Vec::as_slice)
    }
}

/// Where tables have their strings.
struct Strings<'d> {
    plain: DebugStr<Slice<'d>>,
    line: DebugLineStr<Slice<'d>>,
    /// How many bytes of strings may still be read. Else a small file could name one long string
    /// many times.
    unread: u64,
}

impl<'d> Strings<'d> {
    fn get(&mut self, value: &AttributeValue<Slice<'d>>) -> Option<&'d [u8]> {
        let string = match *value {
            AttributeValue::String(string) => string,
            AttributeValue::DebugStrRef(offset) => self.plain.get_str(offset).ok()?,
            AttributeValue::DebugLineStrRef(offset) => self.line.get_str(offset).ok()?,
            _ => return None,
        };
        self.unread = self.unread.checked_sub(u64_of(string.len()))?;
        Some(string.slice())
    }

    /// A source's path: the compilation's folder, the file's folder, its name, each only if what
    /// follows is not a whole path.
    fn path_of(
        &mut self,
        header: &LineProgramHeader<Slice<'d>>,
        entry: &FileEntry<Slice<'d>>,
    ) -> Option<Vec<u8>> {
        let mut path = self.get(&entry.path_name())?.to_vec();
        if let Some(folder) = entry.directory(header) {
            path = join(self.get(&folder)?, path);
        }
        // From DWARF 5 on folder 0 is listed: it is the compilation's.
        if let (5.., Some(folder)) = (header.version(), header.directory(0)) {
            path = join(self.get(&folder)?, path);
        }
        Some(path)
    }
}

fn join(folder: &[u8], path: Vec<u8>) -> Vec<u8> {
    if folder.is_empty() || path.starts_with(b"/") {
        path
    } else {
        [folder, b"/", &path].concat()
    }
}
