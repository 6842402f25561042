// From weights to tables and from beliefs to gradients, lane by lane (features/features.h has the formulas).
#pragma once
#include "cuda/values.h"

namespace blendfield::BF_ISA {

// The terms of the lanes of one block: term k of lane l has number at + k W + l in the arrays of `Terms`. `shared`: all
// lanes agree in weight, table and coefficient of each, so that their sums leave the card's threads as one.
struct TermBlock {
    long long at;
    int count, shared;
};

template <class T>
struct Terms {
    const double* weights;      // w
    const TermBlock* blocks;    // of all groups
    const long long* first;     // [groups] number of the first block, -1: no terms
    const int* weight;          // [terms] -1: none
    const long long* table;     // [terms] where entry 0 is in `tables`; ~that: entries of 32 (W) lanes side by side
    const double* coefficient;  // [terms]
    const int* rank;            // [terms] row of `sums`
    const T* tables;
    double* sums;                // [rows][2]: share of Phi^T b, share of sum Var_b / (eps |c|)
    const T* base;               // tables of the groups that have some
    const long long* base_at;    // [groups] offset, -1: zeros
    const unsigned char* write;  // [groups] beliefs are wanted themselves
    double* values;              // [padded lanes]
};

template <class T>
struct Term {
    const T* table;
    double coefficient;
    int step, weight, rank;
};
template <class T, int W>
BF_DEVICE Term<T> term_of(const Terms<T>& f, const TermBlock& block, const Lane<W>& lane, int k) {
    Term<T> term = {f.tables, 0.0, 0, -1, 0};
    if (k >= block.count) return term;
    const long long at = block.at + (long long)k * W + (block.shared ? 0 : lane.within);
    term.weight = f.weight[at];
    if (term.weight < 0) return term;
    const long long table = f.table[at];
    term.table += table < 0 ? ~table : table;
    term.step = table < 0 ? W : 1;
    term.coefficient = f.coefficient[at];
    term.rank = f.rank[at];
    return term;
}
template <class T, int W>
BF_DEVICE TermBlock terms_of_block(const View<T>& view, const Terms<T>& f, const Group& g, const Lane<W>& lane) {
    const long long first = f.first[&g - view.groups];
    return first < 0 ? TermBlock{0, 0, 0} : f.blocks[first + lane.block];
}

// Calls f(group, lane, active) with whole warps: where threads work alone, those without a lane take one of the
// padding.
template <class T, class F>
BF_DEVICE void for_warp(const View<T>& view, const Item& item, long long part, F f) {
    const Group& g = view.groups[item.group];
    const long long thread = part * block_threads() + thread_number();
    if (g.width == 1) {
        if (thread / team_size < item.units)
            f(g, Lane<1>(item.first + thread / team_size, thread_number() % team_size), true);
    } else if (thread < (item.units + team_size - 1) / team_size * team_size) {
        f(g, Lane<32>(item.first + thread, 0), thread < item.units);
    }
}

// tables = base + sum of w_k coefficient table over J of the terms; with `check`, -inf (no support) stays.
template <int J, class T, int W>
BF_DEVICE void add_terms(long long begin, long long end, const Lane<W>& lane, const Terms<T>& f, const TermBlock& block,
                         int first, const T* base, T* to, bool check) {
    T factor[J + 1];
    const T* table[J + 1];
    int step[J + 1];
#pragma unroll
    for (int j = 0; j < J; ++j) {
        const Term<T> term = term_of(f, block, lane, first + j);
        factor[j] = term.weight < 0 ? T(0) : T(f.weights[term.weight] * term.coefficient);
        table[j] = term.table, step[j] = term.step;
    }
#pragma unroll 8
    for (long long e = begin + lane.rank; e < end; e += Lane<W>::threads) {
        T theta = base ? base[e * W] : T(0);
#pragma unroll
        for (int j = 0; j < J; ++j) theta += factor[j] * table[j][e * step[j]];
        if (!check || to[e * W] > minus_infinity<T>()) to[e * W] = theta;
    }
}
template <class T>
BF_DEVICE void potentials(const View<T>& view, const int* blocks, const Terms<T>& f, T* tables, bool own) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        T* to = lane.at(tables + g.tables, g.entries);
        const long long at = own ? f.base_at[&g - view.groups] : -1;
        const T* base = at < 0 ? nullptr : lane.at(f.base + at, g.entries);
        const TermBlock block = terms_of_block(view, f, g, lane);
        const bool check = own && g.forbidden;
        if (block.count <= 1) return add_terms<1>(0, g.entries, lane, f, block, 0, base, to, check);
        for (int k = 0; k < block.count; k += 4)
            add_terms<4>(0, g.entries, lane, f, block, k, k ? to : base, to, check);
    });
}
// E entries, at most J terms; so many threads per lane, each with a part of the entries.
template <class T, int E, int J, int PARTS>
BF_DEVICE void potentials_static(const View<T>& view, const Item& item, const Terms<T>& f, T* tables, bool own) {
    const long long unit = block_number() * block_threads() + thread_number();
    if (unit >= item.units * PARTS) return;
    const int part = PARTS == 1 ? 0 : int(unit / item.units);
    const Group& g = view.groups[item.group];
    const Lane<32> lane(item.first + unit - part * item.units, 0);
    T* to = lane.at(tables + g.tables, E);
    const long long at = own ? f.base_at[item.group] : -1;
    const T* base = at < 0 ? nullptr : lane.at(f.base + at, E);
    constexpr int step = (E + PARTS - 1) / PARTS;
    const int begin = part * step, end = PARTS == 1 || begin + step < E ? begin + step : E;
    add_terms<J>(begin, end, lane, f, terms_of_block(view, f, g, lane), 0, base, to, own && g.forbidden);
}

