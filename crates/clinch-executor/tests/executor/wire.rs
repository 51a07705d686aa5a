//! Every message comes out as it went in, and in one encoding only.

use clinch_executor::Facts;
use clinch_executor::wire::handshake::{Decline, Greeting, Handshake};
use clinch_executor::wire::{
    Action, Array, Found, Piece, Place, Protection, Refusal, Reply, Segment, SharedSegment, Step,
    ThreadLocal, ToController, ToExecutor, WireError,
};

/// All kinds of actions.
fn actions() -> Vec<Action> {
    let array = Array {
        address: 7,
        count: 8,
        backward: true,
    };
    vec![
        Action::RegisterFrames { begin: 1 },
        Action::DeregisterFrames { begin: 2 },
        Action::WriteWord {
            address: 3,
            value: 4,
        },
        Action::ResolveIfunc {
            slot: 5,
            resolver: 6,
        },
        Action::RunArray(array),
        Action::RunHandlers { handle: 9 },
        Action::Call {
            function: 10,
            input: b"input".to_vec(),
        },
        Action::MoveVariable {
            from: 11,
            to: 12,
            size: 13,
        },
        Action::InitializeThreadLocal {
            block: 14,
            image: 15,
            size: 16,
        },
        Action::ReleaseThreadLocal { block: 17 },
        Action::RegisterImage {
            address: 18,
            size: 19,
            blank: b"blank".to_vec(),
        },
        Action::DeregisterImage { address: 20 },
        Action::RegisterFinalizers { arrays: Vec::new() },
        Action::RegisterFinalizers {
            arrays: vec![array, array],
        },
        Action::RunFinalizers { first: 21 },
    ]
}

/// All kinds of messages to an executor.
fn to_executor() -> Vec<ToExecutor<'static>> {
    let address = 0x1122_3344_5566_7788;
    let size = 5;
    let places = [Place::Any, Place::Low, Place::Near];
    let protections = [
        Protection::None,
        Protection::Read,
        Protection::ReadWrite,
        Protection::ReadExecute,
    ];
    let mut all: Vec<ToExecutor<'_>> = Vec::new();
    all.extend(places.map(|place| ToExecutor::Reserve {
        size,
        align: 16,
        place,
    }));
    all.extend(protections.map(|protection| ToExecutor::Protect {
        address,
        size,
        protection,
    }));
    let pieces = [&b""[..], b"abc"].map(|bytes| Piece { address, bytes });
    let segments = protections.map(|protection| Segment {
        address,
        size,
        protection,
        sealed_late: protection == Protection::Read,
        content: b"content",
    });
    let shared = protections.map(|protection| SharedSegment {
        address,
        size,
        protection,
        sealed_late: protection == Protection::Read,
        offset: 0x3000,
    });
    let steps = actions().into_iter().enumerate().map(|(n, action)| Step {
        undo: (n % 2 == 0).then(|| action.clone()),
        action,
    });
    all.extend([
        ToExecutor::Release { address },
        ToExecutor::Write {
            pieces: pieces.to_vec(),
        },
        ToExecutor::Zero { address, size },
        ToExecutor::Finalize {
            segments: segments.to_vec(),
            steps: steps.collect(),
        },
        ToExecutor::Finalize {
            segments: Vec::new(),
            steps: Vec::new(),
        },
        ToExecutor::FinalizeShared {
            segments: shared.to_vec(),
            steps: vec![Step {
                action: Action::RunHandlers { handle: 3 },
                undo: None,
            }],
        },
        ToExecutor::Deallocate {
            allocations: vec![1, 2],
        },
        ToExecutor::Withdraw {
            allocation: 3,
            ranges: vec![(4, 5), (6, 7)],
            undo: actions(),
        },
        ToExecutor::Perform { actions: actions() },
        ToExecutor::Read { address, size: 7 },
        ToExecutor::LookUp {
            library: None,
            names: vec![b"a", b""],
        },
        ToExecutor::LookUp {
            library: Some(3),
            names: Vec::new(),
        },
        ToExecutor::LookUpThreadLocal {
            names: vec![b"a", b""],
        },
        ToExecutor::ReserveThreadLocal { size, align: 64 },
        ToExecutor::Open { path: b"libm.so.6" },
        ToExecutor::Arguments {
            values: vec![b"program", b"argument"],
        },
        ToExecutor::Main { address },
        ToExecutor::Void { address },
        ToExecutor::Int {
            address,
            argument: -2,
        },
        ToExecutor::Wrapper {
            address,
            input: b"input",
        },
        ToExecutor::Dispatched(Ok(b"answer")),
        ToExecutor::Dispatched(Err("why")),
        ToExecutor::Alive,
        ToExecutor::Goodbye,
    ]);
    all
}

/// All kinds of refusals; those that have a text, with this one.
fn refusals(text: &str) -> [Refusal; 21] {
    [
        Refusal::NotOwned {
            address: 1,
            size: 2,
        },
        Refusal::NotAllowed {
            address: 3,
            size: 4,
        },
        Refusal::InUse(5),
        Refusal::Unaligned(6),
        Refusal::TooLarge(7),
        Refusal::NoSpace(8),
        Refusal::System {
            what: text.to_owned(),
            code: 12,
        },
        Refusal::Library(text.to_owned()),
        Refusal::NoLibrary(9),
        Refusal::NoAllocation(10),
        Refusal::NotCode(11),
        Refusal::Frames(12),
        Refusal::Action {
            index: 13,
            why: text.to_owned(),
        },
        Refusal::Busy,
        Refusal::ThreadEnded,
        Refusal::ZeroByte,
        Refusal::Failed(text.to_owned()),
        Refusal::NoThreadLocalSpace {
            want: 14,
            align: 15,
            have: 16,
        },
        Refusal::ThreadLocal(text.to_owned()),
        Refusal::Image(17),
        Refusal::NotShared {
            offset: 18,
            size: 19,
        },
    ]
}

