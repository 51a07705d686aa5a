// Thread-local variables of two objects, in several threads, beside those of the C library.
// The test compiles this in every TLS model and dialect.

//--- tls.h
#include <pthread.h>
#include <stdint.h>
#ifdef HIDDEN
#pragma GCC visibility push(hidden)
#endif
extern _Thread_local int shared_counter;
extern _Thread_local char shared_zero[3000];
extern _Thread_local double shared_aligned __attribute__((aligned(64)));
int *address_in_other(void);
int bump_in_other(int by);
long local_sum(void);
char *other_local_buffer(void);
int other_local_initial(void);
#ifdef HIDDEN
#pragma GCC visibility pop
#endif

//--- main.c
#include "check.h"
#include "tls.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 5, ROUNDS = 200 };

static _Thread_local int local_initialized = 41;
static _Thread_local long local_zero;
static _Thread_local char *local_pointer;
static _Thread_local struct { char a; int b[7]; } local_struct = {'x', {1, 2, 3}};

static pthread_barrier_t barrier;
static int *addresses[THREADS + 1];

static void *one_thread(void *argument) {
    long index = (long)argument;
    long bad = 0;
    bad += shared_counter != 1000;
    bad += local_initialized != 41 || local_zero != 0;
    bad += local_struct.a != 'x' || local_struct.b[2] != 3 || local_struct.b[6] != 0;
    bad += (uintptr_t)&shared_aligned % 64 != 0 || shared_aligned != 2.5;
    for (int i = 0; i < 3000; i += 37)
        bad += shared_zero[i] != 0;
    bad += other_local_initial() != 77;
    addresses[index] = &shared_counter;
    bad += address_in_other() != &shared_counter;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < ROUNDS; ++i) {
        shared_counter += (int)index;
        bump_in_other((int)index);
        local_zero += index;
        local_initialized = (int)local_zero;
        shared_zero[i] = (char)index;
        memset(other_local_buffer(), (int)index, 100);
        errno = (int)index;
        if (i % 50 == 0)
            pthread_barrier_wait(&barrier);
        bad += errno != index;
    }
    bad += shared_counter != 1000 + 2 * ROUNDS * index;
    bad += local_zero != ROUNDS * index || local_initialized != local_zero;
    bad += local_sum() != ROUNDS * index;
    bad += other_local_buffer()[99] != index;
    // The C library's own: errno set by it, and strtok's and strerror's state.
    errno = 0;
    bad += strtol("99999999999999999999", NULL, 10) == 0 || errno != ERANGE;
    pthread_barrier_wait(&barrier);
    return (void *)bad;
}

int main(void) {
    pthread_t threads[THREADS];
    static _Thread_local int in_main = 3;
    shared_counter += in_main;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; ++i)
        pthread_create(&threads[i], NULL, one_thread, (void *)(i + 1));
    long bad = 0;
    for (int i = 0; i < THREADS; ++i) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK(result == NULL);
        bad += (long)result;
    }
    CHECK(bad == 0);
    CHECK(shared_counter == 1003);
    CHECK(address_in_other() == &shared_counter);
    CHECK(bump_in_other(4) == 1007);
    CHECK(shared_counter == 1007);
    CHECK(local_pointer == NULL);
    for (int i = 1; i <= THREADS; ++i)
        for (int j = 1; j < i; ++j)
            CHECK(addresses[i] != addresses[j]);
    return checked();
}

//--- other.c
#include "tls.h"
_Thread_local int shared_counter = 1000;
_Thread_local char shared_zero[3000];
_Thread_local double shared_aligned = 2.5;
static _Thread_local long sum;
static _Thread_local int initial = 77;
static _Thread_local char buffer[100];
int *address_in_other(void) { return &shared_counter; }
int bump_in_other(int by) {
    sum += by;
    return shared_counter += by;
}
long local_sum(void) { return sum; }
char *other_local_buffer(void) { return buffer; }
int other_local_initial(void) { return initial; }

//--- stdout
21 checks, 0 failures
