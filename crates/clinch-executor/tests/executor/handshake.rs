//! Handshakes that fail, on either side, in time.

use super::support::{Raw, greeting, local, secret, short};
use clinch_executor::wire::WireError;
use clinch_executor::wire::handshake::{Decline, Greeting, Handshake};
use clinch_executor::{Controller, ControllerOptions, Error, Executor, Limits, Secret, Stream};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What an executor says of a raw controller.
fn executor(stream: Stream) -> JoinHandle<Result<(), Error>> {
    limited_executor(stream, Limits::default())
}

fn limited_executor(stream: Stream, limits: Limits) -> JoinHandle<Result<(), Error>> {
    let mut executor = Executor::new(secret());
    executor.limits = limits;
    std::thread::spawn(move || executor.serve(stream))
}

/// What a controller says of a raw executor.
fn controller(stream: Stream) -> JoinHandle<Result<(), Error>> {
    limited_controller(stream, Limits::default())
}

fn limited_controller(stream: Stream, limits: Limits) -> JoinHandle<Result<(), Error>> {
    let options = ControllerOptions {
        limits,
        ..ControllerOptions::default()
    };
    std::thread::spawn(move || Controller::connect_with(stream, &secret(), options).map(|_| ()))
}

#[test]
fn facts_are_this_machines() {
    let (controller, serving) = local(ControllerOptions::default());
    let facts = controller.facts();
    assert_eq!(facts.architecture, std::env::consts::ARCH);
    assert_eq!(usize::from(facts.pointer_size), size_of::<usize>());
    assert_eq!(facts.big_endian, cfg!(target_endian = "big"));
    assert!(facts.page_size >= 4096 && facts.granularity >= facts.page_size);
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}

#[test]
fn another_secret() {
    let (ours, theirs) = Stream::pair().unwrap();
    let serving = executor(theirs);
    let other = Secret::new(b"another secret of tests").unwrap();
    let failed = Controller::connect(ours, &other).err();
    assert_eq!(failed, Some(Error::WrongSecret));
    assert_eq!(serving.join().unwrap(), Err(Error::WrongSecret));
}

#[test]
fn an_executor_that_does_not_know_the_secret_is_no_executor() {
    let (mut raw, stream) = Raw::new();
    let connecting = controller(stream);
    assert!(matches!(raw.read_handshake(), Some(Handshake::Hello(_))));
    raw.handshake(&Handshake::Challenge(greeting()));
    let Some(Handshake::Proof(proof)) = raw.read_handshake() else {
        panic!("no proof");
    };
    // The controller's own proof is not the executor's.
    let (controller, _serving) = local(ControllerOptions::default());
    raw.handshake(&Handshake::Welcome {
        proof,
        facts: controller.facts().clone(),
    });
    assert_eq!(connecting.join().unwrap(), Err(Error::WrongSecret));
    assert!(raw.ends());
}

#[test]
fn an_old_proof_does_not_open_again() {
    let (mut raw, stream) = Raw::new();
    let connecting = controller(stream);
    let hello = raw.read_handshake().unwrap();
    raw.handshake(&Handshake::Challenge(greeting()));
    let proof = raw.read_handshake().unwrap();
    drop(raw);
    assert_eq!(connecting.join().unwrap(), Err(Error::Closed));
    let (mut raw, stream) = Raw::new();
    let serving = executor(stream);
    raw.handshake(&hello);
    assert!(matches!(
        raw.read_handshake(),
        Some(Handshake::Challenge(_))
    ));
    raw.handshake(&proof);
    let declined = Handshake::Decline(Decline::Secret);
    assert_eq!(raw.read_handshake(), Some(declined));
    assert!(raw.ends());
    assert_eq!(serving.join().unwrap(), Err(Error::WrongSecret));
}

