//! Tables: GOT entries, stubs and thread-local entries as blocks with edges; and the rewrites
//! that make an entry unnecessary where that is already known.
//!
//! Reads: graph, resolution, liveness, and how far externals are. Writes: edges (and, where an
//! instruction is rewritten, content) of the blocks that ask for something; new blocks. True
//! after: no edge of a live block asks for a table entry; every branch reaches its target or a
//! stub; functions that choose their implementation at run time (ifunc) have the address of
//! their stub. Parallel: over runs of blocks, for all that is only read; entries are then made by
//! one thread, in the order in which blocks ask.

use crate::common::define_zero_fill;
use crate::place::Place;
use crate::prune::Liveness;
use crate::resolve::Resolution;
use clinch_graph::index::map::Map;
use clinch_graph::{
    Addressable, BlockId, Edge, EdgeBatch, EdgeKind, GraphError, Lifetime, LinkGraph, NewBlock,
    NewContent, NewSection, Prot, SectionFlags, SectionId, SectionKind, SymbolFlags, SymbolId,
    Workers,
};
use clinch_target::{Arch, EdgeFlags, EdgeInfo, Expr, Request, Table, Template};
use thiserror::Error;

/// How code reaches an external symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Near enough for every place that refers to it.
    Near,
    /// Perhaps too far, or not known yet: through tables only.
    Far,
    /// As [`Reach::Far`], and it is data of this size and alignment, which may be copied to where
    /// code can reach it.
    FarData {
        /// Size in bytes.
        size: u64,
        /// Alignment in bytes.
        align: u64,
    },
    /// A fixed value, perhaps too far: branches and loads go through tables, and every other
    /// reference means the value itself.
    FarValue,
}

/// What the tables step must know beside the graph.
pub struct TableRules<'a> {
    /// How code reaches a prevailing external symbol.
    pub reach: &'a (dyn Fn(SymbolId) -> Reach + Sync),
    /// Whether thread-local variables have a fixed offset from the thread pointer.
    pub static_tls: bool,
}

impl std::fmt::Debug for TableRules<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableRules")
            .field("static_tls", &self.static_tls)
            .finish_non_exhaustive()
    }
}

/// What the step made.
#[derive(Debug, Default)]
pub struct Tables {
    /// GOT entries, by target.
    got: Map<SymbolId, SymbolId>,
    /// Stubs, by target.
    stubs: Map<SymbolId, SymbolId>,
    /// Entries of thread-local tables, by table and target.
    tls: Map<(Table, SymbolId), SymbolId>,
    got_section: Option<SectionId>,
    stub_section: Option<SectionId>,
    copy_section: Option<SectionId>,
    /// What a GOT entry or a stub leads to, by the entry's or stub's symbol.
    leads_to: Map<SymbolId, SymbolId>,
    /// The live blocks with an edge to a table entry, in id order.
    pub touched: Vec<BlockId>,
    /// The blocks that the step made; all live.
    pub made: Vec<BlockId>,
    /// GOT entries to fill by calling a resolver, in the order made: entry and resolver.
    pub ifuncs: Vec<(SymbolId, SymbolId)>,
    /// External data to copy before the program starts: the place and the external symbol.
    pub copies: Vec<(SymbolId, SymbolId)>,
    /// External symbols that the step made, for their addresses to be set.
    pub externals: Vec<(SymbolId, SymbolId)>,
}

/// Why a table entry cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TableError {
    /// A thread-local access that is not one of the sequences that the psABI fixes.
    #[error("{0}: unknown code sequence for a thread-local access")]
    TlsSequence(Place),
    /// Something the architecture's table has no means for.
    #[error("{place}: {what} is not supported for this architecture")]
    NoMeans {
        /// Where.
        place: Place,
        /// What is asked for.
        what: &'static str,
    },
    /// A reference to what does not take part: a section of a group that did not prevail.
    #[error("{place}: relocation refers to a discarded section{}", named(.symbol))]
    Discarded {
        /// Where.
        place: Place,
        /// The symbol's mangled name, empty when it has none.
        symbol: String,
    },
    /// The graph refused a change.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

fn named(symbol: &str) -> String {
    if symbol.is_empty() {
        String::new()
    } else {
        format!(" (symbol {symbol})")
    }
}

impl Tables {
    /// What a GOT entry or stub leads to.
    pub fn leads_to(&self, entry: SymbolId) -> Option<SymbolId> {
        self.leads_to.get(&entry).copied()
    }
}

