//! Whether a thread of this process is in some code: runs it, or will return to it.
//!
//! Nothing counts who enters linked code and who leaves it, since that would cost every call. So
//! threads are asked when it matters: each gets a signal, whose handler looks for addresses in
//! the ranges in question, in the registers of what it interrupted and in each word of its stack,
//! from the stack pointer to the stack's end. What looks like such an address counts, whatever it
//! is: a word that somebody left on the stack may say that a thread is in code that it left, but a
//! thread that is in it is never missed. Whoever does not answer counts too: a thread that blocks
//! the signal or was stopped, one on its alternate signal stack, whose other stack nobody knows.
//!
//! What is not looked at is the asker's promise: contexts that are saved elsewhere than on the
//! stack that a thread uses (coroutines that are switched out, `setjmp`'s buffers), and pointers in
//! data, in the words below a stack pointer or in vector registers.
//!
//! - *Threads* are those of `/proc/self/task`, again until nobody is there who was not asked: who
//!   comes later was started by somebody who is not in the code.
//! - *The signal* is a real-time signal that nobody uses, claimed for as long as the question takes.
//! - *The handler* ([`answer`]) does only what signal handlers may: it neither allocates nor locks,
//!   and reads stacks by a system call, because what was found in `/proc/self/maps` may be gone.
//! - *A question* ([`Question`]) is not changed while handlers see it, apart from their answers, and
//!   it lives until no handler runs: one that is late reads an old question and does no harm.

use super::registers::INTERRUPTED;
use clinch_graph::index::int::{u64_of, usize_of_u64};
use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// The first pause of those who wait, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(5));
/// How many words of a stack are read at once: on a small stack.
const WORDS: usize = 128;
const WORD: u64 = 8;
/// No less than the C library's description of a thread, which is the end of the thread's stack.
const DESCRIPTION: u64 = 4096;

/// A thread did not answer yet, is in none of the ranges, is in one of them or may be.
const PENDING: u8 = 0;
const OUTSIDE: u8 = 1;
const INSIDE: u8 = 2;

