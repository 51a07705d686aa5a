//! Parses the text form; [`crate::dump`] describes it. A text is read in two steps: lines to a
//! list of statements, then, entity by entity in id order, through the operations every pass
//! uses, so that no text makes a graph that a pass could not make. Begin with [`parse`].
//!
//! Memory is bounded by the text's length: sizes of zero-fill are only numbers, and ids index no
//! array.

use super::lex::{Line, Place, Token, hex_pair, shown};
use super::print::{LIFETIMES, SCOPES, SECTION_FLAGS, SYMBOL_FLAGS, default_scope};
use crate::block::{NewBlock, NewContent};
use crate::comdat::{Comdat, Selection};
use crate::edge::Edge;
use crate::graph::LinkGraph;
use crate::ids::{BlockId, ComdatId, SectionId, SymbolId};
use crate::index::id::Id;
use crate::index::int::{u32_of, u64_of};
use crate::index::map::Map;
use crate::ops::GraphError;
use crate::section::{NewSection, Prot, SectionKind};
use crate::symbol::{Addressable, NewSymbol, Scope, SymbolFlags};
use crate::target::GraphTarget;
use thiserror::Error;

/// Why a text is not a graph, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{line}:{column}: {message}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a graph from its text form. `find_target` answers the architecture of a name.
///
/// # Errors
/// A text that does not follow the grammar, refers to what it does not define, or describes a
/// graph that is not sound.
pub fn parse(
    text: &str,
    find_target: impl Fn(&str) -> Option<&'static GraphTarget>,
) -> Result<LinkGraph> {
    let start = Place { line: 1, column: 1 };
    if u32::try_from(text.len()).is_err() {
        return Err(start.error("text is longer than 4 GiB"));
    }
    let mut statements = Statements::default();
    let mut header = None;
    let mut last = start;
    for (index, line) in text.lines().enumerate() {
        let mut line = Line::new(u32_of(index + 1), line);
        if line.at_end() {
            continue;
        }
        let keyword = line.word("a statement")?;
        last = line.place();
        if header.is_none() {
            if keyword != "graph" {
                return Err(last.error("a text begins with the statement `graph`"));
            }
            header = Some(read_graph(&mut line, &find_target)?);
        } else {
            statements.read(keyword, &mut line)?;
        }
        line.end()?;
    }
    let mut graph = header.ok_or_else(|| last.error("a text begins with the statement `graph`"))?;
    statements.build(&mut graph)?;
    Ok(graph)
}

fn read_graph(
    line: &mut Line<'_>,
    find_target: impl Fn(&str) -> Option<&'static GraphTarget>,
) -> Result<LinkGraph> {
    let name = String::from_utf8(line.bytes("the graph's name")?)
        .map_err(|_| line.error("a graph's name is UTF-8"))?;
    let target = line.word("an architecture")?;
    let target = find_target(target)
        .ok_or_else(|| line.error(format!("unknown architecture {}", shown(target))))?;
    Ok(LinkGraph::new(&name, target))
}

// Lines to statements.

/// An entity's number in the text, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Ref {
    number: u32,
    place: Place,
}

#[derive(Debug)]
struct ComdatItem {
    id: Ref,
    signature: Ref,
    selection: Selection,
}

#[derive(Debug)]
struct SectionItem {
    id: Ref,
    name: Vec<u8>,
    new: NewSection,
    comdat: Option<Ref>,
    ordinal: Option<u32>,
}

#[derive(Debug)]
struct BlockItem<'t> {
    id: Ref,
    /// Position of the section's statement among those of sections.
    section: usize,
    size: Option<u64>,
    align: u64,
    align_offset: u64,
    zero: bool,
    content: Vec<u8>,
    edges: Vec<EdgeItem<'t>>,
}

#[derive(Debug)]
struct EdgeItem<'t> {
    place: Place,
    offset: u32,
    kind: &'t str,
    target: Ref,
    addend: i64,
}

#[derive(Debug)]
struct SymbolItem {
    id: Ref,
    name: Vec<u8>,
    base: Base,
    size: u64,
    flags: SymbolFlags,
}

#[derive(Clone, Copy, Debug)]
enum Base {
    Block { block: Ref, offset: u64 },
    Other(Addressable),
}