/// Makes the tables that live blocks ask for.
///
/// # Errors
/// What cannot be made, in id order of the blocks that ask.
pub fn build(
    graph: &mut LinkGraph,
    arch: &Arch,
    resolution: &Resolution,
    liveness: &Liveness,
    rules: &TableRules<'_>,
    workers: &Workers,
) -> Result<Tables, Vec<TableError>> {
    let mut errors = Vec::new();
    let reader = Reader {
        graph,
        arch,
        resolution,
        rules,
    };
    let (asking, direct) = reader.scan(liveness, workers, &mut errors);
    let mut builder = Builder {
        arch,
        rules,
        tables: Tables::default(),
    };
    for symbol in direct {
        if let Err(error) = builder.bring_near(graph, symbol) {
            errors.push(error);
        }
    }
    let reader = Reader {
        graph,
        arch,
        resolution,
        rules,
    };
    let cost = asking.len().saturating_mul(BYTES_PER_BLOCK);
    let runs = workers.cut(cost, asking.len());
    let rewritten = workers.map(cost, runs, |run| reader.rewrite(&asking[run]));
    for run in rewritten {
        builder.grant(graph, run, &mut errors);
    }
    if errors.is_empty() {
        Ok(builder.tables)
    } else {
        Err(errors)
    }
}

/// What is looked at of a block, about: its records, and their targets.
const BYTES_PER_BLOCK: usize = 256;

/// The part of the work that only reads.
struct Reader<'a> {
    graph: &'a LinkGraph,
    arch: &'a Arch,
    resolution: &'a Resolution,
    rules: &'a TableRules<'a>,
}

/// What becomes of a run of blocks.
#[derive(Default)]
struct Rewritten {
    edges: EdgeBatch,
    /// Edges that go to an entry, by number, in order.
    asks: Vec<(usize, Ask)>,
    blocks: Vec<Block>,
}

/// What becomes of a block.
struct Block {
    id: BlockId,
    /// Its content, when an instruction was rewritten.
    content: Option<Vec<u8>>,
    /// How many edges of the run go to an entry, up to its last.
    asks: usize,
    /// Whether some edge goes to an entry, or went to one.
    touched: bool,
    /// Why it cannot be rewritten to its end.
    error: Option<TableError>,
}

/// An entry that an edge goes to.
enum Ask {
    Got(SymbolId),
    Stub(SymbolId),
    /// With where it is asked for.
    Tls(Table, SymbolId, BlockId, u32),
}

/// The edges of one block while they are rewritten.
struct Draft<'a> {
    block: BlockId,
    old: &'a [Edge],
    new: Vec<Edge>,
    asks: Vec<(usize, Ask)>,
    /// A copy of its content, once an instruction may be rewritten.
    content: Option<Vec<u8>>,
    /// Whether one was.
    is_rewritten: bool,
    touched: bool,
}

impl Draft<'_> {
    /// Goes to an entry from the edge's place.
    fn ask(&mut self, edge: Edge, ask: Ask) {
        self.asks.push((self.new.len(), ask));
        self.new.push(edge);
    }

    /// Tries to rewrite an instruction.
    fn relax<R>(
        &mut self,
        graph: &LinkGraph,
        rewrite: impl FnOnce(&mut [u8]) -> Option<R>,
    ) -> Option<R> {
        if graph.is_zero_fill(self.block) {
            return None;
        }
        let content = self
            .content
            .get_or_insert_with(|| graph.content(self.block).bytes().to_vec());
        let answer = rewrite(content)?;
        self.is_rewritten = true;
        Some(answer)
    }
}

