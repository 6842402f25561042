// Values and beliefs of blocks, and both along a line in the potentials.
#pragma once
#include "cpu/loops/light.h"
#include "cpu/loops/pieces.h"
#include "kernels/beliefs.h"
#include "kernels/line.h"

namespace blendfield::BF_ISA {

namespace {

// hat_r = theta_r + sum_c lambda_{c->r} - sum_p lambda_{r->p}, in float64, [entries][W].
template <class T, int W>
void hat_block(const ProblemView<T>& view, const ValueItem& item, double* hat) {
    const GroupView& g = view.groups[item.group];
    const long long block = item.block, size = g.entries * W;
    const T* source = (g.base >= 0 ? view.base + g.base : view.tables + g.tables) + block * size;
    for (long long k = 0; k < size; ++k) hat[k] = double(source[k]);
    if (g.slots) add_children<T, double, W, W>(view, g, block, 0, hat);
    if (!g.sends || g.base >= 0) return;
    const LightBlock& light = view.lights[item.light];
    for (int j = 0; j < light.degree; ++j) {
        const ParentEdge& edge = view.edges[light.edge + j];
        const unsigned* index = view.index + edge.index;
        constexpr int R = W < 8 ? W : 8;  // lanes that may lie next to each other in the messages
        for (int r = 0; r < W; r += R) {
            if (R == 8 && (edge.contiguous >> (r / 8) & 1)) {
                const T* message = view.messages + *index++;
                for (long long y = 0; y < g.entries; ++y)
                    for (int l = 0; l < R; ++l) hat[y * W + r + l] -= double(message[y * edge.stride + l]);
                continue;
            }
            for (int l = r; l < r + R; ++l) {
                const unsigned at = *index++;
                if (at == no_edge) continue;
                const T* message = view.messages + at;
                for (long long y = 0; y < g.entries; ++y) hat[y * W + l] -= double(message[y * edge.stride]);
            }
        }
    }
}

// Adds the terms of a pack of lanes to the sums, those outside the mask left out.
template <class V>
BF_FN void deposit(const GroupView& g, const ValueItem& item, long long k, int lane, V terms, Sink sink) {
    constexpr int P = Traits<V>::lanes;
    const unsigned mask = pack_mask<P>(item.mask, lane / P);
    sink.items[k] += sum_of_lanes(among(terms, mask));
    if (!sink.lanes) return;
    double* lanes = sink.lanes + g.first_lane + (long long)item.block * g.width + lane;
    for (int l = 0; l < P; ++l)
        if (mask >> l & 1) lanes[l] = lane_of(terms, l);
}

// Calls f(pack number, first lane, V counting numbers) for the packs of a block with active lanes.
template <int W, class F>
BF_FN void for_packs(const GroupView& g, const ValueItem& item, F f) {
    using V = BlockPack<double, W>;
    constexpr int P = Traits<V>::lanes;
    for (int k = 0; k < W / P; ++k)
        if (pack_mask<P>(item.mask, k)) f(k * P, counting_of<double, V>(g, item.block, k * P));
}

template <class T, int W>
void values_block(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, Sink sink) {
    using V = BlockPack<double, W>;
    const GroupView& g = view.groups[item.group];
    hat_block<T, W>(view, item, scratch.block[0]);
    for_packs<W>(g, item, [&](int lane, V counting) {
        const auto n = normalise<V, W>(g.entries, scratch.block[0] + lane, counting * view.epsilon, counting);
        deposit(g, item, k, lane, n.value, sink);
    });
}

template <class T>
void values(const ProblemView<T>& view, const ValueItem* items, long long begin, long long end, Scratch& scratch,
            Sink sink) {
    for (long long k = begin; k < end; ++k) {
        sink.items[k] = 0;
        const GroupView& g = view.groups[items[k].group];
        const int width = g.width;
        if (g.in_pieces)
            deposit(g, items[k], k, 0, beliefs_in_pieces(view, items[k], nullptr), sink);
        else if (width == 32)
            values_block<T, 32>(view, items[k], k, scratch, sink);
        else if (width == 8)
            values_block<T, 8>(view, items[k], k, scratch, sink);
        else
            values_block<T, 1>(view, items[k], k, scratch, sink);
    }
}

// Every region of the group has eps c_r != 0.
template <class T>
bool all_soft(const ProblemView<T>& view, const GroupView& g) {
    return view.epsilon != 0 && !g.has_zero;
}

template <class T, int W>
void beliefs_block(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, double* out,
                   Sink values) {
    using V = BlockPack<double, W>;
    const GroupView& g = view.groups[item.group];
    hat_block<T, W>(view, item, scratch.block[0]);
    for_packs<W>(g, item, [&](int lane, V counting) {
        const auto n =
            normalise<V, W, true>(g.entries, scratch.block[0] + lane, counting * view.epsilon, counting, out + lane);
        finish_beliefs<V, W>(g.entries, scratch.block[0] + lane, n, all_soft(view, g), out + lane);
        if (values.items) deposit(g, item, k, lane, n.value, values);
    });
}

template <class T>
void beliefs(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, double* out,
             Sink values) {
    if (values.items) values.items[k] = 0;
    const GroupView& g = view.groups[item.group];
    if (g.in_pieces) {
        const double value = beliefs_in_pieces(view, item, out);
        if (values.items) deposit(g, item, k, 0, value, values);
    } else if (g.width == 32) {
        beliefs_block<T, 32>(view, item, k, scratch, out, values);
    } else if (g.width == 8) {
        beliefs_block<T, 8>(view, item, k, scratch, out, values);
    } else {
        beliefs_block<T, 1>(view, item, k, scratch, out, values);
    }
}

template <class T, int W>
void line_block(const ProblemView<T>& view, const ValueItem& item, double* direction, const double* steps, int count,
                Scratch& scratch, double (*sums)[3]) {
    using V = BlockPack<double, W>;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    double* hat = scratch.block[0];
    hat_block<T, W>(view, item, hat);
    const bool soft = all_soft(view, g);
    for_packs<W>(g, item, [&](int lane, V counting) {
        const unsigned mask = pack_mask<P>(item.mask, lane / P);
        const V mean = centre_direction<V, W>(g.entries, hat + lane, direction + lane);
        for (int k = 0; k < count; ++k) {
            const auto point = soft ? point_on_line<V, W, true>(g.entries, hat + lane, direction + lane, mean, steps[k],
                                                                counting * view.epsilon, counting)
                                    : point_on_line<V, W, false>(g.entries, hat + lane, direction + lane, mean,
                                                                 steps[k], counting * view.epsilon, counting);
            sums[k][0] += sum_of_lanes(among(point.value, mask));
            sums[k][1] += sum_of_lanes(among(point.slope, mask));
            sums[k][2] += sum_of_lanes(among(point.curvature, mask));
        }
    });
}

template <class T>
void line(const ProblemView<T>& view, const ValueItem& item, double* direction, const double* steps, int count,
          Scratch& scratch, double (*sums)[3]) {
    const int width = view.groups[item.group].width;
    if (width == 32)
        line_block<T, 32>(view, item, direction, steps, count, scratch, sums);
    else if (width == 8)
        line_block<T, 8>(view, item, direction, steps, count, scratch, sums);
    else
        line_block<T, 1>(view, item, direction, steps, count, scratch, sums);
}

}  // namespace

}  // namespace blendfield::BF_ISA