/// Held by who asks: one at a time. Questions that handlers may still read.
static ASKING: Mutex<Vec<Arc<Question>>> = Mutex::new(Vec::new());
/// What handlers answer; null when nobody asks.
static CURRENT: AtomicPtr<Question> = AtomicPtr::new(std::ptr::null_mut());
/// How many handlers run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Waits until no thread is in any of the ranges, each of which is a start and a size; answers
/// whether that came to be. The caller's own stack is searched from an address on it: what is below
/// are frames that know the ranges.
pub(crate) fn wait_until_left(ranges: Vec<(u64, u64)>, from: u64, wait: Duration) -> bool {
    if ranges.is_empty() {
        return true;
    }
    if INTERRUPTED.is_none() {
        return false;
    }
    let ranges = Ranges::new(ranges);
    let end = Instant::now().checked_add(wait);
    let mut pause = Pause::new(end);
    loop {
        let asking = match ASKING.try_lock() {
            Ok(retired) => Some(retired),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        // Where the system does not tell, somebody may be there.
        if let Some(mut retired) = asking
            && ask(&ranges, from, end, &mut retired).unwrap_or(false)
        {
            return true;
        }
        if !pause.rest() {
            return false;
        }
    }
}

/// Asks all threads once; answers whether each said that it is in none of the ranges.
fn ask(
    ranges: &Ranges,
    from: u64,
    end: Option<Instant>,
    retired: &mut Vec<Arc<Question>>,
) -> io::Result<bool> {
    // This thread is in the session. It may return to the code; it does not run it.
    if Question::new(ranges, &[])?.is_on_stack(from) {
        return Ok(false);
    }
    let Some(claim) = Claim::new() else {
        return Ok(false);
    };
    let mut asked = vec![own_thread()];
    loop {
        let Some(threads) = threads(end)? else {
            return Ok(false);
        };
        let new = threads.iter().copied();
        let new: Vec<libc::pid_t> = new.filter(|id| asked.binary_search(id).is_err()).collect();
        if new.is_empty() {
            return Ok(true);
        }
        asked = threads;
        let question = Published::new(Question::new(ranges, &new)?, retired);
        question.send(claim.signal);
        if !question.is_answered_by_all(end) {
            return Ok(false);
        }
    }
}

/// Address ranges that are apart from one another, as ranges of their addresses' complements,
/// ascending: a handler leaves on a stack what it works with, and an address of the code there would
/// be taken for a way back to it when a thread is asked again.
#[derive(Clone)]
struct Ranges(Arc<[(u64, u64)]>);

impl Ranges {
    /// Ranges by start and size.
    #[inline(never)]
    fn new(mut ranges: Vec<(u64, u64)>) -> Self {
        for range in &mut ranges {
            let (start, size) = *range;
            // From the last address's complement to behind the first one's. Nothing is at 0.
            *range = (
                start.saturating_add(size).wrapping_neg(),
                start.max(1).wrapping_neg(),
            );
        }
        ranges.sort_unstable();
        Self(ranges.into())
    }

    fn contain(&self, address: u64) -> bool {
        holder(&self.0, !address).is_some()
    }
}

/// The end of the range that holds an address, of ranges that ascend.
fn holder(ranges: &[(u64, u64)], address: u64) -> Option<u64> {
    let behind = ranges.partition_point(|&(start, _)| start <= address);
    let &(_, end) = ranges.get(behind.checked_sub(1)?)?;
    (address < end).then_some(end)
}

/// What handlers read, and where they answer.
struct Question {
    ranges: Ranges,
    /// Memory that can be read and written, where stacks are.
    writable: Vec<(u64, u64)>,
    /// This process's memory. Reading what is not there is an error and no fault.
    memory: File,
    /// Who is asked, ascending.
    threads: Vec<Asked>,
    /// Nobody waits for answers any more.
    is_over: AtomicBool,
}

struct Asked {
    id: libc::pid_t,
    answer: AtomicU8,
}

impl Question {
    fn new(ranges: &Ranges, threads: &[libc::pid_t]) -> io::Result<Self> {
        let asked = |&id: &libc::pid_t| Asked {
            id,
            answer: AtomicU8::new(PENDING),
        };
        Ok(Self {
            ranges: ranges.clone(),
            writable: writable(&fs::read("/proc/self/maps")?),
            memory: File::open("/proc/self/mem")?,
            threads: threads.iter().map(asked).collect(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Sends the signal to who is asked.
    fn send(&self, signal: c_int) {
        for thread in &self.threads {
            // SAFETY: passes numbers; the handler of the signal is `answer`.
            let sent =
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.id, signal) };
            if sent != 0 {
                let error = io::Error::last_os_error().raw_os_error();
                let has_ended = error == Some(libc::ESRCH);
                let answer = if has_ended { OUTSIDE } else { INSIDE };
                thread.answer.store(answer, Ordering::Release);
            }
        }
    }

    /// Waits for answers until one is that a thread is inside, or it is too late: then this is
    /// false.
    fn is_answered_by_all(&self, end: Option<Instant>) -> bool {
        let mut pause = Pause::new(end);
        loop {
            let mut pending = 0;
            for thread in &self.threads {
                match thread.answer.load(Ordering::Acquire) {
                    OUTSIDE => {}
                    PENDING => {
                        if has_ended(thread.id) {
                            thread.answer.store(OUTSIDE, Ordering::Release);
                        } else {
                            pending += 1;
                        }
                    }
                    _ => return false,
                }
            }
            if pending == 0 {
                return true;
            }
            if !pause.rest() {
                return false;
            }
        }
    }

    /// Answers for the thread that runs this in a handler.
    fn answer(&self, context: &libc::ucontext_t) {
        let own = own_thread();
        let Ok(index) = self.threads.binary_search_by_key(&own, |thread| thread.id) else {
            return;
        };
        let is_inside = INTERRUPTED.is_none_or(|read| {
            let registers = read(context);
            registers
                .general
                .iter()
                .any(|&word| self.ranges.contain(word))
                || is_on(&context.uc_stack, registers.stack)
                || self.is_on_stack(registers.stack)
        });
        let answer = if is_inside { INSIDE } else { OUTSIDE };
        self.threads[index].answer.store(answer, Ordering::Release);
    }

    /// Whether an address in the ranges is on the stack of the thread that runs this, from a word
    /// of it to its end, or may be.
    fn is_on_stack(&self, from: u64) -> bool {
        let Some(end) = self.end_of_stack(from) else {
            return true;
        };
        let mut words = [0_u64; WORDS];
        let mut at = from & !(WORD - 1);
        while at < end {
            let n_words = usize_of_u64((end - at) / WORD).min(WORDS);
            let words = &mut words[..n_words];
            if self.is_over.load(Ordering::Relaxed) || !self.read(at, words) {
                return true;
            }
            if words.iter().any(|&word| self.ranges.contain(word)) {
                return true;
            }
            at += u64_of(size_of_val(words));
        }
        false
    }

    /// Where the stack ends that an address is on: with its mapping, or before with the thread's
    /// description when the stack is the thread's own, because other mappings may follow without
    /// a gap.
    fn end_of_stack(&self, address: u64) -> Option<u64> {
        let end = holder(&self.writable, address)?;
        // SAFETY: answers a number.
        let description = unsafe { libc::pthread_self() };
        if (address..end).contains(&description) {
            return Some(end.min(description.next_multiple_of(WORD) + DESCRIPTION));
        }
        Some(end)
    }

    /// Reads words of this process; answers whether all of them are there. It goes around the C
    /// library's function of this kind, which ends threads that are to be cancelled.
    fn read(&self, address: u64, words: &mut [u64]) -> bool {
        let (file, size) = (self.memory.as_raw_fd(), size_of_val(words));
        // SAFETY: writes to the words, no more than their size.
        let read =
            unsafe { libc::syscall(libc::SYS_pread64, file, words.as_mut_ptr(), size, address) };
        usize::try_from(read) == Ok(size)
    }
}

/// Whether an address is on an alternate signal stack.
fn is_on(stack: &libc::stack_t, address: u64) -> bool {
    let start = u64_of(stack.ss_sp.addr());
    let is_there = stack.ss_flags & libc::SS_DISABLE == 0;
    is_there && address.wrapping_sub(start) < u64_of(stack.ss_size)
}

/// A question that handlers answer, until it is dropped.
struct Published<'a> {
    question: Arc<Question>,
    retired: &'a mut Vec<Arc<Question>>,
}

impl<'a> Published<'a> {
    fn new(question: Question, retired: &'a mut Vec<Arc<Question>>) -> Self {
        let question = Arc::new(question);
        CURRENT.store(Arc::as_ptr(&question).cast_mut(), Ordering::SeqCst);
        Self { question, retired }
    }
}

impl std::ops::Deref for Published<'_> {
    type Target = Question;

    fn deref(&self) -> &Question {
        &self.question
    }
}

impl Drop for Published<'_> {
    fn drop(&mut self) {
        CURRENT.store(std::ptr::null_mut(), Ordering::SeqCst);
        self.question.is_over.store(true, Ordering::Relaxed);
        self.retired.push(Arc::clone(&self.question));
        // A handler says that it runs before it reads which question there is. So one that is not
        // seen here sees none, or a later one.
        if RUNNING.load(Ordering::SeqCst) == 0 {
            self.retired.clear();
        }
    }
}

