// Tentative definitions of several sizes and alignments, joined over objects.

//--- a.c
#include "check.h"
#include <stdint.h>
int size_a_smaller[2];
char size_b_smaller[1000];
int defined_in_b;
long tentative;
double aligned_in_b;
char tiny;
static int own[4];
int sum_in_b(void);
void *address_in_b(int which);

int main(void) {
    CHECK(defined_in_b == 5);
    CHECK(tentative == 0);
    tentative = 3;
    size_a_smaller[1] = 4;
    size_b_smaller[999] = 5;
    tiny = 6;
    own[3] = 1;
    CHECK(sum_in_b() == 3 + 4 + 5 + 6);
    CHECK(address_in_b(0) == size_a_smaller);
    CHECK(address_in_b(1) == size_b_smaller);
    CHECK(address_in_b(2) == &tentative);
    CHECK(address_in_b(3) == &aligned_in_b);
    CHECK((uintptr_t)&aligned_in_b % 256 == 0);
    CHECK((uintptr_t)size_a_smaller % 4 == 0);
    return checked();
}

//--- b.c
int size_a_smaller[500];
char size_b_smaller[10];
int defined_in_b = 5;
long tentative;
double aligned_in_b __attribute__((aligned(256)));
char tiny;
static int own[4];
int sum_in_b(void) {
    for (int i = 2; i < 500; ++i)
        size_a_smaller[i] = i;
    int used = size_a_smaller[499] == 499 ? 0 : 1000;
    return (int)tentative + size_a_smaller[1] + size_b_smaller[999 % sizeof size_b_smaller] * 0 +
           ((char *)size_b_smaller)[999] + tiny + own[3] + used;
}
void *address_in_b(int which) {
    void *all[] = {size_a_smaller, size_b_smaller, &tentative, &aligned_in_b};
    return all[which];
}

//--- stdout
9 checks, 0 failures
