// Values, beliefs and trial steps, lane by lane, in float64 (kernels/beliefs.h and line.h have the formulas); hat_r is
// made again in every pass instead of being kept.
#pragma once
#include "cuda/sweep.h"
#include "kernels/beliefs.h"

namespace blendfield::BF_ISA {

// Calls f(entry, hat_r(entry)) for this thread's share of a lane.
template <class T, int W, class F>
BF_DEVICE void for_hat(const View<T>& view, const Group& g, const Lane<W>& lane, F f) {
    const T* source = lane.at(g.base >= 0 ? view.base + g.base : view.tables + g.tables, g.entries);
    if (g.slot_count == 0) {
        for_entries(g, lane, [&](long long e) { f(e, double(source[e * W])); });
        return;
    }
    const Slot* slots = view.slots + g.slots;
    if (g.axes == 2 && g.slot_count == 2) {
        const T* first = lane.at(view.messages + slots[0].messages, slots[0].labels);
        const T* second = lane.at(view.messages + slots[1].messages, slots[1].labels);
        if constexpr (Lane<W>::threads == 1) {
            for (int i = 0; i < slots[0].labels; ++i) {
                const double add = double(first[(long long)i * W]);
#pragma unroll 4
                for (int j = 0; j < g.last; ++j) {
                    const long long e = (long long)i * g.last + j;
                    f(e, double(source[e * W]) + add + double(second[(long long)j * W]));
                }
            }
        } else {
            for_entries(g, lane, [&](long long e) {
                const long long i = e / g.last;
                f(e, double(source[e * W]) + double(first[i * W]) + double(second[(e - i * g.last) * W]));
            });
        }
        return;
    }
    for_entries(g, lane, [&](long long e) {
        double hat = double(source[e * W]);
        const long long row = e / g.last;
        const int within = int(e - row * g.last);
        for (int s = 0; s < g.slot_count; ++s) {
            const int label = view.ints[slots[s].row_label + row] + within * slots[s].last_stride;
            hat += double(lane.at(view.messages + slots[s].messages, slots[s].labels)[(long long)label * W]);
        }
        f(e, hat);
    });
}

// As `normalise` of kernels/beliefs.h, in one pass.
template <class T, int W>
BF_DEVICE Normaliser<double> normaliser(const View<T>& view, const Group& g, const Lane<W>& lane, double epsilon) {
    const double counting = counting_of(view, g, lane), scale = counting * epsilon;
    Normaliser<double> n;
    n.sign = counting < 0 ? -1.0 : 1.0;
    n.temperature = scale < 0 ? -scale : scale;
    n.inverse = n.temperature > 0 ? 1 / n.temperature : 1e300;
    Collector<double, true> collector;
    for_hat(view, g, lane, [&](long long, double hat) { collector.add(signed_entry(hat, n.sign), n.inverse); });
    if constexpr (Lane<W>::threads > 1) collector.across(lane, n.inverse);
    n.largest = collector.largest;
    n.sum = collector.sum;
    n.log_sum = n.temperature > 0 ? logarithm(n.sum) : 0.0;
    n.value = n.sign * (n.largest + n.temperature * n.log_sum);
    return n;
}

// What a lane's beliefs are made from: its normaliser and, at temperature 0, how many entries share the maximum.
struct Softmax {
    Normaliser<double> n;
    double tie, scale;
    BF_DEVICE double belief(double hat) const {
        const double u = signed_entry(hat, n.sign);
        if (n.temperature > 0) return exponential((u - n.largest) * n.inverse) * scale;
        return u >= tie ? scale : 0.0;
    }
};
template <class T, int W>
BF_APART Softmax softmax(const View<T>& view, const Group& g, const Lane<W>& lane, double epsilon) {
    Softmax s;
    s.n = normaliser(view, g, lane, epsilon);
    s.tie = s.n.largest - 1e-9 * (1 + (s.n.largest < 0 ? -s.n.largest : s.n.largest));
    double sum = s.n.sum;
    if (!(s.n.temperature > 0)) {
        sum = 0;
        for_hat(view, g, lane, [&](long long, double hat) { sum += signed_entry(hat, s.n.sign) >= s.tie ? 1.0 : 0.0; });
        sum = lane.sum(sum);
    }
    s.scale = 1 / sum;
    return s;
}

template <class T>
BF_DEVICE void values(const View<T>& view, const int* blocks, double* out, double epsilon) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        const Normaliser<double> n = normaliser(view, g, lane, epsilon);
        if (lane.rank == 0) out[g.first_lane + lane.lane] = n.value;
    });
}

// Beliefs in the layout of the tables.
template <class T>
BF_DEVICE void beliefs(const View<T>& view, const int* blocks, double* out, T* b, double epsilon) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        const Softmax s = softmax(view, g, lane, epsilon);
        T* to = lane.at(b + g.tables, g.entries);
        for_hat(view, g, lane, [&](long long e, double hat) { to[e * W] = T(s.belief(hat)); });
        if (lane.rank == 0) out[g.first_lane + lane.lane] = s.n.value;
    });
}