/// All statements of a text but the first.
#[derive(Debug, Default)]
struct Statements<'t> {
    comdats: Vec<ComdatItem>,
    sections: Vec<SectionItem>,
    blocks: Vec<BlockItem<'t>>,
    symbols: Vec<SymbolItem>,
    associations: Vec<(Ref, Ref)>,
}

impl<'t> Statements<'t> {
    fn read(&mut self, keyword: &str, line: &mut Line<'t>) -> Result<()> {
        match keyword {
            "comdat" => self.comdats.push(read_comdat(line)?),
            "section" => self.sections.push(read_section(line)?),
            "block" => {
                let section = self.sections.len().checked_sub(1);
                let section = section.ok_or_else(|| line.error("no section above this block"))?;
                self.blocks.push(read_block(line, section)?);
            }
            "bytes" | "string" | "edge" => {
                // Each statement belongs to what stands above it.
                let n_sections = self.sections.len();
                let block = self
                    .blocks
                    .last_mut()
                    .filter(|block| block.section + 1 == n_sections)
                    .ok_or_else(|| line.error(format!("no block above this `{keyword}`")))?;
                match keyword {
                    "edge" => block.edges.push(read_edge(line)?),
                    _ if block.zero => return Err(line.error("the block above is `zero`")),
                    "bytes" => read_bytes(line, &mut block.content)?,
                    _ => read_string(line, &mut block.content)?,
                }
            }
            "symbol" => self.symbols.push(read_symbol(line)?),
            "associate" => {
                let parent = read_id(line, BlockId::PREFIX, "the parent block")?;
                let child = read_id(line, BlockId::PREFIX, "the child block")?;
                self.associations.push((parent, child));
            }
            "graph" => return Err(line.error("there is one `graph` only")),
            _ => return Err(line.error(format!("unknown statement {}", shown(keyword)))),
        }
        Ok(())
    }
}

fn read_id(line: &mut Line<'_>, prefix: &str, what: &str) -> Result<Ref> {
    let word = line.word(what)?;
    parse_id(line, word, prefix, what)
}

fn parse_id(line: &Line<'_>, word: &str, prefix: &str, what: &str) -> Result<Ref> {
    word.strip_prefix(prefix)
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .filter(|&number| number != 0)
        .map(|number| Ref {
            number,
            place: line.place(),
        })
        .ok_or_else(|| {
            line.error(format!(
                "expected {what} ({prefix}1, {prefix}2, …), found {}",
                shown(word)
            ))
        })
}

fn read_name(line: &Line<'_>, name: Vec<u8>) -> Result<Vec<u8>> {
    if name.contains(&0) {
        return Err(line.error("a name has no zero byte"));
    }
    Ok(name)
}

fn read_comdat(line: &mut Line<'_>) -> Result<ComdatItem> {
    let id = read_id(line, ComdatId::PREFIX, "a group")?;
    let signature = read_id(line, SymbolId::PREFIX, "the group's signature")?;
    let word = line.word("a selection")?;
    let selection = by_name(&Selection::NAMES, word)
        .ok_or_else(|| line.error(format!("unknown selection {}", shown(word))))?;
    Ok(ComdatItem {
        id,
        signature,
        selection,
    })
}

fn read_section(line: &mut Line<'_>) -> Result<SectionItem> {
    let id = read_id(line, SectionId::PREFIX, "a section")?;
    let name = line.bytes("the section's name")?;
    let name = read_name(line, name)?;
    let prot = read_prot(line)?;
    let mut item = SectionItem {
        id,
        name,
        new: NewSection::new(prot),
        comdat: None,
        ordinal: None,
    };
    let mut seen = Vec::new();
    while let Some(word) = read_property(line, &mut seen)? {
        match word {
            "kind" => {
                let kind = line.word("a kind")?;
                item.new.kind = by_name(&SectionKind::NAMES, kind)
                    .ok_or_else(|| line.error(format!("unknown kind {}", shown(kind))))?;
            }
            "lifetime" => {
                let lifetime = line.word("a lifetime")?;
                item.new.lifetime = by_name(&LIFETIMES, lifetime)
                    .ok_or_else(|| line.error(format!("unknown lifetime {}", shown(lifetime))))?;
            }
            "entry" => item.new.entry_size = line.number_u32("the size of an entry")?,
            "comdat" => item.comdat = Some(read_id(line, ComdatId::PREFIX, "a group")?),
            "ordinal" => item.ordinal = Some(line.number_u32("an ordinal")?),
            _ => match by_name(&SECTION_FLAGS, word) {
                Some(flag) => item.new.flags |= flag,
                None => return Err(unknown_property(line, word)),
            },
        }
    }
    Ok(item)
}

