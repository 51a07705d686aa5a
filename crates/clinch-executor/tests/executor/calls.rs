//! Running code, and code that calls back. The code is of this machine's architecture.

use super::support::{ANSWER, calling, code, function, local, movabs, place, spawn};
use clinch_executor::wire::{Action, Array, Protection, Reply, Segment, Step, ToExecutor};
use clinch_executor::{Client, ControllerOptions, Error, Refusal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// A wrapper that answers what it is given: the sink's function is called with the sink and the
/// input.
pub(crate) fn echo() -> Vec<u8> {
    vec![
        0x48, 0x8b, 0x02, // mov rax, [rdx]
        0x48, 0x89, 0xd1, // mov rcx, rdx
        0x48, 0x89, 0xf2, // mov rdx, rsi
        0x48, 0x89, 0xfe, // mov rsi, rdi
        0x48, 0x89, 0xcf, // mov rdi, rcx
        0xff, 0xe0, // jmp rax
    ]
}

/// A wrapper that answers what the controller answers to a tag and what it is given.
pub(crate) fn dispatcher(client: &Client, tag: u64) -> Vec<u8> {
    let facts = client.facts();
    let parts = [
        &[
            0x49, 0x89, 0xd0, // mov r8, rdx
            0x48, 0x89, 0xf1, // mov rcx, rsi
            0x48, 0x89, 0xfa, // mov rdx, rdi
        ][..],
        &movabs([0x48, 0xbf], facts.context),
        &movabs([0x48, 0xbe], tag),
        &movabs([0x48, 0xb8], facts.dispatch),
        &[0xff, 0xe0],
    ];
    parts.concat()
}

#[test]
fn functions_of_all_kinds() {
    let (controller, serving) = local(ControllerOptions::default());
    let answer = code(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    assert_eq!(controller.run_void(answer), Ok(()));
    // lea eax, [rdi + 1]; ret
    let next = code(&controller, &[0x8d, 0x47, 0x01, 0xc3]);
    assert_eq!(controller.run_int(next, -1), Ok(0));
    assert_eq!(controller.run_int(next, i32::MAX), Ok(i32::MIN));
    let echo = code(&controller, &echo());
    for size in [0, 1, 100_000] {
        let input = vec![7; size];
        assert_eq!(controller.call_wrapper(echo, &input), Ok(input));
    }
    drop(controller);
    assert_eq!(serving.join().unwrap(), Ok(()));
}

#[test]
fn main_is_given_the_arguments() {
    let (controller, _serving) = local(ControllerOptions::default());
    // mov eax, edi; ret
    let count = code(&controller, &[0x89, 0xf8, 0xc3]);
    assert_eq!(controller.run_main(count), Ok(0));
    controller.set_arguments(&[b"program", b"xyz"]).unwrap();
    assert_eq!(controller.run_main(count), Ok(2));
    // mov rax, [rsi + 8]; movzx eax, byte [rax + 1]; ret: the second letter of the first argument
    let letter = [0x48, 0x8b, 0x46, 0x08, 0x0f, 0xb6, 0x40, 0x01, 0xc3];
    let letter = code(&controller, &letter);
    assert_eq!(controller.run_main(letter), Ok(i32::from(b'y')));
    // cmp qword [rsi + 16], 0; sete al; movzx eax, al; ret: null ends them
    let end = [
        0x48, 0x83, 0x7e, 0x10, 0x00, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3,
    ];
    let end = code(&controller, &end);
    assert_eq!(controller.run_main(end), Ok(1));
    let zero = controller.set_arguments(&[b"a\0b"]);
    assert_eq!(zero, Err(Refusal::ZeroByte.into()));
}

#[test]
fn initializers_run_in_order_with_the_allocation() {
    let (controller, _serving) = local(ControllerOptions::default());
    let log = place(&controller, &[0; 8], Protection::ReadWrite);
    // mov rax, log; shl qword [rax], 8; or qword [rax], n; ret
    let append = |n: u8| {
        let body = [
            0x48, 0xc1, 0x20, 8, // shl qword [rax], 8
            0x48, 0x83, 0x08, n, // or qword [rax], n
            0xc3,
        ];
        let bytes = [&movabs([0x48, 0xb8], log)[..], &body].concat();
        code(&controller, &bytes)
    };
    // Null and minus one stand for no function.
    let functions = [append(1), 0, append(2), u64::MAX, append(3)];
    let array: Vec<u8> = functions.iter().flat_map(|f| f.to_le_bytes()).collect();
    let array = place(&controller, &array, Protection::Read);
    let run = |backward| {
        Action::RunArray(Array {
            address: array,
            count: 5,
            backward,
        })
    };
    let base = controller
        .reserve(1, 1, clinch_executor::wire::Place::Any)
        .unwrap();
    let segment = Segment {
        address: base,
        size: 1,
        protection: Protection::Read,
        sealed_late: false,
        content: b"x",
    };
    let step = Step {
        action: run(false),
        undo: Some(run(true)),
    };
    let allocation = controller.finalize(&[segment], vec![step]).unwrap();
    let read = || controller.read(log, 6).unwrap();
    assert_eq!(read(), [3, 2, 1, 0, 0, 0]);
    controller.deallocate(&[allocation]).unwrap();
    assert_eq!(read(), [1, 2, 3, 3, 2, 1]);
    // Past the array's pages there is nothing to run.
    let past = Action::RunArray(Array {
        address: array,
        count: u64::MAX,
        backward: true,
    });
    assert!(controller.perform(vec![past]).unwrap_err().is_refusal());
}

#[test]
fn resolvers_and_wrappers_as_actions() {
    let (controller, _serving) = local(ControllerOptions::default());
    let slot = place(&controller, &[0; 8], Protection::ReadWrite);
    let resolver = code(&controller, ANSWER);
    controller
        .perform(vec![Action::ResolveIfunc { slot, resolver }])
        .unwrap();
    assert_eq!(controller.read(slot, 8).unwrap(), 42_u64.to_le_bytes());
    let function = code(&controller, &echo());
    let call = |input: &[u8]| {
        let input = input.to_vec();
        controller.perform(vec![Action::Call { function, input }])
    };
    call(b"").unwrap();
    let failed = call(b"no luck").unwrap_err().to_string();
    assert_eq!(failed, "action 0: it failed: no luck");
}

#[test]
fn code_calls_the_controller_and_back_nested() {
    const DEPTH: u8 = 20;
    let address = Arc::new(AtomicU64::new(0));
    let known = Arc::clone(&address);
    let options = ControllerOptions {
        // Asks the executor again, which asks again, and so on, until nothing is left to ask.
        dispatch: Some(Arc::new(move |client, tag, input| {
            assert_eq!(tag, 77);
            match input {
                [0] => Ok(b"end".to_vec()),
                [n] => {
                    let inner = client
                        .call_wrapper(known.load(Ordering::Acquire), &[n - 1])
                        .map_err(|error| error.to_string())?;
                    Ok([&[*n][..], &inner].concat())
                }
                _ => Err("what?".to_owned()),
            }
        })),
        ..ControllerOptions::default()
    };
    let (controller, serving) = local(options);
    let wrapper = code(&controller, &dispatcher(&controller, 77));
    address.store(wrapper, Ordering::Release);
    let answer = controller.call_wrapper(wrapper, &[DEPTH]).unwrap();
    let expected: Vec<u8> = (1..=DEPTH).rev().chain(*b"end").collect();
    assert_eq!(answer, expected);
    // An error comes as the answer's text.
    let failed = controller.call_wrapper(wrapper, b"??").unwrap();
    assert_eq!(failed, b"what?");
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}

#[test]
fn a_controller_that_panics_still_answers() {
    let options = ControllerOptions {
        dispatch: Some(Arc::new(|_, _, _| std::panic::resume_unwind(Box::new(())))),
        ..ControllerOptions::default()
    };
    let (controller, _serving) = local(options);
    let wrapper = code(&controller, &dispatcher(&controller, 1));
    let answer = controller.call_wrapper(wrapper, b"").unwrap();
    assert_eq!(answer, b"the controller panicked");
    let (controller, _serving) = local(ControllerOptions::default());
    let wrapper = code(&controller, &dispatcher(&controller, 1));
    let answer = controller.call_wrapper(wrapper, b"").unwrap();
    assert_eq!(answer, b"the controller answers no calls");
}

#[test]
fn threads_ask_at_once() {
    let options = ControllerOptions {
        dispatch: Some(Arc::new(|_, tag, input| {
            Ok([&tag.to_le_bytes()[..], input].concat())
        })),
        ..ControllerOptions::default()
    };
    let (controller, serving) = local(options);
    let echo = code(&controller, &echo());
    let wrappers = [1, 2].map(|tag| code(&controller, &dispatcher(&controller, tag)));
    std::thread::scope(|scope| {
        for (tag, wrapper) in [1_u64, 2].into_iter().zip(wrappers) {
            let controller = &controller;
            scope.spawn(move || {
                for n in 0..200_u64 {
                    let input = (n * tag).to_le_bytes();
                    let same = controller.call_wrapper(echo, &input).unwrap();
                    assert_eq!(same, input);
                    let answer = controller.call_wrapper(wrapper, &input).unwrap();
                    assert_eq!(answer, [tag.to_le_bytes(), input].concat());
                    let bytes = controller.read(echo, 3).unwrap();
                    assert_eq!(bytes, [0x48, 0x8b, 0x02]);
                }
            });
        }
    });
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}

#[test]
fn answers_come_to_continuations() {
    let (controller, _serving) = local(ControllerOptions::default());
    let answer = code(&controller, ANSWER);
    let (tell, told) = mpsc::channel();
    for n in 0..100 {
        let tell = Mutex::new(tell.clone());
        controller.send(&ToExecutor::Main { address: answer }, move |result| {
            tell.lock().unwrap().send((n, result)).unwrap();
        });
    }
    let mut all: Vec<_> = told.iter().take(100).collect();
    all.sort_by_key(|(n, _)| *n);
    for (expected, (n, result)) in all.into_iter().enumerate() {
        assert_eq!((n, result), (expected, Ok(Reply::Status(42))));
    }
}

#[test]
fn too_many_calls_are_refused() {
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let (tell, wait) = (Mutex::new(tell), Mutex::new(wait));
    let options = ControllerOptions {
        dispatch: Some(Arc::new(move |_, _, _| {
            tell.lock().unwrap().send(()).unwrap();
            wait.lock().unwrap().recv().unwrap();
            Ok(Vec::new())
        })),
        ..ControllerOptions::default()
    };
    let (ours, theirs) = clinch_executor::Stream::pair().unwrap();
    let mut executor = clinch_executor::Executor::new(super::support::secret());
    executor.most_calls = 1;
    let _serving = std::thread::spawn(move || executor.serve(theirs));
    let secret = super::support::secret();
    let controller = clinch_executor::Controller::connect_with(ours, &secret, options).unwrap();
    let wrapper = code(&controller, &dispatcher(&controller, 1));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| controller.call_wrapper(wrapper, b""));
        told.recv().unwrap();
        let second = controller.call_wrapper(wrapper, b"");
        assert_eq!(second, Err(Refusal::Busy.into()));
        go.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(Vec::new()));
    });
}

#[test]
fn a_function_that_ends_its_thread_is_answered() {
    let (controller, serving) = local(ControllerOptions::default());
    let exit = code(
        &controller,
        &calling(function(&controller, "pthread_exit"), 0),
    );
    assert_eq!(controller.run_main(exit), Err(Refusal::ThreadEnded.into()));
    assert_eq!(controller.run_void(exit), Err(Refusal::ThreadEnded.into()));
    let answer = code(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}

#[test]
fn a_program_that_exits_ends_its_executor() {
    let controller = spawn(ControllerOptions::default());
    let exit = code(&controller, &calling(function(&controller, "exit"), 7));
    let result = controller.run_main(exit);
    let Err(Error::Ended(status)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(status.code(), Some(7));
    assert_eq!(controller.ended(), Some(Error::Ended(status)));
}
