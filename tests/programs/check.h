// What the small programs check with; each source may include it as "check.h".
#pragma once
#include <stdio.h>

__attribute__((unused)) static int failures, checks;

#define CHECK(condition)                                                        \
    do {                                                                        \
        ++checks;                                                               \
        if (!(condition)) {                                                     \
            ++failures;                                                         \
            printf("%s:%d: not so: %s\n", __FILE_NAME__, __LINE__, #condition); \
        }                                                                       \
    } while (0)

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

// The end of main: what was checked, and whether all held.
__attribute__((unused)) static int checked(void) {
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
