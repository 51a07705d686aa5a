// Bounds of sections whose names are identifiers, over three objects.

//--- entry.h
struct entry { const char *name; int value; };
#define ENTRY(NAME, VALUE) \
    static const struct entry NAME __attribute__((section("entries"), used)) = {#NAME, VALUE};

//--- a.c
#include "check.h"
#include "entry.h"
extern const struct entry __start_entries[], __stop_entries[];
extern char __start_zeros[], __stop_zeros[];
extern char __start_absent[] __attribute__((weak)), __stop_absent[] __attribute__((weak));
extern int (*const __start_calls[])(void) __attribute__((visibility("hidden")));
extern int (*const __stop_calls[])(void) __attribute__((visibility("hidden")));
ENTRY(a_first, 1)
ENTRY(a_second, 2)
__attribute__((section("zeros"))) char zeros_a[100];
static int call_a(void) { return 10; }
static int (*const pointer_a)(void) __attribute__((section("calls"), used)) = call_a;
int count_in_b(void);

int main(void) {
    int sum = 0;
    for (const struct entry *entry = __start_entries; entry < __stop_entries; ++entry) {
        printf("%s %d\n", entry->name, entry->value);
        sum += entry->value;
    }
    CHECK(__stop_entries - __start_entries == 5);
    CHECK(sum == 1 + 2 + 3 + 4 + 5);
    CHECK(count_in_b() == 5);
    CHECK(__stop_zeros - __start_zeros >= 150 && zeros_a >= __start_zeros);
    CHECK(!__start_absent && !__stop_absent);
    int calls = 0;
    for (int (*const *call)(void) = __start_calls; call != __stop_calls; ++call)
        calls += (*call)();
    CHECK(calls == 30);
    return checked();
}

//--- b.c
#include "entry.h"
extern const struct entry __start_entries[], __stop_entries[];
ENTRY(b_only, 3)
__attribute__((section("zeros"))) char zeros_b[50];
int count_in_b(void) { return (int)(__stop_entries - __start_entries); }

//--- c.c
#include "entry.h"
ENTRY(c_first, 4)
ENTRY(c_second, 5)
static int call_c(void) { return 20; }
static int (*const pointer_c)(void) __attribute__((section("calls"), used)) = call_c;

//--- stdout
a_first 1
a_second 2
b_only 3
c_first 4
c_second 5
6 checks, 0 failures
