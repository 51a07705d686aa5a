//! `clinch executor`: started by a controller, found over the net, and left by it.

use crate::support::{clinch, run, scratch};
use clinch_executor::wire::{Place, Protection, Segment, ToExecutor};
use clinch_executor::{Client, Controller, ControllerOptions, Error, Secret};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SECRET: &[u8] = b"the secret of these tests";

/// Places code: `mov eax, 42; ret`, or a loop without end.
fn place(client: &Client, code: &[u8]) -> u64 {
    let size = u64::try_from(code.len()).unwrap();
    let address = client.reserve(size, 1, Place::Near).unwrap();
    let segment = Segment {
        address,
        size,
        protection: Protection::ReadExecute,
        sealed_late: false,
        content: code,
    };
    client.finalize(&[segment], Vec::new()).unwrap();
    address
}

const ANSWER: &[u8] = &[0xb8, 42, 0, 0, 0, 0xc3];
const SPIN: &[u8] = &[0xeb, 0xfe];

fn secret_file(folder: &Path, mode: u32) -> PathBuf {
    let path = folder.join("secret");
    fs::write(&path, SECRET).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// Starts an executor that listens, and answers where.
fn listen(folder: &Path) -> (Child, String) {
    let mut child = Command::new(clinch())
        .arg("executor")
        .arg("--secret-file")
        .arg(secret_file(folder, 0o600))
        .arg("listen=127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let errors = child.stderr.take().unwrap();
    BufReader::new(errors).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    let address = address.to_owned();
    (child, address)
}

#[test]
fn a_controller_starts_it() {
    let program = PathBuf::from(clinch());
    let arguments = ["executor".into()];
    let options = ControllerOptions::default();
    let controller = Controller::spawn(Some(&program), &arguments, options).unwrap();
    let answer = place(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
}

#[test]
fn it_listens_for_who_knows_the_secret() {
    let folder = scratch();
    let (mut child, address) = listen(folder.path());
    let mut stranger = TcpStream::connect(&address).unwrap();
    stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let connect = |secret: &[u8]| {
        let secret = Secret::new(secret).unwrap();
        Controller::connect_to(&address, &secret, ControllerOptions::default())
    };
    let wrong = connect(b"some other secret that is none").err();
    assert_eq!(wrong, Some(Error::WrongSecret));
    let controller = connect(SECRET).unwrap();
    let answer = place(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_connects_to_a_controller_that_listens() {
    let folder = scratch();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = Command::new(clinch())
        .arg("executor")
        .arg("--secret-file")
        .arg(secret_file(folder.path(), 0o600))
        .arg(format!("connect={}", listener.local_addr().unwrap()))
        .spawn()
        .unwrap();
    let (socket, _) = listener.accept().unwrap();
    let stream = clinch_executor::Stream::tcp(socket).unwrap();
    let controller = Controller::connect(stream, &Secret::new(SECRET).unwrap()).unwrap();
    let answer = place(&controller, ANSWER);
    assert_eq!(controller.run_main(answer), Ok(42));
    controller.disconnect().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Code that runs for ever does not keep the process when nobody is left to want it.
#[test]
fn it_ends_when_its_controller_does() {
    let folder = scratch();
    let (mut child, address) = listen(folder.path());
    let secret = Secret::new(SECRET).unwrap();
    let controller =
        Controller::connect_to(&address, &secret, ControllerOptions::default()).unwrap();
    let spin = place(&controller, SPIN);
    controller.send(&ToExecutor::Main { address: spin }, |_| ());
    drop(controller);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn what_is_wrong_is_said() {
    let folder = scratch();
    let open = secret_file(folder.path(), 0o644);
    let open = format!("--secret-file={}", open.display());
    for (words, wanted) in [
        (&["listen=localhost:0"][..], "a secret is needed"),
        (&[&open, "listen=localhost:0"], "chmod 600"),
        (&[&open], "no place to find the controller"),
        (&["listen=nowhere"], "is none of filedescs=IN,OUT"),
        (
            &["--secret-fd=77", "filedescs=78,79"],
            "cannot read the secret",
        ),
    ] {
        let output = run(Command::new(clinch()).arg("executor").args(words), b"");
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let errors = output.errors();
        assert!(errors.contains(wanted), "{words:?}: {errors}");
    }
}
