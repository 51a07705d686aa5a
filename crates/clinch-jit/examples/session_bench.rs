//! Links objects and archives in a session and says how long each step took; with `--look-ups`
//! also how many look-ups of ready symbols there are per second, from one thread and from two.
//!
//! usage: `session_bench [--threads N] [--phony] [--entry NAME] [--look-ups] [@FILE] FILE...`

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clinch_graph::InputName;
use clinch_jit::session::{DylibSources, Session, SessionOptions};
use clinch_object::FileBytes;
use std::path::Path;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mut threads, mut files) = (1, Vec::new());
    let (mut phony, mut look_ups, mut entry) = (false, false, "main".to_owned());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--threads" => threads = words.next().ok_or("--threads needs a number")?.parse()?,
            "--entry" => entry = words.next().ok_or("--entry needs a name")?,
            "--phony" => phony = true,
            "--look-ups" => look_ups = true,
            word => match word.strip_prefix('@') {
                Some(list) => {
                    let list = std::fs::read_to_string(list)?;
                    files.extend(list.split_whitespace().map(str::to_owned));
                }
                None => files.push(word.to_owned()),
            },
        }
    }
    let started = Instant::now();
    let arch = clinch_target::host_arch().ok_or("unknown host")?;
    let session = Session::new(
        arch,
        SessionOptions {
            threads,
            ..SessionOptions::default()
        },
    );
    let sources = DylibSources {
        phony,
        ..DylibSources::default()
    };
    let main = session.create_dylib("main", sources)?;
    let mut objects = Vec::new();
    for file in files {
        let bytes = FileBytes::open(Path::new(&file))?;
        if Path::new(&file).extension().is_some_and(|end| end == "a") {
            main.add_archive(&file, bytes)?;
        } else {
            objects.push((InputName::file(&file), bytes));
        }
    }
    main.add_objects(objects)?;
    println!("{:>9.2} ms  add", started.elapsed().as_secs_f64() * 1e3);
    let linking = Instant::now();
    main.look_up(&entry)?;
    println!("{:>9.2} ms  link", linking.elapsed().as_secs_f64() * 1e3);

    for callers in [1, 2].into_iter().filter(|_| look_ups) {
        let counts: Vec<u64> = std::thread::scope(|scope| {
            let caller = || {
                let (mut n, until) = (0, Instant::now() + Duration::from_millis(200));
                while Instant::now() < until {
                    for _ in 0..1000 {
                        n += u64::from(main.look_up(&entry).is_ok());
                    }
                }
                n
            };
            let callers: Vec<_> = (0..callers).map(|_| scope.spawn(caller)).collect();
            callers
                .into_iter()
                .filter_map(|caller| caller.join().ok())
                .collect()
        });
        println!(
            "{:>9} look-ups per second, {callers} threads",
            counts.iter().sum::<u64>() * 5
        );
    }
    Ok(())
}