// A region with parents and c_r = 0 takes the marginal of its first parent. `zero` [count][5]: parent's group, its
// lane, slot, own group, own lane.
template <class T, class F>
BF_DEVICE void for_zero_children(const View<T>& view, const int* zero, long long count, F f) {
    const long long unit = (block_number() * block_threads() + thread_number()) / team_size;
    if (unit >= count) return;
    const int* z = zero + 5 * unit;
    const Group& pg = view.groups[z[0]];
    const Group& g = view.groups[z[3]];
    const Slot& slot = view.slots[pg.slots + z[2]];
    const int rank = thread_number() % team_size;
    const long long parent = z[1] / pg.width * pg.width * pg.entries + z[1] % pg.width;
    const long long own = z[4] / g.width * g.width * g.entries + z[4] % g.width;
    for (int y = rank; y < slot.labels; y += team_size) f(pg, z[1], slot, parent, y, own + (long long)y * g.width, g);
}
template <class T, class B>
BF_DEVICE void zero_beliefs(const View<T>& view, const int* zero, long long count, B* b) {
    for_zero_children(
        view, zero, count,
        [&](const Group& pg, int, const Slot& slot, long long parent, int y, long long own, const Group& g) {
            double sum = 0;
            for (int k = 0; k < slot.others; ++k)
                sum +=
                    double(b[pg.tables + parent +
                             ((long long)view.ints[slot.own_entry + y] + view.ints[slot.other_entry + k]) * pg.width]);
            b[g.tables + own] = B(sum);
        });
}

// ---------------------------------------------------------------------------------------------------- trial steps

// Value, slope and curvature of this lane at each of `count` steps, summed over the warp into `partial`
// [warps][count][3]. `direction`: layout of the tables.
template <class T>
BF_DEVICE void line(const View<T>& view, const int* blocks, const T* direction, double* partial, const double* steps,
                    int count) {
    const long long warp = (block_number() * block_threads() + thread_number()) / team_size;
    const int rank_in_warp = thread_number() % team_size;
    const Item& item = view.items[blocks[2 * block_number()]];
    const Group& g = view.groups[item.group];
    const bool wide = g.width != 1;
    const long long unit =
        wide ? blocks[2 * block_number() + 1] * (long long)block_threads() + thread_number()
             : (blocks[2 * block_number() + 1] * (long long)block_threads() + thread_number()) / team_size;
    const bool active = unit < item.units;
    auto points = [&](auto lane) {
        constexpr int W = lane.width;
        const double counting = counting_of(view, g, lane), scale = counting * view.epsilon;
        const double sign = counting < 0 ? -1.0 : 1.0, temperature = scale < 0 ? -scale : scale;
        const double inverse = temperature > 0 ? 1 / temperature : 1e300, lowest = minus_infinity<double>();
        const T* along = lane.at(direction + g.tables, g.entries);
        double mean = 0, labels = 0;
        if (active)
            for_hat(view, g, lane, [&](long long e, double hat) {
                mean += hat > lowest ? double(along[e * W]) : 0.0;
                labels += hat > lowest ? 1.0 : 0.0;
            });
        mean = lane.sum(mean) / maximum(lane.sum(labels), 1.0);
        for (int k = 0; k < count; ++k) {
            const double step = steps[k];
            double largest = lowest, sum = 0, first = 0, second = 0;
            auto moved = [&](long long e, double hat, double& d) {
                d = hat > lowest ? double(along[e * W]) - mean : 0.0;
                return signed_entry(hat + d * step, sign);
            };
            double d;
            if (active)
                for_hat(view, g, lane, [&](long long e, double hat) { largest = maximum(largest, moved(e, hat, d)); });
            largest = lane.largest(largest);
            const double best = largest + sign * mean * step;  // the tie rule is stated without centring
            const double tie = largest - 1e-9 * (1 + (best < 0 ? -best : best));
            if (active)
                for_hat(view, g, lane, [&](long long e, double hat) {
                    const double u = moved(e, hat, d);
                    const double weight =
                        temperature > 0 ? exponential((u - largest) * inverse) : (u >= tie ? 1.0 : 0.0);
                    sum += weight;
                    first += weight * d;
                    second += weight * d * d;
                });
            sum = lane.sum(sum), first = lane.sum(first), second = lane.sum(second);
            double out[3] = {0, 0, 0};
            if (active && (wide || lane.rank == 0)) {
                const double slope = first / sum, variance = second / sum - slope * slope;
                out[0] = sign * (largest + (temperature > 0 ? temperature * logarithm(sum) : 0.0)) + mean * step;
                out[1] = slope + mean;
                out[2] = temperature > 0 ? sign * (variance > 0 ? variance : 0.0) / temperature : 0.0;
            }
            for (int i = 0; i < 3; ++i) {
                double total = out[i];
                for (int distance = team_size / 2; distance > 0; distance /= 2) total += from_thread(total, distance);
                if (rank_in_warp == 0) partial[(warp * count + k) * 3 + i] = total;
            }
        }
    };
    const int number = lane_of_unit(view.lists, item, active ? unit : 0);
    if (wide)
        points(Lane<32>(number, 0));
    else
        points(Lane<1>(number, rank_in_warp));
}

}  // namespace blendfield::BF_ISA
