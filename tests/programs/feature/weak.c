// Weak references, present and absent; weak definitions against weak and strong ones.

//--- a.c
#include "check.h"
extern int absent_function(void) __attribute__((weak));
extern int absent_data __attribute__((weak));
extern int present_function(void) __attribute__((weak));
extern int present_data __attribute__((weak));
extern void *malloc(unsigned long) __attribute__((weak));
extern void *no_such_libc_function(unsigned long) __attribute__((weak));
extern int absent_hidden(void) __attribute__((weak, visibility("hidden")));

__attribute__((weak)) int weak_then_strong(void) { return 1; }
__attribute__((weak)) int weak_then_weak(void) { return 2; }
__attribute__((weak)) int only_weak(void) { return 3; }
__attribute__((weak)) int weak_data = 4;
int strong_data = 5;
int strong_then_weak(void) { return 6; }
int *const pointer_to_absent = &absent_data;
int (*table[])(void) = {absent_function, present_function, weak_then_strong};
int in_b(int which);
// A weak alias of a strong definition.
int aliased(void) { return 9; }
extern int alias(void) __attribute__((weak, alias("aliased")));

int main(void) {
    CHECK(absent_function == 0);
    CHECK(&absent_data == 0);
    CHECK(pointer_to_absent == 0 && table[0] == 0);
    CHECK(absent_hidden == 0);
    CHECK(no_such_libc_function == 0);
    CHECK(malloc != 0 && malloc(1) != 0);
    CHECK(present_function && present_function() == 7);
    CHECK(&present_data && present_data == 8);
    CHECK(table[1]() == 7 && table[2]() == 10);
    CHECK(weak_then_strong() == 10);
    CHECK(weak_then_weak() == 2);
    CHECK(only_weak() == 3);
    CHECK(weak_data == 40);
    CHECK(strong_data == 5);
    CHECK(strong_then_weak() == 6);
    CHECK(alias() == 19 && aliased() == 9);
    CHECK(in_b(0) == 10 && in_b(1) == 2 && in_b(2) == 6 && in_b(3) == 19);
    return checked();
}

//--- b.c
int present_function(void) { return 7; }
int present_data = 8;
int weak_then_strong(void) { return 10; }
__attribute__((weak)) int weak_then_weak(void) { return 20; }
int weak_data = 40;
__attribute__((weak)) int strong_data = 50;
__attribute__((weak)) int strong_then_weak(void) { return 60; }
int alias(void) { return 19; }
int in_b(int which) {
    switch (which) {
    case 0: return weak_then_strong();
    case 1: return weak_then_weak();
    case 2: return strong_then_weak();
    default: return alias();
    }
}

//--- stdout
17 checks, 0 failures
