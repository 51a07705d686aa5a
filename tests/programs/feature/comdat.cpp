// COMDAT groups: of each signature one group stays, with all its sections, and everybody uses it.

//--- a.cpp
#include "check.h"
#include "group.hpp"
int in_b(int (**function)(), int **counter, const char ***names);
int only_in_c();

int main() {
    int (*function)();
    int *counter;
    const char **names;
    CHECK(in_b(&function, &counter, &names) == 1);
    CHECK(function == shared_function);
    CHECK(counter == &shared_counter());
    CHECK(names == Table<int>::names);
    // The first object's group prevails as a whole: function, its data and its static.
    CHECK(which() == 1);
    CHECK(Table<int>::names[0][0] == 'a');
    shared_function();
    shared_function();
    CHECK(shared_counter() == 3);
    CHECK(only_in_c() == 7);
    CHECK(Table<long>::count() == 2);
    return checked();
}

//--- group.hpp
#pragma once
#ifndef WHICH
#define WHICH 1
#endif
__attribute__((noinline)) inline int which() { return WHICH; }
inline int &shared_counter() {
    static int counter = 0;
    return counter;
}
__attribute__((noinline)) inline int shared_function() { return ++shared_counter(); }
template <typename T> struct Table {
    static const char *names[];
    static int instances;
    static int count() { return ++instances; }
};
template <typename T> const char *Table<T>::names[] = {WHICH == 1 ? "a" : "other", "x", "y"};
template <typename T> int Table<T>::instances = 0;

//--- b.cpp
#include "group.hpp"
int in_b(int (**function)(), int **counter, const char ***names) {
    *function = shared_function;
    *counter = &shared_counter();
    *names = Table<int>::names;
    return shared_function();
}

//--- c.cpp
#include "group.hpp"
int only_in_c() {
    Table<long>::count();
    return which() == 1 ? 7 : 8;
}

//--- stdout
9 checks, 0 failures
