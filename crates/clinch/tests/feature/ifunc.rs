//! Functions that are chosen when a program is loaded.

use super::{NO_PLT, NON_PIC, PIC, PIE, UNOPTIMIZED};
use crate::support::{Program, Source, archive};

#[test]
fn called_and_compared_over_objects() {
    let source = Source::read("feature/ifunc.c");
    for (flags, link) in [PIC, NON_PIC, NO_PLT, PIE, UNOPTIMIZED] {
        let [main, other, member] = source.objects(["main.c", "other.c", "member.c"], flags);
        let library = archive("libmember.a", "ar", "rcs", &[member]);
        let program = Program::new([main, other, library])
            .link(link)
            .prints(source.text("stdout"));
        if flags == PIE.0 || flags == UNOPTIMIZED.0 {
            // GNU ld 2.40 gives an IFUNC two addresses in a position-independent executable.
            program.check_clinch_only();
        } else {
            program.check();
        }
    }
}
