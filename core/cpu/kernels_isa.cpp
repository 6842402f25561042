// The loops over lane blocks, compiled once per instruction set (BF_ISA). Includes no standard header with inline code:
// everything here lives in the namespace of its instruction set.
#include "cpu/kernels.h"
#include "cpu/pack.h"
#include "kernels/beliefs.h"
#include "kernels/certificate.h"
#include "kernels/line.h"
#include "kernels/messages.h"

namespace blendfield::BF_ISA {

namespace {

template <int W>
constexpr unsigned full_mask = W == 32 ? 0xffffffffu : (1u << W) - 1;

template <int P>
BF_FN unsigned pack_mask(unsigned mask, int pack) {
    return (mask >> (pack * P)) & (P == 32 ? 0xffffffffu : (1u << P) - 1);
}

// v in the lanes of the mask, 0 elsewhere.
template <class V>
BF_FN V among(V v, unsigned mask) {
    constexpr int P = Traits<V>::lanes;
    if (mask == (1u << P) - 1) return v;
    if constexpr (P > 1)
        for (int l = 0; l < P; ++l) v[l] = mask >> l & 1 ? v[l] : 0;
    return v;
}

template <class T, class V>
BF_FN V counting_of(const GroupView& g, int block, int lane) {
    return g.counting_uniform ? fill<V>(ScalarOf<V>(g.counting[0]))
                              : load_as<V>(g.counting + (long long)block * g.width + lane);
}

// ---------------------------------------------------------------------------------------------------- heavy phase

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

// ---------------------------------------------------------------------------------------------------- light phase

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
        const unsigned* index = view.index + light.index + (long long)j * W + lane;
        T* to = mu + j * labels * C;
        for (int r = 0; r < C; r += R) {
            if (R == 8 && (edge.contiguous >> ((lane + r) / 8) & 1)) {
                copy_rows<R>(view.messages + index[r], edge.stride, to + r, C, labels);
                continue;
            }
            for (int l = r; l < r + R; ++l) {
                const bool present = index[l] != no_edge;
                const T* from = view.messages + (present ? index[l] : 0);
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
        const unsigned* index = view.index + light.index + (long long)j * W + lane;
        const T* from = mu + j * labels * C;
        for (int r = 0; r < C; r += R) {
            if (R == 8 && (edge.contiguous >> ((lane + r) / 8) & 1)) {
                copy_rows<R>(from + r, C, view.messages + index[r], edge.stride, labels);
                continue;
            }
            for (int l = r; l < r + R; ++l) {
                if (index[l] == no_edge) continue;
                T* to = view.messages + index[l];
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
                    if (view.index[light.index + (long long)j * W + lane + l] != no_edge)
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
                    const unsigned at = view.index[light.index + (long long)j * g.width + l];
                    if (at != no_edge) b -= view.messages[at + y * view.edges[light.edge + j].stride];
                }
                view.base[g.base + offset + y * g.width + l] = b;
            }
        }
    }
}

// ---------------------------------------------------------------------------------------- values, beliefs, certificate

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
        const unsigned* index = view.index + light.index + (long long)j * W;
        for (int l = 0; l < W; ++l) {
            if (index[l] == no_edge) continue;
            const T* message = view.messages + index[l];
            for (long long y = 0; y < g.entries; ++y) hat[y * W + l] -= double(message[y * edge.stride]);
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
        const int width = view.groups[items[k].group].width;
        if (width == 32)
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
void beliefs_block(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, Sink values) {
    using V = BlockPack<double, W>;
    const GroupView& g = view.groups[item.group];
    hat_block<T, W>(view, item, scratch.block[0]);
    for_packs<W>(g, item, [&](int lane, V counting) {
        const auto n = normalise<V, W, true>(g.entries, scratch.block[0] + lane, counting * view.epsilon, counting,
                                             scratch.block[1] + lane);
        finish_beliefs<V, W>(g.entries, scratch.block[0] + lane, n, all_soft(view, g), scratch.block[1] + lane);
        if (values.items) deposit(g, item, k, lane, n.value, values);
    });
}

template <class T>
void beliefs(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, Sink values) {
    if (values.items) values.items[k] = 0;
    const int width = view.groups[item.group].width;
    if (width == 32)
        beliefs_block<T, 32>(view, item, k, scratch, values);
    else if (width == 8)
        beliefs_block<T, 8>(view, item, k, scratch, values);
    else
        beliefs_block<T, 1>(view, item, k, scratch, values);
}

template <class T, int W>
void line_block(const ProblemView<T>& view, const ValueItem& item, const double* steps, int count, Scratch& scratch,
                double (*sums)[3]) {
    using V = BlockPack<double, W>;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    double *hat = scratch.block[0], *direction = scratch.block[2];
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
void line(const ProblemView<T>& view, const ValueItem& item, const double* steps, int count, Scratch& scratch,
          double (*sums)[3]) {
    const int width = view.groups[item.group].width;
    if (width == 32)
        line_block<T, 32>(view, item, steps, count, scratch, sums);
    else if (width == 8)
        line_block<T, 8>(view, item, steps, count, scratch, sums);
    else
        line_block<T, 1>(view, item, steps, count, scratch, sums);
}

// Calls f(entry, label of the slot) over a table.
template <class F>
BF_FN void for_entries(const GroupView& g, const SlotView& slot, F f) {
    int digit[32] = {};
    int own = 0;
    long long e = 0;
    for (long long o = 0; o < g.outer; ++o) {
        for (int y = 0; y < g.last; ++y, ++e) f(e, own + y * slot.last_stride);
        for (int axis = g.axes - 2; axis >= 0; --axis) {
            own += slot.strides[axis];
            if (++digit[axis] < g.extents[axis]) break;
            own -= slot.strides[axis] * g.extents[axis];
            digit[axis] = 0;
        }
    }
}

// Makes q (in place, starting from beliefs) consistent with the q of its children, single variables: scale axis by axis
// so that no marginal exceeds its target, then add prod_i e_i(y_i) / delta^(k-1), e_i the residuals, each of mass
// delta.
template <class V, int W>
void round_to_children(const GroupView& g, const double* target, double* q, double* work, double* factor) {
    const V zero = fill<V>(0), one = fill<V>(1);
    const double* wanted = target;
    for (int s = 0; s < g.slots; ++s) {
        const SlotView& slot = g.slot[s];
        for (int y = 0; y < slot.labels; ++y) Lanes<V>::store(work + (long long)y * W, zero);
        for_entries(g, slot, [&](long long e, int y) {
            Lanes<V>::store(work + (long long)y * W,
                            Lanes<V>::load(work + (long long)y * W) + Lanes<V>::load(q + e * W));
        });
        for (int y = 0; y < slot.labels; ++y) {
            const V marginal = Lanes<V>::load(work + (long long)y * W),
                    want = Lanes<V>::load(wanted + (long long)y * W);
            Lanes<V>::store(factor + (long long)y * W, marginal > want ? want / marginal : one);
        }
        for_entries(g, slot, [&](long long e, int y) {
            Lanes<V>::store(q + e * W, Lanes<V>::load(q + e * W) * Lanes<V>::load(factor + (long long)y * W));
        });
        wanted += (long long)slot.labels * W;
    }
    // Residuals of every axis into `work`, normalised to one; their mass is delta.
    wanted = target;
    double* residual = work;
    V delta = zero;
    for (int s = 0; s < g.slots; ++s) {
        const SlotView& slot = g.slot[s];
        for (int y = 0; y < slot.labels; ++y) Lanes<V>::store(residual + (long long)y * W, zero);
        for_entries(g, slot, [&](long long e, int y) {
            Lanes<V>::store(residual + (long long)y * W,
                            Lanes<V>::load(residual + (long long)y * W) + Lanes<V>::load(q + e * W));
        });
        V mass = zero;
        for (int y = 0; y < slot.labels; ++y) {
            const V left = Lanes<V>::load(wanted + (long long)y * W) - Lanes<V>::load(residual + (long long)y * W);
            const V kept = left > zero ? left : zero;
            mass += kept;
            Lanes<V>::store(residual + (long long)y * W, kept);
        }
        delta = s == 0 ? mass : delta;
        const V scale = mass > fill<V>(1e-290) ? one / mass : zero;  // 1 / mass must not overflow
        for (int y = 0; y < slot.labels; ++y)
            Lanes<V>::store(residual + (long long)y * W, Lanes<V>::load(residual + (long long)y * W) * scale);
        wanted += (long long)slot.labels * W;
        residual += (long long)slot.labels * W;
    }
    // Axes without a child share the residual evenly.
    long long covered = 1;
    for (int s = 0; s < g.slots; ++s) covered *= g.slot[s].labels;
    const V each = delta * (double(covered) / double(g.entries));
    int digit[32] = {};
    for (long long e = 0; e < g.entries; ++e) {
        V add = each;
        const double* r = work;
        for (int s = 0; s < g.slots; ++s) {
            int label = 0;
            for (int a = 0; a < g.axes; ++a) label += digit[a] * g.slot[s].strides[a];
            add *= Lanes<V>::load(r + (long long)label * W);
            r += (long long)g.slot[s].labels * W;
        }
        Lanes<V>::store(q + e * W, Lanes<V>::load(q + e * W) + add);
        for (int axis = g.axes - 1; axis >= 0; --axis) {
            if (++digit[axis] < g.extents[axis]) break;
            digit[axis] = 0;
        }
    }
}

// A child's q goes to where its parents look for it; a q that is fixed already is taken from there.
void exchange_child(const CertificateView& c, const GroupView& g, const ValueItem& item, int lane, int count,
                    double* q) {
    const long long W = g.width;
    double* own = c.q + c.q_offset[item.group] + item.block * g.entries * W;
    for (int l = lane; l < lane + count; ++l) {
        if (!(item.mask >> l & 1)) continue;
        const bool fixed = c.fixed && c.fixed[g.first_lane + item.block * W + l];
        for (long long y = 0; y < g.entries; ++y)
            if (fixed)
                q[y * W + l] = own[y * W + l];
            else
                own[y * W + l] = q[y * W + l];
    }
}

template <class T, int W>
void certificate_block(const ProblemView<T>& view, const CertificateView& c, const ValueItem& item, long long k,
                       Scratch& scratch, Sink values, Sink gaps) {
    using V = BlockPack<double, W>;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    double *hat = scratch.block[0], *q = scratch.block[1], *target = scratch.marginal;
    hat_block<T, W>(view, item, hat);
    const long long block = item.block, padded = (long long)g.blocks * W;
    long long targets = 0;
    for (int s = 0; s < g.slots; ++s) {  // gather the children's q
        const unsigned* at = c.child_q + c.child_start[item.group] + s * padded + block * W;
        const int stride = c.child_width[item.group][s];
        for (int l = 0; l < W; ++l)
            for (int y = 0; y < g.slot[s].labels; ++y)
                target[(targets + y) * W + l] = (item.mask >> l & 1) ? c.q[at[l] + (long long)y * stride] : 1.0;
        targets += g.slot[s].labels;
    }
    double *belief = scratch.block[2], *work = target + targets * W;
    const bool soft = all_soft(view, g), same = c.smoothing == view.epsilon;
    for_packs<W>(g, item, [&](int lane, V counting) {
        const auto n = normalise<V, W, true>(g.entries, hat + lane, counting * view.epsilon, counting, belief + lane);
        finish_beliefs<V, W>(g.entries, hat + lane, n, soft, belief + lane);
        V gap;
        if (same && soft && g.axes == 2 && g.slots == 2) {
            const int l0 = g.extents[0], l1 = g.extents[1];
            const double* second = target + (long long)l0 * W + lane;
            double* work1 = work + 2ll * l0 * W + lane;
            gap = c.candidate
                      ? pair_gap<V, W, true>(l0, l1, hat + lane, belief + lane, target + lane, second, work + lane,
                                             work1, n, q + lane)
                      : pair_gap<V, W>(l0, l1, hat + lane, belief + lane, target + lane, second, work + lane, work1, n);
        } else {
            if (same) {
                for (long long e = 0; e < g.entries; ++e)
                    Lanes<V>::store(q + e * W + lane, Lanes<V>::load(belief + e * W + lane));
            } else {
                const auto smooth =
                    normalise<V, W, true>(g.entries, hat + lane, counting * c.smoothing, counting, q + lane);
                finish_beliefs<V, W>(g.entries, hat + lane, smooth, false, q + lane);
            }
            if (g.slots) round_to_children<V, W>(g, target + lane, q + lane, work + lane, work + targets * W + lane);
            if (g.sends) exchange_child(c, g, item, lane, P, q);
            gap = gap_of_lane<V, W>(g.entries, hat + lane, belief + lane, q + lane, n, soft);
        }
        deposit(g, item, k, lane, n.value, values);
        deposit(g, item, k, lane, gap, gaps);
    });
}

template <class T>
void certificate(const ProblemView<T>& view, const CertificateView& c, const ValueItem* items, long long begin,
                 long long end, Scratch& scratch, Sink values, Sink gaps) {
    for (long long k = begin; k < end; ++k) {
        values.items[k] = gaps.items[k] = 0;
        const int width = view.groups[items[k].group].width;
        if (width == 32)
            certificate_block<T, 32>(view, c, items[k], k, scratch, values, gaps);
        else if (width == 8)
            certificate_block<T, 8>(view, c, items[k], k, scratch, values, gaps);
        else
            certificate_block<T, 1>(view, c, items[k], k, scratch, values, gaps);
    }
}

template <class T, int W>
void gaps_block(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, Sink values,
                Sink gaps) {
    using V = BlockPack<double, W>;
    const GroupView& g = view.groups[item.group];
    hat_block<T, W>(view, item, scratch.block[0]);
    for_packs<W>(g, item, [&](int lane, V counting) {
        const auto n = normalise<V, W, true>(g.entries, scratch.block[0] + lane, counting * view.epsilon, counting,
                                             scratch.block[2] + lane);
        const bool soft = all_soft(view, g);
        finish_beliefs<V, W>(g.entries, scratch.block[0] + lane, n, soft, scratch.block[2] + lane);
        const V gap = gap_of_lane<V, W>(g.entries, scratch.block[0] + lane, scratch.block[2] + lane,
                                        scratch.block[1] + lane, n, soft);
        deposit(g, item, k, lane, n.value, values);
        deposit(g, item, k, lane, gap, gaps);
    });
}

template <class T>
void gaps(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, Sink values, Sink gaps) {
    values.items[k] = gaps.items[k] = 0;
    const int width = view.groups[item.group].width;
    if (width == 32)
        gaps_block<T, 32>(view, item, k, scratch, values, gaps);
    else if (width == 8)
        gaps_block<T, 8>(view, item, k, scratch, values, gaps);
    else
        gaps_block<T, 1>(view, item, k, scratch, values, gaps);
}

// ---------------------------------------------------------------------------------------------------- vectors

template <class T>
double dot(const T* a, const T* b, long long begin, long long end) {
    constexpr int P = Traits<NativePack<double>>::lanes;
    using V = NativePack<double>;
    V sum[4] = {};
    long long k = begin;
    for (; k + 4 * P <= end; k += 4 * P)
        for (int u = 0; u < 4; ++u) sum[u] += load_as<V>(a + k + u * P) * load_as<V>(b + k + u * P);
    double total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; k < end; ++k) total += double(a[k]) * double(b[k]);
    return total;
}

template <class T>
void subtract(const T* a, const T* b, T* out, long long begin, long long end) {
    for (long long k = begin; k < end; ++k) out[k] = a[k] - b[k];
}

template <class T>
void combine(const T* const* vectors, const double* weights, int count, T* out, long long begin, long long end) {
    constexpr int P = Traits<NativePack<T>>::lanes;
    using V = NativePack<T>;
    long long k = begin;
    for (; k + P <= end; k += P) {
        V sum = Lanes<V>::load(vectors[0] + k) * T(weights[0]);
        for (int j = 1; j < count; ++j) sum += Lanes<V>::load(vectors[j] + k) * T(weights[j]);
        Lanes<V>::store(out + k, sum);
    }
    for (; k < end; ++k) {
        T sum = vectors[0][k] * T(weights[0]);
        for (int j = 1; j < count; ++j) sum += vectors[j][k] * T(weights[j]);
        out[k] = sum;
    }
}

template <class T>
bool finite(const T* x, long long begin, long long end) {
    using V = NativePack<T>;
    constexpr int P = Traits<V>::lanes;
    V sum[4] = {};  // 0 times a number is 0, else NaN
    long long k = begin;
    for (; k + 4 * P <= end; k += 4 * P)
        for (int u = 0; u < 4; ++u) sum[u] += Lanes<V>::load(x + k + u * P) * T(0);
    T total = sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; k < end; ++k) total += x[k] * T(0);
    return total == T(0);
}

template <class T>
double bare_exp(const T* x, long long count) {
    using V = NativePack<T>;
    constexpr int P = Traits<V>::lanes;
    V sum[4] = {};
    long long k = 0;
    for (; k + 4 * P <= count; k += 4 * P)
        for (int u = 0; u < 4; ++u) sum[u] += exponential(Lanes<V>::load(x + k + u * P));
    double total = double(sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])));
    for (; k < count; ++k) total += double(exponential(x[k]));
    return total;
}

template <class T>
constexpr Kernels<T> table = {&heavy<T>,       &light<T>,  &values<T>,       &beliefs<T>, &line<T>,
                              &certificate<T>, &gaps<T>,   &refresh_base<T>, &dot<T>,     &subtract<T>,
                              &combine<T>,     &finite<T>, &bare_exp<T>};

}  // namespace

#define BF_STRING(x) BF_STRING_(x)
#define BF_STRING_(x) #x
extern const InstructionSet kernels;
const InstructionSet kernels = {BF_STRING(BF_ISA), &table<double>, &table<float>};

}  // namespace blendfield::BF_ISA
