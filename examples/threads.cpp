// clinch run -O2 examples/threads.cpp
// Threads, each with its own thread_local counter whose destructor reports at the thread's end.
#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

static std::atomic<long> total{0};
static std::once_flag once;

struct Counter {
    long count = 0;
    ~Counter() { total += count; }
};
static thread_local Counter counter;

static void work(long rounds) {
    std::call_once(once, [] { std::cout << "the first thread is here\n"; });
    for (long i = 0; i < rounds; ++i)
        ++counter.count;
}

int main() {
    std::vector<std::thread> threads;
    for (long i = 1; i <= 8; ++i)
        threads.emplace_back(work, i * 1000);
    for (auto &thread : threads)
        thread.join();
    std::cout << "counted to " << total << std::endl;
    return total == 36000 ? 0 : 1;
}
