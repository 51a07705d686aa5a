//! The plugins of `examples/plugins`, on a program whose answers are known.

use super::{add, dylib, object, session};
use crate::support::{self, Folder, have};
use std::sync::Arc;

#[path = "../../examples/plugins/call_sites.rs"]
mod call_sites;
#[path = "../../examples/plugins/entry_counts.rs"]
mod entry_counts;
#[path = "../../examples/plugins/got_loads.rs"]
mod got_loads;
#[path = "../../examples/plugins/section_sizes.rs"]
mod section_sizes;
#[path = "../../examples/plugins/symbols.rs"]
mod symbols;
#[path = "../../examples/plugins/unwind_sections.rs"]
mod unwind_sections;

const SOURCE: &str = "
    int numbers[4] = {1, 2, 3, 4};
    __attribute__((noinline)) int *where(void) { return numbers; }
    __attribute__((noinline)) int one(int n) { return n + 1; }
    __attribute__((noinline)) int ten(int n) { return n + 10; }
    int sum(void) {
        int sum = 0;
        for (int i = 0; i < 4; i++) sum = one(sum) + where()[i];
        return sum;
    }
";

#[test]
fn symbols_sizes_loads_and_unwind_sections() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let names = Arc::new(symbols::Symbols::default());
    let sizes = Arc::new(section_sizes::SectionSizes::default());
    let loads = Arc::new(got_loads::GotLoads::default());
    let unwind = Arc::new(unwind_sections::UnwindSections::default());
    session.add_plugin(Arc::clone(&names) as _);
    session.add_plugin(Arc::clone(&sizes) as _);
    session.add_plugin(Arc::clone(&loads) as _);
    session.add_plugin(Arc::clone(&unwind) as _);
    add(&main, vec![object(&folder, "a", SOURCE)]);
    assert_eq!(super::call(&main, "sum"), 14);

    let names = names.names();
    for name in ["numbers", "where", "one", "ten", "sum"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert_eq!(sizes.sizes().get(".data"), Some(&16));
    assert_eq!(loads.relaxed(), 1);
    let sections = unwind.sections();
    assert_eq!(sections.len(), 1);
    let window = support::mapping_of(sections[0].0);
    assert!(window.access.starts_with("r--"), "{window:?}");
}

/// The calls of one function are pointed at another while the program is in memory.
#[test]
#[expect(unsafe_code, reason = "writes to code")]
fn recorded_calls_are_repointed() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let sites = Arc::new(call_sites::CallSites::new("one"));
    session.add_plugin(Arc::clone(&sites) as _);
    add(&main, vec![object(&folder, "a", SOURCE)]);
    assert_eq!(super::call(&main, "sum"), 14);
    let ten = main
        .look_up("ten")
        .unwrap_or_else(|error| panic!("{error}"));
    let sites = sites.sites();
    assert_eq!(sites.len(), 1);
    for site in sites {
        let distance = i32::try_from(ten.wrapping_sub(site + 4).cast_signed()).expect("near");
        let page = usize::try_from(site & !0xfff).expect("it is an address");
        let pages = std::ptr::with_exposed_provenance_mut::<libc::c_void>(page);
        let place = usize::try_from(site).expect("it is an address");
        let place = std::ptr::with_exposed_provenance_mut::<i32>(place);
        // The operand may reach into the next page.
        let size = if site & 0xfff > 0xffc { 8192 } else { 4096 };
        // SAFETY: the operand of a call in linked code that nobody runs now; its pages are writable
        // only meanwhile.
        unsafe {
            assert_eq!(
                libc::mprotect(pages, size, libc::PROT_READ | libc::PROT_WRITE),
                0
            );
            place.write_unaligned(distance);
            assert_eq!(
                libc::mprotect(pages, size, libc::PROT_READ | libc::PROT_EXEC),
                0
            );
        }
    }
    assert_eq!(super::call(&main, "sum"), 50);
}

#[test]
fn entries_of_functions_are_counted() {
    if !have(&["cc"]) {
        return;
    }
    let folder = Folder::new();
    let session = session(1);
    let main = dylib(&session, "main");
    let counts = Arc::new(entry_counts::EntryCounts::default());
    session.add_plugin(Arc::clone(&counts) as _);
    add(&main, vec![object(&folder, "a", SOURCE)]);
    assert_eq!(super::call(&main, "sum"), 14);
    let mut counts = counts.counts();
    counts.sort();
    let counts: Vec<(&str, u64)> = counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(counts, [("one", 4), ("sum", 1), ("ten", 0), ("where", 4)]);
}
