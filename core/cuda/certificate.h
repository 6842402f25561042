// The certificate of two levels, lane by lane, in float64 (kernels/certificate.h has the formulas).
#pragma once
#include "cuda/values.h"
#include "kernels/certificate.h"

namespace blendfield::BF_ISA {

// Two levels: q of the children (single variables) are their beliefs; each tells its parents (`targets`, the layout of
// the messages). `fixed` [padded lanes]: c = 0, q has been put into `q` (layout of base) already.
template <class T>
struct Certificate {
    double smoothing;
    double* targets;
    double* q;  // layout of base
    const unsigned char* fixed;
    double* candidate;  // layout of the tables, or null
    double* values;     // [padded lanes]
    double* gaps;       // [padded lanes]
    double* work;       // of the parents: q and a vector over the labels of all slots
    long long stride;   // of one lane's share of `work` (W = 1)
};

template <class T>
BF_DEVICE void certify_children(const View<T>& view, const int* blocks, const Certificate<T>& c) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width;
        const Softmax at = softmax(view, g, lane, view.epsilon);
        const Softmax smooth = c.smoothing == view.epsilon ? at : softmax(view, g, lane, c.smoothing);
        const bool fixed = c.fixed && c.fixed[g.first_lane + lane.lane];
        double* q = lane.at(c.q + g.base, g.entries);
        double divergence = 0, distance = 0;
        for_hat(view, g, lane, [&](long long e, double hat) {
            const double own = fixed ? q[e * W] : smooth.belief(hat);
            if (c.candidate) lane.at(c.candidate + g.tables, g.entries)[e * W] = own;
            for_parents(view, g, lane, c.targets, [&](double* target, int stride, int) { target[e * stride] = own; });
            divergence += divergence_of_entry(own, at.n.temperature > 0 ? at.belief(hat) : own, hat, at.n);
            distance += own > 0 ? own * (at.n.largest - signed_entry(hat, at.n.sign)) : 0.0;
        });
        divergence = lane.sum(divergence), distance = lane.sum(distance);
        if (lane.rank == 0) {
            c.values[g.first_lane + lane.lane] = at.n.value;
            c.gaps[g.first_lane + lane.lane] =
                at.n.sign * (at.n.temperature > 0 ? at.n.temperature * divergence : distance);
        }
    });
}

// q of the children with c = 0: the marginal of the first parent's belief at `smoothing`.
template <class T>
BF_DEVICE void zero_candidates(const View<T>& view, const int* zero, long long count, const Certificate<T>& c) {
    const long long unit = (block_number() * block_threads() + thread_number()) / team_size;
    if (unit >= count) return;
    const Group& pg = view.groups[zero[5 * unit]];
    const int parent_lane = zero[5 * unit + 1], rank = thread_number() % team_size;
    const Slot& slot = view.slots[pg.slots + zero[5 * unit + 2]];
    const Group& g = view.groups[zero[5 * unit + 3]];
    const int own_lane = zero[5 * unit + 4];
    auto marginals = [&](auto lane) {
        constexpr int W = lane.width;
        const Softmax s = softmax(view, pg, lane, c.smoothing);
        double* to = c.q + g.base + own_lane / g.width * (long long)g.width * g.entries + own_lane % g.width;
        const T* source = lane.at(pg.base >= 0 ? view.base + pg.base : view.tables + pg.tables, pg.entries);
        for (int y = rank; y < slot.labels; y += team_size) {
            double sum = 0;
            for (int k = 0; k < slot.others; ++k) {
                const long long e = (long long)view.ints[slot.own_entry + y] + view.ints[slot.other_entry + k];
                double hat = double(source[e * W]);
                const long long row = e / pg.last;
                for (int i = 0; i < pg.slot_count; ++i) {
                    const Slot& other = view.slots[pg.slots + i];
                    const int label = view.ints[other.row_label + row] + int(e - row * pg.last) * other.last_stride;
                    hat += double(lane.at(view.messages + other.messages, other.labels)[(long long)label * W]);
                }
                sum += s.belief(hat);
            }
            to[(long long)y * g.width] = sum;
        }
    };
    if (pg.width == 1)
        marginals(Lane<1>(parent_lane, rank));
    else
        marginals(Lane<32>(parent_lane, 0));
}

