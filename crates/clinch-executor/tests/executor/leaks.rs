//! Nothing is left of a connection, however it ended. Counting is done in a process of its own,
//! since other tests open and map things meanwhile.

use super::calls::dispatcher;
use super::hostile::raw_controller;
use super::support::{ANSWER, Raw, code, local, place, secret, spawn};
use clinch_executor::wire::{
    Action, Place, Protection, Reply, Segment, Step, ToController, ToExecutor,
};
use clinch_executor::{ControllerOptions, Error, Executor};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// The word by which the process that counts knows that it is that.
const COUNT: &str = "count-what-leaks";

#[test]
fn connections_leave_nothing() {
    if std::env::args().any(|argument| argument == COUNT) {
        count();
        return;
    }
    let test = "executor::leaks::connections_leave_nothing";
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--", COUNT])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().count()
}

fn count() {
    (0..50).for_each(connection);
    let before = (descriptors(), mappings());
    (0..1000).for_each(connection);
    assert_eq!(descriptors(), before.0);
    // The C library keeps some stacks and heaps for later threads.
    assert!(mappings() <= before.1 + 8, "{} {}", mappings(), before.1);

    // Killed at some point of a stream of requests, which another one is in each time.
    for n in 0..60 {
        killed(n);
    }
    assert_eq!(descriptors(), before.0);
    assert!(mappings() <= before.1 + 8, "{} {}", mappings(), before.1);
}

/// An executor process that is killed while requests of all kinds are made, after the `n`th.
fn killed(n: usize) {
    let options = ControllerOptions {
        dispatch: Some(Arc::new(|_, _, input| Ok(input.to_vec()))),
        ..ControllerOptions::default()
    };
    let controller = spawn(options);
    let client = controller.client();
    let (tell, told) = channel();
    let asking = std::thread::spawn(move || {
        let ask = || -> Result<(), Error> {
            loop {
                let base = client.reserve(1 << 20, 1, Place::Any)?;
                tell.send(()).map_err(|_| Error::ShutDown)?;
                let segment = Segment {
                    address: base,
                    size: 4096,
                    protection: Protection::ReadExecute,
                    sealed_late: false,
                    content: &dispatcher(&client, 1),
                };
                let allocation = client.finalize(&[segment], Vec::new())?;
                tell.send(()).map_err(|_| Error::ShutDown)?;
                client.call_wrapper(base, b"x")?;
                tell.send(()).map_err(|_| Error::ShutDown)?;
                client.look_up(None, &[b"abs"])?;
                client.deallocate(&[allocation])?;
                client.release(base)?;
            }
        };
        ask().unwrap_err()
    });
    for _ in 0..n {
        told.recv().unwrap();
    }
    controller.kill();
    assert!(matches!(asking.join().unwrap(), Error::Ended(_)));
}

/// One connection that maps, opens, registers and calls, and ends in one of several ways.
fn connection(n: usize) {
    if n % 5 == 4 {
        let (raw, stream) = Raw::new();
        let executor = Executor::new(secret());
        let serving = std::thread::spawn(move || executor.serve(stream));
        drop(raw);
        assert!(serving.join().unwrap().is_err());
        return;
    }
    if n % 5 == 3 {
        vanished();
        return;
    }
    let options = ControllerOptions {
        dispatch: Some(Arc::new(|_, _, input| Ok(input.to_vec()))),
        ..ControllerOptions::default()
    };
    let (controller, serving) = local(options);
    controller.reserve(1 << 30, 1 << 21, Place::Any).unwrap();
    place(&controller, &[1; 10_000], Protection::ReadWrite);
    controller.open_library(b"libm.so.6").unwrap();
    let answer = code(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    let wrapper = code(&controller, &dispatcher(&controller, 1));
    assert_eq!(controller.call_wrapper(wrapper, b"x"), Ok(b"x".to_vec()));
    drop(controller);
    assert_eq!(serving.join().unwrap(), Ok(()));
}

/// A controller that reserves, opens and places code, runs it, and is gone.
fn vanished() {
    let (mut raw, serving) = raw_controller(None);
    let mut ask = |sequence, request: &ToExecutor<'_>| {
        let mut payload = Vec::new();
        request.encode(&mut payload);
        raw.frame(request.kind(), sequence, &payload);
        loop {
            let (kind, answered, payload) = raw.read().unwrap();
            if answered == sequence {
                let answer = ToController::decode(kind, &payload).unwrap();
                assert!(!matches!(answer, ToController::Reply(Reply::Refused(_))));
                return payload;
            }
        }
    };
    let reserve = ToExecutor::Reserve {
        size: 1 << 20,
        align: 1,
        place: Place::Near,
    };
    let base = u64::from_le_bytes(ask(1, &reserve).try_into().unwrap());
    ask(2, &ToExecutor::Open { path: b"libm.so.6" });
    let segment = Segment {
        address: base,
        size: 4096,
        protection: Protection::ReadExecute,
        sealed_late: false,
        content: ANSWER,
    };
    // An undo action that runs code, and the memory it is in.
    let run = Action::ResolveIfunc {
        slot: base + 4096,
        resolver: base,
    };
    let data = Segment {
        address: base + 4096,
        protection: Protection::ReadWrite,
        content: b"",
        ..segment
    };
    let step = Step {
        action: run.clone(),
        undo: Some(run),
    };
    let finalize = ToExecutor::Finalize {
        segments: vec![segment, data],
        steps: vec![step],
    };
    ask(3, &finalize);
    ask(4, &ToExecutor::Main { address: base });
    drop(raw);
    assert_eq!(serving.join().unwrap(), Err(Error::Closed));
}
