//! Memory through the protocol: what is written can be read, what is not ours cannot be touched,
//! what fails leaves nothing.

use super::support::{ANSWER, code, local, place};
use clinch_executor::wire::{Action, Piece, Place, Protection, Segment, Step};
use clinch_executor::{ControllerOptions, Error, Refusal};

const PAGE: u64 = 4096;

fn segment(address: u64, content: &[u8]) -> Segment<'_> {
    Segment {
        address,
        size: PAGE,
        protection: Protection::Read,
        sealed_late: false,
        content,
    }
}

#[test]
fn bytes_come_back_as_they_went() {
    let (controller, serving) = local(ControllerOptions::default());
    // More than fits into a message.
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[0] ^ 3).collect();
    let size = u64::try_from(bytes.len()).unwrap();
    let base = controller.reserve(size, 1 << 16, Place::Any).unwrap();
    assert_eq!(base % (1 << 16), 0);
    controller
        .protect(base, size, Protection::ReadWrite)
        .unwrap();
    controller.write(base, &bytes).unwrap();
    assert!(controller.read(base, size).unwrap() == bytes);
    controller.zero(base + 1, size - 2).unwrap();
    let mut zeros = vec![0; bytes.len()];
    zeros[0] = bytes[0];
    *zeros.last_mut().unwrap() = *bytes.last().unwrap();
    assert!(controller.read(base, size).unwrap() == zeros);
    let pieces = [(base, &b"a"[..]), (base + 2, b"cd"), (base + 1, b"b")];
    let pieces = pieces.map(|(address, bytes)| Piece { address, bytes });
    controller.write_pieces(&pieces).unwrap();
    assert_eq!(controller.read(base, 5).unwrap(), b"abcd\0");
    controller.release(base).unwrap();
    assert!(matches!(
        controller.read(base, 1),
        Err(Error::Refused(Refusal::NotOwned { .. }))
    ));
    drop(controller);
    assert_eq!(serving.join().unwrap(), Ok(()));
}

#[test]
fn large_contents_are_finalized_as_small_ones_are() {
    let (controller, _serving) = local(ControllerOptions::default());
    let bytes = vec![0x90; 3_000_000];
    let address = place(&controller, &bytes, Protection::Read);
    assert!(controller.read(address, 3_000_000).unwrap() == bytes);
    assert_eq!(
        controller.write(address, b"x"),
        Err(Refusal::NotAllowed { address, size: 1 }.into())
    );
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let (controller, _serving) = local(ControllerOptions::default());
    let local = 7_u64;
    let address = u64::try_from((&raw const local).addr()).unwrap();
    let not_owned = |size| Error::from(Refusal::NotOwned { address, size });
    assert_eq!(controller.read(address, 8), Err(not_owned(8)));
    assert_eq!(controller.write(address, &[1; 8]), Err(not_owned(8)));
    assert_eq!(controller.zero(address, 8), Err(not_owned(8)));
    assert_eq!(controller.release(address), Err(not_owned(0)));
    let page = address & !(PAGE - 1);
    let refused = Refusal::NotOwned {
        address: page,
        size: PAGE,
    };
    let protected = controller.protect(page, PAGE, Protection::Read);
    assert_eq!(protected, Err(refused.clone().into()));
    let finalized = controller.finalize(&[segment(page, b"x")], Vec::new());
    assert_eq!(finalized, Err(refused.into()));
    assert_eq!(local, 7);
    let write = Action::WriteWord { address, value: 1 };
    assert!(controller.perform(vec![write]).unwrap_err().is_refusal());
    assert_eq!(controller.run_int(8, 1), Err(Refusal::NotCode(8).into()));
    // Data is no code.
    let data = place(&controller, ANSWER, Protection::ReadWrite);
    let run = controller.run_main(data);
    assert_eq!(run, Err(Refusal::NotCode(data).into()));
}

#[test]
fn pages_of_an_allocation_are_taken_until_it_is_undone() {
    let (controller, _serving) = local(ControllerOptions::default());
    let base = controller.reserve(4 * PAGE, 1, Place::Any).unwrap();
    let segments = [segment(base, b"one"), segment(base + PAGE, b"two")];
    let allocation = controller.finalize(&segments, Vec::new()).unwrap();
    let in_use = |address| Err(Error::from(Refusal::InUse(address)));
    let again = controller.finalize(&[segment(base + PAGE, b"")], Vec::new());
    assert_eq!(again, in_use(base + PAGE));
    let twice = [segment(base + 2 * PAGE, b""), segment(base + 2 * PAGE, b"")];
    let twice = controller.finalize(&twice, Vec::new());
    assert_eq!(twice, in_use(base + 2 * PAGE));
    assert_eq!(
        controller.release(base),
        in_use(base + PAGE).map(|_: u64| ())
    );
    controller.deallocate(&[allocation]).unwrap();
    assert_eq!(
        controller.deallocate(&[allocation]),
        Err(Refusal::NoAllocation(allocation).into())
    );
    assert!(controller.read(base, 1).is_err());
    // Pages that are given back are zero.
    controller
        .finalize(&[segment(base, b"")], Vec::new())
        .unwrap();
    assert_eq!(controller.read(base, 3).unwrap(), [0; 3]);
}

