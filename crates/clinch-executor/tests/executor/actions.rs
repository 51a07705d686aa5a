//! Actions that tell the executor's process of something: what is not there is refused, and what was
//! done is taken back.

use super::support::{ANSWER, code, local, place};
use clinch_executor::wire::{Action, Array, Place, Protection, Refusal, Segment, Step};
use clinch_executor::{Client, ControllerOptions, Error};

/// Why an action alone is refused.
fn refusal(client: &Client, action: Action) -> String {
    match client.perform(vec![action]) {
        Err(Error::Refused(Refusal::Action { index: 0, why })) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let (controller, serving) = local(ControllerOptions::default());
    let page = place(&controller, &[0; 64], Protection::ReadWrite);
    let blank = Vec::new();
    for (action, why) in [
        (
            Action::InitializeThreadLocal {
                block: 77,
                image: page,
                size: 4,
            },
            "thread-local variables: there is no block 77".to_owned(),
        ),
        (
            Action::RegisterImage {
                address: 16,
                size: 4,
                blank,
            },
            "0x4 bytes at 0x10 are not the executor's to touch".to_owned(),
        ),
        (
            Action::DeregisterImage { address: page },
            format!("no image for debuggers is at {page:#x}"),
        ),
        (
            Action::MoveVariable {
                from: page,
                to: 16,
                size: 4,
            },
            "0x4 bytes at 0x10 are not the executor's to touch".to_owned(),
        ),
        (
            Action::RegisterFinalizers {
                arrays: vec![Array {
                    address: page,
                    count: u64::MAX,
                    backward: false,
                }],
            },
            format!(
                "{:#x} bytes at {page:#x} are not the executor's to touch",
                u64::MAX
            ),
        ),
    ] {
        assert_eq!(refusal(&controller, action.clone()), why, "{action:?}");
    }
    // These are taken back more than once by who does not know better.
    for action in [
        Action::ReleaseThreadLocal { block: 77 },
        Action::RunFinalizers { first: page },
    ] {
        assert_eq!(controller.perform(vec![action]), Ok(()));
    }
    let none = Refusal::NoAllocation(99).into();
    assert_eq!(controller.withdraw(99, &[], Vec::new()), Err(none));
    let unaligned = Refusal::Unaligned(3).into();
    assert_eq!(controller.reserve_thread_local(8, 3), Err(unaligned));
    drop(controller);
    assert_eq!(serving.join().unwrap(), Ok(()));
}

/// Finalizers run once, when they are asked for; not at all when their memory went.
#[test]
fn finalizers_run_once() {
    let (controller, serving) = local(ControllerOptions::default());
    // incl counter(%rip); ret
    let size = 8192;
    let base = controller.reserve(size, 1, Place::Any).unwrap();
    let counter = base + 4096;
    let to_counter = u32::try_from(counter - (base + 6)).unwrap();
    let increment = [&[0xff, 0x05][..], &to_counter.to_le_bytes(), &[0xc3]].concat();
    let mut data = vec![0; 8];
    data.extend(base.to_le_bytes());
    data.extend(base.to_le_bytes());
    let segment = |address, protection, content| Segment {
        address,
        size: 4096,
        protection,
        sealed_late: false,
        content,
    };
    let code = segment(base, Protection::ReadExecute, &increment[..]);
    let code = controller.finalize(&[code], Vec::new()).unwrap();
    let variables = segment(counter, Protection::ReadWrite, &data[..]);
    let variables = controller.finalize(&[variables], Vec::new()).unwrap();
    let array = Array {
        address: counter + 8,
        count: 2,
        backward: true,
    };
    let register = || Action::RegisterFinalizers {
        arrays: vec![array],
    };
    let run = || Action::RunFinalizers {
        first: array.address,
    };
    let count = || controller.read(counter, 4).unwrap()[0];
    controller.perform(vec![register(), run(), run()]).unwrap();
    assert_eq!(count(), 2);
    controller.perform(vec![register(), run()]).unwrap();
    assert_eq!(count(), 4);
    controller.perform(vec![register()]).unwrap();
    controller.deallocate(&[code]).unwrap();
    assert_eq!(controller.perform(vec![run()]), Ok(()));
    assert_eq!(count(), 4);
    // The array leads to no code any more.
    let refused = controller.perform(vec![register()]).unwrap_err();
    let not_code = Refusal::NotCode(base).to_string();
    assert!(refused.to_string().contains(&not_code), "{refused}");
    controller.deallocate(&[variables]).unwrap();
    assert_eq!(controller.perform(vec![run()]), Ok(()));
    drop(controller);
    assert_eq!(serving.join().unwrap(), Ok(()));
}

/// Pages go with the undo actions that are named; the others stay for the rest.
#[test]
fn a_part_of_an_allocation_is_withdrawn() {
    let (controller, serving) = local(ControllerOptions::default());
    let answer = code(&controller, ANSWER);
    let base = controller.reserve(12_288, 1, Place::Any).unwrap();
    let segment = |page: u64| Segment {
        address: base + page * 4096,
        size: 4096,
        protection: Protection::ReadWrite,
        sealed_late: false,
        content: b"old",
    };
    let write = |page: u64| Action::WriteWord {
        address: base + page * 4096,
        value: 1,
    };
    let step = |page: u64| Step {
        action: write(page),
        undo: Some(Action::WriteWord {
            address: base + 2 * 4096 + page * 8,
            value: 7,
        }),
    };
    let segments = [segment(0), segment(1), segment(2)];
    let allocation = controller.finalize(&segments, vec![step(0), step(1)]);
    let allocation = allocation.unwrap();
    let undo = step(1).undo.into_iter().collect();
    let withdrawn = controller.withdraw(allocation, &[(base + 4096, 4096)], undo);
    assert_eq!(withdrawn, Ok(()));
    assert!(controller.read(base + 4096, 1).is_err());
    let words = controller.read(base + 2 * 4096, 16).unwrap();
    assert_eq!(words[..3], *b"old");
    assert_eq!(words[8..], 7_u64.to_le_bytes());
    // The page can be another's.
    let other = controller.finalize(&[segment(1)], Vec::new());
    assert!(other.is_ok());
    assert_eq!(controller.deallocate(&[allocation]), Ok(()));
    assert_eq!(controller.read(base + 4096, 3).as_deref(), Ok(&b"old"[..]));
    assert_eq!(controller.run_main(answer), Ok(42));
    drop(controller);
    assert_eq!(serving.join().unwrap(), Ok(()));
}
