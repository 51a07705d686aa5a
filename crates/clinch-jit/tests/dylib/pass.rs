//! Passes: each of the five lists runs when it should and may change what it should; an error
//! from one ends the link with its name, and memory is given back.

use crate::support::{self, Folder, InProcessDylib, have, int, is_without_access};
use clinch_graph::{
    BlockId, Edge, EdgeKind, Id, LinkGraph, NewBlock, NewContent, NewSection, Prot, Scope,
    SymbolFlags, SymbolId,
};
use clinch_jit::LinkErrors;
use clinch_jit::memory::MemoryManager;
use clinch_jit::passes::{FixedPass, GraphPass, Passes, PlacedPass};
use std::sync::{Arc, Mutex};

const SOURCE: &str = "
    int v = 5;
    int w = 6;
    extern int getpid(void);
    static int unused(void) { return 3; }
    int (*const table[1])(void) __attribute__((section(\".unused\"))) = { unused };
    int f(void) { return v; }
    int g(void) { return getpid(); }
";

/// `unused` and a local variable are the only things that nothing global refers to.
const LOCAL: &str = "
    .text
    .globl f
    f: mov v(%rip), %eax
       ret
    .section .text.local, \"ax\", @progbits
    .type local, @function
    local: mov $3, %eax
       ret
    .size local, .-local
    .data
    .globl v, w
    v: .long 5
    w: .long 6
    .globl p
    .balign 8
    p: .quad helper
    .text
    .globl helper
    .type helper, @function
    helper: mov $1, %eax
       ret
    .section .note.GNU-stack, \"\", @progbits
";

fn link(linked: &mut InProcessDylib, passes: Passes) -> Result<(), LinkErrors> {
    linked.link_with(&[], passes)
}

fn assembled(source: &str) -> Option<InProcessDylib> {
    have(&["cc"]).then(|| {
        let folder = Folder::new();
        let mut linked = support::dylib();
        linked.add("a.o", folder.object("a.s", source, &[]));
        linked
    })
}

fn graph_pass(
    pass: impl FnMut(&mut LinkGraph) -> Result<(), String> + Send + 'static,
) -> (String, GraphPass) {
    ("a pass".to_owned(), Box::new(pass))
}

fn symbol(graph: &LinkGraph, name: &str) -> SymbolId {
    graph
        .find_symbol(name.as_bytes())
        .unwrap_or_else(|| panic!("{name} is in the graph"))
}

/// The first edge of a symbol's block, with its place in the list.
fn edge_to(graph: &LinkGraph, block: BlockId, target: SymbolId) -> usize {
    let mut edges: Vec<Edge> = Vec::new();
    graph.edges(block, &mut edges).expect("they can be decoded");
    edges
        .iter()
        .position(|edge| edge.target == target)
        .expect("there is such an edge")
}

#[test]
fn each_list_runs_at_its_time() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let mut linked = support::dylib();
    linked.add(
        "a.o",
        folder.object("a.c", SOURCE, &["-fPIC", "-O1", "-ffunction-sections"]),
    );
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |text: String| {
        let log = Arc::clone(&log);
        move |seen: bool| {
            log.lock()
                .expect("no pass panics")
                .push(format!("{text} {seen}"));
        }
    };
    let (n1, n2, n3) = (
        note("pre-prune".into()),
        note("post-prune".into()),
        note("placed".into()),
    );
    let (n4, n5) = (note("pre-fixup".into()), note("post-fixup".into()));
    let mut passes = Passes::default();
    let asks = |graph: &LinkGraph| {
        let mut edges = Vec::new();
        graph.blocks().any(|block| {
            graph.edges(block, &mut edges).is_ok()
                && edges
                    .iter()
                    .any(|edge| (graph.target().is_request)(edge.kind))
        })
    };
    passes.pre_prune.push(graph_pass(move |graph| {
        // Requests are there, tables are not.
        n1(asks(graph) && graph.find_section(b"$__GOT").is_none());
        Ok(())
    }));
    passes.post_prune.push(graph_pass(move |graph| {
        n2(!asks(graph) && graph.find_section(b"$__GOT").is_some());
        Ok(())
    }));
    let placed: PlacedPass = Box::new(move |graph, layout| {
        let f = graph
            .symbol_block(symbol(graph, "f"))
            .ok_or("f is in a block")?;
        n3(layout.block(f).is_some() && layout.symbol(symbol(graph, "getpid")) == 0);
        Ok(())
    });
    passes.post_allocation.push(("placed".to_owned(), placed));
    let pre_fixup: PlacedPass = Box::new(move |graph, layout| {
        let (pid, v) = (
            layout.symbol(symbol(graph, "getpid")),
            layout.symbol(symbol(graph, "v")),
        );
        let data = graph
            .symbol_block(symbol(graph, "v"))
            .ok_or("v is in a block")?;
        n4(pid != 0 && v != 0 && graph.content(data).bytes().contains(&5));
        Ok(())
    });
    passes.pre_fixup.push(("pre-fixup".to_owned(), pre_fixup));
    let mut seen = false;
    let post_fixup: FixedPass = Box::new(move |graph, layout, base, bytes| {
        // In whose segment f is: its call of the displacement is filled in.
        let f = layout.symbol(symbol(graph, "f"));
        if let Some(at) = f.checked_sub(base).and_then(|at| usize::try_from(at).ok())
            && at < bytes.len()
            && !seen
        {
            seen = true;
            n5(bytes[at..]
                .iter()
                .take(16)
                .filter(|&&byte| byte != 0)
                .count()
                > 6);
        }
        Ok(())
    });
    passes
        .post_fixup
        .push(("post-fixup".to_owned(), post_fixup));
    link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
    let log = log.lock().expect("no pass panics").clone();
    let expected = [
        "pre-prune",
        "post-prune",
        "placed",
        "pre-fixup",
        "post-fixup",
    ];
    assert_eq!(log, expected.map(|name| format!("{name} true")));
    assert_eq!(int(linked.call("f")), 5);
}

#[test]
fn before_pruning_a_symbol_can_be_kept() {
    for keep in [false, true] {
        let Some(mut linked) = assembled(LOCAL) else {
            return;
        };
        let mut passes = Passes::default();
        passes.pre_prune.push(graph_pass(move |graph| {
            let local = symbol(graph, "local");
            graph.set_symbol_flag(local, SymbolFlags::LIVE, keep);
            Ok(())
        }));
        let is_there = Arc::new(Mutex::new(false));
        let answer = Arc::clone(&is_there);
        passes.post_prune.push(graph_pass(move |graph| {
            let local = graph.find_symbol(b"local");
            *answer.lock().expect("no pass panics") =
                local.is_some_and(|local| graph.symbol_block(local).is_some());
            Ok(())
        }));
        link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(*is_there.lock().expect("no pass panics"), keep);
    }
}

/// A function is made external, and so must come from somewhere else.
#[test]
fn before_pruning_a_symbol_can_be_made_external() {
    let Some(mut linked) = assembled(&LOCAL.replace("helper", "getpid")) else {
        return;
    };
    let external = |name: &'static str| {
        let mut passes = Passes::default();
        passes.pre_prune.push(graph_pass(move |graph| {
            let symbol = symbol(graph, name);
            graph
                .make_external(symbol)
                .map_err(|error| error.to_string())
        }));
        passes
    };
    link(&mut linked, external("getpid")).unwrap_or_else(|errors| panic!("{errors}"));
    let found = clinch_jit::process::find(b"getpid").expect("the process has it");
    assert_eq!(word_at(linked.address("p")), found.address);
    assert_eq!(linked.find("getpid"), None);

    let Some(mut linked) = assembled(LOCAL) else {
        return;
    };
    let errors = link(&mut linked, external("helper")).expect_err("it is nowhere else");
    assert_eq!(errors.to_string(), "undefined symbol: helper");
}

fn word_at(address: u64) -> u64 {
    let address = usize::try_from(address).expect("it is an address");
    // SAFETY: the address is that of a linked object's word.
    unsafe { std::ptr::with_exposed_provenance::<u64>(address).read_unaligned() }
}

#[test]
fn after_pruning_a_block_can_be_added() {
    let Some(mut linked) = assembled(LOCAL) else {
        return;
    };
    let mut passes = Passes::default();
    passes.post_prune.push(graph_pass(|graph| {
        let text = |error: clinch_graph::GraphError| error.to_string();
        let section = graph.add_section(b".added", NewSection::new(Prot::RW));
        let content = NewContent::Owned(vec![42, 0, 0, 0, 0, 0, 0, 0]);
        let new = NewBlock {
            section,
            content,
            align: 8,
            align_offset: 0,
        };
        let block = graph.add_block(new).map_err(text)?;
        let added = graph
            .add_anonymous(block, 0, 8, SymbolFlags::OBJECT)
            .map_err(text)?;
        // f reads what was added in place of v.
        let f = graph
            .symbol_block(symbol(graph, "f"))
            .ok_or("f is in a block")?;
        let index = edge_to(graph, f, symbol(graph, "v"));
        graph.edges_mut(f).map_err(text)?[index].target = added;
        // What was added refers to a symbol that only the process has.
        let getpid = graph.add_external(b"getpid", false);
        let kind = pointer(graph);
        let content = NewContent::Owned(vec![0; 8]);
        let new = NewBlock {
            section,
            content,
            align: 8,
            align_offset: 0,
        };
        let block = graph.add_block(new).map_err(text)?;
        graph
            .add_edge(
                block,
                Edge {
                    offset: 0,
                    kind,
                    target: getpid,
                    addend: 0,
                },
            )
            .map_err(text)
    }));
    let pointer_is_set = Arc::new(Mutex::new(0));
    let answer = Arc::clone(&pointer_is_set);
    let fixed: FixedPass = Box::new(move |graph, layout, base, bytes| {
        let added = graph
            .find_section(b".added")
            .ok_or("the section is there")?;
        let block = graph
            .section_blocks(added)
            .last()
            .ok_or("its blocks are there")?;
        let at = layout.block(block).ok_or("they are placed")?;
        if let Some(at) = at.checked_sub(base).and_then(|at| usize::try_from(at).ok())
            && let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk)
        {
            *answer.lock().expect("no pass panics") = u64::from_le_bytes(*word);
        }
        Ok(())
    });
    passes.post_fixup.push(("look".to_owned(), fixed));
    link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(int(linked.call("f")), 42);
    let pid = int(support::call(
        *pointer_is_set.lock().expect("no pass panics"),
    ));
    assert_eq!(pid, i64::from(std::process::id()));
}