fn read_prot(line: &mut Line<'_>) -> Result<Prot> {
    let word = line.word("a protection")?;
    let letters = [(b'r', Prot::READ), (b'w', Prot::WRITE), (b'x', Prot::EXEC)];
    let mut prot = Prot::empty();
    let mut fits = word.len() == letters.len();
    for ((letter, flag), byte) in letters.into_iter().zip(word.bytes()) {
        fits &= byte == letter || byte == b'-';
        prot.set(flag, byte == letter);
    }
    if !fits {
        return Err(line.error(format!(
            "expected a protection such as r-x, found {}",
            shown(word)
        )));
    }
    Ok(prot)
}

fn read_block<'t>(line: &mut Line<'_>, section: usize) -> Result<BlockItem<'t>> {
    let mut item = BlockItem {
        id: read_id(line, BlockId::PREFIX, "a block")?,
        section,
        size: None,
        align: 1,
        align_offset: 0,
        zero: false,
        content: Vec::new(),
        edges: Vec::new(),
    };
    let mut seen = Vec::new();
    while let Some(word) = read_property(line, &mut seen)? {
        match word {
            "size" => item.size = Some(line.number("a size")?),
            "align" => item.align = line.number("an alignment")?,
            "offset" => item.align_offset = line.number("an offset")?,
            "zero" => item.zero = true,
            _ => return Err(unknown_property(line, word)),
        }
    }
    Ok(item)
}

fn read_bytes(line: &mut Line<'_>, content: &mut Vec<u8>) -> Result<()> {
    while !line.at_end() {
        let word = line.word("hexadecimal digits")?;
        let (pairs, rest) = word.as_bytes().as_chunks();
        if !rest.is_empty() {
            return Err(line.error("a byte has two hexadecimal digits"));
        }
        for &[high, low] in pairs {
            let byte = hex_pair(high, low).ok_or_else(|| {
                line.error(format!(
                    "expected hexadecimal digits, found {}",
                    shown(word)
                ))
            })?;
            content.push(byte);
        }
    }
    Ok(())
}

fn read_string(line: &mut Line<'_>, content: &mut Vec<u8>) -> Result<()> {
    while !line.at_end() {
        content.append(&mut line.bytes("content")?);
    }
    Ok(())
}

fn read_edge<'t>(line: &mut Line<'t>) -> Result<EdgeItem<'t>> {
    let place = line.place();
    let word = line.word("the edge's offset")?;
    let digits = word
        .strip_prefix('+')
        .ok_or_else(|| line.error(format!("expected +OFFSET, found {}", shown(word))))?;
    let offset = line.parse_number(digits, "the edge's offset")?;
    let offset = u32::try_from(offset)
        .map_err(|_| line.error("an edge's offset is not more than 32 bits"))?;
    let kind = line.word("an edge kind")?;
    let target = read_id(line, SymbolId::PREFIX, "the edge's target")?;
    Ok(EdgeItem {
        place,
        offset,
        kind,
        target,
        addend: read_addend(line)?,
    })
}

fn read_addend(line: &mut Line<'_>) -> Result<i64> {
    let word = match line.next()? {
        None => return Ok(0),
        Some(Token::Word(word)) => word,
        Some(Token::Bytes(_)) => return Err(line.error("expected an addend, found a string")),
    };
    let (negative, digits) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
        (Some(digits), _) => (false, digits),
        (_, Some(digits)) => (true, digits),
        _ => return Err(line.error(format!("expected + or -, found {}", shown(word)))),
    };
    let magnitude = if digits.is_empty() {
        line.number("an addend")?
    } else {
        line.parse_number(digits, "an addend")?
    };
    let addend = if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        0_i64.checked_add_unsigned(magnitude)
    };
    addend.ok_or_else(|| line.error("an addend is a signed number of 64 bits"))
}

