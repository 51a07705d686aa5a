// Large and strictly aligned thread-local variables.

//--- main.c
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <string.h>

static _Thread_local char page[4096] __attribute__((aligned(ALIGN)));
static _Thread_local char data[10000] = {1, 2, 3};
static _Thread_local char zero[SIZE];
_Thread_local long last = 99;

static void *use(void *unused) {
    (void)unused;
    long bad = (uintptr_t)page % ALIGN != 0;
    bad += data[0] != 1 || data[2] != 3 || data[9999] != 0 || last != 99;
    for (int i = 0; i < SIZE; ++i)
        bad += zero[i] != 0;
    memset(zero, 1, sizeof zero);
    memset(page, 2, sizeof page);
    memset(data, 3, sizeof data);
    bad += last != 99 || zero[SIZE - 1] != 1 || page[0] != 2;
    return (void *)bad;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 3; ++i) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK(result == NULL);
    }
    CHECK(use(NULL) == NULL);
    CHECK(zero[5] == 1);
    return checked();
}

//--- stdout
5 checks, 0 failures
