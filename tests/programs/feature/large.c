// Large zero-filled arrays, which must cost nothing until they are touched.

//--- a.c
#include "check.h"
#define MIB (1l << 20)
static char own[SIZE_A * MIB];
extern char others[SIZE_B * MIB];
char after = 1;
int touch(long offset);

int main(void) {
    long bad = 0;
    for (long i = 0; i < SIZE_A * MIB; i += 64 * MIB)
        bad += own[i];
    for (long i = 0; i < SIZE_B * MIB; i += 64 * MIB)
        bad += others[i];
    CHECK(bad == 0);
    own[SIZE_A * MIB - 1] = 1;
    others[SIZE_B * MIB - 1] = 2;
    CHECK(touch(SIZE_B * MIB - 1) == 2);
    CHECK(after == 1 && others[0] == 0 && own[0] == 0);
    CHECK(others + SIZE_B * MIB <= own || own + SIZE_A * MIB <= others);
    return checked();
}

//--- b.c
#define MIB (1l << 20)
char others[SIZE_B * MIB];
int touch(long offset) { return others[offset]; }

//--- stdout
4 checks, 0 failures
