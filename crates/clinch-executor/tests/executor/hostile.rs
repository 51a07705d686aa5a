//! Peers that know the secret and do not keep to the protocol: an error on both sides, in time.

use super::support::{Raw, greeting, secret, short};
use clinch_executor::wire::handshake::Handshake;
use clinch_executor::wire::{Encoder, Reply, ToController, ToExecutor, WireError};
use clinch_executor::{Controller, ControllerOptions, Error, Executor, Facts, Limits};
use std::thread::JoinHandle;
use std::time::Duration;

/// The key that both sides derive from the secret, as the protocol says.
fn prove(label: &str, parts: &[&[u8]]) -> [u8; 32] {
    let key = blake3::derive_key(
        "clinch-executor 2026 connection secret",
        b"a secret of tests",
    );
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(label.as_bytes());
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

fn payload(message: &Handshake) -> Vec<u8> {
    let mut payload = Vec::new();
    message.encode(&mut payload);
    payload
}

/// Short limits but for the handshake, and but for the one that is not looked at.
fn limits(silence: Option<Duration>) -> Limits {
    Limits {
        handshake: Duration::from_secs(10),
        silence,
        ..short()
    }
}

/// A raw controller whose handshake is done, and the executor that serves it.
pub(crate) fn raw_controller(silence: Option<Duration>) -> (Raw, JoinHandle<Result<(), Error>>) {
    let (mut raw, stream) = Raw::new();
    let mut executor = Executor::new(secret());
    executor.limits = limits(silence);
    let serving = std::thread::spawn(move || executor.serve(stream));
    let hello = Handshake::Hello(greeting());
    raw.handshake(&hello);
    let challenge = raw.read_handshake().unwrap();
    let proof = prove("controller", &[&payload(&hello), &payload(&challenge)]);
    raw.handshake(&Handshake::Proof(proof));
    let welcome = raw.read_handshake().unwrap();
    assert!(matches!(welcome, Handshake::Welcome { .. }));
    (raw, serving)
}

/// A raw executor whose handshake is done, and the controller that leads it, with a request that
/// waits.
fn raw_executor(silence: Option<Duration>) -> (Raw, JoinHandle<Error>) {
    let (mut raw, stream) = Raw::new();
    let mut options = ControllerOptions {
        limits: limits(silence),
        most_calls: 1,
        ..ControllerOptions::default()
    };
    options.limits.answer = Duration::from_secs(10);
    let leading = std::thread::spawn(move || {
        let controller = Controller::connect_with(stream, &secret(), options).unwrap();
        let error = controller.read(4096, 1).unwrap_err();
        assert_eq!(controller.ended(), Some(error.clone()));
        error
    });
    let hello = raw.read_handshake().unwrap();
    let challenge = Handshake::Challenge(greeting());
    raw.handshake(&challenge);
    let Some(Handshake::Proof(proof)) = raw.read_handshake() else {
        panic!("no proof");
    };
    let facts = Facts {
        architecture: "none".to_owned(),
        pointer_size: 8,
        big_endian: false,
        page_size: 4096,
        granularity: 4096,
        dispatch: 1,
        context: 2,
    };
    let mut told = Vec::new();
    facts.encode(&mut Encoder::new(&mut told));
    let proof = prove(
        "executor",
        &[&payload(&hello), &payload(&challenge), &proof, &told],
    );
    raw.handshake(&Handshake::Welcome { proof, facts });
    (raw, leading)
}

/// What each side says when the other sends these bytes: the same kind of error, and a raw
/// controller is told.
fn both(bytes: &[u8], wanted: WireError) {
    let (mut raw, serving) = raw_controller(None);
    raw.bytes(bytes);
    assert_eq!(serving.join().unwrap(), Err(wanted.into()), "{bytes:?}");
    let (kind, _, payload) = raw.read().unwrap();
    let told = ToController::decode(kind, &payload).unwrap();
    let reason = Error::from(wanted).to_string();
    assert_eq!(told, ToController::Goodbye { reason: &reason });
    assert!(raw.ends());

    let (mut raw, leading) = raw_executor(None);
    raw.bytes(bytes);
    assert_eq!(leading.join().unwrap(), wanted.into(), "{bytes:?}");
    assert!(raw.ends());
}

fn header(size: u32, kind: u16, zero: u16, sequence: u64) -> Vec<u8> {
    [
        &size.to_le_bytes()[..],
        &kind.to_le_bytes(),
        &zero.to_le_bytes(),
        &sequence.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn headers_that_are_wrong() {
    let too_large = |size| WireError::TooLarge {
        size,
        limit: 1 << 20,
    };
    both(&header(u32::MAX, 0x22, 0, 0), too_large(u32::MAX));
    both(&header((1 << 20) + 1, 0x22, 0, 0), too_large((1 << 20) + 1));
    both(&header(0, 0x22, 5, 0), WireError::Header(5));
    both(&header(0, 0xfff0, 0, 1), WireError::Kind(0xfff0));
    // The handshake is over.
    both(&header(0, 3, 0, 0), WireError::Kind(3));
}

#[test]
fn messages_that_are_wrong_for_an_executor() {
    let cases = [
        (0x18, &[0; 11][..], 1, WireError::Truncated),
        (0x22, &[0], 0, WireError::Trailing(1)),
        (
            0x14,
            &[9; 17],
            1,
            WireError::Value {
                what: "protection",
                value: 9,
            },
        ),
        (0x12, &[255, 255, 255, 255], 1, WireError::Truncated),
        (
            0x11,
            &[0; 8],
            2,
            WireError::Sequence {
                wanted: 1,
                found: 2,
            },
        ),
        (
            0x11,
            &[0; 8],
            0,
            WireError::Sequence {
                wanted: 1,
                found: 0,
            },
        ),
        (
            0x22,
            &[],
            1,
            WireError::Sequence {
                wanted: 0,
                found: 1,
            },
        ),
        // An answer that nobody waits for.
        (
            0x20,
            &[0; 4],
            1,
            WireError::Sequence {
                wanted: 0,
                found: 1,
            },
        ),
    ];
    for (kind, payload, sequence, wanted) in cases {
        let (mut raw, serving) = raw_controller(None);
        raw.frame(kind, sequence, payload);
        let failed = serving.join().unwrap();
        assert_eq!(failed, Err(wanted.into()), "{kind:#x}");
        assert!(raw.ends());
    }
}

#[test]
fn messages_that_are_wrong_for_a_controller() {
    let sequence = |wanted, found| WireError::Sequence { wanted, found };
    let cases = [
        (0x83, &[0; 3][..], 1, WireError::Truncated),
        (0x80, &[0], 1, WireError::Trailing(1)),
        (0x80, &[], 2, sequence(0, 2)),
        // An answer of another kind, and one of the right kind that is too short.
        (0x80, &[], 1, WireError::Answer),
        (0x83, &[0; 4], 1, WireError::Answer),
        (0x90, &[0; 12], 7, sequence(1, 7)),
        (0x92, &[], 1, sequence(0, 1)),
        (0x91, &[1, 0, 0, 0, 0xff], 0, WireError::Text),
    ];
    for (kind, payload, number, wanted) in cases {
        let (mut raw, leading) = raw_executor(None);
        // Once the request is there, it waits.
        assert_eq!(raw.read().unwrap().1, 1);
        raw.frame(kind, number, payload);
        assert_eq!(leading.join().unwrap(), wanted.into(), "{kind:#x}");
        assert!(raw.ends());
    }
}

#[test]
fn answers_twice_are_one_too_many() {
    let (mut raw, leading) = raw_executor(None);
    assert_eq!(raw.read().unwrap().1, 1);
    let mut answer = Vec::new();
    ToController::Reply(Reply::Bytes(vec![1])).encode(&mut answer);
    raw.frame(0x83, 1, &answer);
    raw.frame(0x83, 1, &answer);
    // The first is fine, so the thread's request succeeds, which it does not expect.
    assert!(leading.join().is_err());
    assert!(raw.ends());
}

#[test]
fn a_flood_of_calls_ends_the_connection() {
    let (mut raw, leading) = raw_executor(None);
    for sequence in 1..=100_000 {
        raw.frame(0x90, sequence, &[0; 12]);
    }
    let error = leading.join().unwrap();
    // Answering may be as fast as asking: then the flood ends with the peer's silence.
    assert!(
        matches!(
            error,
            Error::TooManyCalls(1) | Error::Silent(_) | Error::Slow(_) | Error::NoAnswer { .. }
        ),
        "{error}"
    );
}

#[test]
fn silence_and_slowness_after_the_handshake() {
    let limit = Some(Duration::from_millis(100));
    let (raw, serving) = raw_controller(limit);
    let silent = Error::Silent(Duration::from_millis(100));
    assert_eq!(serving.join().unwrap(), Err(silent.clone()));
    assert!(raw.ends());
    let (raw, leading) = raw_executor(limit);
    assert_eq!(leading.join().unwrap(), silent);
    assert!(raw.ends());
    let slow = Error::Slow(Duration::from_millis(50));
    let part = header(100, 0x18, 0, 1);
    let (mut raw, serving) = raw_controller(None);
    raw.bytes(&part);
    assert_eq!(serving.join().unwrap(), Err(slow.clone()));
    let (mut raw, leading) = raw_executor(None);
    raw.bytes(&part);
    assert_eq!(leading.join().unwrap(), slow);
}

#[test]
fn a_controller_that_takes_no_answers() {
    let (mut raw, serving) = raw_controller(None);
    let mut payload = Vec::new();
    let names = vec![&b""[..]; 200_000];
    ToExecutor::LookUp {
        library: None,
        names,
    }
    .encode(&mut payload);
    // Each answer is of some size; nobody reads them.
    for sequence in 1..=20 {
        raw.frame(0x19, sequence, &payload);
    }
    let error = serving.join().unwrap().unwrap_err();
    assert_eq!(error, Error::Slow(Duration::from_millis(50)));
}

#[test]
fn a_peer_that_dies() {
    let (raw, serving) = raw_controller(None);
    drop(raw);
    assert_eq!(serving.join().unwrap(), Err(Error::Closed));
    let (raw, leading) = raw_executor(None);
    drop(raw);
    assert_eq!(leading.join().unwrap(), Error::Closed);
    // In the middle of a message.
    let (mut raw, serving) = raw_controller(None);
    raw.bytes(&header(100, 0x18, 0, 1));
    drop(raw);
    assert_eq!(serving.join().unwrap(), Err(Error::Closed));
}

#[test]
fn an_executor_that_gives_up_says_why() {
    let (mut raw, leading) = raw_executor(None);
    let mut payload = Vec::new();
    ToController::Goodbye { reason: "tired" }.encode(&mut payload);
    raw.frame(0x93, 0, &payload);
    assert_eq!(leading.join().unwrap(), Error::GaveUp("tired".to_owned()));
}
