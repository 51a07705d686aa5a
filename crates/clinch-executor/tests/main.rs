//! What users of the crate see, over real descriptors: an executor in a thread, or in a child
//! process, which is this program again (the test [`child`]). Linked code is a few instructions
//! that the tests write through the protocol. Nothing sleeps: what must be late has a short limit.

mod executor;

use clinch_executor::{Endpoint, Executor, Secret, Stream};
use std::os::fd::OwnedFd;

/// Serves when the program was started for that by [`executor::support::spawn`]; else there is
/// nothing to do.
#[test]
fn child() {
    let argument = |name: &str| {
        let mut arguments = std::env::args();
        arguments.find_map(|argument| argument.strip_prefix(name).map(str::to_owned))
    };
    let Some(numbers) = argument("filedescs=") else {
        return;
    };
    let secret = argument("--secret-fd=").and_then(|number| number.parse().ok());
    let secret = secret.map(Secret::inherited).expect("a descriptor");
    let executor = Executor::new(secret.expect("a secret"));
    let endpoint: Endpoint = format!("filedescs={numbers}").parse().expect("numbers");
    let served = executor.run_process(&endpoint, |_| ());
    std::process::exit(i32::from(served.is_err()));
}

/// Pipes instead of a socket: their limits and ends are other ones.
#[test]
fn a_connection_over_two_pipes() {
    let pipe = || {
        let (reading, writing) = std::io::pipe().unwrap();
        (OwnedFd::from(reading), OwnedFd::from(writing))
    };
    let ((our_input, their_output), (their_input, our_output)) = (pipe(), pipe());
    let secret = Secret::random().unwrap();
    let executor = Executor::new(secret.clone());
    let theirs = Stream::new(their_input, their_output).unwrap();
    let serving = std::thread::spawn(move || executor.serve(theirs));
    let ours = Stream::new(our_input, our_output).unwrap();
    let controller = clinch_executor::Controller::connect(ours, &secret).unwrap();
    let answer = executor::support::code(&controller, executor::support::ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}