#[test]
fn actions_run_in_order_and_are_undone_in_reverse() {
    let (controller, _serving) = local(ControllerOptions::default());
    let log = place(&controller, &[0; 16], Protection::ReadWrite);
    let base = controller.reserve(PAGE, 1, Place::Any).unwrap();
    let word = |value| Action::WriteWord {
        address: log,
        value,
    };
    let step = |first, undo| Step {
        action: word(first),
        undo: Some(word(undo)),
    };
    let read = || {
        let bytes = controller.read(log, 8).unwrap();
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    let segments = [segment(base, b"x")];
    let steps = vec![step(1, 10), step(2, 20)];
    let allocation = controller.finalize(&segments, steps).unwrap();
    assert_eq!(read(), 2);
    controller.deallocate(&[allocation]).unwrap();
    assert_eq!(read(), 10);
    // The second fails: the first is undone, the pages are free again.
    let wrong = Step {
        action: Action::WriteWord {
            address: base,
            value: 3,
        },
        undo: Some(word(30)),
    };
    let failed = controller.finalize(&segments, vec![step(4, 40), wrong]);
    assert!(
        matches!(
            failed,
            Err(Error::Refused(Refusal::Action { index: 1, .. }))
        ),
        "{failed:?}"
    );
    assert_eq!(read(), 40);
    controller.finalize(&segments, Vec::new()).unwrap();
}

#[test]
fn what_is_sealed_late_is_writable_for_actions() {
    let (controller, _serving) = local(ControllerOptions::default());
    let base = controller.reserve(PAGE, 1, Place::Any).unwrap();
    let late = Segment {
        sealed_late: true,
        ..segment(base, b"")
    };
    let step = Step {
        action: Action::WriteWord {
            address: base + 8,
            value: 9,
        },
        undo: None,
    };
    controller.finalize(&[late], vec![step]).unwrap();
    assert_eq!(controller.read(base + 8, 1).unwrap(), [9]);
    assert!(controller.write(base, b"x").is_err());
}

#[test]
fn unwind_records_are_checked_and_forgotten() {
    let (controller, serving) = local(ControllerOptions::default());
    // A common record ("zR", pc-relative 4 bytes), a description of an empty range, the end.
    let common = [
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0, 0, 0,
    ];
    let description = [
        16, 0, 0, 0, 28, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0,
    ];
    let list = [&common[..], &description, &[0; 4]].concat();
    let begin = place(&controller, &list, Protection::Read);
    let register = Action::RegisterFrames { begin };
    let deregister = Action::DeregisterFrames { begin };
    controller.perform(vec![register.clone()]).unwrap();
    let again = controller.perform(vec![register.clone()]).unwrap_err();
    assert!(again.is_refusal());
    controller
        .perform(vec![deregister.clone(), register.clone()])
        .unwrap();
    controller.perform(vec![deregister.clone()]).unwrap();
    assert!(controller.perform(vec![deregister]).is_err());
    // Left to the end of the connection.
    controller.perform(vec![register]).unwrap();
    let endless = place(&controller, &vec![0xcc; 4096], Protection::Read);
    let endless = Action::RegisterFrames { begin: endless };
    assert!(controller.perform(vec![endless]).is_err());
    controller.disconnect().unwrap();
    assert_eq!(serving.join().unwrap(), Ok(()));
}

/// Records that reach into memory that is given up are forgotten with it.
#[test]
fn unwind_records_go_with_any_of_their_pages() {
    let (controller, _serving) = local(ControllerOptions::default());
    let common = [
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0, 0, 0,
    ];
    let base = controller.reserve(2 * PAGE, 1, Place::Any).unwrap();
    let first = [&vec![0; 4096 - common.len()][..], &common].concat();
    let first = controller.finalize(&[segment(base, &first)], Vec::new());
    let second = [0; 4];
    let second = controller.finalize(&[segment(base + PAGE, &second)], Vec::new());
    let begin = base + PAGE - 24;
    controller
        .perform(vec![Action::RegisterFrames { begin }])
        .unwrap();
    controller.deallocate(&[second.unwrap()]).unwrap();
    let gone = controller.perform(vec![Action::DeregisterFrames { begin }]);
    assert!(gone.unwrap_err().is_refusal());
    controller.deallocate(&[first.unwrap()]).unwrap();
}

#[test]
fn names_are_found_in_the_process_and_in_libraries() {
    let (controller, _serving) = local(ControllerOptions::default());
    let found = controller
        .look_up(None, &[b"abs", b"no such name", b"environ"])
        .unwrap();
    let abs = found[0].unwrap();
    assert!(!abs.is_data && abs.address != 0);
    assert_eq!(found[1], None);
    assert!(found[2].unwrap().is_data);
    assert_eq!(controller.run_int(abs.address, -5), Ok(5));
    let library = controller.open_library(b"libm.so.6").unwrap();
    let found = controller.look_up(Some(library), &[b"cos"]).unwrap();
    assert!(found[0].is_some());
    assert_eq!(
        controller.look_up(Some(library + 1), &[b"cos"]),
        Err(Refusal::NoLibrary(library + 1).into())
    );
    let missing = controller.open_library(b"no/such.so").unwrap_err();
    assert!(missing.to_string().contains("no/such.so"), "{missing}");
    // More names than fit into a message.
    let many = vec![&b"abs"[..]; 100_000];
    let found = controller.look_up(None, &many).unwrap();
    assert_eq!(found.len(), many.len());
    assert!(found.iter().all(|found| *found == Some(abs)));
}

#[test]
fn a_message_that_is_too_large_ends_nothing() {
    let (controller, _serving) = local(ControllerOptions::default());
    let echo = super::calls::echo();
    let echo = code(&controller, &echo);
    let too_large = controller.call_wrapper(echo, &vec![0; 2 << 20]);
    assert!(matches!(too_large, Err(Error::MessageSize(_))));
    assert_eq!(controller.call_wrapper(echo, b"more"), Ok(b"more".to_vec()));
}
