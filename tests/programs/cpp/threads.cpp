// Threads, thread_local variables with destructors, call_once, exceptions in threads.
#include "shared.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <future>
#include <iostream>
#include <mutex>
#include <numeric>
#include <thread>

static std::atomic<int> destroyed{0};
static std::atomic<int> constructed{0};

struct PerThread {
    long sum = 0;
    std::string name = "fresh";
    PerThread() { ++constructed; }
    ~PerThread() {
        if (name != "fresh")
            ++destroyed;
    }
};
thread_local PerThread per_thread;
thread_local int plain = 5;
thread_local std::vector<int> with_guard(3, 7);
alignas(64) static thread_local char aligned[64];
inline thread_local int shared_by_objects = 11;

static std::once_flag once;
static int calls = 0;
static std::mutex mutex;
static std::condition_variable condition;
static int turn = 0;

static void work(int index, long *result) {
    std::call_once(once, [] { ++calls; });
    per_thread.name = "thread " + std::to_string(index);
    for (int i = 0; i < 1000; ++i) {
        per_thread.sum += i * index;
        ++plain;
    }
    with_guard.push_back(index);
    aligned[0] = char(index);
    shared_by_objects += index;
    bool fine = plain == 1005 && with_guard.size() == 4 && shared_by_objects == 11 + index &&
                reinterpret_cast<uintptr_t>(aligned) % 64 == 0;
    try {
        throw_failure(index);
    } catch (const Failure &failure) {
        fine = fine && failure.code == index;
    }
    *result = fine ? per_thread.sum : -1;
    std::unique_lock<std::mutex> lock(mutex);
    condition.wait(lock, [&] { return turn == index; });
    std::cout << per_thread.name << " sum " << per_thread.sum << '\n';
    ++turn;
    condition.notify_all();
}

void run_threads() {
    constexpr int n = 6;
    long results[n];
    std::vector<std::thread> threads;
    for (int i = 0; i < n; ++i)
        threads.emplace_back(work, i, &results[i]);
    for (auto &thread : threads)
        thread.join();
    std::cout << "total " << std::accumulate(results, results + n, 0L) << ", calls " << calls
              << ", plain here " << plain << '\n';
    auto future = std::async(std::launch::async, []() -> int { throw_failure(77); });
    try {
        future.get();
    } catch (const Failure &failure) {
        std::cout << "from a future: " << failure.code << '\n';
    }
}

int thread_destructors() { return destroyed; }