/// The kind that writes a pointer.
fn pointer(graph: &LinkGraph) -> EdgeKind {
    let arch = clinch_target::arch_named(graph.target().name).expect("it has a table");
    arch.pointer
}

#[test]
fn before_fixing_up_an_addend_can_be_changed() {
    let Some(mut linked) = assembled(LOCAL) else {
        return;
    };
    let mut passes = Passes::default();
    let add: PlacedPass = Box::new(|graph, layout| {
        let (f, v, w) = (symbol(graph, "f"), symbol(graph, "v"), symbol(graph, "w"));
        let distance = layout
            .symbol(w)
            .wrapping_sub(layout.symbol(v))
            .cast_signed();
        let block = graph.symbol_block(f).ok_or("f is in a block")?;
        let index = edge_to(graph, block, v);
        graph.edges_mut(block).map_err(|error| error.to_string())?[index].addend += distance;
        Ok(())
    });
    passes.pre_fixup.push(("add".to_owned(), add));
    link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(int(linked.call("f")), 6);
}

/// A symbol that is made when addresses are known has one too.
#[test]
fn before_fixing_up_a_symbol_can_be_made() {
    let Some(mut linked) = assembled(LOCAL) else {
        return;
    };
    let mut passes = Passes::default();
    let add: PlacedPass = Box::new(|graph, _| {
        let text = |error: clinch_graph::GraphError| error.to_string();
        let (f, v, w) = (symbol(graph, "f"), symbol(graph, "v"), symbol(graph, "w"));
        let data = graph.symbol_block(w).ok_or("w is in a block")?;
        let made = graph
            .add_anonymous(data, 4, 4, SymbolFlags::OBJECT)
            .map_err(text)?;
        let block = graph.symbol_block(f).ok_or("f is in a block")?;
        let index = edge_to(graph, block, v);
        graph.edges_mut(block).map_err(text)?[index].target = made;
        Ok(())
    });
    passes.pre_fixup.push(("make".to_owned(), add));
    link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(int(linked.call("f")), 6);
}

