//! Threads for calls, on either side: one for each that runs at a time, kept for the next one.

use crate::system::thread;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Locks what stays sound when its holder panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change until a time; whether that time is not over.
pub(crate) fn wait_until<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Instant,
) -> (MutexGuard<'a, T>, bool) {
    let left = until.saturating_duration_since(Instant::now());
    let (guard, _) = condition
        .wait_timeout(guard, left)
        .unwrap_or_else(PoisonError::into_inner);
    (guard, !left.is_zero())
}

/// More threads do not wait for the next job.
const MOST_IDLE: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// Whether this is a home thread.
    static IS_HOME: Cell<bool> = const { Cell::new(false) };
}

/// Whether a thread is used again after its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// For the next job.
    Again,
    /// For none: the job has a fresh thread to itself.
    Once,
    /// For the next job of this kind: it is the same thread, as long as it is not busy and no job
    /// ends it.
    Home,
}

/// As many threads as there are jobs, up to a limit.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    limit: usize,
    stack: usize,
}

#[derive(Default)]
struct State {
    /// With the generation in which they came.
    jobs: VecDeque<(u64, Job)>,
    /// Threads of this generation that wait for a job.
    idle: usize,
    /// Threads that have not ended.
    n: usize,
    closed: bool,
    home: Home,
    /// Threads of an earlier one take no job of a later one.
    generation: u64,
    started: Vec<Started>,
}

/// The thread for jobs that are to be done by one thread.
#[derive(Default)]
enum Home {
    #[default]
    None,
    /// It waits.
    Idle,
    /// It is to do this.
    Called(Job),
    Busy,
}

/// A thread that was started.
struct Started {
    end: Arc<End>,
    handle: JoinHandle<()>,
}

/// How far the end of a thread is.
#[derive(Default)]
struct End {
    /// It came back from its last job. One that linked code ended did not: it cannot be joined,
    /// since it has no result.
    came_back: AtomicBool,
    /// Nothing of it is left to wait for.
    has_ended: AtomicBool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("jobs", &self.jobs.len())
            .field("idle", &self.idle)
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}

/// Tells, however its thread ends, that it has (see [`thread::push`]).
struct Alive {
    shared: Arc<Shared>,
    end: Arc<End>,
    is_home: bool,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.end.has_ended.store(true, Ordering::Release);
        {
            let mut state = lock(&self.shared.state);
            state.n -= 1;
            if self.is_home {
                state.home = Home::None;
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Threads {
    /// At most `limit` threads, with stacks of `stack` bytes.
    pub(crate) fn new(limit: usize, stack: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                limit,
                stack,
            }),
        }
    }

    /// Runs a job; answers whether there is a thread for it.
    pub(crate) fn run(&self, keep: Keep, job: impl FnOnce() + Send + 'static) -> bool {
        let job: Job = Box::new(job);
        let mut state = lock(&self.shared.state);
        if state.closed {
            return false;
        }
        if keep == Keep::Again && state.jobs.len() < state.idle {
            let generation = state.generation;
            state.jobs.push_back((generation, job));
            self.shared.changed.notify_all();
            return true;
        }
        if keep == Keep::Home && matches!(state.home, Home::Idle) {
            state.home = Home::Called(job);
            self.shared.changed.notify_all();
            return true;
        }
        let is_home = keep == Keep::Home && matches!(state.home, Home::None);
        let n_busy = state.n - state.idle + state.jobs.len();
        if n_busy >= self.shared.limit {
            return false;
        }
        let generation = state.generation;
        let shared = Arc::clone(&self.shared);
        let end = Arc::new(End::default());
        let told = Arc::clone(&end);
        let body = move || {
            let alive = Alive {
                shared: Arc::clone(&shared),
                end: Arc::clone(&told),
                is_home,
            };
            thread::push(Box::new(alive));
            IS_HOME.set(is_home);
            job();
            if is_home {
                shared.serve_home();
            } else if keep == Keep::Again {
                shared.serve(generation);
            }
            told.came_back.store(true, Ordering::Release);
            drop(thread::pop());
        };
        let builder = std::thread::Builder::new()
            .name("call".to_owned())
            .stack_size(self.shared.stack);
        let Ok(handle) = builder.spawn(body) else {
            return false;
        };
        state.n += 1;
        if is_home {
            state.home = Home::Busy;
        }
        // What has ended needs no place in the list any longer.
        if state.started.len() > 2 * state.n + 16 {
            let has_ended = |thread: &Started| thread.end.has_ended.load(Ordering::Acquire);
            state.started.retain(|thread| !has_ended(thread));
        }
        state.started.push(Started { end, handle });
        true
    }

    /// The job of this thread is about to tell that it is done: if it is the home thread's, the next
    /// one that comes is for it, so that who was told finds it free.
    pub(crate) fn end_home_job(&self) {
        if IS_HOME.get() {
            lock(&self.shared.state).home = Home::Idle;
        }
    }

    /// Thread-local storage changed: threads that wait have none of it, so they end, and those that
    /// are busy end after their job. The home thread stays: it is the one that changes it.
    pub(crate) fn renew(&self) {
        {
            let mut state = lock(&self.shared.state);
            state.generation += 1;
            state.idle = 0;
        }
        self.shared.changed.notify_all();
    }