// What one lane's term adds to the sums: first = sum b (x - x0), second = sum b (x - x0)^2, mass = sum b.
template <class T, int W>
BF_DEVICE void enter_sums(const Terms<T>& f, const TermBlock& block, const Lane<W>& lane, const Term<T>& term,
                          double mass, double first, double second, double inverse, bool active) {
    const double moment = term.coefficient * (first + double(term.table[0]) * mass);
    const double variance = second - first * first;
    double sums[2] = {moment, inverse * term.coefficient * term.coefficient * (variance > 0 ? variance : 0.0)};
    bool write = active && term.weight >= 0 && lane.rank == 0;
    if (W > 1 && block.shared) {
        for (double& sum : sums) {
            sum = active ? sum : 0.0;
            for (int distance = team_size / 2; distance > 0; distance /= 2) sum += from_thread(sum, distance);
        }
        write = thread_number() % team_size == 0;
    }
    if (!write) return;
    f.sums[2ll * term.rank] = sums[0];
    f.sums[2ll * term.rank + 1] = sums[1];
}
// All terms of a lane; each(add) calls add(entry, b) for this thread's share of the entries.
template <class T, int W, class EACH>
BF_DEVICE void sum_terms(const Terms<T>& f, const TermBlock& block, const Lane<W>& lane, double inverse, bool active,
                         EACH each) {
    constexpr int J = 4;
    for (int k = 0; k < block.count; k += J) {
        Term<T> term[J];
        double mass = 0, origin[J], first[J] = {}, second[J] = {};
#pragma unroll
        for (int j = 0; j < J; ++j) {
            term[j] = term_of(f, block, lane, k + j);
            origin[j] = double(term[j].table[0]);
        }
        each([&](long long e, double b) {
            mass += b;
#pragma unroll
            for (int j = 0; j < J; ++j) {
                const double x = double(term[j].table[e * term[j].step]) - origin[j];
                first[j] += b * x;
                second[j] += b * x * x;
            }
        });
        mass = lane.sum(mass);
#pragma unroll
        for (int j = 0; j < J; ++j) {
            const double a = lane.sum(first[j]), q = lane.sum(second[j]);
            if (k + j < block.count) enter_sums(f, block, lane, term[j], mass, a, q, inverse, active);
        }
    }
}

