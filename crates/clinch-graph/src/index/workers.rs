//! The worker pool: work over inputs or blocks, results in input order. The pool's threads are
//! started only when there is enough to do, since starting them costs more than a small link.

use super::pages::prefer_large;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::OnceLock;

/// A number of threads, and the pool once it was needed.
#[derive(Debug)]
pub struct Workers {
    /// `None` for as many as the machine offers: finding that out costs system calls that a small
    /// link does without.
    threads: Option<usize>,
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

impl Workers {
    /// Work on `threads` threads; 0 and 1 mean the caller's own.
    pub const fn new(threads: usize) -> Self {
        Self {
            threads: Some(threads),
            pool: OnceLock::new(),
        }
    }

    /// As many threads as the machine offers.
    pub const fn available() -> Self {
        Self {
            threads: None,
            pool: OnceLock::new(),
        }
    }

    /// Calls `f` on every item and answers the results in the items' order. `cost` is a guess of
    /// the whole work in bytes looked at: below a threshold everything runs on the caller's
    /// thread.
    pub fn map<T: Send, R: Send>(
        &self,
        cost: usize,
        items: Vec<T>,
        f: impl Fn(T) -> R + Sync + Send,
    ) -> Vec<R> {
        match self.pool(if items.len() > 1 { cost } else { 0 }) {
            Some(pool) => pool.install(|| items.into_par_iter().map(f).collect()),
            None => items.into_iter().map(f).collect(),
        }
    }

    /// Appends `more` copies of `value`.
    pub fn extend<T: Clone + Send + Sync>(&self, values: &mut Vec<T>, more: usize, value: T) {
        values.reserve_exact(more);
        prefer_large(values);
        match self.pool(more * size_of::<T>()) {
            Some(pool) => pool.install(|| values.par_extend(rayon::iter::repeat_n(value, more))),
            None => values.resize(values.len() + more, value),
        }
    }

    /// Cuts `len` items into runs for [`Workers::map`] with work of this cost: one where one thread
    /// does it all, else several for each thread, so that all are busy to the end.
    pub fn cut(&self, cost: usize, len: usize) -> Vec<Range<usize>> {
        const PER_THREAD: usize = 8;
        let runs = match self.threads(cost) {
            1 => 1,
            threads => threads * PER_THREAD,
        };
        let size = len.div_ceil(runs).max(1);
        (0..len)
            .step_by(size)
            .map(|start| start..len.min(start + size))
            .collect()
    }

    /// Calls `f` on runs of values, each with the places that it has among them, which together are
    /// work of this cost.
    pub fn each_run<T: Send>(
        &self,
        cost: usize,
        values: &mut [T],
        f: impl Fn(Range<usize>, &mut [T]) + Sync + Send,
    ) {
        let (mut rest, mut runs) = (values, Vec::new());
        for run in self.cut(cost, rest.len()) {
            let (mine, others) = rest.split_at_mut(run.len());
            runs.push((run, mine));
            rest = others;
        }
        self.map(cost, runs, |(run, mine)| f(run, mine));
    }

    /// On how many threads [`Workers::map`] runs work of this cost.
    pub fn threads(&self, cost: usize) -> usize {
        self.pool(cost)
            .map_or(1, rayon::ThreadPool::current_num_threads)
    }

    fn pool(&self, cost: usize) -> Option<&rayon::ThreadPool> {
        /// Below this a pool costs more than it saves: about 0.3 ms to start two threads, in
        /// which one thread reads some megabytes.
        const WORTHWHILE: usize = 4 << 20;
        if cost < WORTHWHILE || self.threads.is_some_and(|threads| threads <= 1) {
            return None;
        }
        let build = || {
            let threads = self.threads.or_else(|| {
                let offered = std::thread::available_parallelism().ok()?;
                Some(offered.get())
            })?;
            if threads <= 1 {
                return None;
            }
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .ok()
        };
        self.pool.get_or_init(build).as_ref()
    }
}
