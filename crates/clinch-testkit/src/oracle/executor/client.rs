//! The controller: an executor that it asked for things says anything.

use super::{Connected, Peer, connect, joined, limits, nothing_leaks, secret};
use crate::generate::Choices;
use clinch_executor::wire::{
    Action, Found, Piece, Place, Protection, Refusal, Reply, Segment, ThreadLocal, ToController,
    ToExecutor,
};
use clinch_executor::{Client, ControllerOptions, DispatchHandler, Error, Executor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The most messages of a connection.
const MOST_MESSAGES: usize = 48;
/// How many calls of linked code may wait for the controller.
const MOST_CALLS: usize = 4;
/// More than fits into one message.
const LARGE: usize = (1 << 20) + 5000;

/// Bytes as what an executor says while requests are open.
pub fn executor_client(bytes: &[u8]) {
    let executor = Executor {
        limits: limits(),
        ..Executor::new(secret())
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let options = ControllerOptions {
        limits: limits(),
        dispatch: Some(handler(Arc::clone(&calls))),
        log: Some(Arc::new(|text| assert!(text.len() <= 1 << 20))),
        most_calls: MOST_CALLS,
        ..ControllerOptions::default()
    };
    let Connected {
        controller,
        executor,
        to_controller,
        to_executor,
    } = connect(&executor, options);
    // The player takes its place.
    to_executor.end();
    assert_eq!(joined(executor), Err(Error::Closed));

    let choices = &mut Choices::new(bytes);
    let answered = Arc::new(AtomicUsize::new(0));
    let asked = ask(&controller, choices, &answered);
    let waiting: Vec<JoinHandle<()>> = (0..choices.below(3))
        .map(|_| wait(controller.client(), choices.byte()))
        .collect();
    let mut player = Player {
        hearing: hear(&to_controller),
        peer: to_controller,
    };
    player.play(choices);
    player.peer.end();
    joined(player.hearing);

    waiting.into_iter().for_each(joined);
    // Who asks now is told at once.
    let client = controller.client();
    let ended = joined(std::thread::spawn(move || controller.disconnect()));
    if let Err(error) = ended {
        assert!(!error.to_string().is_empty());
    }
    assert!(client.reserve(1, 1, Place::Any).is_err());
    assert!(client.ended().is_some());
    assert_eq!(
        answered.load(Ordering::Relaxed),
        asked,
        "each is answered once"
    );
    assert!(calls.load(Ordering::Relaxed) <= MOST_MESSAGES);
    drop(client);
    nothing_leaks();
}

/// Answers calls of linked code: with what it is given, with a question of its own, or not at all.
fn handler(calls: Arc<AtomicUsize>) -> DispatchHandler {
    Arc::new(move |client: &Client, tag, input: &[u8]| {
        calls.fetch_add(1, Ordering::Relaxed);
        match tag % 4 {
            0 => Ok(input.to_vec()),
            1 => Err("no".to_owned()),
            2 => match client.read(tag, 16) {
                Ok(bytes) => Ok(bytes),
                Err(error) => Err(error.to_string()),
            },
            // Without the message that a panic prints.
            _ => std::panic::resume_unwind(Box::new(())),
        }
    })
}

/// Sends requests without waiting; counts their answers. Answers how many there are.
fn ask(client: &Client, choices: &mut Choices<'_>, answered: &Arc<AtomicUsize>) -> usize {
    let n = choices.below(9);
    for _ in 0..n {
        let address = choices.number();
        let requests = [
            ToExecutor::Read { address, size: 8 },
            ToExecutor::Release { address },
            ToExecutor::Main { address },
            ToExecutor::Deallocate {
                allocations: vec![address],
            },
            ToExecutor::Perform {
                actions: vec![Action::RunHandlers { handle: address }],
            },
            ToExecutor::Arguments { values: Vec::new() },
        ];
        let request = &requests[choices.below(requests.len())];
        let (answered, asked) = (Arc::clone(answered), client.clone());
        let asks_again = choices.one_in(4);
        client.send(request, move |_| {
            answered.fetch_add(1, Ordering::Relaxed);
            if asks_again {
                // From the thread that reads answers, for nobody.
                asked.send(&ToExecutor::Release { address }, |_| {});
            }
        });
    }
    n
}

/// Asks for something in a thread that waits for it.
fn wait(client: Client, what: u8) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let large = vec![7; LARGE];
        let names = vec![&b"name"[..]; 3];
        let piece = Piece {
            address: 4096,
            bytes: &large,
        };
        let segment = Segment {
            address: 4096,
            size: 1 << 21,
            protection: Protection::Read,
            sealed_late: false,
            content: &large,
        };
        let result = match what % 12 {
            0 => client.reserve(1, 1, Place::Near).map(drop),
            1 => {
                let size = u64::try_from(LARGE).unwrap_or(0);
                let read = client.read(u64::MAX, size);
                read.map(|bytes| assert_eq!(bytes.len(), LARGE))
            }
            2 => {
                let found = client.look_up(None, &names);
                found.map(|found| assert_eq!(found.len(), names.len()))
            }
            3 => client.write_pieces(&[piece, piece]),
            4 => client.finalize(&[segment, segment], Vec::new()).map(drop),
            5 => client.open_library(b"x").map(drop),
            6 => client.look_up_thread_local(&names).map(drop),
            7 => client.reserve_thread_local(1, 1).map(drop),
            8 => client.run_main(1).map(drop),
            9 => client.call_wrapper(1, &large[..100]).map(drop),
            10 => client.deallocate(&[1, 2]),
            _ => client.zero(1, 1),
        };
        if let Err(error) = result {
            assert!(!error.to_string().is_empty());
        }
    })
}

