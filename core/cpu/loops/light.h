// Light phase of a sweep: gather the mu of all parents, form the new lambda, scatter them.
#pragma once
#include "cpu/loops/masks.h"
#include "kernels/messages.h"

namespace blendfield::BF_ISA {

namespace {

// out [entries][C] += messages of all children, lanes [lane, lane + C) of a block stored in blocks of W.
template <class T, class S, int W, int C>
void add_children(const ProblemView<T>& view, const GroupView& g, long long block, int lane, S* out) {
    for (int s = 0; s < g.slots; ++s) {
        const SlotView& slot = g.slot[s];
        const T* message = view.messages + slot.messages + block * slot.labels * W + lane;
        int digit[32] = {};
        int own = 0;
        S* row = out;
        for (long long o = 0; o < g.outer; ++o) {
            for (int y = 0; y < g.last; ++y, row += C) {
                const T* m = message + (long long)(own + y * slot.last_stride) * W;
                for (int l = 0; l < C; ++l) row[l] += S(m[l]);
            }
            for (int axis = g.axes - 2; axis >= 0; --axis) {
                own += slot.strides[axis];
                if (++digit[axis] < g.extents[axis]) break;
                own -= slot.strides[axis] * g.extents[axis];
                digit[axis] = 0;
            }
        }
    }
}

// Copies `labels` values per lane between lane blocks whose label rows are `from_stride` and `to_stride` apart.
template <int C, class T>
BF_FN void copy_rows(const T* from, long long from_stride, T* to, long long to_stride, long long labels) {
    using V = BlockPack<T, C>;
    constexpr int P = Traits<V>::lanes;
    for (long long y = 0; y < labels; ++y)
        for (int l = 0; l < C; l += P)
            Lanes<V>::store(to + y * to_stride + l, Lanes<V>::load(from + y * from_stride + l));
}

// Lanes [lane, lane + C) of a light block; C = 32 or 8, or 1 for groups stored lane by lane.
template <class T, int W, int C>
void light_part(const ProblemView<T>& view, const GroupView& g, const LightBlock& light, int lane, Scratch& scratch,
                double* value) {
    using V = BlockPack<T, C>;
    constexpr int P = Traits<V>::lanes, R = C < 8 ? C : 8;  // lanes that may lie next to each other in the messages
    const unsigned mask = (light.mask >> lane) & full_mask<C>;
    const long long labels = g.entries, block = light.block;
    const int degree = light.degree;
    T* total = reinterpret_cast<T*>(scratch.light);
    T* mu = total + labels * C;
    V* weights = static_cast<V*>(scratch.weights);  // [degree]
    T block_values[C];

    const T* theta = view.tables + g.tables + block * labels * W + lane;
    copy_rows<C>(theta, W, total, C, labels);
    if (g.slots) add_children<T, T, W, C>(view, g, block, lane, total);

    for (int j = 0; j < degree; ++j) {
        const ParentEdge& edge = view.edges[light.edge + j];
        const unsigned* index = positions(view.index, edge, lane);
        T* to = mu + j * labels * C;
        for (int r = 0; r < C; r += R) {
            if (R == 8 && (edge.contiguous >> ((lane + r) / 8) & 1)) {
                copy_rows<R>(view.messages + *index++, edge.stride, to + r, C, labels);
                continue;
            }
            for (int l = r; l < r + R; ++l) {
                const unsigned at = *index++;
                const bool present = at != no_edge;
                const T* from = view.messages + (present ? at : 0);
                for (long long y = 0; y < labels; ++y) to[y * C + l] = present ? from[y * edge.stride] : T(0);
            }
        }
    }
    for (int k = 0; k < C / P; ++k) {
        for (int j = 0; j < degree; ++j)
            weights[j] = light.weight_uniform
                             ? fill<V>(view.weights[light.weight + j])
                             : Lanes<V>::load(view.weights + light.weight + (long long)j * W + lane + k * P);
        if (g.forbidden)
            outgoing_messages<V, C, true>(labels, degree, total + k * P, mu + k * P, weights);
        else
            outgoing_messages<V, C, false>(labels, degree, total + k * P, mu + k * P, weights);
        if (value) {
            V hat = light.weight_uniform
                        ? fill<V>(view.weights[light.weight + degree])
                        : Lanes<V>::load(view.weights + light.weight + (long long)degree * W + lane + k * P);
            const V temperature = hat * T(view.epsilon);
            const V inverse = temperature > fill<V>(0) ? fill<V>(1) / temperature : fill<V>(T(1e30));
            V largest = minus_infinity<V>();
            for (long long y = 0; y < labels; ++y) largest = maximum(largest, Lanes<V>::load(total + y * C + k * P));
            V sum = fill<V>(0);
            for (long long y = 0; y < labels; ++y)
                sum += exponential((Lanes<V>::load(total + y * C + k * P) - finite(largest)) * inverse);
            Lanes<V>::store(block_values + k * P, finish_message(largest, sum, temperature));
        }
    }
    if (value) {
        double part[R] = {};  // several sums at once, in a fixed order
        for (int r = 0; r < C; r += R)
            for (int l = 0; l < R; ++l) part[l] += (mask >> (r + l) & 1) ? double(block_values[r + l]) : 0.0;
        for (int l = 0; l < R; ++l) *value += part[l];
    }
    for (int j = 0; j < degree; ++j) {
        const ParentEdge& edge = view.edges[light.edge + j];
        const unsigned* index = positions(view.index, edge, lane);
        const T* from = mu + j * labels * C;
        for (int r = 0; r < C; r += R) {
            if (R == 8 && (edge.contiguous >> ((lane + r) / 8) & 1)) {
                copy_rows<R>(from + r, C, view.messages + *index++, edge.stride, labels);
                continue;
            }
            for (int l = r; l < r + R; ++l) {
                const unsigned at = *index++;
                if (at == no_edge) continue;
                T* to = view.messages + at;
                for (long long y = 0; y < labels; ++y) to[y * edge.stride] = from[y * C + l];
            }
        }
    }
    if (g.base >= 0) {
        T* base = view.base + g.base + block * labels * W + lane;
        for (int l = 0; l < C; ++l) {
            if (!(mask >> l & 1)) continue;
            for (long long y = 0; y < labels; ++y) {
                T b = theta[y * W + l];
                for (int j = 0; j < degree; ++j)
                    if (position(view.index, view.edges[light.edge + j], lane + l) != no_edge)
                        b -= mu[(j * labels + y) * C + l];
                base[y * W + l] = b;
            }
        }
    }
}

// Labels times parents up to which a light block is worked on in one piece: its working set stays in the first cache.
constexpr long long small_light = 64;

template <class T>
void light(const ProblemView<T>& view, const int* blocks, long long begin, long long end, Scratch& scratch,
           double* values) {
    for (long long k = begin; k < end; ++k) {
        const LightBlock& block = view.lights[blocks[k]];
        const GroupView& g = view.groups[block.group];
        if (values) values[k] = 0;
        double* value = values ? values + k : nullptr;
        if (g.width == 1)
            light_part<T, 1, 1>(view, g, block, 0, scratch, value);
        else if (g.width == 8)
            light_part<T, 8, 8>(view, g, block, 0, scratch, value);
        else if (g.entries * (block.degree + 1) <= small_light)
            light_part<T, 32, 32>(view, g, block, 0, scratch, value);
        else
            for (int lane = 0; lane < 32; lane += 8)
                if (block.mask >> lane & 0xffu) light_part<T, 32, 8>(view, g, block, lane, scratch, value);
    }
}

template <class T>
void refresh_base(const ProblemView<T>& view, const int* blocks, long long begin, long long end) {
    for (long long k = begin; k < end; ++k) {
        const LightBlock& light = view.lights[blocks[k]];
        const GroupView& g = view.groups[light.group];
        if (g.base < 0) continue;
        const long long offset = (long long)light.block * g.entries * g.width;
        for (int l = 0; l < g.width; ++l) {
            if (!(light.mask >> l & 1)) continue;
            for (long long y = 0; y < g.entries; ++y) {
                T b = view.tables[g.tables + offset + y * g.width + l];
                for (int j = 0; j < light.degree; ++j) {
                    const unsigned at = position(view.index, view.edges[light.edge + j], l);
                    if (at != no_edge) b -= view.messages[at + y * view.edges[light.edge + j].stride];
                }
                view.base[g.base + offset + y * g.width + l] = b;
            }
        }
    }
}

}  // namespace

}  // namespace blendfield::BF_ISA
