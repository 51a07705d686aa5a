// Functions whose address a resolver chooses: called and taken in two objects, in data, local,
// hidden, and in an archive's member.

//--- ifunc.h
int chosen(int x);
extern int (*const pointer_in_other)(int);
int (*address_in_other(void))(int);
int call_in_other(int x);
int from_member(int x);
int hidden_chosen(int x) __attribute__((visibility("hidden")));
int call_hidden(int x);

//--- main.c
#include "check.h"
#include "ifunc.h"

static int factor = 3;
static int fast(int x) { return x * factor; }
static int slow(int x) { return -x; }
static int decide(void) { return 1; }
static int (*resolve(void))(int) { return decide() ? fast : slow; }
int chosen(int x) __attribute__((ifunc("resolve")));
static int local_chosen(int x) __attribute__((ifunc("resolve")));
int hidden_chosen(int x) __attribute__((ifunc("resolve")));

static int (*pointer)(int) = chosen;
static int (*table[])(int) = {chosen, local_chosen, fast, chosen};
static int tail(int x) { return chosen(x + 1); }

int main(void) {
    CHECK(chosen(5) == 15);
    CHECK(local_chosen(6) == 18);
    CHECK(call_in_other(7) == 21);
    CHECK(pointer(8) == 24);
    CHECK(pointer_in_other(9) == 27);
    CHECK(tail(9) == 30);
    CHECK(table[0](1) == 3 && table[1](2) == 6 && table[3](3) == 9);
    CHECK(pointer == chosen);
    CHECK(address_in_other() == chosen);
    CHECK(pointer_in_other == chosen);
    CHECK(table[0] == table[3]);
    CHECK(hidden_chosen(2) == 6 && call_hidden(3) == 9);
    CHECK(from_member(4) == 104);
    factor = 4;
    CHECK(chosen(5) == 20 && call_in_other(5) == 20);
    return checked();
}

//--- other.c
#include "ifunc.h"
int (*const pointer_in_other)(int) = chosen;
int (*address_in_other(void))(int) { return chosen; }
int call_in_other(int x) { return chosen(x); }
int call_hidden(int x) { return hidden_chosen(x); }

//--- member.c
#include "ifunc.h"
static int add(int x) { return x + 100; }
static void *resolve_member(void) { return add; }
int from_member(int x) __attribute__((ifunc("resolve_member")));

//--- stdout
14 checks, 0 failures
