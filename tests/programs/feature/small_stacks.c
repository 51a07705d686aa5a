// Threads with the smallest stacks that the C library allows: what a linker adds to each thread
// must leave room for them.

//--- main.c
#include "check.h"
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

static _Thread_local long own = 7;
static void *start(void *argument) {
    own += (long)argument;
    return (void *)own;
}

int main(void) {
    for (long size = sysconf(_SC_THREAD_STACK_MIN); size <= 1 << 18; size *= 2) {
        pthread_attr_t attributes;
        pthread_t thread;
        void *result = NULL;
        pthread_attr_init(&attributes);
        CHECK(pthread_attr_setstacksize(&attributes, (size_t)size) == 0);
        int error = pthread_create(&thread, &attributes, start, (void *)5L);
        CHECK(error == 0);
        if (error == 0) {
            pthread_join(thread, &result);
            CHECK(result == (void *)12L);
        }
    }
    return checked();
}
