#include "cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace blendfield {

namespace {

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

class Pool {
  public:
    void run(int threads, const std::function<void(int)>& body) {
        std::unique_lock<std::mutex> alone(busy_, std::try_to_lock);
        if (!alone.owns_lock()) {  // another caller is using the workers
            for (int t = 0; t < threads; ++t) body(t);
            return;
        }
        while (static_cast<int>(workers_.size()) < threads - 1) {
            const int number = static_cast<int>(workers_.size()) + 1;
            const uint64_t seen = round_.load();
            workers_.emplace_back([this, number, seen] { work(number, seen); });
            workers_.back().detach();  // they live as long as the process
        }
        body_ = &body;
        error_ = nullptr;
        left_.store(threads - 1);
        // Number of the round and threads wanted travel in one word: a late worker never mixes two rounds.
        round_.store(((round_.load() >> 16) + 1) << 16 | static_cast<uint64_t>(threads), std::memory_order_release);
        round_.notify_all();
        try {
            body(0);
        } catch (...) {
            note_error();
        }
        for (int spin = 0; left_.load(std::memory_order_acquire) != 0; ++spin) {
            if (spin < spins) {
                pause_briefly();
            } else if (const int left = left_.load(); left != 0) {
                left_.wait(left);
            }
        }
        if (error_) std::rethrow_exception(error_);
    }

  private:
    static constexpr int spins = 4000;

    void note_error() {
        std::lock_guard<std::mutex> guard(error_mutex_);
        if (!error_) error_ = std::current_exception();
    }

    void work(int number, uint64_t seen) {
        for (;;) {
            for (int spin = 0; spin < spins && round_.load(std::memory_order_acquire) == seen; ++spin) pause_briefly();
            round_.wait(seen);
            seen = round_.load(std::memory_order_acquire);
            if (number >= static_cast<int>(seen & 0xffff)) continue;
            try {
                (*body_)(number);
            } catch (...) {
                note_error();
            }
            if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
        }
    }

    std::mutex busy_, error_mutex_;
    std::vector<std::thread> workers_;
    const std::function<void(int)>* body_ = nullptr;
    std::atomic<uint64_t> round_{0};
    std::atomic<int> left_{0};
    std::exception_ptr error_;
};

// Never destroyed: workers may outlive static destruction. After fork the child has no workers and starts afresh.
Pool* pool = nullptr;
std::once_flag pool_once;

void fresh_pool() { pool = new Pool; }

}  // namespace

int default_threads() {
    if (const char* text = std::getenv("BLENDFIELD_THREADS")) {
        char* end = nullptr;
        const long value = std::strtol(text, &end, 10);
        if (end != text && *end == 0 && value >= 1 && value <= 4096) return static_cast<int>(value);
    }
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

void run_on_threads(int threads, const std::function<void(int)>& body) {
    std::call_once(pool_once, [] {
        fresh_pool();
        pthread_atfork(nullptr, nullptr, fresh_pool);
    });
    pool->run(threads, body);
}

}  // namespace blendfield
