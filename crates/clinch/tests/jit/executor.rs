//! Programs that run in another process (`-oop-executor`, `-oop-executor-connect`).

use super::{fails, jit, objects};
use crate::support::clinch;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const PROGRAM: &str = "//--- main.c\n\
    #include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    static __thread int count = 40;\nint f(int);\n\
    __attribute__((constructor)) static void begin(void) { puts(\"begin\"); }\n\
    __attribute__((destructor)) static void end(void) { puts(\"end\"); }\n\
    int main(int n, char **v) {\n\
        printf(\"%d %s %d\\n\", n, n > 1 ? v[1] : \"-\", getppid() == atoi(getenv(\"PARENT\")));\n\
        if (n > 2) exit(7);\n\
        return f(count);\n\
    }\n\
    //--- f.c\nint f(int n) { return n + 2; }\n";

#[test]
fn programs_run_in_another_process() {
    let folder = objects(PROGRAM);
    let path = folder.path();
    // The shell's own number is that of the clinch that it becomes.
    let run = |words: &str| {
        let command = format!("PARENT=$$ exec '{}' jit {words}", clinch().display());
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(path)
            .output();
        let output = output.expect("there is a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.stderr.is_empty(), "{output:?}");
        (output.status.code(), text)
    };
    let started = |arguments: &str| format!("begin\n{arguments} 1\nend\n");
    assert_eq!(run("-oop-executor main.o f.o"), (Some(42), started("1 -")));
    let words = format!("-oop-executor='{}' main.o f.o -args a", clinch().display());
    assert_eq!(run(&words), (Some(42), started("2 a")));
    assert_eq!(
        run("-oop-executor main.o f.o -args a b"),
        (Some(7), started("3 a"))
    );
    assert_eq!(
        run("-oop-executor main.o -lFoo -jd Foo f.o"),
        (Some(42), started("1 -"))
    );
}

/// The same program through memory that both map, which is refused where there is no such process.
#[test]
fn memory_that_is_shared() {
    let folder = objects(PROGRAM);
    let path = folder.path();
    let words = ["-oop-executor", "-use-memmgr=shared", "main.o", "f.o"];
    let command = "PARENT=0 exec \"$0\" jit \"$@\"";
    let output = Command::new("sh")
        .args(["-c", command])
        .arg(clinch())
        .args(words)
        .current_dir(path)
        .output();
    let output = output.expect("there is a shell");
    assert_eq!(output.status.code(), Some(42), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "begin\n1 - 0\nend\n", "{output:?}");
    let said = fails(path, ["-use-memmgr=shared", "main.o", "f.o"]);
    assert!(
        said.contains("-use-memmgr=shared requires -oop-executor"),
        "{said}"
    );
    let connect = "-oop-executor-connect=127.0.0.1:1";
    let said = fails(path, ["-use-memmgr=shared", connect, "main.o", "f.o"]);
    let why = "-use-memmgr=shared cannot be used with -oop-executor-connect";
    assert!(said.contains(why), "{said}");
    // An executor does not take what may become shorter.
    let command = "exec \"$0\" executor --secret-fd=0 --shared-fd=5 filedescs=0,1 5<main.o";
    let output = Command::new("sh")
        .args(["-c", &format!("echo a secret of these tests | {command}")])
        .arg(clinch())
        .current_dir(path)
        .output();
    let output = output.expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("shared memory"), "{said}");
}

#[test]
fn an_executor_that_listens() {
    let folder = objects("//--- main.c\nint main(void) { return 5; }\n");
    let path = folder.path();
    let secret = path.join("secret");
    fs::write(&secret, "a secret of more than sixteen bytes").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let mut executor = Command::new(clinch())
        .args(["executor", "--secret-file=secret", "listen=127.0.0.1:0"])
        .current_dir(path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(executor.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .expect("its address");

    let connect = format!("-oop-executor-connect={address}");
    let said_without = fails(path, [&*connect, "main.o"]);
    assert!(
        said_without.contains("-oop-executor-secret"),
        "{said_without}"
    );
    let output = jit(path, [&*connect, "-oop-executor-secret=secret", "main.o"]);
    // The program's end is the executor's, which this side hears of.
    assert_eq!(executor.wait().unwrap().code(), Some(5));
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn executors_that_are_none() {
    let folder = objects("//--- main.c\nint main(void) { return 5; }\n");
    let path = folder.path();
    let said = fails(path, ["-oop-executor=/nowhere/executor", "main.o"]);
    assert!(said.contains("cannot start an executor"), "{said}");
    let said = fails(path, ["-oop-executor=/bin/true", "main.o"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    let said = fails(
        path,
        ["-oop-executor", "-oop-executor-connect=x:1", "main.o"],
    );
    assert!(said.contains("only one of"), "{said}");
    let said = fails(path, ["-oop-executor", "-perf-support", "main.o"]);
    assert!(said.contains("perf"), "{said}");
    let said = fails(path, ["-oop-executor", "-lazy", "main.o"]);
    assert_eq!(said.lines().count(), 1, "{said}");
}