fn read_symbol(line: &mut Line<'_>) -> Result<SymbolItem> {
    let id = read_id(line, SymbolId::PREFIX, "a symbol")?;
    let name = line.bytes_if_any()?.unwrap_or_default();
    let name = read_name(line, name)?;
    let base = read_base(line)?;
    let mut item = SymbolItem {
        id,
        flags: SymbolFlags::empty().with_scope(default_scope(&name)),
        name,
        base,
        size: 0,
    };
    let mut seen = Vec::new();
    let mut scoped = false;
    while let Some(word) = read_property(line, &mut seen)? {
        if word == "size" {
            item.size = line.number("a size")?;
        } else if let Some(scope) = by_name::<Scope>(&SCOPES, word) {
            if scoped {
                return Err(line.error("a symbol has one scope only"));
            }
            scoped = true;
            item.flags = item.flags.with_scope(scope);
        } else if let Some(flag) = by_name(&SYMBOL_FLAGS, word) {
            item.flags |= flag;
        } else {
            return Err(unknown_property(line, word));
        }
    }
    if item.name.is_empty() && item.flags.scope() != Scope::Local {
        return Err(item.id.place.error("an anonymous symbol is local"));
    }
    Ok(item)
}

fn read_base(line: &mut Line<'_>) -> Result<Base> {
    let word = line.word("what the symbol points at")?;
    let base = match word {
        "absolute" => Addressable::Absolute(line.number("a value")?),
        "external" => Addressable::External,
        "discarded" => Addressable::Discarded,
        "common" => {
            if line.word("`align`")? != "align" {
                return Err(line.error("expected `align`"));
            }
            Addressable::Common {
                align: line.number("an alignment")?,
            }
        }
        _ => {
            let (block, offset) = word.split_once('+').ok_or_else(|| {
                line.error(format!(
                    "expected bN+OFFSET, absolute, external, common or discarded, found {}",
                    shown(word)
                ))
            })?;
            return Ok(Base::Block {
                block: parse_id(line, block, BlockId::PREFIX, "a block")?,
                offset: line.parse_number(offset, "an offset")?,
            });
        }
    };
    Ok(Base::Other(base))
}

/// The next property's name; refuses one that was there before.
fn read_property<'t>(line: &mut Line<'t>, seen: &mut Vec<&'t str>) -> Result<Option<&'t str>> {
    if line.at_end() {
        return Ok(None);
    }
    let word = line.word("a property")?;
    if seen.contains(&word) {
        return Err(line.error(format!("{} is given twice", shown(word))));
    }
    // An unknown word ends the parse, so the list is no longer than the list of properties.
    seen.push(word);
    Ok(Some(word))
}

fn unknown_property(line: &Line<'_>, word: &str) -> ParseError {
    line.error(format!("unknown property {}", shown(word)))
}

fn by_name<T: Copy>(names: &[(T, &str)], word: &str) -> Option<T> {
    names
        .iter()
        .find(|(_, name)| *name == word)
        .map(|(value, _)| *value)
}

// Statements to entities.

/// From numbers in the text to ids of the graph: position among the sorted numbers.
struct Ids<I> {
    ids: Map<u32, I>,
    what: &'static str,
}

impl<I: Id> Ids<I> {
    /// Sorts the items by number and gives each its id.
    fn of<T>(items: &mut [T], what: &'static str, id: impl Fn(&T) -> Ref) -> Result<Self> {
        items.sort_by_key(|item| id(item).number);
        let mut ids = Map::default();
        for (index, item) in items.iter().enumerate() {
            let Ref { number, place } = id(item);
            if ids.insert(number, I::from_index(index)).is_some() {
                return Err(place.error(format!("{what} {number} is defined twice")));
            }
        }
        Ok(Self { ids, what })
    }

    fn get(&self, reference: Ref) -> Result<I> {
        self.ids.get(&reference.number).copied().ok_or_else(|| {
            let Ref { number, place } = reference;
            place.error(format!("{} {number} is not defined", self.what))
        })
    }
}