// q of a larger region: its belief, scaled slot by slot so that no marginal exceeds the child's q, then filled up with
// the product of what is missing. Items: one launch's share of the lanes; work space: one share per thread or team.
template <class T>
BF_DEVICE void certify_parents(const View<T>& view, const int* blocks, const Certificate<T>& c) {
    for_lane(view, blocks, [&](const Group& g, auto lane) {
        constexpr int W = lane.width, threads = lane.threads;
        const long long thread = block_number() * block_threads() + thread_number();
        // Shares lie side by side where threads work alone, one after the other where teams do.
        const long long step = W == 1 ? 1 : c.stride;
        double* q = c.work + (W == 1 ? thread / team_size * c.stride : thread);
        const Slot* slots = view.slots + g.slots;
        double* residual = q + g.entries * step;
        const Softmax at = softmax(view, g, lane, view.epsilon);
        const bool same = c.smoothing == view.epsilon;
        const Softmax smooth = same ? at : softmax(view, g, lane, c.smoothing);
        for_hat(view, g, lane, [&](long long e, double hat) { q[e * step] = smooth.belief(hat); });
        auto barrier = [&] {
            if constexpr (threads > 1) team_barrier();
        };
        auto entry = [&](const Slot& slot, int y, int k) {
            return (long long)view.ints[slot.own_entry + y] + view.ints[slot.other_entry + k];
        };
        for (int s = 0; s < g.slot_count; ++s) {
            const Slot& slot = slots[s];
            const double* target = lane.at(c.targets + slot.messages, slot.labels);
            barrier();
            for (int y = lane.rank; y < slot.labels; y += threads) {
                double marginal = 0;
                for (int k = 0; k < slot.others; ++k) marginal += q[entry(slot, y, k) * step];
                const double want = target[(long long)y * W], f = marginal > want ? want / marginal : 1.0;
                if (f != 1.0)
                    for (int k = 0; k < slot.others; ++k) q[entry(slot, y, k) * step] *= f;
            }
        }
        barrier();
        double delta = 0;
        long long covered = 1;
        double* r = residual;
        for (int s = 0; s < g.slot_count; ++s) {
            const Slot& slot = slots[s];
            const double* target = lane.at(c.targets + slot.messages, slot.labels);
            double mass = 0;
            for (int y = lane.rank; y < slot.labels; y += threads) {
                double marginal = 0;
                for (int k = 0; k < slot.others; ++k) marginal += q[entry(slot, y, k) * step];
                const double left = target[(long long)y * W] - marginal;
                r[y * step] = left > 0 ? left : 0.0;
                mass += left > 0 ? left : 0.0;
            }
            mass = lane.sum(mass);
            if (s == 0) delta = mass;
            const double scale = mass > 1e-290 ? 1 / mass : 0.0;  // must not overflow
            for (int y = lane.rank; y < slot.labels; y += threads) r[y * step] *= scale;
            covered *= slot.labels;
            r += slot.labels * step;
        }
        barrier();
        const double each = delta * (double(covered) / double(g.entries));  // axes without a child share it evenly
        double divergence = 0, distance = 0;
        for_hat(view, g, lane, [&](long long e, double hat) {
            double add = g.slot_count ? each : 0.0;
            const double* part = residual;
            const long long row = e / g.last;
            for (int s = 0; s < g.slot_count; ++s) {
                const int label = view.ints[slots[s].row_label + row] + int(e - row * g.last) * slots[s].last_stride;
                add *= part[label * step];
                part += slots[s].labels * step;
            }
            const double own = q[e * step] + add;
            if (c.candidate) lane.at(c.candidate + g.tables, g.entries)[e * W] = own;
            divergence += divergence_of_entry(own, at.n.temperature > 0 ? at.belief(hat) : own, hat, at.n);
            distance += own > 0 ? own * (at.n.largest - signed_entry(hat, at.n.sign)) : 0.0;
        });
        divergence = lane.sum(divergence), distance = lane.sum(distance);
        if (lane.rank == 0) {
            c.values[g.first_lane + lane.lane] = at.n.value;
            c.gaps[g.first_lane + lane.lane] =
                at.n.sign * (at.n.temperature > 0 ? at.n.temperature * divergence : distance);
        }
    });
}

}  // namespace blendfield::BF_ISA
