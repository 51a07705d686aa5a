//! Call frame records as llvm-jitlink takes them in before pruning: `.eh_frame` becomes a block per
//! record, records get edges to their CIE and their function, and functions keep their records
//! alive.

use super::graph::{Block, Edge, FileGraph, Symbol};
use clinch_graph::index::int::{u64_of, usize_of, usize_of_u64};
use clinch_graph::index::map::{Map, Set};
use clinch_graph::{BlockId, EdgeKind, Endian, LinkGraph, Linkage, Scope, SymbolId};
use clinch_target::{Arch, Expr};
use std::fmt::Write;

/// The section's name.
pub(super) const NAME: &str = ".eh_frame";

/// Pointer encodings (LSB Core, DWARF Exception Header Encoding).
mod pe {
    pub(super) const ABSPTR: u8 = 0;
    pub(super) const UDATA4: u8 = 3;
    pub(super) const UDATA8: u8 = 4;
    pub(super) const SDATA4: u8 = 11;
    pub(super) const SDATA8: u8 = 12;
    pub(super) const FORMAT: u8 = 0x0f;
    pub(super) const PCREL: u8 = 0x10;
    pub(super) const APPLICATION: u8 = 0x70;
    pub(super) const OMIT: u8 = 0xff;
}

/// What is known of a CIE.
#[derive(Clone, Copy, Default)]
struct Cie {
    has_augmentation: bool,
    lsda: Option<u8>,
    address: u8,
}

/// Fits a file's graph, as it was read, and tells how. What is malformed ends the text, as it ends
/// the link.
pub(super) fn fit(graph: &LinkGraph, arch: &Arch, file: &mut FileGraph, text: &mut String) {
    let Some(section) = file.sections.get_mut(NAME) else {
        let name = &file.name;
        *text += &format!("DWARFRecordSectionSplitter: No {NAME} section. Nothing to do\n");
        *text += &format!("EHFrameEdgeFixer: No {NAME} section in \"{name}\". Nothing to do.\n");
        return;
    };
    *text += &format!("DWARFRecordSectionSplitter: Processing {NAME}...\n");
    let endian = graph.target().endian;
    let blocks = std::mem::take(&mut section.blocks);
    let mut records = Vec::new();
    for block in blocks {
        let content = block.id.map_or(&[][..], |id| graph.content(id).bytes());
        records.extend(split(block, content, endian, text));
    }
    *text += &format!(
        "EHFrameEdgeFixer: Processing {NAME} in \"{}\"...\n",
        file.name
    );
    let mut fixer = Fixer {
        arch,
        graph,
        canonical: canonical(file, &records),
        cies: Map::default(),
        kept: Map::default(),
        text,
    };
    let mut is_whole = true;
    let mut fixed = Vec::new();
    for (block, content) in records {
        let done = if is_whole {
            fixer.record(&block, content)
        } else {
            None
        };
        is_whole &= done.is_some();
        fixed.push(done.unwrap_or(block));
    }
    let mut kept = fixer.kept;
    for section in file.sections.values_mut() {
        for block in &mut section.blocks {
            let edges = block.id.and_then(|id| kept.remove(&id));
            block.edges.extend(edges.into_iter().flatten());
        }
    }
    if is_whole {
        *text += &format!("EHFrameNullTerminator adding null terminator to {NAME}\n");
        fixed.push(terminator());
    }
    if let Some(section) = file.sections.get_mut(NAME) {
        section.blocks = fixed;
    }
}

/// The block that ends the records: behind all others, and live without a function.
fn terminator() -> Block {
    let block = Block {
        id: None,
        address: !4,
        size: 4,
        align: 1,
        align_offset: 0,
        is_zero: false,
        symbols: Vec::new(),
        edges: Vec::new(),
    };
    let symbol = Symbol {
        is_live: true,
        ..Symbol::of_record(&block)
    };
    Block {
        symbols: vec![symbol],
        ..block
    }
}

