# The older sections for the same: .ctors runs backwards, .dtors forwards; with a priority the
# section's name is 65535 less the priority. .preinit_array comes before all.

#--- a.s
        .macro says name, text
        .section .rodata.str1.1,"aMS",@progbits,1
.L\name: .asciz "\text"
        .text
\name:  leaq .L\name(%rip), %rdi
        jmp puts@PLT
        .endm
        says a1, "a ctor 1"
        says a2, "a ctor 2"
        says a3, "a ctor with priority 101"
        says a4, "a init_array"
        says a5, "a dtor 1"
        says a6, "a dtor 2"
        says a7, "a fini_array"
        says a8, "a preinit"
        .section .ctors,"aw",@progbits
        .quad a1, a2
        .section .ctors.65434,"aw",@progbits
        .quad a3
        .section .init_array,"aw",@init_array
        .quad a4
        .section .dtors,"aw",@progbits
        .quad a5, a6
        .section .fini_array,"aw",@fini_array
        .quad a7
        .section .preinit_array,"aw",@preinit_array
        .quad a8
        .text
        .globl main
main:   subq $8, %rsp
        leaq .Lmain(%rip), %rdi
        call puts@PLT
        movl $4, %eax
        addq $8, %rsp
        ret
        .section .rodata.str1.1,"aMS",@progbits,1
.Lmain: .asciz "main"
        .section .note.GNU-stack,"",@progbits

#--- b.s
        .text
b1:     leaq .Lb1(%rip), %rdi
        jmp puts@PLT
b2:     leaq .Lb2(%rip), %rdi
        jmp puts@PLT
        .section .ctors,"aw",@progbits
        .quad b1
        .section .dtors.65434,"aw",@progbits
        .quad b2
        .section .rodata.str1.1,"aMS",@progbits,1
.Lb1:   .asciz "b ctor"
.Lb2:   .asciz "b dtor with priority 101"
        .section .note.GNU-stack,"",@progbits
