// The two-level certificate: q of single variables from their beliefs, q of larger regions by rounding; gaps of a given
// q.
#pragma once
#include "cpu/loops/beliefs.h"
#include "kernels/certificate.h"

namespace blendfield::BF_ISA {

namespace {

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

// The q of the children, slot after slot, [labels][W] each; returns the number of labels.
template <int W>
long long gather_targets(const GroupView& g, const CertificateView& c, const ValueItem& item, double* target) {
    const long long padded = (long long)g.blocks * W;
    long long targets = 0;
    for (int s = 0; s < g.slots; ++s) {
        const unsigned* at = c.child_q + c.child_start[item.group] + s * padded + (long long)item.block * W;
        const int stride = c.child_width[item.group][s];
        for (int l = 0; l < W; ++l)
            for (int y = 0; y < g.slot[s].labels; ++y)
                target[(targets + y) * W + l] = (item.mask >> l & 1) ? c.q[at[l] + (long long)y * stride] : 1.0;
        targets += g.slot[s].labels;
    }
    return targets;
}

template <class T, int W>
void certificate_block(const ProblemView<T>& view, const CertificateView& c, const ValueItem& item, long long k,
                       Scratch& scratch, double* candidate, Sink values, Sink gaps) {
    using V = BlockPack<double, W>;
    constexpr int P = Traits<V>::lanes;
    const GroupView& g = view.groups[item.group];
    double *hat = scratch.block[0], *q = candidate ? candidate : scratch.block[1], *target = scratch.marginal;
    const long long targets = gather_targets<W>(g, c, item, target);
    if constexpr (W == 1)
        if (g.in_pieces) {
            const ValueAndGap of_item = round_in_pieces(view, item, c.smoothing, target, target + targets, candidate);
            deposit(g, item, k, 0, of_item.value, values);
            deposit(g, item, k, 0, of_item.gap, gaps);
            return;
        }
    hat_block<T, W>(view, item, hat);
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
            gap = candidate
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
                 long long end, Scratch& scratch, double* candidate, Sink values, Sink gaps) {
    for (long long k = begin; k < end; ++k) {
        values.items[k] = gaps.items[k] = 0;
        const int width = view.groups[items[k].group].width;
        if (width == 32)
            certificate_block<T, 32>(view, c, items[k], k, scratch, candidate, values, gaps);
        else if (width == 8)
            certificate_block<T, 8>(view, c, items[k], k, scratch, candidate, values, gaps);
        else
            certificate_block<T, 1>(view, c, items[k], k, scratch, candidate, values, gaps);
    }
}

template <class T, int W>
void gaps_block(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, const double* q,
                Sink values, Sink gaps) {
    using V = BlockPack<double, W>;
    const GroupView& g = view.groups[item.group];
    hat_block<T, W>(view, item, scratch.block[0]);
    for_packs<W>(g, item, [&](int lane, V counting) {
        const auto n = normalise<V, W, true>(g.entries, scratch.block[0] + lane, counting * view.epsilon, counting,
                                             scratch.block[2] + lane);
        const bool soft = all_soft(view, g);
        finish_beliefs<V, W>(g.entries, scratch.block[0] + lane, n, soft, scratch.block[2] + lane);
        const V gap = gap_of_lane<V, W>(g.entries, scratch.block[0] + lane, scratch.block[2] + lane, q + lane, n, soft);
        deposit(g, item, k, lane, n.value, values);
        deposit(g, item, k, lane, gap, gaps);
    });
}

template <class T>
void gaps(const ProblemView<T>& view, const ValueItem& item, long long k, Scratch& scratch, const double* q,
          Sink values, Sink gaps) {
    values.items[k] = gaps.items[k] = 0;
    const GroupView& g = view.groups[item.group];
    if (g.in_pieces) {
        const ValueAndGap of_item = gap_in_pieces(view, item, q);
        deposit(g, item, k, 0, of_item.value, values);
        deposit(g, item, k, 0, of_item.gap, gaps);
    } else if (g.width == 32) {
        gaps_block<T, 32>(view, item, k, scratch, q, values, gaps);
    } else if (g.width == 8) {
        gaps_block<T, 8>(view, item, k, scratch, q, values, gaps);
    } else {
        gaps_block<T, 1>(view, item, k, scratch, q, values, gaps);
    }
}

}  // namespace

}  // namespace blendfield::BF_ISA