/// The records of a block as blocks, with their contents.
fn split<'d>(
    mut block: Block,
    content: &'d [u8],
    endian: Endian,
    text: &mut String,
) -> Vec<(Block, &'d [u8])> {
    *text += &format!("  Processing block at {:#x}\n", block.address);
    if content.is_empty() {
        text.push_str("    Block is empty. Skipping.\n");
        return vec![(block, content)];
    }
    let mut starts = vec![0];
    let mut reader = Reader::new(content, endian);
    loop {
        let at = block.address.wrapping_add(u64_of(reader.at));
        *text += &format!("    Processing CFI record at {at:#x}\n");
        let length = reader.record_length();
        if length.is_none_or(|length| reader.skip(length).is_none()) || reader.is_at_end() {
            break;
        }
        starts.push(reader.at);
    }
    let (mut symbols, mut edges) = (
        std::mem::take(&mut block.symbols),
        std::mem::take(&mut block.edges),
    );
    symbols.sort_by_key(|symbol| symbol.offset);
    edges.sort_by_key(|edge| edge.offset);
    // From the last to the first, so that each takes what lies at or behind its start.
    let mut pieces = Vec::new();
    let mut end = content.len();
    for &start in starts.iter().rev() {
        let from = u64_of(start);
        let first = symbols.partition_point(|symbol| symbol.offset < from);
        let mut symbols = symbols.split_off(first);
        for symbol in &mut symbols {
            symbol.offset -= from;
        }
        let first = edges.partition_point(|edge| u64::from(edge.offset) < from);
        let mut edges = edges.split_off(first);
        for edge in &mut edges {
            edge.offset -= u32::try_from(from).unwrap_or(edge.offset);
        }
        let piece = Block {
            address: block.address.wrapping_add(from),
            size: u64_of(end - start),
            align_offset: block.align_offset.wrapping_add(from) % block.align.max(1),
            symbols,
            edges,
            ..block.clone()
        };
        pieces.push((piece, content.get(start..end).unwrap_or_default()));
        end = start;
    }
    pieces.reverse();
    pieces
}

/// A symbol at an address that names it best: of many, the strong before the weak, the visible
/// before the hidden, the named before the others.
fn canonical(file: &FileGraph, records: &[(Block, &[u8])]) -> Map<u64, Symbol> {
    let mut canonical: Map<u64, Symbol> = Map::default();
    let rank = |symbol: &Symbol| -> (Linkage, Scope, bool, String) {
        let (linkage, scope) = (symbol.flags.linkage(), symbol.flags.scope());
        (linkage, scope, symbol.name.is_empty(), symbol.name.clone())
    };
    let blocks = file.blocks().map(|(_, block)| block);
    for block in blocks.chain(records.iter().map(|(block, _)| block)) {
        for symbol in &block.symbols {
            let best = canonical.entry(symbol.address);
            let best = best.or_insert_with(|| symbol.clone());
            if rank(symbol) < rank(best) {
                best.clone_from(symbol);
            }
        }
    }
    canonical
}

struct Fixer<'a> {
    arch: &'a Arch,
    graph: &'a LinkGraph,
    canonical: Map<u64, Symbol>,
    /// By address.
    cies: Map<u64, Cie>,
    /// The edges by which functions keep their records.
    kept: Map<BlockId, Vec<Edge>>,
    text: &'a mut String,
}

/// Where a record's field leads.
struct Field {
    edge: Edge,
    /// Whether the object has a relocation for it.
    is_old: bool,
}