impl Reader<'_> {
    /// The blocks that ask for an entry, and the symbols that are referred to directly but have
    /// no place that code can reach: each in id order.
    fn scan(
        &self,
        liveness: &Liveness,
        workers: &Workers,
        errors: &mut Vec<TableError>,
    ) -> (Vec<BlockId>, Vec<SymbolId>) {
        let blocks: Vec<BlockId> = match &liveness.may_ask {
            Some(may_ask) => may_ask.iter().collect(),
            None => liveness.blocks.iter().collect(),
        };
        let cost = blocks.len().saturating_mul(BYTES_PER_BLOCK);
        let runs = workers.cut(cost, blocks.len());
        let scans = workers.map(cost, runs, |run| self.scan_run(&blocks[run]));
        let (mut asking, mut direct) = (Vec::new(), Vec::new());
        for scan in scans {
            asking.extend(scan.asking);
            direct.extend(scan.direct);
            errors.extend(scan.errors);
        }
        direct.sort_unstable();
        direct.dedup();
        (asking, direct)
    }

    fn scan_run(&self, blocks: &[BlockId]) -> Scan {
        let graph = self.graph;
        let mut scan = Scan::default();
        let mut edges = Vec::new();
        for &block in blocks {
            if graph.has_no_edges(block) || graph.edges(block, &mut edges).is_err() {
                continue;
            }
            let in_memory = graph.section_lifetime(graph.block_section(block)) != Lifetime::NoAlloc;
            let mut asks = false;
            for edge in &edges {
                let Some(info) = self.arch.edge(edge.kind) else {
                    continue;
                };
                let target = self.resolution.prevailing(edge.target);
                let flags = graph.symbol_flags(target);
                if flags.is_discarded() && in_memory {
                    scan.errors.push(TableError::Discarded {
                        place: Place::of(graph, block, u64::from(edge.offset)),
                        symbol: String::from_utf8_lossy(graph.symbol_name(target)).into_owned(),
                    });
                }
                if flags.contains(SymbolFlags::IFUNC) && flags.is_definition() {
                    scan.direct.push(target);
                }
                let is_far = || flags.is_external() && (self.rules.reach)(target) != Reach::Near;
                if info.request.is_some() || info.flags.contains(EdgeFlags::TLS) {
                    asks = true;
                } else if info.flags.contains(EdgeFlags::BRANCH) {
                    asks |= is_far();
                } else if in_memory
                    && is_direct(self.arch, info)
                    && is_far()
                    && (self.rules.reach)(target) != Reach::FarValue
                {
                    scan.direct.push(target);
                }
            }
            if asks {
                scan.asking.push(block);
            }
        }
        scan.direct.sort_unstable();
        scan.direct.dedup();
        scan
    }

    /// What becomes of blocks that ask for something.
    fn rewrite(&self, blocks: &[BlockId]) -> Rewritten {
        let mut run = Rewritten::default();
        let (mut edges, mut new) = (Vec::new(), Vec::new());
        for &block in blocks {
            if self.graph.edges(block, &mut edges).is_err() {
                continue;
            }
            if !edges.is_sorted_by_key(|edge| edge.offset) {
                edges.sort_by_key(|edge| edge.offset);
            }
            new.clear();
            let mut draft = Draft {
                block,
                old: &edges,
                new,
                asks: std::mem::take(&mut run.asks),
                content: None,
                is_rewritten: false,
                touched: false,
            };
            let first = run.edges.len();
            let first_ask = draft.asks.len();
            let result = self.rewrite_block(&mut draft);
            for (n, _) in &mut draft.asks[first_ask..] {
                *n += first;
            }
            let added = result.and_then(|()| {
                let added = run.edges.add(self.graph, block, &draft.new);
                added.map_err(TableError::from)
            });
            run.blocks.push(Block {
                id: block,
                content: draft.content.filter(|_| draft.is_rewritten),
                asks: draft.asks.len(),
                touched: draft.touched,
                error: added.err(),
            });
            (run.asks, new) = (draft.asks, draft.new);
        }
        run
    }

    fn rewrite_block(&self, draft: &mut Draft<'_>) -> Result<(), TableError> {
        let mut index = 0;
        while index < draft.old.len() {
            let edge = draft.old[index];
            index += 1;
            let Some(info) = self.arch.edge(edge.kind) else {
                draft.new.push(edge);
                continue;
            };
            let target = self.resolution.prevailing(edge.target);
            if info.flags.contains(EdgeFlags::TLS) {
                index += self.thread_local(draft, index - 1, info)?;
            } else if let Some(request) = info.request {
                self.request(draft, &edge, target, info, request)?;
                draft.touched = true;
            } else if info.flags.contains(EdgeFlags::BRANCH)
                && self.graph.symbol_flags(target).is_external()
                && (self.rules.reach)(target) != Reach::Near
            {
                let kind = self.to_stub(edge.kind);
                draft.ask(Edge { kind, ..edge }, Ask::Stub(target));
                draft.touched = true;
            } else {
                draft.new.push(edge);
            }
        }
        Ok(())
    }

    /// An ordinary request: without an entry where the instruction can do without.
    fn request(
        &self,
        draft: &mut Draft<'_>,
        edge: &Edge,
        target: SymbolId,
        info: &EdgeInfo,
        request: Request,
    ) -> Result<(), TableError> {
        let rewrite = |content: &mut [u8]| (self.arch.relax.got_to_direct)(content, edge);
        if info.flags.contains(EdgeFlags::RELAXABLE)
            && self.is_near(target)
            && let Some(direct) = draft.relax(self.graph, rewrite)
        {
            draft.new.push(Edge { target, ..direct });
            return Ok(());
        }
        let granted = Edge {
            kind: request.becomes,
            ..*edge
        };
        match request.table {
            Table::Got => draft.ask(granted, Ask::Got(target)),
            Table::Plt if self.graph.symbol_flags(target).is_external() => {
                draft.ask(granted, Ask::Stub(target));
            }
            Table::Plt => draft.new.push(Edge { target, ..granted }),
            Table::TlsGd | Table::TlsLd | Table::TlsIe | Table::TlsDesc | Table::Tlv => {
                let place = Place::of(self.graph, draft.block, u64::from(edge.offset));
                return Err(TableError::NoMeans {
                    place,
                    what: info.name,
                });
            }
        }
        Ok(())
    }

    /// Whether code can refer to a symbol directly: it is in a block, which the layout keeps in
    /// reach, or an external known to be near.
    fn is_near(&self, target: SymbolId) -> bool {
        match self.graph.addressable(target) {
            Addressable::Block { block, .. } => !self
                .graph
                .block_section_flags(block)
                .contains(SectionFlags::LARGE),
            Addressable::External => (self.rules.reach)(target) == Reach::Near,
            _ => false,
        }
    }

    /// A thread-local access; answers how many further edges it used up.
    fn thread_local(
        &self,
        draft: &mut Draft<'_>,
        index: usize,
        info: &EdgeInfo,
    ) -> Result<usize, TableError> {
        let graph = self.graph;
        let (block, old) = (draft.block, draft.old);
        let edge = old[index];
        let in_memory = graph.section_lifetime(graph.block_section(block)) != Lifetime::NoAlloc;
        if self.rules.static_tls && in_memory {
            if info.expr == Expr::TpRelative {
                draft.new.push(edge);
                return Ok(0);
            }
            let rewrite =
                |content: &mut [u8]| (self.arch.relax.tls_to_local_exec)(content, old, index);
            if let Some(rewrite) = draft.relax(graph, rewrite) {
                draft.new.extend(rewrite.edge);
                return Ok(usize::from(rewrite.drop_next));
            }
        }
        let Some(request) = info.request else {
            draft.new.push(edge);
            return Ok(0);
        };
        // A value of the target that any thread shares can be read from a table in any case.
        let must_be_rewritten = self.rules.static_tls && request.table != Table::TlsIe;
        if must_be_rewritten {
            let place = Place::of(graph, block, u64::from(edge.offset));
            return Err(TableError::TlsSequence(place));
        }
        let target = self.resolution.prevailing(edge.target);
        let granted = Edge {
            kind: request.becomes,
            ..edge
        };
        draft.ask(granted, Ask::Tls(request.table, target, block, edge.offset));
        Ok(0)
    }

    fn to_stub(&self, kind: EdgeKind) -> EdgeKind {
        self.arch
            .stub_branches
            .iter()
            .find(|(direct, _)| *direct == kind)
            .map_or(kind, |&(_, through_stub)| through_stub)
    }
}

