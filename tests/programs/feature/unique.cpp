// Variables that g++ marks STB_GNU_UNIQUE, in two objects, and in a library that the program
// opens too.

//--- a.cpp
#include "check.h"
#include "unique.hpp"
int *address_in_b();
int *static_in_b();
int main() {
    CHECK(address_in_b() == &Counter<int>::value);
    CHECK(static_in_b() == once());
    CHECK(*once() == 5);
    Counter<int>::value = 6;
    CHECK(*address_in_b() == 6);
    CHECK(&Counter<int>::value != (int *)&Counter<short>::value);
    return checked();
}

//--- unique.hpp
template <typename T> struct Counter {
    static inline T value = 1;
};
inline int *once() {
    static int value = 5;
    return &value;
}

//--- b.cpp
#include "unique.hpp"
int *address_in_b() { return &Counter<int>::value; }
int *static_in_b() { return once(); }

//--- stdout
5 checks, 0 failures
