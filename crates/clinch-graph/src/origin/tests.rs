//! Who brought, made and changed what.

use super::Entity;
use crate::graph::LinkGraph;
use crate::index::id::Id;
use crate::testing::{b, graph, s, sym};
use crate::{InputId, NewSection, Prot};

fn made_by(graph: &LinkGraph, entity: Entity) -> Option<&'static str> {
    graph.origin(entity).made_by.map(|step| step.name)
}

fn changed_by(graph: &LinkGraph, entity: Entity) -> Option<(&'static str, Option<&str>)> {
    let step = graph.origin(entity).changed_by;
    step.map(|step| (step.name, step.plugin.as_deref()))
}

#[test]
fn steps_are_known_by_what_they_made() {
    let mut graph = graph("symbol $1 \"x\" external");
    assert_eq!(made_by(&graph, Entity::Symbol(sym(1))), None);
    graph.begin_step("nothing", None);
    graph.begin_step("tables", None);
    graph.add_external(b"a", false);
    graph.add_section(b".got", NewSection::new(Prot::RW));
    graph.begin_step("idle", None);
    graph.begin_step("thunks", None);
    graph.add_external(b"b", false);
    assert_eq!(made_by(&graph, Entity::Symbol(sym(1))), None);
    assert_eq!(made_by(&graph, Entity::Symbol(sym(2))), Some("tables"));
    assert_eq!(made_by(&graph, Entity::Symbol(sym(3))), Some("thunks"));
    assert_eq!(made_by(&graph, Entity::Section(s(1))), Some("tables"));
    let origin = graph.origin(Entity::Section(s(1)));
    assert_eq!(origin.input, InputId::from_index(0));
    assert_eq!(origin.changed_by, None);
}

#[test]
fn the_last_change_counts() {
    let mut graph = graph(
        r#"
        section s1 "a" rw-
          block b1 size 4 zero
        symbol $1 "x" b1+0
        "#,
    );
    let (section, block, symbol) = (
        Entity::Section(s(1)),
        Entity::Block(b(1)),
        Entity::Symbol(sym(1)),
    );
    // Changes without a step are nobody's.
    graph.set_section_ordinal(s(1), 3);
    assert_eq!(changed_by(&graph, section), None);
    graph.begin_step("first", Some("plugin".into()));
    graph.set_section_ordinal(s(1), 4);
    graph.set_block_align(b(1), 4, 0).expect("it exists");
    graph.set_symbol_size(sym(1), 1).expect("it fits");
    graph.begin_step("second", None);
    graph.set_zero_fill_size(b(1), 8).expect("it exists");
    assert_eq!(changed_by(&graph, section), Some(("first", Some("plugin"))));
    assert_eq!(changed_by(&graph, block), Some(("second", None)));
    assert_eq!(changed_by(&graph, symbol), Some(("first", Some("plugin"))));
    assert_eq!(made_by(&graph, block), None);
}