template <class T, int W>
BF_DEVICE double inverse_temperature(const View<T>& view, const Group& g, const Lane<W>& lane) {
    const double scale = view.epsilon * counting_of(view, g, lane), size = scale < 0 ? -scale : scale;
    return size > 0 ? 1 / size : 0.0;
}

// Values and the sums of the terms, any shape and temperature; beliefs of the groups that want them.
template <class T>
BF_DEVICE void evaluate(const View<T>& view, const int* blocks, const Terms<T>& f, T* beliefs) {
    const int* at = blocks + 2 * block_number();
    for_warp(view, view.items[at[0]], at[1], [&](const Group& g, auto lane, bool active) {
        constexpr int W = lane.width;
        const Softmax s = softmax(view, g, lane, view.epsilon);
        if (active && lane.rank == 0) f.values[g.first_lane + lane.lane] = s.n.value;
        if (active && f.write[&g - view.groups]) {
            T* to = lane.at(beliefs + g.tables, g.entries);
            for_hat(view, g, lane, [&](long long e, double hat) { to[e * W] = T(s.belief(hat)); });
        }
        sum_terms(f, terms_of_block(view, f, g, lane), lane, inverse_temperature(view, g, lane), active,
                  [&](auto add) { for_hat(view, g, lane, [&](long long e, double hat) { add(e, s.belief(hat)); }); });
    });
}

// The sums of the terms for given tables b.
template <class T, class S>
BF_DEVICE void term_moments(const View<T>& view, const int* blocks, const Terms<T>& f, const S* b) {
    const int* at = blocks + 2 * block_number();
    for_warp(view, view.items[at[0]], at[1], [&](const Group& g, auto lane, bool active) {
        constexpr int W = lane.width;
        const S* from = lane.at(b + g.tables, g.entries);
        sum_terms(f, terms_of_block(view, f, g, lane), lane, inverse_temperature(view, g, lane), active,
                  [&](auto add) { for_entries(g, lane, [&](long long e) { add(e, double(from[e * W])); }); });
    });
}

// The same as `evaluate` for one shape known when this is compiled, positive temperatures, one thread per lane: one
// pass over the tables, tile by tile, with what has been summed so far scaled to the largest value so far. SHAPE: rows,
// last, slots, tile_rows, tile_last; labels_of(s), label(s, row, y); terms: at most so many per lane; write; splits: so
// many threads share a lane, whose sums `evaluate_merge` puts together.
template <class T, int J>
struct Running {
    T largest = Limits<T>::lowest;
    double sum = 0, first[J + 1] = {}, second[J + 1] = {};
    BF_DEVICE void shrink_to(T most, T inverse) {
        const double shrink = double(quick_exponential((largest - most) * inverse));
        largest = most;
        sum *= shrink;
#pragma unroll
        for (int j = 0; j < J; ++j) first[j] *= shrink, second[j] *= shrink;
    }
};

template <class SHAPE, class T, int W>
BF_DEVICE void enter_lane(const View<T>& view, const Group& g, const Lane<W>& lane, const Terms<T>& f,
                          const Running<T, SHAPE::terms>& r, bool active) {
    const double temperature = active ? view.epsilon * counting_of(view, g, lane) : 1.0;
    const double scale = r.sum > 0 ? 1 / r.sum : 0.0;
    const TermBlock block = terms_of_block(view, f, g, lane);
    if (active && lane.rank == 0)
        f.values[g.first_lane + lane.lane] = double(r.largest) + temperature * logarithm(r.sum);
#pragma unroll
    for (int j = 0; j < SHAPE::terms; ++j)
        if (j < block.count)
            enter_sums(f, block, lane, term_of(f, block, lane, j), 1.0, r.first[j] * scale, r.second[j] * scale,
                       1 / temperature, active);
}