/// What a run of blocks asks for.
#[derive(Default)]
struct Scan {
    asking: Vec<BlockId>,
    /// In no order, some more than once.
    direct: Vec<SymbolId>,
    errors: Vec<TableError>,
}

/// The part of the work that makes something.
struct Builder<'a> {
    arch: &'a Arch,
    rules: &'a TableRules<'a>,
    tables: Tables,
}

impl Builder<'_> {
    /// Gives a symbol a place that code can reach: an ifunc and a far function their stub, far
    /// data a copy.
    fn bring_near(&mut self, graph: &mut LinkGraph, symbol: SymbolId) -> Result<(), TableError> {
        if let Addressable::Block { block, offset } = graph.addressable(symbol) {
            // The implementation is known when its resolver has run: all references go to a stub,
            // so that the function has one address.
            let resolver = graph.add_anonymous(block, offset, 0, SymbolFlags::CALLABLE)?;
            let entry = self.entry(graph, &[(0, self.arch.pointer, resolver)])?;
            let (stub, size) = self.make_stub(graph, entry)?;
            graph.make_defined(symbol, stub, 0, size)?;
            self.tables.ifuncs.push((entry, resolver));
            return Ok(());
        }
        match (self.rules.reach)(symbol) {
            Reach::Near | Reach::FarValue => {}
            Reach::Far => {
                let name = graph.symbol_name(symbol).to_vec();
                let weak = graph
                    .symbol_flags(symbol)
                    .contains(SymbolFlags::WEAKLY_REFERENCED);
                let real = graph.add_external(&name, weak);
                self.tables.externals.push((real, symbol));
                let entry = self.got_entry(graph, real)?;
                let (stub, size) = self.make_stub(graph, entry)?;
                graph.make_defined(symbol, stub, 0, size)?;
            }
            Reach::FarData { size, align } => {
                let name = graph.symbol_name(symbol).to_vec();
                let real = graph.add_external(&name, false);
                self.tables.externals.push((real, symbol));
                let section = *self.tables.copy_section.get_or_insert_with(|| {
                    graph.add_section(b".copyrel", NewSection::new(Prot::RW))
                });
                let block = define_zero_fill(graph, symbol, section, size, align)?;
                self.tables.made.push(block);
                self.tables.copies.push((symbol, real));
            }
        }
        Ok(())
    }

    /// Makes the entries that a run of blocks asks for, and gives the blocks their edges.
    fn grant(&mut self, graph: &mut LinkGraph, run: Rewritten, errors: &mut Vec<TableError>) {
        let Rewritten {
            mut edges,
            asks,
            blocks,
        } = run;
        let mut asks = asks.into_iter();
        let mut granted = 0;
        let mut contents = Vec::new();
        for block in blocks {
            let mine = asks.by_ref().take(block.asks - granted);
            granted = block.asks;
            let result = self.grant_block(graph, &mut edges, mine, block.error);
            if let Err(error) = result {
                errors.push(error);
                continue;
            }
            contents.extend(block.content.map(|content| (block.id, content)));
            if block.touched {
                self.tables.touched.push(block.id);
            }
        }
        // Edges first: records that keep addends in the content are then not needed any more.
        let mut result = graph.take_edges(edges);
        for (block, content) in contents {
            result = result.and_then(|()| graph.set_content(block, content));
        }
        errors.extend(result.err().map(TableError::from));
    }

    fn grant_block(
        &mut self,
        graph: &mut LinkGraph,
        edges: &mut EdgeBatch,
        mut asks: impl Iterator<Item = (usize, Ask)>,
        error: Option<TableError>,
    ) -> Result<(), TableError> {
        // What comes first of what goes wrong is told; the rest is not made.
        let result = asks.try_for_each(|(n, ask)| {
            let entry = match ask {
                Ask::Got(target) => self.got_entry(graph, target)?,
                Ask::Stub(target) => self.stub(graph, target)?,
                Ask::Tls(table, target, block, offset) => {
                    self.tls_entry(graph, block, offset, table, target)?
                }
            };
            if error.is_none() {
                edges.set_target(graph, n, entry)?;
            }
            Ok(())
        });
        asks.for_each(drop);
        result.and(error.map_or(Ok(()), Err))
    }

    fn tls_entry(
        &mut self,
        graph: &mut LinkGraph,
        block: BlockId,
        offset: u32,
        table: Table,
        target: SymbolId,
    ) -> Result<SymbolId, TableError> {
        if let Some(&entry) = self.tables.tls.get(&(table, target)) {
            return Ok(entry);
        }
        let word = self.arch.graph.pointer_size;
        let kind = |expr| {
            self.arch
                .kind_of(expr, word)
                .ok_or_else(|| TableError::NoMeans {
                    place: Place::of(graph, block, u64::from(offset)),
                    what: "a table of thread-local variables",
                })
        };
        let entry = match table {
            Table::TlsIe => {
                let kind = kind(Expr::TpRelative)?;
                self.entry(graph, &[(0, kind, target)])?
            }
            // The module's number is for who loads the program to fill in.
            Table::TlsGd | Table::TlsDesc => {
                let kind = kind(Expr::DtpRelative)?;
                self.entry(graph, &[(u32::from(word), kind, target)])?
            }
            _ => self.entry(graph, &[(u32::from(word), EdgeKind::KEEP_ALIVE, target)])?,
        };
        self.tables.tls.insert((table, target), entry);
        Ok(entry)
    }

    fn got_entry(
        &mut self,
        graph: &mut LinkGraph,
        target: SymbolId,
    ) -> Result<SymbolId, TableError> {
        if let Some(&entry) = self.tables.got.get(&target) {
            return Ok(entry);
        }
        let entry = self.entry(graph, &[(0, self.arch.pointer, target)])?;
        self.tables.got.insert(target, entry);
        self.tables.leads_to.insert(entry, target);
        Ok(entry)
    }

    fn stub(&mut self, graph: &mut LinkGraph, target: SymbolId) -> Result<SymbolId, TableError> {
        if let Some(&stub) = self.tables.stubs.get(&target) {
            return Ok(stub);
        }
        let entry = self.got_entry(graph, target)?;
        let (block, size) = self.make_stub(graph, entry)?;
        let stub = graph.add_anonymous(block, 0, size, SymbolFlags::CALLABLE)?;
        self.tables.stubs.insert(target, stub);
        self.tables.leads_to.insert(stub, target);
        Ok(stub)
    }

    /// A block of the GOT that holds what the edges write.
    fn entry(
        &mut self,
        graph: &mut LinkGraph,
        edges: &[(u32, EdgeKind, SymbolId)],
    ) -> Result<SymbolId, TableError> {
        let section = *self.tables.got_section.get_or_insert_with(|| {
            let kind = SectionKind::Got;
            let flags = SectionFlags::RELRO;
            graph.add_section(
                b"$__GOT",
                NewSection {
                    kind,
                    flags,
                    ..NewSection::new(Prot::RW)
                },
            )
        });
        let word = u64::from(self.arch.graph.pointer_size);
        let last = edges
            .iter()
            .map(|&(offset, ..)| u64::from(offset))
            .max()
            .unwrap_or(0);
        let size = last + word;
        let content = NewContent::Owned(vec![0; clinch_graph::index::int::usize_of_u64(size)]);
        let block = graph.add_block(NewBlock {
            section,
            content,
            align: word,
            align_offset: 0,
        })?;
        let edges = edges
            .iter()
            .map(|&(offset, kind, target)| Edge {
                offset,
                kind,
                target,
                addend: 0,
            })
            .collect();
        graph.set_edges(block, edges)?;
        self.tables.made.push(block);
        Ok(graph.add_anonymous(block, 0, size, SymbolFlags::OBJECT)?)
    }

    fn make_stub(
        &mut self,
        graph: &mut LinkGraph,
        entry: SymbolId,
    ) -> Result<(BlockId, u64), TableError> {
        let section = *self.tables.stub_section.get_or_insert_with(|| {
            let kind = SectionKind::Stubs;
            graph.add_section(
                b"$__STUBS",
                NewSection {
                    kind,
                    ..NewSection::new(Prot::RX)
                },
            )
        });
        let block = instantiate(graph, section, &self.arch.stubs.jump, &[entry])?;
        self.tables.made.push(block);
        Ok((block, graph.block_size(block)))
    }
}

/// Makes a block of a template.
///
/// # Errors
/// Fewer symbols than the template has edges, or a section that does not exist.
pub fn instantiate(
    graph: &mut LinkGraph,
    section: SectionId,
    template: &Template,
    symbols: &[SymbolId],
) -> Result<BlockId, GraphError> {
    let content = NewContent::Owned(template.bytes.to_vec());
    let block = graph.add_block(NewBlock {
        section,
        content,
        align: template.align,
        align_offset: 0,
    })?;
    let edges = template
        .edges
        .iter()
        .zip(symbols)
        .map(|(&(offset, kind, addend), &target)| Edge {
            offset,
            kind,
            target,
            addend,
        })
        .collect();
    graph.set_edges(block, edges)?;
    Ok(block)
}

/// Whether the edge writes the target's address, or its distance, into a field that does not
/// reach everything.
fn is_direct(arch: &Arch, info: &EdgeInfo) -> bool {
    matches!(
        info.expr,
        Expr::Absolute | Expr::Relative | Expr::NegRelative | Expr::FromGot
    ) && info.field.width < arch.graph.pointer_size
        && info.field.width > 0
}
