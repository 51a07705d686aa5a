//! Thread-local variables of shared libraries that were opened after the process started: their
//! offset from the thread pointer, the same in every thread.
//!
//! The C library gives such a library's block its place when something first uses it: in the
//! spare part of the static block, which every thread has at the same offset, if the first use
//! is a relocation that needs a fixed offset; else in memory of its own for each thread, for ever.
//! `dlsym` is a use of the second kind, so it must not be asked. Instead a library is made that
//! consists of nothing but such relocations, and opened; it then holds the offsets.

use super::tls_object::Object;

/// The offsets of thread-local variables by name; `None` for those that no opened library
/// defines.
///
/// # Errors
/// What the dynamic linker says: most likely that the spare part of the static block is full.
pub(crate) fn offsets(names: &[&[u8]]) -> Result<Vec<Option<i64>>, String> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // Stays open for good: linked code uses the offsets.
    let opened = Object::of_names(names).open()?;
    Ok((0..names.len()).map(|slot| opened.offset(slot)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_defines_has_no_offset() {
        let found = offsets(&[b"clinch_defines_no_such_variable", b"nor_this@VERSION"]);
        assert_eq!(found, Ok(vec![None, None]));
        assert_eq!(offsets(&[]), Ok(Vec::new()));
    }
}
