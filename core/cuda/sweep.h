// The two phases of a colour class (kernels/messages.h has the formulas): mu for one child slot from the parents'
// tables, then lambda of the children from the mu of all their parents.
#pragma once
#include "cuda/threads.h"
#include "kernels/messages.h"

namespace blendfield::BF_ISA {

// log-sum-exp in one pass, one exp per value: (m, s) with s = sum exp((v - m) / temperature), m the maximum so far.
template <class V, bool SOFT>
struct Collector {
    V largest = SOFT ? fill<V>(Limits<V>::lowest) : minus_infinity<V>();
    V sum = fill<V>(0);
    BF_DEVICE void add(V v, V inverse) {
        if constexpr (SOFT) {
            const V rise = v - largest;
            const V term = quick_exponential((rise > V(0) ? -rise : rise) * inverse);
            sum = rise > V(0) ? sum * term + V(1) : sum + term;
        }
        largest = maximum(largest, v);
    }
    // The same for value(0) .. value(N - 1), of which the largest is found first.
    template <int N, class F>
    BF_DEVICE void add_all(F value, V inverse) {
        V most = largest;
#pragma unroll
        for (int i = 0; i < N; ++i) most = maximum(most, value(i));
        if constexpr (SOFT) {
            V part = 0;
#pragma unroll
            for (int i = 0; i < N; ++i) part += quick_exponential((value(i) - most) * inverse);
            sum = sum * quick_exponential((largest - most) * inverse) + part;
        }
        largest = most;
    }
    BF_DEVICE void merge(Collector other, V inverse) {
        const V most = maximum(largest, other.largest);
        if constexpr (SOFT)
            sum = sum * quick_exponential((largest - most) * inverse) +
                  other.sum * quick_exponential((other.largest - most) * inverse);
        largest = most;
    }
    template <int W>
    BF_DEVICE void across(const Lane<W>& lane, V inverse) {  // the whole team's
        const V all = lane.largest(largest);
        if constexpr (SOFT) sum = lane.sum(sum * quick_exponential((largest - all) * inverse));
        largest = all;
    }
    BF_DEVICE V finish(V temperature) const {
        if constexpr (!SOFT) return largest;
        return sum > V(0) ? finish_message(largest, sum, temperature) : minus_infinity<V>();
    }
};

// Where entries and the labels of other slots are, looked up: any shape.
struct RuntimeShape {
    const Group& g;
    const Slot* slots;
    const int* ints;
    int slot, labels, others, count;
    bool own_last;
    template <class T>
    BF_DEVICE RuntimeShape(const View<T>& view, const Group& g_, int slot_)
        : g(g_),
          slots(view.slots + g_.slots),
          ints(view.ints),
          slot(slot_),
          labels(slots[slot].labels),
          others(slots[slot].others),
          count(g_.slot_count),
          own_last(slots[slot].last_stride) {}
    BF_DEVICE long long entries() const { return g.entries; }
    BF_DEVICE long long entry(int y, int k) const {
        return (long long)ints[slots[slot].own_entry + y] + ints[slots[slot].other_entry + k];
    }
    BF_DEVICE int label(int s, int y, int k) const {
        return ints[slots[slot].own_label + (long long)s * labels + y] +
               ints[slots[slot].other_label + (long long)s * others + k];
    }
    // Sum over the other slots of their messages at entry (y, k).
    template <class T, int W>
    BF_DEVICE T incoming(const T* messages, const Lane<W>& lane, int y, int k) const {
        T sum = 0;
        for (int s = 0; s < count; ++s)
            if (s != slot) sum += lane.at(messages + slots[s].messages, slots[s].labels)[(long long)label(s, y, k) * W];
        return sum;
    }
    // Both slots of a pair, the common case.
    BF_DEVICE bool pair() const { return g.axes == 2 && count == 2; }
};

// mu for the labels [first, last) of one lane, by one thread (W = 32) or one team (W = 1).
template <class T, bool SOFT, int W>
BF_DEVICE void messages_of_lane(const View<T>& view, const RuntimeShape& shape, const Lane<W>& lane, int first,
                                int last) {
    const Group& g = shape.g;
    const T* table = lane.at(g.base >= 0 ? view.base + g.base : view.tables + g.tables, shape.entries());
    T* out = lane.at(view.messages + shape.slots[shape.slot].messages, shape.labels);
    const T temperature = T(view.epsilon * counting_of(view, g, lane));
    const T inverse = temperature > T(0) ? T(1) / temperature : T(1e30);
    const bool apart = Lane<W>::threads == 1 || shape.own_last;  // every thread has labels of its own
    for (int y = first + (apart ? lane.rank : 0); y < last; y += apart ? Lane<W>::threads : 1) {
        Collector<T, SOFT> collector;
        if (shape.pair()) {
            const Slot& across = shape.slots[1 - shape.slot];
            const T* other = lane.at(view.messages + across.messages, across.labels);
            const long long step = shape.own_last ? shape.labels : 1;
            const T* line = table + (shape.own_last ? y : (long long)y * shape.others) * W;
#pragma unroll 4
            for (int k = apart ? 0 : lane.rank; k < shape.others; k += apart ? 1 : Lane<W>::threads)
                collector.add(line[k * step * W] + other[(long long)k * W], inverse);
        } else {
            for (int k = apart ? 0 : lane.rank; k < shape.others; k += apart ? 1 : Lane<W>::threads)
                collector.add(table[shape.entry(y, k) * W] + shape.incoming(view.messages, lane, y, k), inverse);
        }
        if (!apart) collector.across(lane, inverse);
        if (apart || lane.rank == 0) out[(long long)y * W] = collector.finish(temperature);
    }
}

// heavy phase, any shape. Items: lanes of one slot whose children act in the class at hand.
template <class T, bool SOFT>
BF_DEVICE void heavy(const View<T>& view, const int* blocks) {
    for_unit(view, blocks, [&](const Item& item, const Group& g, long long unit, int rank, auto width) {
        const int tile = int(unit / item.count);
        const auto lane = lane_with(width, lane_of_unit(view.lists, item, unit - (long long)tile * item.count), rank);
        const RuntimeShape shape(view, g, item.slot);
        const int first = tile * item.tile;
        messages_of_lane<T, SOFT>(view, shape, lane, first,
                                  first + item.tile < shape.labels ? first + item.tile : shape.labels);
    });
}

// heavy phase of one item whose shape is known when this is compiled. SHAPE: labels, others, of which `inner` along
// their last axis, tile, entries, slots, slot; entry(y, outer, inner); label(s, y, outer, inner); labels_of(s). One
// thread per lane and tile of labels.
template <class T, bool SOFT, class SHAPE>
BF_DEVICE void heavy_static(const View<T>& view, const Item& item) {
    const long long unit = block_number() * block_threads() + thread_number();
    if (unit >= item.units) return;
    constexpr int W = 32, tiles = (SHAPE::labels + SHAPE::tile - 1) / SHAPE::tile;
    const int tile = tiles == 1 ? 0 : int(unit / item.count);
    const Lane<W> lane(lane_of_unit(view.lists, item, unit - (long long)tile * item.count), 0);
    const Group& g = view.groups[item.group];
    const Slot* slots = view.slots + g.slots;
    const T* table = lane.at(g.base >= 0 ? view.base + g.base : view.tables + g.tables, SHAPE::entries);
    T* out = lane.at(view.messages + slots[SHAPE::slot].messages, SHAPE::labels);
    const T temperature = T(view.epsilon * counting_of(view, g, lane));
    const T inverse = temperature > T(0) ? T(1) / temperature : T(1e30);
    const T* incoming[SHAPE::slots];
#pragma unroll
    for (int s = 0; s < SHAPE::slots; ++s)
        incoming[s] = lane.at(view.messages + slots[s].messages, SHAPE::labels_of(s));
    const int first = tile * SHAPE::tile;
    Collector<T, SOFT> collector[SHAPE::tile];
    // So many values are loaded before the first is used.
    constexpr int most = (sizeof(T) == 4 ? 64 : 32) / SHAPE::tile, parts = (SHAPE::inner + most - 1) / most;
    constexpr int step = (SHAPE::inner + parts - 1) / parts, rounds = SHAPE::others / SHAPE::inner * parts;
    constexpr int unroll = rounds <= 2 ? rounds : 1;
#pragma unroll unroll
    for (int round = 0; round < rounds; ++round) {
        const int outer = round / parts, begin = round % parts * step;
        T v[step][SHAPE::tile];
#pragma unroll
        for (int i = 0; i < step; ++i) {
            const int k = begin + i;
            const bool inside = SHAPE::inner % step == 0 || k < SHAPE::inner;
#pragma unroll
            for (int j = 0; j < SHAPE::tile; ++j) {
                const int y =
                    SHAPE::labels % SHAPE::tile == 0 || first + j < SHAPE::labels ? first + j : SHAPE::labels - 1;
                v[i][j] = inside ? table[SHAPE::entry(y, outer, k) * W] : minus_infinity<T>();
#pragma unroll
                for (int s = 0; s < SHAPE::slots; ++s)
                    if (s != SHAPE::slot && inside) v[i][j] += incoming[s][SHAPE::label(s, y, outer, k) * W];
            }
        }
#pragma unroll
        for (int j = 0; j < SHAPE::tile; ++j)
            collector[j].template add_all<step>([&](int i) { return v[i][j]; }, inverse);
    }
#pragma unroll
    for (int j = 0; j < SHAPE::tile; ++j)
        if (SHAPE::labels % SHAPE::tile == 0 || first + j < SHAPE::labels)
            out[(first + j) * W] = collector[j].finish(temperature);
}

// The same where a team works on a lane and a tile of its labels (or, with splits, on a part of what is summed for
// them: then `partial` [splits][lanes][labels] is merged by `heavy_merge`).
template <class T, bool SOFT, class SHAPE>
BF_DEVICE void heavy_team(const View<T>& view, const Item& item, Collector<T, SOFT>* partial) {
    long long unit = (block_number() * block_threads() + thread_number()) / team_size;
    if (unit >= item.units * SHAPE::splits) return;
    const int split = int(unit / item.units);
    unit -= split * item.units;
    const int tile = int(unit / item.count), number = int(unit - (long long)tile * item.count);
    const Lane<1> lane(lane_of_unit(view.lists, item, number), thread_number() % team_size);
    const Group& g = view.groups[item.group];
    const Slot* slots = view.slots + g.slots;
    const T* table = lane.at(g.base >= 0 ? view.base + g.base : view.tables + g.tables, SHAPE::entries);
    T* out = lane.at(view.messages + slots[SHAPE::slot].messages, SHAPE::labels);
    const T temperature = T(view.epsilon * counting_of(view, g, lane));
    const T inverse = temperature > T(0) ? T(1) / temperature : T(1e30);
    const T* incoming[SHAPE::slots];
#pragma unroll
    for (int s = 0; s < SHAPE::slots; ++s)
        incoming[s] = lane.at(view.messages + slots[s].messages, SHAPE::labels_of(s));
    constexpr bool apart = SHAPE::own_last;  // every thread has labels of its own
    constexpr int ahead = 8, step = apart ? 1 : team_size;
    const int first = tile * item.tile;
    const int last = first + item.tile < SHAPE::labels ? first + item.tile : SHAPE::labels;
    const int begin = int((long long)SHAPE::others * split / SHAPE::splits);
    const int end = int((long long)SHAPE::others * (split + 1) / SHAPE::splits);
    for (int y = first + (apart ? lane.rank : 0); y < last; y += apart ? team_size : 1) {
        Collector<T, SOFT> collector;
        for (int k = begin + (apart ? 0 : lane.rank); k < end; k += ahead * step) {
            T v[ahead];
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const int at = k + i * step, outer = at / SHAPE::inner, inner = at % SHAPE::inner;
                v[i] = at < end ? table[SHAPE::entry(y, outer, inner)] : minus_infinity<T>();
#pragma unroll
                for (int s = 0; s < SHAPE::slots; ++s)
                    if (s != SHAPE::slot && at < end) v[i] += incoming[s][SHAPE::label(s, y, outer, inner)];
            }
            collector.template add_all<ahead>([&](int i) { return v[i]; }, inverse);
        }
        if (!apart) collector.across(lane, inverse);
        if (!apart && lane.rank != 0) continue;
        if (SHAPE::splits == 1)
            out[y] = collector.finish(temperature);
        else
            partial[((long long)split * item.count + number) * SHAPE::labels + y] = collector;
    }
}
template <class T, bool SOFT, class SHAPE>
BF_DEVICE void heavy_merge(const View<T>& view, const Item& item, const Collector<T, SOFT>* partial) {
    const long long unit = block_number() * block_threads() + thread_number();
    if (unit >= (long long)item.count * SHAPE::labels) return;
    const int number = int(unit / SHAPE::labels), y = int(unit - (long long)number * SHAPE::labels);
    const Lane<1> lane(lane_of_unit(view.lists, item, number), 0);
    const Group& g = view.groups[item.group];
    const T temperature = T(view.epsilon * counting_of(view, g, lane));
    const T inverse = temperature > T(0) ? T(1) / temperature : T(1e30);
    Collector<T, SOFT> collector = partial[unit];
    for (int k = 1; k < SHAPE::splits; ++k)
        collector.merge(partial[(long long)k * item.count * SHAPE::labels + unit], inverse);
    const Slot& slot = view.slots[g.slots + SHAPE::slot];
    lane.at(view.messages + slot.messages, SHAPE::labels)[y] = collector.finish(temperature);
}

