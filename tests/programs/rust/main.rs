//! A Rust program for the tests: printing, threads, panics caught and passed on by joins,
//! thread_local values with Drop, sharing by Arc and Mutex, and an exit status.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, BufRead, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, Once, OnceLock};
use std::thread;

static DROPPED: AtomicUsize = AtomicUsize::new(0);
static ONCE: Once = Once::new();
static CONFIGURATION: OnceLock<String> = OnceLock::new();

struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
        println!("drop {}", self.0);
    }
}

struct Counted(Cell<u32>);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0.get() as usize, Ordering::SeqCst);
    }
}

thread_local! {
    static COUNTED: Counted = const { Counted(Cell::new(0)) };
    static WORDS: RefCell<Vec<String>> = RefCell::new(Vec::new());
}

trait Shape {
    fn area(&self) -> f64;
    fn name(&self) -> String {
        "shape".to_owned()
    }
}

struct Square(f64);
struct Circle(f64);

impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
    fn name(&self) -> String {
        "square".to_owned()
    }
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        3.0 * self.0 * self.0
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(i64),
    Text(String),
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number:>5}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::List(list) => {
                f.write_str("[")?;
                for value in list {
                    write!(f, "{value};")?;
                }
                f.write_str("]")
            }
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "something else".to_owned()
    }
}

#[inline(never)]
fn fail(depth: u32) -> u32 {
    let _noisy = Noisy("frame");
    if depth == 0 {
        panic!("at the bottom");
    }
    fail(depth - 1) + 1
}

fn panics() {
    panic::set_hook(Box::new(|information| {
        let line = information.location().map_or(0, |location| location.line());
        eprintln!("hook called: {}", line > 0);
    }));
    let caught = panic::catch_unwind(|| fail(2));
    println!("caught: {}", message(&*caught.unwrap_err()));
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        let numbers: Vec<u32> = (0..3).collect();
        let index = std::env::args().count() + 100;
        numbers[index]
    }));
    println!("caught: {}", message(&*caught.unwrap_err()));
    let caught = panic::catch_unwind(|| panic::resume_unwind(Box::new(17_i32)));
    println!("resumed with {:?}", caught.unwrap_err().downcast_ref::<i32>());
    let joined = thread::spawn(|| {
        if true {
            panic!("in a thread: {}", 5);
        }
    })
    .join();
    println!("joined: {}", message(&*joined.unwrap_err()));
    let _ = panic::take_hook();
}

fn threads() {
    let total = Arc::new(Mutex::new(BTreeMap::new()));
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let (send, receive) = mpsc::channel();
    let handles: Vec<_> = (0..4_u32)
        .map(|index| {
            let (total, turn, send) = (total.clone(), turn.clone(), send.clone());
            thread::Builder::new()
                .name(format!("worker {index}"))
                .spawn(move || {
                    ONCE.call_once(|| {
                        CONFIGURATION.get_or_init(|| "configured".to_owned());
                    });
                    COUNTED.with(|counted| counted.0.set(counted.0.get() + index));
                    WORDS.with_borrow_mut(|words| words.push(index.to_string()));
                    let n_words = WORDS.with_borrow(Vec::len);
                    total.lock().unwrap().insert(index, index * 10 + n_words as u32);
                    let (lock, condition) = &*turn;
                    let mut now = condition
                        .wait_while(lock.lock().unwrap(), |now| *now != index)
                        .unwrap();
                    let name = thread::current().name().unwrap_or("?").to_owned();
                    send.send(name).unwrap();
                    *now += 1;
                    condition.notify_all();
                })
                .unwrap()
        })
        .collect();
    drop(send);
    for handle in handles {
        handle.join().unwrap();
    }
    println!("{:?}", receive.iter().collect::<Vec<_>>());
    println!("{:?} {:?}", total.lock().unwrap(), CONFIGURATION.get());
    println!("counted and dropped {}", DROPPED.load(Ordering::SeqCst));
    let mut data = vec![1, 2, 3];
    thread::scope(|scope| {
        for value in &mut data {
            scope.spawn(move || *value *= 2);
        }
    });
    println!("{data:?}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("arguments {arguments:?}");
    println!("variable {:?}", std::env::var("CLINCH_TEST_VARIABLE"));
    let stdin: Vec<String> = io::stdin().lock().lines().map_while(Result::ok).collect();
    println!("stdin {stdin:?}");
    let value = Value::List(vec![Value::Number(42), Value::Text("a\tb".to_owned())]);
    println!("{value} {value:?} {}", value == value.clone());
    println!("{:08.3} {:#x} {:+e} {:^9}|", 3.14159, 255, 1234.5, "mid");
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(2.0)), Box::new(Circle(1.0))];
    for shape in &shapes {
        println!("{} {}", shape.name(), shape.area());
    }
    let mut counts: HashMap<char, usize> = HashMap::new();
    for letter in "mississippi".chars() {
        *counts.entry(letter).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort();
    println!("{counts:?}");
    panics();
    threads();
    match "12x".parse::<i32>() {
        Ok(number) => println!("{number}"),
        Err(error) => println!("error: {error}"),
    }
    io::stderr().write_all(b"to standard error\n").unwrap();
    io::stdout().flush().unwrap();
    std::process::exit(7);
}
