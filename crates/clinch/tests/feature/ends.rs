//! How a program ends: status, signal, and what runs before.

use super::{NON_PIC, PIC};
use crate::support::{Output, Program, Source};
use std::os::unix::process::ExitStatusExt;

fn end(way: &str, status: Option<i32>) -> Output {
    let source = Source::read("feature/ends.c");
    let mut last = None;
    for (flags, link) in [PIC, NON_PIC] {
        let objects = source.objects(["main.c", "deep.c"], flags);
        let program = Program::new(objects).link(link).arguments([way]);
        let program = match status {
            Some(status) => program.exits(status),
            None => program.ends_by_signal(),
        };
        last = Some(program.check());
    }
    last.expect("it ran")
}

#[test]
fn main_returns() {
    assert_eq!(
        end("return", Some(0)).text(),
        "main return\natexit\ndestructor\n"
    );
    end("negative", Some(255));
}

#[test]
fn exit_is_called() {
    let output = end("exit", Some(13));
    assert_eq!(output.text(), "main exit\natexit\ndestructor\n");
    end("large", Some(5));
    end("thread", Some(16));
    end("closed", Some(10));
}

#[test]
fn exit_without_handlers() {
    assert_eq!(end("_exit", Some(14)).text(), "main _exit\n");
    assert_eq!(
        end("quick_exit", Some(15)).text(),
        "main quick_exit\nat_quick_exit\n"
    );
}

#[test]
fn signals() {
    assert_eq!(end("abort", None).status.signal(), Some(6));
    assert_eq!(end("fault", None).status.signal(), Some(11));
    assert_eq!(end("kill", None).status.signal(), Some(15));
    assert_eq!(end("pipe", None).status.signal(), Some(13));
}

#[test]
fn main_thread_ends_first() {
    assert!(
        end("pthread_exit", Some(0))
            .text()
            .contains("the other thread goes on")
    );
}

#[test]
fn other_processes() {
    assert!(
        end("fork", Some(8))
            .text()
            .contains("child\natexit\ndestructor\nchild ended with 7")
    );
    assert!(end("exec", Some(9)).text().contains("from the shell"));
}