// Sum of the children's messages at an entry.
template <class T, int W>
BF_DEVICE T children_at(const View<T>& view, const Group& g, const Lane<W>& lane, long long e) {
    T sum = 0;
    const long long row = e / g.last;
    const int within = int(e - row * g.last);
    for (int s = 0; s < g.slot_count; ++s) {
        const Slot& slot = view.slots[g.slots + s];
        const int label = view.ints[slot.row_label + row] + within * slot.last_stride;
        sum += lane.at(view.messages + slot.messages, slot.labels)[(long long)label * W];
    }
    return sum;
}

// lambda to all parents of one lane from their mu, in place; then base. `value`: where eps c_hat logsumexp(B / (eps
// c_hat)), the block's share of F, goes.
template <class T, int W>
BF_DEVICE void light_lane(const View<T>& view, const Group& g, const Lane<W>& lane, double* value) {
    constexpr int threads = Lane<W>::threads;
    const Slice& slice = view.slices[g.slices + lane.block];
    const T* theta = lane.at(view.tables + g.tables, g.entries);
    T* total = lane.at(view.base + g.base, g.entries);  // until base itself is known
    const T lowest = minus_infinity<T>();
    T mean_total = 0, count = 0;
    for (long long y = lane.rank; y < g.entries; y += threads) {
        T sum = theta[y * W];
        if (g.slot_count) sum += children_at(view, g, lane, y);
        for_parents(view, g, lane, view.messages, [&](const T* mu, int stride, int) { sum += mu[y * stride]; });
        total[y * W] = sum;
        mean_total += sum > lowest ? sum : T(0);
        count += sum > lowest ? T(1) : T(0);
    }
    count = lane.sum(count);
    const T scale = T(1) / (count > T(0) ? count : T(1));
    mean_total = lane.sum(mean_total) * scale;
    for_parents(view, g, lane, view.messages, [&](T* message, int stride, int j) {
        T mean = 0;
        for (long long y = lane.rank; y < g.entries; y += threads)
            mean += total[y * W] > lowest ? message[y * stride] : T(0);
        mean = lane.sum(mean);
        const T weight = weight_of(view, slice, lane, j);
        const T centre = weight * mean_total - mean * scale;
        for (long long y = lane.rank; y < g.entries; y += threads) {
            const T b = total[y * W];
            message[y * stride] = b > lowest ? weight * b - message[y * stride] - centre : T(0);
        }
    });
    if (value) {
        const T temperature = weight_of(view, slice, lane, slice.degree) * T(view.epsilon);
        const T inverse = temperature > T(0) ? T(1) / temperature : T(1e30);
        Collector<T, true> collector;
        for (long long y = lane.rank; y < g.entries; y += threads) collector.add(total[y * W], inverse);
        if constexpr (threads > 1) collector.across(lane, inverse);
        if (lane.rank == 0) value[g.first_lane + lane.lane] = double(collector.finish(temperature));
    }
    for (long long y = lane.rank; y < g.entries; y += threads) {
        T b = theta[y * W];
        for_parents(view, g, lane, view.messages, [&](const T* message, int stride, int) { b -= message[y * stride]; });
        total[y * W] = b;
    }
}