template <class T, class SHAPE>
BF_DEVICE void evaluate_static(const View<T>& view, const Item& item, const Terms<T>& f, T* beliefs, double* partial) {
    constexpr int W = 32, J = SHAPE::terms, TR = SHAPE::tile_rows, TL = SHAPE::tile_last;
    const long long padded = (item.units + team_size - 1) / team_size * team_size;
    const long long unit = block_number() * block_threads() + thread_number();
    if (unit >= padded * SHAPE::splits) return;
    const int split = SHAPE::splits == 1 ? 0 : int(unit / padded);
    const bool active = unit - split * padded < item.units;
    const Group& g = view.groups[item.group];
    const Lane<W> lane(item.first + unit - split * padded, 0);
    const T* table = lane.at(g.base >= 0 ? view.base + g.base : view.tables + g.tables, SHAPE::rows * SHAPE::last);
    const T* incoming[SHAPE::slots + 1];
#pragma unroll
    for (int s = 0; s < SHAPE::slots; ++s)
        incoming[s] = lane.at(view.messages + view.slots[g.slots + s].messages, SHAPE::labels_of(s));
    const T inverse = T(1 / (active ? view.epsilon * counting_of(view, g, lane) : 1.0));
    const TermBlock block = terms_of_block(view, f, g, lane);
    const T* features[J + 1];
    int steps[J + 1];
    T origin[J + 1];
#pragma unroll
    for (int j = 0; j < J; ++j) {
        const Term<T> term = term_of(f, block, lane, j);
        features[j] = term.table, steps[j] = term.step, origin[j] = term.table[0];
    }
    Running<T, J> r;
    T v[TR * TL];
    constexpr int across = (SHAPE::last + TL - 1) / TL, tiles = SHAPE::rows / TR * across;
    constexpr int unroll = tiles <= 4 && SHAPE::splits == 1 ? tiles : 1;
#pragma unroll unroll
    for (int tile = tiles * split / SHAPE::splits; tile < tiles * (split + 1) / SHAPE::splits; ++tile) {
        const int row0 = tile / across * TR, y0 = tile % across * TL;
        T most = r.largest;
#pragma unroll
        for (int i = 0; i < TR * TL; ++i) {
            const int row = row0 + i / TL, y = y0 + i % TL;
            const bool inside = SHAPE::last % TL == 0 || y < SHAPE::last;
            v[i] = inside ? table[(row * SHAPE::last + y) * W] : minus_infinity<T>();
#pragma unroll
            for (int s = 0; s < SHAPE::slots; ++s)
                if (inside) v[i] += incoming[s][SHAPE::label(s, row, y) * W];
        }
#pragma unroll
        for (int i = 0; i < TR * TL; ++i) most = maximum(most, v[i]);
        T part = 0, a[J + 1] = {}, q[J + 1] = {};
#pragma unroll
        for (int i = 0; i < TR * TL; ++i) {
            const int row = row0 + i / TL, y = y0 + i % TL;
            v[i] = quick_exponential((v[i] - most) * inverse);
            part += v[i];
            const bool inside = SHAPE::last % TL == 0 || y < SHAPE::last;
#pragma unroll
            for (int j = 0; j < J; ++j) {
                if (!inside) continue;
                const T x = features[j][(row * SHAPE::last + y) * steps[j]] - origin[j];
                a[j] += v[i] * x;
                q[j] += v[i] * x * x;
            }
        }
        r.shrink_to(most, inverse);
        r.sum += double(part);
#pragma unroll
        for (int j = 0; j < J; ++j) r.first[j] += double(a[j]), r.second[j] += double(q[j]);
    }
    if constexpr (SHAPE::splits > 1) {
        reinterpret_cast<Running<T, J>*>(partial)[unit] = r;
        return;
    }
    if constexpr (SHAPE::write) {  // one tile
        T* to = lane.at(beliefs + g.tables, SHAPE::rows * SHAPE::last);
        const double scale = r.sum > 0 ? 1 / r.sum : 0.0;
#pragma unroll
        for (int i = 0; i < TR * TL; ++i)
            if (active) to[i * W] = T(double(v[i]) * scale);
    }
    enter_lane<SHAPE>(view, g, lane, f, r, active);
}