/// Hears everything, so that nobody waits to be heard.
fn hear(peer: &Peer) -> JoinHandle<()> {
    let stream = peer.stream.try_clone().expect("a descriptor");
    stream.set_read_timeout(None).expect("no time limit");
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut &stream, &mut std::io::sink());
    })
}

/// The executor that is played.
struct Player {
    peer: Peer,
    hearing: JoinHandle<()>,
}

impl Player {
    fn play(&mut self, choices: &mut Choices<'_>) {
        let mut dispatches = 0;
        for _ in 0..MOST_MESSAGES {
            if choices.is_empty() {
                break;
            }
            match choices.below(8) {
                0 => {
                    // Any kind, known or not, with any payload.
                    let kind = 0x7f + u16::from(choices.byte() % 0x18);
                    let sequence = sequence(choices);
                    let payload = choices.bytes(80);
                    self.peer.frame(kind, sequence, &payload);
                }
                1 => {
                    let bytes = choices.bytes(32);
                    let (sequence, message) = match choices.below(8) {
                        0 => (0, ToController::Alive),
                        1 => (0, ToController::Log { text: "a line" }),
                        2 => (0, ToController::Goodbye { reason: "" }),
                        3 => (0, ToController::Goodbye { reason: "why" }),
                        _ => {
                            dispatches += 1;
                            let tag = u64::from(choices.byte());
                            (dispatches, ToController::Dispatch { tag, input: &bytes })
                        }
                    };
                    let sequence = if choices.one_in(8) {
                        choices.number()
                    } else {
                        sequence
                    };
                    self.say(sequence, &message);
                }
                2 if choices.one_in(4) => {
                    // Half a frame, or no frame at all.
                    let bytes = choices.bytes(24);
                    self.peer.bytes(&bytes);
                    break;
                }
                _ => {
                    let sequence = sequence(choices);
                    self.say(sequence, &ToController::Reply(reply(choices)));
                }
            }
        }
    }

    fn say(&mut self, sequence: u64, message: &ToController<'_>) {
        let mut payload = Vec::new();
        message.encode(&mut payload);
        self.peer.frame(message.kind(), sequence, &payload);
    }
}

/// The number of a request that was asked, as a rule.
fn sequence(choices: &mut Choices<'_>) -> u64 {
    if choices.one_in(16) {
        choices.number()
    } else {
        1 + u64::from(choices.byte() % 12)
    }
}

fn reply(choices: &mut Choices<'_>) -> Reply {
    let number = choices.number();
    match choices.below(16) {
        0 => Reply::Address(number),
        1 => Reply::Allocation(number),
        2 => Reply::Bytes(choices.bytes(40)),
        3 => Reply::Bytes(vec![
            1;
            [8, 16, LARGE - 5000 - 16, 1 << 19][choices.below(4)]
        ]),
        4 => Reply::Found(vec![None; choices.below(5)]),
        5 => {
            let found = Found {
                address: number,
                size: u64::MAX,
                is_data: true,
            };
            Reply::Found(vec![Some(found); choices.below(5)])
        }
        6 => Reply::Offsets(vec![Some(-1); choices.below(5)]),
        7 => Reply::ThreadLocal(ThreadLocal {
            block: number,
            offset: i64::MIN,
        }),
        8 => Reply::Library(u32::MAX),
        9 => Reply::Status(-1),
        10 => Reply::Refused(Refusal::NoAllocation(number)),
        11 => Reply::Refused(Refusal::Busy),
        _ => Reply::Done,
    }
}
