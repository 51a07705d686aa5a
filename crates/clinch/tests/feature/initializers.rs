//! Constructors and destructors, in the order that priorities, inputs and sections give.

use super::{NON_PIC, check_in_all_ways};
use crate::support::{Program, Source, relocatable};

#[test]
fn priorities_over_objects() {
    let source = Source::read("feature/order.c");
    for (flags, link) in [("-O0", ""), ("-O2 -fPIC", ""), NON_PIC] {
        let objects = source.objects(["a.c", "b.c", "c.c"], flags);
        Program::new(objects)
            .link(link)
            .arguments(["one"])
            .prints(source.text("stdout"))
            .exits(9)
            .check();
    }
}

#[test]
fn older_sections() {
    let source = Source::read("feature/ctors.s");
    let objects = source.objects(["a.s", "b.s"], "");
    Program::new(objects).exits(4).check();
}

#[test]
fn order_of_inputs() {
    let source = Source::read("feature/order.c");
    let [a, b, c] = source.objects(["a.c", "b.c", "c.c"], "-O1");
    let joined = relocatable("joined.o", "", &[c.clone(), b.clone()]);
    for inputs in [vec![c, a.clone(), b], vec![joined, a]] {
        Program::new(inputs).exits(9).check();
    }
}

#[test]
fn bounds_of_named_sections() {
    let parts = ["a.c", "b.c", "c.c"];
    let ways = [("-O1", ""), ("-O0 -fPIC", ""), NON_PIC];
    check_in_all_ways(
        "feature/start_stop.c",
        parts,
        "-fno-toplevel-reorder",
        &ways,
    );
    let more = "-fno-toplevel-reorder -ffunction-sections -fdata-sections";
    check_in_all_ways("feature/start_stop.c", parts, more, &ways);
}
