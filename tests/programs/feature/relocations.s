# Relocations that compilers seldom or never write, and instructions that a linker may rewrite.

#--- a.s
        .text
        .globl calls
calls:  pushq %rbx
        call *function@GOTPCREL(%rip)
        movl %eax, %ebx
        call *strlen_pointer(%rip)
        movq function@GOTPCREL(%rip), %rcx
        call *%rcx
        addl %eax, %ebx
        movq $function, %rcx
        call *%rcx
        addl %eax, %ebx
        movl %ebx, %eax
        popq %rbx
        ret
        .globl jumps
jumps:  jmp *function@GOTPCREL(%rip)
        .globl got_operations
got_operations:
        xorl %eax, %eax
        addq variable@GOTPCREL(%rip), %rax
        subq variable@GOTPCREL(%rip), %rax
        orq variable@GOTPCREL(%rip), %rax
        andq variable@GOTPCREL(%rip), %rax
        xorq variable@GOTPCREL(%rip), %rax
        cmpq variable@GOTPCREL(%rip), %rax
        sete %al
        movzbl %al, %eax
        movq variable@GOTPCREL(%rip), %rcx
        testq %rcx, variable@GOTPCREL(%rip)
        setne %ah
        pushq variable@GOTPCREL(%rip)
        popq %rdx
        cmpq %rdx, %rcx
        jne 1f
        leaq variable(%rip), %rdx
        cmpq %rdx, %rcx
        jne 1f
        ret
1:      ud2
        .globl got_offset
got_offset:
        leaq _GLOBAL_OFFSET_TABLE_(%rip), %rcx
        movabsq $variable@GOTOFF, %rax
        addq %rcx, %rax
        movl (%rax), %eax
        movq variable@GOT(%rcx), %rdx
        movabsq $variable@GOT, %r8
        cmpq %rdx, (%rcx,%r8)
        jne 1b
        addl (%rdx), %eax
        ret
        .globl plt_offset
plt_offset:
        leaq _GLOBAL_OFFSET_TABLE_(%rip), %rcx
        movabsq $function@PLTOFF, %rax
        addq %rcx, %rax
        jmp *%rax
        .globl function
        .type function, @function
function:
        movl $7, %eax
        ret
        .size function, .-function
        .data
        .globl variable, table, sizes, bytes
        .p2align 3
strlen_pointer: .quad function
variable: .long 5, 6, 7
        .size variable, 12
        .p2align 3
sizes:  .quad variable@SIZE, function@SIZE
        .long variable@SIZE + 1, 0
table:  .quad function, variable + 4, table - .
        .long function - ., variable - . + 4
        .quad _GLOBAL_OFFSET_TABLE_ - .
bytes:  .byte small, small + 1
        .2byte small, medium
        .long medium
        .reloc ., R_X86_64_PC8, near
        .byte 0
        .reloc ., R_X86_64_PC16, bytes
        .2byte 0
near:   .byte 1
        .section .note.GNU-stack,"",@progbits

#--- b.s
        .globl small, medium
        .set small, 100
        .set medium, 0x7654
        .section .note.GNU-stack,"",@progbits

#--- main.c
#include "check.h"
#include <stdint.h>
#include <string.h>
int calls(void), jumps(void), got_operations(void), got_offset(void), plt_offset(void), function(void);
extern int variable[];
extern int64_t sizes[], table[];
extern unsigned char bytes[];
static int16_t half(int at) {
    int16_t value;
    memcpy(&value, bytes + at, 2);
    return value;
}
int main(void) {
    CHECK(calls() == 21);
    CHECK(jumps() == 7);
    CHECK(got_operations() == 0x100);
    CHECK(got_offset() == 10);
    CHECK(plt_offset() == 7);
    CHECK(sizes[0] == 12 && sizes[1] == 6 && (int)sizes[2] == 13);
    CHECK(table[0] == (int64_t)function && table[1] == (int64_t)&variable[1]);
    CHECK(table[2] == -16);
    int32_t *relative = (int32_t *)&table[3];
    CHECK((char *)relative + relative[0] == (char *)function);
    CHECK((char *)&relative[1] + relative[1] == (char *)&variable[1]);
    CHECK(bytes[0] == 100 && bytes[1] == 101);
    CHECK(half(2) == 100 && half(4) == 0x7654);
    CHECK(bytes[10] == 3 && half(11) == -11);
    return checked();
}

#--- stdout
13 checks, 0 failures