#[test]
fn another_version() {
    let (mut raw, stream) = Raw::new();
    let serving = executor(stream);
    let (oldest, newest) = (7, 9);
    raw.handshake(&Handshake::Hello(Greeting {
        oldest,
        newest,
        ..greeting()
    }));
    let declined = Decline::Version {
        oldest: 1,
        newest: 1,
    };
    assert_eq!(raw.read_handshake(), Some(Handshake::Decline(declined)));
    assert!(raw.ends());
    let versions = |theirs| Error::Version {
        ours: (1, 1),
        theirs,
    };
    assert_eq!(serving.join().unwrap(), Err(versions((7, 9))));

    let (mut raw, stream) = Raw::new();
    let connecting = controller(stream);
    assert!(raw.read_handshake().is_some());
    raw.handshake(&Handshake::Decline(Decline::Version { oldest, newest }));
    assert_eq!(connecting.join().unwrap(), Err(versions((7, 9))));

    // A newer controller that still speaks ours is welcome.
    let (mut raw, stream) = Raw::new();
    let _serving = executor(stream);
    raw.handshake(&Handshake::Hello(Greeting {
        newest: 9,
        ..greeting()
    }));
    let Some(Handshake::Challenge(challenge)) = raw.read_handshake() else {
        panic!("no challenge");
    };
    assert_eq!((challenge.oldest, challenge.newest), (1, 1));
}

#[test]
fn who_wants_frames_sealed_gets_nothing_else() {
    let (mut raw, stream) = Raw::new();
    let options = ControllerOptions {
        sealed: true,
        ..ControllerOptions::default()
    };
    let connecting = std::thread::spawn(move || {
        Controller::connect_with(stream, &secret(), options).map(|_| ())
    });
    assert!(matches!(raw.read_handshake(), Some(Handshake::Hello(hello)) if hello.sealed));
    raw.handshake(&Handshake::Challenge(greeting()));
    assert_eq!(connecting.join().unwrap(), Err(Error::NotSealed));
    assert!(raw.ends());
}

#[test]
fn garbage() {
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 64],
    ] {
        for connect in [executor, controller] {
            let (mut raw, stream) = Raw::new();
            let peer = connect(stream);
            raw.bytes(garbage);
            let failed = peer.join().unwrap().unwrap_err();
            assert!(matches!(failed, Error::Wire(_)), "{failed}");
            assert!(raw.ends());
        }
    }
    // The right shape with another magic.
    let (mut raw, stream) = Raw::new();
    let serving = executor(stream);
    let mut payload = Vec::new();
    Handshake::Hello(greeting()).encode(&mut payload);
    payload[0] ^= 1;
    raw.frame(1, 0, &payload);
    let failed = serving.join().unwrap();
    assert!(matches!(failed, Err(Error::Wire(WireError::Value { .. }))));
}

#[test]
fn a_large_message_before_the_proof_is_refused() {
    let (mut raw, stream) = Raw::new();
    let serving = executor(stream);
    raw.frame(1, 0, &[0; 1025]);
    let too_large = WireError::TooLarge {
        size: 1025,
        limit: 1024,
    };
    assert_eq!(serving.join().unwrap(), Err(too_large.into()));
}

#[test]
fn silence_and_slowness_end_in_time() {
    let late = Err(Error::NoHandshake(short().handshake));
    for connect in [limited_executor, limited_controller] {
        for bytes in [&b""[..], &[55, 0, 0]] {
            let begin = Instant::now();
            let (mut raw, stream) = Raw::new();
            let peer = connect(stream, short());
            raw.bytes(bytes);
            assert_eq!(peer.join().unwrap(), late);
            assert!(begin.elapsed() < Duration::from_secs(5));
            assert!(raw.ends());
        }
    }
}

#[test]
fn a_peer_that_hangs_up() {
    for connect in [executor, controller] {
        let (raw, stream) = Raw::new();
        drop(raw);
        assert_eq!(connect(stream).join().unwrap(), Err(Error::Closed));
    }
}

#[test]
fn over_the_net_frames_are_sealed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let executor = Executor::new(secret());
    let serving = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        executor.serve(Stream::tcp(socket)?)
    });
    let options = ControllerOptions::default();
    let controller = Controller::connect_to(&address, &secret(), options).unwrap();
    let answer = super::support::code(&controller, super::support::ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}
