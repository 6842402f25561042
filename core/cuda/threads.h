// Threads of a card, the compiled problem as they see it, and how a thread finds its work.
//
// Regions of one shape and role form a group; a region is a lane of it. Lanes are stored in blocks of W = 32,
// table[block][entry][lane], and then one thread works on one lane; or, where lanes are few and tables large, one by
// one (W = 1), and then a team of 32 threads works on one lane. Messages lambda_{child->parent} live with the parent:
// messages[block][child label][lane of the parent], one array per group and child slot.
//
// Without a CUDA compiler the same text is a host program on the threads of tests/backends/emulated_card.h.
#pragma once
#include "kernels/math.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define BF_DEVICE __device__ __forceinline__
#define BF_APART __device__ __noinline__  // large and used often
#define BF_KERNEL extern "C" __global__ void __launch_bounds__(128)
#else
#define BF_DEVICE inline
#define BF_APART inline
#define BF_KERNEL extern "C" void
#endif

namespace blendfield::BF_ISA {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
constexpr int team_size = 32;
BF_DEVICE long long block_number() { return blockIdx.x; }
BF_DEVICE int thread_number() { return threadIdx.x; }
BF_DEVICE int block_threads() { return blockDim.x; }
template <class S>
BF_DEVICE S from_thread(S x, int distance) {
    return __shfl_xor_sync(0xffffffffu, x, distance);
}
BF_DEVICE void team_barrier() { __syncwarp(); }
BF_DEVICE void keep_least(long long* least, long long x) { atomicMin(least, x); }
// exp(x) where its absolute error counts, x <= 0: 2 ulp at 0.
BF_DEVICE float quick_exponential(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
#else
constexpr int team_size = emulated::team;
inline long long block_number() { return emulated::block; }
inline int thread_number() { return emulated::thread; }
inline int block_threads() { return emulated::threads; }
template <class S>
S from_thread(S x, int distance) {
    return emulated::from_thread(x, distance);
}
inline void team_barrier() { emulated::team_barrier(); }
inline void keep_least(long long* least, long long x) { *least = x < *least ? x : *least; }
inline float quick_exponential(float x) { return exponential(x); }
#endif
BF_DEVICE double quick_exponential(double x) { return exponential(x); }

// How one child sits inside the tables of its parents' group. An entry is given by the child's label y and the number k
// of what is left: entry = own_entry[y] + other_entry[k]; so are the labels of the other slots in it.
struct Slot {
    long long messages;     // offset of block 0 in the message array
    long long own_entry;    // offset of [labels] in ints
    long long other_entry;  // offset of [others] in ints
    long long own_label;    // offset of [slots][labels] in ints
    long long other_label;  // offset of [slots][others] in ints
    long long row_label;    // offset of [rows] in ints: label at the start of every row of the table
    long long places;       // offset of [padded lanes] in message_at and message_axes
    int labels, others;
    int last_stride;  // stride of the table's last axis in the child's labels: 1, or 0 when the child lacks it
    int unused;
};

struct Group {
    long long tables;      // offset of block 0 in the table array
    long long base;        // offset in the base array (theta minus messages upwards), -1 when nothing is sent
    long long first_lane;  // offset in arrays with one value per padded lane
    long long entries, rows;
    long long slices;   // first slice, -1 when nothing is sent
    long long slots;    // first slot
    long long extents;  // offset of [axes] in ints
    double counting;    // counting number of all lanes, if uniform
    int axes, last, lanes, width, slot_count, uniform, forbidden, unused;
};

// The lanes first .. first + count of a group, or lists[list + i]; units of work: lanes, or (lane, tile of labels).
struct Item {
    long long first, list, units;
    int group, slot, count, tile;
};

// Where up to W lanes find their messages upwards: index[degree][W] of (label 0, lane), `no_edge` where a lane has
// fewer parents; weights [degree + 1][W], or [degree + 1] where uniform: the shares c_p / c_hat, then c_hat.
struct Slice {
    long long index, weights;
    int degree, uniform;
};
constexpr unsigned no_edge = 0xffffffffu;

template <class T>
struct View {
    const Group* groups;
    const Slot* slots;
    const Item* items;
    const int* lists;
    const int* ints;
    const Slice* slices;
    const unsigned* index;
    const T* weights;
    const double* counting;       // [padded lanes]
    const long long* table_at;    // [padded lanes] where the region's table begins in the flat tables
    const int* table_axes;        // [padded lanes] offset in ints of the strides of its axes there, -1: as stored
    const long long* message_at;  // the same for messages, per slot and lane
    const int* message_axes;
    const int* regions;  // [padded lanes]
    T* tables;
    T* base;
    T* messages;
    double epsilon;
    long long wide;  // messages before this position belong to groups in blocks of 32: labels are 32 apart
};

template <class P>
BF_DEVICE P* pointer(long long address) {
    return reinterpret_cast<P*>(address);
}

// One lane as its threads see it.
template <int W>
struct Lane {
    static constexpr int width = W, threads = W == 1 ? team_size : 1;
    long long lane, block;
    int within, rank;
    BF_DEVICE Lane(long long number, int rank_)
        : lane(number), block(number / W), within(int(number % W)), rank(rank_) {}
    // Entry 0 of an array [block][size][W].
    template <class P>
    BF_DEVICE P* at(P* start, long long size) const {
        return start + (block * size * W + within);
    }
    template <class S>
    BF_DEVICE S sum(S x) const {
        for (int distance = threads / 2; distance > 0; distance /= 2) x += from_thread(x, distance);
        return x;
    }
    template <class S>
    BF_DEVICE S largest(S x) const {
        for (int distance = threads / 2; distance > 0; distance /= 2) x = maximum(x, from_thread(x, distance));
        return x;
    }
};

BF_DEVICE int lane_of_unit(const int* lists, const Item& item, long long i) {
    return item.list < 0 ? int(item.first + i) : lists[item.list + i];
}

template <int W>
struct Width {};
template <int W>
BF_DEVICE Lane<W> lane_with(Width<W>, long long number, int rank) {
    return Lane<W>(number, rank);
}

// Calls f(item, group, unit, rank, Width<W>) for this thread's unit of work; `blocks`: (item, part) per thread block.
template <class T, class F>
BF_DEVICE void for_unit(const View<T>& view, const int* blocks, F f) {
    const Item& item = view.items[blocks[2 * block_number()]];
    const long long part = blocks[2 * block_number() + 1];
    const Group& g = view.groups[item.group];
    if (g.width == 1) {
        const long long unit = (part * block_threads() + thread_number()) / team_size;
        if (unit < item.units) f(item, g, unit, thread_number() % team_size, Width<1>());
    } else {
        const long long unit = part * block_threads() + thread_number();
        if (unit < item.units) f(item, g, unit, 0, Width<32>());
    }
}
// The same where a unit is a lane: f(group, lane).
template <class T, class F>
BF_DEVICE void for_lane(const View<T>& view, const int* blocks, F f) {
    for_unit(view, blocks, [&](const Item& item, const Group& g, long long unit, int rank, auto width) {
        f(g, lane_with(width, lane_of_unit(view.lists, item, unit), rank));
    });
}

template <class T, int W>
BF_DEVICE double counting_of(const View<T>& view, const Group& g, const Lane<W>& lane) {
    return g.uniform ? g.counting : view.counting[g.first_lane + lane.lane];
}

// Calls f(entry) for this thread's share of a table.
template <int W, class F>
BF_DEVICE void for_entries(const Group& g, const Lane<W>& lane, F f) {
    for (long long e = lane.rank; e < g.entries; e += Lane<W>::threads) f(e);
}

// Position in the region's own table, axes as the user wrote them, of an entry.
BF_DEVICE long long user_entry(const int* ints, const int* extents, int axes, int strides, long long entry) {
    if (strides < 0) return entry;
    long long at = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
        at += (entry % extents[axis]) * ints[strides + axis];
        entry /= extents[axis];
    }
    return at;
}

// Calls f(message array of parent j at label 0, distance of labels, j) for the parents of a lane.
template <class T, int W, class P, class F>
BF_DEVICE void for_parents(const View<T>& view, const Group& g, const Lane<W>& lane, P* messages, F f) {
    const Slice& slice = view.slices[g.slices + lane.block];
    const unsigned* index = view.index + slice.index + lane.within;
    for (int j = 0; j < slice.degree; ++j) {
        const unsigned at = index[(long long)j * W];
        if (at != no_edge) f(messages + at, at < view.wide ? 32 : 1, j);
    }
}

template <class T, int W>
BF_DEVICE T weight_of(const View<T>& view, const Slice& slice, const Lane<W>& lane, int j) {
    return view.weights[slice.weights + (slice.uniform ? j : (long long)j * W + lane.within)];
}

}  // namespace blendfield::BF_ISA

// Kernels have one signature, so that they can be launched by name; each says what a .. d and x are.
#define BF_ENTRY(name)                                                                                            \
    BF_KERNEL name(const View<Real>* view, const int* blocks, long long a, long long b, long long c, long long d, \
                   double x)

using namespace blendfield::BF_ISA;
using Real = BF_REAL;
