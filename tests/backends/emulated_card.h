// Threads of a card as contexts of one thread of the host, which take turns; blocks run one after the other. It stands
// before the text of the kernels (core/cuda/threads.h). BF_BLOCK threads are a block, BF_TEAM of them a team.
//
// A thread runs until it waits for its team, so that what the team does without a barrier is seen in an extreme order;
// every second block is run from its last thread to its first. A thread that ends while its team waits is a fault: on a
// card the shuffle would hang or be undefined. What cannot be seen here: the weak order of a card's memory.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cstring>
#include <memory>

namespace emulated {

constexpr int team = BF_TEAM, threads = BF_BLOCK, stack_size = 1 << 16, largest_value = 16;
static_assert(threads % team == 0);
static long long block = 0;
static int thread = 0;
static const char* fault = nullptr;

#if BF_TEAM == 1
template <class S>
S from_thread(S x, int) {
    return x;
}
inline void team_barrier() {}

template <class F>
const char* run(long long blocks, F kernel) {
    for (block = 0; block < blocks; ++block)
        for (thread = 0; thread < threads; ++thread) kernel();
    return nullptr;
}
#else
struct Thread {
    jmp_buf here;
    bool begun, done;
    long long barriers;  // passed or waited at
    char value[2][largest_value];
    std::unique_ptr<char[]> stack{new char[stack_size]};
};
static Thread all[threads];
static jmp_buf scheduler;
static ucontext_t begin_from, begin_at;
static void (*entry)();

// The first switch to a context needs ucontext, whose system calls are slow; all others are jumps.
static void body() {
    entry();
    all[thread].done = true;
    _longjmp(scheduler, 1);
}

static void go_on(int number) {
    thread = number;
    Thread& t = all[number];
    if (_setjmp(scheduler)) return;
    if (t.begun) _longjmp(t.here, 1);
    t.begun = true;
    getcontext(&begin_at);
    begin_at.uc_stack.ss_sp = t.stack.get();
    begin_at.uc_stack.ss_size = stack_size;
    begin_at.uc_link = nullptr;
    makecontext(&begin_at, body, 0);
    swapcontext(&begin_from, &begin_at);
}

// Until all threads of the team have come as far.
static void team_barrier() {
    Thread& own = all[thread];
    const long long goal = ++own.barriers;
    const int first = thread / team * team;
    for (int k = first; k < first + team;) {
        if (all[k].barriers >= goal) {
            ++k;
            continue;
        }
        if (all[k].done) {
            fault = "a thread ended while its team waited for it";
            return;
        }
        if (!_setjmp(own.here)) _longjmp(scheduler, 1);
    }
}

template <class S>
S from_thread(S x, int distance) {
    static_assert(sizeof(S) <= largest_value);
    // Two places in turn: who writes the next value may be ahead of who reads this one.
    const int place = int(all[thread].barriers % 2);
    std::memcpy(all[thread].value[place], &x, sizeof(S));
    team_barrier();
    std::memcpy(&x, all[thread ^ distance].value[place], sizeof(S));
    return x;
}

template <class F>
const char* run(long long blocks, F kernel) {
    static F* chosen;
    chosen = &kernel;
    entry = [] { (*chosen)(); };
    fault = nullptr;
    for (block = 0; block < blocks && !fault; ++block) {
        for (Thread& t : all) t.begun = t.done = false, t.barriers = 0;
        for (int left = threads; left > 0;) {
            left = 0;
            for (int k = 0; k < threads; ++k) {
                const int number = block % 2 ? threads - 1 - k : k;
                if (!all[number].done) go_on(number);
                left += !all[number].done;
            }
        }
    }
    return fault;
}
#endif

}  // namespace emulated