/// The handler of the signal.
extern "C" fn answer(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own variable.
    let error = unsafe { *libc::__errno_location() };
    RUNNING.fetch_add(1, Ordering::SeqCst);
    let question = CURRENT.load(Ordering::SeqCst);
    // SAFETY: null, or a question that is kept at least until this handler is seen to have ended.
    // The context is what the system gives to handlers of this kind.
    if let (Some(question), Some(context)) = unsafe {
        (
            question.as_ref(),
            context.cast::<libc::ucontext_t>().as_ref(),
        )
    } {
        question.answer(context);
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as above. What was interrupted sees the value that it had.
    unsafe { *libc::__errno_location() = error };
}

/// A signal whose handler is [`answer`], until it is dropped.
struct Claim {
    signal: c_int,
}

impl Claim {
    /// Takes the last real-time signal that nobody uses: it has no handler, and the caller does
    /// not block it, as those do who read signals instead of handling them.
    fn new() -> Option<Self> {
        let blocked = blocked();
        let is_free = |&signal: &c_int| {
            // SAFETY: reads a set that was filled.
            let is_blocked = unsafe { libc::sigismember(&raw const blocked, signal) } != 0;
            !is_blocked && handler_of(signal) == Some(libc::SIG_DFL)
        };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = answer;
        let handler = (handler as *const ()).expose_provenance();
        let mut free = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().filter(is_free);
        let signal = free.find(|&signal| set_handler(signal, libc::SIG_DFL, handler))?;
        Some(Self { signal })
    }
}

impl Drop for Claim {
    /// Gives the signal back. Threads that block it have not got theirs yet, which the default
    /// would end the process for; ignoring the signal discards them.
    fn drop(&mut self) {
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = answer;
        let handler = (handler as *const ()).expose_provenance();
        if set_handler(self.signal, handler, libc::SIG_IGN) {
            set_handler(self.signal, libc::SIG_IGN, libc::SIG_DFL);
        }
    }
}

/// The signals that this thread blocks.
fn blocked() -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: writes the set; changes nothing, since there is nothing to block.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set) };
    set
}

fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: fills the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// The handler of a signal, `None` where the system keeps the signal to itself.
fn handler_of(signal: c_int) -> Option<libc::sighandler_t> {
    let mut now = action(libc::SIG_DFL);
    // SAFETY: writes the variable; changes nothing.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    (result == 0).then_some(now.sa_sigaction)
}

/// Changes the handler of a signal from one to another; leaves it, and answers false, when
/// somebody else changed it.
fn set_handler(signal: c_int, from: libc::sighandler_t, to: libc::sighandler_t) -> bool {
    let mut before = action(libc::SIG_DFL);
    let action = action(to);
    // SAFETY: `answer` is a handler of this kind, does only what handlers may, and leaves what it
    // interrupts as it was; the other ones are the system's. What somebody else set is set again.
    unsafe {
        if libc::sigaction(signal, &raw const action, &raw mut before) != 0 {
            return false;
        }
        if before.sa_sigaction != from {
            libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            return false;
        }
    }
    true
}

