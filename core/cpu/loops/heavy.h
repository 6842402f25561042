// Heavy phase of a sweep: mu to one slot of a block of tables (kernels/messages.h).
#pragma once
#include "cpu/loops/masks.h"
#include "kernels/messages.h"

namespace blendfield::BF_ISA {

namespace {

template <class T, int W, bool SOFT, int L>
void pair_block(bool first, int l0, int l1, const T* table, const T* other, T* out, T* sums,
                const BlockPack<T, W>* temperature, const BlockPack<T, W>* inverse, unsigned mask) {
    using V = BlockPack<T, W>;
    constexpr int P = Traits<V>::lanes;
    for (int k = 0; k < W / P; ++k) {
        if (!pack_mask<P>(mask, k)) continue;
        const T *t = table + k * P, *o = other + k * P;
        T* to = out + k * P;
        if constexpr (L == 2)
            pair_message_binary<V, W, SOFT>(first, t, o, to, temperature[k], inverse[k]);
        else if (first)
            pair_message_first<V, W, SOFT, L, L>(l0, l1, t, o, to, temperature[k], inverse[k]);
        else
            pair_message_second<V, W, SOFT, L, L>(l0, l1, t, o, to, sums, temperature[k], inverse[k]);
    }
}

template <class T, int W, bool SOFT>
void heavy_block(const ProblemView<T>& view, const GroupView& g, const HeavyItem& item, Scratch& scratch) {
    using V = BlockPack<T, W>;
    constexpr int P = Traits<V>::lanes;
    const SlotView& slot = g.slot[item.slot];
    const long long block = item.block;
    const T* table = (g.base >= 0 ? view.base + g.base : view.tables + g.tables) + block * g.entries * W;
    T* out = view.messages + slot.messages + block * slot.labels * W;
    T* sums = reinterpret_cast<T*>(scratch.sums);

    V temperature[W / P], inverse[W / P];
    for (int k = 0; k < W / P; ++k) {
        V c;
        if (g.counting_uniform)
            c = fill<V>(T(g.counting[0]));
        else
            for (int l = 0; l < P; ++l) {
                if constexpr (P == 1)
                    c = T(g.counting[block * W + k]);
                else
                    c[l] = T(g.counting[block * W + k * P + l]);
            }
        temperature[k] = c * T(view.epsilon);
        inverse[k] = temperature[k] > fill<V>(0) ? fill<V>(1) / temperature[k] : fill<V>(T(1e30));
    }

    // A block in which other lanes send in other classes: those must keep what they have at every moment, because
    // another thread may be reading it for another slot.
    T* const target = out;
    const bool partial = item.mask != full_mask<W>;
    if (partial) out = static_cast<T*>(scratch.partial);

    if (g.axes == 2 && g.slots == 2) {
        const bool first = item.slot == 0;
        const SlotView& across = g.slot[1 - item.slot];
        const T* other = view.messages + across.messages + block * across.labels * W;
        const int l0 = g.extents[0], l1 = g.extents[1];
        auto* run = &pair_block<T, W, SOFT, 0>;
        if constexpr (W == 32)
            if (l0 == l1) switch (l0) {
                    case 2:
                        run = &pair_block<T, W, SOFT, 2>;
                        break;
                    case 3:
                        run = &pair_block<T, W, SOFT, 3>;
                        break;
                    case 4:
                        run = &pair_block<T, W, SOFT, 4>;
                        break;
                    case 5:
                        run = &pair_block<T, W, SOFT, 5>;
                        break;
                    case 6:
                        run = &pair_block<T, W, SOFT, 6>;
                        break;
                    case 7:
                        run = &pair_block<T, W, SOFT, 7>;
                        break;
                    case 8:
                        run = &pair_block<T, W, SOFT, 8>;
                        break;
                }
        run(first, l0, l1, table, other, out, sums, temperature, inverse, item.mask);
    } else {
        auto* incoming = static_cast<Incoming<T>*>(scratch.slots);
        for (int k = 0; k < W / P; ++k) {
            if (!pack_mask<P>(item.mask, k)) continue;
            int others = 0;
            for (int s = 0; s < g.slots; ++s)
                if (s != item.slot)
                    incoming[others++] = {view.messages + g.slot[s].messages + block * g.slot[s].labels * W + k * P,
                                          g.slot[s].strides, g.slot[s].last_stride, 0};
            general_message<V, W, SOFT>(g.axes, g.extents, g.outer, table + k * P, slot.strides, slot.last_stride,
                                        slot.labels, others, incoming, out + k * P, sums, temperature[k], inverse[k]);
        }
    }
    if (partial)
        for (long long y = 0; y < slot.labels; ++y)
            for (int l = 0; l < W; ++l)
                if (item.mask >> l & 1) target[y * W + l] = out[y * W + l];
}

// One lane, vectorised over the entries of its rows: for lone large tables, long chains and rare shapes. Rows are read
// in whole vectors; what lies beyond their end counts as forbidden and so changes neither maxima nor sums. Of the
// child's labels those in [item.from, item.to) are made: slices along the first axis if the child has it, else columns.
template <class T, int P, bool SOFT>
void heavy_rows(const ProblemView<T>& view, const GroupView& g, const HeavyItem& item, Scratch& scratch) {
    using V = Pack<T, P>;
    constexpr int max_axes = 32;
    const SlotView& slot = g.slot[item.slot];
    const long long block = item.block;
    const T* table = (g.base >= 0 ? view.base + g.base : view.tables + g.tables) + block * g.entries;
    T* out = view.messages + slot.messages + block * slot.labels;
    T* best = reinterpret_cast<T*>(scratch.sums);  // [labels], then room for one vector
    T* sums = best + slot.labels + P;
    const T temperature = T(view.epsilon * g.counting[g.counting_uniform ? 0 : block]);
    const T inverse = temperature > 0 ? T(1) / temperature : T(1e30);
    auto* incoming = static_cast<Incoming<T>*>(scratch.slots);
    int others = 0;
    for (int s = 0; s < g.slots; ++s)
        if (s != item.slot)
            incoming[others++] = {view.messages + g.slot[s].messages + block * g.slot[s].labels, g.slot[s].strides,
                                  g.slot[s].last_stride, 0};
    const bool slices = slot.strides[0] != 0;
    const int first = slices ? item.from / slot.strides[0] : 0;
    const long long each = g.outer / g.extents[0];  // rows of a slice
    const long long rows = slices ? (item.to - item.from) / slot.strides[0] * each : g.outer;
    const bool columns = !slices && slot.last_stride && slot.labels == g.last;
    const int begin = columns ? item.from : 0, last = columns ? item.to : g.last;
    const V lowest = minus_infinity<V>(), scale = fill<V>(inverse);
    for (int c = item.from; c < item.to + P; ++c) best[c] = -Limits<T>::infinity, sums[c] = 0;
    for (int pass = 0; pass < (SOFT ? 2 : 1); ++pass) {
        int digit[max_axes] = {first};
        int own = first * slot.strides[0];
        for (int k = 0; k < others; ++k) incoming[k].offset = first * incoming[k].strides[0];
        const T* row = table + first * each * g.last;
        for (long long o = 0; o < rows; ++o, row += g.last) {
            T constant = 0;
            for (int k = 0; k < others; ++k)
                if (!incoming[k].last_stride) constant += incoming[k].start[incoming[k].offset];
            const V shift = fill<V>(slot.last_stride ? T(0) : finite(best[own]));
            V collected = pass ? fill<V>(0) : lowest;
            for (int y = begin; y < last; y += P) {
                V v = Lanes<V>::load(row + y) + fill<V>(constant);
                for (int k = 0; k < others; ++k)
                    if (incoming[k].last_stride) v += Lanes<V>::load(incoming[k].start + incoming[k].offset + y);
                if (last - y < P) v = first_lanes(v, last - y, lowest);
                if (slot.last_stride) {
                    const V high = Lanes<V>::load(best + own + y);
                    if (pass == 0)
                        Lanes<V>::store(best + own + y, maximum(high, v));
                    else
                        Lanes<V>::store(sums + own + y,
                                        Lanes<V>::load(sums + own + y) + exponential((v - finite(high)) * scale));
                } else if (pass == 0) {
                    collected = maximum(collected, v);
                } else {
                    collected += exponential((v - shift) * scale);
                }
            }
            if (!slot.last_stride) {
                if (pass == 0)
                    best[own] = maximum(best[own], max_of_lanes(collected));
                else
                    sums[own] += sum_of_lanes(collected);
            }
            for (int axis = g.axes - 2; axis >= 0; --axis) {
                own += slot.strides[axis];
                for (int k = 0; k < others; ++k) incoming[k].offset += incoming[k].strides[axis];
                if (++digit[axis] < g.extents[axis]) break;
                own -= slot.strides[axis] * g.extents[axis];
                for (int k = 0; k < others; ++k) incoming[k].offset -= incoming[k].strides[axis] * g.extents[axis];
                digit[axis] = 0;
            }
        }
    }
    int c = item.from;
    if constexpr (SOFT) {
        const V warm = fill<V>(temperature);
        for (; c + P <= item.to; c += P)
            Lanes<V>::store(out + c, finish_message(Lanes<V>::load(best + c), Lanes<V>::load(sums + c), warm));
        if (c < item.to)
            Lanes<V>::store(best + c, finish_message(Lanes<V>::load(best + c), Lanes<V>::load(sums + c), warm));
    }
    for (; c < item.to; ++c) out[c] = best[c];
}

template <class T>
void heavy(const ProblemView<T>& view, const HeavyItem* items, long long begin, long long end, Scratch& scratch) {
    constexpr int native = Traits<NativePack<T>>::lanes;
    const bool soft = view.epsilon > 0;
    for (long long k = begin; k < end; ++k) {
        const HeavyItem& item = items[k];
        const GroupView& g = view.groups[item.group];
        if (g.width == 32)
            soft ? heavy_block<T, 32, true>(view, g, item, scratch) : heavy_block<T, 32, false>(view, g, item, scratch);
        else if (g.width == 8)
            soft ? heavy_block<T, 8, true>(view, g, item, scratch) : heavy_block<T, 8, false>(view, g, item, scratch);
        else if (g.last <= native / 2)
            soft ? heavy_rows<T, native / 2, true>(view, g, item, scratch)
                 : heavy_rows<T, native / 2, false>(view, g, item, scratch);
        else
            soft ? heavy_rows<T, native, true>(view, g, item, scratch)
                 : heavy_rows<T, native, false>(view, g, item, scratch);
    }
}

}  // namespace

}  // namespace blendfield::BF_ISA
