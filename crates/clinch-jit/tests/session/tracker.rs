//! Removing and transferring what was linked.

use super::{call, dylib_with_memory, object, session};
use crate::support::{Folder, have, mappings};
use clinch_jit::memory::MemoryManager;
use clinch_jit::session::SymbolState;

#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn what_is_removed_can_be_defined_again() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (main, memory) = dylib_with_memory(&session, "main");
    let keep = main.create_tracker();
    keep.add_objects(vec![object(
        &folder,
        "keep",
        "int keep(void) { return 1; }",
    )])
    .expect("it is new");
    assert_eq!(call(&main, "keep"), 1);
    let window = memory.window(false).expect("it is known");
    let before = mappings(window);
    for round in 0..20 {
        let tracker = main.create_tracker();
        let source = format!("int data[5000] = {{1}}; int f(void) {{ return data[0] + {round}; }}");
        tracker
            .add_objects(vec![object(&folder, "f", &source)])
            .expect("it is new");
        assert_eq!(call(&main, "f"), 1 + round);
        // SAFETY: nothing of it runs.
        unsafe { tracker.clone().remove() }.expect("it can be removed");
        assert_eq!(main.symbol_state("f"), None);
        assert_eq!(mappings(window), before);
        assert!(tracker.add_objects(Vec::new()).is_err());
    }
    assert_eq!(call(&main, "keep"), 1);
}

#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn what_was_not_linked_is_removed_too() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (main, _) = dylib_with_memory(&session, "main");
    let tracker = main.create_tracker();
    tracker
        .add_objects(vec![object(&folder, "f", "int f(void) { return 1; }")])
        .expect("it is new");
    assert_eq!(main.symbol_state("f"), Some(SymbolState::NeverSearched));
    // SAFETY: nothing of it runs.
    unsafe { tracker.remove() }.expect("it can be removed");
    assert!(main.look_up("f").is_err());
}

#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn transferred_resources_go_with_their_new_tracker() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let (main, _) = dylib_with_memory(&session, "main");
    let (one, two) = (main.create_tracker(), main.create_tracker());
    one.add_objects(vec![object(&folder, "f", "int f(void) { return 1; }")])
        .expect("it is new");
    assert_eq!(call(&main, "f"), 1);
    one.clone().transfer_to(&two).expect("one dylib");
    // SAFETY: nothing of it runs.
    unsafe { one.remove() }.expect("it holds nothing");
    assert_eq!(call(&main, "f"), 1);
    // SAFETY: nothing of it runs.
    unsafe { two.remove() }.expect("it can be removed");
    assert_eq!(main.symbol_state("f"), None);
}
