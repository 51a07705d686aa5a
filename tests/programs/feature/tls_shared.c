// Thread-local variables of a shared library, used by an object in each way that the compiler
// knows, and the other way round: by the library only.

//--- lib.c
_Thread_local int library_counter = 500;
_Thread_local char library_zero[64];
int *library_address(void) { return &library_counter; }
int library_bump(void) { return ++library_counter; }

//--- main.c
#include "check.h"
#include <pthread.h>
extern _Thread_local int library_counter;
extern _Thread_local char library_zero[64];
int *library_address(void);
int library_bump(void);

static void *use(void *argument) {
    long bad = library_counter != 500 || library_zero[63] != 0;
    library_counter += (int)(long)argument;
    library_zero[1] = 1;
    bad += library_bump() != 501 + (long)argument;
    bad += library_address() != &library_counter;
    return (void *)bad;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; ++i)
        pthread_create(&threads[i], NULL, use, (void *)i);
    for (int i = 0; i < 4; ++i) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK(result == NULL);
    }
    CHECK(library_counter == 500);
    CHECK(library_bump() == 501 && library_counter == 501);
    return checked();
}

//--- stdout
6 checks, 0 failures