// The same where a team works on a lane, or on one of its splits.
template <class T, class SHAPE>
BF_DEVICE void evaluate_team(const View<T>& view, const Item& item, const Terms<T>& f, double* partial) {
    constexpr int J = SHAPE::terms, ahead = 8;
    const long long unit = (block_number() * block_threads() + thread_number()) / team_size;
    if (unit >= item.units * SHAPE::splits) return;
    const int split = int(unit / item.units);
    const Group& g = view.groups[item.group];
    const Lane<1> lane(item.first + unit - split * item.units, thread_number() % team_size);
    constexpr int entries = SHAPE::rows * SHAPE::last;
    const T* table = lane.at(g.base >= 0 ? view.base + g.base : view.tables + g.tables, entries);
    const T* incoming[SHAPE::slots + 1];
#pragma unroll
    for (int s = 0; s < SHAPE::slots; ++s)
        incoming[s] = lane.at(view.messages + view.slots[g.slots + s].messages, SHAPE::labels_of(s));
    const T inverse = T(1 / (view.epsilon * counting_of(view, g, lane)));
    const TermBlock block = terms_of_block(view, f, g, lane);
    const T* features[J + 1];
    int steps[J + 1];
    T origin[J + 1];
#pragma unroll
    for (int j = 0; j < J; ++j) {
        const Term<T> term = term_of(f, block, lane, j);
        features[j] = term.table, steps[j] = term.step, origin[j] = term.table[0];
    }
    Running<T, J> r;
    const int end = int((long long)entries * (split + 1) / SHAPE::splits);
    for (int e0 = int((long long)entries * split / SHAPE::splits) + lane.rank; e0 < end; e0 += ahead * team_size) {
        T v[ahead], most = r.largest;
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int e = e0 + i * team_size, row = e / SHAPE::last, y = e % SHAPE::last;
            v[i] = e < end ? table[e] : minus_infinity<T>();
#pragma unroll
            for (int s = 0; s < SHAPE::slots; ++s)
                if (e < end) v[i] += incoming[s][SHAPE::label(s, row, y)];
            most = maximum(most, v[i]);
        }
        T part = 0, a[J + 1] = {}, q[J + 1] = {};
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int e = e0 + i * team_size;
            v[i] = quick_exponential((v[i] - most) * inverse);
            part += v[i];
#pragma unroll
            for (int j = 0; j < J; ++j) {
                const T x = e < end ? features[j][(long long)e * steps[j]] - origin[j] : T(0);
                a[j] += v[i] * x;
                q[j] += v[i] * x * x;
            }
        }
        r.shrink_to(most, inverse);
        r.sum += double(part);
#pragma unroll
        for (int j = 0; j < J; ++j) r.first[j] += double(a[j]), r.second[j] += double(q[j]);
    }
    r.shrink_to(lane.largest(r.largest), inverse);
    r.sum = lane.sum(r.sum);
#pragma unroll
    for (int j = 0; j < J; ++j) r.first[j] = lane.sum(r.first[j]), r.second[j] = lane.sum(r.second[j]);
    if (SHAPE::splits == 1)
        enter_lane<SHAPE>(view, g, lane, f, r, true);
    else if (lane.rank == 0)
        reinterpret_cast<Running<T, J>*>(partial)[unit] = r;
}

