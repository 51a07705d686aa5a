//! The work of a session: tasks in the order in which they came, run by whoever waits for their
//! results and by threads that are started when there is enough to do. No task waits for
//! another: what is not there yet gets a continuation, which becomes a task when it is.

use crate::context::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Something to do.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// Tasks and who runs them.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    /// How many threads may work besides those that wait; found out when it matters, where the
    /// machine is to decide.
    helpers: OnceLock<usize>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is a task, a result, or the end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    /// Tasks that are being run.
    running: usize,
    /// How many tasks ended, so that who waits sees that something changed.
    n_ended: usize,
    ended: bool,
}

impl Queue {
    /// A queue for so many threads, those that wait for results among them; 0 for as many as the
    /// machine offers.
    pub(crate) fn new(threads: usize) -> Self {
        let helpers = OnceLock::new();
        if threads > 0 {
            let _ = helpers.set(threads - 1);
        }
        Self {
            shared: Arc::default(),
            helpers,
            threads: Mutex::default(),
        }
    }

    fn helpers(&self) -> usize {
        *self.helpers.get_or_init(|| {
            let offered = std::thread::available_parallelism();
            offered.map_or(0, |offered| offered.get() - 1)
        })
    }

    /// Adds tasks.
    pub(crate) fn push(&self, tasks: impl IntoIterator<Item = Task>) {
        let waiting = {
            let mut state = lock(&self.shared.state);
            state.tasks.extend(tasks);
            state.tasks.len()
        };
        self.shared.changed.notify_all();
        // The first is for who waits.
        if waiting > 1 && self.helpers() > 0 {
            self.start_helpers(waiting - 1);
        }
    }

    /// Runs tasks until `result` answers something. `result` must change only in tasks.
    pub(crate) fn run_until<T>(&self, mut result: impl FnMut() -> Option<T>) -> T {
        loop {
            let n_ended = lock(&self.shared.state).n_ended;
            if let Some(result) = result() {
                return result;
            }
            let state = lock(&self.shared.state);
            let mut state = self
                .shared
                .changed
                .wait_while(state, |state| {
                    state.tasks.is_empty() && state.n_ended == n_ended
                })
                .unwrap_or_else(PoisonError::into_inner);
            match state.tasks.pop_front() {
                Some(task) => self.shared.run(state, task),
                None => drop(state),
            }
        }
    }

    /// Runs what there is to do, when nobody else does: for who does not wait.
    pub(crate) fn run_if_alone(&self) {
        if self.helpers() > 0 {
            let waiting = lock(&self.shared.state).tasks.len();
            self.start_helpers(waiting);
            return;
        }
        loop {
            let mut state = lock(&self.shared.state);
            // A task that asks for something must not run other tasks inside itself.
            if state.running > 0 {
                return;
            }
            match state.tasks.pop_front() {
                Some(task) => self.shared.run(state, task),
                None => return,
            }
        }
    }

    fn start_helpers(&self, wanted: usize) {
        let mut threads = lock(&self.threads);
        while threads.len() < wanted.min(self.helpers()) {
            let shared = Arc::clone(&self.shared);
            let name = "clinch-session".to_owned();
            let started = std::thread::Builder::new()
                .name(name)
                .spawn(move || shared.help());
            match started {
                Ok(thread) => threads.push(thread),
                // Those that wait do the work.
                Err(_) => return,
            }
        }
    }
}

impl Shared {
    fn run(&self, mut state: std::sync::MutexGuard<'_, State>, task: Task) {
        state.running += 1;
        drop(state);
        task();
        {
            let mut state = lock(&self.state);
            state.running -= 1;
            state.n_ended += 1;
        }
        self.changed.notify_all();
    }

    fn help(&self) {
        loop {
            let state = lock(&self.state);
            let mut state = self
                .changed
                .wait_while(state, |state| state.tasks.is_empty() && !state.ended)
                .unwrap_or_else(PoisonError::into_inner);
            match state.tasks.pop_front() {
                Some(task) => self.run(state, task),
                None => return,
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        self.shared.changed.notify_all();
        let here = std::thread::current().id();
        for thread in lock(&self.threads).drain(..) {
            // The last owner of a session may be a task of its own.
            if thread.thread().id() != here {
                let _ = thread.join();
            }
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("helpers", &self.helpers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Task};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Tasks that make tasks: a long chain needs no stack, on any number of threads.
    #[test]
    fn chains_need_no_stack() {
        for threads in [1, 2, 7] {
            let queue = Arc::new(Queue::new(threads));
            let done = Arc::new(AtomicUsize::new(0));
            fn step(queue: &Arc<Queue>, done: &Arc<AtomicUsize>, left: usize) -> Task {
                let (queue, done) = (Arc::clone(queue), Arc::clone(done));
                Box::new(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                    if left > 0 {
                        let next = step(&queue, &done, left - 1);
                        queue.push([next]);
                    }
                })
            }
            queue.push([step(&queue, &done, 100_000)]);
            let all = queue.run_until(|| {
                let done = done.load(Ordering::Relaxed);
                (done == 100_001).then_some(done)
            });
            assert_eq!(all, 100_001);
        }
    }

    #[test]
    fn who_does_not_wait_runs_tasks_when_alone() {
        let queue = Queue::new(1);
        let done = Arc::new(AtomicUsize::new(0));
        let task = || -> Task {
            let done = Arc::clone(&done);
            Box::new(move || {
                done.fetch_add(1, Ordering::Relaxed);
            })
        };
        queue.push([task(), task()]);
        queue.run_if_alone();
        assert_eq!(done.load(Ordering::Relaxed), 2);
    }
}