// The same with everything in registers: L labels, no children, one thread per lane; D > 0: up to so many parents,
// whose messages are kept too.
template <class T, int L, int D>
BF_DEVICE void light_static(const View<T>& view, const Item& item, double* value) {
    constexpr int W = 32;
    const long long unit = block_number() * block_threads() + thread_number();
    if (unit >= item.units) return;
    const Group& g = view.groups[item.group];
    const Lane<W> lane(lane_of_unit(view.lists, item, unit), 0);
    const Slice& slice = view.slices[g.slices + lane.block];
    const T* theta = lane.at(view.tables + g.tables, L);
    const T lowest = minus_infinity<T>();
    T total[L], mu[D + 1][L];
    unsigned at[D + 1];
    T mean_total = 0, count = 0, weights = 0, centres = 0;
    const unsigned* index = view.index + slice.index + lane.within;
#pragma unroll
    for (int j = 0; j < D; ++j) at[j] = j < slice.degree ? index[j * W] : no_edge;
#pragma unroll
    for (int j = 0; j < D; ++j) {
        const int stride = at[j] < view.wide ? 32 : 1;
#pragma unroll
        for (int y = 0; y < L; ++y) mu[j][y] = at[j] != no_edge ? view.messages[at[j] + (long long)y * stride] : T(0);
    }
#pragma unroll
    for (int y = 0; y < L; ++y) total[y] = theta[y * W];
#pragma unroll
    for (int j = 0; j < D; ++j)
#pragma unroll
        for (int y = 0; y < L; ++y) total[y] += mu[j][y];
    if constexpr (D == 0)
        for_parents(view, g, lane, view.messages, [&](const T* message, int stride, int) {
#pragma unroll
            for (int y = 0; y < L; ++y) total[y] += message[y * stride];
        });
#pragma unroll
    for (int y = 0; y < L; ++y) {
        mean_total += total[y] > lowest ? total[y] : T(0);
        count += total[y] > lowest ? T(1) : T(0);
    }
    const T scale = T(1) / (count > T(0) ? count : T(1));
    mean_total *= scale;
    auto send = [&](T* message, int stride, int j, T* own) {
        T mean = 0;
#pragma unroll
        for (int y = 0; y < L; ++y) mean += total[y] > lowest ? own[y] : T(0);
        const T weight = weight_of(view, slice, lane, j);
        const T centre = weight * mean_total - mean * scale;
        weights += weight, centres += centre;
#pragma unroll
        for (int y = 0; y < L; ++y)
            message[(long long)y * stride] = total[y] > lowest ? weight * total[y] - own[y] - centre : T(0);
    };
#pragma unroll
    for (int j = 0; j < D; ++j)
        if (at[j] != no_edge) send(view.messages + at[j], at[j] < view.wide ? 32 : 1, j, mu[j]);
    if constexpr (D == 0)
        for_parents(view, g, lane, view.messages, [&](T* message, int stride, int j) {
#pragma unroll
            for (int y = 0; y < L; ++y) mu[0][y] = message[y * stride];
            send(message, stride, j, mu[0]);
        });
    // theta - sum lambda, of which total = theta + sum mu leaves
    T* to = lane.at(view.base + g.base, L);
#pragma unroll
    for (int y = 0; y < L; ++y) to[y * W] = total[y] > lowest ? total[y] - (weights * total[y] - centres) : lowest;
    if (value) {
        const T temperature = weight_of(view, slice, lane, slice.degree) * T(view.epsilon);
        const T inverse = temperature > T(0) ? T(1) / temperature : T(1e30);
        Collector<T, true> collector;
#pragma unroll
        for (int y = 0; y < L; ++y) collector.add(total[y], inverse);
        value[g.first_lane + lane.lane] = double(collector.finish(temperature));
    }
}

// base = theta - the messages upwards, for new potentials or messages.
template <class T, int W>
BF_DEVICE void refresh_lane(const View<T>& view, const Group& g, const Lane<W>& lane) {
    const T* theta = lane.at(view.tables + g.tables, g.entries);
    T* base = lane.at(view.base + g.base, g.entries);
    for_entries(g, lane, [&](long long y) {
        T b = theta[y * W];
        for_parents(view, g, lane, view.messages, [&](const T* message, int stride, int) { b -= message[y * stride]; });
        base[y * W] = b;
    });
}

}  // namespace blendfield::BF_ISA
