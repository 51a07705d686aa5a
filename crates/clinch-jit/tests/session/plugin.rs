//! What plugins are told.

use super::{add, call, dylib, object, session};
use crate::support::{Folder, have};
use clinch_graph::LinkGraph;
use clinch_jit::passes::Passes;
use clinch_jit::session::{DylibId, LinkInfo, LinkPlugin, TrackerId};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Recorder {
    said: Arc<Mutex<Vec<String>>>,
    refuses: bool,
}

impl Recorder {
    fn say(&self, text: impl Into<String>) {
        self.said.lock().expect("nobody panicked").push(text.into());
    }
}

impl LinkPlugin for Recorder {
    fn modify_passes(&self, link: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        self.say(format!("modify {}", link.dylib_name));
        let said = Arc::clone(&self.said);
        let print = move |graph: &mut LinkGraph| {
            for symbol in graph.symbols() {
                let flags = graph.symbol_flags(symbol);
                if flags.is_definition() && flags.is_global() {
                    let name = String::from_utf8_lossy(graph.symbol_name(symbol)).into_owned();
                    said.lock().expect("nobody panicked").push(name);
                }
            }
            Ok(())
        };
        passes
            .post_prune
            .push(("print".to_owned(), Box::new(print)));
    }

    fn notify_loaded(&self, _: &LinkInfo) {
        self.say("loaded");
    }

    fn notify_emitted(&self, _: &LinkInfo) -> Result<(), String> {
        self.say("emitted");
        if self.refuses {
            Err("refused".to_owned())
        } else {
            Ok(())
        }
    }

    fn notify_failed(&self, _: &LinkInfo) {
        self.say("failed");
    }

    fn notify_removing(&self, _: DylibId, _: TrackerId) -> Result<(), String> {
        self.say("removing");
        Ok(())
    }

    fn notify_transferring(&self, _: DylibId, _: TrackerId, _: TrackerId) {
        self.say("transferring");
    }
}

#[test]
#[expect(unsafe_code, reason = "takes linked code away")]
fn six_notifications() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let said = Arc::default();
    session.add_plugin(Arc::new(Recorder {
        said: Arc::clone(&said),
        refuses: false,
    }));
    let (one, two) = (main.create_tracker(), main.create_tracker());
    one.add_objects(vec![object(&folder, "f", "int f(void) { return 1; }")])
        .expect("it is new");
    assert_eq!(call(&main, "f"), 1);
    one.transfer_to(&two).expect("one dylib");
    // SAFETY: nothing of it runs.
    unsafe { two.remove() }.expect("it can be removed");
    add(
        &main,
        vec![object(
            &folder,
            "g",
            "int no(void); int g(void) { return no(); }",
        )],
    );
    main.look_up("g").expect_err("it needs what is not there");
    assert_eq!(
        *said.lock().expect("nobody panicked"),
        [
            "loaded",
            "modify main",
            "f",
            "emitted",
            "transferring",
            "removing",
            "loaded",
            "modify main",
            "g",
            "failed"
        ]
    );
}

#[test]
fn a_plugin_may_refuse_what_was_emitted() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    session.add_plugin(Arc::new(Recorder {
        refuses: true,
        ..Recorder::default()
    }));
    add(
        &main,
        vec![object(&folder, "f", "int f(void) { return 1; }")],
    );
    let error = main.look_up("f").expect_err("it was refused");
    assert_eq!(error.to_string(), "pass notify_emitted: refused");
}