impl Fixer<'_> {
    fn say(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(line);
    }

    /// A record with all its edges; `None` when it is malformed.
    fn record(&mut self, block: &Block, content: &[u8]) -> Option<Block> {
        let at = block.address;
        self.say(format_args!("  Processing block at {at:#x}\n"));
        if block.size == 0 {
            self.say(format_args!("    Block is empty. Skipping.\n"));
            return Some(block.clone());
        }
        let mut reader = Reader::new(content, self.graph.target().endian);
        let length = reader.record_length()?;
        if length != reader.remaining() {
            return None;
        }
        let head = u64_of(reader.at);
        let mut fixed = block.clone();
        let distance = reader.u32()?;
        if distance == 0 {
            self.say(format_args!("    Record is CIE\n"));
            let cie = self.cie(&mut reader, &mut fixed)?;
            self.cies.insert(at, cie);
        } else {
            self.say(format_args!("    Record is FDE\n"));
            self.fde(&mut reader, &mut fixed, head, distance)?;
        }
        fixed.symbols.push(Symbol::of_record(block));
        fixed.symbols.sort_by(Symbol::order);
        Some(fixed)
    }

    fn cie(&mut self, reader: &mut Reader<'_>, block: &mut Block) -> Option<Cie> {
        if reader.u8()? != 1 {
            return None;
        }
        let mut cie = Cie::default();
        let mut fields = Vec::new();
        let mut has_eh_data = false;
        loop {
            match reader.u8()? {
                0 => break,
                b'z' => cie.has_augmentation = true,
                b'e' if reader.u8()? == b'h' => has_eh_data = true,
                field @ (b'L' | b'P' | b'R') => fields.push(field),
                _ => return None,
            }
        }
        if has_eh_data {
            reader.skip(self.graph.target().pointer_size.into())?;
        }
        // Alignments of code and data, and the register of the return address.
        reader.leb128()?;
        reader.leb128()?;
        reader.u8()?;
        if !cie.has_augmentation {
            return Some(cie);
        }
        let size = reader.leb128()?;
        let start = reader.at;
        for field in fields {
            let encoding = encoding(reader.u8()?)?;
            match field {
                b'L' => cie.lsda = Some(encoding),
                b'P' => self.pointer(reader, block, encoding, "personality")?,
                _ if encoding == pe::OMIT => return None,
                _ => cie.address = encoding,
            }
        }
        (u64_of(reader.at - start) <= size).then_some(cie)
    }

    fn fde(
        &mut self,
        reader: &mut Reader<'_>,
        block: &mut Block,
        head: u64,
        distance: u32,
    ) -> Option<()> {
        let field = block.address.wrapping_add(head);
        let (at, old) = (field.wrapping_sub(distance.into()), edge_at(block, head)?);
        let at = match old {
            Some(edge) => {
                self.say(format_args!(
                    "        Already has edge at {field:#x} to CIE at {at:#x}\n"
                ));
                edge.target_address
            }
            None => {
                self.say(format_args!(
                    "        Adding edge at {field:#x} to CIE at: {at:#x}\n"
                ));
                let kind = self.arch.kind_of(Expr::NegRelative, 4)?;
                block.edges.push(self.record_edge(head, kind, at));
                at
            }
        };
        let cie = *self.cies.get(&at)?;
        let here = block.address.wrapping_add(u64_of(reader.at));
        self.say(format_args!("      Processing PC-begin at {here:#x}\n"));
        let begin = self.field(reader, block, cie.address, "PC begin")??;
        self.keep_alive(block, &begin.edge);
        if !begin.is_old {
            block.edges.push(begin.edge);
        }
        reader.skip(self.width(cie.address)?)?;
        if !cie.has_augmentation {
            self.say(format_args!("        Record does not have LSDA field.\n"));
            return Some(());
        }
        reader.leb128()?;
        if let Some(encoding) = cie.lsda {
            self.pointer(reader, block, encoding, "LSDA")?;
        }
        Some(())
    }

    /// Lets a function keep its record.
    fn keep_alive(&mut self, record: &Block, begin: &Edge) {
        let at = record.address;
        let Some((function, offset, _)) = &begin.target_block else {
            let name = &begin.target_name;
            self.say(format_args!(
                "        WARNING: Not adding keep-alive edge to FDE at {at:#x}, which points to \
                 external symbol \"{name}\" -- FDE must be kept alive manually or it will be dead \
                 stripped.\n"
            ));
            return;
        };
        let block = begin.target_address.wrapping_sub(*offset);
        self.say(format_args!(
            "        Adding keep-alive edge from target at {block:#x} to FDE at {at:#x}\n"
        ));
        let edge = self.record_edge(0, EdgeKind::KEEP_ALIVE, at);
        if let Some(function) = *function {
            self.kept.entry(function).or_default().push(edge);
        }
    }

    /// Reads a pointer and makes sure that an edge fills it.
    fn pointer(
        &mut self,
        reader: &mut Reader<'_>,
        block: &mut Block,
        encoding: u8,
        what: &str,
    ) -> Option<()> {
        if let Some(field) = self.field(reader, block, encoding, what)?
            && !field.is_old
        {
            block.edges.push(field.edge);
        }
        Some(())
    }

    /// Where a pointer leads; `Some(None)` when it is left out.
    fn field(
        &mut self,
        reader: &mut Reader<'_>,
        block: &Block,
        encoding: u8,
        what: &str,
    ) -> Option<Option<Field>> {
        if encoding == pe::OMIT {
            return Some(None);
        }
        let offset = u64_of(reader.at);
        let place = block.address.wrapping_add(offset);
        let width = self.width(encoding)?;
        let named = |edge: &Edge| match edge.target_name.as_str() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        if let Some(edge) = edge_at(block, offset)? {
            let (to, name) = (edge.target_address, named(&edge));
            self.say(format_args!(
                "      Existing edge at {place:#x} to {what} at {to:#x}{name}\n"
            ));
            reader.skip(width)?;
            return Some(Some(Field { edge, is_old: true }));
        }
        let value = match width {
            4 => reader.u32()?.into(),
            _ => reader.u64()?,
        };
        let (target, expr) = if encoding & pe::APPLICATION == pe::PCREL {
            (place.wrapping_add(value), Expr::Relative)
        } else {
            (value, Expr::Absolute)
        };
        let kind = self.arch.kind_of(expr, u8::try_from(width).ok()?)?;
        let mut edge = self.record_edge(offset, kind, target);
        let symbol = self.canonical.get(&target)?;
        edge.target = symbol.id;
        edge.target_name.clone_from(&symbol.name);
        let section = symbol.id.and_then(|id| self.block_of(id));
        edge.target_block = section.map(|(id, name)| (Some(id), symbol.offset, name));
        let name = named(&edge);
        self.say(format_args!(
            "      Adding edge at {place:#x} to {what} at {target:#x}{name}\n"
        ));
        Some(Some(Field {
            edge,
            is_old: false,
        }))
    }

    fn block_of(&self, symbol: SymbolId) -> Option<(BlockId, String)> {
        let block = self.graph.symbol_block(symbol)?;
        let name = self.graph.section_name(self.graph.block_section(block));
        Some((block, String::from_utf8_lossy(name).into_owned()))
    }

    /// An edge to a record.
    fn record_edge(&self, offset: u64, kind: EdgeKind, target: u64) -> Edge {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        Edge::to_record(self.graph, offset, kind, None, target, NAME.to_owned())
    }

    fn width(&self, encoding: u8) -> Option<u64> {
        match encoding & pe::FORMAT {
            pe::ABSPTR => Some(self.graph.target().pointer_size.into()),
            pe::UDATA4 | pe::SDATA4 => Some(4),
            pe::UDATA8 | pe::SDATA8 => Some(8),
            _ => None,
        }
    }
}

