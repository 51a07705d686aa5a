//! The stubs that the linker makes: bytes with edges. Each starts a new line of code (its
//! alignment), so none straddles a cache line needlessly.

use super::edges::kind;
use crate::arch::{Stubs, Template};

/// The stubs.
pub(super) static STUBS: Stubs = Stubs {
    // Uses no register. Only direct calls and jumps come here, so there is no `endbr64`; the two
    // bytes behind the jump fill it up to its alignment and trap.
    jump: Template {
        bytes: &[
            0xff, 0x25, 0, 0, 0, 0,    // jmp *entry(%rip)
            0xcc, // int3
            0xcc, // int3
        ],
        align: 8,
        edges: &[(2, kind::PCREL32, 0)],
    },
    // Called with the function in `%rdi`, where `__cxa_atexit` takes it too; its argument is 0.
    // The program may take this function's address, so it starts with `endbr64`.
    atexit: Template {
        bytes: &[
            0xf3, 0x0f, 0x1e, 0xfa, // endbr64
            0x48, 0x8d, 0x15, 0, 0, 0, 0, // lea handle(%rip), %rdx
            0x31, 0xf6, // xor %esi, %esi
            0xe9, 0, 0, 0, 0, // jmp __cxa_atexit
        ],
        align: 16,
        edges: &[(7, kind::PCREL32, 0), (14, kind::BRANCH_PCREL32, 0)],
    },
};

#[cfg(test)]
mod tests {
    use super::STUBS;
    use crate::arch::Template;
    use crate::x86_64::ARCH;
    use crate::{FixupContext, fixup::FixupError};
    use clinch_graph::{Edge, Id, SymbolId};

    fn instantiate(
        template: &Template,
        place: u64,
        addresses: &[u64],
    ) -> Result<Vec<u8>, FixupError> {
        let mut edges = Vec::new();
        for (n, &(offset, kind, addend)) in template.edges.iter().enumerate() {
            edges.push(Edge {
                offset,
                kind,
                target: SymbolId::from_index(n),
                addend,
            });
        }
        let context = FixupContext {
            addresses,
            size_of: &|_| 0,
            got: 0,
            tls: None,
        };
        let mut bytes = template.bytes.to_vec();
        (ARCH.apply)(&context, place, &edges, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn jump_goes_through_the_entry() {
        // The instruction ends at 0x1006; 0x3000 - 0x1006 = 0x1ffa.
        let bytes = instantiate(&STUBS.jump, 0x1000, &[0x3000]).unwrap();
        assert_eq!(bytes, [0xff, 0x25, 0xfa, 0x1f, 0, 0, 0xcc, 0xcc]);
        assert!(instantiate(&STUBS.jump, 0x1000, &[0x1_0000_0000]).is_err());
    }

    #[test]
    fn atexit_passes_the_handle_and_jumps() {
        // The lea ends at 0x100b, the jmp at 0x1012.
        let bytes = instantiate(&STUBS.atexit, 0x1000, &[0x100b, 0x0f00]).unwrap();
        assert_eq!(bytes[4..11], [0x48, 0x8d, 0x15, 0, 0, 0, 0]);
        assert_eq!(bytes[13..18], [0xe9, 0xee, 0xfe, 0xff, 0xff]);
        assert_eq!(bytes.len(), 18);
    }
}
