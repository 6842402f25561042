// A pool of worker threads shared by the process. Usable after fork (the child starts a pool of its own); a second
// caller that finds it busy works alone. Results never depend on the number of threads: work items write to disjoint
// places.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace blendfield {

// Threads to use when the caller does not say: BLENDFIELD_THREADS, else the CPUs this process may run on.
int default_threads();

// Runs body(thread) for thread = 0 .. threads - 1, the first on the calling thread; returns when all are done.
void run_on_threads(int threads, const std::function<void(int)>& body);

// Calls f(begin, end, thread) over [0, count) in small ranges; `cost` is the work in table entries, little work stays
// here.
template <class F>
void parallel_for(int threads, int64_t count, int64_t cost, F&& f) {
    constexpr int64_t little = 1 << 14;
    if (count <= 0) return;
    if (threads <= 1 || count == 1 || cost < little) {
        f(int64_t{0}, count, 0);
        return;
    }
    const int64_t step = std::max<int64_t>(1, count / (16 * threads));
    std::atomic<int64_t> next{0};
    run_on_threads(threads, [&](int thread) {
        for (;;) {
            const int64_t begin = next.fetch_add(step, std::memory_order_relaxed);
            if (begin >= count) return;
            f(begin, std::min(begin + step, count), thread);
        }
    });
}

}  // namespace blendfield