/// The one edge at an offset, if any; `None` when there are several.
fn edge_at(block: &Block, offset: u64) -> Option<Option<Edge>> {
    let mut edges = block
        .edges
        .iter()
        .filter(|edge| u64::from(edge.offset) == offset && edge.kind.is_relocation());
    let first = edges.next().cloned();
    edges.next().is_none().then_some(first)
}

/// An encoding that llvm-jitlink reads.
fn encoding(byte: u8) -> Option<u8> {
    let is_known = !matches!(byte & pe::FORMAT, 1 | 2 | 9 | 10);
    let is_relative = !matches!(byte & pe::APPLICATION, 0x20 | 0x30 | 0x40 | 0x50);
    (byte == pe::OMIT || is_known && is_relative).then_some(byte)
}

/// The records that stay, by address, when the blocks in `live` do: those whose function is
/// there, and their CIEs.
pub(super) fn live_records(file: &FileGraph, live: &Set<BlockId>) -> Set<u64> {
    let mut records: Set<u64> = Set::default();
    for (_, block) in file.blocks() {
        if block.id.is_some_and(|id| live.contains(&id)) {
            let edges = block.edges.iter();
            let kept = edges.filter(|edge| edge.kind == EdgeKind::KEEP_ALIVE);
            records.extend(kept.map(|edge| edge.target_address));
        }
    }
    let Some(section) = file.sections.get(NAME) else {
        return records;
    };
    let mut cies = Vec::new();
    for block in &section.blocks {
        if records.contains(&block.address) {
            let edges = block.edges.iter().filter(|edge| edge.target.is_none());
            cies.extend(edges.map(|edge| edge.target_address));
        }
    }
    records.extend(cies);
    records
}

/// Reads numbers; `None` past the end.
struct Reader<'d> {
    content: &'d [u8],
    at: usize,
    endian: Endian,
}

impl<'d> Reader<'d> {
    fn new(content: &'d [u8], endian: Endian) -> Self {
        Self {
            content,
            at: 0,
            endian,
        }
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.content.len()
    }

    fn remaining(&self) -> u64 {
        u64_of(self.content.len().saturating_sub(self.at))
    }

    fn skip(&mut self, n: u64) -> Option<()> {
        (n <= self.remaining()).then(|| self.at += usize_of_u64(n))
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.content.get(self.at..self.at.checked_add(N)?)?;
        self.at += N;
        bytes.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes()?;
        Some(match self.endian {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        })
    }

    fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes()?;
        Some(match self.endian {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        })
    }

    /// A record's length, which is one of two forms.
    fn record_length(&mut self) -> Option<u64> {
        match self.u32()? {
            u32::MAX => self.u64(),
            length => Some(u64_of(usize_of(length))),
        }
    }

    /// The value of an unsigned number; what does not fit is cut off.
    fn leb128(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = self.u8()?;
            if shift < u64::BITS {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }
}
