//! The stubs that the linker makes: bytes with edges. Each starts a new line of code (its
//! alignment), so none straddles a cache line needlessly.

use super::edges::kind;
use crate::arch::{Reentry, Stubs, Template};

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
    reentry: Some(&REENTRY),
};

static REENTRY: Reentry = Reentry {
    trampoline: Template {
        bytes: &[
            0xe8, 0, 0, 0, 0,    // call enter
            0xcc, // int3
            0xcc, // int3
            0xcc, // int3
        ],
        align: 8,
        edges: &[(1, kind::BRANCH_PCREL32, 0)],
    },
    return_offset: 5,
    // General registers that pass arguments are pushed (`%rax` counts vector registers of calls
    // with variable arguments, `%r10` holds a static chain); `xsave` keeps the vector registers
    // at their full width, in an area aligned to 64 with a zero header, as it demands. The
    // answer takes the place of the trampoline's return address and ends up in `%r11`, which no
    // call keeps; its place is cleared, lest the stack look as if somebody were to return into
    // the function. Mask 0xe7: x87, SSE, AVX, AVX-512.
    enter: Template {
        bytes: &[
            0x55, // push %rbp
            0x48, 0x89, 0xe5, // mov %rsp, %rbp
            0x50, // push %rax
            0x57, // push %rdi
            0x56, // push %rsi
            0x52, // push %rdx
            0x51, // push %rcx
            0x41, 0x50, // push %r8
            0x41, 0x51, // push %r9
            0x41, 0x52, // push %r10
            0x48, 0x2b, 0x25, 0, 0, 0, 0, // sub size(%rip), %rsp
            0x48, 0x83, 0xe4, 0xc0, // and $-64, %rsp
            0x31, 0xc0, // xor %eax, %eax
            0x48, 0x8d, 0xbc, 0x24, 0x00, 0x02, 0, 0, // lea 512(%rsp), %rdi
            0xb9, 8, 0, 0, 0, // mov $8, %ecx
            0xf3, 0x48, 0xab, // rep stosq
            0xb8, 0xe7, 0, 0, 0, // mov $0xe7, %eax
            0x31, 0xd2, // xor %edx, %edx
            0x48, 0x0f, 0xae, 0x24, 0x24, // xsave64 (%rsp)
            0x48, 0x8b, 0x3d, 0, 0, 0, 0, // mov context(%rip), %rdi
            0x48, 0x8b, 0x75, 0x08, // mov 8(%rbp), %rsi
            0xff, 0x15, 0, 0, 0, 0, // call *resolver(%rip)
            0x48, 0x89, 0x45, 0x08, // mov %rax, 8(%rbp)
            0xb8, 0xe7, 0, 0, 0, // mov $0xe7, %eax
            0x31, 0xd2, // xor %edx, %edx
            0x48, 0x0f, 0xae, 0x2c, 0x24, // xrstor64 (%rsp)
            0x48, 0x8d, 0x65, 0xc0, // lea -64(%rbp), %rsp
            0x41, 0x5a, // pop %r10
            0x41, 0x59, // pop %r9
            0x41, 0x58, // pop %r8
            0x59, // pop %rcx
            0x5a, // pop %rdx
            0x5e, // pop %rsi
            0x5f, // pop %rdi
            0x58, // pop %rax
            0x5d, // pop %rbp
            0x41, 0x5b, // pop %r11
            0x48, 0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0, // movq $0, -8(%rsp)
            0x41, 0xff, 0xe3, // jmp *%r11
        ],
        align: 16,
        edges: &[
            (18, kind::PCREL32, 0),
            (59, kind::PCREL32, 0),
            (69, kind::PCREL32, 0),
        ],
    },
    state_size,
};

/// The size of the area that `xsave` writes for the components of the mask (Intel's manual,
/// volume 1, chapter 13.4: fixed places, told by `cpuid` leaf 0xd).
fn state_size() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid_count;
        if !std::is_x86_feature_detected!("xsave") {
            return None;
        }
        // The old area and the header; then AVX and the three parts of AVX-512.
        let components = [2, 5, 6, 7].map(|component| __cpuid_count(0xd, component));
        let ends = components.map(|found| u64::from(found.ebx) + u64::from(found.eax));
        Some(ends.into_iter().fold(512 + 64, u64::max))
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

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
