//! The text form of a graph: [`print()`] writes it, [`parse()`] reads it. Tests are written in it,
//! so this page is its manual.
//!
//! # By example
//!
//! ```text
//! graph "hello.o" x86_64                  ; name and architecture
//! comdat c1 $3 any                        ; signature and selection
//!
//! section s1 ".text" r-x
//!   block b1 size 9 align 16
//!     bytes 55 48 89 e5 e8 00 00 00 00
//!     edge +0x5 BranchPCRel32 $2 - 4      ; place, kind, target, addend
//!
//! section s2 ".rodata.f" r-- comdat c1 entry 1 merge strings
//!   block b2 size 6 align 1
//!     string "hello\x00"
//!
//! section s3 ".bss" rw-
//!   block b3 size 4096 align 64 zero
//!
//! symbol $1 "main" b1+0x0 size 9 callable
//! symbol $2 "puts" external
//! symbol $3 "f" b2+0x0 weak hidden
//! symbol $4 b2+0x0 section                ; anonymous, hence local
//! symbol $5 "limit" absolute 0x1000
//! symbol $6 "buf" common align 32 size 64 object
//! symbol $7 "gone" discarded
//!
//! associate b1 b2                         ; b2 lives when b1 does
//! ```
//!
//! # Lexical rules
//!
//! A statement is one line. `;` outside quotes begins a comment that runs to the line's end;
//! empty lines and indentation mean nothing. Words are separated by blanks. Numbers are decimal
//! or, after `0x`, hexadecimal. A string stands in double quotes and is a run of bytes: `\\`,
//! `\"`, `\n`, `\t` and `\xNN` are escapes, any other character stands for its UTF-8 bytes. A
//! graph's name is UTF-8; names of sections and symbols are bytes without zero.
//!
//! Ids are spelled as `Display` prints them: `c1`, `s1`, `b1`, `$1`, each kind counted on its
//! own, from 1. In a text they may have gaps and stand in any order, and may be used before they
//! are defined; [`parse()`] makes the entities in the order of their ids and numbers them from 1
//! without gaps. [`print()`] numbers what exists without gaps too, so that a text that was printed
//! is printed the same again after parsing, whatever holes the graph had.
//!
//! # Statements
//!
//! ```text
//! graph STRING TARGET                                            first, once
//! comdat cN $N any|no-duplicates|same-size|exact-match|largest|all
//! section sN STRING PROT PROPERTY…
//!     PROT      three letters: r or -, w or -, x or -
//!     PROPERTY  kind KIND         a name of SectionKind::NAMES; regular when left out
//!               lifetime finalize|noalloc                       standard when left out
//!               entry NUMBER      size of one entry; 0 when left out
//!               comdat cN         the group it belongs to
//!               ordinal NUMBER    place in a layout; its id's position when left out
//!               merge strings tls retain relro large exclude    SectionFlags
//! block bN PROPERTY…                                             in the section above it
//!     PROPERTY  size NUMBER       required for zero; else, when given, checked
//!               align NUMBER      a power of two; 1 when left out
//!               offset NUMBER     address modulo align; 0 when left out
//!               zero              no content: so many zero bytes
//! bytes HEX…                                                     more content of the block above
//! string STRING…                                                 likewise
//! edge +OFFSET KIND $N [+ NUMBER | - NUMBER]                     an edge of the block above
//! symbol $N [STRING] PLACE PROPERTY…                             anonymous without a name
//!     PLACE     bN+OFFSET | absolute NUMBER | external | common align NUMBER | discarded
//!     PROPERTY  size NUMBER       0 when left out
//!               default protected hidden side-effects-only local
//!                                 scope; local for an anonymous symbol, else default
//!               weak              linkage; strong when left out
//!               callable object tls ifunc unique section weakly-referenced live
//! associate bN bN                                                parent, child
//! ```
//!
//! # What is printed
//!
//! Groups, sections with their blocks, symbols, associations, in this order and each in id
//! order; what has its default is left out, except a block's size and alignment. Edges keep
//! their order. Content is printed as strings, one a line, where it looks like them (not in
//! executable sections: see [`print()`]'s source for the rule), else as up to 32 bytes a line.
//!
//! Not in the text: inputs and provenance, and whether content and edges are an input's or the
//! graph's own. A reference to what does not exist, which only an unsound graph has, is printed
//! with a question mark and its raw number (`$?7`), an edge kind the architecture does not know
//! as `?9`; neither parses.

mod lex;
mod numbering;
mod parse;
mod print;

pub(crate) use numbering::Numbering;
pub use parse::{ParseError, parse};
pub use print::{PrintError, print};

#[cfg(test)]
mod tests;
