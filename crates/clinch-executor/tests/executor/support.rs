//! Executors in threads and children, raw peers, and code to run.

use clinch_executor::wire::handshake::{Greeting, Handshake};
use clinch_executor::wire::{HEADER, Header, Place, Protection, Segment};
use clinch_executor::{
    Client, Controller, ControllerOptions, Error, Executor, Limits, Secret, Stream,
};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

/// `mov eax, 42; ret`.
pub(crate) const ANSWER: &[u8] = &[0xb8, 42, 0, 0, 0, 0xc3];
/// `jmp .`: runs for ever.
pub(crate) const SPIN: &[u8] = &[0xeb, 0xfe];

/// An executor that is served in a thread.
pub(crate) type Serving = JoinHandle<Result<(), Error>>;

/// Limits that a test can wait for.
pub(crate) fn short() -> Limits {
    Limits {
        handshake: Duration::from_millis(50),
        answer: Duration::from_millis(200),
        message: Duration::from_millis(50),
        heartbeat: Duration::from_millis(20),
        silence: Some(Duration::from_millis(100)),
        end: Duration::from_millis(500),
    }
}

pub(crate) fn secret() -> Secret {
    Secret::new(b"a secret of tests").unwrap()
}

/// A controller and an executor in this process.
pub(crate) fn local(options: ControllerOptions) -> (Controller, Serving) {
    let (ours, theirs) = Stream::pair().unwrap();
    let executor = Executor::new(secret());
    let serving = std::thread::spawn(move || executor.serve(theirs));
    let controller = Controller::connect_with(ours, &secret(), options).unwrap();
    (controller, serving)
}

/// A controller and an executor in a child process.
pub(crate) fn spawn(options: ControllerOptions) -> Controller {
    let arguments = ["child", "--exact", "--nocapture", "--quiet", "--"].map(OsString::from);
    Controller::spawn(None, &arguments, options).unwrap()
}

/// Places code in the executor.
pub(crate) fn code(client: &Client, bytes: &[u8]) -> u64 {
    place(client, bytes, Protection::ReadExecute)
}

/// Places bytes in pages of their own.
pub(crate) fn place(client: &Client, bytes: &[u8], protection: Protection) -> u64 {
    let size = u64::try_from(bytes.len()).unwrap();
    let address = client.reserve(size, 1, Place::Any).unwrap();
    let segment = Segment {
        address,
        size,
        protection,
        sealed_late: false,
        content: bytes,
    };
    client.finalize(&[segment], Vec::new()).unwrap();
    address
}

/// The address of a function of the C library.
pub(crate) fn function(client: &Client, name: &str) -> u64 {
    let found = client.look_up(None, &[name.as_bytes()]).unwrap();
    found[0].unwrap().address
}

/// `movabs` of a number into a register by the instruction's two bytes.
pub(crate) fn movabs(register: [u8; 2], value: u64) -> Vec<u8> {
    [&register[..], &value.to_le_bytes()].concat()
}

/// A function that calls another with one number and never returns itself.
pub(crate) fn calling(function: u64, argument: u64) -> Vec<u8> {
    // push rbp; mov rdi, argument; mov rax, function; call rax
    let parts = [
        &[0x55][..],
        &movabs([0x48, 0xbf], argument),
        &movabs([0x48, 0xb8], function),
        &[0xff, 0xd0],
    ];
    parts.concat()
}

/// A peer that says what a test wants.
pub(crate) struct Raw {
    stream: UnixStream,
}

impl Raw {
    /// A raw peer, and the stream to it.
    pub(crate) fn new() -> (Self, Stream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stream = Stream::socket(theirs).unwrap();
        // So that a test ends, whatever happens.
        let limit = Some(Duration::from_secs(20));
        ours.set_read_timeout(limit).unwrap();
        ours.set_write_timeout(limit).unwrap();
        (Self { stream: ours }, stream)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // A peer that hung up already is what the test looks at.
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn frame(&mut self, kind: u16, sequence: u64, payload: &[u8]) {
        let header = Header {
            size: payload.len().try_into().unwrap(),
            kind,
            sequence,
        };
        self.bytes(&[&header.encode()[..], payload].concat());
    }

    pub(crate) fn handshake(&mut self, message: &Handshake) {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        self.frame(message.kind(), 0, &payload);
    }

    /// The next frame: kind, number, payload; `None` at the end.
    pub(crate) fn read(&mut self) -> Option<(u16, u64, Vec<u8>)> {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).ok()?;
        let header = Header::decode(header, usize::MAX).unwrap();
        let mut payload = vec![0; header.size.try_into().unwrap()];
        self.stream.read_exact(&mut payload).ok()?;
        Some((header.kind, header.sequence, payload))
    }

    pub(crate) fn read_handshake(&mut self) -> Option<Handshake> {
        let (kind, _, payload) = self.read()?;
        Some(Handshake::decode(kind, &payload).unwrap())
    }

    /// Whether the other side ended the stream, after whatever it had to say.
    pub(crate) fn ends(mut self) -> bool {
        std::io::copy(&mut self.stream, &mut std::io::sink()).is_ok()
    }
}

/// A greeting of our version.
pub(crate) fn greeting() -> Greeting {
    Greeting {
        oldest: 1,
        newest: 1,
        sealed: false,
        silence: 0,
        nonce: [3; 32],
    }
}