template <int W, class T, class SHAPE>
BF_DEVICE void evaluate_merge(const View<T>& view, const Item& item, const Terms<T>& f, const double* partial) {
    const long long padded = W == 1 ? item.units : (item.units + team_size - 1) / team_size * team_size;
    const long long unit = block_number() * block_threads() + thread_number();
    if (unit >= padded) return;
    const bool active = unit < item.units;
    const Group& g = view.groups[item.group];
    const Lane<W> lane(item.first + unit, 0);
    const T inverse = T(1 / (active ? view.epsilon * counting_of(view, g, lane) : 1.0));
    const auto* parts = reinterpret_cast<const Running<T, SHAPE::terms>*>(partial);
    Running<T, SHAPE::terms> r = parts[unit];
    for (int k = 1; k < SHAPE::splits; ++k) {
        Running<T, SHAPE::terms> other = parts[k * padded + unit];
        const T most = maximum(r.largest, other.largest);
        r.shrink_to(most, inverse);
        other.shrink_to(most, inverse);
        r.sum += other.sum;
#pragma unroll
        for (int j = 0; j < SHAPE::terms; ++j) r.first[j] += other.first[j], r.second[j] += other.second[j];
    }
    enter_lane<SHAPE>(view, g, lane, f, r, active);
}

// n regions of one table size, [n][2]: (group, lane); `which` (or null): some of them. Rows are [entries][n].
struct Regions {
    const int* place;
    const int* which;
    long long count, n;
    const double* rows;
    double* beliefs;            // rows of b
    double* variances;          // rows of b (1 - b) / (eps |c|)
    const int* base;            // [n] a weight per entry
    const double* coefficient;  // [n]
    const int* rank;            // [entries][n] rows of the sums
};

// Calls f(position in the tables, j, y as the user counts entries, inverse temperature).
template <class T, class F>
BF_DEVICE void for_region_entry(const View<T>& view, const Regions& regions, F f) {
    const long long unit = block_number() * block_threads() + thread_number();
    const bool small = unit < 0xffffffffll;  // a division of 32 bits is much faster
    const long long e = small ? unsigned(unit) / unsigned(regions.count) : unit / regions.count;
    const long long number = unit - e * regions.count;
    const int j = regions.which ? regions.which[number] : int(number);
    const Group& g = view.groups[regions.place[2ll * j]];
    if (e >= g.entries) return;
    const int lane = regions.place[2ll * j + 1];
    const long long at = g.tables + (long long)(lane / g.width) * g.width * g.entries + e * g.width + lane % g.width;
    const int strides = view.table_axes[g.first_lane + lane];
    const long long y = user_entry(view.ints, view.ints + g.extents, g.axes, strides, e);
    f(at, j, y, inverse_temperature(view, g, Lane<1>(lane, 0)));
}
// tables += rows, or the weights of the regions
template <class T>
BF_DEVICE void add_rows(const View<T>& view, const Regions& r, const double* weights, T* tables) {
    for_region_entry(view, r, [&](long long at, int j, long long y, double) {
        const double add = r.base ? weights[r.base[j] + y] * r.coefficient[j] : r.rows[y * r.n + j];
        if (tables[at] > minus_infinity<T>()) tables[at] += T(add);
    });
}
template <class T, class S>
BF_DEVICE void take_rows(const View<T>& view, const Regions& r, const S* tables, double* sums) {
    for_region_entry(view, r, [&](long long at, int j, long long y, double inverse) {
        const double b = double(tables[at]), variance = b * (1 - b) * inverse;
        if (r.base) {
            double* to = sums + 2ll * r.rank[y * r.n + j];
            const double c = r.coefficient[j];
            to[0] = c * b, to[1] = c * c * variance;
        } else {
            r.beliefs[y * r.n + j] = b;
            r.variances[y * r.n + j] = variance;
        }
    });
}

}  // namespace blendfield::BF_ISA
