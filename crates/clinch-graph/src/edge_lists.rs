//! The lists of edges that are the graph's own. They lie behind one another in few large vectors,
//! since a link makes hundreds of thousands of short ones; what many threads made is taken over as
//! it is, without a copy.

use crate::edge::Edge;
use crate::index::int::{u32_of, usize_of};
use std::fmt;

/// All lists, by number. A list that outgrows its place moves to another; its old place stays
/// empty until the graph goes.
#[derive(Clone, Default)]
pub(crate) struct EdgeLists {
    chunks: Vec<Vec<Edge>>,
    lists: Vec<List>,
}

/// Where a list is.
#[derive(Clone, Copy)]
struct List {
    chunk: u32,
    start: u32,
    len: u32,
    /// How many edges there is room for.
    room: u32,
}

impl List {
    const EMPTY: Self = Self {
        chunk: 0,
        start: 0,
        len: 0,
        room: 0,
    };

    fn range(self) -> std::ops::Range<usize> {
        usize_of(self.start)..usize_of(self.start) + usize_of(self.len)
    }
}

impl EdgeLists {
    /// How many lists there are.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    /// One list.
    #[inline]
    pub(crate) fn get(&self, list: usize) -> &[Edge] {
        let list = self.lists[list];
        if list.len == 0 {
            return &[];
        }
        &self.chunks[usize_of(list.chunk)][list.range()]
    }

    /// One list to change in place.
    pub(crate) fn get_mut(&mut self, list: usize) -> &mut [Edge] {
        let list = self.lists[list];
        if list.len == 0 {
            return &mut [];
        }
        &mut self.chunks[usize_of(list.chunk)][list.range()]
    }

    /// Makes a list and answers its number.
    pub(crate) fn push(&mut self, edges: &[Edge]) -> usize {
        let list = self.place(edges, edges.len(), edges.first());
        self.lists.push(list);
        self.lists.len() - 1
    }

    /// Gives a list other edges.
    pub(crate) fn set(&mut self, list: usize, edges: &[Edge]) {
        if edges.len() > usize_of(self.lists[list].room) {
            self.lists[list] = self.place(edges, edges.len(), edges.first());
        } else {
            self.lists[list].len = u32_of(edges.len());
            self.get_mut(list).copy_from_slice(edges);
        }
    }

    /// Adds an edge to a list.
    pub(crate) fn add(&mut self, list: usize, edge: Edge) {
        let old = self.lists[list];
        if old.len == old.room {
            // As a vector grows, so that many additions take time in proportion.
            let edges = self.get(list).to_vec();
            self.lists[list] = self.place(&edges, (edges.len() * 2).max(2), Some(&edge));
        }
        let List {
            chunk, start, len, ..
        } = self.lists[list];
        self.chunks[usize_of(chunk)][usize_of(start) + usize_of(len)] = edge;
        self.lists[list].len = len + 1;
    }

    /// Keeps the edges of a list for which `keep` says so.
    pub(crate) fn retain(&mut self, list: usize, mut keep: impl FnMut(&Edge) -> bool) {
        let edges = self.get_mut(list);
        let mut kept = 0;
        for index in 0..edges.len() {
            if keep(&edges[index]) {
                edges[kept] = edges[index];
                kept += 1;
            }
        }
        self.lists[list].len = u32_of(kept);
    }

    /// Takes edges over. Lists of them are then made by [`EdgeLists::push_taken`].
    pub(crate) fn take(&mut self, edges: Vec<Edge>) -> TakenEdges {
        self.chunks.push(edges);
        TakenEdges(u32_of(self.chunks.len() - 1))
    }

    /// Makes a list of edges that were taken over: `len` from `start` on, and room for others up to
    /// `end`.
    pub(crate) fn push_taken(
        &mut self,
        TakenEdges(chunk): TakenEdges,
        start: usize,
        len: usize,
        end: usize,
    ) -> usize {
        debug_assert!(
            start + len <= end && end <= self.chunks[usize_of(chunk)].len(),
            "a list lies in what was taken"
        );
        self.lists.push(List {
            chunk,
            start: u32_of(start),
            len: u32_of(len),
            room: u32_of(end - start),
        });
        self.lists.len() - 1
    }

