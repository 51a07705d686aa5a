// Alignments above a page, in every kind of section, over two objects.

//--- a.c
#include "check.h"
#include <stdint.h>
static char zero[10] __attribute__((aligned(65536)));
static char data[3] __attribute__((aligned(65536))) = {1, 2, 3};
static const char constant[5] __attribute__((aligned(32768), used)) = {4, 5};
extern char zero_b[] , data_b[];
__attribute__((aligned(8192))) static int function(void) { return 6; }
extern int function_b(void);
int before = 1;
static char odd[3] = "ab";

int main(void) {
    CHECK((uintptr_t)zero % 65536 == 0);
    CHECK((uintptr_t)data % 65536 == 0 && data[2] == 3);
    CHECK((uintptr_t)constant % 32768 == 0 && constant[1] == 5);
    CHECK((uintptr_t)zero_b % 65536 == 0 && zero_b[99] == 0);
    CHECK((uintptr_t)data_b % 1048576 == 0 && data_b[0] == 9);
    CHECK((uintptr_t)function % 8192 == 0 && function() == 6);
    CHECK((uintptr_t)function_b % 16384 == 0 && function_b() == 7);
    CHECK(before == 1 && odd[1] == 'b');
    zero[9] = zero_b[0] = data_b[99] = 1;
    return checked();
}

//--- b.c
char zero_b[100] __attribute__((aligned(65536)));
char data_b[100] __attribute__((aligned(1048576))) = {9};
__attribute__((aligned(16384))) int function_b(void) { return 7; }

//--- stdout
8 checks, 0 failures
