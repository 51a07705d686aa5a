// Hidden and protected names are one over all objects of a program; the strictest visibility of
// all declarations counts, and local names of one spelling stay apart.

//--- a.c
#include "check.h"
#define HIDDEN __attribute__((visibility("hidden")))
#define PROTECTED __attribute__((visibility("protected")))
extern int hidden_data HIDDEN;
int hidden_function(void) HIDDEN;
extern int protected_data;
int protected_function(void);
extern int mixed HIDDEN;
int internal_function(void) __attribute__((visibility("internal")));
static int local = 1;
static int local_function(void) { return local; }
int local_in_b(void);
void *address_in_b(int which);
// Hidden here, so that it does not clash with or come from the C library.
HIDDEN int puts_like(void) { return 5; }

int main(void) {
    CHECK(hidden_data == 10 && hidden_function() == 11);
    CHECK(protected_data == 12 && protected_function() == 13);
    CHECK(mixed == 14);
    CHECK(internal_function() == 15);
    CHECK(local_function() == 1 && local_in_b() == 2);
    CHECK(address_in_b(0) == (void *)hidden_function);
    CHECK(address_in_b(1) == (void *)protected_function);
    CHECK(address_in_b(2) == (void *)&hidden_data);
    CHECK(address_in_b(3) == (void *)&mixed);
    CHECK(puts_like() == 5);
    return checked();
}

//--- b.c
#define HIDDEN __attribute__((visibility("hidden")))
#define PROTECTED __attribute__((visibility("protected")))
HIDDEN int hidden_data = 10;
HIDDEN int hidden_function(void) { return 11; }
PROTECTED int protected_data = 12;
PROTECTED int protected_function(void) { return 13; }
int mixed = 14;
__attribute__((visibility("internal"))) int internal_function(void) { return 15; }
static int local = 2;
static int local_function(void) { return local; }
int local_in_b(void) { return local_function(); }
void *address_in_b(int which) {
    void *all[] = {hidden_function, protected_function, &hidden_data, &mixed};
    return all[which];
}

//--- stdout
10 checks, 0 failures
