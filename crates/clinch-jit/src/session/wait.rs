//! Dependence between links: when a link is ready, and which links fail with one.
//!
//! A link is ready when it, and all that it depends on, directly or not, have been emitted. Links
//! that depend on one another become ready together. So what is tracked is one node per link,
//! whatever the number of its symbols. A node that waits is looked at again only when the one
//! that was found missing is emitted.

use clinch_graph::index::map::{Map, Set};

/// What is known of the links that are neither ready nor failed.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    nodes: Map<usize, Node>,
}

#[derive(Debug, Default)]
struct Node {
    emitted: bool,
    depends: Vec<usize>,
    dependents: Vec<usize>,
    /// Nodes for which this one was found missing.
    watchers: Vec<usize>,
}

impl WaitGraph {
    /// Adds a link. Numbers ascend.
    pub(crate) fn add(&mut self, link: usize) {
        self.nodes.insert(link, Node::default());
    }

    /// Says that a link depends on another, unless that is ready.
    pub(crate) fn depend(&mut self, link: usize, on: usize) {
        if link == on || !self.nodes.contains_key(&link) {
            return;
        }
        if let Some(node) = self.nodes.get_mut(&on) {
            node.dependents.push(link);
            if let Some(node) = self.nodes.get_mut(&link) {
                node.depends.push(on);
            }
        }
    }

    /// A link was emitted; answers those that are ready now, ascending.
    pub(crate) fn emit(&mut self, link: usize) -> Vec<usize> {
        let Some(node) = self.nodes.get_mut(&link) else {
            return Vec::new();
        };
        node.emitted = true;
        let watchers = std::mem::take(&mut node.watchers);
        let mut ready = Vec::new();
        if let Some(missing) = self.settle(link, &mut ready) {
            // What waits for this link waits for what it waits for: nothing to be looked at.
            self.watch(missing, watchers);
            self.watch(missing, vec![link]);
        } else {
            for start in watchers {
                if let Some(missing) = self.settle(start, &mut ready) {
                    self.watch(missing, vec![start]);
                }
            }
        }
        ready.sort_unstable();
        ready
    }

    /// Adds nodes to those that wait for one; the longer list stays where it is.
    fn watch(&mut self, missing: usize, mut more: Vec<usize>) {
        if let Some(node) = self.nodes.get_mut(&missing) {
            if node.watchers.len() < more.len() {
                std::mem::swap(&mut node.watchers, &mut more);
            }
            node.watchers.extend(more);
        }
    }

    /// Takes a link out with all that it depends on when all were emitted, or answers one that
    /// was not.
    fn settle(&mut self, start: usize, ready: &mut Vec<usize>) -> Option<usize> {
        let mut seen: Set<usize> = Set::default();
        let mut work = vec![start];
        while let Some(link) = work.pop() {
            let Some(node) = self.nodes.get(&link) else {
                continue;
            };
            if !node.emitted {
                return Some(link);
            }
            if seen.insert(link) {
                work.extend(&node.depends);
            }
        }
        // The same walk again, since a set has no order of its own.
        let mut work = vec![start];
        while let Some(link) = work.pop() {
            if let Some(node) = self.nodes.remove(&link) {
                ready.push(link);
                work.extend(node.depends);
            }
        }
        None
    }

    /// A link failed; answers it and all that depend on it, ascending.
    pub(crate) fn fail(&mut self, link: usize) -> Vec<usize> {
        let mut seen: Set<usize> = Set::default();
        let mut work = vec![link];
        let mut failed = Vec::new();
        while let Some(link) = work.pop() {
            if !seen.insert(link) {
                continue;
            }
            if let Some(node) = self.nodes.remove(&link) {
                failed.push(link);
                work.extend(node.dependents);
                // Who watched it depends on it, so fails as well.
            }
        }
        failed.sort_unstable();
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::WaitGraph;

    fn graph(edges: &[(usize, usize)], n: usize) -> WaitGraph {
        let mut graph = WaitGraph::default();
        (0..n).for_each(|link| graph.add(link));
        edges.iter().for_each(|&(link, on)| graph.depend(link, on));
        graph
    }

    #[test]
    fn a_chain_is_ready_from_its_end() {
        let mut graph = graph(&[(0, 1), (1, 2)], 3);
        assert_eq!(graph.emit(0), []);
        assert_eq!(graph.emit(1), []);
        assert_eq!(graph.emit(2), [0, 1, 2]);
    }

    #[test]
    fn a_cycle_is_ready_at_once() {
        let mut graph = graph(&[(0, 1), (1, 0), (2, 1)], 3);
        assert_eq!(graph.emit(1), []);
        assert_eq!(graph.emit(2), []);
        assert_eq!(graph.emit(0), [0, 1, 2]);
    }

    #[test]
    fn failure_takes_exactly_the_dependents() {
        let mut graph = graph(&[(0, 1), (1, 2), (3, 4)], 5);
        assert_eq!(graph.emit(0), []);
        assert_eq!(graph.fail(2), [0, 1, 2]);
        assert_eq!(graph.emit(1), []);
        assert_eq!(graph.emit(4), [4]);
        assert_eq!(graph.emit(3), [3]);
    }

    #[test]
    fn a_long_chain_takes_linear_time() {
        let n = 1_000_000;
        let edges: Vec<(usize, usize)> = (0..n - 1).map(|link| (link, link + 1)).collect();
        let mut graph = graph(&edges, n);
        for link in 0..n - 1 {
            assert!(graph.emit(link).is_empty());
        }
        assert_eq!(graph.emit(n - 1).len(), n);
    }

    /// What a search over all links finds, for many small graphs.
    #[test]
    fn like_the_definition() {
        let mut seed = 1_u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap_or(0) % below
        };
        for _ in 0..500 {
            let n = 1 + random(7);
            let edges: Vec<(usize, usize)> =
                (0..random(12)).map(|_| (random(n), random(n))).collect();
            let mut graph = graph(&edges, n);
            let (mut emitted, mut ready) = (vec![false; n], vec![false; n]);
            let mut order: Vec<usize> = (0..n).collect();
            for place in (1..n).rev() {
                order.swap(place, random(place + 1));
            }
            for link in order {
                emitted[link] = true;
                for now in graph.emit(link) {
                    assert!(!std::mem::replace(&mut ready[now], true));
                }
                // Ready: nothing that can be reached is not emitted.
                for (start, &ready) in ready.iter().enumerate() {
                    let mut reached = vec![false; n];
                    let mut work = vec![start];
                    while let Some(at) = work.pop() {
                        if !std::mem::replace(&mut reached[at], true) {
                            work.extend(edges.iter().filter(|e| e.0 == at).map(|e| e.1));
                        }
                    }
                    let all = (0..n).all(|at| !reached[at] || emitted[at]);
                    assert_eq!(ready, all, "{edges:?} {start}");
                }
            }
        }
    }
}
