//! The check language: rules about a linked image, written as comments into the assembly or text
//! that a test links. `clinch jit -check=FILE` evaluates them.
//!
//! A line that begins, after blanks, with `# NAME:` (NAME is `jitlink-check` unless told
//! otherwise) holds a rule; a rule whose line ends in `\` goes on in the next such line.
//!
//! ```text
//! rule     = expr "=" expr                      the first "=" splits; equal as 64-bit values
//! expr     = simple { binop simple }            left to right, no precedence; wraps around
//! binop    = "+" | "-" | "&" | "|" | "<<" | ">>"
//! simple   = ( "(" expr ")" | load | ident | number ) [ slice ]
//! slice    = "[" number ":" number "]"          high and low bit, both included
//! load     = "*{" size "}" expr                 1, 2, 4 or 8 bytes; takes the rest of the expr
//! ident    = "decode_operand(" sym ["+" number] "," number ")"
//!          | "next_pc(" sym ")"
//!          | "stub_addr(" file "," sym ["," kind] ")"
//!          | "got_addr(" file "," sym ")"
//!          | "section_addr(" file "," section ")"
//!          | sym
//! ```
//!
//! Inside a load a name stands for where the linker keeps its bytes, outside it for its address
//! in the executor ([`Location`]). What has no bytes is 0 inside a load, and loading from 0 gives
//! 0.
//!
//! - [`parse`] makes programs for a stack machine of rules, so that no evaluation recurses.
//! - [`eval`] runs them against an [`Image`].

pub mod eval;
pub mod parse;

#[cfg(test)]
mod tests;

pub use eval::{Image, Location, Outcome, evaluate};
pub use parse::{Rule, rules};
