// What does and does not bring a member in.

//--- main.c
#include "check.h"
int weak_from_member(void) __attribute__((weak));
int weak_and_needed(void) __attribute__((weak));
int weak_definition(void) __attribute__((weak));
int weak_definition(void) { return 1; }
int needed(void);
int common_in_main;
int strong_in_main(void) { return 5; }
int calls_strong(void);
// The member's own version of a function that the C library has too.
int atoi(const char *text);

int main(void) {
    CHECK(weak_from_member == 0);
    CHECK(weak_definition() == 1);
    CHECK(needed() == 2);
    CHECK(weak_and_needed && weak_and_needed() == 3);
    CHECK(common_in_main == 0);
    CHECK(calls_strong() == 5);
    CHECK(atoi("12") == -12);
    return checked();
}

//--- weak.c
int weak_from_member(void) { return 9; }

//--- definition.c
int weak_definition(void) { return 8; }

//--- needed.c
// Brings in a name that main refers to weakly.
int weak_and_needed(void) { return 3; }
int needed(void) { return 2; }

//--- calls.c
int strong_in_main(void);
int calls_strong(void) { return strong_in_main(); }

//--- atoi.c
int atoi(const char *text) { return text[0] == '1' ? -12 : 0; }

//--- stdout
7 checks, 0 failures
