//! `clinch executor`: a process that holds and runs what another one links.

use crate::flags::list::{self, Flag, Takes, number, text};
use crate::render::Failure;
use clinch_executor::{Endpoint, Error, Executor, Secret, SharedFile};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the words say.
#[derive(Default, Debug)]
struct Options {
    endpoint: Option<Endpoint>,
    secret_file: Option<PathBuf>,
    secret_descriptor: Option<i32>,
    shared_descriptor: Option<i32>,
    help: bool,
}

static FLAGS: &[Flag<Options>] = &[
    Flag {
        name: "secret-file",
        takes: Takes::Value,
        value: "file",
        doc: "the secret that the controller must know: 16 to 4096 bytes, readable by you only",
        set: |options, value| {
            options.secret_file = Some(value.into());
            Ok(())
        },
    },
    Flag {
        name: "secret-fd",
        takes: Takes::Value,
        value: "number",
        doc: "the same from an inherited descriptor",
        set: |options, value| {
            let number = i32::try_from(number(value)?).map_err(|error| error.to_string())?;
            options.secret_descriptor = Some(number);
            Ok(())
        },
    },
    Flag {
        name: "shared-fd",
        takes: Takes::Value,
        value: "number",
        doc: "memory that the controller shares: a memory file, an inherited descriptor",
        set: |options, value| {
            let number = i32::try_from(number(value)?).map_err(|error| error.to_string())?;
            options.shared_descriptor = Some(number);
            Ok(())
        },
    },
    Flag {
        name: "help",
        takes: Takes::Nothing,
        value: "",
        doc: "this text",
        set: |options, _| {
            options.help = true;
            Ok(())
        },
    },
];

const USAGE: &str = "usage: clinch executor [OPTION...] WHERE

Serves one controller, which may run anything in this process: give nobody the secret who may not.
WHERE is one of
  listen=HOST:PORT             the controller connects to it (port 0: any, which is printed)
  connect=HOST:PORT            the controller listens there
  filedescs=IN,OUT             inherited descriptors to read from and to write to

options:
";

pub(crate) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let mut options = Options::default();
    list::parse(FLAGS, words, &mut options, |options, word| {
        if options.endpoint.is_some() {
            return Err("more than one place to find the controller at".to_owned());
        }
        options.endpoint = Some(text(word)?.parse()?);
        Ok(())
    })?;
    if options.help {
        print!("{USAGE}{}", list::help(FLAGS));
        return Ok(0);
    }
    let endpoint = options
        .endpoint
        .as_ref()
        .ok_or("no place to find the controller at (clinch executor --help)")?;
    let mut executor = Executor::new(secret(&options)?);
    if let Some(number) = options.shared_descriptor {
        let file = SharedFile::inherited(number).map_err(|error| error.to_string())?;
        executor.shared_memory = Some(Arc::new(file));
    }
    executor
        .run_process(endpoint, |address| eprintln!("listening on {address}"))
        .map_err(|error| error.to_string())?;
    Ok(0)
}

fn secret(options: &Options) -> Result<Secret, String> {
    let named = |path: &Path, error: Error| format!("{}: {error}", path.display());
    match (&options.secret_file, options.secret_descriptor) {
        (Some(path), None) => Secret::from_file(path).map_err(|error| named(path, error)),
        (None, Some(number)) => Secret::inherited(number).map_err(|error| error.to_string()),
        _ => Err("a secret is needed: --secret-file or --secret-fd".to_owned()),
    }
}