    /// Takes no more jobs, and waits for the threads to end; answers whether they did.
    pub(crate) fn close(&self, until: Instant) -> bool {
        let mut state = lock(&self.shared.state);
        state.closed = true;
        self.shared.changed.notify_all();
        while state.n > 0 {
            let (again, in_time) = wait_until(&self.shared.changed, state, until);
            state = again;
            if !in_time && state.n > 0 {
                return false;
            }
        }
        let started = std::mem::take(&mut state.started);
        drop(state);
        for thread in started {
            if thread.end.came_back.load(Ordering::Acquire) {
                let _ = thread.handle.join();
            }
        }
        true
    }
}

impl Shared {
    /// Does jobs until there will be no more for a thread of this generation.
    fn serve(&self, generation: u64) {
        let mut state = lock(&self.state);
        loop {
            let is_old = state.generation != generation;
            if let Some((_, job)) = state.jobs.pop_front_if(|(of, _)| *of <= generation) {
                drop(state);
                job();
                state = lock(&self.state);
            } else if state.closed || is_old || state.idle >= MOST_IDLE {
                return;
            } else {
                state.idle += 1;
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                // Those of earlier generations are not counted any more.
                if state.generation == generation {
                    state.idle -= 1;
                }
            }
        }
    }

    /// Does the home thread's jobs.
    fn serve_home(&self) {
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut state.home, Home::Busy) {
                Home::Called(job) => {
                    drop(state);
                    job();
                    state = lock(&self.state);
                }
                _ if state.closed => return,
                _ => {
                    state.home = Home::Idle;
                    state = self
                        .changed
                        .wait_while(state, |state| {
                            matches!(state.home, Home::Idle) && !state.closed
                        })
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const STACK: usize = 1 << 18;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn threads_are_used_again_and_limited() {
        let threads = Threads::new(3, STACK);
        let (tell, told) = channel();
        let (go, wait) = channel::<()>();
        let teller = tell.clone();
        assert!(threads.run(Keep::Again, move || {
            wait.recv().unwrap();
            teller.send(std::thread::current().id()).unwrap();
        }));
        assert!(threads.run(Keep::Once, || {}));
        // The limit holds while the first waits, whether or not the second has ended.
        assert!(!threads.close(Instant::now()));
        go.send(()).unwrap();
        told.recv().unwrap();
        assert!(threads.close(later()));
        assert!(!threads.run(Keep::Again, || {}));
    }

    #[test]
    fn a_limit_refuses() {
        let threads = Threads::new(1, STACK);
        let (go, wait) = channel::<()>();
        assert!(threads.run(Keep::Again, move || wait.recv().unwrap()));
        assert!(!threads.run(Keep::Again, || {}));
        assert!(!threads.run(Keep::Once, || {}));
        go.send(()).unwrap();
        // An idle thread does not count: a job may have a fresh one.
        while !threads.run(Keep::Once, || {}) {
            std::thread::yield_now();
        }
        assert!(threads.close(later()));
    }

    #[test]
    fn one_thread_does_the_jobs_of_home() {
        let threads = Threads::new(3, STACK);
        let (tell, told) = channel();
        let run = |keep| {
            let tell = tell.clone();
            let ended = threads.clone();
            assert!(threads.run(keep, move || {
                ended.end_home_job();
                tell.send(std::thread::current().id()).unwrap();
            }));
            told.recv().unwrap()
        };
        let home = run(Keep::Home);
        for _ in 0..100 {
            assert_eq!(run(Keep::Home), home);
            threads.renew();
        }
        // One that is busy does not keep others from their job.
        let (go, wait) = channel::<()>();
        assert!(threads.run(Keep::Home, move || wait.recv().unwrap()));
        assert_ne!(run(Keep::Home), home);
        go.send(()).unwrap();
        assert!(threads.close(later()));
    }

    #[test]
    fn old_threads_do_no_new_jobs() {
        let threads = Threads::new(100, STACK);
        let (tell, told) = channel();
        let run = || {
            let tell = tell.clone();
            assert!(threads.run(Keep::Again, move || {
                tell.send(std::thread::current().id()).unwrap();
            }));
            told.recv().unwrap()
        };
        for _ in 0..100 {
            let old = run();
            threads.renew();
            assert_ne!(run(), old);
        }
        assert!(threads.close(later()));
    }

    #[test]
    fn many_threads_end_when_there_is_nothing_to_do() {
        let threads = Threads::new(100, STACK);
        let gate = Arc::new(std::sync::Barrier::new(51));
        for _ in 0..50 {
            let gate = Arc::clone(&gate);
            assert!(threads.run(Keep::Again, move || {
                gate.wait();
            }));
        }
        gate.wait();
        while lock(&threads.shared.state).n > MOST_IDLE {
            std::thread::yield_now();
        }
        for _ in 0..1000 {
            while !threads.run(Keep::Once, || {}) {
                std::thread::yield_now();
            }
        }
        assert!(lock(&threads.shared.state).started.len() <= 2 * 109 + 17);
        assert!(threads.close(later()));
    }
}
