//! What must hold of both sides of the executor protocol behind an honest handshake: whatever the
//! peer says, a side answers or ends the connection, in time, and what it held is given back.
//!
//! Each side is a real one; the other is played. For the handshake, whose proofs only the two know
//! how to make, both are real, and what they say goes through the player, who then takes the place
//! of one of them.

mod client;
mod server;

pub use client::executor_client;
pub use server::executor_server;

use clinch_executor::wire::{HEADER, Header, MAX_PAYLOAD};
use clinch_executor::{Controller, ControllerOptions, Error, Executor, Limits, Secret, Stream};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing takes as long: what does, hangs.
const HANGS: Duration = Duration::from_secs(8);
/// How many messages the handshake has, the controller's first, in turns.
const HANDSHAKE: usize = 4;

/// Limits that a connection does not reach.
fn limits() -> Limits {
    Limits {
        handshake: HANGS,
        answer: HANGS * 2,
        message: HANGS,
        heartbeat: HANGS * 2,
        silence: None,
        end: HANGS,
    }
}

/// Both sides, and for each who is in the place of its peer.
struct Connected {
    controller: Controller,
    executor: JoinHandle<Result<(), Error>>,
    /// In the place of the executor.
    to_controller: Peer,
    /// In the place of the controller.
    to_executor: Peer,
}

/// Connects both through a player.
fn connect(executor: &Executor, options: ControllerOptions) -> Connected {
    let (mut to_controller, theirs) = Peer::new();
    let secret = executor.secret.clone();
    let leading = std::thread::spawn(move || Controller::connect_with(theirs, &secret, options));
    let (mut to_executor, theirs) = Peer::new();
    let serving = executor.clone();
    let executor = std::thread::spawn(move || serving.serve(theirs));
    for turn in 0..HANDSHAKE {
        let (from, to) = if turn.is_multiple_of(2) {
            (&mut to_controller, &mut to_executor)
        } else {
            (&mut to_executor, &mut to_controller)
        };
        let frame = from.read().expect("a message of the handshake");
        to.frame(frame.kind, frame.sequence, &frame.payload);
    }
    let controller = leading.join().expect("a thread").expect("a connection");
    Connected {
        controller,
        executor,
        to_controller,
        to_executor,
    }
}

fn secret() -> Secret {
    Secret::new(b"a secret of fuzzing").expect("a secret")
}

/// A frame that came.
struct Frame {
    kind: u16,
    sequence: u64,
    payload: Vec<u8>,
}

/// A peer that says what it wants.
struct Peer {
    stream: UnixStream,
}

impl Peer {
    /// A peer, and the stream to it.
    fn new() -> (Self, Stream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_read_timeout(Some(HANGS)).expect("a time limit");
        ours.set_write_timeout(Some(HANGS)).expect("a time limit");
        let stream = Stream::socket(theirs).expect("a stream");
        (Self { stream: ours }, stream)
    }

    /// Says a frame. Who hung up does not hear it.
    fn frame(&mut self, kind: u16, sequence: u64, payload: &[u8]) {
        let size = u32::try_from(payload.len()).expect("a short payload");
        let header = Header {
            size,
            kind,
            sequence,
        };
        self.bytes(&[&header.encode()[..], payload].concat());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame; `None` at the end. Who says nothing though it is his turn hangs.
    fn read(&mut self) -> Option<Frame> {
        let mut header = [0; HEADER];
        self.fill(&mut header)?;
        let header = Header::decode(header, MAX_PAYLOAD).expect("a sound header");
        let mut payload = vec![0; header.size.try_into().expect("a size")];
        self.fill(&mut payload)?;
        Some(Frame {
            kind: header.kind,
            sequence: header.sequence,
            payload,
        })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        use std::io::ErrorKind;
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("no answer within {HANGS:?}")
            }
            Err(_) => None,
        }
    }

    /// Hangs up.
    fn end(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// What a thread answers, which must be soon.
fn joined<T>(thread: JoinHandle<T>) -> T {
    let until = Instant::now() + HANGS;
    while !thread.is_finished() {
        assert!(Instant::now() < until, "a thread hangs");
        std::thread::sleep(Duration::from_micros(50));
    }
    thread
        .join()
        .unwrap_or_else(|why| std::panic::resume_unwind(why))
}

/// How many descriptors, and how much address space, may be in use beyond what was after the first
/// connection: room for what a sanitizer and the threads of another test take.
const MORE_DESCRIPTORS: u64 = 48;
const MORE_PAGES: u64 = (4 << 30) / 4096;

/// Panics when what connections held was not given back, which many of them together show.
fn nothing_leaks() {
    static DESCRIPTORS: AtomicU64 = AtomicU64::new(0);
    static PAGES: AtomicU64 = AtomicU64::new(0);
    // Threads that end give back what they hold a little later.
    let until = Instant::now() + HANGS;
    loop {
        let now = (descriptors(), pages());
        let _ = DESCRIPTORS.compare_exchange(0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        let _ = PAGES.compare_exchange(0, now.1, Ordering::Relaxed, Ordering::Relaxed);
        let first = (
            DESCRIPTORS.load(Ordering::Relaxed),
            PAGES.load(Ordering::Relaxed),
        );
        if now.0 <= first.0 + MORE_DESCRIPTORS && now.1 <= first.1 + MORE_PAGES {
            return;
        }
        assert!(
            Instant::now() < until,
            "descriptors and pages: at first {first:?}, now {now:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many descriptors are open.
fn descriptors() -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").map(Iterator::count);
    u64::try_from(open.unwrap_or(0)).unwrap_or(0)
}

/// How many pages of address space are in use.
fn pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::executor_client;
    use super::server::serve;
    use crate::generate::seeded;
    use clinch_executor::Refusal;
    use clinch_executor::wire::{Reply, ThreadLocal, ToController};

    #[test]
    fn any_bytes_are_an_executor() {
        executor_client(&[]);
        for seed in 0..40 {
            executor_client(&seeded(seed, 400));
        }
    }

    /// They get as far as every answer that an executor has, and as calls of linked code.
    #[test]
    fn any_bytes_are_a_controller() {
        let mut heard = serve(&[]);
        for seed in 0..1000 {
            heard.extend(serve(&seeded(seed, 400)));
        }
        let replies = [
            Reply::Done,
            Reply::Address(0),
            Reply::Allocation(0),
            Reply::Bytes(Vec::new()),
            Reply::Found(Vec::new()),
            Reply::Offsets(Vec::new()),
            Reply::ThreadLocal(ThreadLocal {
                block: 0,
                offset: 0,
            }),
            Reply::Library(0),
            Reply::Status(0),
            Reply::Refused(Refusal::Busy),
        ];
        let replies = replies.map(ToController::Reply);
        let others = [
            ToController::Dispatch { tag: 0, input: &[] },
            ToController::Goodbye { reason: "" },
        ];
        for message in replies.iter().chain(&others) {
            assert!(heard.contains(&message.kind()), "{message:?}");
        }
    }
}
