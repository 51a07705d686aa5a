// Code and data for each code model, over two objects.

//--- a.c
#include "check.h"
#include <stdlib.h>
#include <string.h>
extern int data_b;
extern char large_b[1 << 20];
int function_b(int (*function)(const char *), const char *text);
static char large_a[1 << 20];
static int values[300000] = {1, 2, 3};
static int (*pointer)(const char *) = atoi;
static const char *const texts[] = {"10", "20", "thirty"};

int main(void) {
    CHECK(data_b == 4);
    data_b = 5;
    CHECK(function_b(atoi, texts[1]) == 25);
    CHECK(function_b(pointer, "7") == 12);
    large_b[100] = 1;
    large_a[(1 << 20) - 1] = 2;
    CHECK(large_b[100] + large_a[(1 << 20) - 1] == 3);
    CHECK(values[2] == 3 && values[299999] == 0);
    CHECK(strlen(texts[2]) == 6);
    switch (data_b) {
    case 1: return 1;
    case 2: return 2;
    case 3: return 30;
    case 4: return 44;
    case 5: CHECK(1); break;
    case 6: return 5;
    }
    return checked();
}

//--- b.c
int data_b = 4;
char large_b[1 << 20];
int function_b(int (*function)(const char *), const char *text) { return function(text) + data_b; }

//--- stdout
7 checks, 0 failures
