//! Debuggers and profilers on programs under `clinch run`: what GDB shows, what `perf` reads.

mod gdb;
mod perf;

/// The number of the only line of a source that holds a text.
fn line_of(source: &str, text: &str) -> u32 {
    let mut found = (1..)
        .zip(source.lines())
        .filter(|(_, line)| line.contains(text));
    match (found.next(), found.next()) {
        (Some((number, _)), None) => number,
        _ => panic!("not one line with {text}"),
    }
}
