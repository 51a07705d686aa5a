//! Relocatable ELF objects, topic by topic.

mod addrsig;
mod classes;
mod compressed;
mod empty;
mod groups;
mod malformed;
mod many;
mod mutation;
mod names;
mod note;
mod peer;
mod section;
mod symbol;
mod table;