impl Statements<'_> {
    /// Makes everything in a graph that is empty.
    fn build(mut self, graph: &mut LinkGraph) -> Result<()> {
        // Blocks know their section by its statement's position, so order them first.
        let section_numbers: Vec<Ref> = self.sections.iter().map(|item| item.id).collect();
        let comdats = Ids::of(&mut self.comdats, "group", |item| item.id)?;
        let sections: Ids<SectionId> = Ids::of(&mut self.sections, "section", |item| item.id)?;
        let blocks = Ids::of(&mut self.blocks, "block", |item| item.id)?;
        let symbols = Ids::of(&mut self.symbols, "symbol", |item| item.id)?;

        for item in &self.comdats {
            graph.add_comdat(Comdat {
                signature: symbols.get(item.signature)?,
                input: LinkGraph::linker_input(),
                selection: item.selection,
            });
        }
        for item in &self.sections {
            let comdat = item.comdat.map(|group| comdats.get(group)).transpose()?;
            let id = graph.add_section(&item.name, NewSection { comdat, ..item.new });
            if let Some(ordinal) = item.ordinal {
                graph.set_section_ordinal(id, ordinal);
            }
        }
        for item in &mut self.blocks {
            let section = sections.get(section_numbers[item.section])?;
            let new = NewBlock {
                section,
                content: item.content()?,
                align: item.align,
                align_offset: item.align_offset,
            };
            graph.add_block(new).map_err(at(item.id.place))?;
        }
        for item in &self.symbols {
            item.build(graph, &blocks)?;
        }
        for item in &self.blocks {
            let edges = item
                .edges
                .iter()
                .map(|edge| edge.build(graph, &symbols, blocks.get(item.id)?))
                .collect::<Result<Vec<_>>>()?;
            if !edges.is_empty() {
                let block = blocks.get(item.id)?;
                graph.set_edges(block, edges).map_err(at(item.id.place))?;
            }
        }
        for &(parent, child) in &self.associations {
            let place = parent.place;
            let (parent, child) = (blocks.get(parent)?, blocks.get(child)?);
            graph.associate(parent, child).map_err(at(place))?;
        }
        Ok(())
    }
}

impl BlockItem<'_> {
    fn content(&mut self) -> Result<NewContent> {
        let place = self.id.place;
        if self.zero {
            let size = self.size;
            return size
                .map(NewContent::Zero)
                .ok_or_else(|| place.error("a block of zeros needs a size"));
        }
        let len = u64_of(self.content.len());
        match self.size {
            Some(size) if size != len => {
                Err(place.error(format!("block has {len} bytes of content, but size {size}")))
            }
            _ => Ok(NewContent::Owned(std::mem::take(&mut self.content))),
        }
    }
}

impl EdgeItem<'_> {
    fn build(&self, graph: &LinkGraph, symbols: &Ids<SymbolId>, block: BlockId) -> Result<Edge> {
        let target = graph.target();
        let kind = target.kind_named(self.kind).ok_or_else(|| {
            self.place.error(format!(
                "{} is no edge kind of {}",
                shown(self.kind),
                target.name
            ))
        })?;
        let edge = Edge {
            offset: self.offset,
            kind,
            target: symbols.get(self.target)?,
            addend: self.addend,
        };
        graph.check_edge(block, &edge).map_err(at(self.place))?;
        Ok(edge)
    }
}

impl SymbolItem {
    fn build(&self, graph: &mut LinkGraph, blocks: &Ids<BlockId>) -> Result<()> {
        let base = match self.base {
            Base::Block { block, offset } => Addressable::Block {
                block: blocks.get(block)?,
                offset,
            },
            Base::Other(base) => base,
        };
        let new = NewSymbol {
            name: &self.name,
            base,
            size: self.size,
            flags: self.flags,
        };
        let made = match base {
            Addressable::Discarded => graph.add_discarded(new),
            _ => graph.add_symbol(new),
        };
        made.map(drop).map_err(at(self.id.place))
    }
}

/// Says where in the text the entity stands that the graph refused.
fn at(place: Place) -> impl Fn(GraphError) -> ParseError {
    move |error| place.error(error.to_string())
}
