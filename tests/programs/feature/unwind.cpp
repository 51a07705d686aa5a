// Unwinding through frames of several objects and of C, forced unwinding, and what ends a program.

//--- main.cpp
#include "check.h"
#include <cstdlib>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <stdexcept>
#include <unwind.h>

extern "C" int through_c(int (*function)(int), int argument);
[[noreturn]] void thrower(int code);
int optimized(int depth);
int never_throws(int code) noexcept;

struct Cleanup {
    int *counter;
    ~Cleanup() { ++*counter; }
};
static int cleanups;

static int throws(int code) {
    Cleanup cleanup{&cleanups};
    thrower(code);
}

static _Unwind_Reason_Code count(_Unwind_Context *context, void *argument) {
    if (_Unwind_GetIP(context))
        ++*static_cast<int *>(argument);
    return _URC_NO_REASON;
}
extern "C" int count_frames(int) {
    int frames = 0;
    _Unwind_Backtrace(count, &frames);
    return frames;
}

static void cancelled(void *argument) { *static_cast<int *>(argument) += 100; }
static pthread_barrier_t barrier;
static void *waits(void *) {
    Cleanup cleanup{&cleanups};
    pthread_cleanup_push(cancelled, &cleanups);
    pthread_barrier_wait(&barrier);
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
    return nullptr;
}

struct Global {
    int value = 0;
    Global() {
        try {
            thrower(3);
        } catch (int code) {
            value = code;
        }
    }
} global;

__attribute__((constructor)) static void begin(int argc, char **argv) {
    if (argc > 1 && !std::strcmp(argv[1], "initializer"))
        thrower(2);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (!std::strcmp(argv[1], "atexit")) {
            std::atexit([] { thrower(4); });
            return 0;
        }
        if (!std::strcmp(argv[1], "uncaught"))
            throw std::runtime_error("nobody catches this");
        if (!std::strcmp(argv[1], "noexcept"))
            return never_throws(1);
        if (!std::strcmp(argv[1], "handler")) {
            std::set_terminate([] {
                std::puts("own terminate handler");
                std::_Exit(12);
            });
            thrower(1);
        }
    }
    CHECK(global.value == 3);
    for (int round = 0; round < 100; ++round) {
        try {
            through_c(throws, round);
        } catch (int code) {
            if (code != round)
                ++failures;
        }
    }
    CHECK(cleanups == 100);
    try {
        optimized(30);
    } catch (const std::out_of_range &error) {
        CHECK(!std::strcmp(error.what(), "optimized"));
    }
    int direct = count_frames(0);
    CHECK(direct >= 2);
    CHECK(through_c(count_frames, 0) >= direct + 1);
    CHECK(optimized(-5) >= direct + 1);
    pthread_t thread;
    void *result;
    cleanups = 0;
    pthread_barrier_init(&barrier, nullptr, 2);
    pthread_create(&thread, nullptr, waits, nullptr);
    pthread_barrier_wait(&barrier);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED && cleanups == 101);
    return checked();
}

//--- thrower.cpp
void thrower(int code) { throw code; }
int never_throws(int code) noexcept {
    thrower(code);
    return 0;
}

//--- optimized.cpp
#include <stdexcept>
#include <string>
extern "C" int count_frames(int);
__attribute__((noinline)) int optimized(int depth) {
    std::string local(30, 'x');
    if (depth == 0)
        throw std::out_of_range("optimized");
    if (depth < 0)
        return count_frames(0) + int(local.size() - 30);
    return optimized(depth - 1) + int(local.size());
}

//--- through.c
int through_c(int (*function)(int), int argument) {
    volatile int kept = argument;
    return function(argument) + kept - argument;
}

//--- stdout
7 checks, 0 failures
