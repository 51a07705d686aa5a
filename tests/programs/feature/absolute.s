# Absolute symbols, from assembly, used as numbers and as addresses.

#--- a.s
        .globl absolute
        .set absolute, 0x1234
        .globl wide
        .set wide, 0x123456789abcdef0
        .globl negative
negative = -8
        .globl zero
        .set zero, 0
        .section .note.GNU-stack,"",@progbits

#--- main.c
#include "check.h"
extern char absolute[], wide[], negative[];
extern char zero[] __attribute__((weak));
static unsigned long table[] = {(unsigned long)absolute, (unsigned long)wide, (unsigned long)negative, (unsigned long)zero};
unsigned long absolute_in_code(void);
__attribute__((noinline)) static unsigned long address_of_absolute(void) { return (unsigned long)absolute; }
int main(void) {
    CHECK(table[0] == 0x1234);
    CHECK(table[1] == 0x123456789abcdef0);
    CHECK(table[2] == -8ul);
    CHECK(table[3] == 0);
    CHECK(absolute_in_code() == 0x1234 * 2 - 8);
    CHECK(address_of_absolute() == 0x1234);
    CHECK(zero == 0);
    return checked();
}

#--- code.s
        .globl absolute_in_code
absolute_in_code:
        movl $absolute, %eax
        addq $absolute, %rax
        addq $negative, %rax
        ret
        .section .note.GNU-stack,"",@progbits

#--- stdout
7 checks, 0 failures
