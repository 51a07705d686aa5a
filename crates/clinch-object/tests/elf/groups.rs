//! Section groups: members, signatures, what goes when a group does not stay.

use crate::support::builder::{Builder, FORMATS, Section, Sym};
use crate::support::tool::{clang, gnu_as, llvm_mc};
use crate::support::{FILE, edges, read, section, symbol};
use clinch_graph::{Addressable, InputName, LinkGraph, Scope, Selection, Workers};
use clinch_object::elf::raw::{shf, sht};
use clinch_object::{ReadOptions, add_blocks, add_objects};

const GROUPS: &str = "
    .section .text.g,\"axG\",@progbits,global,comdat\n .globl global\nglobal: call other\n
    .section .data.g,\"awG\",@progbits,global,comdat\n .quad global\n
    .section .text.l,\"axG\",@progbits,local_signature,comdat\n .weak inner\ninner: ret\n
    .section .text.p,\"axG\",@progbits,plain\n .globl part\npart: ret\n
    .text\n .globl outside\noutside: call global\n";

/// The groups with the names of their signatures, and the sections of each.
fn groups(graph: &LinkGraph) -> Vec<(String, Selection, Vec<String>)> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let members = |comdat| {
        let of = graph
            .sections()
            .filter(move |&id| graph.section(id).comdat == Some(comdat));
        of.map(|id| text(graph.section_name(id))).collect()
    };
    let ids = graph.comdats().iter();
    ids.map(|id| {
        let comdat = graph.comdat(id);
        (
            text(graph.symbol_name(comdat.signature)),
            comdat.selection,
            members(id),
        )
    })
    .collect()
}

#[test]
fn members_and_signatures_of_two_assemblers() {
    for object in [llvm_mc(GROUPS, &[]), gnu_as(GROUPS)] {
        let Some(object) = object else { continue };
        let graph = read(&object);
        let group = |name: &str, selection, members: &[&str]| {
            (
                name.to_owned(),
                selection,
                members.iter().map(|&name| name.to_owned()).collect(),
            )
        };
        let mut found = groups(&graph);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            found,
            [
                group("global", Selection::Any, &[".text.g", ".data.g"]),
                group("local_signature", Selection::Any, &[".text.l"]),
                group("plain", Selection::All, &[".text.p"]),
            ]
        );
        assert_eq!(symbol(&graph, "global").scope(), Scope::Default);
        // Local signatures are defined in the group's own section, which never takes part.
        let local = symbol(&graph, "local_signature");
        assert_eq!(
            (local.scope(), local.base),
            (Scope::Local, Addressable::Discarded)
        );
        assert_eq!(section(&graph, ".text").comdat, None);
    }
}

/// Reads an object without the groups of this signature.
fn read_without(object: &[u8], gone: &str) -> LinkGraph {
    let arch = clinch_target::arch_named("x86_64").unwrap();
    let mut graph = LinkGraph::new(FILE, &arch.graph);
    let workers = Workers::new(1);
    let options = ReadOptions { metadata: true };
    let inputs = vec![(InputName::file(FILE), object.to_vec().into())];
    let added = add_objects(
        &mut graph,
        &mut clinch_graph::Names::new(),
        &workers,
        inputs,
        options,
    )
    .unwrap();
    let keep: Vec<bool> = groups(&graph)
        .iter()
        .map(|(name, ..)| name != gone)
        .collect();
    let first = graph.comdats().start();
    add_blocks(
        &mut graph,
        &workers,
        added.inputs,
        added.objects,
        |_| true,
        |id| keep[clinch_graph::Id::index(id) - first],
    )
    .unwrap();
    let violations = clinch_graph::verify(&graph, clinch_graph::Stage::Read);
    assert!(violations.is_empty(), "{}", violations[0]);
    graph
}

#[test]
fn a_group_that_does_not_stay_takes_its_members_along() {
    let text = format!(
        "{GROUPS}\n.section .about,\"ao\",@progbits,.text.g\n .byte 1\n
         .section .still,\"ao\",@progbits,.text\n .byte 1\n"
    );
    let Some(object) = llvm_mc(&text, &[]) else {
        return;
    };
    let whole = read(&object);
    assert!(whole.find_section(b".about").is_some());

    let graph = read_without(&object, "global");
    for gone in [".text.g", ".data.g", ".about"] {
        assert!(graph.find_section(gone.as_bytes()).is_none(), "{gone}");
    }
    for kept in [".text", ".text.l", ".text.p", ".still"] {
        assert!(graph.find_section(kept.as_bytes()).is_some(), "{kept}");
    }
    assert_eq!(symbol(&graph, "global").base, Addressable::Discarded);
    assert!(matches!(
        symbol(&graph, "inner").base,
        Addressable::Block { .. }
    ));
    // Those outside still refer to the name.
    assert_eq!(edges(&graph, ".text")[0].2, "global");
}

#[test]
fn a_section_symbol_signs_with_its_sections_name() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let text = builder.data(".text.f", shf::ALLOC | shf::GROUP, &[0; 4]);
        let signature = builder.symbol(Sym {
            info: 3,
            section: text,
            ..Sym::default()
        });
        builder.group(signature, 1, &[text]);
        let graph = read(&builder.build().bytes);
        let members = vec![".text.f".to_owned()];
        assert_eq!(
            groups(&graph),
            [(".text.f".to_owned(), Selection::Any, members)]
        );
    }
}

#[test]
fn relocation_tables_may_be_members_and_the_symbol_table_may_come_last() {
    for format in FORMATS {
        let mut builder = Builder::new(format);
        let signature = builder.global("f", 2, 0);
        builder.group(signature, 1, &[2, 3]);
        let text = builder.data(".text.f", shf::ALLOC | shf::GROUP, &[0; 8]);
        builder.rela(text, &[(0, signature, 1, 0)]);
        let graph = read(&builder.build().bytes);
        let members = vec![".text.f".to_owned()];
        assert_eq!(groups(&graph), [("f".to_owned(), Selection::Any, members)]);
        assert_eq!(edges(&graph, ".text.f").len(), 1);
    }
}

#[test]
fn a_group_without_members_is_one() {
    let mut builder = Builder::new(FORMATS[0]);
    let signature = builder.global("f", 0, 0);
    builder.group(signature, 1, &[]);
    // Members that are not read are none.
    let strings = builder.section(Section {
        name: ".s",
        kind: sht::STRTAB,
        ..Section::default()
    });
    builder.group(signature, 0, &[strings]);
    let graph = read(&builder.build().bytes);
    let group = |selection| ("f".to_owned(), selection, Vec::new());
    assert_eq!(
        groups(&graph),
        [group(Selection::Any), group(Selection::All)]
    );
}

#[test]
fn inline_functions_of_cpp() {
    let source = "struct A { A(); int n; }; inline A::A() : n(1) {}\n
        template <class T> T twice(T t) { static T count; count += t; return t + t; }\n
        A a; int f() { return twice(3); }\n";
    let Some(object) = clang("t.cpp", source, &["-fPIC"]) else {
        return;
    };
    let graph = read(&object);
    let mut names: Vec<String> = groups(&graph)
        .into_iter()
        .map(|(name, selection, members)| {
            assert_eq!(selection, Selection::Any);
            assert!(!members.is_empty(), "{name}");
            name
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["_Z5twiceIiET_S0_", "_ZN1AC2Ev", "_ZZ5twiceIiET_S0_E5count"],
    );
}
