// Mergeable strings and constants keep their values, ends and addresses within.

//--- a.c
#include "check.h"
#include <string.h>
#include <wchar.h>
const char *string_b(int which);
const double *constant_b(void);
static const char *const suffix = "common suffix";
static const char *const longer = "with a common suffix";
static const char *const empty = "";
static const wchar_t *const wide = L"wide \u20ac";
static const char array[] = "an array is not shared";
const char *middle = &"offset into a string"[7];

int main(void) {
    CHECK(!strcmp(suffix, string_b(0)));
    CHECK(!strcmp(longer, "with a common suffix"));
    CHECK(!strcmp(string_b(1), "only in b"));
    CHECK(empty[0] == 0 && string_b(2)[0] == 0);
    CHECK(wcslen(wide) == 6 && wide[5] == 0x20ac);
    CHECK(!strcmp(middle, "into a string"));
    CHECK(!strcmp(array, "an array is not shared"));
    volatile double x = 2;
    CHECK(x * 1.1 == 2 * *constant_b());
    CHECK(x + 1e300 == 1e300);
    CHECK(!memcmp("with\0inside", string_b(3), 12));
    return checked();
}

//--- b.c
static const double constant = 1.1;
const double *constant_b(void) { return &constant; }
const char *string_b(int which) {
    switch (which) {
    case 0: return "common suffix";
    case 1: return "only in b";
    case 2: return "";
    default: return "with\0inside";
    }
}

//--- stdout
10 checks, 0 failures