/// How a signal is handled: on the alternate stack where a thread has one, since others are as
/// small as their makers liked; without being interrupted itself.
fn action(handler: libc::sighandler_t) -> libc::sigaction {
    let mut mask = empty_set();
    // SAFETY: fills the set.
    unsafe { libc::sigfillset(&raw mut mask) };
    libc::sigaction {
        sa_sigaction: handler,
        sa_mask: mask,
        sa_flags: libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK,
        sa_restorer: None,
    }
}

/// The thread that runs this, as the system numbers it.
fn own_thread() -> libc::pid_t {
    // SAFETY: answers a number.
    unsafe { libc::gettid() }
}

/// The threads of this process, ascending; `None` when it is too late. A list may lack a thread
/// behind one that ends while the list is made. Then the next list lacks the latter, so one that
/// is like the list before it was whole.
fn threads(end: Option<Instant>) -> io::Result<Option<Vec<libc::pid_t>>> {
    let mut pause = Pause::new(end);
    let mut before = list()?;
    loop {
        let now = list()?;
        if now == before {
            return Ok(Some(now));
        }
        before = now;
        if !pause.rest() {
            return Ok(None);
        }
    }
}

fn list() -> io::Result<Vec<libc::pid_t>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        threads.extend(
            name.to_str()
                .and_then(|name| name.parse::<libc::pid_t>().ok()),
        );
    }
    threads.sort_unstable();
    Ok(threads)
}

/// Whether a thread runs nothing any more. The first one stays in the list when it ends before the
/// others.
fn has_ended(thread: libc::pid_t) -> bool {
    match fs::read(format!("/proc/self/task/{thread}/stat")) {
        // Its number, its name in parentheses, its state.
        Ok(text) => {
            let name_end = text.iter().rposition(|&byte| byte == b')');
            let state = name_end.and_then(|end| text.get(end + 2));
            matches!(state, Some(b'Z' | b'X'))
        }
        Err(error) => {
            error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
        }
    }
}

/// What can be read and written of the memory in `/proc/self/maps`; neighbors are one.
fn writable(maps: &[u8]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let Some((start, end)) = range_of(line) else {
            continue;
        };
        match all.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => all.push((start, end)),
        }
    }
    all
}

/// The range of a line, `START-END rw…`.
fn range_of(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = line.split(|&byte| byte == b' ');
    let range = std::str::from_utf8(words.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_writable = words.next()?.starts_with(b"rw");
    is_writable.then_some((number(start)?, number(end)?))
}

/// Pauses that grow, up to an end.
struct Pause {
    next: Duration,
    end: Option<Instant>,
}

impl Pause {
    fn new(end: Option<Instant>) -> Self {
        let (next, _) = PAUSES;
        Self { next, end }
    }

    /// Waits a little; answers false when it is too late.
    fn rest(&mut self) -> bool {
        let left = match self.end {
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        };
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(self.next.min(left));
        let (_, longest) = PAUSES;
        self.next = (self.next * 2).min(longest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_starts_and_not_their_ends() {
        let ranges = Ranges::new(vec![(0x3000, 0x10), (0x1000, 0x1000), (u64::MAX - 1, 5)]);
        for (address, is_in) in [
            (0, false),
            (0xfff, false),
            (0x1000, true),
            (0x1fff, true),
            (0x2000, false),
            (0x3000, true),
            (0x300f, true),
            (0x3010, false),
            (u64::MAX - 1, true),
        ] {
            assert_eq!(ranges.contain(address), is_in, "{address:#x}");
        }
    }

    #[test]
    fn stacks_are_in_writable_memory() {
        let maps = b"1000-2000 r-xp 00000000 08:01 7 /bin/a\n2000-3000 rw-p 0 0 0 \xff\n\
                     3000-4000 rw-p 00000000 00:00 0\n4000-5000 ---p 0 0 0\n\
                     5000-6000 rw-p 0 0 0 [stack]\n";
        assert_eq!(writable(maps), [(0x2000, 0x4000), (0x5000, 0x6000)]);
    }

    #[test]
    fn threads_end() {
        assert!(!has_ended(own_thread()));
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || sender.send(own_thread()));
        let id = receiver.recv().unwrap();
        thread.join().unwrap().unwrap();
        // The system lets `join` return before the thread is off the list.
        while !has_ended(id) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_signal_is_given_back() {
        let claim = Claim::new().unwrap();
        let signal = claim.signal;
        let other = Claim::new().unwrap();
        assert_ne!(other.signal, signal);
        for claim in [claim, other] {
            let signal = claim.signal;
            drop(claim);
            assert_eq!(handler_of(signal), Some(libc::SIG_DFL));
        }
    }
}