/// All kinds of messages to a controller.
fn to_controller() -> Vec<ToController<'static>> {
    let found = Found {
        address: 1,
        size: 2,
        is_data: true,
    };
    let mut all = vec![
        ToController::Reply(Reply::Done),
        ToController::Reply(Reply::Address(1)),
        ToController::Reply(Reply::Allocation(2)),
        ToController::Reply(Reply::Bytes(b"bytes".to_vec())),
        ToController::Reply(Reply::Found(vec![None, Some(found)])),
        ToController::Reply(Reply::Offsets(vec![None, Some(-5)])),
        ToController::Reply(Reply::ThreadLocal(ThreadLocal {
            block: 6,
            offset: -7,
        })),
        ToController::Reply(Reply::Library(3)),
        ToController::Reply(Reply::Status(-4)),
        ToController::Dispatch {
            tag: 5,
            input: b"input",
        },
        ToController::Log { text: "text" },
        ToController::Alive,
        ToController::Goodbye { reason: "reason" },
    ];
    let refused = |refusal| ToController::Reply(Reply::Refused(refusal));
    all.extend(refusals("text").map(refused));
    all
}

/// All kinds of messages of the handshake.
fn handshakes() -> Vec<Handshake> {
    let greeting = Greeting {
        oldest: 1,
        newest: 2,
        sealed: true,
        silence: 3,
        nonce: [4; 32],
    };
    let facts = Facts {
        architecture: "name".to_owned(),
        pointer_size: 8,
        big_endian: false,
        page_size: 4096,
        granularity: 65_536,
        dispatch: 5,
        context: 6,
    };
    vec![
        Handshake::Hello(greeting),
        Handshake::Challenge(greeting),
        Handshake::Proof([7; 32]),
        Handshake::Welcome {
            proof: [8; 32],
            facts,
        },
        Handshake::Decline(Decline::Version {
            oldest: 9,
            newest: 10,
        }),
        Handshake::Decline(Decline::Secret),
    ]
}

/// What was written reads back the same; less or more of it is an error.
fn check<M: PartialEq + std::fmt::Debug>(
    message: &M,
    payload: &[u8],
    decode: impl Fn(&[u8]) -> Result<M, WireError>,
) {
    assert_eq!(decode(payload).as_ref(), Ok(message));
    for n in 0..payload.len() {
        assert!(decode(&payload[..n]).is_err(), "{n} bytes of {message:?}");
    }
    let longer = [payload, &[0]].concat();
    assert!(decode(&longer).is_err(), "{message:?} and more");
}

#[test]
fn messages_to_an_executor() {
    for message in to_executor() {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        // With copies that live as long as the test.
        let payload: &'static [u8] = payload.leak();
        assert_eq!(
            ToExecutor::decode(message.kind(), payload).as_ref(),
            Ok(&message)
        );
        for n in 0..payload.len() {
            let part = ToExecutor::decode(message.kind(), &payload[..n]);
            assert!(part.is_err(), "{n} bytes of {message:?}");
        }
        let longer = [payload, &[0]].concat();
        assert_eq!(
            ToExecutor::decode(message.kind(), &longer),
            Err(WireError::Trailing(1))
        );
    }
}

#[test]
fn messages_to_a_controller() {
    for message in to_controller() {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        let payload: &'static [u8] = payload.leak();
        assert_eq!(
            ToController::decode(message.kind(), payload).as_ref(),
            Ok(&message)
        );
        for n in 0..payload.len() {
            let part = ToController::decode(message.kind(), &payload[..n]);
            assert!(part.is_err(), "{n} bytes of {message:?}");
        }
    }
}

#[test]
fn messages_of_the_handshake() {
    for message in handshakes() {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        check(&message, &payload, |payload| {
            Handshake::decode(message.kind(), payload)
        });
    }
}

#[test]
fn kinds_are_told_apart() {
    let mut executor: Vec<u16> = to_executor().iter().map(ToExecutor::kind).collect();
    let mut controller: Vec<u16> = to_controller().iter().map(ToController::kind).collect();
    executor.dedup();
    controller.dedup();
    for kind in 0..=u16::MAX {
        let unknown = Err(WireError::Kind(kind));
        if !executor.contains(&kind) {
            assert_eq!(ToExecutor::decode(kind, &[]), unknown);
        }
        if !controller.contains(&kind) {
            assert_eq!(
                ToController::decode(kind, &[]),
                unknown.map(|_: ToExecutor<'_>| ToController::Alive)
            );
        }
    }
    // Nobody can be told something that is meant for the other side.
    assert!(executor.iter().all(|kind| !controller.contains(kind)));
}

#[test]
fn what_a_message_says_is_its_bytes() {
    let mut payload = Vec::new();
    ToExecutor::Protect {
        address: 0x0102,
        size: 3,
        protection: Protection::ReadExecute,
    }
    .encode(&mut payload);
    assert_eq!(payload, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3]);
    // There is no protection that allows writing and running.
    for value in 4..=u8::MAX {
        payload[16] = value;
        let wrong = ToExecutor::decode(0x14, &payload);
        assert!(matches!(wrong, Err(WireError::Value { .. })), "{value}");
    }
}

/// Also when a peer says nothing about it.
#[test]
fn every_refusal_has_a_text() {
    for refusal in refusals("") {
        assert_ne!(refusal.to_string().trim(), "", "{refusal:?}");
    }
}
