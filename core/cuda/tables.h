// Potentials, beliefs and messages between the flat arrays outside and the lanes; the support of forbidden labels.
#pragma once
#include "cuda/threads.h"

namespace blendfield::BF_ISA {

template <class T, int W, class F>
BF_DEVICE void for_user_entries(const View<T>& view, const Group& g, const Lane<W>& lane, F f) {
    const long long number = g.first_lane + lane.lane, start = view.table_at[number];
    const int strides = view.table_axes[number];
    for_entries(g, lane,
                [&](long long e) { f(e, start + user_entry(view.ints, view.ints + g.extents, g.axes, strides, e)); });
}

// tables = flat; with `keep`, -inf in the tables (no support) stays.
template <class T>
BF_DEVICE void load_tables(const View<T>& view, const int* blocks, const T* flat, T* tables, bool keep) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        T* to = lane.at(tables + g.tables, g.entries);
        const bool check = keep && g.forbidden;
        for_user_entries(view, g, lane, [&](long long e, long long at) {
            if (!check || to[e * W] > minus_infinity<T>()) to[e * W] = flat[at];
        });
    });
}

// flat = tables, from T's layout in any type.
template <class T, class U, class O>
BF_DEVICE void store_tables(const View<T>& view, const int* blocks, const U* tables, O* flat) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        const U* from = lane.at(tables + g.tables, g.entries);
        for_user_entries(view, g, lane, [&](long long e, long long at) { flat[at] = O(from[e * W]); });
    });
}

// The first position in `flat` that has support but is not finite.
template <class T>
BF_DEVICE void first_unusable(const View<T>& view, const int* blocks, const T* flat, long long* least) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        const T* table = lane.at(view.tables + g.tables, g.entries);
        for_user_entries(view, g, lane, [&](long long e, long long at) {
            const T v = flat[at];
            if (!(v - v == T(0)) && table[e * W] > minus_infinity<T>()) keep_least(least, at);
        });
    });
}

// Messages of one slot, items with all its lanes: out to `flat`, or in.
template <class T>
BF_DEVICE void copy_messages(const View<T>& view, const int* blocks, T* flat, bool out) {
    for_unit(view, blocks, [&](const Item& item, const Group& g, long long unit, int rank, auto width) {
        const auto lane = lane_with(width, lane_of_unit(view.lists, item, unit), rank);
        constexpr int W = lane.width;
        const Slot& slot = view.slots[g.slots + item.slot];
        T* message = lane.at(view.messages + slot.messages, slot.labels);
        const long long place = slot.places + lane.lane;
        const int strides = view.message_axes[place];
        // The axes of the child are those of the parent that move it; without strides they need not be known.
        int extents[32], axes = 0;
        if (strides >= 0) {
            for (int a = 0; a < g.axes; ++a)
                if (view.ints[g.extents + g.axes * (1 + item.slot) + a]) extents[axes++] = view.ints[g.extents + a];
        }
        for (int y = lane.rank; y < slot.labels; y += lane.threads) {
            const long long at = view.message_at[place] + user_entry(view.ints, extents, axes, strides, y);
            if (out)
                flat[at] = message[(long long)y * W];
            else
                message[(long long)y * W] = flat[at];
        }
    });
}

// No message on labels without support. Items: lanes that send.
template <class T>
BF_DEVICE void mask_messages(const View<T>& view, const int* blocks) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        if (!g.forbidden) return;
        const T* table = lane.at(view.tables + g.tables, g.entries);
        for_parents(view, g, lane, view.messages, [&](T* message, int stride, int) {
            for_entries(g, lane, [&](long long y) {
                if (!(table[y * W] > minus_infinity<T>())) message[y * stride] = 0;
            });
        });
    });
}

// Generalised arc consistency, in rounds: a joint label stays while every parent extends it (messages 0, else -inf) and
// every child supports it. `state`: [0] rounds go on while it is set, [1] the first region without any label.

template <class T>
BF_DEVICE void support_extends(const View<T>& view, const int* blocks) {  // items: one slot, all lanes
    for_unit(view, blocks, [&](const Item& item, const Group& g, long long unit, int rank, auto width) {
        const auto lane = lane_with(width, lane_of_unit(view.lists, item, unit), rank);
        constexpr int W = lane.width;
        const Slot& slot = view.slots[g.slots + item.slot];
        const T* table = lane.at(view.tables + g.tables, g.entries);
        T* message = lane.at(view.messages + slot.messages, slot.labels);
        for (int y = lane.rank; y < slot.labels; y += lane.threads) {
            bool any = false;
            for (int k = 0; k < slot.others && !any; ++k)
                any = table[((long long)view.ints[slot.own_entry + y] + view.ints[slot.other_entry + k]) * W] >
                      minus_infinity<T>();
            message[(long long)y * W] = any ? T(0) : minus_infinity<T>();
        }
    });
}

template <class T>
BF_DEVICE void support_restricts(const View<T>& view, const int* blocks, long long* state) {  // items: all lanes
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        T* table = lane.at(view.tables + g.tables, g.entries);
        for_entries(g, lane, [&](long long e) {
            if (!(table[e * W] > minus_infinity<T>())) return;
            bool supported = true;
            if (g.slices >= 0)
                for_parents(view, g, lane, view.messages, [&](const T* message, int stride, int) {
                    supported = supported && message[e * stride] > minus_infinity<T>();
                });
            if (supported) return;
            table[e * W] = minus_infinity<T>();
            state[0] = 1;
        });
    });
}

template <class T>
BF_DEVICE void support_tells(const View<T>& view, const int* blocks) {  // items: lanes that send
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        const T* table = lane.at(view.tables + g.tables, g.entries);
        for_parents(view, g, lane, view.messages, [&](T* message, int stride, int) {
            for_entries(g, lane, [&](long long y) {
                message[y * stride] = table[y * W] > minus_infinity<T>() ? T(0) : minus_infinity<T>();
            });
        });
    });
}

template <class T>
BF_DEVICE void support_prunes(const View<T>& view, const int* blocks, long long* state) {  // items: all lanes
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        T* table = lane.at(view.tables + g.tables, g.entries);
        float left = 0;
        for_entries(g, lane, [&](long long e) {
            if (!(table[e * W] > minus_infinity<T>())) return;
            if (g.slot_count) {
                const long long row = e / g.last;
                for (int s = 0; s < g.slot_count; ++s) {
                    const Slot& slot = view.slots[g.slots + s];
                    const int label = view.ints[slot.row_label + row] + int(e - row * g.last) * slot.last_stride;
                    if (!(lane.at(view.messages + slot.messages, slot.labels)[(long long)label * W] >
                          minus_infinity<T>())) {
                        table[e * W] = minus_infinity<T>();
                        state[0] = 1;
                        return;
                    }
                }
            }
            left = 1;
        });
        left = lane.sum(left);
        if (left == 0 && lane.rank == 0) keep_least(state + 1, view.regions[g.first_lane + lane.lane]);
    });
}

// forbidden[group] = 1 where some entry is -inf.
template <class T>
BF_DEVICE void support_marks(const View<T>& view, const int* blocks, int* forbidden) {
    const int group = view.items[blocks[2 * block_number()]].group;
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        const T* table = lane.at(view.tables + g.tables, g.entries);
        bool any = false;
        for_entries(g, lane, [&](long long e) { any = any || !(table[e * W] > minus_infinity<T>()); });
        if (any) forbidden[group] = 1;
    });
}

}  // namespace blendfield::BF_ISA
