//! The promise to define what somebody asked for.

use super::core::Core;
use super::run;
use super::state::LinkId;
use crate::error::{LinkError, LinkErrors};
use bytes::Bytes;
use clinch_graph::InputName;
use std::sync::Arc;

/// What a [`MaterializationUnit`](super::MaterializationUnit) owes: an object that defines its
/// symbols, or a reason why there is none. One that is dropped fails the look-ups that wait.
#[derive(Debug)]
pub struct Responsibility {
    core: Arc<Core>,
    link: LinkId,
    is_met: bool,
}

impl Responsibility {
    pub(crate) fn new(core: Arc<Core>, link: LinkId) -> Self {
        Self {
            core,
            link,
            is_met: false,
        }
    }

    /// The symbols that are owed: those of the unit that no stronger definition replaced.
    pub fn symbols(&self) -> Vec<String> {
        let state = self.core.read();
        let names = &state.link(self.link).names;
        names.iter().map(|&name| state.pool.display(name)).collect()
    }

    /// Links an object that defines them.
    pub fn emit(mut self, name: InputName, bytes: Bytes) {
        self.is_met = true;
        run::set_object(&self.core, self.link, name, bytes);
        let task = self.core.start(self.link);
        self.core.queue.push(task);
        self.core.queue.run_if_alone();
    }

    /// Says why there is no object.
    pub fn fail(mut self, errors: LinkErrors) {
        self.is_met = true;
        self.core.failed(self.link, errors);
        self.core.queue.run_if_alone();
    }
}

impl Drop for Responsibility {
    fn drop(&mut self) {
        if !self.is_met {
            let symbols = self.symbols();
            self.core
                .failed(self.link, LinkError::Unmet { symbols }.into());
            self.core.queue.run_if_alone();
        }
    }
}