#[test]
fn after_fixing_up_bytes_can_be_changed() {
    let Some(mut linked) = assembled(LOCAL) else {
        return;
    };
    let mut passes = Passes::default();
    let change: FixedPass = Box::new(|graph, layout, base, bytes| {
        let v = layout.symbol(symbol(graph, "v"));
        if let Some(at) = v.checked_sub(base).and_then(|at| usize::try_from(at).ok())
            && let Some(byte) = bytes.get_mut(at)
        {
            *byte = 77;
        }
        Ok(())
    });
    passes.post_fixup.push(("change".to_owned(), change));
    link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(int(linked.call("f")), 77);
}

#[test]
fn an_error_ends_the_link() {
    for list in 0..5 {
        let Some(mut linked) = assembled(LOCAL) else {
            return;
        };
        let graph: GraphPass = Box::new(|_| Err("no".to_owned()));
        let placed: PlacedPass = Box::new(|_, _| Err("no".to_owned()));
        let fixed: FixedPass = Box::new(|_, _, _, _| Err("no".to_owned()));
        let mut passes = Passes::default();
        let name = format!("pass {list}");
        match list {
            0 => passes.pre_prune.push((name, graph)),
            1 => passes.post_prune.push((name, graph)),
            2 => passes.post_allocation.push((name, placed)),
            3 => passes.pre_fixup.push((name, placed)),
            _ => passes.post_fixup.push((name, fixed)),
        }
        let errors = link(&mut linked, passes)
            .expect_err("a pass fails")
            .to_string();
        assert_eq!(errors, format!("pass pass {list}: no"));
        let window = linked.memory.window(false).expect("it is in this process");
        assert!(is_without_access(window));
        assert_eq!(linked.find("f"), None);
    }
}

#[test]
fn a_scope_can_be_changed_and_ids_stay() {
    let Some(mut linked) = assembled(LOCAL) else {
        return;
    };
    let ids: Arc<Mutex<Vec<usize>>> = Arc::default();
    let mut passes = Passes::default();
    for list in [&mut passes.pre_prune, &mut passes.post_prune] {
        let ids = Arc::clone(&ids);
        list.push(graph_pass(move |graph| {
            let v = symbol(graph, "v");
            graph
                .set_symbol_scope(v, Scope::Hidden)
                .map_err(|error| error.to_string())?;
            ids.lock().expect("no pass panics").push(v.index());
            Ok(())
        }));
    }
    link(&mut linked, passes).unwrap_or_else(|errors| panic!("{errors}"));
    let ids = ids.lock().expect("no pass panics");
    assert_eq!(ids[0], ids[1]);
    assert_eq!(int(linked.call("f")), 5);
}
