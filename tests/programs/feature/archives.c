// Members of archives: taken when something refers to them, forwards and backwards.

//--- main.c
#include "check.h"
int first(int);
extern int data_of_member;
int main(void) {
    CHECK(first(1) == 1 + 10 + 100 + 1000);
    CHECK(data_of_member == 6);
    return checked();
}

//--- first.c
// Refers to a later member of its own archive and to the other archive.
int second_of_other(int);
int same_archive(int);
int first(int x) { return same_archive(x) + second_of_other(x); }

//--- same.c
int same_archive(int x) { return x + 10; }
int data_of_member = 6;

//--- second.c
// Refers back to the first archive.
int back(int);
int second_of_other(int x) { return back(x) + 100 - x; }

//--- back.c
int back(int x) { return 1000 + x; }

//--- unused.c
// Nothing refers to it: its constructor must not run, its undefined symbol not matter.
#include <stdio.h>
int undefined_in_unused(void);
__attribute__((constructor)) static void never(void) { puts("an unused member was linked"); }
int unused(void) { return undefined_in_unused(); }

//--- duplicate.c
// A second definition of what an earlier member defines: never taken.
int same_archive(int x) { return x - 1; }

//--- stdout
2 checks, 0 failures