    /// Forgets the lists from number `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.lists.truncate(len);
        let used = self.lists.iter().filter(|list| list.room > 0);
        let end = used
            .map(|list| (list.chunk, list.start + list.room))
            .max()
            .unwrap_or((0, 0));
        self.chunks.truncate(usize_of(end.0) + 1);
        if let Some(last) = self.chunks.get_mut(usize_of(end.0)) {
            last.truncate(usize_of(end.1));
        }
    }

    /// Puts edges into some vector, with room for so many; `any` is there until another is. No vector grows: moving what is there
    /// would cost more than its end is worth.
    fn place(&mut self, edges: &[Edge], room: usize, any: Option<&Edge>) -> List {
        /// Edges of 1.5 MB.
        const LARGEST: usize = 1 << 16;
        let Some(&any) = any else {
            return List::EMPTY;
        };
        let free = |chunk: &Vec<Edge>| chunk.capacity() - chunk.len();
        if self.chunks.last().is_none_or(|last| free(last) < room) {
            let last = self.chunks.last().map_or(0, Vec::capacity);
            let capacity = (last * 2).clamp(16, LARGEST).max(room);
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let start = chunk.len();
        chunk.extend_from_slice(edges);
        chunk.resize(start + room, any);
        List {
            chunk: u32_of(number),
            start: u32_of(start),
            len: u32_of(edges.len()),
            room: u32_of(room),
        }
    }
}

/// Edges that [`EdgeLists::take`] took over.
#[derive(Clone, Copy)]
pub(crate) struct TakenEdges(u32);

impl PartialEq for EdgeLists {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && (0..self.len()).all(|list| self.get(list) == other.get(list))
    }
}

impl fmt::Debug for EdgeLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries((0..self.len()).map(|list| self.get(list)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::EdgeKind;
    use crate::ids::SymbolId;
    use crate::index::id::Id;

    fn edges(offsets: &[u32]) -> Vec<Edge> {
        let edge = |&offset| Edge {
            offset,
            kind: EdgeKind::KEEP_ALIVE,
            target: SymbolId::from_index(0),
            addend: 0,
        };
        offsets.iter().map(edge).collect()
    }

    #[test]
    fn lists_do_not_touch_one_another() {
        let mut lists = EdgeLists::default();
        let mut model: Vec<Vec<Edge>> = Vec::new();
        for n in 0..40_u32 {
            let new = edges(&[n, n + 1, n + 2][..usize_of(n % 4)]);
            assert_eq!(lists.push(&new), model.len());
            model.push(new);
        }
        // Long enough for several vectors, in turns, so that lists move.
        for n in 0..4000_u32 {
            let list = usize_of(n % 7);
            let edge = edges(&[n])[0];
            lists.add(list, edge);
            model[list].push(edge);
        }
        lists.set(3, &edges(&[9]));
        model[3] = edges(&[9]);
        let longer: Vec<u32> = (0..500).collect();
        lists.set(5, &edges(&longer));
        model[5] = edges(&longer);
        lists.retain(1, |edge| edge.offset % 2 == 0);
        model[1].retain(|edge| edge.offset % 2 == 0);
        lists.set(2, &[]);
        model[2].clear();
        for (list, edges) in model.iter().enumerate() {
            assert_eq!(lists.get(list), edges, "list {list}");
        }
    }

    #[test]
    fn taken_edges_have_their_room() {
        let mut lists = EdgeLists::default();
        let taken = lists.take(edges(&[0, 1, 99, 2, 99]));
        let first = lists.push_taken(taken, 0, 2, 3);
        let second = lists.push_taken(taken, 3, 1, 5);
        lists.add(first, edges(&[7])[0]);
        assert_eq!(lists.get(first), edges(&[0, 1, 7]));
        assert_eq!(lists.get(second), edges(&[2]));
        // Full: it moves, and the other stays.
        lists.add(first, edges(&[8])[0]);
        assert_eq!(lists.get(first), edges(&[0, 1, 7, 8]));
        assert_eq!(lists.get(second), edges(&[2]));
    }

    #[test]
    fn forgetting_keeps_those_before() {
        let mut lists = EdgeLists::default();
        lists.push(&edges(&[1, 2]));
        for n in 0..100 {
            lists.push(&edges(&[n; 3]));
        }
        lists.truncate(1);
        assert_eq!(lists.len(), 1);
        assert_eq!(lists.get(0), edges(&[1, 2]));
        lists.push(&edges(&[5]));
        assert_eq!(lists.get(0), edges(&[1, 2]));
        assert_eq!(lists.get(1), edges(&[5]));
    }
}
