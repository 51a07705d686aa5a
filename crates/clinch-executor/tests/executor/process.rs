//! Executors in processes of their own, that are killed, crash, stop or run for ever.

use super::support::{ANSWER, SPIN, code, short, spawn};
use clinch_executor::wire::{Action, Piece, Place, Protection, Reply, Segment, Step, ToExecutor};
use clinch_executor::{ControllerOptions, Error, Limits};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

/// Sends a signal to a child that the test started.
fn signal(child: u32, name: &str) {
    let status = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(child.to_string())
        .status();
    assert!(status.unwrap().success());
}

/// Stops a child, and waits until all its threads have stopped.
fn stop(child: u32) {
    signal(child, "STOP");
    let has_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status"));
        // A thread that is gone does nothing either.
        status.map_or(true, |status| status.contains("State:\tT"))
    };
    let tasks = format!("/proc/{child}/task");
    while !std::fs::read_dir(&tasks).unwrap().all(has_stopped) {
        std::thread::yield_now();
    }
}

#[test]
fn a_child_runs_code_and_ends_in_order() {
    let controller = spawn(ControllerOptions::default());
    let child = controller.child_id().unwrap();
    let answer = code(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
    // Reaped: there is no such process.
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
}

#[test]
fn a_child_that_is_killed_ends_every_kind_of_request() {
    let address = 4096;
    let content = &[0; 4096];
    let segment = Segment {
        address,
        size: 4096,
        protection: Protection::Read,
        sealed_late: false,
        content,
    };
    let action = Action::WriteWord { address, value: 1 };
    let step = Step {
        action: action.clone(),
        undo: None,
    };
    let piece = Piece {
        address,
        bytes: content,
    };
    let requests = [
        ToExecutor::Reserve {
            size: 1,
            align: 1,
            place: Place::Any,
        },
        ToExecutor::Release { address },
        ToExecutor::Write {
            pieces: vec![piece],
        },
        ToExecutor::Zero { address, size: 1 },
        ToExecutor::Protect {
            address,
            size: 1,
            protection: Protection::Read,
        },
        ToExecutor::Finalize {
            segments: vec![segment],
            steps: vec![step],
        },
        ToExecutor::Deallocate {
            allocations: vec![1],
        },
        ToExecutor::Perform {
            actions: vec![action],
        },
        ToExecutor::Read { address, size: 1 },
        ToExecutor::LookUp {
            library: None,
            names: vec![b"abs"],
        },
        ToExecutor::Withdraw {
            allocation: 1,
            ranges: Vec::new(),
            undo: Vec::new(),
        },
        ToExecutor::LookUpThreadLocal { names: vec![b"a"] },
        ToExecutor::ReserveThreadLocal { size: 1, align: 1 },
        ToExecutor::Open { path: b"libm.so.6" },
        ToExecutor::Arguments { values: vec![b"a"] },
        ToExecutor::Main { address },
        ToExecutor::Void { address },
        ToExecutor::Int {
            address,
            argument: 1,
        },
        ToExecutor::Wrapper {
            address,
            input: b"x",
        },
    ];
    let controller = spawn(ControllerOptions::default());
    // It can take requests, but not answer them.
    stop(controller.child_id().unwrap());
    let (tell, told) = mpsc::channel();
    for request in &requests {
        let (tell, name) = (Mutex::new(tell.clone()), request.name());
        controller.send(request, move |result| {
            tell.lock().unwrap().send((name, result)).unwrap();
        });
    }
    drop(tell);
    controller.kill();
    let mut n = 0;
    for (name, result) in told {
        let Err(Error::Ended(status)) = result else {
            panic!("{name}: {result:?}");
        };
        assert_eq!(status.signal(), Some(9), "{name}");
        n += 1;
    }
    assert_eq!(n, requests.len());
    // What is asked later is told the same.
    let later = controller.reserve(1, 1, Place::Any);
    assert_eq!(later.err(), controller.ended());
    assert!(matches!(controller.disconnect(), Err(Error::Ended(_))));
}

#[test]
fn a_child_that_is_killed_while_it_runs_code() {
    let controller = spawn(ControllerOptions::default());
    let spin = code(&controller, SPIN);
    let client = controller.client();
    let running = std::thread::spawn(move || client.run_main(spin));
    // The executor answers while code runs.
    assert_eq!(controller.read(spin, 2).unwrap(), SPIN);
    signal(controller.child_id().unwrap(), "KILL");
    assert!(matches!(running.join().unwrap(), Err(Error::Ended(_))));
}

#[test]
fn a_child_that_crashes_tells_by_which_signal() {
    let controller = spawn(ControllerOptions::default());
    // ud2
    let crash = code(&controller, &[0x0f, 0x0b]);
    let Err(Error::Ended(status)) = controller.run_main(crash) else {
        panic!("it goes on");
    };
    assert_eq!(status.signal(), Some(4));
}

#[test]
fn a_child_that_stops_is_silent_for_too_long() {
    let silence = Duration::from_millis(400);
    let controller = spawn(ControllerOptions {
        limits: Limits {
            silence: Some(silence),
            end: Duration::from_millis(50),
            ..Limits::default()
        },
        ..ControllerOptions::default()
    });
    let spin = code(&controller, SPIN);
    let (tell, told) = mpsc::channel();
    controller.send(&ToExecutor::Main { address: spin }, move |result| {
        tell.send(result).unwrap();
    });
    // Heartbeats keep it alive for longer than the limit of silence.
    assert!(told.recv_timeout(silence * 2).is_err());
    stop(controller.child_id().unwrap());
    assert_eq!(told.recv().unwrap(), Err(Error::Silent(silence)));
    let child = controller.child_id().unwrap();
    drop(controller);
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
}

#[test]
fn a_request_that_is_not_answered_is_late() {
    let limits = Limits {
        handshake: Duration::from_secs(10),
        silence: None,
        end: Duration::from_millis(50),
        ..short()
    };
    let controller = spawn(ControllerOptions {
        limits,
        ..ControllerOptions::default()
    });
    stop(controller.child_id().unwrap());
    let late = Error::NoAnswer {
        request: "reserve",
        limit: limits.answer,
    };
    assert_eq!(controller.reserve(1, 1, Place::Any), Err(late));
}

#[test]
fn a_child_that_runs_for_ever_does_not_keep_the_controller() {
    let controller = spawn(ControllerOptions {
        limits: Limits {
            end: Duration::from_millis(100),
            ..Limits::default()
        },
        ..ControllerOptions::default()
    });
    let spin = code(&controller, SPIN);
    let (tell, told) = mpsc::channel();
    controller.send(&ToExecutor::Main { address: spin }, move |result| {
        tell.send(result).unwrap();
    });
    let child = controller.child_id().unwrap();
    let begin = Instant::now();
    drop(controller);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(!std::path::Path::new(&format!("/proc/{child}")).exists());
    let result: Result<Reply, Error> = told.recv().unwrap();
    assert!(result.is_err());
}

#[test]
fn what_is_no_executor_fails_to_start() {
    let spawn = |program: &str| {
        let program = std::path::Path::new(program);
        clinch_executor::Controller::spawn(Some(program), &[], ControllerOptions::default()).err()
    };
    assert!(matches!(
        spawn("/no/such/program"),
        Some(Error::System { .. })
    ));
    assert!(matches!(spawn("/bin/false"), Some(Error::Ended(status)) if status.code() == Some(1)));
}
