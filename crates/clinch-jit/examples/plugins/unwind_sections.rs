//! Records where call frame records are when they have an address, and tells of them when the
//! link's code is in memory, as a language's own unwinder wants it.

use clinch_graph::{LinkGraph, SectionKind};
use clinch_jit::passes::Passes;
use clinch_jit::session::{LinkId, LinkInfo, LinkPlugin};
use clinch_link::layout::Layout;
use std::sync::{Arc, Mutex, PoisonError};

type Sections = Mutex<Vec<(LinkId, u64, u64)>>;

/// The plugin.
#[derive(Default)]
pub(crate) struct UnwindSections {
    placed: Arc<Sections>,
    registered: Sections,
}

impl UnwindSections {
    /// Address and size of each section of links that are in memory.
    pub(crate) fn sections(&self) -> Vec<(u64, u64)> {
        let registered = self
            .registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        registered
            .iter()
            .map(|&(_, start, size)| (start, size))
            .collect()
    }

    fn take(&self, link: LinkId) -> Vec<(LinkId, u64, u64)> {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        placed.extract_if(.., |(of, ..)| *of == link).collect()
    }
}

impl LinkPlugin for UnwindSections {
    fn modify_passes(&self, link: &LinkInfo, _: &LinkGraph, passes: &mut Passes) {
        let (placed, link) = (Arc::clone(&self.placed), link.link);
        let record = move |graph: &mut LinkGraph, layout: &Layout| {
            if let Some((start, size)) = layout.range_of(graph, SectionKind::EhFrame) {
                let mut placed = placed.lock().unwrap_or_else(PoisonError::into_inner);
                placed.push((link, start, size));
            }
            Ok(())
        };
        passes
            .post_allocation
            .push(("unwind sections".to_owned(), Box::new(record)));
    }

    fn notify_emitted(&self, link: &LinkInfo) -> Result<(), String> {
        let taken = self.take(link.link);
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(taken);
        Ok(())
    }

    fn notify_failed(&self, link: &LinkInfo) {
        self.take(link.link);
    }
}
