// A shared library of ours, and one that it needs itself.

//--- deep.c
int deep_value = 30;
int deep(int x) { return x + deep_value; }

//--- library.c
#include <stdio.h>
int deep(int);
int library_data = 10;
const char *library_names[] = {"zero", "one", "two"};
static int (*callback)(int);
__attribute__((constructor)) static void begin(void) { library_data += 1; puts("library begins"); }
__attribute__((destructor)) static void end(void) { puts("library ends"); }
int library_function(int x) { return x * 2; }
int library_deep(int x) { return deep(x); }
int *library_data_address(void) { return &library_data; }
void *library_function_address(void) { return library_function; }
void set_callback(int (*function)(int)) { callback = function; }
int call_back(int x) { return callback(x); }
__attribute__((weak)) int library_weak(void) { return 1; }

//--- main.c
#include "check.h"
#include <string.h>
extern int library_data;
extern const char *library_names[3];
int library_function(int);
int library_deep(int);
int *library_data_address(void);
void *library_function_address(void);
void set_callback(int (*)(int));
int call_back(int);
int library_weak(void) __attribute__((weak));
static int square(int x) { return x * x + library_data; }
static int (*pointer)(int) = library_function;
static int *data = &library_data;

__attribute__((constructor)) static void begin(void) { printf("program begins, %d\n", library_data); }
__attribute__((destructor)) static void end(void) { puts("program ends"); }

int main(void) {
    CHECK(library_function(21) == 42);
    CHECK(library_data == 11 && *data == 11);
    CHECK(!strcmp(library_names[2], "two"));
    CHECK(library_deep(1) == 31);
    CHECK(pointer(4) == 8);
    library_data = 5;
    CHECK(*library_data_address() == 5);
    CHECK(library_data_address() == &library_data && data == &library_data);
    set_callback(square);
    CHECK(call_back(3) == 14);
    CHECK(library_weak && library_weak() == 1);
    return checked();
}

//--- pointers.c
// Only where code does not go through a PLT of its own is the address the library's.
#include "check.h"
int library_function(int);
void *library_function_address(void);
int main(void) {
    CHECK(library_function_address() == (void *)library_function);
    return checked();
}

//--- stdout
library begins
program begins, 11
9 checks, 0 failures
program ends
library ends
